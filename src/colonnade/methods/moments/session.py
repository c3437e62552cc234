"""The whole path of one moment release, from strangers to a matrix that everybody may read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.data.table import Table
from colonnade.methods.moments.conditional import conditional_moments
from colonnade.methods.moments.plan import MomentsPlan
from colonnade.methods.moments.protocol import noisy_moments
from colonnade.protocols.session import SessionResult, prepare, publish
from colonnade.protocols.specs import TrainingSpec
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message


@dataclass(frozen=True, eq=False)
class OpenedMoments(SessionResult[MomentsPlan]):
    """The noisy matrix with everything that says what it is, and, at an owner, the rows that went into it."""

    matrix: NDArray[np.int64]


async def moments_session(party: Party, table: Table | None, spec: TrainingSpec) -> OpenedMoments:
    """Prepare, release once, publish."""
    aligned, plan = await prepare(party, table, spec, MomentsPlan)
    protocol = conditional_moments if plan.conditional else noisy_moments
    opened = await protocol(party, aligned, plan)
    nothing = np.zeros((0, 0), dtype=np.int64)
    matrix = await publish(
        party, opened, "release", "matrix", lambda said: checked_release(said, plan), nothing
    )
    return OpenedMoments(plan, party.run, party.seeded, aligned, matrix)


def checked_release(said: Message, plan: MomentsPlan) -> NDArray[np.int64]:
    """The published matrix, if it can be one: symmetric, and no entry beyond what the plan's field holds."""
    matrix = said.array("matrix", dtype="i8", shape=(plan.size, plan.size))
    if not np.array_equal(matrix, matrix.T):
        raise said.wrong("the published matrix is not symmetric")
    if matrix.size and max(int(matrix.max()), -int(matrix.min())) > plan.field.capacity:
        raise said.wrong("the published matrix has entries that no moments of this plan have")
    return matrix
