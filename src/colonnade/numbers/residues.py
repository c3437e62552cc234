"""Integers modulo a public number, as residues modulo primes of 21 bits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.randomness import Randomness

Words = NDArray[np.uint64]
Floats = NDArray[np.float64]
Triple = tuple[int, int, int]


@cache
def kernels() -> ModuleType:
    """The module `compiled`."""
    from colonnade.numbers import compiled

    return compiled


_DIGIT_BITS = 21
_LARGEST = 1 << _DIGIT_BITS
# So near to 2^21 that a product is reduced with two small multiplications, see `compiled`.
_GAP = 1 << 10
# So many products of two digits, and a digit, stay below 2^63.
_MOST_PRODUCTS = 1 << 20


def _is_prime(number: int) -> bool:
    return number % 2 == 1 and all(number % factor for factor in range(3, int(number**0.5) + 1, 2))


@dataclass(frozen=True)
class ResidueWords:
    """Word arithmetic for a product of 3, 6, … distinct primes just below 2^21.

    An array of integers is a word array of shape (limbs, …): limb l holds the residues modulo
    primes[3l], primes[3l+1] and primes[3l+2]. Sums and products act on each residue by itself, so they
    are those of the integers modulo the product of all primes (Chinese remainder theorem).
    """

    primes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.primes or len(self.primes) % 3 or len(set(self.primes)) != len(self.primes):
            raise ValueError(f"residues come in threes, modulo distinct primes; got {self.primes}")
        if not all(_LARGEST - _GAP < prime < _LARGEST and _is_prime(prime) for prime in self.primes):
            raise ValueError(f"every modulus must be a prime just below 2^21; got {self.primes}")

    @property
    def limbs(self) -> int:
        return len(self.primes) // 3

    @cached_property
    def _triples(self) -> tuple[Triple, ...]:
        p = self.primes
        return tuple((p[i], p[i + 1], p[i + 2]) for i in range(0, len(p), 3))

    def _flat(self, words: NDArray[Any]) -> NDArray[Any]:
        return words.reshape(self.limbs, -1)

    def add(self, left: Words, right: Words, out: Words) -> None:
        x, y, z = self._flat(left), self._flat(right), self._flat(out)
        for limb, primes in enumerate(self._triples):
            kernels().add(x[limb], y[limb], primes, z[limb])

    def subtract(self, left: Words, right: Words, out: Words) -> None:
        x, y, z = self._flat(left), self._flat(right), self._flat(out)
        for limb, primes in enumerate(self._triples):
            kernels().subtract(x[limb], y[limb], primes, z[limb])

    def multiply(self, left: Words, right: Words, out: Words) -> None:
        """Element by element; a `right` of one element multiplies every one."""
        x, y, z = self._flat(left), self._flat(right), self._flat(out)
        for limb, primes in enumerate(self._triples):
            kernels().multiply(x[limb], y[limb], primes, z[limb])

    def add_scaled(self, total: Words, words: Words, factor: Words, out: Words) -> None:
        """total + words · factor, for a factor of one element."""
        x, y, z, sums = (self._flat(each) for each in (words, factor, total, out))
        for limb, primes in enumerate(self._triples):
            kernels().add_scaled(z[limb], x[limb], y[limb], primes, sums[limb])

    def encode(self, values: NDArray[np.int64], out: Words) -> int:
        """Write the words of signed integers; returns the bits that occur in v, or in −v − 1 if v < 0."""
        z = self._flat(out)
        return max(int(kernels().encode(values.reshape(-1), p, z[i])) for i, p in enumerate(self._triples))

    def encode_exact(self, values: NDArray[np.object_], out: Words) -> None:
        """The same for Python integers of any size."""
        flat = self._flat(out)
        flat[...] = 0
        for limb, primes in enumerate(self._triples):
            for place, prime in enumerate(primes):
                residues = (values.reshape(-1) % prime).astype(np.uint64)
                flat[limb] |= residues << np.uint64(_DIGIT_BITS * place)

    def decode(self, words: Words) -> NDArray[Any]:
        """Signed integers nearest to zero: int64 where all fit, Python integers otherwise."""
        flat = self._flat(words)
        parts = []
        for limb, (p, q, r) in enumerate(self._triples):
            part = np.empty(words.shape[1:], dtype=np.int64)
            inverses = (pow(p, -1, q), pow(p * q, -1, r), pow(q, -1, r))
            kernels().decode(flat[limb], (p, q, r), inverses, part.reshape(-1))
            parts.append(part)
        if len(parts) == 1:
            return parts[0]
        if all(np.array_equal(part, parts[0]) for part in parts[1:]):
            # A signed integer that every limb agrees on is the integer itself.
            return parts[0]
        return self._join(parts)

    def _join(self, parts: list[NDArray[np.int64]]) -> NDArray[Any]:
        value = parts[0].astype(object)
        modulus = int(np.prod(np.array(self._triples[0], dtype=object)))
        for (p, q, r), part in zip(self._triples[1:], parts[1:], strict=True):
            step = (part.astype(object) - value) * pow(modulus, -1, p * q * r) % (p * q * r)
            value = value + modulus * step
            modulus *= p * q * r
        value %= modulus
        value = np.where(value > modulus // 2, value - modulus, value)
        largest = max((abs(int(v)) for v in value.flat), default=0)
        return value.astype(np.int64) if largest < 1 << 63 else value

    def uniform(self, shape: tuple[int, ...], randomness: Randomness) -> Words:
        """Uniform residues, exactly: a word with a residue past its prime is drawn again, whole.

        About one word in 43,000 is (one in 10,000 for the next three primes), so a word costs little
        more than its 64 random bits.
        """
        count = int(np.prod(shape, dtype=np.int64))
        parts = [self._uniform_limb(count, primes, randomness) for primes in self._triples]
        words = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return words.reshape(self.limbs, *shape)

    def _uniform_limb(self, count: int, primes: Triple, randomness: Randomness) -> Words:
        loops = kernels()
        words = randomness.words(count)
        loops.drop_top_bit(words)
        again = loops.invalid(words, primes)
        while again.size:
            fresh = randomness.words(again.size)
            loops.drop_top_bit(fresh)
            words[again] = fresh
            again = again[loops.invalid(fresh, primes)]
        return words

    def invalid(self, words: Words) -> int:
        """How many words are not three residues below their primes."""
        flat = self._flat(words)
        return sum(kernels().invalid(flat[limb], primes).size for limb, primes in enumerate(self._triples))

    def digits(self, words: Words) -> NDArray[np.uint32]:
        """Every residue by itself, in an array of shape (primes, …)."""
        shifts = (np.uint64(_DIGIT_BITS * place) for place in range(3))
        mask = np.uint64((1 << _DIGIT_BITS) - 1)
        lanes = [((words >> shift) & mask).astype(np.uint32) for shift in shifts]
        return np.stack(lanes, axis=1).reshape(len(self.primes), *words.shape[1:])

    def row_products(self, left: Words, right: Words, out: Words) -> None:
        """Σ left·right over the columns of every row, for at most 2^20 columns."""
        for limb, primes in enumerate(self._triples):
            kernels().row_products(left[limb], right[limb], primes, out[limb])

    def weighted_rows(self, words: Words, factors: Words, out: Words) -> None:
        """Σ factor·row over all rows: a matrix times a vector, without a detour through floats."""
        for limb, primes in enumerate(self._triples):
            total = np.zeros((3, words.shape[2]), dtype=np.int64)
            moduli = np.array(primes)[:, None]
            for start in range(0, words.shape[1], _MOST_PRODUCTS):
                stop = start + _MOST_PRODUCTS
                kernels().weighted_rows(words[limb, start:stop], factors[limb, start:stop], total)
                total %= moduli
            lanes = total.astype(np.uint64)
            shift = np.uint64(_DIGIT_BITS)
            out[limb] = lanes[0] | (lanes[1] << shift) | (lanes[2] << (shift + shift))

    # Sums of matrix products: see `products`.

    def empty_sum(self, rows: int, columns: int) -> Floats:
        return np.zeros((self.limbs, 3, rows, columns))

    def fold(self, total: Floats, limb: int, left: Floats, right: Floats) -> None:
        """Add leftᵀ·right to the running residues of one limb; digits meet their own kind only."""
        product = np.empty(total.shape[2:])
        for place, prime in enumerate(self._triples[limb]):
            np.matmul(left[place].T, right[place], out=product)
            kernels().fold(product, total[limb, place], prime)

    def sum_words(self, total: Floats) -> Words:
        lanes = total.astype(np.uint64)
        shift = np.uint64(_DIGIT_BITS)
        words: Words = lanes[:, 0] | (lanes[:, 1] << shift) | (lanes[:, 2] << (shift + shift))
        return words
