"""Columns as they come: arrays, lists, parts of data frames and of Arrow tables mean the same, and errors show none."""

import itertools
import re
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

from colonnade.data.arrays import (
    columns_by_name,
    distinct,
    kind_of,
    numbers,
    objects,
    of_texts,
    packed,
    text_bytes,
    texts,
    values_of,
)
from colonnade.data.coding import code
from colonnade.data.files import open_file
from colonnade.data.kinds import Column, DateColumn, NumericColumn
from colonnade.data.levels import CategoricalColumn
from colonnade.errors import BadValues, DataError

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
    "levels of views": pa.DictionaryArray.from_arrays(
        pa.array([0, None, 1], pa.uint32()), pa.array(["a", "é" * 20], pa.string_view())
    ),
    "dates": pa.array([date(1969, 12, 31), None, date(2024, 2, 29)]),
    "moments": pa.array([MOMENT, None, datetime(1900, 1, 1)], pa.timestamp("us")),
    "milliseconds": pa.array([MOMENT, None, datetime(1900, 1, 1)], pa.timestamp("ms")),
    "zoned": pa.array([MOMENT.replace(tzinfo=UTC), None, None], pa.timestamp("us", tz="UTC")),
    "nothing": pa.array([None, None, None]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_an_arrow_array_its_slices_and_its_chunks_are_the_values_that_it_holds(name: str) -> None:
    array = COLUMNS[name]
    wanted = array.to_pylist()
    assert objects(values_of(array)) == wanted
    assert objects(values_of(array.slice(1))) == wanted[1:]
    assert objects(values_of(pa.chunked_array([array, array.slice(2)]))) == wanted + wanted[2:]
    different, places = distinct(values_of(array))
    assert [[*different, None][place] for place in places.tolist()] == wanted


def test_exact_decimals_lose_nothing_and_unknown_types_are_refused_by_name() -> None:
    exact = [Decimal("12345678901234567890123456789.01"), None, Decimal("-0.50")]
    spelt = [None if one is None else str(one) for one in exact]
    assert texts(values_of(pa.array(exact, pa.decimal128(38, 2)))) == spelt
    problems = code(values_of(pa.array([1], pa.time64("us"))), NumericColumn("at", low=0, high=9)).problems
    with pytest.raises(
        BadValues, match=r"column 'at': 1 value is of a type that is not read\. .* turn it into"
    ):
        problems.refuse("column 'at'")


@given(TEXTS)
def test_texts_are_kept_as_they_are_and_their_numbers_tell_them_apart(given: list[str | None]) -> None:
    column = of_texts(given)
    assert texts(column) == given and texts(column.slice(1)) == given[1:]
    different, codes = distinct(column)
    assert [None if place == len(different) else different[place] for place in codes.tolist()] == given
    assert len(set(different)) == len(different)
    lengths, content = text_bytes(column.slice(1))
    spelt = [(one or "").encode("utf-8", "surrogatepass") for one in given[1:]]
    assert lengths.tolist() == [len(one) for one in spelt] and content.tobytes() == b"".join(spelt)
    store, ends = packed(column.slice(1))
    assert [store[first:last].tobytes() for first, last in itertools.pairwise(ends.tolist())] == spelt


def test_every_short_text_of_number_signs_is_read_as_a_number_exactly_if_it_is_one(tmp_path: Path) -> None:
    """Arrow reads them, and must take nothing for a number that is none: all texts up to six signs are tried."""
    signs = ["".join(some) for size in range(1, 7) for some in itertools.product("01-.e", repeat=size)]
    signs += ["+5", "1e+3", "1_000", "0x10", "1,5", "nan", "inf", " 7 ", "1e999", "5e-324", "0.1"]
    signs += ["1.7976931348623157e308"]
    (tmp_path / "a.csv").write_text("x\n" + "\n".join(f'"{text}"' for text in signs) + "\n")
    (batch,) = open_file(tmp_path / "a.csv", party="bank").batches(["x"], size=1 << 16, floats={"x"})
    number = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|nan|inf")
    are = [number.fullmatch(text.strip()) is not None for text in signs]
    coded = code(batch.column(0), NumericColumn("x", low=-1e300, high=1e300, missing=0.0))
    wanted = [float(text) if one else 0.0 for text, one in zip(signs, are, strict=True)]
    assert coded.raw is not None
    np.testing.assert_array_equal(coded.raw, wanted)
    problems = coded.problems
    assert problems.text + problems.marked + problems.grouped == are.count(False)


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
    found = values_of(values)
    assert kind_of(found) == kind and len(found) == len(values)


def test_dates_numbers_and_halves_of_characters_are_kept_as_they_are() -> None:
    days = values_of(np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"))
    exact = values_of(np.array(["2020-01-01T12:00", "NaT"], dtype="datetime64[ns]"))
    assert objects(days) == [date(2020, 1, 1), None] and objects(exact) == [datetime(2020, 1, 1, 12), None]
    with duckdb.connect() as engine:
        days = engine.sql("SELECT unnest([date 'infinity', date '2020-02-01', NULL]) AS d").to_arrow_table()
    assert objects(values_of(days.column("d"))) == ["infinity", date(2020, 2, 1), None]
    before = pa.array([-1, -1_001, None], pa.timestamp("ns"))
    assert values_of(before).view(pa.int64()).to_pylist() == [-1, -2, None]
    noon = pa.array([43_200_000, -1, None], pa.int64()).view(pa.date64())
    assert objects(values_of(noon)) == [date(1970, 1, 1), date(1969, 12, 31), None]
    large = values_of(pa.array([2**53 + 1, None, -(2**63)], pa.int64()))
    np.testing.assert_array_equal(numbers(large), [2.0**53, np.nan, -(2.0**63)])
    column = of_texts(["\ud800", None, "b"])
    assert texts(column) == ["\ud800", None, "b"] and distinct(column)[0] == ["\ud800", "b"]


CANARY = "CANARY-4711"
DECLARED: list[Column] = [
    NumericColumn("x", low=0, high=1),
    CategoricalColumn("x", ("a", "b")),
    DateColumn("x", low=date(2000, 1, 1), high=date(2001, 1, 1)),
]


@pytest.mark.parametrize("column", DECLARED)
@pytest.mark.parametrize(
    "given",
    [
        [CANARY],
        [CANARY, 1],
        [f"1{CANARY}"],
        [CANARY, "\ud800"],
        pa.array([CANARY]).dictionary_encode(),
        pa.array([CANARY], pa.string_view()),
        pa.array([CANARY.encode()]),
        [[CANARY]],
        [Decimal(1), CANARY],
    ],
)
def test_what_is_wrong_with_a_value_never_shows_it(given: Any, column: Column) -> None:
    problems = code(given, column).problems
    with pytest.raises(BadValues) as refused:
        problems.refuse("column 'x'")
    found: BaseException | None = refused.value
    while found is not None:
        assert CANARY not in repr(found)
        found = found.__cause__ or found.__context__


def test_a_stream_that_breaks_off_is_refused_without_its_message() -> None:
    def rows() -> Any:
        yield pa.record_batch({"x": [1]})
        raise ValueError(CANARY)

    schema = pa.schema({"x": pa.int64()})

    class Stream:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return pa.RecordBatchReader.from_batches(schema, rows()).__arrow_c_stream__()

    with pytest.raises(DataError, match="stopped half way") as refused:
        columns_by_name(Stream())
    assert CANARY not in str(refused.value) and refused.value.__suppress_context__


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
