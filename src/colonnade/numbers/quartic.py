"""Extensions of degree four in which a challenge is hard to guess, and what proofs about small rows build on them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from math import isqrt, prod
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from colonnade.numbers.field import EXACT_ROWS, FIELD63, FieldArray
from colonnade.numbers.residues import kernels
from colonnade.randomness import KeyedRandomness, Randomness

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


QUARTICS = (Quartic(PRIMES[0], 2, 1), Quartic(PRIMES[1], 4, 1), Quartic(PRIMES[2], 5, 2))
"""One extension for each prime of `FIELD63`: the polynomials are irreducible, by Rabin's test."""


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
    return np.stack([field.powers(point[q], count) for q, field in enumerate(QUARTICS)])


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


MOST_NORM = 1 << 36
"""The largest bound R for which a table finds nearly all representations; the rest takes a search."""
_TABLE = 1 << 22


@cache
def _roots() -> NDArray[np.int16]:
    table: NDArray[np.int16] = loops().two_squares_table(_TABLE)
    return table


def slack(rows: Integers, bound: int) -> Integers:
    """Three integers for each row with 4‖z‖² + a² + b² + c² = 4·bound + 1."""
    norms = np.einsum("ij,ij->i", rows, rows)
    if norms.size and int(norms.max()) > bound:
        raise ValueError(f"{int((norms > bound).sum())} of {len(rows)} rows are longer than the bound")
    numbers = 4 * (bound - norms) + 1
    out = np.zeros((len(rows), 3), dtype=np.int64)
    for at in loops().three_squares(numbers, _roots(), out):
        out[at] = _searched(int(numbers[at]))
    return out


def _searched(number: int) -> tuple[int, int, int]:
    for x in range(isqrt(number), -1, -1):
        rest = number - x * x
        a = np.arange(isqrt(rest // 2) + 1, dtype=np.int64)
        others = rest - a * a
        b = np.rint(np.sqrt(others.astype(np.float64))).astype(np.int64)
        squares = np.flatnonzero(b * b == others)
        if squares.size:
            return x, int(a[squares[0]]), int(b[squares[0]])
    raise ArithmeticError(f"{number} is not a sum of three squares")


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
