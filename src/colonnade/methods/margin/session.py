"""The whole path of one run of noisy margin descent, from strangers to weights that everybody may read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.data.aligned import AlignedTable
from colonnade.data.schema import PublicSchema
from colonnade.data.table import Table
from colonnade.methods.margin.descent import MarginDescent
from colonnade.methods.margin.plan import MarginPlan, Schedule, plan_margin
from colonnade.methods.margin.protocol import noisy_margin
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.plans import Request
from colonnade.protocols.session import prepare, publish
from colonnade.runtime.group import Group
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MarginRequest(Request[MarginPlan]):
    """What the parties want, before anybody has said how many rows or which columns there are.

    >>> MarginRequest(epsilon=1.0).to_data()["schedule"]["steps"]
    20
    """

    epsilon: float
    schedule: Schedule = Schedule()
    delta: float | None = None
    accepted_delta: float | None = None
    gamma: int | None = None
    alignment: Alignment = "auto"

    method = "margin"

    def planned(self, group: Group, schemas: tuple[PublicSchema, ...], rows: int) -> MarginPlan:
        """With the least noise that keeps what is asked."""
        return plan_margin(group, schemas, rows=rows, **self.terms)


@dataclass(frozen=True, eq=False)
class MarginTrained:
    """The weights with everything that says what they are, and, at an owner, the rows that went into them.

    In the order of the plan's owners, each owner's features, one column for each head; the constant is the last of the
    label holder's. Empty at a member that only kept shares. `descent` is what the server opened and made of it.
    """

    weights: Array
    plan: MarginPlan
    run: str
    reproducible: bool
    aligned: AlignedTable | None
    descent: MarginDescent | None = None


async def margin_session(party: Party, table: Table | None, request: MarginRequest) -> MarginTrained:
    """Prepare, train, publish."""
    aligned, plan = await prepare(party, table, request)
    descent = await noisy_margin(party, aligned, plan)

    def checked(said: Message) -> Array:
        read: Array = said.array("weights", dtype="f8", shape=(plan.size, plan.heads))
        if not np.isfinite(read).all():
            raise said.wrong("the published weights are not finite numbers")
        return read

    trained = None if descent is None else descent.model
    weights = await publish(party, trained, "model", "weights", checked, np.zeros((0, plan.heads)))
    return MarginTrained(weights, plan, party.run, party.tainted, aligned, descent)
