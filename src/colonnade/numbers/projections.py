"""Sums of random subsets of rows, which a single huge entry cannot all leave small.

Projection k of a column v is Σ_i s_i b_ik v_i with signs s_i = ±1, one for each row, and coins b_ik ∈ {0, 1}, all
independent and uniform. If some |v_i| is at least 2T, as an integer nearest to zero modulo M, then for at most one value of
b_ik the projection lies in [−T, T) modulo M: it does so for all of k = 1, …, L with probability at most 2^-L, whatever
the other entries are. For an honest column the signs make the sum small (docs/proofs/verified-rows.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.numbers.field import FieldArray
from colonnade.numbers.quartic import PRIMES, loops
from colonnade.randomness import KeyedRandomness

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_TILE = 512


@dataclass(frozen=True, eq=False)
class Projections:
    """The coins of `count` projections of so many rows.

    >>> one = Projections.from_key(bytes(32), rows=3, count=2)
    >>> one.of_integers([np.array([[5], [0], [0]])]).shape
    (2, 1)
    """

    signs: NDArray[np.uint8]
    subsets: NDArray[np.uint8]

    @classmethod
    def from_key(cls, key: bytes, *, rows: int, count: int) -> Projections:
        """The coins that a key stands for."""
        source, eights = KeyedRandomness(key), -(-rows // 8)
        subsets = np.frombuffer(source.bytes(eights * count), np.uint8).reshape(eights, count)
        return cls(np.frombuffer(source.bytes(rows), np.uint8), subsets)

    def of_integers(self, blocks: Sequence[Integers]) -> Integers:
        """Each projection of each column of integers below 2^21 in absolute value: shape (count, columns)."""
        return self._summed(blocks, 1)

    def of_shares(self, blocks: Sequence[FieldArray]) -> Floats:
        """Each projection of each column of shares, modulo each prime: shape (3, count, columns)."""
        summed, start, parts = self._summed([block.words[0] for block in blocks], 3), 0, []
        for block in blocks:
            width = block.shape[1]
            lanes = summed[:, start : start + 3 * width].reshape(len(summed), 3, width)
            parts.append(lanes.transpose(1, 0, 2))
            start += 3 * width
        out = np.concatenate(parts, axis=2)
        return np.stack([lane % prime for lane, prime in zip(out, PRIMES, strict=True)]).astype(np.float64)

    def _summed(self, blocks: Sequence[NDArray[np.uint64] | Integers], lanes: int) -> Integers:
        width = lanes * sum(block.shape[1] for block in blocks)
        count, inner = self.subsets.shape[1], loops()
        # Whole vectors of sixteen: the processor adds so many at a time.
        wide = -(-width // 16) * 16
        total = np.zeros((count, wide), dtype=np.int64)
        tile = np.zeros((_TILE, wide), dtype=np.int32)
        for start in range(0, len(self.signs), _TILE):
            stop = min(start + _TILE, len(self.signs))
            signs = self.signs[start:stop]
            at = 0
            for block in blocks:
                some = block[start:stop]
                if lanes == 3:
                    inner.unpack_signed(some, signs, at, tile)
                else:
                    inner.take_signed(some, signs, tile[:, at:])
                at += some.shape[1]
            used = -(-(stop - start) // 8) * 8
            tile[stop - start : used] = 0
            inner.add_subsets(tile[:used], self.subsets[start // 8 : (start + used) // 8], total)
        return total[:, :width]
