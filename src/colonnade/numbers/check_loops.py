"""The inner loops of proofs about rows, compiled with numba for one thread."""

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
                squares[o] = _rotated(square)
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
def _rotated(square: Any) -> Any:
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
        hit = False
        while x >= 0 and rest >> 2 < roots.size:
            a = int64(roots[rest >> 2])
            if a >= 0:
                b = int64(int(math.sqrt(float64(rest - a * a)) + 0.5))
                out[i, 0], out[i, 1], out[i, 2] = x, a, b
                hit = True
                break
            rest += 4 * x - 4
            x -= 2
        if not hit:
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


Words = NDArray[np.uint64]

_MASK = 0x1FFFFF
_TILE = 256


@machine_code
def reduce(values: Floats, prime: int) -> None:
    """Every integer of a flat array modulo the prime, in place; integers below 2^52 in absolute value."""
    p = float64(prime)
    inverse = 1.0 / p
    for i in range(values.size):
        rest = values[i] - np.floor(values[i] * inverse) * p
        if rest < 0.0:
            rest += p
        if rest >= p:
            rest -= p
        values[i] = rest


@machine_code
def multiply(left: Floats, right: Floats, prime: int, one: int, zero: int, out: Floats) -> None:
    """Products modulo X⁴ − one·X − zero, element by element: residues of shape (4, n), or (4, 1) on the right."""
    p, c1, c0 = float64(prime), float64(one), float64(zero)
    inverse = 1.0 / p
    step = 0 if right.shape[1] == 1 else 1
    for i in range(left.shape[1]):
        a, b, c, d = left[0, i], left[1, i], left[2, i], left[3, i]
        j = i * step
        e, f, g, h = right[0, j], right[1, j], right[2, j], right[3, j]
        t4 = b * h + c * g + d * f
        t5 = c * h + d * g
        t6 = d * h
        t4 -= np.floor(t4 * inverse) * p
        t5 -= np.floor(t5 * inverse) * p
        t6 -= np.floor(t6 * inverse) * p
        out[0, i] = a * e + c0 * t4
        out[1, i] = a * f + b * e + c1 * t4 + c0 * t5
        out[2, i] = a * g + b * f + c * e + c1 * t5 + c0 * t6
        out[3, i] = a * h + b * g + c * f + d * e + c1 * t6
    for k in range(4):
        reduce(out[k], prime)


@machine_code
def add_ring_squares(values: Floats, scale: float, prime: int, one: int, zero: int, total: Floats) -> None:
    """total[:, u] += scale · Σ_j values[:, u, j]² modulo X⁴ − one·X − zero; total stays reduced."""
    p, c1, c0 = float64(prime), float64(one), float64(zero)
    inverse = 1.0 / p
    rows, columns = values.shape[1], values.shape[2]
    first, second, third, fourth = values[0], values[1], values[2], values[3]
    for u in range(rows):
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = 0.0
        for j in range(columns):
            a, b, c, d = first[u, j], second[u, j], third[u, j], fourth[u, j]
            a -= np.rint(a * inverse) * p
            b -= np.rint(b * inverse) * p
            c -= np.rint(c * inverse) * p
            d -= np.rint(d * inverse) * p
            s0 += a * a
            s1 += 2.0 * a * b
            s2 += 2.0 * a * c + b * b
            s3 += 2.0 * (a * d + b * c)
            s4 += 2.0 * b * d + c * c
            s5 += 2.0 * c * d
            s6 += d * d
        s4 -= np.floor(s4 * inverse) * p
        s5 -= np.floor(s5 * inverse) * p
        s6 -= np.floor(s6 * inverse) * p
        s0 += c0 * s4
        s1 += c1 * s4 + c0 * s5
        s2 += c1 * s5 + c0 * s6
        s3 += c1 * s6
        total[0, u] += scale * (s0 - np.floor(s0 * inverse) * p)
        total[1, u] += scale * (s1 - np.floor(s1 * inverse) * p)
        total[2, u] += scale * (s2 - np.floor(s2 * inverse) * p)
        total[3, u] += scale * (s3 - np.floor(s3 * inverse) * p)
    for k in range(4):
        reduce(total[k], prime)


@machine_code
def _add_pair(pair: Any, plus: Any, minus: Any) -> None:
    for j in range(pair.shape[1]):
        x, y, above, below = pair[0, j], pair[1, j], plus[j], minus[j]
        for u in range(x.size):
            above[u] = x[u] + y[u]
            below[u] = x[u] - y[u]


@machine_code
def _add_sums(sums: Any, scale: float, prime: int, total: Any) -> None:
    """total += scale · sums modulo the prime; sums are below 2^49."""
    p = float64(prime)
    inverse = 1.0 / p
    for u in range(total.size):
        value = total[u] + scale * sums[u]
        rest = value - np.floor(value * inverse) * p
        if rest < 0.0:
            rest += p
        if rest >= p:
            rest -= p
        total[u] = rest


@machine_code
def add_pair_squares(even: Floats, odd: Floats, scale: float, prime: int, first: int, total: Floats) -> None:
    """total += scale · Σ_j (even + odd)², and in its second half (even − odd)², modulo the prime.

    `even` and `odd` have shape (k, columns, u), columns · 2^40 being below 2^49; `total` has shape (2k, count), stays
    reduced, and is added to from column `first` on, as far as it goes.
    """
    p = float64(prime)
    inverse = 1.0 / p
    half = even.shape[0]
    width = min(even.shape[2], total.shape[1] - first)
    plus, minus = np.empty(width), np.empty(width)
    for k in range(half):
        plus[:], minus[:] = 0.0, 0.0
        for j in range(even.shape[1]):
            a, b = even[k, j], odd[k, j]
            for u in range(width):
                # The residues nearest to zero: their squares are smallest.
                v = a[u] + b[u]
                v -= np.rint(v * inverse) * p
                w = a[u] - b[u]
                w -= np.rint(w * inverse) * p
                plus[u] += v * v
                minus[u] += w * w
        _add_sums(plus, scale, prime, total[k, first : first + width])
        _add_sums(minus, scale, prime, total[half + k, first : first + width])


@machine_code
def add_pair_products(
    even: Floats, odd: Floats, other_even: Floats, other_odd: Floats, prime: int, first: int, total: Floats
) -> None:
    """As `add_pair_squares`, of Σ_j (even + odd)(other even + other odd), and the same with differences."""
    p = float64(prime)
    inverse = 1.0 / p
    half = even.shape[0]
    width = min(even.shape[2], total.shape[1] - first)
    plus, minus = np.empty(width), np.empty(width)
    for k in range(half):
        plus[:], minus[:] = 0.0, 0.0
        for j in range(even.shape[1]):
            a, b, c, d = even[k, j], odd[k, j], other_even[k, j], other_odd[k, j]
            for u in range(width):
                v = a[u] + b[u]
                v -= np.rint(v * inverse) * p
                w = a[u] - b[u]
                w -= np.rint(w * inverse) * p
                r = c[u] + d[u]
                r -= np.rint(r * inverse) * p
                s = c[u] - d[u]
                s -= np.rint(s * inverse) * p
                plus[u] += v * r
                minus[u] += w * s
        _add_sums(plus, 1.0, prime, total[k, first : first + width])
        _add_sums(minus, 1.0, prime, total[half + k, first : first + width])


@machine_code
def add_reduced(values: Floats, scale: float, primes: Integers, total: Floats) -> None:
    """total[q] += scale · (values[q] modulo primes[q]), reduced; integers below 2^52 in absolute value."""
    for q in range(total.shape[0]):
        reduce(values[q], primes[q])
        _add_sums(values[q], scale, primes[q], total[q])


@machine_code
def arrange(rows: Integers, count: int, first: int, plus: Floats, minus: Floats) -> None:
    """Sums and differences of rows in opposite groups of `count`, for the rows of a group from `first` on.

    plus[k, j, u] = rows[k·count + first + u, j] + rows[(half + k)·count + first + u, j], zero beyond the last row.
    Integers are below 2^31: processors make doubles of those many at a time.
    """
    half, columns, some = plus.shape
    pair = np.zeros((2, columns, some))
    for k in range(half):
        for side in range(2):
            start = (side * half + k) * count
            here, values = rows[start + first : min(start + count, start + first + some)], pair[side]
            values[:, len(here) :] = 0.0
            for j in range(columns):
                for u in range(len(here)):
                    values[j, u] = float64(int32(here[u, j]))
        _add_pair(pair, plus[k], minus[k])


@machine_code
def arrange_words(words: Words, count: int, first: int, q: int, plus: Floats, minus: Floats) -> None:
    """As `arrange`, of the residues modulo prime q that words hold."""
    half, columns, some = plus.shape
    pair, shift = np.zeros((2, columns, some)), 21 * q
    for k in range(half):
        for side in range(2):
            start = (side * half + k) * count
            here, values = words[start + first : min(start + count, start + first + some)], pair[side]
            values[:, len(here) :] = 0.0
            for j in range(columns):
                for u in range(len(here)):
                    values[j, u] = float64(int32((int64(here[u, j]) >> shift) & _MASK))
        _add_pair(pair, plus[k], minus[k])


@machine_code
def combine(words: Words, width: int, factors: Integers, primes: Integers, out: Floats) -> None:
    """out[q, c, l] += Σ_g factors[q, g, c] · residue q of words[g·width + l] modulo primes[q]; words end early."""
    groups = factors.shape[1]
    total = np.empty((12, _TILE), np.int64)
    for start in range(0, width, _TILE):
        stop = min(width, start + _TILE)
        total[:] = 0
        for g in range(groups):
            first, last = g * width + start, min(g * width + stop, words.size)
            if first >= last:
                break
            some = words[first:last]
            for q in range(3):
                shift = 21 * q
                w, x, y, z = total[4 * q], total[4 * q + 1], total[4 * q + 2], total[4 * q + 3]
                # Through 32 bits, because processors multiply those many at a time.
                a, b = int64(int32(factors[q, g, 0])), int64(int32(factors[q, g, 1]))
                c, d = int64(int32(factors[q, g, 2])), int64(int32(factors[q, g, 3]))
                for i in range(some.size):
                    v = int64(int32((int64(some[i]) >> shift) & _MASK))
                    w[i] += v * a
                    x[i] += v * b
                    y[i] += v * c
                    z[i] += v * d
        for k in range(12):
            target = out[k // 4, k % 4]
            p = float64(primes[k // 4])
            inverse = 1.0 / p
            for i in range(stop - start):
                v = float64(total[k, i]) + target[start + i]
                v -= np.floor(v * inverse) * p
                if v < 0.0:
                    v += p
                if v >= p:
                    v -= p
                target[start + i] = v
