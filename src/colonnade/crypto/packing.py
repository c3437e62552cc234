"""Several signed numbers in one plaintext: fields wide enough that none ever reaches its neighbour.

A packed plaintext is Σ_j v_j · 2^(ι·j). It decodes exactly as long as every |v_j| < 2^(ι−1): the lowest field
is read as a signed ι-bit number, subtracted, and what is left is exactly divisible by 2^ι. A negative field
therefore borrows from the field above it, and the reader gives the loan back
(docs/proofs/paillier-masking.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


def product_width(*, fraction_bits: int, terms: int, magnitude: int = 1) -> int:
    """The field width ι that holds a sum of `terms` fixed-point products.

    Claim: for |g_i| ≤ k·2^f and |x_i| ≤ 2^f, |Σ_{i≤s} g_i x_i| ≤ s·k·2^(2f) < 2^(ι−1) with
    ι = 2f + ⌈log2(s·k)⌉ + 2. A width chosen for one factor alone is too narrow.
    """
    if fraction_bits < 0 or terms < 1 or magnitude < 1:
        raise ValueError("a product needs fraction_bits ≥ 0, terms ≥ 1 and magnitude ≥ 1")
    return 2 * fraction_bits + (terms * magnitude - 1).bit_length() + 2


@dataclass(frozen=True)
class Fields:
    """`count` signed fields of `width` bits."""

    width: int
    count: int

    def __post_init__(self) -> None:
        if self.width < 2 or self.count < 1:
            raise ValueError(f"{self.count} fields of {self.width} bits cannot hold signed numbers")

    @property
    def bits(self) -> int:
        """The width of all fields together: every packed number has |P| < 2^(bits−1)."""
        return self.width * self.count

    @property
    def limit(self) -> int:
        """Every field must be smaller than this in absolute value."""
        return 1 << (self.width - 1)

    def pack(self, values: Sequence[int]) -> int:
        """Σ_j v_j · 2^(ι·j)."""
        if len(values) != self.count:
            raise ValueError(f"{self.count} fields cannot hold {len(values)} values")
        packed = 0
        for value in reversed(values):
            if abs(int(value)) >= self.limit:
                raise ValueError(f"a value does not fit in a field of {self.width} bits")
            packed = (packed << self.width) + int(value)
        return packed

    def unpack(self, packed: int) -> tuple[int, ...]:
        """The fields, lowest first; refused if anything is left above the last one."""
        values = []
        for _ in range(self.count):
            value = ((packed + self.limit) & (2 * self.limit - 1)) - self.limit
            values.append(value)
            packed = (packed - value) >> self.width
        if packed:
            raise ValueError(f"a packed number has bits above its {self.count} fields")
        return tuple(values)

    @classmethod
    def most(cls, width: int, plaintext_bits: int) -> int:
        """How many fields of this width a modulus of `plaintext_bits` bits has room for, with the sign."""
        return (plaintext_bits - 1) // width


def to_fixed(values: NDArray[np.float64], fraction_bits: int) -> NDArray[np.int64]:
    """The nearest multiples of 2^−f, as integers."""
    scaled = np.rint(np.ldexp(np.asarray(values, dtype=np.float64), fraction_bits))
    if not np.all(np.abs(scaled) < 2.0**62):
        raise ValueError(f"a value is not finite or too large for {fraction_bits} fraction bits")
    return scaled.astype(np.int64)


def from_fixed(values: Sequence[int], fraction_bits: int) -> NDArray[np.float64]:
    """The numbers that integers at scale 2^f stand for, each rounded once."""
    return np.array([int(value) / (1 << fraction_bits) for value in values], dtype=np.float64)
