"""What is done to values and rows that reach past their bounds, and the count that stays at home."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass
class ClippingLog:
    """How many values of each column lay outside their declared bounds and were clipped.

    The counts depend on the data. They are for the party that holds it: nothing here turns into a message.
    `counts` is of the last complete reading of the table, so reading twice does not count twice.

    >>> log = ClippingLog()
    >>> log.finish({"age": 3, "sex": 0}, rows=100)
    >>> print(log)
    age: 3 of 100 values lay outside the declared bounds and were clipped
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    rows: int = 0

    def finish(self, counts: Mapping[str, int], *, rows: int) -> None:
        """Replace the counts by those of a reading that came to its end."""
        self.counts = {name: int(count) for name, count in counts.items() if count}
        self.rows = rows

    @property
    def total(self) -> int:
        """All clipped values."""
        return sum(self.counts.values())

    def __str__(self) -> str:
        if not self.counts:
            return "no value lay outside the declared bounds"
        return "\n".join(
            f"{name}: {count} of {self.rows} values lay outside the declared bounds and were clipped"
            for name, count in self.counts.items()
        )


def clamp_columns(rows: NDArray[np.int64], norm_squared: int) -> None:
    """Shorten, in place, every column vector of an integer matrix whose squared norm is above the bound.

    Guarantee: afterwards each column v of `rows` has ‖v‖² ≤ norm_squared, decided in exact integer
    arithmetic; columns within the bound do not change, and no entry changes its sign or grows.

    A record is a column here (feature-major), the layout in which records are quantised. A vector over the
    bound is scaled down and truncated toward zero; a scale too large by any rounding error of floats is
    caught by the last comparison, which sets the vector to zero.

    >>> rows = np.array([[3, 30], [4, -40]])
    >>> clamp_columns(rows, 100)
    >>> rows.tolist()
    [[3, 5], [4, -7]]
    """
    if rows.size == 0:
        return
    # Entries beyond this would overflow the 64-bit norms below; they are far past any bound.
    largest = math.isqrt((2**63 - 1) // len(rows))
    if norm_squared > largest**2:
        raise ValueError("this bound is too large for 64-bit norms")
    np.clip(rows, -largest, largest, out=rows)
    over = np.flatnonzero(_norms(rows) > norm_squared)
    if over.size == 0:
        return
    long = rows[:, over]
    # The margin is far above the few 2⁻⁵³ that the square root and the product can add.
    scale = np.sqrt(norm_squared / _norms(long).astype(np.float64)) * (1.0 - 2.0**-40)
    short = np.trunc(long * scale).astype(np.int64)
    short[:, _norms(short) > norm_squared] = 0
    rows[:, over] = short


def _norms(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    norms: NDArray[np.int64] = np.einsum("ij,ij->j", rows, rows)
    return norms
