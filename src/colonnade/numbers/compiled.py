"""The inner loops over packed residues, compiled with numba for one thread.

A word holds three residues of 21 bits, the first lowest; its top bit is zero. Every function takes one
word array and the three primes of its residues.

One thread each, because the parties of a run already occupy the cores, and without the interpreter lock,
so that a party can receive while it computes.
"""

from __future__ import annotations

import numpy as np
from numba import float64, int32, int64, uint64
from numpy.typing import NDArray

from colonnade.numbers.compiling import machine_code

Words = NDArray[np.uint64]
Floats = NDArray[np.float64]
Triple = tuple[int, int, int]

_MASK = 0x1FFFFF
_SKIP = 1024


@machine_code
def add(left: Words, right: Words, primes: Triple, out: Words) -> None:
    p, q, r = primes
    for i in range(left.size):
        x, y = int64(left[i]), int64(right[i])
        a = (x & _MASK) + (y & _MASK) - p
        b = ((x >> 21) & _MASK) + ((y >> 21) & _MASK) - q
        c = (x >> 42) + (y >> 42) - r
        a += p if a < 0 else 0
        b += q if b < 0 else 0
        c += r if c < 0 else 0
        out[i] = uint64(a | (b << 21) | (c << 42))


@machine_code
def subtract(left: Words, right: Words, primes: Triple, out: Words) -> None:
    p, q, r = primes
    for i in range(left.size):
        x, y = int64(left[i]), int64(right[i])
        a = (x & _MASK) - (y & _MASK)
        b = ((x >> 21) & _MASK) - ((y >> 21) & _MASK)
        c = (x >> 42) - (y >> 42)
        a += p if a < 0 else 0
        b += q if b < 0 else 0
        c += r if c < 0 else 0
        out[i] = uint64(a | (b << 21) | (c << 42))


@machine_code
def _reduced(value: int, prime: int, gap: int) -> int:
    # 2^21 ≡ gap: the bits above count gap times below. For gap < 2^10 and a value below 2^42, two rounds
    # leave less than 2p (docs/proofs/field.md).
    value = (value >> 21) * gap + (value & _MASK)
    value = (value >> 21) * gap + (value & _MASK) - prime
    return value + (prime if value < 0 else 0)


@machine_code
def multiply(left: Words, right: Words, primes: Triple, out: Words) -> None:
    """Element by element; a `right` of one word multiplies every element."""
    p, q, r = primes
    e, f, g = _MASK + 1 - p, _MASK + 1 - q, _MASK + 1 - r
    step = 0 if right.size == 1 else 1
    for i in range(left.size):
        x, y = int64(left[i]), int64(right[i * step])
        # Through 32 bits, because processors multiply those many at a time.
        a = _reduced(int64(int32(x & _MASK)) * int64(int32(y & _MASK)), p, e)
        b = _reduced(int64(int32((x >> 21) & _MASK)) * int64(int32((y >> 21) & _MASK)), q, f)
        c = _reduced(int64(int32(x >> 42)) * int64(int32(y >> 42)), r, g)
        out[i] = uint64(a | (b << 21) | (c << 42))


@machine_code
def add_scaled(total: Words, words: Words, factor: Words, primes: Triple, out: Words) -> None:
    """total + words · factor, for a factor of one word."""
    p, q, r = primes
    e, f, g = _MASK + 1 - p, _MASK + 1 - q, _MASK + 1 - r
    y = int64(factor[0])
    u, v, w = int64(int32(y & _MASK)), int64(int32((y >> 21) & _MASK)), int64(int32(y >> 42))
    for i in range(words.size):
        x, t = int64(words[i]), int64(total[i])
        a = _reduced(int64(int32(x & _MASK)) * u + (t & _MASK), p, e)
        b = _reduced(int64(int32((x >> 21) & _MASK)) * v + ((t >> 21) & _MASK), q, f)
        c = _reduced(int64(int32(x >> 42)) * w + (t >> 42), r, g)
        out[i] = uint64(a | (b << 21) | (c << 42))


@machine_code
def _encode_small(values: NDArray[np.int64], primes: Triple, out: Words) -> int:
    p, q, r = primes
    seen = int64(0)
    for i in range(values.size):
        x = values[i]
        sign = x >> 63
        seen |= x ^ sign
        out[i] = uint64((x + (p & sign)) | ((x + (q & sign)) << 21) | ((x + (r & sign)) << 42))
    return int(seen)


@machine_code
def _encode_any(values: NDArray[np.int64], primes: Triple, out: Words) -> None:
    p, q, r = primes
    for i in range(values.size):
        x = values[i]
        out[i] = uint64((x % p) | ((x % q) << 21) | ((x % r) << 42))


def encode(values: NDArray[np.int64], primes: Triple, out: Words) -> int:
    """Residues of signed integers; returns the bits that occur in v, or in −v − 1 for negative v."""
    # Integers of 20 bits and a sign need no division. The quick loop notes every bit it saw, and its
    # output is thrown away when there were more.
    seen = _encode_small(values, primes, out)
    if seen >> 20:
        _encode_any(values, primes, out)
    return seen


@machine_code
def _is_invalid(word: int, primes: Triple) -> bool:
    # Each sum reaches bit 21 exactly when its residue is not below its prime.
    a = (word & uint64(_MASK)) + uint64(_MASK + 1 - primes[0])
    b = ((word >> uint64(21)) & uint64(_MASK)) + uint64(_MASK + 1 - primes[1])
    c = (word >> uint64(42)) + uint64(_MASK + 1 - primes[2])
    return bool((a | b | c) >> uint64(21))


@machine_code
def invalid(words: Words, primes: Triple) -> NDArray[np.int64]:
    """The positions, in order, of words that hold a residue not below its prime, or a top bit."""
    total = 0
    for i in range(words.size):
        total += _is_invalid(words[i], primes)
    rows = np.empty(total, dtype=np.int64)
    at = 0
    for start in range(0, words.size, _SKIP):
        if at == total:
            break
        stop = min(start + _SKIP, words.size)
        here = 0
        for i in range(start, stop):
            here += _is_invalid(words[i], primes)
        if here:
            for i in range(start, stop):
                if _is_invalid(words[i], primes):
                    rows[at] = i
                    at += 1
    return rows


@machine_code
def drop_top_bit(words: Words) -> None:
    """Clear bit 63 of every word, in place."""
    for i in range(words.size):
        words[i] &= uint64(0x7FFFFFFFFFFFFFFF)


@machine_code
def row_products(left: Words, right: Words, primes: Triple, out: Words) -> None:
    """Σ left·right over the columns of every row; sums of 2^20 products of 42 bits fit a word."""
    p, q, r = primes
    for i in range(left.shape[0]):
        a = b = c = int64(0)
        for j in range(left.shape[1]):
            x, y = int64(left[i, j]), int64(right[i, j])
            a += (x & _MASK) * (y & _MASK)
            b += ((x >> 21) & _MASK) * ((y >> 21) & _MASK)
            c += (x >> 42) * (y >> 42)
        out[i] = uint64((a % p) | ((b % q) << 21) | ((c % r) << 42))


@machine_code
def weighted_rows(words: Words, factors: Words, total: NDArray[np.int64]) -> None:
    """Add Σ factor·row to three running sums of digits; 2^20 rows at most before they are reduced."""
    for i in range(words.shape[0]):
        y = int64(factors[i])
        u, v, w = int64(int32(y & _MASK)), int64(int32((y >> 21) & _MASK)), int64(int32(y >> 42))
        row, low, middle, high = words[i], total[0], total[1], total[2]
        for j in range(row.size):
            x = int64(row[j])
            low[j] += int64(int32(x & _MASK)) * u
            middle[j] += int64(int32((x >> 21) & _MASK)) * v
            high[j] += int64(int32(x >> 42)) * w


@machine_code
def unpack(words: Words, out: Floats, at: int) -> None:
    """Write the three 21-bit digits of a (rows, columns) block to columns `at`… of three float blocks."""
    rows, columns = words.shape
    stop = at + columns
    for i in range(rows):
        # Slices, so that the inner loop has no index arithmetic and becomes vector instructions.
        row, low, middle, high = words[i], out[0, i, at:stop], out[1, i, at:stop], out[2, i, at:stop]
        for j in range(columns):
            x = int64(row[j])
            low[j] = float64(x & _MASK)
            middle[j] = float64((x >> 21) & _MASK)
            high[j] = float64(x >> 42)


@machine_code
def fold(product: Floats, total: Floats, prime: int) -> None:
    """total = (total + product) mod prime, for integers below 2^53 in doubles."""
    p = float64(prime)
    inverse = 1.0 / p
    for i in range(product.shape[0]):
        added, row = product[i], total[i]
        for j in range(row.size):
            x = added[j] + row[j]
            rest = x - np.floor(x * inverse) * p
            if rest < 0.0:
                rest += p
            if rest >= p:
                rest -= p
            row[j] = rest


@machine_code
def decode(words: Words, primes: Triple, inverses: Triple, out: NDArray[np.int64]) -> None:
    """The integer nearest to zero with these residues, by Garner's mixed radix.

    `inverses` are 1/p mod q, 1/(pq) mod r and 1/q mod r.
    """
    p, q, r = primes
    modulus = p * q * r
    half = modulus // 2
    for i in range(words.size):
        x = int64(words[i])
        a = x & _MASK
        b = (((x >> 21) & _MASK) - a) % q * inverses[0] % q
        c = (((x >> 42) - a) % r * inverses[1] - b * inverses[2]) % r
        value = a + p * (b + q * c)
        out[i] = value - modulus if value > half else value
