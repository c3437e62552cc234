"""Words of k bits as bytes without gaps, so that a sum modulo 2^k costs k bits a value on the wire."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.modular_kernel import compiled


def packed_size(count: int, bits: int) -> int:
    """How many bytes `count` words of `bits` bits take."""
    return -(-count * bits // 8)


def pack_words(words: NDArray[Any], bits: int) -> NDArray[np.uint8]:
    """The words, each below 2^bits, one after another, lowest bit first; zeros fill the last byte."""
    if not 1 <= bits <= 64:
        raise ValueError(f"a word has 1 to 64 bits, not {bits}")
    flat = np.ascontiguousarray(words).reshape(-1)
    if bits < 64 and flat.size and int(flat.max()) >> bits:
        raise ValueError(f"a word does not fit in {bits} bits")
    out = np.zeros(packed_size(flat.size, bits), dtype=np.uint8)
    _pack(flat, bits, out)
    return out


def unpack_words(packed: NDArray[np.uint8], count: int, *, bits: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The reverse of `pack_words`; bytes of another length, or with a last byte not filled with zeros, are refused."""
    if packed.dtype != np.uint8 or packed.shape != (packed_size(count, bits),):
        raise ValueError(
            f"{count} words of {bits} bits take {packed_size(count, bits)} bytes, not {packed.size}"
        )
    spare = 8 * len(packed) - count * bits
    if spare and int(packed[-1]) >> (8 - spare):
        raise ValueError("the last byte holds more than the last word")
    out = np.zeros(count, dtype=dtype)
    _unpack(np.ascontiguousarray(packed), bits, out)
    return out


@compiled
def _pack(words: Any, bits: int, out: Any) -> None:
    held, pending, at = np.uint64(0), 0, 0
    for i in range(words.size):
        word, left = np.uint64(words[i]), bits
        while left > 0:
            taken = min(left, 8 - pending)
            held |= (word & ((np.uint64(1) << np.uint64(taken)) - np.uint64(1))) << np.uint64(pending)
            word >>= np.uint64(taken)
            pending += taken
            left -= taken
            if pending == 8:
                out[at] = held
                held, pending = np.uint64(0), 0
                at += 1
    if pending:
        out[at] = held


@compiled
def _unpack(packed: Any, bits: int, out: Any) -> None:
    offset, at = 0, 0
    for i in range(out.size):
        word, filled = np.uint64(0), 0
        while filled < bits:
            taken = min(bits - filled, 8 - offset)
            piece = (np.uint64(packed[at]) >> np.uint64(offset)) & (
                (np.uint64(1) << np.uint64(taken)) - np.uint64(1)
            )
            word |= piece << np.uint64(filled)
            filled += taken
            offset += taken
            if offset == 8:
                offset = 0
                at += 1
        out[i] = word
