"""Sources: the same rows from anywhere give the same integers, and whatever is wrong is said without a value."""

import csv
import datetime
import decimal
import gzip
import io
import itertools
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from colonnade.data.encoder import Encoder, Quantizer
from colonnade.data.files import csv_text
from colonnade.data.labels import LabelBlock
from colonnade.data.schema import Schema
from colonnade.data.sources import (
    DuckDBSource,
    FileSource,
    PostgreSQLSource,
    Source,
    SQLiteSource,
    source_from_data,
)
from colonnade.data.table import Table
from colonnade.errors import DataError, JobError
from colonnade.evaluation.predict import Scores, scores_csv

SCHEMA = Schema.parse(
    """
id = {column = "customer", case = "upper", unicode = "NFC"}
label = {column = "visits", kind = "count", low = 0, high = 9}
columns.balance = {kind = "numeric", low = -1000, high = 100000, missing = {value = 0}}
columns.rate = {kind = "numeric", low = 0, high = 1}
columns.opened = {kind = "date", low = 1990-01-01, high = 2026-01-01, missing = {value = 2000-01-01}}
columns.seen = {kind = "date", low = 2020-01-01, high = 2026-01-01}
columns.closed = {kind = "date", low = 1990-01-01, high = 2026-01-01, missing = "category"}
columns.age = {kind = "bins", edges = [18, 30.5, 65], missing = "category"}
columns.vip = {kind = "binary", values = [false, true]}

[columns.town]
kind = "categorical"
categories = ["Zürich", "bern", "elsewhere"]
other = "elsewhere"
missing = "category"
case = "fold"
unicode = "NFKC"
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
        "closed": some([None, datetime.date(1999, 5, 6), datetime.date(2031, 1, 2)]),
        "age": some([None, 17, 18, 30, 31, 65, 99]),
        "vip": some([True, False]),
        "town": some([None, "Zürich", "ZÜRICH", "Zu\u0308rich", "Bern ", "Genève", "bern"]),
        "visits": some([0, 1, 2, 9, 12]),
    }


TYPES = {
    "customer": "VARCHAR", "balance": "DECIMAL(12, 2)", "rate": "DOUBLE PRECISION", "opened": "DATE",
    "seen": "TIMESTAMP", "closed": "DATE", "age": "INTEGER", "vip": "BOOLEAN", "town": "VARCHAR", "visits": "SMALLINT",
}  # fmt: skip
CREATE = "CREATE TABLE customers (" + ", ".join(f"{name} {kind}" for name, kind in TYPES.items()) + ")"
SHUFFLED = "SELECT * FROM customers"
PLACES = itertools.count()


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


def write_duckdb(path: Path, arrays: Any) -> Path:
    with duckdb.connect(path) as database:
        database.execute(CREATE)
        marks = ", ".join("?" * len(arrays))
        database.executemany(f"INSERT INTO customers VALUES ({marks})", rows_of(arrays)[::-1])
    return path


def write_sqlite(path: Path, arrays: Any) -> Path:
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


def fill_postgresql(address: str, arrays: Any) -> PostgreSQLSource:
    import psycopg

    # Each table in a schema of its own: a table that is being read cannot be dropped.
    place = f"place_{next(PLACES)}"
    source = PostgreSQLSource(SHUFFLED, f"{address}?options=-csearch_path%3D{place}", "TEST_DB_PASSWORD")
    with psycopg.connect(source.address, password=source.password()) as database:
        database.execute(f"CREATE SCHEMA {place}")
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
    sources: dict[str, Source] = {
        "parquet": FileSource(tmp_path / "a.parquet"),
        "csv": FileSource(plain),
        "tsv": FileSource(write_text(tmp_path / "a.tsv", arrays, "\t")),
        "gzip": FileSource(tmp_path / "a.csv.gz"),
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


SECRET = "s3cret-31337"
SMALL = Schema.parse('id = "customer"\ncolumns.age = {kind = "numeric", low = 0, high = 99}')


def refused(source: Source | Path, part: str, schema: Schema = SMALL) -> None:
    with pytest.raises(DataError, match=part) as raised:
        Table("bank", source, schema).check()
    assert "party 'bank'" in str(raised.value)
    assert SECRET not in str(raised.value) and raised.value.__context__ is None


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"customer:age\n1:2\n", "first line names none .* header missing, or the delimiter"),
        (f"1,{SECRET}\n2,40\n".encode(), "first line names none .* header missing"),
        ("customer,age\n1,2\n".encode("utf-16"), "UTF-16 text.* Save it as UTF-8"),
        (f"customer,age,note\n1,2,é{SECRET}\n".encode("latin-1"), "not UTF-8 text. Save it as UTF-8"),
        (f"customer,age\n1,2\n3,4,{SECRET}\n".encode(), "line 3: a row has not as many fields"),
        (f"customer,age\n1,2\n{SECRET}\n".encode(), "line 3: a row has not as many fields"),
        (
            b'customer,age\n1,"1,234"\n2,"1,234,567.5"\n3,1 000\n4,7\n',
            "column 'age': 3 values are written with thousands separators .* Write numbers as 1234.5",
        ),
        (b'customer,age\n1,"2,5"\n', "1 value is written with thousands separators or a decimal comma"),
        (
            f'customer,age\n1,2\n2,{SECRET}\n3,true\n4,"1,000"\n5,2020-01-01\n'.encode(),
            "column 'age': 3 values are text where a number is declared, 1 value is written with thousands",
        ),
        (b"customer,age\n", "there are no rows"),
        (b"customer;aeg\n1;2\n", "'age' is declared but not in the file. Did you mean 'aeg'"),
    ],
)
@pytest.mark.parametrize("packed", ["a.csv", "a.csv.gz"])
def test_a_bad_text_file_is_refused_with_counts_and_lines_however_it_is_packed(
    tmp_path: Path, packed: str, content: bytes, part: str
) -> None:
    path = tmp_path / packed
    path.write_bytes(gzip.compress(content) if packed.endswith(".gz") else content)
    refused(path, part)


def test_a_byte_order_mark_is_no_part_of_a_name_and_text_no_missing_number(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbfcustomer\tage\r\n1\t30\r\n"
    (tmp_path / "a.tsv").write_bytes(content)
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(content))
    for name in ("a.tsv", "a.tsv.gz"):
        (block,) = Table("bank", tmp_path / name, SMALL).check().blocks()
        assert block.columns["age"].tolist() == [30.0]
    schema = Schema.parse(
        'id = "customer"\ncolumns.age = {kind = "numeric", low = 0, high = 99, missing = {value = 40}}'
    )
    path = tmp_path / "a.csv"
    path.write_text("customer,age\n1,\n2,  \n3,nan\n4,7\n")
    (block,) = Table("bank", path, schema).blocks()
    assert block.columns["age"].tolist() == [40.0, 40.0, 40.0, 7.0]
    path.write_text(f"customer,age\n1,\n2,{SECRET}\n")
    refused(path, "column 'age': 1 value is text", schema)


def databases(folder: Path, address: str | None = None) -> list[Callable[[str], Source]]:
    """Each kind of database with the same table, and a text in it that must not be seen."""
    arrays = {**{name: values[:3] for name, values in extract().items()}, "town": [SECRET, "bern", "bern"]}
    one, two = (write_duckdb(folder / "b.duckdb", arrays), write_sqlite(folder / "b.db", arrays))
    made: list[Callable[[str], Source]] = [
        lambda sql: DuckDBSource(sql, one),
        lambda sql: SQLiteSource(sql, two),
    ]
    if address is not None:
        filled = fill_postgresql(address, arrays).address
        made.append(lambda sql: PostgreSQLSource(sql, filled, "TEST_DB_PASSWORD"))
    return made


def test_a_query_that_fails_or_gives_no_rows_is_refused_and_no_row_is_shown(
    tmp_path: Path, postgresql: str
) -> None:
    for query in databases(tmp_path, postgresql):
        refused(query("selec * from customers"), "the query cannot be run: .*syntax error")
        refused(query("select * from custmers"), "the query cannot be run: .*custmers")
        refused(query("select age from customers"), "id column 'customer' is not among the query's columns")
        refused(query("select customer from customers"), "column 'age' is declared but not in the query")
        refused(query("select customer, age from customers where age > 1000"), "there are no rows")
        refused(query("select 7 as customer, age from customers"), "2 ids are repeated")
        refused(query("select customer, town as age from customers"), "column 'age': 3 values are text")
        assert (
            Table("bank", query("select customer, 3 as age from customers -- all"), SMALL).check().rows == 3
        )
        injected = "select customer, age from customers); delete from customers; select * from (select 1"
        for writing in ("delete from customers returning customer, 1 as age", injected):
            with pytest.raises(DataError):
                Table("bank", query(writing), SMALL).check()
        assert Table("bank", query("select customer, 1 as age from customers"), SMALL).rows == 3
        if not isinstance(query(""), SQLiteSource):  # where such a cast is 0
            failing = "select customer, cast(town as integer) as age from customers"
            refused(query(failing), "the query failed while its rows were read")


def test_a_database_that_is_down_or_lets_nobody_in_is_said_to_be_so_without_the_password(
    postgresql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = "postgresql://tester@127.0.0.1:1/postgres"
    refused(
        PostgreSQLSource("select 1", nowhere),
        r"query on postgresql://127.0.0.1:1/postgres: .*cannot be reached",
    )
    monkeypatch.setenv("WRONG_PASSWORD", SECRET)
    refused(PostgreSQLSource("select 1", postgresql, "WRONG_PASSWORD"), "cannot be reached: .*password")
    refused(
        PostgreSQLSource("select 1", postgresql + "x", "TEST_DB_PASSWORD"), "cannot be reached: .*postgresx"
    )
    with pytest.raises(JobError, match="'UNSET_PASSWORD' is not set"):
        Table("bank", PostgreSQLSource("select 1", postgresql, "UNSET_PASSWORD"), SMALL)


def test_a_server_that_goes_away_while_rows_are_read_is_said_to_be_so(postgresql: str) -> None:
    import psycopg

    source = fill_postgresql(postgresql, extract())
    table = Table("bank", source, SCHEMA)
    blocks = table.blocks(10)
    next(blocks)
    with psycopg.connect(postgresql, password=source.password(), autocommit=True) as other:
        readers = "pid <> pg_backend_pid() AND state LIKE 'idle in%'"
        other.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {readers}")
    with pytest.raises(DataError, match=r"the connection to the database was lost") as raised:
        list(blocks)
    assert raised.value.__context__ is None


def test_all_readings_of_a_query_see_the_same_state(tmp_path: Path, postgresql: str) -> None:
    import psycopg

    source = fill_postgresql(postgresql, extract())
    table = Table("bank", source, SCHEMA).check()
    with psycopg.connect(source.address, password=source.password()) as other:
        other.execute("DELETE FROM customers WHERE customer < 'K-00400'")
    assert table.rows == ROWS == len(list(table.ids())) == sum(block.rows for block in table.blocks())
    assert Table("bank", source, SCHEMA).rows == 100

    path = write_sqlite(tmp_path / "c.db", extract())
    table = Table("bank", SQLiteSource(SHUFFLED, path), SCHEMA).check()
    changed = sqlite3.connect(path)
    with changed:
        changed.execute("DELETE FROM customers WHERE customer < 'K-00400'")
    changed.close()
    for reading in (table.ids, table.blocks):
        with pytest.raises(DataError, match="changed since it was opened"):
            list(reading())


def test_queries_refuse_ids_that_are_floats_and_order_rows_by_their_ids_text(
    tmp_path: Path, postgresql: str
) -> None:
    floats = "select cast(age as double precision) + 0.5 as customer, age from customers where age > 0"
    values = "(values (10, 1), (9, 2), (100, 3)) as t(customer, age)"
    for query in databases(tmp_path, postgresql):
        refused(query(floats), "id column")
        sql = f"select customer, age from {values}"
        if isinstance(query(""), SQLiteSource):
            sql = "select column1 as customer, column2 as age from (values (10, 1), (9, 2), (100, 3))"
        table = Table("bank", query(sql), SMALL)
        assert list(table.ids()) == ["10", "100", "9"]
        assert [block.columns["age"].tolist() for block in table.blocks()] == [[1.0, 3.0, 2.0]]


def test_a_source_is_told_by_what_a_party_file_says() -> None:
    folder = Path("bank")

    def read(value: object) -> Source:
        return source_from_data(value, folder, where="bank.toml, line 2, data")

    assert read("b.csv") == FileSource(folder / "b.csv")
    sql = "select *\nfrom t"
    for database, expected in {
        "b.duckdb": DuckDBSource(sql, folder / "b.duckdb"),
        "duckdb:b.x": DuckDBSource(sql, folder / "b.x"),
        "sqlite:b.db": SQLiteSource(sql, folder / "b.db"),
        "sqlite:///b.db": SQLiteSource(sql, folder / "b.db"),
        "sqlite:////tmp/b.db": SQLiteSource(sql, Path("/tmp/b.db")),
        "sqlite:/tmp/b.db": SQLiteSource(sql, Path("/tmp/b.db")),
        "b.sqlite": SQLiteSource(sql, folder / "b.sqlite"),
        "postgresql://r@h/d": PostgreSQLSource(sql, "postgresql://r@h/d"),
    }.items():
        assert read({"sql": f" {sql} ;\n", "database": database}) == expected
    given = {"sql": "select 1", "database": "b.duckdb", "combines_rows": ["aggregate", "limit"]}
    assert read(given) == DuckDBSource("select 1", folder / "b.duckdb", ("aggregate", "limit"))

    for value, part in [
        (3, "name a file"),
        ("", "name a file"),
        (f"postgresql://r:{SECRET}@h/d", "name a file, or write"),
        (f"postgresql://h/d?password={SECRET}", "name a file, or write"),
        ([f"postgresql://r:a/@b:{SECRET}@h/d"], "found .'postgresql://r:…@h/d'"),
        ({"sql": "select 1"}, "data.database: this field is missing|database: this field is missing"),
        ({"sql": " ; ", "database": "b.duckdb"}, "the query is empty"),
        ({"sql": "select 1", "database": "mysql://h/d"}, "not known. Write a path"),
        ({"sql": "select 1", "databse": "b.duckdb", "database": "b.duckdb"}, "Did you mean 'database'"),
        ({"sql": "select 1", "database": "b.duckdb", "password_env": "P"}, "for PostgreSQL only"),
        (
            {"sql": "select 1", "database": "b.duckdb", "combines_rows": ["agregate"]},
            "combines_rows: .*'agregate'.* Did you mean 'aggregate'",
        ),
        ({"sql": "select 1", "database": f"postgresql://r:{SECRET}@h/d"}, "holds a password.*password_env"),
        ({"sql": "select 1", "database": f"postgresql://r@h/d?password={SECRET}"}, "holds a password"),
        ({"sql": "select 1", "database": "postgresql://h/d", "password": SECRET}, "unknown key 'password'"),
        (f"host=db password={SECRET} dbname=core", "name a file, or write"),
        (f"host=db password = '{SECRET} {SECRET}'", "name a file, or write"),
        ({"sql": "select 1", "database": f"host=db password={SECRET}"}, "keys and values is not read"),
        ({"sql": "select 1", "database": f"postgresql:host=db password='{SECRET}'"}, "keys and values"),
        ([f"host=db PASSWORD = '{SECRET} and {SECRET}' dbname=core"], "PASSWORD = … dbname=core"),
    ]:
        with pytest.raises(JobError, match=part) as raised:
            read(value)
        assert "bank.toml, line 2, data" in str(raised.value)
        assert SECRET not in str(raised.value)


@pytest.mark.parametrize("name", ["=1+1", "+cmd|' /C calc'!A0", "-2+3+cmd", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_text_is_a_formula(name: str) -> None:
    ((read,),) = csv.reader(io.StringIO(csv_text([(name,)]), newline=""))
    assert read == f"'{name}".replace("\r", " ")


@pytest.mark.parametrize("value", [-1, -2.5, "-2.5", "+3e-5", "-inf", "", "nurse", "a=1"])
def test_numbers_and_names_stay_as_they_are(value: object) -> None:
    assert csv_text([(value, "end")]) == f"{value},end\n"


def test_scores_have_no_formula_of_an_id_or_a_class() -> None:
    found = Scores(("=A1", "C2"), ("@low",), np.array([[-0.5], [0.5]]), ("=2", "high"), "", "", 0)
    assert scores_csv(found) == "id,'@low,predicted\n'=A1,-0.5,'=2\nC2,0.5,high\n"
