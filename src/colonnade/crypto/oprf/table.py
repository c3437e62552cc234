"""A cuckoo table: every id in one of its three bins, at most one id a bin.

Bins come from AES under a key that the receiver draws, so that both sides know which three bins an id may lie in, and
only the receiver which one it lies in. An id goes for a walk and pushes others out; one whose walk is long is placed by
search instead, so filling fails only if no placing exists at all, and then another key is drawn.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from colonnade.crypto.modular_kernel import compiled
from colonnade.crypto.oprf.parameters import FUNCTIONS, third_of
from colonnade.randomness import Randomness

SEED_BYTES = 32
EMPTY = -1
_WALK = 500
_CHUNK = 1 << 18
_TRIES = 64

Digests = NDArray[np.uint64]
Bins = NDArray[np.int32]


def keyed(seed: bytes, use: str) -> Any:
    """AES under one of the keys that a seed stands for, block by block."""
    key = hashlib.sha256(seed + use.encode()).digest()[:16]
    # Every block is another digest under a key of its own use: a pseudorandom function, not a way to encrypt.
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305


def bins_of(digests: Digests, seed: bytes, third: int) -> Bins:
    """The three bins of every id, one in each third.

    >>> digests = np.arange(4, dtype=np.uint64).reshape(2, 2)
    >>> found = bins_of(digests, bytes(32), 10)
    >>> [int(column.min()) // 10 for column in found.T], found.shape
    ([0, 1, 2], (2, 3))
    """
    out = np.empty((len(digests), FUNCTIONS), dtype=np.int32)
    cipher = keyed(seed, "bins")
    room = np.empty(16 * min(len(digests), _CHUNK) + 15, dtype=np.uint8)
    for start in range(0, len(digests), _CHUNK):
        part = np.ascontiguousarray(digests[start : start + _CHUNK])
        cipher.update_into(part.view(np.uint8).reshape(-1), room)
        words = room[: 16 * len(part)].view(np.uint64).reshape(-1, 2)
        _place(words, third, out[start : start + _CHUNK])
    return out


def filled(digests: Digests, shown: int, randomness: Randomness) -> tuple[bytes, NDArray[np.int32]]:
    """A seed and the table of ids that it gives, `EMPTY` where there is none, with room for the size that is shown.

    Digests must be different: equal ones would both find a place.

    >>> from colonnade.randomness import SystemRandomness
    >>> _, table = filled(np.arange(6, dtype=np.uint64).reshape(3, 2), 3, SystemRandomness())
    >>> sorted(table[table >= 0].tolist())
    [0, 1, 2]
    """
    third = third_of(shown)
    table = np.empty(FUNCTIONS * third, dtype=np.int32)
    for _ in range(_TRIES):
        seed = randomness.bytes(SEED_BYTES)
        bins = bins_of(digests, seed, third)
        table[:] = EMPTY
        if _fill(bins, table, np.uint64(int.from_bytes(randomness.bytes(8), "little") | 1)):
            return seed, table
    raise ValueError(f"no table for {len(digests)} ids was found: are some of them equal?")


@compiled
def _place(words: Any, third: int, out: Any) -> None:
    # 38 bits a bin: with at most 2^26 bins the product stays in a word, and a bin is off by 2^-12 of its chance.
    mask, size = np.uint64((1 << 38) - 1), np.uint64(third)
    for row in range(len(words)):
        low, high = words[row, 0], words[row, 1]
        rest = (low >> np.uint64(38)) | ((high >> np.uint64(38)) << np.uint64(26))
        out[row, 0] = ((low & mask) * size) >> np.uint64(38)
        out[row, 1] = third + np.int64(((high & mask) * size) >> np.uint64(38))
        out[row, 2] = 2 * third + np.int64(((rest & mask) * size) >> np.uint64(38))


@compiled
def _fill(bins: Any, table: Any, seed: Any) -> bool:
    draw = seed
    came = np.empty(0, np.int32)
    queue = np.empty(0, np.int32)
    for row in range(len(bins)):
        current = np.int32(row)
        left = np.int32(EMPTY)
        for _step in range(_WALK):
            free = -1
            for each in range(3):
                if table[bins[current, each]] == EMPTY:
                    free = each
                    break
            if free >= 0:
                table[bins[current, free]] = current
                current = np.int32(EMPTY)
                break
            draw ^= draw << np.uint64(13)
            draw ^= draw >> np.uint64(7)
            draw ^= draw << np.uint64(17)
            way = np.int64((draw >> np.uint64(33)) % np.uint64(3))
            if bins[current, way] == left:
                way = (way + 1) % 3
            place = bins[current, way]
            pushed = table[place]
            table[place] = current
            current, left = pushed, place
        if current != EMPTY:
            if not len(came):
                came = np.full(len(table), np.int32(-2), np.int32)
                queue = np.empty(len(table), np.int32)
            if not _search(bins, table, current, came, queue):
                return False
    return True


@compiled
def _search(bins: Any, table: Any, start: Any, came: Any, queue: Any) -> bool:
    """Breadth first from one id without a place to an empty bin; the ids on the way move on by one."""
    seen = 0
    for way in range(3):
        place = bins[start, way]
        if came[place] == -2:
            came[place] = -1
            queue[seen] = place
            seen += 1
    at = 0
    free = np.int32(-1)
    while at < seen:
        place = queue[at]
        at += 1
        if table[place] == EMPTY:
            free = place
            break
        for way in range(3):
            onward = bins[table[place], way]
            if came[onward] == -2:
                came[onward] = place
                queue[seen] = onward
                seen += 1
    if free >= 0:
        place = free
        while came[place] >= 0:
            table[place] = table[came[place]]
            place = came[place]
        table[place] = start
    for visited in range(seen):
        came[queue[visited]] = -2
    return bool(free >= 0)
