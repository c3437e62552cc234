"""`Shared`: integers that nobody holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from colonnade.errors import LocalProtocolError
from colonnade.numbers.arrays import FieldArray, GramSum
from colonnade.numbers.field import Field

_BLOCK_ENTRIES = 1 << 20


def block_rows(columns: int) -> int:
    """Rows dealt at a time: enough to keep the kernels busy, few enough to bound memory."""
    return max(64, min(1 << 14, _BLOCK_ENTRIES // columns))


@dataclass(frozen=True, eq=False)
class Shared:
    """One node's view of a secret array: its share if it is a keeper, and what everybody may know.

    `degree` is the degree of the polynomial that holds the secret. `masks` names the fresh sharings of
    that full degree which are part of it, as "dealer/step"; a product of shares has none, because its
    coefficients are functions of the factors and would show more than the secret
    (docs/proofs/noise-degree.md). Only `open_to` turns a `Shared` into numbers.
    """

    share: FieldArray | None
    shape: tuple[int, int]
    degree: int
    masks: frozenset[str] = frozenset()

    def __add__(self, other: Shared) -> Shared:
        if other.degree != self.degree or other.shape != self.shape:
            raise LocalProtocolError(
                f"cannot add shares of degree {self.degree}, shape {self.shape} "
                f"and degree {other.degree}, shape {other.shape}"
            )
        share = None if self.share is None or other.share is None else self.share + other.share
        return replace(self, share=share, masks=self.masks | other.masks)

    def __sub__(self, other: Shared) -> Shared:
        negative = None if other.share is None else -other.share
        return self + replace(other, share=negative)

    def columns(self, places: Iterable[int]) -> Shared:
        """Some of the columns, in this order, any of them more than once."""
        taken = list(places)
        share = None if self.share is None else self.share.picked(taken)
        return replace(self, share=share, shape=(self.shape[0], len(taken)), masks=frozenset())

    def in_rows_of(self, columns: int) -> Shared:
        """The same entries, row by row, in rows of another length."""
        shape = (self.shape[0] * self.shape[1] // columns, columns)
        share = None if self.share is None else self.share.reshape(shape)
        return replace(self, share=share, shape=shape, masks=frozenset())

    def times(self, factor: int) -> Shared:
        """Every entry times a public integer."""
        share = None if self.share is None else self.share.times(factor)
        return replace(self, share=share, masks=frozenset())

    def without_masks(self) -> Shared:
        """The same secret, of whose masks nothing is claimed."""
        return replace(self, masks=frozenset())

    @property
    def dealers(self) -> frozenset[str]:
        return frozenset(mask.split("/")[0] for mask in self.masks)

    def __bool__(self) -> NoReturn:
        raise LocalProtocolError("nobody can branch on a secret; open it first")


class MomentSum:
    """Shares of the upper triangle of Σ ZᵀZ over blocks of rows, computed by each keeper alone.

    A node that keeps no shares runs the same lines and holds nothing.
    """

    def __init__(self, field: Field, columns: int, *, keeps_shares: bool) -> None:
        self._columns = columns
        self._sum = GramSum(field, columns) if keeps_shares else None
        self._degree = 0

    def add(self, blocks: Sequence[Shared]) -> None:
        """Add ZᵀZ, where Z is these secrets beside each other."""
        self._degree = 2 * blocks[0].degree
        if any(block.degree != blocks[0].degree for block in blocks):
            raise LocalProtocolError("columns side by side need the same degree")
        if self._sum is not None:
            self._sum.add(*(block.share for block in blocks if block.share is not None))

    def upper_triangle(self) -> Shared:
        """The sum, each unordered pair once, row by row. The degree has doubled and no mask is left."""
        shape = (1, self._columns * (self._columns + 1) // 2)
        if self._sum is None:
            return Shared(None, shape, self._degree)
        upper = self._sum.value().upper_triangle()
        return Shared(upper.reshape(shape), shape, self._degree)


def beside(values: Sequence[Shared]) -> Shared:
    """Secrets of one degree and as many rows beside each other; of their masks nothing is claimed."""
    first, *rest = values
    if any(value.degree != first.degree or value.shape[0] != first.shape[0] for value in rest):
        raise LocalProtocolError("secrets side by side need one degree and as many rows")
    shares = [value.share for value in values if value.share is not None]
    share = shares[0].stack_columns(shares[1:]) if len(shares) == len(values) else None
    return Shared(share, (first.shape[0], sum(value.shape[1] for value in values)), first.degree)


def total(values: Iterable[Shared]) -> Shared:
    first, *rest = values
    for value in rest:
        first = first + value
    return first
