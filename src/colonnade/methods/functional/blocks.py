"""The dissection of a quadratic objective among parties: which coefficient needs whose columns.

f(w) = Σ_ab λ_ab w_a w_b + Σ_a λ_a w_a falls into blocks. A *single-party* block has the coefficients that one party's
columns determine: products of its features, their sums (the constant is public), and with the label where it holds it.
A *cross-party* block has those that take two parties: products of a feature of one and a feature, or the label, of the
other. Each unordered product is in one block, once. The squares of the label and of the constant are in none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Block:
    """The coefficients of one party, or of two together: products of columns `left` and `right`, left ≤ right."""

    owners: tuple[str, ...]
    left: Positions
    right: Positions

    @property
    def name(self) -> str:
        return "+".join(self.owners)

    @property
    def kind(self) -> str:
        return "single-party" if len(self.owners) == 1 else "cross-party"

    @property
    def size(self) -> int:
        return len(self.left)


@dataclass(frozen=True)
class Dissection:
    """Who owns how many features, who holds the label, and whether there is an intercept.

    Columns are dealt owner by owner: features, and after the label holder's the constant and the label.
    """

    owners: tuple[str, ...]
    widths: tuple[int, ...]
    holder: str
    intercept: bool

    @cached_property
    def dealt(self) -> dict[str, int]:
        extra = {self.holder: 1 + self.intercept}
        return {
            owner: width + extra.get(owner, 0) for owner, width in zip(self.owners, self.widths, strict=True)
        }

    @property
    def columns(self) -> int:
        return sum(self.dealt.values())

    @cached_property
    def features_of(self) -> dict[str, Positions]:
        """Where each owner's features stand among the dealt columns."""
        starts = np.cumsum([0, *self.dealt.values()])
        return {
            owner: np.arange(start, start + width)
            for owner, start, width in zip(self.owners, starts.tolist(), self.widths, strict=False)
        }

    @cached_property
    def features(self) -> Positions:
        """Where all features stand, in the order of the owners."""
        return np.concatenate(list(self.features_of.values()))

    @property
    def constant(self) -> int | None:
        """Where the constant stands, if there is an intercept."""
        return self.label - 1 if self.intercept else None

    @cached_property
    def label(self) -> int:
        """Where the label stands: last of its holder's columns."""
        names = list(self.dealt)
        return sum(self.dealt[owner] for owner in names[: names.index(self.holder) + 1]) - 1

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Single-party blocks in the order of the owners, then cross-party ones; none is empty."""
        blocks = [self._single(owner) for owner in self.owners]
        blocks += [self._cross(first, second) for first, second in combinations(self.owners, 2)]
        return tuple(block for block in blocks if block.size)

    @cached_property
    def opened(self) -> Positions:
        """Where the coefficients of all blocks, block by block, stand in the upper triangle read row by row."""
        left = np.concatenate([block.left for block in self.blocks])
        right = np.concatenate([block.right for block in self.blocks])
        return np.asarray(left * self.columns - left * (left - 1) // 2 + (right - left), dtype=np.int64)

    @property
    def coefficients(self) -> int:
        return sum(block.size for block in self.blocks)

    def matrix(self, coefficients: NDArray[np.int64]) -> NDArray[np.int64]:
        """The symmetric matrix of opened coefficients; what was not opened is 0."""
        left = np.concatenate([block.left for block in self.blocks])
        right = np.concatenate([block.right for block in self.blocks])
        matrix = np.zeros((self.columns, self.columns), dtype=np.int64)
        matrix[left, right] = coefficients
        matrix[right, left] = coefficients
        return matrix

    def _single(self, owner: str) -> Block:
        mine = self.features_of[owner]
        above = np.triu_indices(len(mine))
        left, right = [mine[above[0]]], [mine[above[1]]]
        borders = [self.constant] if self.constant is not None else []
        if owner == self.holder:
            borders.append(self.label)
            if self.constant is not None:
                left.append(np.array([self.constant]))
                right.append(np.array([self.label]))
        for border in borders:
            left.append(mine)
            right.append(np.full(len(mine), border))
        return _block((owner,), left, right)

    def _cross(self, first: str, second: str) -> Block:
        sides = []
        for owner in (first, second):
            label = [self.label] if owner == self.holder else []
            sides.append(np.concatenate([self.features_of[owner], np.array(label, dtype=np.int64)]))
        left, right = (side.ravel() for side in np.meshgrid(*sides, indexing="ij"))
        return _block((first, second), [left], [right])


def _block(owners: tuple[str, ...], left: list[Positions], right: list[Positions]) -> Block:
    one, other = np.concatenate(left).astype(np.int64), np.concatenate(right).astype(np.int64)
    return Block(owners, np.minimum(one, other), np.maximum(one, other))
