"""The loops of `colonnade.numbers.compiled` in plain numpy: slower, and the same integers."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import numpy as np
import plain_check_loops
from numpy.typing import NDArray

from colonnade.numbers import check_loops, compiled

Words = NDArray[np.uint64]
Floats = NDArray[np.float64]
Triple = tuple[int, int, int]

_MASK = np.uint64(0x1FFFFF)
_SHIFTS = tuple(np.uint64(shift) for shift in (0, 21, 42))


def _digits(words: Words) -> tuple[NDArray[np.int64], ...]:
    low, middle = (((words >> shift) & _MASK).astype(np.int64) for shift in _SHIFTS[:2])
    return low, middle, (words >> _SHIFTS[2]).astype(np.int64)


def _pack(digits: list[NDArray[np.int64]], out: Words) -> None:
    out[...] = 0
    for digit, shift in zip(digits, _SHIFTS, strict=True):
        out |= digit.astype(np.uint64) << shift


def add(left: Words, right: Words, primes: Triple, out: Words) -> None:
    pairs = zip(_digits(left), _digits(right), primes, strict=True)
    _pack([(x + y) % p for x, y, p in pairs], out)


def subtract(left: Words, right: Words, primes: Triple, out: Words) -> None:
    pairs = zip(_digits(left), _digits(right), primes, strict=True)
    _pack([(x - y) % p for x, y, p in pairs], out)


def multiply(left: Words, right: Words, primes: Triple, out: Words) -> None:
    """Element by element; a `right` of one word multiplies every element."""
    pairs = zip(_digits(left), _digits(right), primes, strict=True)
    _pack([x * y % p for x, y, p in pairs], out)


def add_scaled(total: Words, words: Words, factor: Words, primes: Triple) -> None:
    """total += words · factor, for a factor of one word."""
    parts = zip(_digits(total), _digits(words), _digits(factor), primes, strict=True)
    _pack([(t + x * y) % p for t, x, y, p in parts], total)


def encode(values: NDArray[np.int64], primes: Triple, out: Words) -> int:
    """Residues of signed integers; returns the bits that occur in v, or in −v − 1 for negative v."""
    _pack([values % p for p in primes], out)
    return int(np.bitwise_or.reduce(values ^ (values >> 63)))


def invalid(words: Words, primes: Triple) -> NDArray[np.int64]:
    """The positions, in order, of words that hold a residue not below its prime, or a top bit."""
    pairs = zip(_digits(words), primes, strict=True)
    return np.flatnonzero(np.logical_or.reduce([digit >= p for digit, p in pairs]))


def drop_top_bit(words: Words) -> None:
    """Clear bit 63 of every word, in place."""
    words &= np.uint64(0x7FFFFFFFFFFFFFFF)


def row_products(left: Words, right: Words, primes: Triple, out: Words) -> None:
    """Σ left·right over the columns of every row; sums of 2^20 products of 42 bits fit a word."""
    pairs = zip(_digits(left), _digits(right), primes, strict=True)
    _pack([(x * y).sum(axis=1) % p for x, y, p in pairs], out)


def weighted_rows(words: Words, factors: Words, total: NDArray[np.int64]) -> None:
    """Add Σ factor·row to three running sums of digits; 2^20 rows at most before they are reduced."""
    for lane, (digit, factor) in enumerate(zip(_digits(words), _digits(factors), strict=True)):
        total[lane] += (digit * factor[:, None]).sum(axis=0)


def unpack(words: Words, out: Floats, at: int) -> None:
    """Write the three 21-bit digits of a (rows, columns) block to columns `at`… of three float blocks."""
    for lane, digit in enumerate(_digits(words)):
        out[lane, : words.shape[0], at : at + words.shape[1]] = digit


def fold(product: Floats, total: Floats, prime: int) -> None:
    """total = (total + product) mod prime, for integers below 2^53 in doubles."""
    total[...] = (product + total).astype(np.int64) % prime


def decode(words: Words, primes: Triple, inverses: Triple, out: NDArray[np.int64]) -> None:
    """The integer nearest to zero with these residues, by Garner's mixed radix.

    `inverses` are 1/p mod q, 1/(pq) mod r and 1/q mod r.
    """
    p, q, r = primes
    low, middle, high = _digits(words)
    b = (middle - low) % q * inverses[0] % q
    c = ((high - low) % r * inverses[1] - b * inverses[2]) % r
    value = low + p * (b + q * c)
    modulus = p * q * r
    out[...] = np.where(value > modulus // 2, value - modulus, value)


@contextmanager
def plain_numpy() -> Iterator[None]:
    """Run the plain loops inside this block, in place of the compiled ones of both modules."""
    with ExitStack() as replaced:
        for fast, plain in ((compiled, sys.modules[__name__]), (check_loops, plain_check_loops)):
            for name, loop in vars(plain).items():
                if (
                    callable(loop)
                    and not name.startswith("_")
                    and hasattr(loop, "__code__")
                    and hasattr(fast, name)
                ):
                    replaced.enter_context(patch.object(fast, name, loop))
        yield
