"""The data of the studies on private messages: pairs of tables as FATE publishes them, and made-up ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import ClassLabel, CountLabel, Label
from colonnade.data.schema import Schema
from colonnade.data.table import Table

Values = dict[str, np.ndarray[Any, Any]]


def tables_of(
    parts: dict[str, Values], bounds: dict[str, tuple[float, float]], label: Label, labels: Any
) -> list[Table]:
    """One table for each party; the first holds the label."""
    made = []
    for number, (party, values) in enumerate(parts.items()):
        columns = tuple(NumericColumn(name, *bounds[name]) for name in values)
        held = label if number == 0 else None
        arrays = dict(values) if held is None else {**values, held.column: labels}
        made.append(Table.from_arrays(party, arrays, Schema("row", columns, held)))
    return made


def aligned_pair(folder: Path, name: str) -> tuple[dict[str, Values], Values]:
    """Both sides of a published pair in the order of their ids, columns named by side; and everything that is no x."""
    parts: dict[str, Values] = {}
    rest: Values = {}
    for party in ("guest", "host"):
        table = pq.read_table(folder / f"fate_{name}_hetero_{party}.parquet")
        order = np.argsort(table["id"].to_numpy())
        values = {column: table[column].to_numpy()[order] for column in table.column_names if column != "id"}
        for label in ("y", "doctorco"):
            if label in values:
                rest[label] = values.pop(label)
        parts[party] = {f"{party}_{column}": found for column, found in values.items()}
    return parts, rest


def hetero(folder: Path, name: str) -> list[Table]:
    """A standardised pair with two classes; three deviations are declared, values beyond are clipped."""
    parts, rest = aligned_pair(folder, name)
    bounds = {column: (-3.0, 3.0) for values in parts.values() for column in values}
    return tables_of(parts, bounds, ClassLabel("y", ("0", "1")), rest["y"].astype(np.int64).astype(str))


def visits(folder: Path) -> tuple[list[Table], Values, np.ndarray[Any, Any]]:
    """Visits to a doctor: tables, all raw columns, and the counts. Bounds are the range of this public set."""
    parts, rest = aligned_pair(folder, "dvisits")
    counts = rest["doctorco"].astype(np.float64)
    raw = {column: values for side in parts.values() for column, values in side.items()}
    bounds = {column: (float(values.min()), float(values.max())) for column, values in raw.items()}
    return tables_of(parts, bounds, CountLabel("doctorco", low=0, high=9), counts), raw, counts


def made_up(rows: int) -> list[Table]:
    """Two classes that both parties' columns tell apart, 14 columns with the label and 10."""
    generator = np.random.default_rng(4)
    parts = {
        party: {f"{party}{i}": generator.uniform(-1, 1, rows) for i in range(width)}
        for party, width in (("first", 14), ("second", 10))
    }
    score = sum(values for side in parts.values() for values in list(side.values())[:3])
    labels = np.where(score + generator.normal(size=rows) / 4 > 0, "1", "0")
    bounds = {column: (-1.0, 1.0) for side in parts.values() for column in side}
    return tables_of(parts, bounds, ClassLabel("y", ("0", "1")), labels)


def made_up_counts(rows: int) -> tuple[list[Table], Values, np.ndarray[Any, Any]]:
    """Counts that both parties' columns say something about."""
    generator = np.random.default_rng(5)
    parts = {
        party: {f"{party}{i}": generator.uniform(-1, 1, rows) for i in range(2)}
        for party in ("first", "second")
    }
    raw = {column: values for side in parts.values() for column, values in side.items()}
    counts = np.minimum(generator.poisson(np.exp(raw["first0"] - raw["second0"])), 9).astype(np.float64)
    bounds = dict.fromkeys(raw, (-1.0, 1.0))
    return tables_of(parts, bounds, CountLabel("y", low=0, high=9), counts), raw, counts
