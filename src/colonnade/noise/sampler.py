"""Independent draws from a table by strip rejection.

Integers only, a compiled fast path, exact settlement for the rest. Compiled loops hold int64 and uint64 only, and cast
by hand wherever the two meet: left to itself the compiler turns such a pair into float64.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import prod
from typing import Any, Protocol

import mpmath
import numpy as np
from mpmath.libmp import from_rational, mpf_exp, to_fixed
from numpy.typing import NDArray

from colonnade.errors import PlanError
from colonnade.numbers.compiling import machine_code
from colonnade.randomness import Randomness

_CONTEXT = mpmath.mp.clone()
_LOCK = threading.RLock()


@contextmanager
def working(bits: int) -> Iterator[Any]:
    """The context at `bits` of precision, for this thread alone while the block lasts."""
    with _LOCK, _CONTEXT.workprec(bits):
        yield _CONTEXT


def real(context: Any, value: Fraction) -> Any:
    """An exact fraction at the context's precision, correctly rounded."""
    return context.mpf(value.numerator) / value.denominator


def scaled_floor(context: Any, value: Any, bits: int) -> int:
    """⌊2^bits · value⌋ of what the context computed; its error is the caller's to bound."""
    return int(context.floor(context.ldexp(value, bits)))


def scaled_decay(numerator: int, denominator: int, *, bits: int, working_bits: int) -> int:
    """⌊2^bits · e^(−numerator/denominator)⌋, of what is computed at `working_bits`: no context, and no lock."""
    power = from_rational(-numerator, denominator, working_bits, "n")
    return int(to_fixed(mpf_exp(power, working_bits, "n"), bits))


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
class StripTable:
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


def split(law: Law, limit: int) -> list[tuple[int, int, int, int, int]]:
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
    pieces = split(law, columns // 2 if law.two_sided else columns)
    cells = [Cell(a, s, f, g, e, f + SLACK if s else f) for a, s, f, g, e in pieces]
    if law.two_sided:
        # [a, b) becomes [-b, -a): its largest mass is at the right end, and a single point -b has mass(b).
        cells += [Cell(-a - (1 << s), s, g, f, e, f + SLACK if s else g) for a, s, f, g, e in pieces]
    if tails is not None:
        extent = 1 << law.exponent
        above, below = tails
        cells += [
            Cell(extent, 0, above, above, 0, above, 1),
            Cell(-extent - 1, 0, below, below, 0, below, -1),
        ]
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
def table_of(law: Law) -> StripTable:
    """The table of a law, made once: 0.01 to 0.6 seconds, about a megabyte."""
    if law.exponent > LARGEST_EXPONENT:
        raise ValueError(
            f"a support that reaches 2^{law.exponent} does not fit cells of length 2^{OFFSET_BITS}"
        )
    cells, scale_bits = make_cells(law), law.precision + SCALE_GUARD
    scale, weights = weigh(cells, scale_bits)
    return StripTable(law, cells, weights, scale, make_rows(cells, weights, scale, scale_bits))


_COLUMN_SHIFT = np.uint64(64 - COLUMN_BITS)
_WITHIN_COLUMN = np.uint64(CAPACITY - 1)
_OFFSET_SHIFT = np.uint64(OFFSET_BITS)
_OFFSET_MASK = np.uint64((1 << OFFSET_BITS) - 1)


@machine_code
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
    recorded = 0
    while slot < out.shape[0] and used + 2 <= words.shape[0] and recorded < doubts.shape[0]:
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
            doubts[recorded, 0] = slot
            doubts[recorded, 1] = cell
            doubts[recorded, 2] = offset
            doubts[recorded, 3] = uniform
            recorded += 1
            slot += 1
    return slot, used, recorded


LARGEST_DRAW = 1 << 32  # entries of one draw; events that do not name their number count this many
_WORDS = 1 << 16
_DOUBTS = 1 << 10


def sample(law: Law, shape: int | Sequence[int], randomness: Randomness) -> NDArray[np.int64]:
    """Independent draws of a law, each within 2^-100 of it in total variation or as near as its precision says."""
    extent = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(side < 0 for side in extent) or prod(extent) > LARGEST_DRAW:
        raise PlanError(f"noise of shape {extent} was asked for; one draw has at most 2^32 entries")
    return draw_from(table_of(law), prod(extent), randomness).reshape(extent)


def sample_symmetric(
    diagonal: Law, off_diagonal: Law, size: int, randomness: Randomness
) -> NDArray[np.int64]:
    """A size × size symmetric matrix of independent draws, of one law on the diagonal and of another off it.

    Each unordered entry is drawn once.
    """
    if size < 0 or size * (size + 1) // 2 > LARGEST_DRAW:
        raise PlanError(f"symmetric noise of side {size} was asked for; one draw has at most 2^32 entries")
    out = np.zeros((size, size), dtype=np.int64)
    above = np.triu_indices(size, 1)
    out[above] = sample(off_diagonal, len(above[0]), randomness)
    out += out.T
    np.fill_diagonal(out, sample(diagonal, size, randomness))
    return out


def side_of(shape: int | Sequence[int]) -> int:
    """n of a shape (n, n), which symmetric noise fills."""
    extent = (shape,) if isinstance(shape, int) else tuple(shape)
    if len(extent) != 2 or extent[0] != extent[1]:
        raise PlanError(f"symmetric noise fills a square matrix, not an array of shape {extent}")
    return extent[0]


def draw_from(table: StripTable, count: int, randomness: Randomness) -> NDArray[np.int64]:
    """`count` draws; each slot holds the first accepted of its own chain of candidates, on fresh words."""
    out = np.empty(count, dtype=np.int64)
    doubts = np.empty((min(_DOUBTS, count), 4), dtype=np.int64)
    slot = 0
    while slot < count:
        words = randomness.words(min(_WORDS, 2 * (count - slot)))
        used = 0
        while slot < count and used < len(words):
            slot, filled, recorded = fill(table.rows, words[used:], out, slot, doubts)
            used += filled
            for place, cell, offset, uniform in doubts[:recorded].tolist():
                out[place] = settle(table, cell, offset, uniform=uniform, randomness=randomness)
    return out


def accepts(table: StripTable, cell: int, offset: int, *, uniform: int) -> bool:
    """Whether a uniform, extended by fresh bits, lies below the acceptance probability; decided in integers."""
    mass = table.mass(table.cells[cell], offset)
    extent = table.scale * mass << (table.cells[cell].log_length + UNIFORM_BITS + table.more_bits)
    return uniform * table.weights[cell] << table.scale_bits < extent


def settle(table: StripTable, cell: int, offset: int, *, uniform: int, randomness: Randomness) -> int:
    """The value of a slot whose candidate the kernel left open; refused, the slot's chain goes on."""
    fresh = int.from_bytes(randomness.bytes(table.more_bits // 8), "little")
    if not accepts(table, cell, offset, uniform=(uniform << table.more_bits) | fresh):
        return int(draw_from(table, 1, randomness)[0])
    filled = table.cells[cell]
    if not filled.tail:
        return filled.base + offset
    # No memory: past the edge the law begins again, as a draw known to be at least 0.
    return filled.base + filled.tail * non_negative(table, randomness)


def non_negative(table: StripTable, randomness: Randomness) -> int:
    """A draw given that it is at least 0."""
    while True:
        value = int(draw_from(table, 1, randomness)[0])
        if value >= 0:
            return value
