"""Private set intersection over Curve25519: the group by u-coordinates, and two sets that find what they share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import gmpy2
import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from numpy.typing import NDArray

from colonnade.randomness import Randomness, shuffled

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


BLOCK_POINTS = 4096
_DUMMY_BYTES = 32

Places = NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class BlindedSet:
    """One party's side of one intersection: its ids in a secret order, filled up with dummies, and its scalar.

    `padded` is the size that the peer sees; it must be at least the number of ids. A dummy is the hash of fresh
    random bytes under a domain of its own, so it meets no id of anybody.
    """

    ids: Sequence[bytes]
    domain: bytes
    order: Places
    blinding: Blinding
    randomness: Randomness = field()

    @classmethod
    def prepare(
        cls, ids: Sequence[bytes], *, domain: bytes, randomness: Randomness, padded: int | None = None
    ) -> BlindedSet:
        """A fresh scalar and a fresh order. Ids must be distinct."""
        size = len(ids) if padded is None else padded
        if size < len(ids):
            raise ValueError(f"{len(ids)} ids cannot be padded to {size}")
        if len(set(ids)) != len(ids):
            raise ValueError(f"{len(ids) - len(set(ids))} ids are repeated")
        return cls(ids, domain, shuffled(size, randomness), Blinding.draw(randomness), randomness)

    @property
    def size(self) -> int:
        return len(self.order)

    def blinded_blocks(self) -> Iterator[bytes]:
        """a·H(x) in the secret order, a block at a time."""
        for start in range(0, self.size, BLOCK_POINTS):
            places = self.order[start : start + BLOCK_POINTS]
            real = places < len(self.ids)
            hashed = hash_to_curve((self.ids[place] for place in places[real]), domain=self.domain)
            dummies = hash_to_curve(
                (self.randomness.bytes(_DUMMY_BYTES) for _ in range(int((~real).sum()))),
                domain=self.domain + b" dummy",
            )
            points = np.empty((len(places), POINT_BYTES), dtype=np.uint8)
            points[real] = np.frombuffer(hashed, dtype=np.uint8).reshape(-1, POINT_BYTES)
            points[~real] = np.frombuffer(dummies, dtype=np.uint8).reshape(-1, POINT_BYTES)
            yield self.blinding.multiply(points.tobytes())

    def rows(self, places: Places) -> Places:
        """Which ids stand at these places of the shuffled list; refused if a place is repeated or a dummy."""
        if places.size and (int(places.min()) < 0 or int(places.max()) >= self.size):
            raise ValueError(f"a place lies outside the list of {self.size}")
        if len(np.unique(places)) != len(places):
            raise ValueError("a place is named twice")
        rows = self.order[places]
        if np.any(rows >= len(self.ids)):
            raise ValueError("a place names a dummy, which can be in no other set")
        return rows


def match(mine: bytes | bytearray, theirs: bytes | bytearray) -> tuple[Places, Places]:
    """The places in two lists of twice multiplied points where they agree, sorted by those points.

    A list that names a point twice is refused: ids are distinct, so its sender does not follow the protocol.
    """
    sides = []
    for side, points in (("own", mine), ("peer's", theirs)):
        values = np.frombuffer(points, dtype=f"S{POINT_BYTES}")
        order = np.argsort(values)
        ranked = values[order]
        if np.any(ranked[1:] == ranked[:-1]):
            raise ValueError(f"a point is repeated in the {side} list")
        sides.append((order, ranked))
    (order, ranked), (their_order, their_ranked) = sides
    at = np.searchsorted(ranked, their_ranked)
    common = at < len(ranked)
    common[common] = ranked[at[common]] == their_ranked[common]
    return order[at[common]].astype(np.int64), their_order[common].astype(np.int64)
