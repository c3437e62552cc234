"""Proofs that a Paillier modulus is one."""

import functools
import math

import gmpy2
import pytest

from colonnade.crypto.paillier import (
    ROOTS,
    InvalidKeyProof,
    PrivateKey,
    PublicKeyForTests,
    check_key_proof,
    prove_key,
)
from colonnade.randomness import SystemRandomness, below

RANDOMNESS = SystemRandomness()


@functools.cache
def key() -> PrivateKey:
    return PrivateKey.generate_for_tests(RANDOMNESS, 512)


def test_an_honest_key_is_accepted_in_its_own_context_only() -> None:
    proof = prove_key(key(), context=b"run 1")
    check_key_proof(key().public, proof, context=b"run 1")
    with pytest.raises(InvalidKeyProof, match="root 0"):
        check_key_proof(key().public, proof, context=b"run 2")


def test_a_proof_of_another_key_is_refused() -> None:
    other = PrivateKey.generate_for_tests(RANDOMNESS, 512)
    with pytest.raises(InvalidKeyProof):
        check_key_proof(key().public, prove_key(other, context=b""), context=b"")


@pytest.mark.parametrize("place", range(ROOTS))
def test_every_root_is_checked(place: int) -> None:
    proof = bytearray(prove_key(key(), context=b""))
    proof[place * 64] ^= 1
    with pytest.raises(InvalidKeyProof, match=f"root {place} "):
        check_key_proof(key().public, bytes(proof), context=b"")


@pytest.mark.parametrize("proof", [b"", bytes(ROOTS * 64 - 1), bytes(ROOTS * 64)])
def test_bytes_that_are_no_proof_are_refused(proof: bytes) -> None:
    with pytest.raises(InvalidKeyProof):
        check_key_proof(key().public, proof, context=b"")


@functools.cache
def dishonest_primes() -> tuple[int, int]:
    """p and q with p dividing q − 1, both 3 modulo 4: N-th powers modulo N are one in p."""
    while True:
        p = int(gmpy2.next_prime(below(1 << 100, RANDOMNESS) | 1 << 99))
        if p % 4 == 3:
            for k in range(1, 4000):
                q = 2 * k * p + 1
                if q % 4 == 3 and gmpy2.is_prime(q):
                    return p, q


def test_a_modulus_whose_powers_lose_something_cannot_be_proved() -> None:
    """Its owner knows the factors and tries every root it can make; a random point has none."""
    p, q = dishonest_primes()
    modulus = p * q
    public = PublicKeyForTests(modulus)
    assert math.gcd(modulus, (p - 1) * (q - 1)) == p
    width = -(-public.bits // 8)
    best = pow(modulus, -1, (p - 1) * (q - 1) // p)
    forged = b"".join(pow(7 + i, best, modulus).to_bytes(width, "little") for i in range(ROOTS))
    with pytest.raises(InvalidKeyProof):
        check_key_proof(public, forged, context=b"")


def test_why_it_matters_a_dishonest_modulus_leaves_a_trace_through_rerandomising() -> None:
    """Modulo such an N, an element of order p is no N-th power, and multiplying by u^N cannot hide its exponent."""
    p, q = dishonest_primes()
    modulus, order = p * q, (p - 1) * (q - 1)
    trace = pow(3, order // p, modulus)
    assert trace != 1
    for secret in (0, 1, 5):
        hidden = pow(trace, secret, modulus) * pow(below(modulus, RANDOMNESS), modulus, modulus) % modulus
        seen = pow(hidden, order // p, modulus)
        assert (
            next(guess for guess in range(10) if seen == pow(trace, guess * (order // p), modulus)) == secret
        )


def test_a_modulus_with_a_small_factor_is_refused() -> None:
    large = int(gmpy2.next_prime(1 << 200))
    factor = next(prime for prime in (1019, 1009) if prime * large % 4 == 1)
    small = PublicKeyForTests(factor * large)
    with pytest.raises(InvalidKeyProof, match="factor below"):
        check_key_proof(small, bytes(ROOTS * -(-small.bits // 8)), context=b"")
