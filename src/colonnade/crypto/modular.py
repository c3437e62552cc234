"""Arithmetic modulo a large odd number on many values at once, off the interpreter lock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import gmpy2
import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.modular_kernel import LIMB_BITS, MOST_LIMBS, join, multiply_rows, split

Residues = NDArray[np.uint32]
"""Numbers in Montgomery form, one a row, 27 bits an entry."""


@dataclass(frozen=True)
class Modulus:
    """An odd number to calculate modulo."""

    value: int

    def __post_init__(self) -> None:
        if self.value < 3 or self.value % 2 == 0:
            raise ValueError("a modulus must be odd and at least 3")
        if self.limbs > MOST_LIMBS:
            raise ValueError(
                f"a modulus of {self.value.bit_length()} bits is too long: the accumulators could overflow"
            )

    @cached_property
    def limbs(self) -> int:
        """How many 27-bit limbs a number takes: even, and with two bits to spare."""
        limbs = -(-(self.value.bit_length() + 2) // LIMB_BITS)
        return max(4, limbs + limbs % 2)

    @cached_property
    def words(self) -> NDArray[np.uint64]:
        words: NDArray[np.uint64] = self._limbs_of([self.value])[0].astype(np.uint64)
        return words

    @cached_property
    def negated_inverse(self) -> np.uint64:
        """−n⁻¹ modulo 2^27."""
        return np.uint64(-pow(self.value, -1, 1 << LIMB_BITS) % (1 << LIMB_BITS))

    @cached_property
    def one(self) -> Residues:
        """The number 1 in Montgomery form, one row."""
        one: Residues = self._limbs_of([(1 << (LIMB_BITS * self.limbs)) % self.value])[0]
        return one

    @cached_property
    def _entry(self) -> Residues:
        return self._limbs_of([(1 << (2 * LIMB_BITS * self.limbs)) % self.value])

    def _limbs_of(self, values: Sequence[int]) -> Residues:
        width = -(-(LIMB_BITS * self.limbs) // 64)
        packed = b"".join(int(value).to_bytes(8 * width, "little") for value in values)
        out = np.empty((len(values), self.limbs), dtype=np.uint32)
        split(np.frombuffer(packed, dtype=np.uint64).reshape(len(values), width), out)
        return out

    def enter(self, values: Sequence[int]) -> Residues:
        """The values, each in [0, n), in Montgomery form."""
        plain = self._limbs_of(values)
        return self.multiply(plain, np.broadcast_to(self._entry, plain.shape))

    def leave(self, residues: Residues) -> list[int]:
        """The values in [0, n) that rows in Montgomery form stand for."""
        unit = np.zeros_like(residues)
        unit[:, 0] = 1
        plain = self.multiply(residues, unit)
        width = -(-(LIMB_BITS * self.limbs) // 64)
        words = np.empty((len(plain), width + 1), dtype=np.uint64)
        join(plain, words)
        modulus = gmpy2.mpz(self.value)
        return [gmpy2.mpz(int.from_bytes(row.tobytes(), "little")) % modulus for row in words]

    def multiply(self, left: Residues, right: Residues) -> Residues:
        """The products of equally many rows, row by row."""
        if left.shape != right.shape or left.shape[1] != self.limbs:
            raise ValueError(f"cannot multiply rows of shapes {left.shape} and {right.shape}")
        out = np.empty(left.shape, dtype=np.uint32)
        multiply_rows(left, np.ascontiguousarray(right), self.words, self.negated_inverse, out)
        return out
