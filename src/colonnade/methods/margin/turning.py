"""Products of shared waves: rows of complex numbers are turned by each other, and at last by the label holder's.

A complex number of every harmonic turns by the sum of the owners' angles. Owners without the label are multiplied in a
tree, so that K owners take about log K rounds; only the real part of the last product is needed.
"""

from __future__ import annotations

from colonnade.errors import LocalProtocolError
from colonnade.methods.margin.plan import MarginPlan
from colonnade.numbers.field import FieldArray
from colonnade.protocols.shared import Shared, beside
from colonnade.protocols.sharing import lower
from colonnade.protocols.verified_products import reshare_products
from colonnade.runtime.party import Party


async def shared_slopes(party: Party, waves: dict[str, Shared], plan: MarginPlan, label: str) -> Shared:
    """Shares of the slopes without their constant, one for every head, at degree t."""
    level = [waves[owner] for owner in plan.others]
    depth, width = 0, plan.wave_width
    while len(level) > 1:
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        turned = [pair for pair in pairs if len(pair) == 2]
        left, right = (beside([pair[side] for pair in turned]) for side in (0, 1))
        low = await _turned(party, left, right, plan, step=f"turning {label}.{depth}")
        level = [
            *(taken(low, at * width, (at + 1) * width) for at in range(len(turned))),
            *(pair[0] for pair in pairs if len(pair) == 1),
        ]
        depth += 1
    left, right = (each.in_rows_of(width // plan.heads) for each in (waves[plan.label_holder], level[0]))
    slopes = await reshare_products(
        party, left, right, scheme=plan.scheme, verify=plan.verify, step=f"slopes {label}"
    )
    return slopes.in_rows_of(plan.heads)


async def _turned(party: Party, left: Shared, right: Shared, plan: MarginPlan, *, step: str) -> Shared:
    """Products of complex numbers at degree t; those that are proved stand as inner products of two, one a row."""
    harmonics = plan.schedule.harmonics
    if plan.verify == "none":
        groups = left.shape[1] // (2 * harmonics)
        share = None
        if left.share is not None and right.share is not None:
            share = complex_products(left.share, right.share, groups)
        product = Shared(share, left.shape, left.degree + right.degree)
        return await lower(party, product, scheme=plan.scheme, step=step)
    factors = paired(left, right, harmonics)
    found = await reshare_products(party, *factors, scheme=plan.scheme, verify=plan.verify, step=step)
    return found.in_rows_of(left.shape[1])


def paired(left: Shared, right: Shared, harmonics: int) -> tuple[Shared, Shared]:
    """(a, −b)·(c, d) and (a, b)·(d, c) for every product (a + ib)(c + id), in the order of `complex_products`."""
    negative, width = left.times(-1), left.shape[1]
    both = beside([left, negative])
    mine: list[int] = []
    theirs: list[int] = []
    for start in range(0, width, 2 * harmonics):
        for real in range(start, start + harmonics):
            mine += [real, width + real + harmonics]
            theirs += [real, real + harmonics]
        for real in range(start, start + harmonics):
            mine += [real, real + harmonics]
            theirs += [real + harmonics, real]
    return both.columns(mine).in_rows_of(2), right.columns(theirs).in_rows_of(2)


def complex_products(left: FieldArray, right: FieldArray, groups: int) -> FieldArray:
    """Products of complex numbers: every group of columns holds real parts, then as many imaginary parts.

    >>> import numpy as np
    >>> from colonnade.numbers.field import FIELD63
    >>> i, turned = (FIELD63.encode(np.array([pair])) for pair in ([0, 1], [3, 4]))
    >>> complex_products(i, turned, 1).decode().tolist()
    [[-4, 3]]
    """
    half = left.shape[1] // (2 * groups)
    parts = []
    for start in range(0, left.shape[1], 2 * half):
        a, c = (one.columns(start, start + half) for one in (left, right))
        b, d = (one.columns(start + half, start + 2 * half) for one in (left, right))
        parts += [a.multiply(c) - b.multiply(d), a.multiply(d) + b.multiply(c)]
    return parts[0].stack_columns(parts[1:])


def held(value: Shared) -> FieldArray:
    """A keeper's share of what was dealt."""
    if value.share is None:
        raise LocalProtocolError("a keeper lacks a share of what was dealt")
    return value.share


def taken(value: Shared, start: int, stop: int) -> Shared:
    """Some columns beside each other."""
    share = None if value.share is None else value.share.columns(start, stop)
    return Shared(share, (value.shape[0], stop - start), value.degree)
