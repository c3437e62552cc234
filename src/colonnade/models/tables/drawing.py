"""Invented people drawn from a fitted mixture, as levels and as values in the parties' own units and spellings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.levels import LevelKind
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


def values_of_levels(column: LevelKind, codes: Codes, randomness: Randomness) -> NDArray[Any]:
    """Values as the party that holds the column would write them: numbers within a bin, levels as declared."""
    return column.written(codes, lambda count: _uniform(randomness, count))


def _uniform(randomness: Randomness, count: int) -> Array:
    return (randomness.words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53
