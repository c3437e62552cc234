"""Paillier encryption in the form of Damgård, Jurik and Nielsen: keys, a proof that a modulus is one, ciphertexts."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

import gmpy2
import numpy as np

from colonnade.crypto.modular import FixedBase, MontgomeryModulus, pieces, usable_cores
from colonnade.randomness import Randomness, below

KEY_BITS = (2048, 3072)
_MILLER_RABIN_ROUNDS = 40
_SMALLEST_TEST_BITS = 128


@dataclass(frozen=True)
class PublicKey:
    """What anyone needs to encrypt: the product of two secret primes."""

    modulus: int
    least_bits: ClassVar[int] = min(KEY_BITS)

    def __post_init__(self) -> None:
        if self.modulus.bit_length() < self.least_bits:
            raise ValueError(
                f"a Paillier modulus needs at least {self.least_bits} bits, this one has {self.modulus.bit_length()}"
            )
        if self.modulus.bit_length() > max(KEY_BITS):
            raise ValueError(
                f"a Paillier modulus has at most {max(KEY_BITS)} bits, this one has {self.modulus.bit_length()}"
            )
        if self.modulus % 4 != 1 or gmpy2.is_square(self.modulus) or gmpy2.is_prime(self.modulus):
            raise ValueError("this modulus is not a product of two primes that are 3 modulo 4")

    @property
    def bits(self) -> int:
        return self.modulus.bit_length()

    @cached_property
    def modulus_squared(self) -> int:
        """N², the modulus of ciphertexts."""
        return self.modulus * self.modulus

    @property
    def ciphertext_bytes(self) -> int:
        return -(-2 * self.bits // 8)

    @property
    def exponent_bytes(self) -> int:
        """The length of a randomising exponent: half as many bits as N."""
        return -(-self.bits // 16)


class PublicKeyForTests(PublicKey):
    """A public key of any size. It protects nothing."""

    least_bits: ClassVar[int] = _SMALLEST_TEST_BITS


@dataclass(frozen=True, repr=False)
class PrivateKey:
    """The two primes, and with them the power to decrypt."""

    public: PublicKey
    p: int
    q: int

    def __post_init__(self) -> None:
        if self.p * self.q != self.public.modulus or self.p == self.q:
            raise ValueError("these primes do not belong to this public key")
        if self.p % 4 != 3 or self.q % 4 != 3 or gmpy2.gcd(self.p - 1, self.q - 1) != 2:
            raise ValueError("the primes must be 3 modulo 4 with gcd(p − 1, q − 1) = 2")

    def __repr__(self) -> str:
        return f"PrivateKey(<{self.public.bits} bits>)"

    @classmethod
    def generate(cls, randomness: Randomness, bits: int = 2048) -> PrivateKey:
        """A key of 2048 or 3072 bits. 2048 bits correspond to 112 bits of security, 3072 to 128."""
        if bits not in KEY_BITS:
            raise ValueError(f"Paillier keys have {' or '.join(map(str, KEY_BITS))} bits, not {bits}")
        p, q = _two_primes(randomness, bits)
        return cls(PublicKey(p * q), p, q)

    @classmethod
    def generate_for_tests(cls, randomness: Randomness, bits: int) -> PrivateKey:
        """A key of any even size. It protects nothing."""
        p, q = _two_primes(randomness, bits)
        return cls(PublicKeyForTests(p * q), p, q)


def _two_primes(randomness: Randomness, bits: int) -> tuple[int, int]:
    while True:
        p, q = _prime(randomness, bits // 2), _prime(randomness, bits // 2)
        if p != q and gmpy2.gcd(p - 1, q - 1) == 2:
            return p, q


def _prime(randomness: Randomness, bits: int) -> int:
    """A uniform prime ≡ 3 (mod 4) with its two top bits set, so that a product of two has full length."""
    top = 3 << (bits - 2)
    while True:
        candidate = top | below(1 << (bits - 2), randomness) | 3
        if gmpy2.is_prime(candidate, _MILLER_RABIN_ROUNDS):
            return candidate


_TRIAL_BITS = 16
_SECURITY_BITS = 128
ROOTS = _SECURITY_BITS // _TRIAL_BITS


class InvalidKeyProof(ValueError):
    """A peer's Paillier modulus is not shown to be one."""


def prove_key(private: PrivateKey, *, context: bytes) -> bytes:
    """N-th roots of the points that N and the context choose."""
    modulus = private.public.modulus
    root = gmpy2.invert(modulus, (private.p - 1) * (private.q - 1))
    width = -(-private.public.bits // 8)
    return b"".join(
        int(gmpy2.powmod(point, root, modulus)).to_bytes(width, "little")
        for point in _points(private.public, context)
    )


def check_key_proof(key: PublicKey, proof: bytes, *, context: bytes) -> None:
    """Raise `InvalidKeyProof` unless the proof belongs to this key and context."""
    width = -(-key.bits // 8)
    if len(proof) != ROOTS * width:
        raise InvalidKeyProof(
            f"a proof for {key.bits} bits has {ROOTS * width} bytes, this one has {len(proof)}"
        )
    if gmpy2.gcd(key.modulus, _small_primes()) != 1:
        raise InvalidKeyProof(f"the modulus has a factor below 2^{_TRIAL_BITS}")
    for place, point in enumerate(_points(key, context)):
        root = int.from_bytes(proof[place * width : (place + 1) * width], "little")
        if not 0 < root < key.modulus or gmpy2.powmod(root, key.modulus, key.modulus) != point:
            raise InvalidKeyProof(f"root {place} of {ROOTS} is not an N-th root of its point")


@functools.cache
def _small_primes() -> int:
    return int(gmpy2.primorial((1 << _TRIAL_BITS) - 1))


def _points(key: PublicKey, context: bytes) -> list[int]:
    """Numbers modulo N, each within 2^−128 of uniform, that follow from N and the context."""
    width = -(-key.bits // 8)
    seed = b"colonnade paillier key 1" + key.modulus.to_bytes(width, "little") + context
    stream = hashlib.shake_256(seed).digest(ROOTS * (width + 16))
    return [
        int.from_bytes(stream[start : start + width + 16], "little") % key.modulus
        for start in range(0, len(stream), width + 16)
    ]


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

    ρ = (−x²)^(N·r) for a secret x of this encryptor and a fresh r of half the length of N: a plaintext is hidden from
    everybody but the key's owner, under the assumption of Damgård, Jurik and Nielsen. The owner works modulo p² and q²
    instead, which halves the cost and gives the same distribution.
    """

    key: PublicKey
    tables: tuple[FixedBase, ...]
    randomness: Randomness

    @classmethod
    def for_key(cls, key: PublicKey, randomness: Randomness) -> Encryptor:
        """An encryptor for anybody's key; preparing it costs a few hundred encryptions."""
        return cls._modulo((key.modulus_squared,), key, randomness)

    @classmethod
    def for_owner(cls, private: PrivateKey, randomness: Randomness) -> Encryptor:
        return cls._modulo((private.p**2, private.q**2), private.public, randomness)

    @classmethod
    def _modulo(cls, squares: tuple[int, ...], key: PublicKey, randomness: Randomness) -> Encryptor:
        unit = _unit(key, randomness)
        base = int(-unit * unit % key.modulus)
        powers = [(MontgomeryModulus(square), pow(base, key.modulus, square)) for square in squares]
        prepare = partial(FixedBase.prepare, exponent_bytes=key.exponent_bytes)
        return cls(key, tuple(prepare(*power) for power in powers), randomness)

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
        inverse = gmpy2.invert(second, first)
        return [
            at_second + second * ((at_first - at_second) * inverse % first)
            for at_first, at_second in zip(*parts, strict=True)
        ]


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
