"""The whole path of one training run by noisy gradients, from strangers to weights that everybody may read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.data.aligned import AlignedTable
from colonnade.data.quantizer import Rounding
from colonnade.data.schema import PublicSchema
from colonnade.data.table import Table
from colonnade.methods.slr.plan import (
    DEFAULT_GAMMA,
    GradientPlan,
    Schedule,
    plan_gradient,
)
from colonnade.methods.slr.protocol import noisy_gradient
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.assumptions import Verify
from colonnade.protocols.plans import Request
from colonnade.protocols.session import prepare, publish
from colonnade.runtime.group import Group
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GradientRequest(Request[GradientPlan]):
    """What the parties want, before anybody has said how many rows or which columns there are.

    >>> from colonnade.methods.slr.plan import schedule
    >>> GradientRequest(epsilon=1.0, schedule=schedule(epochs=2, rate=0.5)).to_data()["schedule"]["steps"]
    4
    """

    epsilon: float
    schedule: Schedule
    delta: float | None = None
    accepted_delta: float | None = None
    gamma: int = DEFAULT_GAMMA
    rounding: Rounding = "retry"
    alignment: Alignment = "auto"
    verify: Verify | None = None

    method = "slr"

    def planned(self, group: Group, schemas: tuple[PublicSchema, ...], rows: int) -> GradientPlan:
        """With the least noise that keeps what is asked."""
        return plan_gradient(group, schemas, rows=rows, **self.terms)


@dataclass(frozen=True, eq=False)
class TrainedWeights:
    """The weights with everything that says what they are, and, at an owner, the rows that went into them.

    In the order of the plan's owners, each owner's features; the constant is the last of the label holder's. Empty at
    a member that only kept shares.
    """

    weights: Array
    plan: GradientPlan
    run: str
    reproducible: bool
    aligned: AlignedTable | None


async def gradient_session(party: Party, table: Table | None, request: GradientRequest) -> TrainedWeights:
    """Prepare, train, publish."""
    aligned, plan = await prepare(party, table, request)
    trained = await noisy_gradient(party, aligned, plan)

    def checked(said: Message) -> Array:
        read: Array = said.array("weights", dtype="f8", shape=(plan.size,))
        if not float(np.linalg.norm(read)) <= float(plan.schedule.weight_cap) * (1 + 1e-9):
            raise said.wrong("the published weights are longer than the plan allows")
        return read

    weights = await publish(party, trained, "model", "weights", checked, np.zeros(0))
    return TrainedWeights(weights, plan, party.run, party.tainted, aligned)
