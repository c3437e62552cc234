"""Second moments with noise inside: everybody deals columns, nobody sees them, the server opens one matrix.

Box of the protocol, after the Skellam moment release of SPCA (Skellam noise in BGW):

1. every owner charges its ledger for the whole release and tells its peers the ledger's head;
2. block by block, owners deal their integer columns to the keepers at degree t, and where the plan says so prove to two
   of them that no row is longer than agreed (`protocols.verified_rows`);
3. each keeper multiplies its own shares: degree 2t, nothing is sent;
4. every dealer of noise, each owner and a server that keeps shares, deals its part at degree 2t;
5. the sum is opened to the server, once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from colonnade.data.block import Block
from colonnade.methods.moments.plan import MomentsPlan
from colonnade.protocols.charging import charge_first
from colonnade.protocols.session import RowSource, own_blocks
from colonnade.protocols.sharing import open_to, share_noise
from colonnade.protocols.verified_rows import sum_products
from colonnade.runtime.party import Party


async def noisy_moments(party: Party, table: RowSource | None, plan: MomentsPlan) -> NDArray[np.int64] | None:
    """The noisy matrix Σ z̃z̃ᵀ at the server, None elsewhere."""
    release = plan.release(party.name, run=party.run, reproducible=party.seeded)
    await charge_first(party, release)
    moments = await sum_products(party, integer_blocks(party, table, plan), plan, columns=plan.size)
    noise = await share_noise(
        party, lambda: _noise(party, plan), plan.coefficients, scheme=plan.scheme, step="noise"
    )
    opened = await open_to(
        party, party.group.server, moments + noise, scheme=plan.scheme, release=release, step="moments"
    )
    return None if opened is None else arranged(symmetric(opened[0], plan.size), plan)


def symmetric(upper: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """The symmetric matrix of an upper triangle, row by row."""
    matrix = np.zeros((size, size), dtype=np.int64)
    matrix[np.triu_indices(size)] = upper
    return matrix + np.triu(matrix, 1).T


def arranged(matrix: NDArray[np.int64], plan: MomentsPlan) -> NDArray[np.int64]:
    """The matrix with the label block last: it is dealt beside the features of the party that holds it.

    Matrices by class are arranged from the start.
    """
    if plan.conditional:
        return matrix
    order, labels, start = [], [], 0
    for owner, width in plan.dealt.items():
        positions = list(range(start, start + width))
        order += positions[: plan.widths[owner]]
        labels += positions[plan.widths[owner] :]
        start += width
    order += labels
    return np.ascontiguousarray(matrix[np.ix_(order, order)])


def integer_blocks(
    party: Party, table: RowSource | None, plan: MomentsPlan
) -> Iterator[tuple[int, NDArray[np.int64] | None]]:
    """Row counts of the agreed blocks, with this owner's integers for each of them."""

    def integers(block: Block) -> NDArray[np.int64]:
        mine = plan.quantizers[party.name].quantize(block, party.randomness)
        if party.name != plan.label_holder:
            return mine
        return np.concatenate([mine, plan.labels.quantize(block.labels, plan.gamma, rows=len(mine))], axis=1)

    return own_blocks(party, table, integers, rows=plan.rows, size=plan.block)


def _noise(party: Party, plan: MomentsPlan) -> NDArray[np.int64]:
    return noise_part(party, plan)[np.triu_indices(plan.size)]


def noise_part(party: Party, plan: MomentsPlan) -> NDArray[np.int64]:
    """This dealer's part of the noise, in the order in which columns are dealt.

    Two different classes of one label are never both there: their product is 0 in every row, is
    known to everybody, and gets no noise.
    """
    noise = plan.noise.part(plan.group.whole).draw_symmetric(plan.size, party.randomness)
    start = sum(width for _, width in _until_label(plan))
    block = slice(start, start + plan.labels.width)
    noise[block, block] *= plan.labels.opened
    return noise


def _until_label(plan: MomentsPlan) -> Iterator[tuple[str, int]]:
    for owner, width in plan.widths.items():
        yield owner, width
        if owner == plan.label_holder:
            return
