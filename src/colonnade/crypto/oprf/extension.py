"""Transfer extension, a block of rows at a time: from a few hundred base transfers to one a bin.

The receiver expands both seeds of each base transfer to a column of bits, the sender the one that it chose. Turned into
rows, the receiver has t and t′ and sends u = t ⊕ t′ ⊕ C(x) for the id x in a bin; the sender, who chose s, has
q = t ⊕ (u-part where s is one), and so q ⊕ (C(y) ∧ s) = t ⊕ ((C(x) ⊕ C(y)) ∧ s): t itself if y = x, and elsewhere t
with at least 128 bits of s in it. The value of an id in a bin is a hash of that row. C is a pseudorandom code, the
digest of an id under AES with several keys.

A block is computed whole whether or not the table fills it, so that both sides stay at the same place of every column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from colonnade.crypto.blake2s import start_state
from colonnade.crypto.oprf.kernels import (
    add_codes,
    by_block,
    choose,
    gather,
    gather_pairs,
    hash_rows,
    transpose,
)
from colonnade.crypto.oprf.parameters import FUNCTIONS, MOST_VALUE_BYTES, ROWS, third_of
from colonnade.crypto.oprf.table import EMPTY, Digests, bins_of, keyed
from colonnade.randomness import Randomness, shuffled

Rows = NDArray[np.uint64]
Values = NDArray[np.uint32]
_ZEROS = bytes(ROWS // 8)
_KEYS = 4
# The 64 bits of BLAKE2s's personalisation, whose first half is the number of the bin.
_PERSON = b"\0\0\0\0oprf"


class Receiver:
    """The side that has one id a bin: makes the rows to send, and keeps the value of each of its ids."""

    def __init__(
        self,
        digests: Digests,
        table: NDArray[np.int32],
        seed: bytes,
        pairs: Sequence[tuple[bytes, bytes]],
        randomness: Randomness,
    ) -> None:
        self.values: Values = np.zeros((len(digests), MOST_VALUE_BYTES // 4), dtype=np.uint32)
        self.thirds = np.zeros(len(digests), dtype=np.uint8)
        self._digests, self._table, self._code = digests, table, _Code(seed, ROWS)
        self._words = len(pairs) // 64
        self._columns = _Columns([first for first, _ in pairs]), _Columns([second for _, second in pairs])
        self._rows = np.empty((ROWS, self._words), dtype=np.uint64)
        self._fill = _stream(randomness.bytes(16))
        self._start = start_state(MOST_VALUE_BYTES, person=_PERSON)
        self._none = np.zeros(self._words, dtype=np.uint64)

    @property
    def blocks(self) -> int:
        """How many blocks of rows there are."""
        return -(-len(self._table) // ROWS)

    def block(self, number: int) -> Rows:
        """What to send for one block; blocks come in order, each once."""
        first = number * ROWS
        table = self._table[first : first + ROWS]
        own, other = (columns.next() for columns in self._columns)
        np.bitwise_xor(own, other, out=other)
        transpose(own, self._rows)
        sent = np.empty((ROWS, self._words), dtype=np.uint64)
        transpose(other, sent)
        # An empty bin has the code of random bytes, so that it looks like any other to whoever could see it.
        words = np.frombuffer(self._fill.update(bytes(16 * ROWS)), dtype=np.uint64).reshape(-1, 2).copy()
        gather(table, self._digests, words)
        codes = self._code.of(words)
        add_codes(sent, codes, len(table))
        bins = np.flatnonzero(table != EMPTY).astype(np.int32)
        ids = table[bins].astype(np.int64)
        hash_rows(self._rows, bins, codes, self._none, False, first, self._start, self.values, ids)
        self.thirds[ids] = (first + bins) // (len(self._table) // FUNCTIONS)
        return sent[: len(table)]


class Sender:
    """The side that has up to three values for each of its ids: takes rows, and keeps records in a secret order.

    A record is the three values of one id, in the order of the thirds, and all records are shuffled as one list. What
    there is to show beyond the ids is random records, which meet no value.
    """

    def __init__(
        self,
        digests: Digests,
        *,
        shown: int,
        their_size: int,
        seed: bytes,
        chosen_seeds: Sequence[bytes],
        bits: NDArray[np.uint8],
        randomness: Randomness,
    ) -> None:
        self._size = FUNCTIONS * third_of(their_size)
        self.order = shuffled(shown, randomness)
        # In the order of the records, which are then written one after another.
        self._places = np.flatnonzero(self.order < len(digests)).astype(np.int32)
        self._digests = digests[self.order[self._places]]
        self._bins = bins_of(self._digests, seed, third_of(their_size))
        self._words = len(bits) // 64
        self._chosen = np.packbits(bits, bitorder="little").view(np.uint64).copy()
        self._columns = _Columns(chosen_seeds)
        self._rows = np.empty((ROWS, self._words), dtype=np.uint64)
        self._cuts, self._pairs = by_block(self._bins, self.blocks, ROWS)
        self._most = int(np.diff(self._cuts).max(initial=0))
        self._code = _Code(seed, self._most)
        self._start = start_state(MOST_VALUE_BYTES, person=_PERSON)
        self._records = np.empty((FUNCTIONS * shown, MOST_VALUE_BYTES // 4), dtype=np.uint32)
        # Records that no id fills stay random.
        spare = self._records.reshape(shown, FUNCTIONS * MOST_VALUE_BYTES // 4)
        empty = np.flatnonzero(self.order >= len(digests))
        for start in range(0, len(empty), ROWS):
            places = empty[start : start + ROWS]
            words = np.frombuffer(randomness.bytes(4 * spare.shape[1] * len(places)), dtype=np.uint32)
            spare[places] = words.reshape(len(places), -1)

    @property
    def blocks(self) -> int:
        """How many blocks of rows there are."""
        return -(-self._size // ROWS)

    def rows_in(self, number: int) -> int:
        """How many rows a block has."""
        return min(ROWS, self._size - number * ROWS)

    def take(self, number: int, received: Rows) -> None:
        """Use one block of the receiver's rows; blocks come in order, each once."""
        transpose(self._columns.next(), self._rows)
        # A copy of its own: what comes off a wire may lie anywhere, and the kernel is compiled for one kind of array.
        choose(self._rows, np.array(received, dtype=np.uint64), self._chosen)
        pairs = self._pairs[self._cuts[number] : self._cuts[number + 1]]
        if not len(pairs):
            return
        rows = np.empty(len(pairs), dtype=np.int32)
        words = np.empty((len(pairs), 2), dtype=np.uint64)
        into = np.empty(len(pairs), dtype=np.int64)
        gather_pairs(pairs, self._bins, self._digests, number * ROWS, self._places, rows, words, into)
        hash_rows(
            self._rows,
            rows,
            self._code.of(words),
            self._chosen,
            True,
            number * ROWS,
            self._start,
            self._records,
            into,
        )

    def records(self, first: int, last: int, size: int) -> NDArray[np.uint8]:
        """Some records in the secret order, each value cut to `size` bytes."""
        content = self._records.view(np.uint8).reshape(len(self.order), FUNCTIONS, MOST_VALUE_BYTES)
        return np.ascontiguousarray(content[first:last, :, :size])


class _Columns:
    """The columns of bits that seeds stand for, a block at a time."""

    def __init__(self, seeds: Sequence[bytes]) -> None:
        self._streams = [_stream(seed) for seed in seeds]
        # The cipher asks for some bytes more than it fills.
        self._room = np.empty(len(seeds) * len(_ZEROS) + 15, dtype=np.uint8)

    def next(self) -> NDArray[np.uint64]:
        room, size = self._room, len(_ZEROS)
        for number, stream in enumerate(self._streams):
            stream.update_into(_ZEROS, room[number * size : (number + 1) * size + 15])
        return self._room[:-15].view(np.uint64).reshape(len(self._streams), -1)


class _Code:
    """The pseudorandom code of digests, up to so many at a time."""

    def __init__(self, seed: bytes, most: int) -> None:
        self._ciphers = [keyed(seed, f"code {number}") for number in range(_KEYS)]
        # One more than there are: the cipher asks for some bytes more than it fills.
        self._room = np.empty((_KEYS, most + 1, 2), dtype=np.uint64)

    def of(self, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Four pairs of words for each digest, by key."""
        content = words.view(np.uint8).reshape(-1)
        for number, cipher in enumerate(self._ciphers):
            cipher.update_into(content, self._room[number].view(np.uint8).reshape(-1))
        return self._room


def _stream(key: bytes) -> Any:
    return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
