"""Tables: the same integers from CSV, Parquet and arrays, however the rows are cut; nothing wrong gets past."""

import gzip
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_data_sources import integers
from test_data_sources import write_text as write_csv
from typed import untyped

from colonnade.data import AlignedTable, Schema, Table
from colonnade.data import table as tables
from colonnade.errors import ColonnadeError, DataError

SCHEMA = Schema.parse("""
id = "customer"
label = {column = "income", kind = "classes", classes = ["<=50K", ">50K"]}
columns.age = {kind = "numeric", low = -5, high = 5}
columns.sex = {kind = "binary", values = ["F", "M"]}
columns.group = {kind = "categorical", categories = [-1, 0, 1]}
[columns.job]
kind = "categorical"
categories = ["clerk", "b, c", 'd "e"', "élan", "none of these"]
other = "none of these"
""")


def write_parquet(path: Path, arrays: Mapping[str, Sequence[object]], rows_per_group: int = 7) -> Path:
    pq.write_table(pa.table({k: pa.array(v) for k, v in arrays.items()}), path, row_group_size=rows_per_group)
    return path


@st.composite
def raw_tables(draw: st.DrawFn) -> dict[str, list[object]]:
    rows = draw(st.integers(1, 25))

    def column(values: st.SearchStrategy[object]) -> list[object]:
        return draw(st.lists(values, min_size=rows, max_size=rows))

    return {
        "customer": draw(st.lists(st.integers(0, 10**12), min_size=rows, max_size=rows, unique=True)),
        "unused": column(st.text("ab,\n\"'", max_size=3)),
        "age": column(st.floats(-1e300, 1e300)),
        "sex": column(st.sampled_from(["F", "M", " M"])),
        "job": column(st.sampled_from(["clerk", "b, c", 'd "e"', "élan", "pilot"])),
        "group": column(st.sampled_from([-1, 0, 1])),
        "income": column(st.sampled_from(["<=50K", ">50K", " >50K "])),
    }


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw_tables(), st.integers(1, 30))
def test_csv_parquet_and_arrays_give_the_same_integers_and_ids_in_blocks_of_any_size(
    tmp_path: Path, arrays: dict[str, list[object]], size: int
) -> None:
    tables = (
        Table.from_arrays("bank", arrays, SCHEMA),
        Table("bank", write_csv(tmp_path / "a.csv", arrays), SCHEMA),
        Table("bank", write_parquet(tmp_path / "a.parquet", arrays), SCHEMA),
    )
    expected = integers(tables[0], 1000)
    for table in tables:
        assert np.array_equal(integers(table, size), expected)
        assert list(table.ids()) == [str(number) for number in arrays["customer"]]
        assert table.rows == len(expected)
        assert table.clipping.counts == tables[0].clipping.counts


def numbered(rows: int) -> dict[str, list[object]]:
    rng = np.random.default_rng(rows)
    return {
        "customer": list(range(rows)),
        "age": rng.uniform(-5, 5, rows).tolist(),
        "sex": rng.choice(["F", "M"], rows).tolist(),
        "job": rng.choice(["clerk", "élan"], rows).tolist(),
        "group": rng.integers(-1, 2, rows).tolist(),
        "income": rng.choice(["<=50K", ">50K"], rows).tolist(),
    }


def test_blocks_have_exactly_the_size_asked_and_rows_keep_their_order(tmp_path: Path) -> None:
    arrays = numbered(150_000)
    for path in (
        write_csv(tmp_path / "a.csv", arrays),
        write_parquet(tmp_path / "a.parquet", arrays, 50_000),
    ):
        table = Table("bank", path, SCHEMA)
        blocks = list(table.blocks(70_001))
        assert [block.rows for block in blocks] == [70_001, 70_001, 9_998]
        assert np.concatenate([block.columns["age"] for block in blocks]).tolist() == arrays["age"]
        assert list(table.ids()) == [str(number) for number in range(150_000)]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_any_usual_delimiter_line_end_byte_order_mark_and_gzip_are_read(
    tmp_path: Path, delimiter: str
) -> None:
    arrays = numbered(20)
    expected = integers(Table.from_arrays("bank", arrays, SCHEMA), 100)
    plain = write_csv(tmp_path / "plain.csv", arrays, delimiter).read_bytes()
    for name, content in {
        "unix.csv": plain.replace(b"\r\n", b"\n"),
        "mark.csv": b"\xef\xbb\xbf" + plain,
        "small.csv.gz": gzip.compress(plain),
    }.items():
        (tmp_path / name).write_bytes(content)
        assert np.array_equal(integers(Table("bank", tmp_path / name, SCHEMA), 100), expected)


def test_taking_rows_gives_those_rows_in_that_order(tmp_path: Path) -> None:
    arrays = numbered(1000)
    positions = np.random.default_rng(1).permutation(1000)[:400]
    for table in (
        Table.from_arrays("bank", arrays, SCHEMA),
        Table("bank", write_parquet(tmp_path / "a.parquet", arrays), SCHEMA),
    ):
        used = table.take(positions)
        assert used.rows == 400
        assert list(used.ids()) == [str(position) for position in positions]
        assert np.array_equal(integers(used, 64), integers(table, 1000)[positions])
        assert used.take([3]).rows == 1
        for wrong in ([1000], [-1], [0, 0], [], [0.5]):
            with pytest.raises(ValueError, match=r"position|twice"):
                table.take(wrong)


def test_clipping_is_counted_once_however_often_a_table_is_read(tmp_path: Path) -> None:
    arrays = numbered(100)
    arrays["age"][:3] = [5.1, -1e9, 6]
    table = Table("bank", write_csv(tmp_path / "a.csv", arrays), SCHEMA)
    for _ in range(2):
        assert max(block.columns["age"].max() for block in table.blocks(7)) == 5
        assert table.clipping.counts == {"age": 3}
    assert "3 of 100" in str(table.clipping)


def test_a_party_with_only_the_label_has_rows_and_blocks_cannot_be_written_to(tmp_path: Path) -> None:
    schema = Schema("customer", (), SCHEMA.label)
    table = Table("bank", write_csv(tmp_path / "a.csv", numbered(10)), schema)
    (block,) = table.blocks()
    assert block.columns == {} and block.label is not None and len(block.label) == 10
    (block,) = Table.from_arrays("bank", numbered(5), SCHEMA).blocks()
    with pytest.raises(ValueError, match="read-only"):
        block.columns["age"][0] = 0


SECRET = "s3cret-31337"


@pytest.mark.parametrize(
    ("column", "values", "parts"),
    [
        ("age", [SECRET, "", " "], ["column 'age'", "1 value is text", "2 values are missing"]),
        ("age", ["nan", "inf", "-inf"], ["1 value is missing", "2 values are infinite"]),
        ("age", ["1,5", "0x10"], ["1 value is text", "1 value is written with thousands"]),
        (
            "sex",
            [SECRET, SECRET, "f"],
            [
                "column 'sex'",
                "2 values are not among the declared ones",
                "1 value is among the declared ones but for spelling",
            ],
        ),
        ("sex", ["", "  "], ["column 'sex'", "2 values are missing"]),
        ("group", [SECRET, "1.5"], ["column 'group'", "2 values are not among"]),
        ("income", [SECRET], ["column 'income'", "1 value is not among", "Declare"]),
        ("customer", ["", "  "], ["id column 'customer'", "2 ids are missing"]),
        ("customer", [SECRET, SECRET, " " + SECRET], ["id column 'customer'", "2 ids are repeated"]),
    ],
)
def test_bad_values_are_counted_over_the_whole_file_and_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str, values: list[str], parts: list[str]
) -> None:
    monkeypatch.setattr(tables, "_IDS", 64)
    arrays = {name: [str(value) for value in column] for name, column in numbered(300).items()}
    # First and last rows: the count must come from all of the file, not from the first block.
    arrays[column][: len(values) - 1] = values[1:]
    arrays[column][-1] = values[0]
    path = write_csv(tmp_path / "accounts.csv", arrays)
    with pytest.raises(DataError) as raised:
        Table("bank", path, SCHEMA).check()
    for part in ["party 'bank'", "accounts.csv", *parts]:
        assert part in str(raised.value)
    assert SECRET not in str(raised.value)
    assert raised.value.__context__ is None


def test_rows_without_ids_are_numbered_and_peers_see_no_value() -> None:
    arrays = {name: values for name, values in numbered(3).items() if name != "customer"}
    assert list(Table.from_arrays("bank", arrays, SCHEMA).ids()) == ["0", "1", "2"]
    assert list(Table.from_arrays("bank", arrays, SCHEMA, ids=[" a", "b", "012"]).ids()) == ["a", "b", "012"]
    public = Table.from_arrays("bank", numbered(3), SCHEMA).public()
    assert public.party == "bank" and public.columns == SCHEMA.columns
    assert issubclass(DataError, ColonnadeError) and DataError.exit_code == 3


def test_a_file_that_changes_after_it_was_opened_is_refused(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", numbered(10))
    table = Table("bank", path, SCHEMA).check()
    write_csv(path, numbered(11))
    for reading in (table.ids, table.blocks):
        with pytest.raises(DataError, match="changed since it was opened"):
            list(reading())
    path.unlink()
    with pytest.raises(DataError):
        list(table.blocks())


def test_counts_are_whole_and_aligned_tables_have_the_rows_that_were_aligned(tmp_path: Path) -> None:
    schema = Schema.parse('id = "customer"\n[label]\ncolumn = "age"\nkind = "count"\nlow = 0\nhigh = 9')
    path = write_csv(tmp_path / "a.csv", {"customer": [1, 2, 3], "age": [0, 2.5, 100]})
    with pytest.raises(DataError, match="1 value is not whole"):
        Table("bank", path, schema).check()
    table = Table.from_arrays("bank", numbered(3), SCHEMA)
    aligned = AlignedTable(table, 3, b"digest")
    assert (aligned.party, aligned.schema) == ("bank", SCHEMA)
    assert [block.rows for block in aligned.blocks(2)] == [2, 1]
    with pytest.raises(DataError, match="2 rows were aligned"):
        AlignedTable(table, 2, b"digest")


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"age": [1.0, None, float("nan")]}, "2 values are missing"),
        ({"age": [1.0, float("-inf"), 2.0]}, "1 value is infinite"),
        ({"age": ["1", "two", "3"]}, "1 value is text"),
        ({"age": [True, False, True]}, "declared as numbers but holds BOOLEAN|3 values are text"),
        ({"sex": ["F", None, SECRET]}, "column 'sex': 1 value is missing.*1 value is not among"),
        ({"group": [0.5, 1.5, -1.0]}, "column 'group': 2 values are not among"),
        ({"customer": [1, None, 2]}, "1 id is missing|ids are double"),
        ({"customer": [1, 1, 1]}, "2 ids are repeated"),
        ({"customer": [1.0, 2.0, 3.0]}, "ids are double values"),
        ({"job": [["clerk"]] * 3}, "lists or records"),
        ({name: [] for name in numbered(1)}, "no rows"),
    ],
)
def test_parquet_and_arrays_are_held_to_the_same_rules(tmp_path: Path, changes: Any, part: str) -> None:
    arrays = {**numbered(3), **changes}
    path = write_parquet(tmp_path / "a.parquet", arrays)
    with pytest.raises(DataError, match=part):
        Table("bank", path, SCHEMA).check()
    with pytest.raises(DataError, match=part):
        Table.of("bank", arrays, SCHEMA)


def test_arrays_have_one_length_one_id_a_row_and_every_column() -> None:
    def refused(changes: dict[str, Any], part: str, **more: object) -> None:
        with pytest.raises(DataError, match=part):
            Table.from_arrays("bank", {**numbered(3), **changes}, SCHEMA, **untyped(more))

    refused({"age": [1.0]}, "different lengths")
    refused({}, "2 ids for 3 rows", ids=[1, 2])
    refused({}, "ids are double", ids=[1.0, 2.0, 3.0])
    with pytest.raises(DataError, match=r"'age' is declared but missing. Did you mean 'aeg'"):
        Table.from_arrays("bank", {"aeg" if k == "age" else k: v for k, v in numbered(3).items()}, SCHEMA)


LONG = """
import resource, sys
import numpy as np
from colonnade.data import NumericColumn, Schema, Table

def most() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

columns = tuple(NumericColumn(f"x{i}", 0, 1) for i in range(20))
table = Table("bank", sys.argv[1], Schema("customer", columns))
next(iter(table.blocks(4096)))
before = most()
rows = sum(block.rows for block in table.blocks(4096))
read = most() - before
next(iter(table.ids()))
table.take([0])
before = most()
order = np.random.default_rng(1).permutation(table.rows)
taken = table.take(order)
more = most() - before
first = next(iter(taken.blocks(10)))
right = np.array_equal(first.columns["x0"], (order[:10] % 1000) / 1000)
print(rows, read, int(right and next(iter(taken.ids())) == str(order[0])), more)
"""


def test_a_long_file_takes_the_memory_of_blocks_and_rows_in_another_order_that_of_those(
    tmp_path: Path,
) -> None:
    rows, path = 500_000, tmp_path / "long.parquet"
    numbers = np.arange(rows)
    values: dict[str, Any] = {f"x{i}": ((numbers * (i + 1)) % 1000) / 1000 for i in range(20)}
    pq.write_table(pa.table({"customer": numbers, **values}), path, row_group_size=50_000)
    run = subprocess.run([sys.executable, "-c", LONG, path], capture_output=True, text=True, check=True)
    read, kilobytes, right, more = map(int, run.stdout.split())
    # All rows together are 80 MB; a copy of what is taken, or ids as Python's texts, would be seen.
    assert read == rows and kilobytes < 60_000
    assert right and more < 80_000 + 50_000
