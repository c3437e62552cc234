"""The table of strip rejection: a law cut into cells, in integers only.

A law gives `mass(k)`, an integer within two units of 2^192·f(k), where f is proportional to the law's
probabilities and does not increase in k ≥ 0. The support is cut into at most 2048 cells of power-of-two
length. Inside a cell the masses lie within a known distance of a chord, so that a candidate can be
accepted or refused by comparing a 24-bit uniform with a line; only candidates in the thin band around
the line need the mass itself. `docs/proofs/strip-rejection.md` proves that the result has exactly the
law mass(k)/Σ mass, and `tests/oracles/table_audit.py` checks every integer fact the proof rests on.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

PRECISION = 192  # masses are integers in units of 2^-192, unless the law asks for finer ones
SLACK = 1 << 16  # room for evaluation errors, which are at most 2
OFFSET_BITS = 40  # of a word: where in the cell
UNIFORM_BITS = 24  # of a word: the acceptance uniform's leading bits
COLUMN_BITS = 11
COLUMNS = 1 << COLUMN_BITS
CAPACITY = 1 << (64 - COLUMN_BITS)  # of one alias column, in units of 2^-64
SCALE_GUARD = 96  # bits of the common scale beyond those of a mass
LARGEST_EXPONENT = 49  # the support reaches 2^49 at most: 512 cells of the longest kind a side
ALWAYS_SLOW = 1 << 25  # a band wider than every uniform


class Law(Protocol):
    """What the machine needs to know of a law. Values are hashable: tables are kept by law."""

    @property
    def exponent(self) -> int:
        """m: the support is [-2^m, 2^m), or [0, 2^m) if one-sided."""
        ...

    @property
    def two_sided(self) -> bool:
        """Whether mass(-k) = mass(k) is meant; otherwise negative integers have no mass."""
        ...

    @property
    def precision(self) -> int:
        """p: masses are integers in units of 2^-p."""
        ...

    def mass(self, k: int) -> int:
        """An integer within 2 of 2^p·f(k), for 0 ≤ k ≤ 2^m; the same for the same k, always."""
        ...

    def curvature(self, start: int, mass: int) -> int:
        """At least 2^p·|f(k+1) − 2f(k) + f(k−1)| for every k > start ≥ 0, given mass(start)."""
        ...

    def __hash__(self) -> int: ...

    def tails(self) -> tuple[int, int] | None:
        """Masses of [2^m, ∞) and (−∞, −2^m) if the law has no memory there; otherwise None."""
        ...


@dataclass(frozen=True)
class Cell:
    """[base, base + 2^log_length) with the masses at both ends, or a tail that stands for a half-line."""

    base: int
    log_length: int
    left: int
    right: int
    error: int  # the masses inside lie within this of the chord from left to right
    height: int  # no mass inside is larger
    tail: int = 0  # +1 and -1: the half-lines past the support


@dataclass(frozen=True, eq=False)
class Table:
    """A law made ready for drawing. `rows` is what the kernel reads; the rest is exact and decides doubts.

    A row holds: alias threshold, alias target, base, 40 − log_length, chord start, chord rise, band, 0.
    """

    law: Law
    cells: tuple[Cell, ...]
    weights: tuple[int, ...]
    scale: int
    rows: NDArray[np.int64]

    @property
    def scale_bits(self) -> int:
        """How many bits of `scale` are behind the point."""
        return self.law.precision + SCALE_GUARD

    @property
    def more_bits(self) -> int:
        """How many fresh bits extend a doubtful uniform: 128 at the usual precision."""
        return self.law.precision - 64

    def mass(self, cell: Cell, offset: int) -> int:
        """The mass of the value at `offset` in a cell, or of the half-line that a tail stands for."""
        return cell.left if cell.tail else self.law.mass(abs(cell.base + offset))


def chord_error(law: Law, start: int, log_length: int, *, left: int, right: int) -> int:
    """How far masses in [start, start + 2^log_length] may lie from the chord; 0 for a single point."""
    if log_length == 0:
        return 0
    bend = law.curvature(start, left) * (1 << 2 * log_length) // 8 + 1
    return min(bend, left - right + 2 * SLACK) + 4 * SLACK


def cut(law: Law, limit: int) -> list[tuple[int, int, int, int, int]]:
    """At most `limit` cells (start, log_length, mass at start, mass at end, error) that cover [0, 2^m).

    The cell that costs most is halved first. A cell's cost is what its band and the steps of its
    envelope waste, times its length; cells too long for the offset bits go before all others.
    """
    masses: dict[int, int] = {}

    def mass(k: int) -> int:
        if k not in masses:
            masses[k] = law.mass(k)
        return masses[k]

    def weighed(start: int, log_length: int) -> tuple[bool, int, int, int, int]:
        left, right = mass(start), mass(start + (1 << log_length))
        error = chord_error(law, start, log_length, left=left, right=right)
        cost = ((error << 12) + left - right) << log_length if log_length else 0
        return (log_length <= OFFSET_BITS, -cost, start, log_length, error)

    heap = [weighed(0, law.exponent)]
    while len(heap) < limit and heap[0][1] < 0:
        _, _, start, log_length, _ = heapq.heappop(heap)
        for half in (start, start + (1 << (log_length - 1))):
            heapq.heappush(heap, weighed(half, log_length - 1))
    return sorted((start, s, mass(start), mass(start + (1 << s)), error) for _, _, start, s, error in heap)


def make_cells(law: Law) -> tuple[Cell, ...]:
    """The cells of a law: mirrored about 0 if two-sided, tails last."""
    tails = law.tails()
    columns = COLUMNS if tails is None else COLUMNS - 2
    pieces = cut(law, columns // 2 if law.two_sided else columns)
    cells = [Cell(a, s, f, g, e, f + SLACK if s else f) for a, s, f, g, e in pieces]
    if law.two_sided:
        # [a, b) becomes [-b, -a): its largest mass is at the right end, and a single point -b has mass(b).
        cells += [Cell(-a - (1 << s), s, g, f, e, f + SLACK if s else g) for a, s, f, g, e in pieces]
    if tails is not None:
        reach = 1 << law.exponent
        above, below = tails
        cells += [Cell(reach, 0, above, above, 0, above, 1), Cell(-reach - 1, 0, below, below, 0, below, -1)]
    return tuple(cells)


def weigh(cells: tuple[Cell, ...], scale_bits: int) -> tuple[int, tuple[int, ...]]:
    """The common scale and integer weights of sum 2^64, each above scale·2^s·height/2^scale_bits.

    The remainder goes to the heaviest cell: raising an envelope never harms.
    """
    areas = [cell.height << cell.log_length for cell in cells]
    scale = (((1 << 64) - 2 * COLUMNS) << scale_bits) // sum(areas)
    weights = [(scale * area >> scale_bits) + 1 for area in areas]
    weights[weights.index(max(weights))] += (1 << 64) - sum(weights)
    return scale, tuple(weights)


def alias_columns(weights: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Thresholds and targets of Vose's alias method, exact: cell j receives weights[j] of 2^64."""
    left = [*weights, *[0] * (COLUMNS - len(weights))]
    targets = list(range(COLUMNS))
    thresholds = [CAPACITY] * COLUMNS
    small = [i for i, weight in enumerate(left) if weight < CAPACITY]
    large = [i for i, weight in enumerate(left) if weight > CAPACITY]
    while small:
        short, long = small.pop(), large[-1]
        thresholds[short], targets[short] = left[short], long
        left[long] -= CAPACITY - left[short]
        if left[long] <= CAPACITY:
            large.pop()
            if left[long] < CAPACITY:
                small.append(long)
    return thresholds, targets


def make_rows(
    cells: tuple[Cell, ...], weights: tuple[int, ...], scale: int, scale_bits: int
) -> NDArray[np.int64]:
    """The kernel's view of the table, one cache line a row."""
    store = np.zeros(COLUMNS * 8 + 8, dtype=np.int64)
    skip = -store.ctypes.data % 64 // 8
    rows = store[skip : skip + COLUMNS * 8].reshape(COLUMNS, 8)
    rows[:, 0], rows[:, 1] = alias_columns(weights)
    for row, cell, weight in zip(rows, cells, weights, strict=False):
        s = cell.log_length
        # ⌊2^24 · acceptance probability⌋ of values with the masses of the ends, in a cell of this weight and length.
        start, end, error = (
            (mass * scale << (s + UNIFORM_BITS)) // (weight << scale_bits)
            for mass in (cell.left, cell.right, cell.error)
        )
        rise = end - start if s else 0
        band = error + 4 if s else 3
        if cell.tail:
            start, band = 0, ALWAYS_SLOW
        row[2:] = cell.base, OFFSET_BITS - s, start, rise, band, 0
    rows.flags.writeable = False
    return rows


@lru_cache(maxsize=64)
def table_of(law: Law) -> Table:
    """The table of a law, made once: 0.01 to 0.6 seconds, about a megabyte."""
    if law.exponent > LARGEST_EXPONENT:
        raise ValueError(
            f"a support that reaches 2^{law.exponent} does not fit cells of length 2^{OFFSET_BITS}"
        )
    cells, scale_bits = make_cells(law), law.precision + SCALE_GUARD
    scale, weights = weigh(cells, scale_bits)
    return Table(law, cells, weights, scale, make_rows(cells, weights, scale, scale_bits))
