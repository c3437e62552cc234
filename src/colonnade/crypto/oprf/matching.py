"""Which of the receiver's ids stand in the sender's records, found as the records come."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.oprf.kernels import index_values, probe
from colonnade.crypto.oprf.parameters import FUNCTIONS, MOST_VALUE_BYTES

ABSENT = -1


class Matching:
    """The receiver's values, to look records up in.

    >>> values = np.arange(6, dtype=np.uint32).reshape(2, 3)
    >>> matching = Matching(values, np.array([0, 2], dtype=np.uint8), size=12)
    >>> record = np.zeros((1, 3, 12), dtype=np.uint8)
    >>> record[0, 2] = values[1].view(np.uint8)
    >>> matching.look_up(record, first=5)
    >>> matching.places.tolist()
    [-1, 5]
    """

    def __init__(self, values: NDArray[np.uint32], thirds: NDArray[np.uint8], *, size: int) -> None:
        values.view(np.uint8).reshape(len(values), MOST_VALUE_BYTES)[:, size:] = 0
        self._values, self._thirds = values, thirds
        self._slots = np.full(1 << (2 * len(values)).bit_length(), ABSENT, dtype=np.int32)
        self._marks = np.zeros(max(1, len(self._slots) // 16), dtype=np.uint64)
        index_values(values, self._slots, self._marks)
        self.places = np.full(len(values), ABSENT, dtype=np.int32)

    def look_up(self, records: NDArray[np.uint8], *, first: int) -> None:
        """Note which ids have a value among these records, whose first is number `first`."""
        size, count = records.shape[2], FUNCTIONS * len(records)
        room = np.zeros(size * count + MOST_VALUE_BYTES, dtype=np.uint8)
        room[: size * count] = records.reshape(-1)
        keys, rests = _every(room, count, size, "<u8", 0), _every(room, count, size, "<u4", 8)
        if probe(self._values, self._thirds, self._slots, self._marks, keys, rests, first, self.places):
            raise ValueError("an id is in two records")


def _every(room: NDArray[np.uint8], count: int, size: int, dtype: str, offset: int) -> NDArray[Any]:
    """The number that begins so far into every `size` bytes, without what belongs to the next ones."""
    width = max(0, min(np.dtype(dtype).itemsize, size - offset))
    values: NDArray[Any] = np.ndarray((count,), dtype, room, offset, (size,)).copy()
    values &= values.dtype.type((1 << (8 * width)) - 1)
    return values
