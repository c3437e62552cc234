"""The whole path of one run of noisy margin descent, from strangers to weights that everybody may read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.data.table import Table
from colonnade.methods.margin.optimiser import MarginDescent
from colonnade.methods.margin.plan import MarginPlan
from colonnade.methods.margin.protocol import noisy_margin
from colonnade.methods.margin.request import MarginRequest
from colonnade.protocols.session import SessionResult, prepare, publish
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MarginTrained(SessionResult[MarginPlan]):
    """The weights with everything that says what they are, and, at an owner, the rows that went into them.

    In the order of the plan's owners, each owner's features, one column for each head; the constant is the last of the
    label holder's. Empty at a member that only kept shares. `descent` is what the server opened and made of it.
    """

    weights: Array
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
    return MarginTrained(plan, party.run, party.tainted, aligned, weights, descent)
