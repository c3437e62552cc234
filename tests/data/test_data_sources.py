"""Sources: the same rows from anywhere give the same integers, and whatever is wrong is said without a value."""

from __future__ import annotations

import csv
import datetime
import decimal
import gzip
import sqlite3
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from colonnade.data.encoding import Encoder
from colonnade.data.label import LabelBlock
from colonnade.data.quantizer import Quantizer
from colonnade.data.schema import Schema
from colonnade.data.sources import (
    DuckDBSource,
    FileSource,
    PostgreSQLSource,
    Source,
    SQLiteSource,
)
from colonnade.data.table import Table

SCHEMA = Schema.parse(
    """
id = {column = "customer", case = "upper", unicode = "NFC"}

[columns.balance]
kind = "numeric"
low = -1000
high = 100000
missing = {value = 0}

[columns.rate]
kind = "numeric"
low = 0
high = 1

[columns.opened]
kind = "date"
low = 1990-01-01
high = 2026-01-01
missing = {value = 2000-01-01}

[columns.seen]
kind = "date"
low = 2020-01-01
high = 2026-01-01

[columns.age]
kind = "bins"
edges = [18, 30.5, 65]
missing = "category"

[columns.vip]
kind = "binary"
values = [false, true]

[columns.town]
kind = "categorical"
categories = ["Zürich", "bern", "elsewhere"]
other = "elsewhere"
missing = "category"
case = "fold"
unicode = "NFKC"

[label]
column = "visits"
kind = "count"
low = 0
high = 9
"""
)

ROWS = 500


def extract() -> dict[str, list[object]]:
    """A small table with everything in it that differs between databases, in the order of its ids."""
    rng = np.random.default_rng(3)

    def some(values: Sequence[object]) -> list[object]:
        return [values[index] for index in rng.integers(0, len(values), ROWS)]

    start = datetime.datetime(2021, 3, 4)
    return {
        "customer": [f"K-{number:05d}" for number in range(ROWS)],
        "balance": some([None, *(decimal.Decimal(int(n)) / 100 for n in rng.integers(-(10**6), 10**8, 90))]),
        "rate": rng.uniform(0, 1, ROWS).tolist(),
        "opened": some(
            [None, *(datetime.date(1985, 1, 1) + datetime.timedelta(int(d)) for d in range(0, 14000, 97))]
        ),
        "seen": [start + datetime.timedelta(microseconds=int(m)) for m in rng.integers(0, 10**14, ROWS)],
        "age": some([None, 17, 18, 30, 31, 65, 99]),
        "vip": some([True, False]),
        "town": some([None, "Zürich", "ZÜRICH", "Zu\u0308rich", "Bern ", "Genève", "bern"]),
        "visits": some([0, 1, 2, 9, 12]),
    }


TYPES = {
    "customer": "VARCHAR", "balance": "DECIMAL(12, 2)", "rate": "DOUBLE PRECISION", "opened": "DATE",
    "seen": "TIMESTAMP", "age": "INTEGER", "vip": "BOOLEAN", "town": "VARCHAR", "visits": "SMALLINT",
}  # fmt: skip
CREATE = "CREATE TABLE customers (" + ", ".join(f"{name} {kind}" for name, kind in TYPES.items()) + ")"
SHUFFLED = "SELECT * FROM customers"


def rows_of(arrays: Mapping[str, Sequence[object]]) -> list[tuple[object, ...]]:
    return list(zip(*arrays.values(), strict=True))


def spelt(value: object) -> object:
    if value is None or isinstance(value, str):
        return "" if value is None else value
    return str(value).lower() if isinstance(value, bool) else str(value)


def write_text(path: Path, arrays: Mapping[str, Sequence[object]], delimiter: str = ",") -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(arrays)
        writer.writerows([[spelt(value) for value in row] for row in rows_of(arrays)])
    return path


def write_duckdb(path: Path, arrays: Mapping[str, Sequence[object]]) -> Path:
    with duckdb.connect(path) as database:
        database.execute(CREATE)
        marks = ", ".join("?" * len(arrays))
        database.executemany(f"INSERT INTO customers VALUES ({marks})", rows_of(arrays)[::-1])
    return path


def write_sqlite(path: Path, arrays: Mapping[str, Sequence[object]]) -> Path:
    def stored(value: object) -> object:
        # SQLite has no truth values, dates or decimals; these are its own customs, but true as text.
        if isinstance(value, bool):
            return "true" if value else "false"
        return value if value is None or isinstance(value, str | int | float) else str(value)

    database = sqlite3.connect(path)
    with database:
        database.execute(CREATE)
        marks = ", ".join("?" * len(arrays))
        rows = [tuple(map(stored, row)) for row in rows_of(arrays)[::-1]]
        database.executemany(f"INSERT INTO customers VALUES ({marks})", rows)
    database.close()
    return path


def fill_postgresql(address: str, arrays: Mapping[str, Sequence[object]]) -> PostgreSQLSource:
    import psycopg

    source = PostgreSQLSource(SHUFFLED, address, "TEST_DB_PASSWORD")
    with psycopg.connect(address, password=source.password()) as database:
        database.execute("DROP TABLE IF EXISTS customers")
        database.execute(CREATE)
        with database.cursor() as cursor, cursor.copy("COPY customers FROM STDIN") as copy:
            for row in rows_of(arrays)[::-1]:
                copy.write_row(row)
    return source


def integers(table: Table, size: int = 64) -> np.ndarray:
    quantizer = Quantizer(Encoder(table.schema.columns, "circle"), len(table.schema.columns), 4096)
    label = LabelBlock(table.schema.label)
    return np.vstack(
        [
            np.hstack([quantizer.quantize(block), label.quantize(block.label, 4096)])
            for block in table.blocks(size)
        ]
    )


def test_every_kind_of_source_gives_the_same_integers_ids_and_clipping(
    tmp_path: Path, postgresql: str
) -> None:
    arrays = extract()
    pq.write_table(pa.table({k: pa.array(v) for k, v in arrays.items()}), tmp_path / "a.parquet")
    plain = write_text(tmp_path / "a.csv", arrays)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(plain.read_bytes()))
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(plain, "folder/a.csv")
    sources: dict[str, Source] = {
        "parquet": FileSource(tmp_path / "a.parquet"),
        "csv": FileSource(plain),
        "tsv": FileSource(write_text(tmp_path / "a.tsv", arrays, "\t")),
        "gzip": FileSource(tmp_path / "a.csv.gz"),
        "zip": FileSource(tmp_path / "a.zip"),
        "duckdb": DuckDBSource(SHUFFLED, write_duckdb(tmp_path / "a.duckdb", arrays)),
        "sqlite": SQLiteSource(SHUFFLED, write_sqlite(tmp_path / "a.db", arrays)),
        "postgresql": fill_postgresql(postgresql, arrays),
    }
    reference = Table.from_arrays("bank", arrays, SCHEMA)
    expected = integers(reference)
    assert len(np.unique(expected, axis=0)) > 100
    for kind, source in sources.items():
        table = Table("bank", source, SCHEMA).check()
        assert table.rows == ROWS, kind
        assert list(table.ids()) == arrays["customer"], kind
        for size in (64, 1000):
            assert np.array_equal(integers(table, size), expected), kind
        assert table.clipping.counts == reference.clipping.counts, kind
