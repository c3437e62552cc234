"""Pairwise masks for secure sums: every party adds what every other takes away.

Parties i < j share a key. For each step they expand it to the same stream of words u_ij, uniform modulo
2^k; i adds it and j subtracts it. The sum of what all parties send is the sum of their values modulo 2^k,
and anything less than all of it is uniform (docs/proofs/masks.md). Working modulo 2^k is essential: masks added over
the integers, as in the published description of PBM-VFL, leave a value's size visible.

2^k exceeds the largest possible sum, so the sum itself never wraps. Words have the smallest of 8, 16, 32 or 64
bits that holds k; a word is reduced to k bits on the way out, and a uniform word stays uniform.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from numpy.typing import NDArray

from colonnade.crypto.modular_kernel import compiled

# A block and one stream over it fit in the second-level cache together.
BLOCK_BYTES = 1 << 16
# One AES-256 key serves at most 2^36 bytes: counter mode then stays within 2^-65 of uniform.
_MOST_STREAM_BYTES = 1 << 36
# So many words stay in the first-level cache while all streams are added to them.
_CHUNK = 2048
_ZEROS = bytes(BLOCK_BYTES)

Words = NDArray[Any]


class MaskReused(ValueError):
    """A step's masks were asked for a second time; masked values under the same mask reveal their difference."""


@dataclass(frozen=True)
class SumRing:
    """Integers modulo 2^k, for sums of `parties` values in [0, largest]."""

    parties: int
    largest: int

    def __post_init__(self) -> None:
        if self.parties < 2:
            raise ValueError(f"a secure sum needs at least two parties, not {self.parties}")
        if self.largest < 1:
            raise ValueError(f"the largest value must be at least 1, not {self.largest}")
        if self.bits > 64:
            raise ValueError(
                f"sums up to {self.parties} · {self.largest} need {self.bits} bits; 64 is the most"
            )

    @property
    def bits(self) -> int:
        """k: the smallest with 2^k > M·b."""
        return (self.parties * self.largest).bit_length()

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(next(f"u{size}" for size in (1, 2, 4, 8) if 8 * size >= self.bits))

    @property
    def low_bits(self) -> int:
        """2^k − 1, the bits of a word that count."""
        return (1 << self.bits) - 1

    def total(self, masked: Sequence[Words]) -> NDArray[np.uint64]:
        """The sum of all parties' masked words: exact if every party's is there."""
        if len(masked) != self.parties:
            raise ValueError(
                f"a sum over {self.parties} parties needs as many masked vectors, not {len(masked)}"
            )
        total = np.zeros(masked[0].shape, dtype=np.uint64)
        for words in masked:
            total += words
        return total & np.uint64(self.low_bits)


@dataclass(eq=False, repr=False)
class MaskStreams:
    """One party's pairwise masks for one run.

    `keys` holds the agreed 32-byte key with each peer, derived for this run only; `places` gives every
    party's place in the sum, which decides who adds and who subtracts. Every (step, peer) stream has a key of
    its own, and a step is served once.
    """

    name: str
    places: Mapping[str, int]
    keys: Mapping[str, bytes]
    _served: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        peers = set(self.places) - {self.name}
        if self.name not in self.places or set(self.keys) != peers or not peers:
            raise ValueError(f"{self.name} needs a key with each of {sorted(peers)}, has {sorted(self.keys)}")
        if len(set(self.places.values())) != len(self.places):
            raise ValueError("two parties have the same place in the sum")

    def masked(self, values: NDArray[Any], ring: SumRing, *, step: str) -> Words:
        """The values with all pairwise masks of this step applied: uniform words modulo 2^k."""
        if ring.parties != len(self.places):
            raise ValueError(f"a ring for {ring.parties} parties cannot carry a sum over {len(self.places)}")
        if values.dtype.kind not in "iu":
            raise ValueError(f"a secure sum adds integers, not {values.dtype}")
        if values.size * ring.dtype.itemsize > _MOST_STREAM_BYTES:
            raise ValueError(f"{values.size} values are too many for one step; sum in several")
        if step in self._served:
            raise MaskReused(f"{self.name} has already masked step {step!r} in this run")
        self._served.add(step)
        place = self.places[self.name]
        adding = [self._stream(peer, step) for peer in self.keys if place < self.places[peer]]
        taking = [self._stream(peer, step) for peer in self.keys if place > self.places[peer]]
        return _mask_blocks(np.ascontiguousarray(values).reshape(-1), ring, adding, taking)

    def _stream(self, peer: str, step: str) -> Any:
        info = b"colonnade pairwise mask 1" + step.encode()
        key = HKDFExpand(algorithm=SHA256(), length=32, info=info).derive(self.keys[peer])
        return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()


def _mask_blocks(values: NDArray[Any], ring: SumRing, adding: Sequence[Any], taking: Sequence[Any]) -> Words:
    """Check, add all streams and reduce, block by block: a value is read once and a word written once."""
    out = np.empty(values.size, dtype=ring.dtype)
    per_block = BLOCK_BYTES // out.itemsize
    streams = np.empty((len(adding) + len(taking), per_block), dtype=out.dtype)
    views = [memoryview(streams[row]).cast("B") for row in range(len(streams))]
    low_bits, largest = ring.dtype.type(ring.low_bits), np.uint64(ring.largest)
    for start in range(0, len(out), per_block):
        block = out[start : start + per_block]
        for encryptor, view in zip((*adding, *taking), views, strict=True):
            encryptor.update_into(_ZEROS[: block.nbytes], view[: block.nbytes])
        if not _combine(values[start : start + per_block], streams, len(adding), largest, low_bits, block):
            raise ValueError(f"a value lies outside [0, {ring.largest}]")
    return out


@compiled
def _combine(values: Any, streams: Any, adding: Any, largest: Any, low_bits: Any, out: Any) -> Any:
    """out := (values + the first `adding` streams − the others) modulo 2^k; whether all values are in range."""
    fits = True
    for start in range(0, values.size, _CHUNK):
        given, part = values[start : start + _CHUNK], out[start : start + _CHUNK]
        for i in range(part.size):
            # A negative value wraps to a number above every bound.
            fits &= np.uint64(given[i]) <= largest
            part[i] = given[i]
        for row in range(streams.shape[0]):
            stream = streams[row, start : start + _CHUNK]
            if row < adding:
                for i in range(part.size):
                    part[i] += stream[i]
            else:
                for i in range(part.size):
                    part[i] -= stream[i]
        for i in range(part.size):
            part[i] &= low_bits
    return fits
