"""Sums of random subsets of rows, which a single huge entry cannot all leave small.

Projection k of a column v is Σ_i s_i b_ik v_i with signs s_i = ±1, one for each row, and coins b_ik ∈ {0, 1}, all
independent and uniform. If some |v_i| is at least 2T, as an integer nearest to zero modulo M, then for at most one
value of b_ik the projection lies in [−T, T) modulo M: it does so for all of k = 1, …, L with probability at most 2^-L,
whatever the other entries are. For an honest column the signs make the sum small (docs/proofs/verified-rows.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.numbers.arrays import FieldArray
from colonnade.numbers.kernels import kernels
from colonnade.numbers.quartic import PRIMES, loops
from colonnade.randomness import KeyedRandomness

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_ROWS = 1024
"""Rows weighted at a time: so many products of 21 and 21 bits add up to an integer that `add_reduced` takes."""


@dataclass(frozen=True, eq=False)
class Projections:
    """The coins of `count` projections of so many rows."""

    signs: NDArray[np.uint8]
    subsets: NDArray[np.uint8]

    @classmethod
    def from_key(cls, key: bytes, *, rows: int, count: int) -> Projections:
        source, eights = KeyedRandomness(key), -(-rows // 8)
        subsets = source.words(-(-eights * count // 8)).view(np.uint8)[: eights * count]
        signs = source.words(-(-rows // 8)).view(np.uint8)[:rows]
        return cls(signs, subsets.reshape(eights, count))

    def of_integers(self, rows: Integers, pads: Integers) -> Integers:
        """Each projection of each column of integers below 2^21 in absolute value: shape (count, columns)."""
        total = np.zeros((self.subsets.shape[1], rows.shape[1] + pads.shape[1]), dtype=np.int64)
        loops().project_integers(rows, pads, self.signs, self.subsets, total)
        return total

    def of_shares(self, rows: FieldArray, pads: FieldArray, weights: Floats) -> Floats:
        """Σ_k weights[k]·projection k of each column of shares: elements of shape (3, 4, columns).

        The coins of a row are weighted first, so that it takes one multiplication for each coefficient of an element
        in place of an addition for each projection.
        """
        by_row = np.empty((self.signs.size, 16))
        flat = np.zeros((16, weights.shape[2]), dtype=np.int64)
        flat[:12] = weights.reshape(12, -1)
        # Sixteen are added as quickly as twelve.
        loops().coin_weights(flat, self.signs, self.subsets, np.repeat((*PRIMES, 1), 4), by_row)
        return np.concatenate([_weighted(by_row, share) for share in (rows, pads)], axis=2)


def _weighted(by_row: Floats, share: FieldArray) -> Floats:
    """Σ_i by_row[i]·row i, of the first four columns modulo the first prime and so on: shape (3, 4, columns)."""
    words, width = share.words[0], share.shape[1]
    total, products = np.zeros((3, 4 * width)), np.empty((3, 4, width))
    digits = np.empty((3, 1, _ROWS * width))
    for start in range(0, len(words), _ROWS):
        some = words[start : start + _ROWS].reshape(1, -1)
        kernels().unpack(some, digits, 0)
        here = digits[:, 0, : some.size].reshape(3, -1, width)
        for q in range(3):
            np.matmul(by_row[start : start + _ROWS, 4 * q : 4 * q + 4].T, here[q], out=products[q])
        loops().add_reduced(products.reshape(3, -1), 1.0, np.array(PRIMES), total)
    return total.reshape(3, 4, width)
