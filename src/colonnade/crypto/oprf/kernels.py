"""The loops of transfer extension as machine code: integers only, one type of array each, the lock released."""

from __future__ import annotations

from typing import Any

import numpy as np

from colonnade.crypto.blake2s import COUNT, LANES, LAST, MESSAGE, RESULT, WORK, compress
from colonnade.crypto.modular_kernel import compiled

_ALL = 0xFFFFFFFF
_NONE = -1


@compiled
def transpose(columns: Any, rows: Any) -> None:
    """Bit columns, as words, to bit rows: `columns` is (bits, rows / 64), `rows` is (rows, bits / 64)."""
    square = np.empty(64, np.uint64)
    for group in range(columns.shape[1]):
        for word in range(rows.shape[1]):
            for line in range(64):
                square[line] = columns[64 * word + line, group]
            width = 32
            mask = np.uint64(0x00000000FFFFFFFF)
            while width:
                shift = np.uint64(width)
                for start in range(0, 64, 2 * width):
                    for line in range(start, start + width):
                        swapped = ((square[line] >> shift) ^ square[line + width]) & mask
                        square[line] ^= swapped << shift
                        square[line + width] ^= swapped
                width >>= 1
                if width:
                    mask ^= mask << np.uint64(width)
            for line in range(64):
                rows[64 * group + line, word] = square[line]


@compiled
def gather(table: Any, digests: Any, out: Any) -> None:
    """The digest of the id in every bin; an empty bin keeps what is there."""
    for place in range(len(table)):
        row = table[place]
        if row != _NONE:
            out[place, 0] = digests[row, 0]
            out[place, 1] = digests[row, 1]


@compiled
def add_codes(rows: Any, codes: Any, count: int) -> None:
    """rows ⊕= code, for the first rows."""
    for row in range(count):
        for word in range(rows.shape[1]):
            rows[row, word] ^= codes[word >> 1, row, word & 1]


@compiled
def choose(rows: Any, received: Any, chosen: Any) -> None:
    """rows ⊕= received ∧ chosen."""
    for row in range(len(received)):
        for word in range(rows.shape[1]):
            rows[row, word] ^= received[row, word] & chosen[word]


@compiled
def by_block(bins: Any, blocks: int, rows: int) -> Any:
    """All pairs of an id and one of its bins, three times the id and which, in the order of the blocks of bins."""
    cuts = np.zeros(blocks + 1, np.int64)
    for row in range(len(bins)):
        for way in range(3):
            cuts[bins[row, way] // rows + 1] += 1
    for block in range(blocks):
        cuts[block + 1] += cuts[block]
    at = cuts.copy()
    pairs = np.empty(3 * len(bins), np.uint32)
    for row in range(len(bins)):
        for way in range(3):
            block = bins[row, way] // rows
            pairs[at[block]] = 3 * row + way
            at[block] += 1
    return cuts, pairs


@compiled
def gather_pairs(
    pairs: Any, bins: Any, digests: Any, first: int, places: Any, rows: Any, words: Any, into: Any
) -> None:
    """For each pair: the row of its bin in this block, its id’s digest, and where its value goes in the records."""
    for number in range(len(pairs)):
        row, way = np.int64(pairs[number]) // 3, np.int64(pairs[number]) % 3
        rows[number] = bins[row, way] - first
        words[number, 0] = digests[row, 0]
        words[number, 1] = digests[row, 1]
        into[number] = 3 * np.int64(places[row]) + way


@compiled
def hash_rows(
    rows: Any, index: Any, codes: Any, chosen: Any, coded: bool, first: int, start: Any, out: Any, into: Any
) -> None:
    """out[into] := BLAKE2s of rows[index], plus code ∧ `chosen` if `coded`, with the number of the bin as person."""
    work = np.zeros(WORK, np.uint32)
    for lane in range(LANES):
        work[COUNT * LANES + lane] = np.uint32(8 * rows.shape[1])
        work[LAST * LANES + lane] = np.uint32(_ALL)
        for word in range(8):
            work[word * LANES + lane] = start[word]
    for begin in range(0, len(index), LANES):
        used = min(LANES, len(index) - begin)
        for lane in range(used):
            row = index[begin + lane]
            for word in range(rows.shape[1]):
                value = rows[row, word]
                if coded:
                    value ^= codes[word >> 1, begin + lane, word & 1] & chosen[word]
                work[(MESSAGE + 2 * word) * LANES + lane] = np.uint32(value & np.uint64(_ALL))
                work[(MESSAGE + 2 * word + 1) * LANES + lane] = np.uint32(value >> np.uint64(32))
            work[6 * LANES + lane] = start[6] ^ np.uint32(first + row)
        compress(work.ctypes.data)
        for lane in range(used):
            target = into[begin + lane]
            for word in range(3):
                out[target, word] = work[(RESULT + word) * LANES + lane]


@compiled
def index_values(values: Any, slots: Any, marks: Any) -> None:
    """Open addressing: every value's number in a table of slots, a power of two of them, and a mark for it."""
    mask, wide = np.uint64(len(slots) - 1), np.uint64(64 * len(marks) - 1)
    for row in range(len(values)):
        key = np.uint64(values[row, 0]) | (np.uint64(values[row, 1]) << np.uint64(32))
        bit = key & wide
        marks[bit >> np.uint64(6)] |= np.uint64(1) << (bit & np.uint64(63))
        place = key & mask
        while slots[place] != _NONE:
            place = (place + np.uint64(1)) & mask
        slots[place] = row


@compiled
def probe(
    values: Any, thirds: Any, slots: Any, marks: Any, keys: Any, rests: Any, first: int, found: Any
) -> int:
    """found[id] := the record that has its value; how many ids were found once more.

    Values come three a record, as a word and what is beyond it. One is looked for only among ids that lie in its third.
    Marks are small enough to stay near the processor, and most values that are in no table end there.
    """
    mask, wide = np.uint64(len(slots) - 1), np.uint64(64 * len(marks) - 1)
    again = 0
    for number in range(len(keys)):
        key = keys[number]
        bit = key & wide
        if not (marks[bit >> np.uint64(6)] >> (bit & np.uint64(63))) & np.uint64(1):
            continue
        place = key & mask
        while slots[place] != _NONE:
            row = slots[place]
            own = np.uint64(values[row, 0]) | (np.uint64(values[row, 1]) << np.uint64(32))
            if own == key and values[row, 2] == rests[number] and thirds[row] == number % 3:
                again += found[row] != _NONE
                found[row] = first + number // 3
            place = (place + np.uint64(1)) & mask
    return again
