"""Second moments by class: one matrix for the people of each class, opened together at the price of one for all.

A row of class c is in the matrix of c as z = (x̃, g) and in no other. With y_c the indicator of the class, the rows of
that matrix are y_c·z, because y_c² = y_c. The label's holder deals y_c·x̃ of its own columns, and y_c of all classes but
the last, which has what these leave of 1. Of the other owners' columns y_c·x̃ is a product of two secrets, which the
keepers bring back to degree t (one resharing of C − 1 classes; the last has what these leave of x̃). Then everything is
as in a plain release, class by class.

With `verify = "all"` two keepers check the norm of everybody's rows, that indicators are one-hot, and every product.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colonnade.data.block import Block
from colonnade.methods.moments.plan import MomentsPlan
from colonnade.protocols.charging import charge_first
from colonnade.protocols.session import RowSource, own_blocks
from colonnade.protocols.shared import MomentSum, Shared, beside, total
from colonnade.protocols.sharing import open_to, share, share_noise
from colonnade.protocols.verified_products import reshare_products
from colonnade.protocols.verified_rows import check_rows
from colonnade.runtime.party import Party

Integers = NDArray[np.int64]


async def conditional_moments(party: Party, table: RowSource | None, plan: MomentsPlan) -> Integers | None:
    """The noisy matrices of all classes along one diagonal at the server, None elsewhere."""
    server, classes = party.group.server, plan.label.width
    release = plan.release(party.name, run=party.run, reproducible=party.seeded)
    await charge_first(party, release)
    sums = [MomentSum(plan.field, plan.class_size, keeps_shares=party.keeps_shares) for _ in range(classes)]

    def integers(block: Block) -> Integers:
        return dealt_by_class(party.name, block, plan, party)

    blocks = own_blocks(party, table, integers, rows=plan.rows, size=plan.block)
    for number, (rows, mine) in enumerate(blocks):
        columns = await _dealt(party, mine, rows, plan, step=f"columns {number}")
        by_class = await _by_class(party, columns, plan, step=f"classes {number}")
        for moments, parts in zip(sums, by_class, strict=True):
            moments.add(parts)
        party.progress("columns", min((number + 1) * plan.block, plan.rows), plan.rows)

    def noise_part() -> Integers:
        return upper_by_class(noise_by_class(party, plan), plan)

    noise = await share_noise(party, noise_part, plan.coefficients, scheme=plan.scheme, step="noise")
    noisy = beside([moments.upper_triangle() for moments in sums]) + noise
    opened = await open_to(party, server, noisy, scheme=plan.scheme, release=release, step="moments")
    return None if opened is None else along_diagonal(opened[0], plan)


async def _dealt(
    party: Party, mine: Integers | None, rows: int, plan: MomentsPlan, *, step: str
) -> dict[str, Shared]:
    """Every owner's block, and at the label's holder the last indicator beside it; checked where the plan says so."""
    holder, classes, t = plan.label_holder, plan.label.width, party.group.threshold
    shapes = {owner: (rows, width) for owner, width in conditional_widths(plan).items()}
    columns = await share(party, mine, shapes, scheme=plan.scheme, degree=t, step=step)
    dealt = columns[holder]
    first = dealt.shape[1] - (classes - 1)
    left = _ones(party, rows, plan)
    for kind in range(classes - 1):
        left = left - dealt.columns([first + kind])
    columns[holder] = beside([dealt, left])
    if plan.verify != "none":
        whole = mine
        if mine is not None and party.name == holder:
            whole = np.column_stack([mine, 1 - mine[:, first:].sum(axis=1)])
        await check_rows(party, whole, columns, plan.claims, scheme=plan.scheme, step=step)
    return columns


def _ones(party: Party, rows: int, plan: MomentsPlan) -> Shared:
    """A column of ones, of which every keeper knows its share."""
    share, t = None, party.group.threshold
    if party.keeps_shares:
        ones = plan.field.encode(np.ones((rows, 1), dtype=np.int64))
        share = plan.scheme.constant(ones, party.group.keepers.index(party.name), t)
    return Shared(share, (rows, 1), t)


def conditional_widths(plan: MomentsPlan) -> dict[str, int]:
    """How many columns each owner deals: its features; the label's holder for every class, with indicators."""
    classes = plan.label.width
    return {
        owner: classes * width + classes - 1 if owner == plan.label_holder else width
        for owner, width in plan.widths.items()
    }


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
        theirs = beside([columns[owner] for owner in others])
        width = theirs.shape[1]
        repeated = beside([marks[kind].columns([0] * width) for kind in range(classes - 1)])
        factors = (beside([theirs] * (classes - 1)).in_rows_of(1), repeated.in_rows_of(1))
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
    """This dealer's part of the noise, one matrix for each class along one diagonal."""
    part = plan.noise.part(plan.group.whole)
    whole = np.zeros((plan.size, plan.size), dtype=np.int64)
    for kind in range(plan.label.width):
        place = plan.class_span(kind)
        whole[place, place] = part.draw_symmetric(plan.class_size, party.randomness)
    return whole


def upper_by_class(whole: Integers, plan: MomentsPlan) -> Integers:
    """The upper triangles of all classes, one after another."""
    upper = np.triu_indices(plan.class_size)
    spans = [plan.class_span(kind) for kind in range(plan.label.width)]
    return np.concatenate([whole[span, span][upper] for span in spans])


def along_diagonal(opened: Integers, plan: MomentsPlan) -> Integers:
    """One symmetric matrix with those of the classes along its diagonal."""
    whole = np.zeros((plan.size, plan.size), dtype=np.int64)
    upper = np.triu_indices(plan.class_size)
    for kind, values in enumerate(np.split(opened, plan.label.width)):
        one = np.zeros((plan.class_size, plan.class_size), dtype=np.int64)
        one[upper] = values
        place = plan.class_span(kind)
        whole[place, place] = one + np.triu(one, 1).T
    return whole
