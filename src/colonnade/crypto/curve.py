"""The group of private set intersection: Curve25519 by its u-coordinates.

An id becomes a point by RFC 9380 (suite curve25519_XMD:SHA-512_ELL2_NU_, before the cofactor is cleared): hashed
with a domain that names the run, then mapped by Elligator 2, which always lands on the curve and never on its
twist. A secret scalar multiplies it through X25519, which clears the cofactor and depends on u alone, so
that scalars of two parties commute: a(bP) = b(aP). The scalar multiplication is OpenSSL's, in constant time.

A point from a peer is used only if it is canonical, on the curve and not of small order.

Source: RFC 7748; RFC 9380, sections 5.3.1 and 6.7.1; Bernstein, Hamburg, Krasnova, Lange, "Elligator" (2013).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import gmpy2
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from colonnade.randomness import Randomness

POINT_BYTES = 32
_P = gmpy2.mpz(2**255 - 19)
_A = gmpy2.mpz(486662)
_SHA512_BLOCK = 128
# RFC 9380: 255 bits of field and 128 of security, rounded up to bytes.
_FIELD_BYTES = 48


class InvalidPoint(ValueError):
    """A point from a peer is not canonical, not on the curve, or of small order."""


def hash_to_curve(ids: Iterable[bytes], *, domain: bytes) -> bytes:
    """One point an id, 32 bytes each, in the order given. Equal ids give equal points within a domain."""
    return _elligator(_hash_to_field(ids, domain))


def _hash_to_field(ids: Iterable[bytes], domain: bytes) -> list[int]:
    """expand_message_xmd with SHA-512 to 48 bytes, then modulo p."""
    if not 0 < len(domain) < 256:
        raise ValueError(f"a domain has 1 to 255 bytes, not {len(domain)}")
    suffix = domain + bytes([len(domain)])
    tail = _FIELD_BYTES.to_bytes(2, "big") + b"\x00" + suffix
    last = b"\x01" + suffix
    start = hashlib.sha512(bytes(_SHA512_BLOCK))
    elements = []
    for identifier in ids:
        state = start.copy()
        state.update(identifier + tail)
        uniform = hashlib.sha512(state.digest() + last).digest()[:_FIELD_BYTES]
        elements.append(gmpy2.mpz(int.from_bytes(uniform, "big")) % _P)
    return elements


def _elligator(elements: Sequence[int]) -> bytes:
    """The u-coordinate of Elligator 2 for each field element r: −A/(1 + 2r²), or its conjugate.

    1 + 2r² is never zero, because −1/2 is not a square. All inversions share one.
    """
    prefixes = [gmpy2.mpz(1)]
    denominators = []
    for element in elements:
        denominator = (1 + 2 * element * element) % _P
        denominators.append(denominator)
        prefixes.append(prefixes[-1] * denominator % _P)
    inverse = gmpy2.invert(prefixes[-1], _P)
    points: list[bytes] = []
    for denominator, prefix in zip(reversed(denominators), reversed(prefixes[:-1]), strict=True):
        u = -_A * (inverse * prefix) % _P
        inverse = inverse * denominator % _P
        if gmpy2.legendre(_right_side(u), _P) == -1:
            u = (-u - _A) % _P
        points.append(int(u).to_bytes(POINT_BYTES, "little"))
    points.reverse()
    return b"".join(points)


def _right_side(u: Any) -> Any:
    """u³ + Au² + u: a square exactly if u belongs to the curve and not to its twist."""
    return u * (u * (u + _A) + 1) % _P


def check_points(points: bytes) -> None:
    """Raise `InvalidPoint` unless these bytes are canonical points of the curve, none of them (0, 0).

    The other points of small order give the neutral element when multiplied, and are refused there.
    """
    if len(points) % POINT_BYTES:
        raise InvalidPoint(f"points have {POINT_BYTES} bytes each; {len(points)} bytes are not whole points")
    for place, start in enumerate(range(0, len(points), POINT_BYTES)):
        u = gmpy2.mpz(int.from_bytes(points[start : start + POINT_BYTES], "little"))
        if u >= _P:
            raise InvalidPoint(f"point {place} is not written canonically")
        if gmpy2.legendre(_right_side(u), _P) != 1:
            raise InvalidPoint(f"point {place} is not on the curve")


@dataclass(frozen=True, repr=False)
class Blinding:
    """A secret scalar for one intersection."""

    _scalar: X25519PrivateKey = field()

    @classmethod
    def draw(cls, randomness: Randomness) -> Blinding:
        """A uniform scalar: a multiple of 8 in [2^254, 2^255)."""
        return cls(X25519PrivateKey.from_private_bytes(randomness.bytes(POINT_BYTES)))

    def multiply(self, points: bytes) -> bytes:
        """The scalar times every point. For a peer's points, use `multiply_received`."""
        exchange, load = self._scalar.exchange, X25519PublicKey.from_public_bytes
        try:
            return b"".join(
                exchange(load(points[start : start + POINT_BYTES]))
                for start in range(0, len(points), POINT_BYTES)
            )
        except ValueError:
            raise InvalidPoint("a point has small order: its multiple is the neutral element") from None

    def multiply_received(self, points: bytes) -> bytes:
        """The scalar times every point a peer sent, after checking them."""
        check_points(points)
        return self.multiply(points)

    def __repr__(self) -> str:
        return "Blinding(<secret>)"
