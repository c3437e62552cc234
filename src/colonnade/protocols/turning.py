"""Products of shared complex numbers: rows that several owners dealt are turned by each other.

A complex number of every harmonic turns by the sum of the owners' angles. Owners are multiplied in a tree, so that K of
them take about log K rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from colonnade.crypto.shares import Scheme
from colonnade.numbers.field import FieldArray
from colonnade.protocols.shared import Shared, beside
from colonnade.protocols.sharing import lower
from colonnade.runtime.party import Party

Products = Callable[[FieldArray, FieldArray, int], FieldArray]


async def turned(party: Party, waves: Sequence[Shared], *, scheme: Scheme, groups: int, step: str) -> Shared:
    """Shares of the product of all of them, at degree t.

    Every group of columns holds real parts, then as many imaginary parts.
    """
    level, depth, width = list(waves), 0, waves[0].shape[1]
    while len(level) > 1:
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        whole = [pair for pair in pairs if len(pair) == 2]
        left, right = (beside([pair[side] for pair in whole]) for side in (0, 1))
        product = product_of(left, right, complex_products, groups * len(whole), width=left.shape[1])
        low = await lower(party, product, scheme=scheme, step=f"{step}.{depth}")
        level = [
            *(_taken(low, at * width, (at + 1) * width) for at in range(len(whole))),
            *(pair[0] for pair in pairs if len(pair) == 1),
        ]
        depth += 1
    return level[0]


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


def product_of(left: Shared, right: Shared, product: Products, groups: int, *, width: int) -> Shared:
    """A product of shares: its degree is the sum of both, and no mask is left."""
    degree, share = left.degree + right.degree, None
    if left.share is not None and right.share is not None:
        share = product(left.share, right.share, groups)
    return Shared(share, (left.shape[0], width), degree)


def _taken(value: Shared, start: int, stop: int) -> Shared:
    share = None if value.share is None else value.share.columns(start, stop)
    return Shared(share, (value.shape[0], stop - start), value.degree)
