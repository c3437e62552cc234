"""Which of the receiver's ids stand in the sender's records, found as the records come."""

from __future__ import annotations

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
        self._values, self._thirds, self._size = values, thirds, size
        self._slots = np.full(1 << (2 * len(values)).bit_length(), ABSENT, dtype=np.int32)
        index_values(values, self._slots)
        self.places = np.full(len(values), ABSENT, dtype=np.int32)

    def look_up(self, records: NDArray[np.uint8], *, first: int) -> None:
        """Note which ids have a value among these records, whose first is number `first`."""
        whole = np.zeros((len(records), FUNCTIONS, MOST_VALUE_BYTES), dtype=np.uint8)
        whole[:, :, : self._size] = records
        if probe(self._values, self._thirds, self._slots, whole.view(np.uint32), first, self.places):
            raise ValueError("an id is in two records")
