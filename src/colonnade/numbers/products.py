"""Exact matrix products of field elements through float64 BLAS.

Guarantee: `TransposedProduct` holds Σ AᵀB over all the row blocks it was given, exactly, as field elements.

Every word is cut into three digits of 21 bits and each digit becomes a double. A product of two digits is
below 2^42, and a sum of at most 2048 of them is below 2^53: every partial sum BLAS can form, in whatever
order and with or without fused multiply-add, is an integer that a double holds exactly. Then the sum is
reduced and the next chunk begins (docs/proofs/field.md). When both factors are the same array, BLAS
computes one triangle only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.numbers.kernels import Floats, Words, kernels

#: The most rows whose digit products sum exactly in a double.
EXACT_ROWS = 2048

# Long enough to keep BLAS busy, short enough for a chunk of three float blocks to stay near the processor.
_CHUNK_ENTRIES = 1 << 16


class WordArithmetic(Protocol):
    """What `residues` and `mersenne` know about their words."""

    @property
    def limbs(self) -> int: ...
    @property
    def primes(self) -> tuple[int, ...]: ...
    def add(self, left: Words, right: Words, out: Words) -> None: ...
    def subtract(self, left: Words, right: Words, out: Words) -> None: ...
    def multiply(self, left: Words, right: Words, out: Words) -> None: ...
    def add_scaled(self, total: Words, words: Words, factor: Words) -> None: ...
    def encode(self, values: NDArray[np.int64], out: Words) -> int: ...
    def encode_exact(self, values: NDArray[np.object_], out: Words) -> None: ...
    def decode(self, words: Words) -> NDArray[Any]: ...
    def invalid(self, words: Words) -> int: ...
    def digits(self, words: Words) -> NDArray[Any]: ...
    def row_products(self, left: Words, right: Words, out: Words) -> None: ...
    def weighted_rows(self, words: Words, factors: Words, out: Words) -> None: ...
    def empty_sum(self, rows: int, columns: int) -> NDArray[Any]: ...
    def fold(self, total: NDArray[Any], limb: int, left: Floats, right: Floats) -> None: ...
    def sum_words(self, total: NDArray[Any]) -> Words: ...


def _chunk_rows(columns: int) -> int:
    # Not below 512: with fewer rows, reducing the product would cost as much as computing it.
    return max(512, min(EXACT_ROWS, _CHUNK_ENTRIES // max(columns, 1)))


class TransposedProduct:
    """A running Σ AᵀB over row blocks; memory is one chunk of rows and the result."""

    def __init__(
        self, arithmetic: WordArithmetic, left_columns: int, right_columns: int | None = None
    ) -> None:
        self._arithmetic = arithmetic
        self._columns = left_columns, right_columns
        right = left_columns if right_columns is None else right_columns
        self._total = arithmetic.empty_sum(left_columns, right)
        self._chunk = _chunk_rows(max(left_columns, right))
        self._left = np.empty((3, self._chunk, left_columns))
        # Without a right factor the product is AᵀA, and one buffer is both.
        self._right = self._left if right_columns is None else np.empty((3, self._chunk, right_columns))

    def add(self, left: Sequence[Words], right: Sequence[Words] | None = None) -> None:
        """Add AᵀB for blocks of the same rows; the words of a factor stand beside each other."""
        rows = left[0].shape[1]
        for start in range(0, rows, self._chunk):
            stop = min(start + self._chunk, rows)
            size = stop - start
            for limb in range(self._arithmetic.limbs):
                _unpack(left, limb, start, stop, self._left)
                if right is not None:
                    _unpack(right, limb, start, stop, self._right)
                # A product of an array with its own transpose is seen by numpy only if they are one array.
                first = self._left[:, :size]
                second = first if right is None else self._right[:, :size]
                self._arithmetic.fold(self._total, limb, first, second)

    def words(self) -> Words:
        """The sum so far, in words of its own."""
        return self._arithmetic.sum_words(self._total)


def _unpack(blocks: Sequence[Words], limb: int, start: int, stop: int, out: Floats) -> None:
    at = 0
    for block in blocks:
        kernels().unpack(block[limb, start:stop], out, at)
        at += block.shape[2]
