"""Public data as the tables of several parties: columns dealt out in declaration order, as evenly as they go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from colonnade.data.kinds import Column
from colonnade.data.labels import Label
from colonnade.data.schema import Schema
from colonnade.data.table import Table


def vertical(
    columns: Sequence[Column],
    label: Label,
    rows: Mapping[str, Any],
    labels: Any,
    *,
    parties: int,
) -> list[Table]:
    """One table for each of so many parties, all people in each; the first holds the label."""
    tables = []
    for number, places in enumerate(np.array_split(np.arange(len(columns)), parties), start=1):
        mine = tuple(columns[place] for place in places)
        arrays = {column.name: rows[column.name] for column in mine}
        held = label if number == 1 else None
        if held is not None:
            arrays[held.column] = labels
        tables.append(Table.from_arrays(f"party{number}", arrays, Schema("row", mine, held)))
    return tables
