"""Where random bits come from. Nothing else in the package may touch a source of randomness.

Three sources share one shape:

* `SystemRandomness` is what protects people: AES-256-CTR under a key from the operating system, a
  fresh key for every call. It keeps no state, so a fork, a thread or a restored snapshot of a virtual
  machine cannot make it repeat itself.
* `KeyedRandomness` expands a key that two parties share, for masks and seeds. Whoever holds the key
  can reproduce it, and nobody else.
* `SeededRandomness` is for tests and demonstrations. Noise drawn from it protects nobody, and a run
  that uses it says so.
"""

from __future__ import annotations

import hashlib
import os
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

_CHUNK = 1 << 20
_ZEROS = bytes(_CHUNK)
# One key serves at most 2^26 AES blocks: the distance of AES-CTR from uniform stays below 2^-77.
_BYTES_PER_KEY = 1 << 30
# Below this size the operating system's own generator is quicker than setting up a cipher.
_SMALL = 512


class Randomness(Protocol):
    """A source of uniform bits."""

    @property
    def reproducible(self) -> bool:
        """Whether someone who is not the drawing party could repeat these draws."""
        ...

    def bytes(self, count: int) -> bytes:
        """`count` uniform bytes, never handed out before."""
        ...

    def words(self, count: int) -> NDArray[np.uint64]:
        """`count` uniform 64-bit words in an array of their own."""
        ...


class _CounterStream:
    """AES-256 in counter mode from position zero: the expansion of one key."""

    def __init__(self, key: bytes) -> None:
        self._encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    def fill(self, target: memoryview) -> None:
        for start in range(0, len(target), _CHUNK):
            piece = target[start : start + _CHUNK]
            self._encryptor.update_into(_ZEROS[: len(piece)], piece)


class SystemRandomness:
    """Uniform bits that nobody can repeat."""

    reproducible = False

    def bytes(self, count: int) -> bytes:
        return os.urandom(count) if count <= _SMALL else self.words(-(-count // 8)).tobytes()[:count]

    def words(self, count: int) -> NDArray[np.uint64]:
        if 8 * count <= _SMALL:
            return np.frombuffer(os.urandom(8 * count), dtype=np.uint64).copy()
        out = np.empty(count, dtype=np.uint64)
        view = out.data.cast("B")
        for start in range(0, len(view), _BYTES_PER_KEY):
            _CounterStream(os.urandom(32)).fill(view[start : start + _BYTES_PER_KEY])
        return out


class KeyedRandomness:
    """The stream that a 32-byte key stands for; the same key gives the same stream."""

    reproducible = True

    def __init__(self, key: bytes) -> None:
        if len(key) != 32:
            raise ValueError(f"a stream key has 32 bytes, this one has {len(key)}")
        self._stream = _CounterStream(key)

    def bytes(self, count: int) -> bytes:
        out = bytearray(count)
        self._stream.fill(memoryview(out))
        return bytes(out)

    def words(self, count: int) -> NDArray[np.uint64]:
        out = np.empty(count, dtype=np.uint64)
        self._stream.fill(out.data.cast("B"))
        return out


class SeededRandomness(KeyedRandomness):
    """Repeatable draws for tests: a run that uses them has no privacy and says so."""

    def __init__(self, seed: int | str) -> None:
        super().__init__(hashlib.sha256(f"colonnade seeded randomness: {seed}".encode()).digest())


def below(bound: int, randomness: Randomness) -> int:
    """A uniform integer in [0, bound), exactly: candidates past the bound are drawn again."""
    if bound < 1:
        raise ValueError(f"there is no integer in [0, {bound})")
    bits = (bound - 1).bit_length()
    while True:
        candidate = int.from_bytes(randomness.bytes(-(-bits // 8)), "little") & ((1 << bits) - 1)
        if candidate < bound:
            return candidate


def shuffled(count: int, randomness: Randomness) -> NDArray[np.int64]:
    """A secret uniform order of `range(count)`: that of as many random numbers, drawn again where two are equal."""
    while True:
        words = randomness.words(count)
        order = np.argsort(words)
        ranked = words[order]
        if not np.any(ranked[1:] == ranked[:-1]):
            return order.astype(np.int64, copy=False)


def public_permutation(rows: int, seed: int) -> NDArray[np.int64]:
    """A shuffle that everybody may know: for splits and batch orders, never for anything secret."""
    return np.random.default_rng(seed).permutation(rows).astype(np.int64)
