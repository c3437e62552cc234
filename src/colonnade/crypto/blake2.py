"""Keyed BLAKE2b (RFC 7693) of many short texts at once: what hashlib gives for each, without an object for each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from colonnade.numbers.compiling import machine_code

_BLOCK, _ROUNDS = 128, 12
_START = np.array(
    [
        0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
        0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179,
    ],
    dtype=np.uint64,
)  # fmt: skip
# Which word of a block each half step takes, round by round.
_WORDS = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    ],
    dtype=np.uint8,
)


def digest_texts(store: NDArray[np.uint8], ends: NDArray[Any], key: bytes, size: int) -> NDArray[np.uint8]:
    """`size` bytes, a multiple of eight, for every text between two ends, hashed after a zero byte under `key`.

    With that byte the block of the key is never the last one, and is hashed once for all texts.
    """
    state = _START.copy()
    state[0] ^= np.uint64(0x01010000 ^ len(key) << 8 ^ size)
    block = np.zeros(_BLOCK, dtype=np.uint8)
    block[: len(key)] = np.frombuffer(key, dtype=np.uint8)
    _compress(state, block.view(np.uint64), _BLOCK, False)
    digests = np.empty((len(ends) - 1, size // 8), dtype=np.uint64)
    # Compiled once, for arrays that are only read, as those of Arrow are.
    store, ends = store.view(), np.array(ends, dtype=np.int64)
    store.flags.writeable = False
    _digest_all(store, ends, state, digests)
    return digests.view(np.uint8)


@machine_code
def _mix(
    a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64, first: np.uint64, second: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    a += b + first
    d ^= a
    d = (d >> uint64(32)) | (d << uint64(32))
    c += d
    b ^= c
    b = (b >> uint64(24)) | (b << uint64(40))
    a += b + second
    d ^= a
    d = (d >> uint64(16)) | (d << uint64(48))
    c += d
    b ^= c
    return a, (b >> uint64(63)) | (b << uint64(1)), c, d


@machine_code
def _compress(state: NDArray[np.uint64], words: NDArray[np.uint64], count: int, last: bool) -> None:
    """Take one block of sixteen words into the state; `count` bytes were hashed with it."""
    a, b, c, d, e, f, g, h = state
    i, j, k, m, n, o, p, q = _START
    n ^= uint64(count)
    if last:
        p = ~p
    for round_ in range(_ROUNDS):
        s = _WORDS[round_ % 10]
        a, e, i, n = _mix(a, e, i, n, words[s[0]], words[s[1]])
        b, f, j, o = _mix(b, f, j, o, words[s[2]], words[s[3]])
        c, g, k, p = _mix(c, g, k, p, words[s[4]], words[s[5]])
        d, h, m, q = _mix(d, h, m, q, words[s[6]], words[s[7]])
        a, f, k, q = _mix(a, f, k, q, words[s[8]], words[s[9]])
        b, g, m, n = _mix(b, g, m, n, words[s[10]], words[s[11]])
        c, h, i, o = _mix(c, h, i, o, words[s[12]], words[s[13]])
        d, e, j, p = _mix(d, e, j, p, words[s[14]], words[s[15]])
    for at, one in enumerate((a ^ i, b ^ j, c ^ k, d ^ m, e ^ n, f ^ o, g ^ p, h ^ q)):
        state[at] ^= one


@machine_code
def _digest_all(
    store: NDArray[np.uint8], ends: NDArray[np.int64], begun: NDArray[np.uint64], out: NDArray[np.uint64]
) -> None:
    state, words = np.empty(8, dtype=np.uint64), np.empty(16, dtype=np.uint64)
    for text in range(ends.size - 1):
        for at in range(8):
            state[at] = begun[at]
        start, left, shift, total = ends[text], ends[text + 1] - ends[text] + 1, 1, 128
        while left > 0:
            _fill(words, store, start, min(left, 128), shift)
            total += min(left, 128)
            start += 128 - shift
            left -= 128
            shift = 0
            _compress(state, words, total, left <= 0)
        for at in range(out.shape[1]):
            out[text, at] = state[at]


@machine_code
def _fill(words: NDArray[np.uint64], store: NDArray[np.uint8], start: int, count: int, skipped: int) -> None:
    """A block of `count` bytes of the store, of which the first ones are `skipped` zeros; zeros follow."""
    for at in range(16):
        word = uint64(0)
        for byte in range(max(8 * at, skipped), min(8 * at + 8, count)):
            word |= uint64(store[start + byte - skipped]) << uint64(8 * (byte - 8 * at))
        words[at] = word
