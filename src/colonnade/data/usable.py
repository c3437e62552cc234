"""The rows of a source that are as declared, and what is wrong with the others, row by row.

For scores, where one person's odd value should not keep the others from being scored. Whatever is learnt from refuses
such rows at every party alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from colonnade.data.arrays import values_of
from colonnade.data.block import Block
from colonnade.data.coding import code, holds_numbers
from colonnade.data.columns import Column
from colonnade.data.relation import Relation

Wrong = dict[int, str]
"""What is wrong, by the number of its row."""


def usable_blocks(
    relation: Relation, columns: Sequence[Column], *, size: int
) -> Iterator[tuple[Block, Wrong]]:
    """Block by block the rows that are as declared, and why each other one, counted from the first row, is not."""
    names = [column.name for column in columns]
    floats = {column.name for column in columns if holds_numbers(column)}
    start = 0
    for batch in relation.batches(names, size=size, floats=floats):
        wrong: Wrong = {}
        for column, values in zip(columns, batch.columns, strict=True):
            for row, sentence in wrong_rows(values, column):
                wrong.setdefault(row, f"column {column.name!r}: {sentence}")
        kept = np.array([row for row in range(batch.num_rows) if row not in wrong], dtype=np.intp)
        coded = {
            column.name: _kept(code(values, column).values, kept)
            for column, values in zip(columns, batch.columns, strict=True)
        }
        yield Block(coded, None, len(kept)), {start + row: sentence for row, sentence in wrong.items()}
        start += batch.num_rows


def wrong_rows(values: pa.Array, column: Column) -> list[tuple[int, str]]:
    """The rows of a column that are not as declared, each with what is wrong with it.

    Halves without a problem are passed over whole, so that few wrong rows are found quickly.
    """
    values = values_of(values)
    wrong, waiting = [], [(0, len(values))]
    while waiting:
        start, stop = waiting.pop()
        problems = code(values.slice(start, stop - start), column).problems if start < stop else None
        if not problems:
            continue
        if stop - start == 1:
            wrong.append((start, problems.sentence))
        else:
            middle = (start + stop) // 2
            waiting += [(middle, stop), (start, middle)]
    return wrong


def _kept(values: NDArray[np.generic], rows: NDArray[np.intp]) -> NDArray[np.generic]:
    return values if len(rows) == len(values) else values[rows]
