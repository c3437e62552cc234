"""Slopes from shared waves: the owners without the label are turned by each other, and at last by the label holder's.

Only the real part of the last product is needed.
"""

from __future__ import annotations

from colonnade.errors import LocalProtocolError
from colonnade.methods.margin.plan import MarginPlan
from colonnade.numbers.field import FieldArray
from colonnade.protocols.shared import Shared
from colonnade.protocols.sharing import lower
from colonnade.protocols.turning import product_of, turned
from colonnade.runtime.party import Party


async def shared_slopes(party: Party, waves: dict[str, Shared], plan: MarginPlan, label: str) -> Shared:
    """Shares of the slopes without their constant, one for every head, at degree t."""
    others = await turned(
        party,
        [waves[owner] for owner in plan.others],
        scheme=plan.scheme,
        groups=plan.heads,
        step=f"turning {label}",
    )
    product = product_of(waves[plan.label_holder], others, inner_products, plan.heads, width=plan.heads)
    return await lower(party, product, scheme=plan.scheme, step=f"slopes {label}")


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
