"""A proof that a modulus is one: that raising to the N-th power loses nothing modulo N.

If gcd(N, φ(N)) > 1, some ciphertexts are no encryptions of anything, and re-randomising cannot hide how they were
combined. The proof shows N-th roots of points that a hash chooses.

Claim: for a modulus with gcd(N, φ(N)) > 1, a proof is accepted with probability at most 2^−128 per try, with the hash
as a random oracle. Such a gcd has a prime factor d that divides N, and at most one unit in d is an N-th power; trial
division makes d larger than 2^16, and eight independent points are asked for. An honest proof shows nothing but N-th
roots of random numbers, which anybody can make in pairs.

Source: Goldberg, Reyzin, Sagga, Baldimtsi, "Efficient noninteractive certification of RSA moduli and beyond"
(2019), section 3.
"""

from __future__ import annotations

import functools
import hashlib

import gmpy2

from colonnade.crypto.paillier_keys import PrivateKey, PublicKey

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
