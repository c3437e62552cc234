"""Some rows of a table, column by column, as declared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colonnade.data.coding import code
from colonnade.data.columns import Column, nearest
from colonnade.errors import BadValues, ColumnMissing, DataError


@dataclass(frozen=True)
class Block:
    """Rows in order: float64 for numbers, clipped to their bounds; int32 level numbers for the rest.

    `label` holds class numbers or real values, or nothing.

    >>> Block({"age": np.array([40.0])}, None, rows=1).rows
    1
    """

    columns: Mapping[str, NDArray[Any]]
    label: NDArray[Any] | None
    rows: int

    def __post_init__(self) -> None:
        for values in (*self.columns.values(), *(() if self.label is None else (self.label,))):
            if values.shape != (self.rows,):
                raise ValueError(f"a block of {self.rows} rows holds an array of shape {values.shape}")


def refuse_shape(values: object, where: str) -> None:
    """Raise unless it is a row of values in order: no table, no single value, nothing without an order or an end.

    >>> refuse_shape(np.zeros((2, 2)), "column 'age'")
    Traceback (most recent call last):
    colonnade.errors.DataError: column 'age': it has 2 dimensions, and a column has one. Give each column by itself.
    """
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
    """Raw values by column as a block without a label, for prediction.

    >>> from colonnade.data.columns import NumericColumn
    >>> code_mapping({"age": [10]}, [NumericColumn("age", low=17, high=90)]).columns["age"].tolist()
    [17.0]
    """
    arrays = {}
    for column in columns:
        if column.name not in values:
            raise ColumnMissing(
                f"column {column.name!r} is missing from the rows." + nearest(column.name, values)
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
