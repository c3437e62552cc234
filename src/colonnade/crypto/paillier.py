"""Paillier encryption: numbers modulo N that can be added while nobody can read them.

A ciphertext of m is (1 + N)^m · ρ modulo N² with ρ a random N-th power. Multiplying ciphertexts adds what
they hold; a power multiplies it. Plaintexts are read as signed numbers in (−N/2, N/2).

Tables are looked up by secret bytes, so a process that shares this machine's caches is not kept out.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import gmpy2
import numpy as np

from colonnade.crypto.cores import pieces, usable_cores
from colonnade.crypto.fixed_base import FixedBase
from colonnade.crypto.modular import Modulus
from colonnade.crypto.paillier_keys import PrivateKey, PublicKey
from colonnade.randomness import Randomness, below


class InvalidCiphertext(ValueError):
    """These bytes or numbers are not ciphertexts of this key, or hold more than was agreed."""


@dataclass(frozen=True)
class Ciphertexts:
    """Encrypted numbers under one key. Made by encrypting, or by checking what a peer sent."""

    key: PublicKey
    values: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.values)

    def to_bytes(self) -> bytes:
        """Fixed-length little-endian numbers, one after another."""
        width = self.key.ciphertext_bytes
        return b"".join(int(value).to_bytes(width, "little") for value in self.values)

    @classmethod
    def checked(cls, key: PublicKey, values: Sequence[int]) -> Ciphertexts:
        """What a peer sent, accepted only if every number is a unit modulo N² in range."""
        modulus = gmpy2.mpz(key.modulus)
        together = gmpy2.mpz(1)
        for place, value in enumerate(values):
            if not 0 < value < key.modulus_squared:
                raise InvalidCiphertext(f"ciphertext {place} of {len(values)} is outside (0, N²)")
            together = together * (value % modulus) % modulus
        # One gcd for all: the product is a unit exactly if every factor is.
        if gmpy2.gcd(together, modulus) != 1:
            place = next(i for i, value in enumerate(values) if gmpy2.gcd(value, modulus) != 1)
            raise InvalidCiphertext(f"ciphertext {place} of {len(values)} shares a factor with the modulus")
        return cls(key, tuple(values))

    @classmethod
    def from_bytes(cls, key: PublicKey, data: bytes, *, count: int) -> Ciphertexts:
        """The reverse of `to_bytes` for bytes from a peer: length, range and gcd are checked."""
        width = key.ciphertext_bytes
        if len(data) != count * width:
            raise InvalidCiphertext(
                f"{count} ciphertexts take {count * width} bytes, {len(data)} were received"
            )
        return cls.checked(
            key, [int.from_bytes(data[at : at + width], "little") for at in range(0, len(data), width)]
        )


@dataclass(frozen=True, repr=False)
class Encryptor:
    """Encrypts under one key, with a table of powers of its own random base.

    ρ = (−x²)^(N·r) for a secret x of this encryptor and a fresh r of half the length of N: a plaintext is
    hidden from everybody but the key's owner, under the assumption of the source in `paillier_keys`. The
    owner works modulo p² and q² instead, which halves the cost and gives the same distribution.
    """

    key: PublicKey
    tables: tuple[FixedBase, ...]
    randomness: Randomness

    @classmethod
    def for_key(cls, key: PublicKey, randomness: Randomness) -> Encryptor:
        """An encryptor for anybody's key; preparing it costs a few hundred encryptions."""
        base = pow(_jacobi_one_base(key, randomness), key.modulus, key.modulus_squared)
        table = FixedBase.prepare(Modulus(key.modulus_squared), base, exponent_bytes=key.exponent_bytes)
        return cls(key, (table,), randomness)

    @classmethod
    def for_owner(cls, private: PrivateKey, randomness: Randomness) -> Encryptor:
        key = private.public
        base = _jacobi_one_base(key, randomness)
        tables = tuple(
            FixedBase.prepare(
                Modulus(square), pow(base, key.modulus, square), exponent_bytes=key.exponent_bytes
            )
            for square in (private.p_squared, private.q_squared)
        )
        return cls(key, tables, randomness)

    def encrypt(self, plaintexts: Sequence[int]) -> Ciphertexts:
        """One fresh ciphertext a number; numbers in (−N/2, N) as integers modulo N."""
        modulus, square = gmpy2.mpz(self.key.modulus), gmpy2.mpz(self.key.modulus_squared)
        values = []
        for plaintext, randomiser in zip(plaintexts, self._randomisers(len(plaintexts)), strict=True):
            if not -self.key.modulus < 2 * plaintext < 2 * self.key.modulus:
                raise ValueError("a plaintext does not fit in this key")
            # (1 + mN)·ρ = ρ + (mρ mod N)·N modulo N².
            values.append(int((randomiser + randomiser * int(plaintext) % modulus * modulus) % square))
        return Ciphertexts(self.key, tuple(values))

    def _randomisers(self, count: int) -> list[int]:
        if count == 0:
            return []
        width = self.key.exponent_bytes
        exponents = np.frombuffer(self.randomness.bytes(count * width), dtype=np.uint8).reshape(count, width)
        parts = [table.powers(exponents) for table in self.tables]
        if len(parts) == 1:
            return parts[0]
        first, second = (gmpy2.mpz(table.modulus.value) for table in self.tables)
        return [
            at_second + second * ((at_first - at_second) * self._second_inverse % first)
            for at_first, at_second in zip(*parts, strict=True)
        ]

    @cached_property
    def _second_inverse(self) -> int:
        first, second = (table.modulus.value for table in self.tables)
        return pow(second, -1, first)


def rerandomised(ciphertexts: Ciphertexts, randomness: Randomness) -> Ciphertexts:
    """The same plaintexts in ciphertexts that carry no trace of how they were made, not even for the key's owner.

    Claim: whatever the random part of a ciphertext was, it becomes uniform among all N-th powers, exactly: it is
    multiplied by u^N for a fresh uniform unit u. A power of a fixed base with a short exponent would not do,
    because the owner knows the order of the group (docs/proofs/paillier-masking.md).
    """
    key = ciphertexts.key
    modulus, square = gmpy2.mpz(key.modulus), gmpy2.mpz(key.modulus_squared)
    units = [gmpy2.mpz(_unit(key, randomness)) for _ in ciphertexts.values]

    def work(piece: slice) -> list[int]:
        gmpy2.get_context().allow_release_gil = True
        powers = gmpy2.powmod_base_list(units[piece], modulus, square)
        return [
            int(value * power % square)
            for value, power in zip(ciphertexts.values[piece], powers, strict=True)
        ]

    with ThreadPoolExecutor(usable_cores()) as threads:
        parts = threads.map(work, pieces(len(units)))
        return Ciphertexts(key, tuple(value for part in parts for value in part))


def _unit(key: PublicKey, randomness: Randomness) -> int:
    while True:
        unit = below(key.modulus, randomness)
        if gmpy2.gcd(unit, key.modulus) == 1:
            return unit


def _jacobi_one_base(key: PublicKey, randomness: Randomness) -> int:
    unit = _unit(key, randomness)
    return int(-unit * unit % key.modulus)


def decrypt(private: PrivateKey, ciphertexts: Ciphertexts, *, at_most: int) -> tuple[int, ...]:
    """The signed plaintexts, refused unless every |m| ≤ at_most.

    The bound is what keeps a peer from packing further answers into the unused high bits of a plaintext
    and having them read out to it.
    """
    plaintexts = decrypt_any_size(private, ciphertexts)
    for place, plaintext in enumerate(plaintexts):
        if abs(plaintext) > at_most:
            raise InvalidCiphertext(
                f"plaintext {place} of {len(plaintexts)} has more than the {at_most.bit_length()} bits agreed"
            )
    return plaintexts


def decrypt_any_size(private: PrivateKey, ciphertexts: Ciphertexts) -> tuple[int, ...]:
    """The signed plaintexts, whatever their size: for shares that stay here, never for answers to a peer."""
    if ciphertexts.key != private.public:
        raise ValueError("these ciphertexts belong to another key")
    modulus = gmpy2.mpz(private.public.modulus)
    at_p = _decrypt_modulo(private.p, private.q, ciphertexts.values)
    at_q = _decrypt_modulo(private.q, private.p, ciphertexts.values)
    q_inverse = gmpy2.invert(private.q, private.p)
    plaintexts = []
    for first, second in zip(at_p, at_q, strict=True):
        plaintext = second + private.q * ((first - second) * q_inverse % private.p)
        plaintexts.append(int(plaintext - modulus if 2 * plaintext > modulus else plaintext))
    return tuple(plaintexts)


def _decrypt_modulo(prime: int, other: int, values: Sequence[int]) -> list[int]:
    """m modulo one prime p of N = p·q.

    The (p−1)-th power of ρ is 1 modulo p², so c^(p−1) = 1 + m·N·(p−1) = 1 − m·q·p modulo p².
    """
    square = gmpy2.mpz(prime) ** 2
    scale = gmpy2.invert(-other, prime)

    def work(piece: slice) -> list[int]:
        # gmpy2 keeps this permission per thread.
        gmpy2.get_context().allow_release_gil = True
        bases = [value % square for value in values[piece]]
        powers = gmpy2.powmod_base_list(bases, gmpy2.mpz(prime) - 1, square)
        return [(power - 1) // prime * scale % prime for power in powers]

    with ThreadPoolExecutor(usable_cores()) as threads:
        return [plaintext for part in threads.map(work, pieces(len(values))) for plaintext in part]
