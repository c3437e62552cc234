"""One mistake has one number, whatever the table comes in: a file, a query, Arrow, a data frame or lists."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from colonnade.data.files import File, FileRelation
from colonnade.data.schema import Schema
from colonnade.data.sources import DuckDBSource, SQLiteSource
from colonnade.data.table import Table
from colonnade.errors import BadValues, ColonnadeError

COLUMNS = {
    "nothing": pa.nulls(3),
    "list": pa.array([[1], [2, 3], None]),
    "record": pa.array([{"x": 1}, {"x": 2}, {"x": 3}]),
    "map": pa.array([[("x", 1)], [], []], type=pa.map_(pa.string(), pa.int64())),
    "binary": pa.array([b"1", b"CANARY7731", None]),
    "large binary": pa.array([b"1", b"CANARY7731", None], type=pa.large_binary()),
    "truth": pa.array([True, False, True]),
}
DECLARED = {
    "numeric": 'columns.a = {kind = "numeric", low = 0, high = 9}',
    "missing": 'columns.a = {kind = "numeric", low = 0, high = 9, missing = "category"}',
    "date": 'columns.a = {kind = "date", low = 2000-01-01, high = 2010-01-01}',
    "binary": 'columns.a = {kind = "binary", values = [0, 1]}',
    "categorical": 'columns.a = {kind = "categorical", categories = ["x", "y"], missing = {value = "x"}}',
    "label": 'columns.n = {kind = "numeric", low = 0, high = 9}\n'
    'label = {column = "a", kind = "classes", classes = [0, 1]}',
    "undeclared": 'columns.n = {kind = "numeric", low = 0, high = 9}',
    "id": 'columns.n = {kind = "numeric", low = 0, high = 9}',
}


def sources(table: pa.Table, folder: Path) -> Iterator[tuple[str, Any]]:
    pq.write_table(table, folder / "a.parquet")
    with duckdb.connect(folder / "a.duckdb") as database:
        database.execute(f"CREATE TABLE people AS SELECT * FROM '{folder / 'a.parquet'}'")
    yield "file", folder / "a.parquet"
    yield "query", DuckDBSource("select * from people", folder / "a.duckdb")
    yield "arrow", table
    yield "pandas", table.to_pandas()
    yield "polars", pl.from_arrow(table)
    yield "lists", table.to_pydict()
    yield "arrays", dict(zip(table.column_names, table.columns, strict=True))


def opened(source: Any, schema: Schema) -> Table:
    at_rest = isinstance(source, Path | DuckDBSource | SQLiteSource)
    return (Table if at_rest else Table.of)("bank", source, schema).check()


def ends(source: Any, schema: Schema) -> tuple[str, str]:
    try:
        return f"{opened(source, schema).rows} rows", ""
    except ColonnadeError as error:
        return error.number, str(error)


@pytest.mark.parametrize("held", COLUMNS)
def test_a_column_is_accepted_from_every_source_or_refused_by_one_number(tmp_path: Path, held: str) -> None:
    table = pa.table({"id": ["p", "q", "r"], "n": [1, 2, 3], "a": COLUMNS[held]})
    made = dict(sources(table, tmp_path))
    for declared, text in DECLARED.items():
        schema = Schema.parse(f'id = "{"a" if declared == "id" else "id"}"\n{text}')
        check_alike(held, declared, {name: ends(source, schema) for name, source in made.items()})
    if held in ("list", "record", "map"):
        with pytest.raises(BadValues):  # before any row is read
            _ = Table("bank", made["file"], Schema.parse(f'id = "id"\n{DECLARED["numeric"]}')).rows


def check_alike(held: str, declared: str, found: dict[str, tuple[str, str]]) -> None:
    assert len({number for number, _ in found.values()}) == 1, found
    number, _ = found["file"]
    if declared == "undeclared":
        assert number == "3 rows"
    elif held == "nothing":
        fine = declared in ("missing", "categorical")
        assert number == ("3 rows" if fine else "E314" if declared == "id" else "E315")
    else:
        assert number == ("E314" if declared == "id" else "E315")
    for _, message in found.values():
        assert "CANARY" not in message
        if number == "E315":
            assert "column 'a'" in message
        if held in ("list", "record", "map") and number == "E315":
            assert "lists or records" in message
        if held in ("binary", "large binary") and number == "E315":
            assert "binary" in message
        if held == "truth" and declared in ("binary", "label"):
            assert "3 values are true or false, which are not declared. Declare true and false" in message


NUMBERED = Schema.parse('id = "id"\ncolumns.n = {kind = "numeric", low = 0, high = 9}')


@pytest.mark.parametrize("name", ["bank.csv", "bank.tsv.gz", "bank.parquet", "bank.duckdb", "bank.db"])
def test_a_pipe_is_called_one_and_nobody_waits_for_it(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    os.mkfifo(path)
    source: Any = path
    if name.endswith("db"):
        source = (DuckDBSource if name.endswith("duckdb") else SQLiteSource)("select 1 as id, 2 as n", path)
    number, said = ends(source, NUMBERED)
    assert number == "E312" and "a pipe, a socket or a device" in said and "empty" not in said


def test_an_id_with_nul_is_refused_from_every_source(tmp_path: Path) -> None:
    for ids in (["p\0", "q", "r"], ["p", "q\0q", "r"], ["\0", "q", "r"]):
        table = pa.table({"id": ids, "n": [1, 2, 3]})
        found = {name: ends(source, NUMBERED) for name, source in sources(table, tmp_path)}
        (tmp_path / "a.csv").write_text(
            "id,n\n" + "".join(f"{one},{place}\n" for place, one in enumerate(ids))
        )
        found["csv"] = ends(tmp_path / "a.csv", NUMBERED)
        assert {number for number, _ in found.values()} == {"E314"}, found
        assert all("NUL" in said for _, said in found.values()), found
        (tmp_path / "a.duckdb").unlink()
    # A part of an id is one too; the letters beside it in memory are not.
    two = Schema.parse('id = ["id", "n"]\ncolumns.x = {kind = "numeric", low = 0, high = 9}')
    assert ends({"id": ["p", "q\0"], "n": [1, 2], "x": [1, 2]}, two)[0] == "E314"
    longer = pa.table({"id": ["a\0", "b", "c"], "n": [1, 2, 3]}).slice(1)
    assert ends(longer, NUMBERED) == ("2 rows", "")


def test_ctrl_c_while_rows_are_counted_is_ctrl_c(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,n\n")
    # It would take days, so the signal comes before its end.
    endless = "(SELECT * FROM range(3000000) a, range(3000000) b WHERE (a.range * b.range) % 7 = 1)"
    rows = FileRelation(File(path, "bank"), endless, {}, typed=True)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            rows.count()
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)
