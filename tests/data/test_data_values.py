"""Columns as they come: Arrow's memory, Python's values and packed text mean the same; reading needs no package."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typed import untyped

from colonnade.data.arrow import batches
from colonnade.data.coding import code
from colonnade.data.columns import CategoricalColumn, NumericColumn
from colonnade.data.files import open_file
from colonnade.data.intake import of_objects, values_of
from colonnade.data.packed_text import Text
from colonnade.data.relation import exactly
from colonnade.data.values import Batch, Numerals, Plain
from colonnade.errors import BadValues

TEXTS = st.lists(
    st.none() | st.text(max_size=12) | st.sampled_from(["", "no", "yes", "n\0", "n", "é" * 40]), max_size=60
)
MOMENT = datetime(2024, 2, 29, 12, 30, 15, 250_000)
COLUMNS = {
    "whole": pa.array([3, None, -7], pa.int16()),
    "large": pa.array([2**63, 0, None], pa.uint64()),
    "real": pa.array([0.5, None, -1.25], pa.float32()),
    "truth": pa.array([True, None, False]),
    "text": pa.array(["a", None, "é ü"]),
    "large text": pa.array(["a", None, "bc"], pa.large_string()),
    "levels": pa.array(["a", None, "a"]).dictionary_encode(),
    "dates": pa.array([date(1969, 12, 31), None, date(2024, 2, 29)]),
    "moments": pa.array([MOMENT, None, datetime(1900, 1, 1)], pa.timestamp("us")),
    "milliseconds": pa.array([MOMENT, None, datetime(1900, 1, 1)], pa.timestamp("ms")),
    "zoned": pa.array([MOMENT.replace(tzinfo=UTC), None, None], pa.timestamp("us", tz="UTC")),
    "nothing": pa.array([None, None, None]),
}


def objects(column: Any) -> list[Any]:
    return column.texts() if isinstance(column, Text) else column.objects()


@pytest.mark.parametrize("name", COLUMNS)
def test_an_arrow_array_its_slices_and_its_chunks_are_the_values_that_it_holds(name: str) -> None:
    array = COLUMNS[name]
    wanted = array.to_pylist()
    assert objects(values_of(array)) == wanted
    assert objects(values_of(array.slice(1))) == wanted[1:]
    assert objects(values_of(pa.chunked_array([array, array.slice(2)]))) == wanted + wanted[2:]
    distinct, places = untyped(values_of(array)).distinct()
    assert [[*distinct, None][min(place, len(distinct))] for place in places.tolist()] == wanted


def test_exact_decimals_lose_nothing_and_unknown_types_are_refused_by_name() -> None:
    exact = [Decimal("12345678901234567890123456789.01"), None, Decimal("-0.50")]
    assert untyped(values_of(pa.array(exact, pa.decimal128(38, 2)))).texts() == [
        None if one is None else str(one) for one in exact
    ]
    problems = code(values_of(pa.array([1], pa.time64("us"))), NumericColumn("at", low=0, high=9)).problems
    with pytest.raises(
        BadValues, match=r"column 'at': 1 value is of a type that is not read\. .* turn it into"
    ):
        problems.refuse(party="bank", source="arrays", column="at")


def test_a_column_outlives_the_array_that_it_was_read_from() -> None:
    column = values_of(pa.array(np.arange(100_000)))
    pa.default_memory_pool().release_unused()
    churn = [np.full(100_000, 7) for _ in range(20)]
    assert np.array_equal(untyped(column).data, np.arange(100_000)) and churn


@given(TEXTS)
def test_packed_texts_are_the_texts_and_their_numbers_tell_them_apart(texts: list[str | None]) -> None:
    packed = Text.of(texts)
    assert packed.texts() == texts
    distinct, codes = packed.distinct()
    assert [None if place == len(distinct) else distinct[place] for place in codes.tolist()] == texts
    assert len(set(distinct)) == len(distinct)
    order = np.arange(len(texts))[::-1]
    assert packed.take(order).texts() == texts[::-1]
    assert (
        Text.joined([packed.part(0, len(texts) // 2), packed.part(len(texts) // 2, len(texts))]).texts()
        == texts
    )


def test_many_different_texts_are_told_apart_too() -> None:
    texts = [f"person {number % 3000}" for number in range(5000)]
    distinct, codes = Text.of(texts).distinct()
    assert len(distinct) == 3000 and [distinct[place] for place in codes.tolist()] == texts


def test_texts_that_are_taken_for_the_same_are_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("colonnade.data.packed_text._FACTORS", np.zeros(9, dtype=np.uint64))
    distinct, codes = Text.of(["a", "b", "a"]).distinct()
    assert (distinct, codes.tolist()) == (["a", "b"], [0, 1, 0])


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 7))
def test_batches_are_cut_to_size_and_keep_their_rows(sizes: list[int], size: int) -> None:
    numbers = iter(itertools.count())
    made = [
        Batch((Plain("whole", np.array([next(numbers) for _ in range(rows)], dtype=int)),), rows)
        for rows in sizes
    ]
    cut = list(exactly(iter(made), size))
    assert [value for batch in cut for value in objects(batch.columns[0])] == list(range(sum(sizes)))
    assert all(batch.rows == size for batch in cut[:-1]) and (not cut or 1 <= cut[-1].rows <= size)


def test_every_short_text_of_number_signs_is_read_as_a_number_exactly_if_it_is_one(tmp_path: Path) -> None:
    """DuckDB reads them, and must take nothing for a number that is none: all texts up to six signs are tried."""
    texts = ["".join(signs) for size in range(1, 7) for signs in itertools.product("01-.e", repeat=size)]
    texts += [
        "+5",
        "1e+3",
        "1_000",
        "0x10",
        "1,5",
        "nan",
        "inf",
        " 7 ",
        "1e999",
        "1.7976931348623157e308",
        "5e-324",
        "0.1",
    ]
    (tmp_path / "a.csv").write_text("x\n" + "\n".join(f'"{text}"' for text in texts) + "\n")
    (batch,) = open_file(tmp_path / "a.csv", party="bank").batches(["x"], size=1 << 16, floats={"x"})
    (column,) = batch.columns
    assert isinstance(column, Numerals)
    number = re.compile(r"-?(\d+\.?\d*|\.\d+)(e-?\d+)?")
    for text, read, rest in zip(texts, column.read.tolist(), column.rest.texts(), strict=True):
        if rest is None:
            assert number.fullmatch(text) and read == float(text), text
        else:
            assert rest == text and (not number.fullmatch(text) or text == "1e999")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, None, True], "text"),
        ([1, 2.5], "real"),
        ([2**80, 1], "text"),
        ([b"x", None], "binary"),
        ([date(2020, 1, 1), None], "date"),
        ([MOMENT, MOMENT.replace(tzinfo=UTC)], "moment"),
        ([np.int32(4), 5], "whole"),
        ([Decimal("1.50")], "text"),
        ([float("nan"), None], "nothing"),
    ],
)
def test_pythons_own_values_are_of_one_kind_or_text(values: list[object], kind: str) -> None:
    found = of_objects(values)
    assert ("text" if isinstance(found, Text) else untyped(found).kind) == kind
    assert len(found) == len(values)


def test_numpy_dates_are_dates_and_missing_ones_missing() -> None:
    days = values_of(np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"))
    exact = values_of(np.array(["2020-01-01T12:00", "NaT"], dtype="datetime64[ns]"))
    assert objects(days) == [date(2020, 1, 1), None] and objects(exact) == [
        datetime(2020, 1, 1, 12),
        None,
    ]


def test_what_databases_hold_besides_comes_as_text_and_dates_without_end_are_not_a_mistake() -> None:
    with duckdb.connect() as engine:
        (batch,) = batches(engine.sql("SELECT unnest([date 'infinity', date '2020-02-01', NULL]) AS d"))
    assert objects(batch.columns[0]) == ["infinity", date(2020, 2, 1), None]


def test_files_are_read_and_columns_coded_without_pyarrow_or_pandas(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,age,town\n1,30,Ulm\n2,40.5,Bonn\n")
    with duckdb.connect() as engine:
        engine.execute(f"COPY (FROM read_csv('{tmp_path}/a.csv')) TO '{tmp_path}/a.parquet'")
    script = f"""
import sys
for name in ("pyarrow", "pandas", "polars", "matplotlib"):
    sys.modules[name] = None
from colonnade.data import CategoricalColumn, NumericColumn, Schema, Table
schema = Schema("n", (NumericColumn("age", 0, 99), CategoricalColumn("town", ("Bonn", "Ulm"))))
for kind in ("csv", "parquet"):
    table = Table("bank", "{tmp_path}/a." + kind, schema)
    (block,) = table.blocks()
    print(list(table.ids()), block.columns["age"].tolist(), block.columns["town"].tolist())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['1', '2'] [30.0, 40.5] [1, 0]"] * 2


def test_a_column_of_an_arrow_table_is_coded_like_a_list() -> None:
    towns = CategoricalColumn("town", ("Bonn", "Ulm"))
    given = ["Ulm", "Bonn", " Ulm"]
    for values in (
        pa.array(given),
        pa.chunked_array([given[:1], given[1:]]),
        pa.array(given).dictionary_encode(),
    ):
        assert code(values, towns).values.tolist() == code(given, towns).values.tolist() == [1, 0, 1]
    ages = NumericColumn("age", low=0, high=9)
    assert code(pa.array([1, None, 12]), ages).problems.missing == 1


@pytest.mark.parametrize(
    ("values", "clipped", "within"),
    [
        # Below only, above only, both sides in different numbers; the ends are inside.
        ([-3.0, -1.0, 0.0, 9.0], 2, [0, 0, 0, 9]),
        ([9.5, 0.0, 9.0, 5.0], 1, [9, 0, 9, 5]),
        ([-1.0, 10.0, 11.0, 12.0, 4.0], 4, [0, 9, 9, 9, 4]),
        ([0.0, 9.0], 0, [0, 9]),
    ],
)
def test_what_is_clipped_is_counted_on_each_side_by_itself(
    values: list[float], clipped: int, within: list[float]
) -> None:
    coded = code(values, NumericColumn("age", low=0, high=9))
    assert coded.clipped == clipped and coded.values.tolist() == within and not coded.problems


def test_what_is_infinite_is_a_problem_and_counts_as_clipped_on_neither_side() -> None:
    coded = code([np.inf, -np.inf, -np.inf, 10.0, 4.0], NumericColumn("age", low=0, high=9))
    assert coded.clipped == 1 and coded.problems.infinite == 3 and coded.problems.missing == 0
    coded = code([np.nan, -2.0, 10.0], NumericColumn("age", low=0, high=9, missing=3.0))
    assert coded.clipped == 2 and coded.values.tolist() == [3, 0, 9] and not coded.problems
