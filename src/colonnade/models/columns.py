"""People to predict for: raw columns by name, or features already encoded."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.data.arrays import columns_by_name
from colonnade.data.declaring import nearest_name
from colonnade.data.encoder import Encoder
from colonnade.errors import ColumnMissing, DataError

Array = NDArray[np.float64]
Encoders = Sequence[tuple[str, Encoder]]


class NamedColumns(Protocol):
    """A table in memory: an Arrow table, a data frame, a mapping from names to values."""

    def __getitem__(self, name: str, /) -> Any: ...


Rows = NamedColumns | NDArray[Any] | Sequence[Sequence[float]]


def column_names(encoders: Encoders) -> tuple[str, ...]:
    """The raw columns in order; a name that occurs at two parties is written party.column."""
    count = Counter(column.name for _, encoder in encoders for column in encoder.columns)
    return tuple(
        column.name if count[column.name] == 1 else f"{party}.{column.name}"
        for party, encoder in encoders
        for column in encoder.columns
    )


def feature_names(encoders: Encoders) -> tuple[str, ...]:
    """The features in order; one that could be either of two parties' is written party.feature."""
    columns = Counter(column.name for _, encoder in encoders for column in encoder.columns)
    features = Counter(name for _, encoder in encoders for name in encoder.feature_names)
    named: list[str] = []
    for party, encoder in encoders:
        of = [column for column, span in encoder.spans.items() for _ in encoder.feature_names[span]]
        # Features of a map belong to no column by name.
        for name, column in itertools.zip_longest(encoder.feature_names, of):
            plain = columns[column] <= 1 and features[name] == 1
            named.append(name if plain else f"{party}.{name}")
    return tuple(named)


def feature_rows(rows: Rows, encoders: Encoders, *, attributes: int | None = None) -> Array:
    """One row of features per person, as the rows of a release are: encoded and divided by √m.

    m is `attributes`, or as many as these encoders have.

    Raw columns are found by name, in any order; columns that the release does not have are passed over.
    An array without names holds features that are already encoded.
    """
    table = columns_by_name(rows)
    if table is None:
        return _encoded(rows, sum(encoder.width for _, encoder in encoders))
    if attributes is None:
        attributes = sum(encoder.attributes for _, encoder in encoders)
    wanted = iter(column_names(encoders))
    blocks = []
    for _, encoder in encoders:
        raw = {column.name: _values(table, next(wanted)) for column in encoder.columns}
        if encoder.columns:
            blocks.append(encoder.encode(raw))
    lengths = {len(block) for block in blocks}
    if len(lengths) > 1:
        raise DataError("the columns of these rows have different lengths.")
    return np.concatenate(blocks, axis=1) / math.sqrt(attributes)


def _values(table: Mapping[str, Any], name: str) -> Any:
    if name not in table:
        raise ColumnMissing(
            f"column {name!r} is missing from the rows."
            + nearest_name(name, [str(column) for column in table])
            + " Give every raw column of the release by name, or an array of encoded features."
        )
    return table[name]


def _encoded(rows: Any, width: int) -> Array:
    try:
        given = np.asarray(rows)
        array = given.astype(np.float64, casting="same_kind" if given.dtype.kind not in "iub" else "unsafe")
    except (TypeError, ValueError):
        raise DataError(
            f"rows without column names must be encoded features, {width} numbers each; "
            "what was given is not numbers. Give raw columns by name instead."
        ) from None
    if array.ndim != 2 or array.shape[1] != width:
        raise DataError(
            f"rows without column names must be encoded features of shape (people, {width}), not "
            f"{array.shape}. Give raw columns by name, or encode them with MomentRelease.features."
        )
    if not np.isfinite(array).all():
        raise DataError("the encoded features hold values that are not finite numbers. Leave those rows out.")
    return array
