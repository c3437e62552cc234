"""The loops of `colonnade.numbers.check_loops`, which says what each does, in plain numpy: the same integers."""

from math import isqrt

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_MASK = np.uint64(0x1FFFFF)
_SHIFTS = tuple(np.uint64(shift) for shift in (0, 21, 42))


def _whole(values: Floats) -> Integers:
    return values.astype(np.int64)


def reduce(values: Floats, prime: int) -> None:
    values[...] = _whole(values) % prime


def _ring(left: Integers, right: Integers, prime: int, one: int, zero: int) -> Integers:
    powers = [np.zeros(np.broadcast_shapes(left.shape[1:], right.shape[1:]), np.int64) for _ in range(7)]
    for i in range(4):
        for j in range(4):
            powers[i + j] = (powers[i + j] + left[i] * right[j]) % prime
    for degree in (6, 5, 4):
        powers[degree - 4] = (powers[degree - 4] + zero * powers[degree]) % prime
        powers[degree - 3] = (powers[degree - 3] + one * powers[degree]) % prime
    return np.stack(powers[:4])


def multiply(left: Floats, right: Floats, prime: int, one: int, zero: int, out: Floats) -> None:
    out[...] = _ring(_whole(left), _whole(right), prime, one, zero)


def add_ring_squares(values: Floats, scale: float, prime: int, one: int, zero: int, total: Floats) -> None:
    whole = _whole(values) % prime
    squares = _ring(whole, whole, prime, one, zero).sum(axis=2) % prime
    total[...] = (_whole(total) + int(scale) * squares) % prime


def _paired(even: Floats, odd: Floats, sign: float, prime: int, width: int) -> Floats:
    values = even[:, :, :width] + sign * odd[:, :, :width]
    values -= np.rint(values / prime) * prime
    return values


def add_pair_squares(even: Floats, odd: Floats, scale: float, prime: int, first: int, total: Floats) -> None:
    _add_pairs((even, odd), (even, odd), scale, prime, first, total)


def add_pair_products(
    even: Floats, odd: Floats, other_even: Floats, other_odd: Floats, prime: int, first: int, total: Floats
) -> None:
    _add_pairs((even, odd), (other_even, other_odd), 1.0, prime, first, total)


def _add_pairs(
    left: tuple[Floats, Floats],
    right: tuple[Floats, Floats],
    scale: float,
    prime: int,
    first: int,
    total: Floats,
) -> None:
    half, _, some = left[0].shape
    width = min(some, total.shape[1] - first)
    for at, sign in ((0, 1.0), (half, -1.0)):
        products = _paired(*left, sign, prime, width) * _paired(*right, sign, prime, width)
        here = total[at : at + half, first : first + width]
        here[...] = _whole(here + scale * products.sum(axis=1)) % prime


def add_reduced(values: Floats, scale: float, primes: Integers, total: Floats) -> None:
    for q, prime in enumerate(primes):
        total[q] = _whole(total[q] + scale * (_whole(values[q]) % int(prime))) % int(prime)


def arrange(rows: Integers, count: int, first: int, plus: Floats, minus: Floats) -> None:
    half, columns, some = plus.shape
    padded = np.zeros((2 * half * count, columns))
    padded[: len(rows)] = rows
    chosen = padded.reshape(2, half, count, columns)[:, :, first : first + some].transpose(0, 1, 3, 2)
    upper, lower = np.zeros((2, *plus.shape))
    upper[:, :, : chosen.shape[3]], lower[:, :, : chosen.shape[3]] = chosen
    plus[...], minus[...] = upper + lower, upper - lower


def arrange_words(words: Words, count: int, first: int, q: int, plus: Floats, minus: Floats) -> None:
    arrange(((words >> _SHIFTS[q]) & _MASK).astype(np.int64), count, first, plus, minus)


def combine(words: Words, width: int, factors: Integers, primes: Integers, out: Floats) -> None:
    for g in range(factors.shape[1]):
        some = words[g * width : (g + 1) * width]
        for q, shift in enumerate(_SHIFTS):
            digits = ((some >> shift) & _MASK).astype(np.int64)
            here = out[q, :, : some.size]
            here += (factors[q, g][:, None] * digits) % int(primes[q])
    for q, prime in enumerate(primes):
        out[q] = _whole(out[q]) % int(prime)


def _chosen(signs: Bytes, subsets: Bytes) -> Floats:
    bits = np.unpackbits(subsets[:, :, None], axis=2, bitorder="little")
    chosen = bits.transpose(1, 0, 2).reshape(subsets.shape[1], -1)[:, : signs.size]
    return chosen * (1.0 - 2.0 * (signs & 1))


def coin_weights(weights: Integers, signs: Bytes, subsets: Bytes, primes: Integers, out: Floats) -> None:
    chosen = _chosen(np.zeros_like(signs), subsets)
    out[...] = _whole(weights.astype(np.float64) @ chosen).T % primes * (1.0 - 2.0 * (signs & 1))[:, None]


def project_integers(
    first: Integers, second: Integers, signs: Bytes, subsets: Bytes, total: Integers
) -> None:
    rows = np.concatenate([first, second], axis=1).astype(np.float64)
    total += _whole(_chosen(signs, subsets) @ rows)


def three_squares(numbers: Integers, roots: NDArray[np.int16], out: Integers) -> Integers:
    left = np.arange(numbers.size)
    x = np.array([isqrt(int(number)) for number in numbers], dtype=np.int64)
    x -= x & 1
    while True:
        rest = numbers - x * x
        tried = left[(x[left] >= 0) & (rest[left] >> 2 < roots.size)]
        if not tried.size:
            return left
        a = roots[rest[tried] >> 2].astype(np.int64)
        hit, a = tried[a >= 0], a[a >= 0]
        out[hit, 0], out[hit, 1] = x[hit], a
        out[hit, 2] = np.rint(np.sqrt((rest[hit] - a * a).astype(np.float64))).astype(np.int64)
        left = np.setdiff1d(left, hit)
        x[left] -= 2


def two_squares_table(size: int) -> NDArray[np.int16]:
    table = np.full(size, -1, np.int16)
    for a in range(0, isqrt(4 * size) + 1, 2):
        b = np.arange(1, isqrt(4 * size) + 2, 2)
        sums = a * a + b * b
        table[sums[sums < 4 * size] >> 2] = a
    return table
