"""Every owner perturbs its own columns once and sends them to the server: no shares, no products under encryption.

Box of the protocol, after Algorithm 3 of SPCA/SLR (Skellam noise in BGW):

1. every owner charges its ledger and tells its peers the ledger's head;
2. block by block, each owner adds noise to its own integers and sends them to the server;
3. the server, which sees perturbed rows and nothing else, sums their products.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.data.table import Table
from colonnade.methods.local.plan import LocalPlan
from colonnade.methods.moments.protocol import arranged, integer_blocks
from colonnade.numbers.arrays import GramSum
from colonnade.numbers.field import FIELD63
from colonnade.protocols.charging import charge_first
from colonnade.protocols.messages import hear, tell
from colonnade.protocols.session import RowSource, SessionResult, prepare, publish
from colonnade.protocols.specs import TrainingSpec
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PerturbedMoments(SessionResult[LocalPlan]):
    """Σ z̃z̃ᵀ and Σ z̃ over perturbed rows, as the server summed them and everybody may read them."""

    matrix: Integers
    sums: Integers


async def local_session(party: Party, table: Table | None, spec: TrainingSpec) -> PerturbedMoments:
    aligned, plan = await prepare(party, table, spec, LocalPlan)
    summed = await perturbed_moments(party, aligned, plan)

    def checked(said: Message) -> Integers:
        read: Integers = said.array("moments", dtype="i8", shape=(plan.size + 1, plan.size))
        if not np.array_equal(read[:-1], read[:-1].T):
            raise said.wrong("the published matrix is not symmetric")
        return read

    both = await publish(party, summed, "release", "moments", checked, np.zeros((1, 0), dtype=np.int64))
    return PerturbedMoments(plan, party.run, party.seeded, aligned, both[:-1], both[-1])


async def perturbed_moments(party: Party, table: RowSource | None, plan: LocalPlan) -> Integers | None:
    """The moments of the perturbed rows, and their sums as one more row, at the server; None elsewhere."""
    columns = plan.columns
    await charge_first(party, plan.release(party.name, run=party.run, reproducible=party.seeded))
    total, sums = GramSum(FIELD63, plan.size), np.zeros(plan.size, dtype=np.int64)
    largest = columns.gamma + 1 + plan.noise.support
    for number, (rows, mine) in enumerate(integer_blocks(party, table, columns)):
        step = f"rows {number}"
        if mine is not None:
            mine = mine[:, : plan.dealt[party.name]]
            noisy = mine + plan.noise.draw(mine.shape, party.randomness)
            await tell(party, party.group.server, step, Message(arrays={"rows": noisy}))
        if party.is_server:
            parts = []
            for owner, width in plan.dealt.items():
                said = await hear(party, owner, step)
                part: Integers = said.array("rows", dtype="i8", shape=(rows, width))
                if part.size and max(int(part.max()), -int(part.min())) > largest:
                    raise said.wrong("it sent entries that no perturbed row of this plan has")
                parts.append(part)
            total.add(*(FIELD63.encode(part) for part in parts))
            sums += np.concatenate([part.sum(axis=0) for part in parts])
        party.progress("rows", min((number + 1) * columns.block, plan.rows), plan.rows)
    if not party.is_server:
        return None
    matrix = total.value().decode()
    if plan.spec.task != "pca":
        # A diagonal matrix is arranged as its entries are: the label block goes last.
        matrix, sums = arranged(matrix, columns), np.diag(arranged(np.diag(sums), columns))
    return np.concatenate([matrix, sums[None, :]])
