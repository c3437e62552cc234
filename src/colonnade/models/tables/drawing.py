"""Invented people drawn from a fitted mixture, as levels and as values in the parties' own units and spellings."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.columns import BinnedColumn
from colonnade.data.derived import MISSING
from colonnade.models.tables.margins import Levelled
from colonnade.models.tables.mixture import Fit, Progress
from colonnade.randomness import Randomness

Array = NDArray[np.float64]
Codes = NDArray[np.int32]
_PIECE = 1 << 16


def draw_levels(
    fit: Fit, rows: int, randomness: Randomness, progress: Progress | None = None
) -> tuple[list[Codes], Codes]:
    """The levels of so many people, column by column, and their classes.

    Components are taken in turn, as often each as can be, and shuffled by the draw of what follows from them alone.
    """
    components = len(fit.classes)
    order = np.argsort(_uniform(randomness, rows), kind="stable")
    chosen = (order % components).astype(np.int32)
    blocks = [*fit.levels, fit.classes]
    drawn = [np.empty(rows, dtype=np.int32) for _ in blocks]
    for start in range(0, rows, _PIECE):
        part = slice(start, min(start + _PIECE, rows))
        for target, block in zip(drawn, blocks, strict=True):
            upto = np.cumsum(block, axis=1)[:, :-1]
            places = _uniform(randomness, part.stop - part.start)
            target[part] = (places[:, None] >= upto[chosen[part]]).sum(axis=1)
        if progress is not None:
            progress("draw", part.stop, rows)
    return drawn[:-1], drawn[-1]


def values_of_levels(column: Levelled, codes: Codes, randomness: Randomness) -> NDArray[Any]:
    """Values as the party that holds the column would write them: numbers within a bin, levels as declared.

    A level that only takes in missing values is written as a missing value.
    """
    if isinstance(column, BinnedColumn):
        return _numbers(column, codes, randomness)
    levels = np.array(column.levels, dtype=object)
    if column.missing is not None and column.missing == column.spelling.spell(MISSING):
        levels[column.levels.index(column.missing)] = None
    return np.asarray(levels[codes])


def bin_ends(column: BinnedColumn) -> tuple[float, ...]:
    """Where bins begin, and where the last one ends; an outer bin without an end is as wide as its neighbour."""
    scale, back = _scales(column)
    inner = [scale(edge) for edge in column.edges]
    width = inner[1] - inner[0] if len(inner) > 1 else 1.0
    last = inner[-1] - inner[-2] if len(inner) > 1 else 1.0
    low = back(inner[0] - width) if column.low is None else column.low
    high = back(inner[-1] + last) if column.high is None else column.high
    return (low, *column.edges, high)


def _numbers(column: BinnedColumn, codes: Codes, randomness: Randomness) -> NDArray[Any]:
    ends = np.array(bin_ends(column))
    scale, _ = _scales(column)
    scaled = np.array([scale(end) for end in ends])
    known = np.minimum(codes, len(ends) - 2)
    places = _uniform(randomness, len(codes))
    raw = scaled[known] + places * (scaled[known + 1] - scaled[known])
    values = np.expm1(raw) if column.transform == "log1p" else raw
    below = np.nextafter(ends[1:], -np.inf)
    below[-1] = ends[-1]
    values = np.clip(values, ends[:-1][known], below[known])
    missing = codes > len(column.edges)
    if column.whole:
        first = np.ceil(ends[:-1])
        last = np.maximum(np.ceil(ends[1:]) - 1, first)
        last[-1] = max(math.floor(ends[-1]), first[-1])
        values = np.clip(np.floor(values), first[known], last[known])
        if not missing.any():
            return np.asarray(values, dtype=np.int64)
    if missing.any():
        values[missing] = np.nan
    return np.asarray(values)


def _scales(column: BinnedColumn) -> tuple[Any, Any]:
    return (math.log1p, math.expm1) if column.transform == "log1p" else (float, float)


def undeclared_ends(columns: list[Levelled]) -> tuple[str, ...]:
    """The columns of bins without a declared end: how far their outer bins reach is a guess."""
    return tuple(
        column.name
        for column in columns
        if isinstance(column, BinnedColumn) and (column.low is None or column.high is None)
    )


def middles(column: BinnedColumn) -> Array:
    """The middle of each bin on the declared scale, in the column's own units."""
    scale, back = _scales(column)
    pairs = itertools.pairwise(bin_ends(column))
    return np.array([back((scale(low) + scale(high)) / 2.0) for low, high in pairs])


def _uniform(randomness: Randomness, count: int) -> Array:
    return (randomness.words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53
