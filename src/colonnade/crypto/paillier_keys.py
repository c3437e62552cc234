"""Paillier keys in the form of Damgård, Jurik and Nielsen.

N = p·q with p ≡ q ≡ 3 (mod 4) and gcd(p − 1, q − 1) = 2, so that −x² generates, for almost every x, the
whole subgroup of Jacobi symbol 1 and an N-th power of it with a short random exponent hides a plaintext.

The public key is N alone. Whoever encrypts or re-randomises draws the base −x² itself: a base that a key's
owner published could have been chosen so that it randomises nothing.

Source: I. Damgård, M. Jurik, J. Nielsen, "A generalization of Paillier's public-key system with applications
to electronic voting" (2010), section 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import gmpy2

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

    @cached_property
    def p_squared(self) -> int:
        """p²."""
        return self.p * self.p

    @cached_property
    def q_squared(self) -> int:
        """q²."""
        return self.q * self.q

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
