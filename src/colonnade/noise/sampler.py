"""Independent draws from a table: the kernel in bulk, exact settlement for its doubts."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PlanError
from colonnade.noise.kernel import fill
from colonnade.noise.table import UNIFORM_BITS, Law, Table, table_of
from colonnade.randomness import Randomness

LARGEST_DRAW = 1 << 32  # entries of one draw; events that do not name their number count this many
_WORDS = 1 << 16
_DOUBTS = 1 << 10


def sample(law: Law, shape: int | Sequence[int], randomness: Randomness) -> NDArray[np.int64]:
    """Independent draws of a law, each within 2^-100 of it in total variation or as near as its precision says."""
    extent = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(side < 0 for side in extent) or prod(extent) > LARGEST_DRAW:
        raise PlanError(f"noise of shape {extent} was asked for; one draw has at most 2^32 entries")
    return draw_from(table_of(law), prod(extent), randomness).reshape(extent)


def sample_symmetric(diagonal: Law, beside: Law, size: int, randomness: Randomness) -> NDArray[np.int64]:
    """A size × size symmetric matrix of independent draws, of one law on the diagonal and of another off it.

    Each unordered entry is drawn once.
    """
    if size < 0 or size * (size + 1) // 2 > LARGEST_DRAW:
        raise PlanError(f"symmetric noise of side {size} was asked for; one draw has at most 2^32 entries")
    out = np.zeros((size, size), dtype=np.int64)
    above = np.triu_indices(size, 1)
    out[above] = sample(beside, len(above[0]), randomness)
    out += out.T
    np.fill_diagonal(out, sample(diagonal, size, randomness))
    return out


def side_of(shape: int | Sequence[int]) -> int:
    """n of a shape (n, n), which symmetric noise fills."""
    extent = (shape,) if isinstance(shape, int) else tuple(shape)
    if len(extent) != 2 or extent[0] != extent[1]:
        raise PlanError(f"symmetric noise fills a square matrix, not an array of shape {extent}")
    return extent[0]


def draw_from(table: Table, count: int, randomness: Randomness) -> NDArray[np.int64]:
    """`count` draws; each slot holds the first accepted of its own chain of candidates, on fresh words."""
    out = np.empty(count, dtype=np.int64)
    doubts = np.empty((min(_DOUBTS, count), 4), dtype=np.int64)
    slot = 0
    while slot < count:
        words = randomness.words(min(_WORDS, 2 * (count - slot)))
        used = 0
        while slot < count and used < len(words):
            slot, taken, noted = fill(table.rows, words[used:], out, slot, doubts)
            used += taken
            for place, cell, offset, uniform in doubts[:noted].tolist():
                out[place] = settle(table, cell, offset, uniform=uniform, randomness=randomness)
    return out


def accepts(table: Table, cell: int, offset: int, *, uniform: int) -> bool:
    """Whether a uniform, extended by fresh bits, lies below the acceptance probability; decided in integers."""
    mass = table.mass(table.cells[cell], offset)
    reach = table.scale * mass << (table.cells[cell].log_length + UNIFORM_BITS + table.more_bits)
    return uniform * table.weights[cell] << table.scale_bits < reach


def settle(table: Table, cell: int, offset: int, *, uniform: int, randomness: Randomness) -> int:
    """The value of a slot whose candidate the kernel left open; refused, the slot's chain goes on."""
    fresh = int.from_bytes(randomness.bytes(table.more_bits // 8), "little")
    if not accepts(table, cell, offset, uniform=(uniform << table.more_bits) | fresh):
        return int(draw_from(table, 1, randomness)[0])
    taken = table.cells[cell]
    if not taken.tail:
        return taken.base + offset
    # No memory: past the edge the law begins again, as a draw known to be at least 0.
    return taken.base + taken.tail * non_negative(table, randomness)


def non_negative(table: Table, randomness: Randomness) -> int:
    """A draw given that it is at least 0."""
    while True:
        value = int(draw_from(table, 1, randomness)[0])
        if value >= 0:
            return value
