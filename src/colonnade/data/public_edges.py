"""Edges of bins that a schema file takes from a public set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.bin_edges import quantile_edges
from colonnade.data.coding import code
from colonnade.data.columns import NumericColumn, nearest
from colonnade.data.files import open_file
from colonnade.errors import Misdeclared

_ANY_NUMBER = NumericColumn("", low=-1e300, high=1e300, missing=0.0)
_BATCH = 1 << 16


def with_public_edges(data: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """A schema file's content with the edges that it takes from public sets, found from this folder.

    `quantiles = "census.csv"` names a file that has the column, `{file = "census.csv", column = "AGE"}` one that calls
    it otherwise. The edges are part of the schema like any others; the set must be one that everybody may read.
    """
    columns = data.get("columns")
    if not isinstance(columns, Mapping):
        return data
    resolved = {name: _resolved(name, column, folder) for name, column in columns.items()}
    return {**data, "columns": resolved} if any(resolved[n] is not columns[n] for n in columns) else data


def _resolved(name: str, column: Any, folder: Path) -> Any:
    if not isinstance(column, Mapping) or column.get("kind") != "bins" or "quantiles" not in column:
        return column
    where, what = ("columns", name), f"column {name!r}"
    asked = column["quantiles"]
    named = {"file": asked} if isinstance(asked, str) else asked
    if (
        not isinstance(named, Mapping)
        or not {"file"} <= set(named) <= {"file", "column"}
        or not all(isinstance(value, str) for value in named.values())
    ):
        raise Misdeclared(
            (*where, "quantiles"),
            f'{what}: quantiles names a public file, such as "census.csv" or {{file = "census.csv", column = "AGE"}}.',
        )
    if "edges" in column:
        raise Misdeclared((*where, "edges"), f"{what} declares both edges and quantiles. Keep one of them.")
    edges = quantile_edges(name, column.get("bins", 0), _public_values(name, named, folder))
    rest = {key: value for key, value in column.items() if key not in ("quantiles", "bins")}
    return {**rest, "edges": list(edges)}


def _public_values(name: str, named: Mapping[str, str], folder: Path) -> NDArray[np.float64]:
    source, where = named.get("column", name), ("columns", name, "quantiles")
    rows = open_file(folder / named["file"], party="public set")
    if source not in rows.fields:
        raise Misdeclared(
            where,
            f"column {name!r}: the public set {named['file']} has no column {source!r}."
            + nearest(source, rows.fields),
        )
    read = []
    for batch in rows.batches((source,), size=_BATCH, floats={source}):
        coded = code(batch.columns[0], _ANY_NUMBER)
        if coded.problems or coded.raw is None:
            raise Misdeclared(
                where,
                f"column {name!r}: in the public set {named['file']}, column {source!r}, {coded.problems.sentence}.",
            )
        read.append(coded.raw)
    return np.concatenate(read) if read else np.empty(0)
