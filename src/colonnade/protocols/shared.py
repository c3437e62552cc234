"""`Shared`: integers that nobody holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NoReturn

from colonnade.errors import LocalProtocolError
from colonnade.numbers.field import FieldArray


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

    def moments(self) -> Shared:
        """Shares of ZᵀZ, computed by each keeper alone. The degree doubles and no mask is left."""
        columns = self.shape[1]
        share = None if self.share is None else self.share.gram()
        return Shared(share, (columns, columns), 2 * self.degree)

    @property
    def dealers(self) -> frozenset[str]:
        """Whose fresh masks of full degree are in it."""
        return frozenset(mask.split("/")[0] for mask in self.masks)

    def __bool__(self) -> NoReturn:
        raise LocalProtocolError("nobody can branch on a secret; open it first")


def beside(blocks: Iterable[Shared]) -> Shared:
    """The columns of several secrets side by side, in the order given."""
    first, *rest = blocks
    if any(block.shape[0] != first.shape[0] or block.degree != first.degree for block in rest):
        raise LocalProtocolError("columns side by side need the same rows and the same degree")
    shape = (first.shape[0], first.shape[1] + sum(block.shape[1] for block in rest))
    if first.share is None:
        return Shared(None, shape, first.degree)
    shares = [block.share for block in rest if block.share is not None]
    return Shared(first.share.stack_columns(shares), shape, first.degree)


def total(values: Iterable[Shared]) -> Shared:
    """The sum of several secrets."""
    first, *rest = values
    for value in rest:
        first = first + value
    return first
