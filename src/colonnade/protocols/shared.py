"""`Shared`: integers that nobody holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from colonnade.errors import LocalProtocolError
from colonnade.numbers.field import Field, FieldArray, GramSum

_BLOCK_ENTRIES = 1 << 20


def block_rows(columns: int) -> int:
    """Rows dealt at a time: enough to keep the kernels busy, few enough to bound memory.

    >>> block_rows(41), block_rows(1000)
    (16384, 1048)
    """
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

    @property
    def dealers(self) -> frozenset[str]:
        """Whose fresh masks of full degree are in it."""
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


def total(values: Iterable[Shared]) -> Shared:
    """The sum of several secrets."""
    first, *rest = values
    for value in rest:
        first = first + value
    return first
