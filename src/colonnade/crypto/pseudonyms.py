"""Keyed pseudonyms of ids, sixteen bytes each, what sorted lists of them share, and shorter digests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


def keyed_digests(key: bytes, texts: Iterable[str], *, person: bytes = b"") -> NDArray[np.uint64]:
    """The digests as integers. The key is hashed once: every text begins with a copy of the state after it."""
    keyed = hashlib.blake2b(digest_size=8, key=key, person=person)
    digests = bytearray()
    for text in texts:
        state = keyed.copy()
        state.update(text.encode())
        digests += state.digest()
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64, copy=False)


PSEUDONYM_BYTES = 16
DUMMIES = 128
"""So many people whom nobody has are in every list: whoever leaves out a tenth of a list misses one of them."""
_COUNTER = 8

Strings = NDArray[np.uint8]


def subkey(key: bytes, purpose: str) -> bytes:
    return hashlib.sha256(key + f"colonnade pseudonyms of {purpose}".encode()).digest()


def pseudonyms(store: NDArray[np.uint8], ends: NDArray[Any], key: bytes) -> Strings:
    """Keyed BLAKE2b of every text between two ends, after a zero byte."""
    # Compiled loops take a while to load, and whoever only reads a ledger needs none.
    from colonnade.crypto.blake2 import digest_texts

    return digest_texts(store, ends, key, PSEUDONYM_BYTES)


def numbered(count: int, key: bytes) -> Strings:
    """Pseudonyms of so many numbers: dummies and padding are made as ids are, so that they take as long."""
    content = np.arange(count, dtype="<u8").view(np.uint8)
    return pseudonyms(content, np.arange(0, _COUNTER * (count + 1), _COUNTER), key)


@dataclass(frozen=True, eq=False)
class PseudonymList:
    """What one owner lists: pseudonyms of its ids, of the dummies and of padding, sorted.

    `order` says what stands at each place: below `count` the id of that row, then dummies, then padding.
    """

    strings: Strings
    order: NDArray[np.int32]
    count: int

    @classmethod
    def of(cls, strings: Strings, count: int, *, key: bytes, padding: bytes) -> PseudonymList:
        """The list of an owner from its first `count` strings, which are of its ids; the others are made here.

        `key` is that of all owners, `padding` this owner's alone.
        """
        last = count + DUMMIES
        strings[count:last] = numbered(DUMMIES, subkey(key, "dummies"))
        strings[last:] = numbered(len(strings) - last, padding)
        # Compiled loops take a while to load, and whoever only reads a ledger needs none.
        from colonnade.crypto.sorted_strings import sort_strings

        return cls(strings, sort_strings(strings), count)

    @property
    def repeated(self) -> int:
        """How many strings stand in it once more: ids that are repeated."""
        return int(np.count_nonzero(_packed(self.strings)[1:] == _packed(self.strings)[:-1]))

    def rows(self, named: NDArray[np.bool_]) -> tuple[NDArray[np.int32], bool]:
        """The rows at these places, in order of their pseudonyms, and whether places are named as they can be.

        Every dummy is common to all lists, and no padding is.
        """
        numbers = self.order[named]
        rows = numbers[numbers < self.count]
        padding = np.count_nonzero(numbers >= self.count + DUMMIES)
        return rows, not padding and len(numbers) - len(rows) == DUMMIES


def ascending(strings: Strings) -> bool:
    """Whether every string is greater than the one before it."""
    packed = _packed(strings)
    return bool(np.all(packed[1:] > packed[:-1]))


def common(lists: Sequence[Strings]) -> list[NDArray[np.bool_]]:
    """For each of these sorted lists, which of its places are common to all of them."""
    from colonnade.crypto.sorted_strings import strings_within

    first, *others = lists
    named = np.ones(len(first), dtype=bool)
    for other in others:
        named &= strings_within(first, other)
    shared = first[named]
    return [named, *(strings_within(other, shared) for other in others)]


def _packed(strings: Strings) -> NDArray[Any]:
    return np.ascontiguousarray(strings).view(f"S{PSEUDONYM_BYTES}")[:, 0]
