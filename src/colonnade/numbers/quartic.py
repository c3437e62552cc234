"""Extensions of degree four of the three primes of a word, in which a cheater's guess succeeds once in 2^84.

A prime of 21 bits is too small for a check at a random point. For each prime p of `FIELD63` there is the field of p⁴
elements F_p[X]/(X⁴ − bX − a) with the smallest a, b that make it one. An array of elements is a float array of shape
(3, 4, …): for each prime the four coefficients, each below its prime. Doubles hold them exactly, as in `products`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import prod
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from colonnade.numbers.arrays import FieldArray
from colonnade.numbers.field import FIELD63
from colonnade.numbers.kernels import kernels
from colonnade.numbers.products import EXACT_ROWS
from colonnade.randomness import Randomness

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

PRIMES = FIELD63.primes
ORDER = min(PRIMES) ** 4
"""No extension has fewer elements."""


@cache
def loops() -> ModuleType:
    """The module `check_loops`, loaded at first use as `kernels` are."""
    from colonnade.numbers import check_loops

    return check_loops


def reduced(values: Floats, prime: int) -> Floats:
    """Integers modulo the prime, in an array of their own."""
    out = np.array(values, dtype=np.float64, order="C")
    loops().reduce(out.reshape(-1), prime)
    return out


def product(left: Floats, right: Floats, prime: int) -> Floats:
    """A matrix product of residues, exactly: reduced after every 2048 terms."""
    out = reduced(left[..., :EXACT_ROWS] @ right[:EXACT_ROWS], prime)
    for start in range(EXACT_ROWS, left.shape[-1], EXACT_ROWS):
        out += left[..., start : start + EXACT_ROWS] @ right[start : start + EXACT_ROWS]
        loops().reduce(out.reshape(-1), prime)
    return out


@dataclass(frozen=True)
class Quartic:
    """F_p[X]/(X⁴ − one·X − zero); arrays of its elements have shape (4, n)."""

    prime: int
    one: int
    zero: int

    def times(self, left: Floats, right: Floats) -> Floats:
        """Products element by element; a `right` of one element multiplies every one."""
        out = np.empty(left.shape)
        loops().multiply(left, right, self.prime, self.one, self.zero, out)
        return out

    def folded(self, table: Floats) -> Floats:
        """Σ table[i, j] X^(i + j) as elements, for residues of shape (4, 4, …)."""
        powers = np.zeros((7, *table.shape[2:]))
        for i in range(4):
            powers[i : i + 4] += table[i]
        loops().reduce(powers.reshape(-1), self.prime)
        for degree in (6, 5, 4):
            powers[degree - 4] += self.zero * powers[degree]
            powers[degree - 3] += self.one * powers[degree]
        return reduced(powers[:4], self.prime)

    def dot(self, left: Floats, right: Floats) -> Floats:
        """Σ left·right over all elements, as one element of shape (4,)."""
        return self.folded(product(left, np.ascontiguousarray(right.T), self.prime))

    def weighted(self, weights: Floats, values: Floats) -> Floats:
        """Σ_k weights[k]·values[k] for residues `values` of the prime itself, shape (n, …): elements (4, …)."""
        return product(weights, values, self.prime)

    def scaled(self, values: Floats, factor: int) -> Floats:
        """Every element times one integer."""
        return reduced(values * float(factor % self.prime), self.prime)

    def powers(self, point: Floats, count: int) -> Floats:
        """1, r, r², … as elements of shape (4, count)."""
        out = np.zeros((4, 1))
        out[0, 0] = 1.0
        step = point[:, None]
        while out.shape[1] < count:
            out = np.concatenate([out, self.times(out, step)], axis=1)
            step = self.times(step, step)
        return np.ascontiguousarray(out[:, :count])


@cache
def quartics() -> tuple[Quartic, Quartic, Quartic]:
    """One extension for each prime of `FIELD63`."""
    first, second, third = (_found(prime) for prime in PRIMES)
    return first, second, third


def _found(prime: int) -> Quartic:
    for zero in range(1, 64):
        for one in range(1, 8):
            if _is_field(prime, one, zero):
                return Quartic(prime, one, zero)
    raise ArithmeticError(f"no small field of degree 4 over {prime}")


def _is_field(prime: int, one: int, zero: int) -> bool:
    """Rabin's test: X^(p⁴) = X, and X^(p²) − X has no factor in common with X⁴ − one·X − zero."""
    x = [0, 1, 0, 0]
    if _power(x, prime**4, prime, one, zero) != x:
        return False
    square = _power(x, prime**2, prime, one, zero)
    square[1] = (square[1] - 1) % prime
    return len(_common([-zero % prime, -one % prime, 0, 0, 1], square, prime)) == 1


def _times(left: Sequence[int], right: Sequence[int], prime: int, one: int, zero: int) -> list[int]:
    powers = [0] * 7
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            powers[i + j] += a * b
    for degree in (6, 5, 4):
        powers[degree - 4] += zero * powers[degree]
        powers[degree - 3] += one * powers[degree]
    return [power % prime for power in powers[:4]]


def _power(base: list[int], exponent: int, prime: int, one: int, zero: int) -> list[int]:
    out = [1, 0, 0, 0]
    while exponent:
        if exponent & 1:
            out = _times(out, base, prime, one, zero)
        base = _times(base, base, prime, one, zero)
        exponent >>= 1
    return out


def _trimmed(polynomial: list[int]) -> list[int]:
    while polynomial and polynomial[-1] == 0:
        polynomial = polynomial[:-1]
    return polynomial


def _common(left: list[int], right: list[int], prime: int) -> list[int]:
    left, right = _trimmed(left), _trimmed(right)
    while right:
        inverse = pow(right[-1], -1, prime)
        while len(left) >= len(right):
            factor, shift = left[-1] * inverse % prime, len(left) - len(right)
            left = [(x - factor * right[i - shift]) % prime if i >= shift else x for i, x in enumerate(left)]
            left = _trimmed(left)
        left, right = right, left
    return left


@dataclass(frozen=True)
class Nodes:
    """Small integers at which a polynomial is known, and what it is elsewhere."""

    points: tuple[int, ...]

    @cached_property
    def basis(self) -> Floats:
        """The coefficients of each Lagrange polynomial: shape (3, points, points)."""
        count = len(self.points)
        out = np.empty((3, count, count))
        for q, prime in enumerate(PRIMES):
            whole = [int(coefficient) for coefficient in self._vanishing[q, 0]]
            for i, point in enumerate(self.points):
                poly = _divided(whole, point, prime)
                inverse = pow(prod(point - other for other in self.points if other != point), -1, prime)
                out[q, i] = [coefficient * inverse % prime for coefficient in poly]
        return out

    @cached_property
    def _vanishing(self) -> Floats:
        out = np.empty((3, 1, len(self.points) + 1))
        for q, prime in enumerate(PRIMES):
            poly = [1]
            for other in self.points:
                poly = _shifted(poly, other, prime)
            out[q, 0] = poly
        return out

    def values_at(self, points: tuple[int, ...]) -> Floats:
        """L_i(x) for each x, modulo each prime: shape (3, len(points), nodes)."""
        return _values_at(self, points)

    def at(self, powers: Floats) -> Floats:
        """L_i(r) for an element r of each extension, given by its `powers_of`: shape (3, 4, nodes)."""
        return _evaluated(self.basis, powers)

    def vanishing_at(self, powers: Floats) -> Floats:
        """∏ (r − node): shape (3, 4)."""
        return _evaluated(self._vanishing, powers)[:, :, 0]

    def vanishing(self, points: tuple[int, ...]) -> list[list[int]]:
        """∏ (x − node) modulo each prime, for integers x."""
        whole = [prod(x - node for node in self.points) for x in points]
        return [[value % prime for value in whole] for prime in PRIMES]


@cache
def _values_at(nodes: Nodes, points: tuple[int, ...]) -> Floats:
    count = len(nodes.points)
    out = np.empty((3, len(points), count))
    for q, prime in enumerate(PRIMES):
        powers = [[pow(x, k, prime) for k in range(count)] for x in points]
        out[q] = product(np.array(powers, dtype=np.float64), nodes.basis[q].T.copy(), prime)
    return out


def powers_of(point: Floats, count: int) -> Floats:
    """1, r, r², … for an element r of each extension: shape (3, 4, count)."""
    return np.stack([field.powers(point[q], count) for q, field in enumerate(quartics())])


def _evaluated(polynomials: Floats, powers: Floats) -> Floats:
    out = np.empty((3, 4, polynomials.shape[1]))
    for q, prime in enumerate(PRIMES):
        out[q] = product(powers[q, :, : polynomials.shape[2]], polynomials[q].T, prime)
    return out


def _shifted(poly: list[int], node: int, prime: int) -> list[int]:
    return [
        ((poly[k - 1] if k else 0) - (node * poly[k] if k < len(poly) else 0)) % prime
        for k in range(len(poly) + 1)
    ]


def _divided(poly: list[int], node: int, prime: int) -> list[int]:
    out = [0] * (len(poly) - 1)
    carried = 0
    for k in range(len(poly) - 1, 0, -1):
        carried = (poly[k] + node * carried) % prime
        out[k - 1] = carried
    return out


def uniform(count: int, randomness: Randomness) -> Floats:
    """Uniform elements of all three extensions: shape (3, 4, count)."""
    return unpacked(FIELD63.uniform((4, count), randomness))


def unpacked(words: FieldArray) -> Floats:
    """Elements from words of shape (4, n), each of which holds one coefficient for each prime."""
    out = np.empty((3, *words.shape))
    kernels().unpack(words.words[0], out, 0)
    return out


def packed(elements: Floats) -> FieldArray:
    """The words that `unpacked` takes, as they are sent."""
    lanes = elements.astype(np.uint64)
    words = lanes[0] | (lanes[1] << np.uint64(21)) | (lanes[2] << np.uint64(42))
    return FieldArray(FIELD63, np.ascontiguousarray(words[None]))
