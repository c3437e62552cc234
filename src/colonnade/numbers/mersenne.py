"""Integers modulo the prime 2^61 − 1, one to a 64-bit word.

A check that a cheater must guess needs a field in which a guess is hopeless: modulo a prime of 21 bits it
succeeds once in two million, here once in 2^61. Plain numpy, and about four times the work per product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.numbers.kernels import Floats, Words
from colonnade.randomness import Randomness

MERSENNE = (1 << 61) - 1
_P = np.uint64(MERSENNE)
_BITS = np.uint64(61)


def _reduced(words: Words) -> Words:
    """Any word modulo p: 2^61 ≡ 1, so the bits above are added to those below."""
    words = (words & _P) + (words >> _BITS)
    return np.where(words >= _P, words - _P, words)


@dataclass(frozen=True)
class MersenneWords:
    """Word arithmetic modulo 2^61 − 1."""

    limbs = 1
    primes = (MERSENNE,)

    def add(self, left: Words, right: Words, out: Words) -> None:
        out[...] = _reduced(left + right)

    def subtract(self, left: Words, right: Words, out: Words) -> None:
        out[...] = _reduced(left + (_P - right))

    def multiply(self, left: Words, right: Words, out: Words) -> None:
        # Halves of 30 and 31 bits: with x = a·2^31 + b and y = c·2^31 + d,
        # xy ≡ 2ac + (ad + bc)·2^31 + bd, and every term below stays under 2^64.
        half, low = np.uint64(31), np.uint64((1 << 31) - 1)
        thirty, rest = np.uint64(30), np.uint64((1 << 30) - 1)
        a, b, c, d = left >> half, left & low, right >> half, right & low
        middle = a * d + b * c
        out[...] = _reduced(a * c * np.uint64(2) + (middle >> thirty) + ((middle & rest) << half) + b * d)

    def add_scaled(self, total: Words, words: Words, factor: Words) -> None:
        """total += words · factor, for a factor of one element."""
        product = np.empty_like(words)
        self.multiply(words, factor, product)
        self.add(total, product, total)

    def encode(self, values: NDArray[np.int64], out: Words) -> int:
        """Write the words of signed integers; returns the bits that occur in v, or in −v − 1 if v < 0."""
        out[0] = (values % MERSENNE).astype(np.uint64)
        return int(np.bitwise_or.reduce((values ^ (values >> 63)).reshape(-1)))

    def encode_exact(self, values: NDArray[np.object_], out: Words) -> None:
        """The same for Python integers of any size."""
        out.reshape(-1)[...] = (values.reshape(-1) % MERSENNE).astype(np.uint64)

    def decode(self, words: Words) -> NDArray[np.int64]:
        values: NDArray[np.int64] = words.reshape(words.shape[1:]).astype(np.int64)
        values -= MERSENNE * (values > MERSENNE // 2)
        return values

    def uniform(self, shape: tuple[int, ...], randomness: Randomness) -> Words:
        """Uniform elements, exactly: the one pattern of 61 bits that is not below p is drawn again."""
        words = randomness.words(int(np.prod(shape, dtype=np.int64))) & _P
        again = np.flatnonzero(words == _P)
        while again.size:
            fresh = randomness.words(again.size) & _P
            words[again] = fresh
            again = again[fresh == _P]
        return words.reshape(1, *shape)

    def invalid(self, words: Words) -> int:
        """How many words are not below the prime."""
        return int(np.count_nonzero(words >= _P))

    def digits(self, words: Words) -> Words:
        """The one residue, in an array of shape (1, …)."""
        return words.copy()

    def row_products(self, left: Words, right: Words, out: Words) -> None:
        """Σ left·right over the columns of every row."""
        product = np.empty_like(left)
        self.multiply(left, right, product)
        out[...] = 0
        for column in range(left.shape[2]):
            self.add(out, product[:, :, column], out)

    def weighted_rows(self, words: Words, factors: Words, out: Words) -> None:
        """Σ factor·row over all rows."""
        product = np.empty_like(words)
        self.multiply(words, factors[:, :, None], product)
        out[...] = 0
        for row in range(words.shape[1]):
            self.add(out, product[:, row], out)

    # Sums of matrix products: see `products`. Digits of 21 bits meet all kinds here.

    def empty_sum(self, rows: int, columns: int) -> Words:
        return np.zeros((1, rows, columns), dtype=np.uint64)

    def fold(self, total: Words, limb: int, left: Floats, right: Floats) -> None:
        """Add leftᵀ·right to the running sum: digit i times digit j counts 2^(21(i + j)) times."""
        for i in range(3):
            for j in range(3):
                product = (left[i].T @ right[j]).astype(np.uint64)
                weight = np.array([pow(2, 21 * (i + j), MERSENNE)], dtype=np.uint64)
                weighted = np.empty_like(product)
                self.multiply(product, weight, weighted)
                self.add(total[limb], weighted, total[limb])

    def sum_words(self, total: Words) -> Words:
        return total.copy()
