"""Vectors under Paillier encryption: packing, products with a plain matrix, and masks for who decrypts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import gmpy2
import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.modular import MontgomeryModulus, products_of_powers
from colonnade.crypto.paillier import (
    Ciphertexts,
    InvalidCiphertext,
    PrivateKey,
    PublicKey,
    decrypt_any_size,
    rerandomised,
)
from colonnade.randomness import Randomness, below


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


def times_matrix(vector: Ciphertexts, matrix: NDArray[np.int64], *, bits: int) -> Ciphertexts:
    """Encryptions of Σ_i v_i · matrix[i, j], one a column; entries in [−2^(bits−1), 2^(bits−1)).

    `bits` is agreed in the plan and not measured, so that the time taken does not depend on the entries.
    """
    modulus = MontgomeryModulus(vector.key.modulus_squared)
    values = products_of_powers(modulus, vector.values, matrix, bits=bits)
    return Ciphertexts(vector.key, tuple(int(value) for value in values))


def added(left: Ciphertexts, right: Ciphertexts) -> Ciphertexts:
    if left.key != right.key:
        raise ValueError("ciphertexts of two keys cannot be added")
    square = gmpy2.mpz(left.key.modulus_squared)
    return Ciphertexts(
        left.key, tuple(int(a * b % square) for a, b in zip(left.values, right.values, strict=True))
    )


def packed(ciphertexts: Ciphertexts, fields: Fields) -> Ciphertexts:
    """The ciphertexts, `fields.count` at a time in one: Σ_j v_j · 2^(ι·j), by squaring from the top.

    The last one is filled with zeros. Whoever packs guarantees |v_j| < 2^(ι−1).
    """
    if fields.bits >= ciphertexts.key.bits:
        raise ValueError(
            f"{fields.count} fields of {fields.width} bits do not fit in a key of {ciphertexts.key.bits} bits"
        )
    square = gmpy2.mpz(ciphertexts.key.modulus_squared)
    shift = gmpy2.mpz(1) << fields.width
    results = []
    for start in range(0, len(ciphertexts), fields.count):
        together = gmpy2.mpz(1)
        for value in reversed(ciphertexts.values[start : start + fields.count]):
            together = gmpy2.powmod(together, shift, square) * value % square
        results.append(int(together))
    return Ciphertexts(ciphertexts.key, tuple(results))


def masked(ciphertexts: Ciphertexts, masks: Sequence[int], randomness: Randomness) -> Ciphertexts:
    """Fresh encryptions of v + r modulo N, ready to leave.

    The mask hides the plaintext from the key's owner; the fresh random part hides how the ciphertext was
    computed, which the owner could otherwise read from it.
    """
    modulus, square = gmpy2.mpz(ciphertexts.key.modulus), gmpy2.mpz(ciphertexts.key.modulus_squared)
    shifted = (
        int((value + value * int(mask) % modulus * modulus) % square)
        for value, mask in zip(ciphertexts.values, masks, strict=True)
    )
    return rerandomised(Ciphertexts(ciphertexts.key, tuple(shifted)), randomness)


LEAST_SECURITY = 40
SECURITY = 80


@dataclass(frozen=True)
class UniformMask:
    """Masks uniform in [0, N): v + r modulo N is uniform for every v."""

    modulus: int

    def draw(self, count: int, randomness: Randomness) -> tuple[int, ...]:
        return tuple(below(self.modulus, randomness) for _ in range(count))

    def unmask(self, masked: Sequence[int], masks: Sequence[int]) -> tuple[int, ...]:
        values = ((m - r) % self.modulus for m, r in zip(masked, masks, strict=True))
        return tuple(value - self.modulus if 2 * value > self.modulus else value for value in values)


@dataclass(frozen=True)
class BoundedMask:
    """Masks for values |v| < 2^(ℓ−1), counting every packed field, and the bound that goes with them.

    Claim: the laws of v + r and v' + r are within 2^−λ in total variation. `answer` returns at most ℓ bits
    a ciphertext, whatever the ciphertext holds.
    """

    value_bits: int
    security: int = SECURITY

    def __post_init__(self) -> None:
        if self.value_bits < 2:
            raise ValueError(f"a signed value has at least 2 bits, not {self.value_bits}")
        if self.security < LEAST_SECURITY:
            raise ValueError(f"a bounded mask needs λ ≥ {LEAST_SECURITY}, not {self.security}")

    @property
    def bound(self) -> int:
        """No masked value exceeds this: 2^(ℓ+λ) + 2^(ℓ−1)."""
        return (1 << (self.value_bits + self.security)) + (1 << (self.value_bits - 1))

    def check_room(self, key: PublicKey) -> None:
        """Raise unless a masked value stays below N/2, so that it is never reduced modulo N."""
        if 2 * self.bound >= key.modulus:
            raise ValueError(
                f"values of {self.value_bits} bits and masks of {self.security} more do not fit in a key of "
                f"{key.bits} bits. Pack fewer fields into a ciphertext."
            )

    def draw(self, count: int, randomness: Randomness) -> tuple[int, ...]:
        """One mask a value, uniform in [0, 2^(ℓ+λ))."""
        return tuple(below(1 << (self.value_bits + self.security), randomness) for _ in range(count))

    def answer(self, private: PrivateKey, ciphertexts: Ciphertexts) -> tuple[int, ...]:
        """What the key's owner may send back: each plaintext's lowest ℓ bits, if its size is as agreed."""
        self.check_room(private.public)
        least = -(1 << (self.value_bits - 1))
        answers = []
        for place, plaintext in enumerate(decrypt_any_size(private, ciphertexts)):
            if not least <= plaintext <= self.bound:
                raise InvalidCiphertext(
                    f"plaintext {place} of {len(ciphertexts)} is larger than a masked value of {self.value_bits} "
                    "bits can be: it holds more than was agreed, and no answer is given"
                )
            answers.append(plaintext % (1 << self.value_bits))
        return tuple(answers)

    def unmask(self, answers: Sequence[int], masks: Sequence[int]) -> tuple[int, ...]:
        span, half = 1 << self.value_bits, 1 << (self.value_bits - 1)
        values = []
        for answer, mask in zip(answers, masks, strict=True):
            if not 0 <= answer < span:
                raise ValueError(f"an answer does not have {self.value_bits} bits")
            values.append((answer - mask + half) % span - half)
        return tuple(values)
