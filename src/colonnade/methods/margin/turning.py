"""Products of shared waves: rows of complex numbers are turned by each other, and at last by the label holder's.

A complex number of every harmonic turns by the sum of the owners' angles. Owners without the label are multiplied in a
tree, so that K owners take about log K rounds; only the real part of the last product is needed.
"""

from __future__ import annotations

from collections.abc import Callable

from colonnade.errors import LocalProtocolError
from colonnade.methods.margin.plan import MarginPlan
from colonnade.numbers.field import FieldArray
from colonnade.protocols.shared import Shared, beside
from colonnade.protocols.sharing import lower
from colonnade.runtime.party import Party

Products = Callable[[FieldArray, FieldArray, int], FieldArray]


async def shared_slopes(party: Party, waves: dict[str, Shared], plan: MarginPlan, label: str) -> Shared:
    """Shares of the slopes without their constant, one for every head, at degree t."""
    level = [waves[owner] for owner in plan.others]
    depth = 0
    while len(level) > 1:
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        turned = [pair for pair in pairs if len(pair) == 2]
        left, right = (beside([pair[side] for pair in turned]) for side in (0, 1))
        groups = plan.heads * len(turned)
        product = _product(left, right, complex_products, groups, width=left.shape[1])
        low = await lower(party, product, scheme=plan.scheme, step=f"turning {label}.{depth}")
        width = waves[plan.label_holder].shape[1]
        level = [
            *(_taken(low, at * width, (at + 1) * width) for at in range(len(turned))),
            *(pair[0] for pair in pairs if len(pair) == 1),
        ]
        depth += 1
    product = _product(waves[plan.label_holder], level[0], inner_products, plan.heads, width=plan.heads)
    return await lower(party, product, scheme=plan.scheme, step=f"slopes {label}")


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


def inner_products(left: FieldArray, right: FieldArray, heads: int) -> FieldArray:
    """The inner product of every row's columns, head by head.

    >>> import numpy as np
    >>> from colonnade.numbers.field import FIELD63
    >>> row = FIELD63.encode(np.array([[1, 2, 3, 4]]))
    >>> inner_products(row, row, 2).decode().tolist()
    [[5, 25]]
    """
    width = left.shape[1] // heads
    if heads == 1:
        return left.row_products(right)
    starts = range(0, left.shape[1], width)
    first, *rest = (left.columns(at, at + width).row_products(right.columns(at, at + width)) for at in starts)
    return first.stack_columns(rest)


def held(value: Shared) -> FieldArray:
    """A keeper's share of what was dealt."""
    if value.share is None:
        raise LocalProtocolError("a keeper lacks a share of what was dealt")
    return value.share


def _product(left: Shared, right: Shared, product: Products, groups: int, *, width: int) -> Shared:
    """A product of shares: its degree is the sum of both, and no mask is left."""
    degree, share = left.degree + right.degree, None
    if left.share is not None and right.share is not None:
        share = product(left.share, right.share, groups)
    return Shared(share, (left.shape[0], width), degree)


def _taken(value: Shared, start: int, stop: int) -> Shared:
    share = None if value.share is None else value.share.columns(start, stop)
    return Shared(share, (value.shape[0], stop - start), value.degree)
