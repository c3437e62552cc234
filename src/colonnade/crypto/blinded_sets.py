"""Two sets that find what they have in common, as pure functions over blocks of points.

The asker shuffles and blinds its ids, the other side does the same with its own, and each multiplies what
it receives. The asker then holds ab·H(x) for its own ids, because the other side returned them in the order
sent, and ab·H(y) for the other side's ids, which it multiplied itself; equal values are common ids. It tells
the other side the places of those in the other side's own shuffled list. docs/proofs/psi.md says who learns what.

The common order is that of the values ab·H(x). To anyone who lacks a or b it is a random order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.curve import POINT_BYTES, Blinding, hash_to_curve
from colonnade.randomness import Randomness, shuffled

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


@dataclass(frozen=True)
class Matches:
    """The common ids, in the common order, by their places in the two shuffled lists."""

    mine: Places
    theirs: Places


def match(mine: bytes | bytearray, theirs: bytes | bytearray) -> Matches:
    """Where two lists of twice multiplied points agree, sorted by those points.

    A list that names a point twice is refused: ids are distinct, so a peer that sends one point twice
    does not follow the protocol.
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
    return Matches(order[at[common]].astype(np.int64), their_order[common].astype(np.int64))
