"""The fast path of strip rejection: two 64-bit words a candidate, integers only.

The first word picks a cell through the alias columns. The second gives the offset in the cell (low 40
bits) and the leading 24 bits of the acceptance uniform. A candidate whose uniform lies below the chord's
band is taken, above it is refused, inside it is noted for exact settlement. Python integers do the same
in `tests/oracles/kernel_twin.py`, and tests hold the two together.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colonnade.noise.compiled import compiled
from colonnade.noise.table import CAPACITY, COLUMN_BITS, OFFSET_BITS

_COLUMN_SHIFT = np.uint64(64 - COLUMN_BITS)
_WITHIN_COLUMN = np.uint64(CAPACITY - 1)
_OFFSET_SHIFT = np.uint64(OFFSET_BITS)
_OFFSET_MASK = np.uint64((1 << OFFSET_BITS) - 1)


@compiled
def fill(
    rows: NDArray[np.int64],
    words: NDArray[np.uint64],
    out: NDArray[np.int64],
    start: int,
    doubts: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Fills `out` from `start` on; gives the next slot, the words used and the doubts noted.

    Stops when the slots, the words or the room for doubts run out. A doubt (slot, cell, offset, uniform)
    reserves its slot: dropping it, or taking it unsettled, would bend the law.
    """
    slot = start
    used = 0
    noted = 0
    while slot < out.shape[0] and used + 2 <= words.shape[0] and noted < doubts.shape[0]:
        first = words[used]
        second = words[used + 1]
        used += 2
        column = np.int64(first >> _COLUMN_SHIFT)
        cell = column
        if np.int64(first & _WITHIN_COLUMN) >= rows[column, 0]:
            cell = rows[column, 1]
        shift = rows[cell, 3]
        offset = np.int64(second & _OFFSET_MASK) >> shift
        uniform = np.int64(second >> _OFFSET_SHIFT)
        chord = rows[cell, 4] + ((rows[cell, 5] * ((offset << shift) >> np.int64(8))) >> np.int64(32))
        if uniform < chord - rows[cell, 6]:
            out[slot] = rows[cell, 2] + offset
            slot += 1
        elif uniform < chord + rows[cell, 6]:
            doubts[noted, 0] = slot
            doubts[noted, 1] = cell
            doubts[noted, 2] = offset
            doubts[noted, 3] = uniform
            noted += 1
            slot += 1
    return slot, used, noted
