"""Fields of integers modulo a public number, and arrays of their elements.

`FIELD63` and `FIELD126` are products of three and six primes of 21 bits: the quickest exact arithmetic a
processor with fused multiply-add has to offer. `FIELD61` is the prime 2^61 − 1, for checks that rest on a
cheater not guessing.

A field stands for the integers from −capacity to capacity. A sum that leaves this range comes back as
another integer without a sign that anything happened, so `check_fits` is called on bounds before a run
and nothing is left to detect after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import FieldTooSmall
from colonnade.numbers.arrays import FieldArray, GramSum
from colonnade.numbers.mersenne import MERSENNE
from colonnade.numbers.modulus import Modulus
from colonnade.randomness import Randomness



@dataclass(frozen=True)
class Field(Modulus):
    """The integers modulo the product of `primes`, and arrays of them."""

    def encode(self, values: NDArray[Any]) -> FieldArray:
        """Integers as field elements; `decode` gives them back.

        Takes any integer array, or an object array of Python integers. An integer past the capacity is
        refused: it would decode to another one.
        """
        if values.dtype == object:
            return self._encode_exact(values)
        if values.dtype.kind not in "iu":
            raise TypeError(f"a field holds integers, not {values.dtype}: round first")
        if values.dtype == np.uint64:
            return self._encode_exact(values.astype(object))
        integers = np.asarray(values, dtype=np.int64, order="C")
        words = np.empty((self.words.limbs, *integers.shape), dtype=np.uint64)
        # The loop reports the bits it met, so that only integers near the capacity are looked at twice.
        if self.words.encode(integers, words) >= self.capacity:
            self._check(max(int(integers.max()), -int(integers.min())))
        return FieldArray(self, words)

    def _encode_exact(self, values: NDArray[np.object_]) -> FieldArray:
        if not all(isinstance(value, int | np.integer) for value in values.flat):
            raise TypeError("a field holds integers: round first")
        self._check(max((abs(int(value)) for value in values.flat), default=0))
        words = np.empty((self.words.limbs, *values.shape), dtype=np.uint64)
        self.words.encode_exact(values, words)
        return FieldArray(self, words)

    def _check(self, largest: int) -> None:
        if largest > self.capacity:
            raise FieldTooSmall(
                f"an integer of {largest.bit_length()} bits and a sign was to be encoded; a field of "
                f"{self.bits} bits holds {self.capacity.bit_length()} bits and a sign. Take a larger field, "
                "or a coarser grid."
            )

    def uniform(self, shape: tuple[int, ...], randomness: Randomness) -> FieldArray:
        """Elements uniform over the whole field, exactly: what is not below its prime is drawn again."""
        return FieldArray(self, self.words.uniform(shape, randomness))

    def zeros(self, shape: tuple[int, ...]) -> FieldArray:
        return FieldArray(self, np.zeros((self.words.limbs, *shape), dtype=np.uint64))


# The six largest primes below 2^21: the closer to a power of two, the fewer words are drawn again.
FIELD63 = Field((2097143, 2097133, 2097131))
FIELD126 = Field((2097143, 2097133, 2097131, 2097097, 2097091, 2097083))
FIELD61 = Field((MERSENNE,))


def largest_rows(field: Field, *, per_row: int, noise: int = 0) -> int:
    """The most rows whose sum cannot wrap around, each adding at most `per_row` in absolute value."""
    if per_row < 1 or noise < 0:
        raise ValueError(f"a row adds at least 1 and noise at least 0, not {per_row} and {noise}")
    return max(field.capacity - noise, 0) // per_row


def largest_per_row(field: Field, *, rows: int, noise: int = 0) -> int:
    """The most that each of `rows` rows may add, in absolute value, to any one sum."""
    if rows < 1 or noise < 0:
        raise ValueError(f"there is at least 1 row and noise of at least 0, not {rows} and {noise}")
    return max(field.capacity - noise, 0) // rows


def check_fits(field: Field, *, rows: int, per_row: int, noise: int = 0, what: str = "a sum") -> None:
    """Raise `FieldTooSmall` unless rows · per_row + noise ≤ capacity, in exact integers.

    `per_row` bounds what one row adds to any one entry: for second moments, the bound on ‖z̃‖² or the
    square of the largest entry. `noise` bounds the sum of all noise parts; where noise is unbounded, the
    caller takes a quantile and accounts for its probability.
    """
    needed = rows * per_row + noise
    if needed <= field.capacity:
        return
    most_per_row = largest_per_row(field, rows=max(rows, 1), noise=noise)
    raise FieldTooSmall(
        f"{what} over {rows} rows needs {needed.bit_length()} bits; a field of {field.bits} bits holds "
        f"{field.capacity.bit_length()}. What fits: at most {largest_rows(field, per_row=per_row, noise=noise)} "
        f"rows on this grid, or {most_per_row} a row (entries up to {isqrt(most_per_row)}) for this many rows: "
        f"a grid about {(per_row / most_per_row) ** 0.5 if most_per_row else float('inf'):.3g} times coarser. "
        "Or take a larger field."
    )


def smallest_field(*, rows: int, per_row: int, noise: int = 0, what: str = "a sum") -> Field:
    """`FIELD63` if these sums fit it, else `FIELD126`, else `FieldTooSmall` saying what fits that one."""
    if rows * per_row + noise <= FIELD63.capacity:
        return FIELD63
    check_fits(FIELD126, rows=rows, per_row=per_row, noise=noise, what=what)
    return FIELD126
