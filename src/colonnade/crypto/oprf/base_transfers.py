"""A few hundred oblivious transfers of random seeds: what transfer extension starts from.

The dealer ends with two seeds a transfer, the chooser with the one that it chose. The dealer sends A = yG; for a bit c
the chooser sends R = xG + c·8A, and knows xA; the dealer's seeds are hashes of yR and y(R − 8A). R is uniform whatever
c is, so the dealer learns nothing of it. A chooser that knew both seeds would know y·8A = 8y²G, which it cannot compute
from A: this holds for one that cheats too. The eight clears what a cheating dealer could hide in A.

Scalars are clamped multiples of eight, and ±xG for a clamped x is uniform in the group but for 2^−124: of the two
representatives of ±x modulo the order times eight, exactly one is clamped.

Source: Chou, Orlandi, "The simplest protocol for oblivious transfer" (2015), on Curve25519 (RFC 7748).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import gmpy2
import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from numpy.typing import NDArray

from colonnade.crypto.curve import POINT_BYTES, InvalidPoint
from colonnade.randomness import Randomness

SEED_BYTES = 16
_P = gmpy2.mpz(2**255 - 19)
_A = gmpy2.mpz(486662)
_ROOT_OF_MINUS_ONE = gmpy2.powmod(2, (_P - 1) // 4, _P)
_SIGN = 1 << 255

Point = tuple[Any, Any]
Choices = NDArray[np.uint8]


@dataclass(frozen=True, repr=False)
class Dealer:
    """The side that ends with both seeds of every transfer.

    >>> from colonnade.randomness import SystemRandomness
    >>> dealer = Dealer.draw(SystemRandomness(), domain=b"doctest")
    >>> chooser = Chooser.draw(4, SystemRandomness(), domain=b"doctest")
    >>> answers = chooser.answer(dealer.key)
    >>> all(pair[bit] == one for pair, bit, one in zip(dealer.seeds(answers), chooser.bits, chooser.seeds))
    True
    """

    _scalar: X25519PrivateKey = field()
    domain: bytes

    @classmethod
    def draw(cls, randomness: Randomness, *, domain: bytes) -> Dealer:
        """A fresh scalar."""
        return cls(X25519PrivateKey.from_private_bytes(randomness.bytes(POINT_BYTES)), domain)

    @property
    def key(self) -> bytes:
        """A, which the chooser needs."""
        return self._scalar.public_key().public_bytes_raw()

    def seeds(self, answers: bytes) -> list[tuple[bytes, bytes]]:
        """Both seeds of every transfer that the chooser answered."""
        shift = _negative(_eight_times(_point(self.key)))
        seeds = []
        for place, start in enumerate(range(0, len(answers), POINT_BYTES)):
            answer = answers[start : start + POINT_BYTES]
            there = _signed_point(answer)
            other = _added(there, shift)
            seeds.append(
                (
                    self._seed(there, answer, place),
                    self._seed(other, answer, place),
                )
            )
        return seeds

    def _seed(self, point: Point, answer: bytes, place: int) -> bytes:
        return _seed(self.domain, self.key, answer, place, _times(self._scalar, _u_bytes(point)))


class Chooser:
    """The side that ends with one seed of every transfer, by bits of its own."""

    def __init__(self, bits: Choices, scalars: list[X25519PrivateKey], signs: bytes, domain: bytes) -> None:
        self.bits = bits
        self.seeds: list[bytes] = []
        self._scalars, self._signs, self._domain = scalars, signs, domain

    @classmethod
    def draw(cls, count: int, randomness: Randomness, *, domain: bytes) -> Chooser:
        """As many random bits, and a scalar for each."""
        bits = np.frombuffer(randomness.bytes(count), dtype=np.uint8) & np.uint8(1)
        scalars = [X25519PrivateKey.from_private_bytes(randomness.bytes(POINT_BYTES)) for _ in range(count)]
        return cls(bits, scalars, randomness.bytes(count), domain)

    def answer(self, key: bytes) -> bytes:
        """What the dealer needs; the chosen seeds are here from then on."""
        shift = _eight_times(_point(key))
        answers = []
        for place, (bit, scalar) in enumerate(zip(self.bits, self._scalars, strict=True)):
            point = _point(scalar.public_key().public_bytes_raw())
            if self._signs[place] & 1:
                point = _negative(point)
            moved = _added(point, shift)
            answer = _signed_bytes(moved if bit else point)
            answers.append(answer)
            self.seeds.append(_seed(self._domain, key, answer, place, _times(scalar, key)))
        return b"".join(answers)

    def __repr__(self) -> str:
        return "Chooser(<secret>)"


def _seed(domain: bytes, key: bytes, answer: bytes, place: int, shared: bytes) -> bytes:
    head = len(domain).to_bytes(2, "little") + domain + place.to_bytes(4, "little")
    return hashlib.sha256(head + key + answer + shared).digest()[:SEED_BYTES]


def _times(scalar: X25519PrivateKey, u: bytes) -> bytes:
    try:
        return scalar.exchange(X25519PublicKey.from_public_bytes(u))
    except ValueError:
        raise InvalidPoint("a point has small order: its multiple is the neutral element") from None


def _point(u: bytes) -> Point:
    """The point of this u-coordinate whose v is even."""
    return _lifted(gmpy2.mpz(int.from_bytes(u, "little")), 0)


def _signed_point(content: bytes) -> Point:
    number = int.from_bytes(content, "little")
    return _lifted(gmpy2.mpz(number % _SIGN), number // _SIGN)


def _lifted(u: Any, odd: int) -> Point:
    if u >= _P:
        raise InvalidPoint("a point is not written canonically")
    square = u * (u * (u + _A) + 1) % _P
    v = gmpy2.powmod(square, (_P + 3) // 8, _P)
    if v * v % _P != square:
        v = v * _ROOT_OF_MINUS_ONE % _P
    if not square or v * v % _P != square:
        raise InvalidPoint("a point is not on the curve")
    return u, (v if v % 2 == odd else _P - v)


def _u_bytes(point: Point) -> bytes:
    return int(point[0]).to_bytes(POINT_BYTES, "little")


def _signed_bytes(point: Point) -> bytes:
    u, v = point
    return (int(u) + (_SIGN if v % 2 else 0)).to_bytes(POINT_BYTES, "little")


def _negative(point: Point) -> Point:
    return point[0], _P - point[1]


def _added(first: Point, second: Point) -> Point:
    slope = (second[1] - first[1]) * _inverse(second[0] - first[0]) % _P
    return _third(first, second[0], slope)


def _eight_times(point: Point) -> Point:
    for _ in range(3):
        u, v = point
        slope = (3 * u * u + 2 * _A * u + 1) * _inverse(2 * v) % _P
        point = _third(point, u, slope)
    return point


def _third(first: Point, other: Any, slope: Any) -> Point:
    u = (slope * slope - _A - first[0] - other) % _P
    return u, (slope * (first[0] - u) - first[1]) % _P


def _inverse(value: Any) -> Any:
    try:
        return gmpy2.invert(value, _P)
    except ZeroDivisionError:
        raise InvalidPoint("a point has small order, or is the other side's own") from None
