"""The inner loops that keep rows small, compiled with numba for one thread: random projections and three squares.

They belong to `check_loops`, which has them too, and have their plain twins in `tests/oracles/plain_check_loops.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import float64, int32, int64, uint64
from numpy.typing import NDArray

from colonnade.numbers.compiling import machine_code

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bytes = NDArray[np.uint8]

# So many residues of 21 bits add up to 32 bits.
_ROWS = 512
# So many sums of 32 bits are added at a time; what is left over would be added one by one.
_VECTOR = 32


@machine_code
def _add_subsets(rows: Any, subsets: Any, table: Any, total: Any) -> None:
    """total[k] += the sum of those rows i for which bit i mod 8 of subsets[i // 8, k] is set, by sums of four rows."""
    width = rows.shape[1]
    for i in range(0, rows.shape[0], 8):
        for half in range(2):
            # All sums of subsets of four rows, each from a smaller one: loops that become vector instructions.
            for r in range(4):
                for some in range(1 << r):
                    for j in range(width):
                        table[half, (1 << r) + some, j] = table[half, some, j] + rows[i + 4 * half + r, j]
        for k in range(total.shape[0]):
            chosen = int64(subsets[i >> 3, k])
            low, high = chosen & 15, chosen >> 4
            for j in range(width):
                total[k, j] += table[0, low, j] + table[1, high, j]


@machine_code
def coin_weights(weights: Integers, signs: Bytes, subsets: Bytes, primes: Integers, out: Floats) -> None:
    """out[i, c] = ± Σ_k weights[c, k], modulo primes[c], over k with bit i mod 8 of subsets[i // 8, k] set.

    Bits of eight k and eight rows are turned around, and each row's eight are one place of a table of all sums.
    """
    lanes, count = weights.shape
    octets = -(-count // 8)
    table = np.zeros((octets, 256, lanes), np.int32)
    for o in range(octets):
        for b in range(min(8, count - 8 * o)):
            for some in range(1 << b):
                for c in range(lanes):
                    table[o, (1 << b) + some, c] = table[o, some, c] + int32(weights[c, 8 * o + b])
    p = primes.astype(np.float64)
    inverse, squares = 1.0 / p, np.zeros(octets, np.uint64)
    sums = np.zeros(lanes, np.int32)
    for i in range(signs.size):
        if i & 7 == 0:
            for o in range(octets):
                square = uint64(0)
                for b in range(min(8, count - 8 * o)):
                    square |= uint64(subsets[i >> 3, 8 * o + b]) << uint64(8 * b)
                squares[o] = _turned(square)
        sums[:] = 0
        for o in range(octets):
            chosen = table[o, int64((squares[o] >> uint64(8 * (i & 7))) & uint64(255))]
            for c in range(sums.size):
                sums[c] += chosen[c]
        sign, row = 1.0 - 2.0 * (signs[i] & 1), out[i]
        for c in range(sums.size):
            value = float64(sums[c])
            row[c] = sign * (value - np.floor(value * inverse[c]) * p[c])


@machine_code
def _turned(square: Any) -> Any:
    """Eight bytes of which bit i of byte k is bit k of byte i, as one word."""
    x = uint64(square)
    t = (x ^ (x >> uint64(7))) & uint64(0x00AA00AA00AA00AA)
    x = x ^ t ^ (t << uint64(7))
    t = (x ^ (x >> uint64(14))) & uint64(0x0000CCCC0000CCCC)
    x = x ^ t ^ (t << uint64(14))
    t = (x ^ (x >> uint64(28))) & uint64(0x00000000F0F0F0F0)
    return x ^ t ^ (t << uint64(28))


@machine_code
def project_integers(
    first: Integers, second: Integers, signs: Bytes, subsets: Bytes, total: Integers
) -> None:
    """total[k] += the chosen rows, signed, of both arrays beside each other: integers below 2^21 in absolute value."""
    count, wide, narrow = signs.size, first.shape[1], second.shape[1]
    whole = -(-(wide + narrow) // _VECTOR) * _VECTOR
    tile = np.zeros((_ROWS, whole), np.int32)
    table = np.zeros((2, 16, whole), np.int32)
    here = np.empty((total.shape[0], whole), np.int32)
    for start in range(0, count, _ROWS):
        stop = min(start + _ROWS, count)
        for i in range(start, stop):
            sign = int64(1) - int64(2) * int64(signs[i] & 1)
            for j in range(wide):
                tile[i - start, j] = int32(sign * first[i, j])
            for j in range(narrow):
                tile[i - start, wide + j] = int32(sign * second[i, j])
        used = -(-(stop - start) // 8) * 8
        tile[stop - start : used] = 0
        here[:] = 0
        _add_subsets(tile[:used], subsets[start >> 3 :], table, here)
        for k in range(total.shape[0]):
            for j in range(wide + narrow):
                total[k, j] += here[k, j]


@machine_code
def three_squares(numbers: Integers, roots: NDArray[np.int16], out: Integers) -> Integers:
    """Numbers ≡ 1 (mod 4) as sums of three squares, by a table; returns the places where the table was too short.

    roots[m] is the even one of two numbers whose squares add up to 4m + 1, or −1. Of three squares that add up to 1
    modulo 4 two are even, so that even numbers are tried, the largest first.
    """
    missed = np.zeros(numbers.size, np.int64)
    misses = 0
    for i in range(numbers.size):
        m = numbers[i]
        x = int64(int(math.sqrt(float64(m))))
        while x * x > m:
            x -= 1
        while (x + 1) * (x + 1) <= m:
            x += 1
        x -= x & 1
        rest = m - x * x
        found = False
        while x >= 0 and rest >> 2 < roots.size:
            a = int64(roots[rest >> 2])
            if a >= 0:
                b = int64(int(math.sqrt(float64(rest - a * a)) + 0.5))
                out[i, 0], out[i, 1], out[i, 2] = x, a, b
                found = True
                break
            rest += 4 * x - 4
            x -= 2
        if not found:
            missed[misses] = i
            misses += 1
    return missed[:misses]


@machine_code
def two_squares_table(size: int) -> NDArray[np.int16]:
    """For each m below `size` some even a with 4m + 1 − a² a square, or −1."""
    table = np.full(size, np.int16(-1), np.int16)
    a = 0
    while a * a < 4 * size:
        b = 1
        while a * a + b * b < 4 * size:
            table[(a * a + b * b) >> 2] = a
            b += 2
        a += 2
    return table
