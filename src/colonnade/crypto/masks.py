"""Pairwise masks for secure sums, and words of k bits as bytes without gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from numpy.typing import NDArray

from colonnade.numbers.compiling import machine_code


def packed_size(count: int, bits: int) -> int:
    return -(-count * bits // 8)


def pack_words(words: NDArray[Any], bits: int) -> NDArray[np.uint8]:
    """The words, each below 2^bits, one after another, lowest bit first; zeros fill the last byte."""
    if not 1 <= bits <= 64:
        raise ValueError(f"a word has 1 to 64 bits, not {bits}")
    flat = np.ascontiguousarray(words).reshape(-1)
    if bits < 64 and flat.size and int(flat.max()) >> bits:
        raise ValueError(f"a word does not fit in {bits} bits")
    octets = flat.astype("<u8").view(np.uint8).reshape(-1, 8)[:, : packed_size(1, bits)]
    return np.packbits(np.unpackbits(octets, axis=1, count=bits, bitorder="little"), bitorder="little")


def unpack_words(packed: NDArray[np.uint8], count: int, *, bits: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The reverse of `pack_words`; bytes of another length, or with a last byte not filled with zeros, are refused."""
    if packed.dtype != np.uint8 or packed.shape != (packed_size(count, bits),):
        raise ValueError(
            f"{count} words of {bits} bits take {packed_size(count, bits)} bytes, not {packed.size}"
        )
    spare = 8 * len(packed) - count * bits
    if spare and int(packed[-1]) >> (8 - spare):
        raise ValueError("the last byte holds more than the last word")
    single = np.unpackbits(packed, count=count * bits, bitorder="little").reshape(count, bits)
    octets = np.zeros((count, 8), dtype=np.uint8)
    octets[:, : packed_size(1, bits)] = np.packbits(single, axis=1, bitorder="little")
    return octets.view("<u8")[:, 0].astype(dtype)


# A block and one stream over it fit in the second-level cache together.
BLOCK_BYTES = 1 << 16
# One AES-256 key serves at most 2^36 bytes: counter mode then stays within 2^-65 of uniform.
_MOST_STREAM_BYTES = 1 << 36
# So many words stay in the first-level cache while all streams are added to them.
_CHUNK = 2048
_ZEROS = bytes(BLOCK_BYTES)


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

    def total(self, masked: Sequence[NDArray[Any]]) -> NDArray[np.uint64]:
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

    def masked(self, values: NDArray[Any], ring: SumRing, *, step: str) -> NDArray[Any]:
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


def _mask_blocks(
    values: NDArray[Any], ring: SumRing, adding: Sequence[Any], taking: Sequence[Any]
) -> NDArray[Any]:
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


@machine_code
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
