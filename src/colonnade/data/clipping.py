"""What is done to values and rows that reach past their bounds, and what is noticed on the way and stays at home."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

_DIGITS = 5e-4


@dataclass
class ClippingLog:
    """How many values of each column lay outside their declared bounds and were clipped.

    The counts depend on the data. They are for the party that holds it: nothing here turns into a message.
    `counts` is of the last complete reading of the table, so reading twice does not count twice.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    rows: int = 0
    standardised: tuple[str, ...] = ()

    def finish(
        self, counts: Mapping[str, int], *, rows: int, standardised: tuple[str, ...] | None = None
    ) -> None:
        """Replace the counts by those of a reading that came to its end, and the columns of which it raised doubts."""
        self.counts = {name: int(count) for name, count in counts.items() if count}
        self.rows = rows
        self.standardised = self.standardised if standardised is None else standardised

    @property
    def warning(self) -> str:
        if not self.standardised:
            return ""
        return (
            f"{', '.join(self.standardised)}: mean 0 and deviation 1 to three digits, as if standardised by the mean "
            "of these rows. Then every row depends on everybody, and what is lost is more than any ε printed here. "
            "Give the values as they were measured and declare their bounds: they are scaled by those."
        )

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def __str__(self) -> str:
        if not self.counts:
            return "no value lay outside the declared bounds"
        return "\n".join(
            f"{name}: {count} of {self.rows} values lay outside the declared bounds and were clipped"
            for name, count in self.counts.items()
        )


class Spreads:
    """Mean and deviation of columns with symmetric bounds, to notice those that were standardised by their own mean.

    Values count as they come, before any is clipped.
    """

    def __init__(self, bounds: Mapping[str, tuple[float, float]]) -> None:
        self._sums = {name: np.zeros(3) for name, (low, high) in bounds.items() if low == -high}

    def add(self, name: str, values: NDArray[np.float64] | None) -> None:
        """Some more values of a column; missing ones do not count."""
        if name in self._sums and values is not None:
            present = values[np.isfinite(values)]
            # What is too large to be squared has no deviation of 1.
            with np.errstate(over="ignore"):
                self._sums[name] += np.array([present.size, present.sum(), present @ present])

    def standardised(self) -> tuple[str, ...]:
        """The columns with mean 0 and deviation 1 to three digits, over n or over n − 1."""
        return tuple(name for name, sums in self._sums.items() if _is_standard(*sums.tolist()))


def _is_standard(count: float, total: float, squares: float) -> bool:
    if count < 2 or abs(total / count) >= _DIGITS:
        return False
    variance = squares / count - (total / count) ** 2
    return any(
        abs(math.sqrt(variance * scale) - 1) < _DIGITS for scale in (1.0, count / (count - 1)) if variance > 0
    )


def clamp_columns(rows: NDArray[np.int64], norm_squared: int) -> None:
    """Shorten, in place, every column vector of an integer matrix whose squared norm is above the bound.

    Guarantee: afterwards each column v of `rows` has ‖v‖² ≤ norm_squared, decided in exact integer
    arithmetic; columns within the bound do not change, and no entry changes its sign or grows.

    A record is a column here (feature-major), the layout in which records are quantised. A vector over the
    bound is scaled down and truncated toward zero; a scale too large by any rounding error of floats is
    caught by the last comparison, which sets the vector to zero.
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
