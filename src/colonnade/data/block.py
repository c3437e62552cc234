"""Some rows of a table, column by column, as declared; and the rows of a source that are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from colonnade.data.arrays import values_of
from colonnade.data.coding import code
from colonnade.data.declaring import nearest_name
from colonnade.data.kinds import Column
from colonnade.data.relation import Relation
from colonnade.errors import BadValues, ColumnMissing, DataError


@dataclass(frozen=True)
class Block:
    """Rows in order: float64 for numbers, clipped to their bounds; int32 level numbers for the rest.

    `label` holds class numbers or real values, or nothing; `more_labels` those of the labels after the first.
    """

    columns: Mapping[str, NDArray[Any]]
    label: NDArray[Any] | None
    rows: int
    more_labels: tuple[NDArray[Any], ...] = ()

    def __post_init__(self) -> None:
        for values in (*self.columns.values(), *self.labels):
            if values.shape != (self.rows,):
                raise ValueError(f"a block of {self.rows} rows holds an array of shape {values.shape}")

    @property
    def labels(self) -> tuple[NDArray[Any], ...]:
        """The values of all labels, in the order of their declaration."""
        return (*(() if self.label is None else (self.label,)), *self.more_labels)

    @classmethod
    def of(cls, columns: Mapping[str, NDArray[Any]], labels: Sequence[NDArray[Any]], rows: int) -> Block:
        """A block with any number of labels."""
        return cls(columns, labels[0] if labels else None, rows, tuple(labels[1:]))

    def each(self, change: Callable[[NDArray[Any]], NDArray[Any]], rows: int) -> Block:
        """The block with every array of it changed alike, so many rows of it then."""
        columns = {name: change(values) for name, values in self.columns.items()}
        return Block.of(columns, [change(values) for values in self.labels], rows)

    def with_label(self, place: int) -> Block:
        """The same rows with one of the labels only."""
        return Block(self.columns, self.labels[place], self.rows)


def refuse_shape(values: object, where: str) -> None:
    """Raise unless it is a row of values in order: no table, no single value, nothing without an order or an end."""
    shape = getattr(values, "shape", (0,))
    if len(shape) != 1:
        raise DataError(
            f"{where}: it has {len(shape)} dimensions, and a column has one. Give each column by itself."
        )
    if isinstance(values, str | bytes | Set | Mapping) or not hasattr(values, "__len__"):
        raise DataError(
            f"{where}: found {type(values).__name__}; a column is an array or a list with a value for each person."
        )


def code_mapping(values: Mapping[str, ArrayLike], columns: Iterable[Column]) -> Block:
    """Raw values by column as a block without a label, for prediction."""
    arrays = {}
    for column in columns:
        if column.name not in values:
            raise ColumnMissing(
                f"column {column.name!r} is missing from the rows." + nearest_name(column.name, values)
            )
        refuse_shape(values[column.name], f"column {column.name!r}")
        coded = code(values[column.name], column)
        if coded.problems:
            raise BadValues(f"column {column.name!r}: {coded.problems.sentence}. {coded.problems.advice}")
        arrays[column.name] = coded.values
    rows = {len(array) for array in arrays.values()} or {len(np.asarray(v)) for v in values.values()} or {0}
    if len(rows) > 1:
        raise DataError("the columns of these rows have different lengths.")
    return Block(arrays, None, rows.pop())


Wrong = dict[int, str]
"""What is wrong, by the number of its row."""


def usable_blocks(
    relation: Relation, columns: Sequence[Column], *, size: int
) -> Iterator[tuple[Block, Wrong]]:
    """Block by block the rows that are as declared, and why each other one, counted from the first row, is not."""
    names = [column.name for column in columns]
    floats = {column.name for column in columns if column.reads == "numbers"}
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
