"""The whole path of one run of noisy margin descent, from strangers to weights that everybody may read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.data.table import Table
from colonnade.methods.margin.optimiser import MarginDescent
from colonnade.methods.margin.plan import MarginPlan
from colonnade.methods.margin.protocol import noisy_margin
from colonnade.protocols.session import SessionResult, prepare, publish
from colonnade.protocols.specs import TrainingSpec
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MarginTrained(SessionResult[MarginPlan]):
    """The weights with everything that says what they are, and, at an owner, the rows that went into them.

    `counts` are noisy numbers of people of each head's class. Weights are in the order of the plan's owners, each
    owner's features, one column for each head; the constant is the last of the label holder's. Both are empty at a
    member that only kept shares. `descent` is what the server opened and made of it.
    """

    weights: Array
    counts: Array
    descent: MarginDescent | None = None


async def margin_session(party: Party, table: Table | None, spec: TrainingSpec) -> MarginTrained:
    aligned, plan = await prepare(party, table, spec, MarginPlan)
    descent = await noisy_margin(party, aligned, plan)

    def checked(said: Message) -> Array:
        read: Array = said.array("weights", dtype="f8", shape=(plan.size + 1, plan.heads))
        if not np.isfinite(read).all() or (read[-1] <= 0).any() or (read[-1] >= plan.rows).any():
            raise said.wrong(
                "the published weights are not finite numbers, or its counts not of so many people"
            )
        return read

    trained = None if descent is None else np.concatenate([descent.model, descent.counts[None, :]])
    read = await publish(party, trained, "model", "weights", checked, np.zeros((0, plan.heads)))
    counts = read[-1] if len(read) else np.zeros(0)
    return MarginTrained(plan, party.run, party.seeded, aligned, read[:-1], counts, descent)
