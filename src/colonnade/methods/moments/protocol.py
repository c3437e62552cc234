"""Second moments with noise inside, by class or together: everybody deals, and the sum is opened once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.data.block import Block
from colonnade.data.table import Table
from colonnade.methods.moments.plan import MomentsPlan
from colonnade.protocols.agreement import charge_first
from colonnade.protocols.plans import TrainingSpec
from colonnade.protocols.session import RowSource, SessionResult, own_blocks, prepare, publish
from colonnade.protocols.sharing import MomentSum, Shared, alongside, open_to, share, share_noise, total
from colonnade.protocols.verified_products import reshare_products
from colonnade.protocols.verified_rows import check_rows, sum_products
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

Integers = NDArray[np.int64]


async def noisy_moments(party: Party, table: RowSource | None, plan: MomentsPlan) -> NDArray[np.int64] | None:
    """The noisy matrix Σ z̃z̃ᵀ at the server, None elsewhere."""
    release = plan.release(party.name, run=party.run, reproducible=party.seeded)
    await charge_first(party, release)
    moments = await sum_products(party, integer_blocks(party, table, plan), plan, columns=plan.size)
    upper = np.triu_indices(plan.size)
    noise = await share_noise(
        party, lambda: noise_part(party, plan)[upper], plan.coefficients, scheme=plan.scheme, step="noise"
    )
    opened = await open_to(
        party, party.group.server, moments + noise, scheme=plan.scheme, release=release, step="moments"
    )
    return None if opened is None else arranged(symmetric(opened[0], plan.size), plan)


def symmetric(upper: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    matrix = np.zeros((size, size), dtype=np.int64)
    matrix[np.triu_indices(size)] = upper
    return matrix + np.triu(matrix, 1).T


def arranged(matrix: NDArray[np.int64], plan: MomentsPlan) -> NDArray[np.int64]:
    """The matrix with the label block last; matrices by class are arranged from the start."""
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
    def integers(block: Block) -> NDArray[np.int64]:
        mine = plan.quantizers[party.name].quantize(block, party.randomness)
        if party.name != plan.label_holder:
            return mine
        return np.concatenate([mine, plan.labels.quantize(block.labels, plan.gamma, rows=len(mine))], axis=1)

    return own_blocks(party, table, integers, rows=plan.rows, size=plan.block)


def noise_part(party: Party, plan: MomentsPlan) -> NDArray[np.int64]:
    """This dealer's part, in the order in which columns are dealt.

    The product of two classes of one label is 0 in every row, which everybody knows, and gets no noise.
    """
    noise = plan.noise.part(plan.group.whole).draw_symmetric(plan.size, party.randomness)
    holder = plan.group.owners.index(plan.label_holder)
    start = sum(plan.widths[owner] for owner in plan.group.owners[: holder + 1])
    block = slice(start, start + plan.labels.width)
    noise[block, block] *= plan.labels.opened
    return noise


async def conditional_moments(party: Party, table: RowSource | None, plan: MomentsPlan) -> Integers | None:
    """The noisy matrices of all classes along one diagonal at the server, None elsewhere."""
    server, spans = party.group.server, [plan.class_span(kind) for kind in range(plan.label.width)]
    release = plan.release(party.name, run=party.run, reproducible=party.seeded)
    await charge_first(party, release)
    sums = [MomentSum(plan.field, plan.class_size, keeps_shares=party.keeps_shares) for _ in spans]
    blocks = own_blocks(
        party,
        table,
        lambda block: dealt_by_class(party.name, block, plan, party),
        rows=plan.rows,
        size=plan.block,
    )
    for number, (rows, mine) in enumerate(blocks):
        columns = await _dealt(party, mine, rows, plan, step=f"columns {number}")
        by_class = await _by_class(party, columns, plan, step=f"classes {number}")
        for moments, parts in zip(sums, by_class, strict=True):
            moments.add(parts)
        party.progress("columns", min((number + 1) * plan.block, plan.rows), plan.rows)

    def upper() -> Integers:
        whole, places = noise_by_class(party, plan), np.triu_indices(plan.class_size)
        return np.concatenate([whole[span, span][places] for span in spans])

    noise = await share_noise(party, upper, plan.coefficients, scheme=plan.scheme, step="noise")
    noisy = alongside([moments.upper_triangle() for moments in sums]) + noise
    opened = await open_to(party, server, noisy, scheme=plan.scheme, release=release, step="moments")
    if opened is None:
        return None
    whole = np.zeros((plan.size, plan.size), dtype=np.int64)
    for span, values in zip(spans, np.split(opened[0], len(spans)), strict=True):
        whole[span, span] = symmetric(values, plan.class_size)
    return whole


async def _dealt(
    party: Party, mine: Integers | None, rows: int, plan: MomentsPlan, *, step: str
) -> dict[str, Shared]:
    """Every owner's block, and at the label's holder the last indicator beside it; checked where the plan says so."""
    holder, classes, t = plan.label_holder, plan.label.width, party.group.threshold
    shapes = {owner: (rows, width) for owner, width in plan.widths.items()}
    # The label's holder deals its features for every class, and all indicators but the last.
    shapes[holder] = (rows, classes * plan.widths[holder] + classes - 1)
    columns = await share(party, mine, shapes, scheme=plan.scheme, degree=t, step=step)
    dealt = columns[holder]
    first, ones = dealt.shape[1] - (classes - 1), None
    if party.keeps_shares:
        encoded = plan.field.encode(np.ones((rows, 1), dtype=np.int64))
        ones = plan.scheme.constant(encoded, party.group.computing_parties.index(party.name), t)
    left = Shared(ones, (rows, 1), t)
    for kind in range(classes - 1):
        left = left - dealt.columns([first + kind])
    columns[holder] = alongside([dealt, left])
    if plan.verify != "none":
        whole = mine
        if mine is not None and party.name == holder:
            whole = np.column_stack([mine, 1 - mine[:, first:].sum(axis=1)])
        await check_rows(party, whole, columns, plan.claims, scheme=plan.scheme, step=step)
    return columns


def dealt_by_class(owner: str, block: Block, plan: MomentsPlan, party: Party | None = None) -> Integers:
    """An owner's integers: features, or at the label's holder features class by class, and then indicators."""
    randomness = None if party is None else party.randomness
    mine = plan.quantizers[owner].quantize(block, randomness)
    if owner != plan.label_holder:
        return mine
    # The constant of the label block is public: the indicator is dealt, and multiplied by it in shares.
    marks = plan.label.quantize(block.label, plan.gamma, rows=len(mine)) // plan.label.constant(plan.gamma)
    by_class = [mine * marks[:, [kind]] for kind in range(plan.label.width)]
    return np.concatenate([*by_class, marks[:, :-1]], axis=1)


async def _by_class(
    party: Party, columns: dict[str, Shared], plan: MomentsPlan, *, step: str
) -> list[list[Shared]]:
    """For each class, the shares of y_c·x̃ of every owner in order, and of y_c·g."""
    classes, holder = plan.label.width, plan.label_holder
    own = plan.widths[holder]
    marks = [columns[holder].columns([classes * own + kind]) for kind in range(classes)]
    masked: dict[str, list[Shared]] = {
        holder: [columns[holder].columns(range(kind * own, (kind + 1) * own)) for kind in range(classes)]
    }
    others = [owner for owner in plan.group.owners if owner != holder and plan.widths[owner]]
    if others:
        theirs = alongside([columns[owner] for owner in others])
        width = theirs.shape[1]
        repeated = alongside([marks[kind].columns([0] * width) for kind in range(classes - 1)])
        factors = (alongside([theirs] * (classes - 1)).in_rows_of(1), repeated.in_rows_of(1))
        products = await reshare_products(party, *factors, scheme=plan.scheme, verify=plan.verify, step=step)
        lowered = products.in_rows_of((classes - 1) * width)
        parts = [lowered.columns(range(kind * width, (kind + 1) * width)) for kind in range(classes - 1)]
        # Everybody has one class, so the last one has what the others leave.
        parts.append(theirs.without_masks() - total(parts))
        start = 0
        for owner in others:
            stop = start + plan.widths[owner]
            masked[owner] = [part.columns(range(start, stop)) for part in parts]
            start = stop
    constant = plan.label.constant(plan.gamma)
    return [
        [
            *(masked[owner][kind] for owner in plan.group.owners if plan.widths[owner]),
            marks[kind].times(constant),
        ]
        for kind in range(classes)
    ]


def noise_by_class(party: Party, plan: MomentsPlan) -> Integers:
    part = plan.noise.part(plan.group.whole)
    whole = np.zeros((plan.size, plan.size), dtype=np.int64)
    for span in map(plan.class_span, range(plan.label.width)):
        whole[span, span] = part.draw_symmetric(plan.class_size, party.randomness)
    return whole


@dataclass(frozen=True, eq=False)
class OpenedMoments(SessionResult[MomentsPlan]):
    matrix: NDArray[np.int64]


async def moments_session(party: Party, table: Table | None, spec: TrainingSpec) -> OpenedMoments:
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
