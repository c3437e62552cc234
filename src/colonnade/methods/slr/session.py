"""The whole path of one training run by noisy gradients, from strangers to weights that everybody may read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.data.table import Table
from colonnade.methods.slr.plan import (
    GradientPlan,
)
from colonnade.methods.slr.protocol import noisy_gradient
from colonnade.protocols.session import SessionResult, prepare, publish
from colonnade.protocols.specs import TrainingSpec
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TrainedWeights(SessionResult[GradientPlan]):
    """The weights with everything that says what they are, and, at an owner, the rows that went into them.

    In the order of the plan's owners, each owner's features; the constant is the last of the label holder's. Empty at
    a member that only kept shares.
    """

    weights: Array


async def gradient_session(party: Party, table: Table | None, spec: TrainingSpec) -> TrainedWeights:
    aligned, plan = await prepare(party, table, spec, GradientPlan)
    trained = await noisy_gradient(party, aligned, plan)

    def checked(said: Message) -> Array:
        read: Array = said.array("weights", dtype="f8", shape=(plan.size,))
        if not float(np.linalg.norm(read)) <= float(plan.schedule.weight_cap) * (1 + 1e-9):
            raise said.wrong("the published weights are longer than the plan allows")
        return read

    weights = await publish(party, trained, "model", "weights", checked, np.zeros(0))
    return TrainedWeights(plan, party.run, party.seeded, aligned, weights)
