"""Products of shared complex numbers: rows that several owners dealt are turned by each other.

A complex number of every harmonic turns by the sum of the owners' angles. Owners are multiplied in a tree, so that K of
them take about log K rounds.
"""

from __future__ import annotations

from collections.abc import Sequence

from colonnade.crypto.shares import Scheme
from colonnade.numbers.arrays import FieldArray
from colonnade.protocols.assumptions import Verify
from colonnade.protocols.shared import Shared, beside
from colonnade.protocols.sharing import lower
from colonnade.protocols.verified_products import reshare_products
from colonnade.runtime.party import Party


async def turned(
    party: Party,
    waves: Sequence[Shared],
    *,
    scheme: Scheme,
    groups: int,
    step: str,
    verify: Verify = "none",
) -> Shared:
    """Shares of the product of all of them, at degree t, with every keeper's products proved if all is verified.

    Every group of columns holds real parts, then as many imaginary parts.
    """
    level, depth, width = list(waves), 0, waves[0].shape[1]
    while len(level) > 1:
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        whole = [pair for pair in pairs if len(pair) == 2]
        left, right = (beside([pair[side] for pair in whole]) for side in (0, 1))
        label = f"{step}.{depth}"
        if verify == "all":
            factors = paired(left, right, groups * len(whole))
            products = await reshare_products(party, *factors, scheme=scheme, verify=verify, step=label)
            low = products.in_rows_of(left.shape[1])
        else:
            low = await lower(party, _product(left, right, groups * len(whole)), scheme=scheme, step=label)
        level = [
            *(taken(low, at * width, (at + 1) * width) for at in range(len(whole))),
            *(pair[0] for pair in pairs if len(pair) == 1),
        ]
        depth += 1
    return level[0]


def complex_products(left: FieldArray, right: FieldArray, groups: int) -> FieldArray:
    """Products of complex numbers: every group of columns holds real parts, then as many imaginary parts."""
    half = left.shape[1] // (2 * groups)
    parts = []
    for start in range(0, left.shape[1], 2 * half):
        a, c = (one.columns(start, start + half) for one in (left, right))
        b, d = (one.columns(start + half, start + 2 * half) for one in (left, right))
        parts += [a.multiply(c) - b.multiply(d), a.multiply(d) + b.multiply(c)]
    return parts[0].stack_columns(parts[1:])


def paired(left: Shared, right: Shared, groups: int) -> tuple[Shared, Shared]:
    """(a, −b)·(c, d) and (a, b)·(d, c), one a row, for every product (a + ib)(c + id) of `complex_products`."""
    width = left.shape[1]
    both, half = beside([left, left.times(-1)]), width // (2 * groups)
    mine: list[int] = []
    theirs: list[int] = []
    for start in range(0, width, 2 * half):
        for real in range(start, start + half):
            mine += [real, width + real + half]
            theirs += [real, real + half]
        for real in range(start, start + half):
            mine += [real, real + half]
            theirs += [real + half, real]
    return both.columns(mine).in_rows_of(2), right.columns(theirs).in_rows_of(2)


def _product(left: Shared, right: Shared, groups: int) -> Shared:
    """A product of shares: its degree is the sum of both, and no mask is left."""
    share = None
    if left.share is not None and right.share is not None:
        share = complex_products(left.share, right.share, groups)
    return Shared(share, left.shape, left.degree + right.degree)


def taken(value: Shared, start: int, stop: int) -> Shared:
    share = None if value.share is None else value.share.columns(start, stop)
    return Shared(share, (value.shape[0], stop - start), value.degree)
