"""Tables in memory, whatever package made them: the same rows, classes as declared, one sentence for a mistake."""

from collections.abc import Callable
from datetime import date, timedelta
from types import MappingProxyType
from typing import Any

import duckdb
import numpy as np
import pyarrow
import pytest
from typed import untyped

from colonnade import PCA, Federation, Ledger, LogisticRegression, MomentRelease, Schema, Table
from colonnade.data.coding import code
from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import ClassLabel, RealLabel
from colonnade.data.levels import CategoricalColumn
from colonnade.data.maps import Ball
from colonnade.errors import BadValues, ColonnadeError, DataError, InputError, Misdeclared, SchemaError

BANK = Schema.from_data(
    {
        "id": "person",
        "columns": {
            "age": {"kind": "numeric", "low": 0, "high": 90},
            "town": {"kind": "categorical", "categories": ["north", "a town whose name is long"]},
            "grade": {"kind": "categorical", "categories": [1, 2], "missing": {"value": 1}},
            "since": {"kind": "date", "low": date(2000, 1, 1), "high": date(2030, 1, 1)},
        },
        "label": {"column": "y", "kind": "classes", "classes": [0, 1]},
    }
)
ROWS: dict[str, list[Any]] = {
    "person": ["a", "b", "c", "d"],
    "age": [30, 41, 8, 77],
    "town": ["north", "a town whose name is long", "north", "north"],
    "grade": [1, None, 2, 1],
    "since": [date(2020, 5, 6), date(2021, 1, 1), date(2022, 2, 2), date(2001, 1, 1)],
    "y": [0, 1, 1, 0],
}


ARROW = pyarrow.table(ROWS)
MADE: dict[str, Callable[[], Any]] = {
    "mapping": lambda: MappingProxyType(ROWS),
    # An empty cell among whole numbers makes them 1.0 and 2.0 here.
    "pandas": lambda: pytest.importorskip("pandas").DataFrame(ROWS),
    "polars": lambda: pytest.importorskip("polars").DataFrame(ROWS),
    "arrow table": lambda: ARROW,
    "arrow table in pieces": lambda: pyarrow.concat_tables([ARROW.slice(0, 1), ARROW.slice(1)]),
    "arrow record batch": lambda: pyarrow.RecordBatch.from_pydict(ROWS),
    "arrow views": lambda: pyarrow.table(
        {**ROWS, "town": pyarrow.array(ROWS["town"], type=pyarrow.string_view())}
    ),
    "arrow dictionary": lambda: pyarrow.table(
        {**ROWS, "town": pyarrow.array(ROWS["town"]).dictionary_encode()}
    ),
    "duckdb": lambda: duckdb.from_arrow(ARROW),
}


@pytest.mark.parametrize("maker", MADE, ids=str)
def test_every_package_gives_the_same_rows_and_a_draft_without_values(maker: str) -> None:
    table = Table.of("bank", MADE[maker](), BANK)
    whole = Table.from_arrays("bank", ROWS, BANK)
    assert list(table.ids()) == ["a", "b", "c", "d"]
    (block,), (right,) = table.blocks(), whole.blocks()
    assert {name: column.tolist() for name, column in block.columns.items()} == {
        name: column.tolist() for name, column in right.columns.items()
    }
    assert block.label is not None and block.label.tolist() == [0, 1, 1, 0]
    draft = Schema.draft(MADE[maker]())
    assert {"town": "categorical", "age": "numeric", "since": "date"}.items() <= draft.kinds.items()
    assert "north" not in str(draft) and "77" not in str(draft)
    with pytest.raises(SchemaError, match="left blank"):
        Schema.parse(str(draft).replace('id = ""', 'id = "person"'))


def test_few_whole_numbers_of_a_frame_are_drafted_as_codes_as_those_of_a_file_are() -> None:
    numbers = np.arange(300)
    draft = Schema.draft(
        {"grade": 1.0 + numbers % 3, "half": (numbers % 3) / 2, "age": numbers, "y": numbers % 2}
    )
    assert draft.kinds == {"grade": "categorical", "half": "numeric", "age": "numeric", "y": "categorical"}
    assert str(draft).count("codes, it seems") == 2


def test_whole_numbers_with_points_and_durations_are_what_they_stand_for() -> None:
    column = CategoricalColumn("grade", categories=(1, 2))  # type: ignore[arg-type]
    assert code(["1.0", "2", "2.00"], column).values.tolist() == [0, 1, 1]
    assert code(np.array([1.0, 2.0]), column).values.tolist() == [0, 1]
    assert code(["1.0"], CategoricalColumn("v", categories=("1", "1.0"))).values.tolist() == [1]
    assert code(["1.5"], column).problems.undeclared == 1
    wait = NumericColumn("wait", low=0, high=1e6)
    for given in (
        [timedelta(minutes=2), timedelta(days=1)],
        np.array([120, 86400], dtype="timedelta64[s]"),
        pyarrow.array([timedelta(minutes=2), timedelta(days=1)]),
    ):
        assert code(untyped(given), wait).values.tolist() == [120.0, 86400.0]


@pytest.mark.parametrize("written", ["FEMALE", "fe male", "ｆｅｍａｌｅ"])
def test_where_only_spelling_differs_the_message_says_so(written: str) -> None:
    schema = Schema.from_data(
        {"id": "n", "columns": {"sex": {"kind": "categorical", "categories": ["female", "male"]}}}
    )
    with pytest.raises(BadValues, match=r"but for spelling.*case = ") as caught:
        Table.of("bank", {"sex": ["male", written]}, schema)
    assert written not in str(caught.value)
    with pytest.raises(BadValues, match=r"1 value is not among the declared ones. Declare every value"):
        Table.of("bank", {"sex": ["male", "other"]}, schema)


AGE = Schema.from_data({"id": "n", "columns": {"age": {"kind": "numeric", "low": 0, "high": 90}}})
MISTAKES: dict[str, Callable[[], Any]] = {
    "no table": lambda: Table.of("bank", None, AGE),
    "an array": lambda: Table.of("bank", np.zeros((2, 2)), AGE),
    "a list": lambda: Table.of("bank", [{"age": [1]}], AGE),
    "a party that is None": lambda: Table.of(None, {"age": [1]}, AGE),  # type: ignore[arg-type]
    "ids of two dimensions": lambda: Table.of("bank", {"age": [1], "n": np.zeros((1, 2))}, AGE),
    "a file under a schema that is text": lambda: Table("bank", "b.csv", "id"),  # type: ignore[arg-type]
    "an endless budget": lambda: Ledger.in_memory("a").set_budget(
        "a", "record", "server", epsilon=10**400, delta=1e-5
    ),
    "a number without an end among others": lambda: Table.of("bank", {"age": [1.5, 10**400]}, AGE),
    "a column of lists": lambda: Table.of("bank", {"age": [[1], [2]]}, AGE),
    "a name that is there twice": lambda: Table.of(
        "bank", pyarrow.Table.from_arrays([pyarrow.array([1])] * 2, names=["age", "age"]), AGE
    ),
    "an Arrow type that holds others": lambda: Table.of("bank", pyarrow.table({"age": [[1]]}), AGE),
    "a schema that is a mapping": lambda: Table.of("bank", {"age": [1]}, {"id": "n"}),  # type: ignore[arg-type]
    "a schema's path that is a number": lambda: Schema.load(7),  # type: ignore[arg-type]
    "a schema's path that is None": lambda: Schema.load(None),  # type: ignore[arg-type]
    "a schema's text that is a number": lambda: Schema.parse(7),  # type: ignore[arg-type]
    "a schema's data that is a number": lambda: Schema.from_data(7),  # type: ignore[arg-type]
    "a schema's data that is a list": lambda: Schema.from_data([1]),  # type: ignore[arg-type]
    "a schema's columns that are a number": lambda: Schema("n", 7),  # type: ignore[arg-type]
    "a schema's columns that are numbers": lambda: Schema("n", (7,)),  # type: ignore[arg-type]
    "a schema's label that is text": lambda: Schema("n", (NumericColumn("age", 0, 9),), "y"),  # type: ignore[arg-type]
    "a schema's id that is a number": lambda: Schema(7, (NumericColumn("age", 0, 9),)),  # type: ignore[arg-type]
    "a draft of a number": lambda: Schema.draft(7),
    "a ledger's path that is None": lambda: Ledger.open(None),  # type: ignore[arg-type]
    "a ledger's path that is a number": lambda: Ledger.create(7, "bank"),  # type: ignore[arg-type]
    "a release's path that is None": lambda: MomentRelease.load(None),  # type: ignore[arg-type]
    "no tables": lambda: Federation(None, budget=(1.0, 1e-5)),  # type: ignore[arg-type]
    "tables that are numbers": lambda: Federation([1, 2], budget=(1.0, 1e-5)),  # type: ignore[list-item]
    "nothing to fit on": lambda: LogisticRegression(epsilon=1.0).fit(None),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_a_mistake_in_python_is_one_sentence(mistake: str) -> None:
    with pytest.raises(ColonnadeError) as caught:
        MISTAKES[mistake]()
    assert str(caught.value).rstrip().endswith(".") and "object at 0x" not in str(caught.value)


def test_columns_may_be_a_list_of_objects_and_what_is_not_computed_is_asked_for() -> None:
    schema = Schema("n", [NumericColumn("age", 0, 90)], ClassLabel("y", (0, 1)))  # type: ignore[arg-type]
    assert schema == Schema.from_data(schema.to_data()) and schema.label is not None
    assert schema.to_data()["label"] == {"column": "y", "kind": "classes", "classes": [0, 1]}
    polars = pytest.importorskip("polars")
    with pytest.raises(DataError, match=r"collect\(\)"):
        Table.of("bank", polars.DataFrame(ROWS).lazy(), BANK)


# What a person gives wrongly in Python ends in an error of ours, as it does on the command line.


SCHEMA = Schema.parse('id = "c"\n[columns.age]\nkind = "numeric"\nlow = 0\nhigh = 90\n')
GOOD: dict[str, Any] = {"c": ["a", "b", "d", "e"], "age": [1, 2, 3, 4]}


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (np.zeros((4, 2)), "it has 2 dimensions, and a column has one"),
        (np.zeros((4, 1, 1)), "it has 3 dimensions"),
        (np.float64(3), "it has 0 dimensions"),
        (None, "found NoneType"),
        ("1234", "found str"),
        (iter([1, 2, 3, 4]), "found list_iterator"),
        ({1, 2, 3, 4}, "found set"),
        ([10**400, 1, 2, 3], "1 value is infinite"),
        (np.array([10**400, 1, 2, None], dtype=object), "1 value is infinite"),
    ],
)
def test_what_is_no_column_is_told_as_that(column: Any, said: str) -> None:
    with pytest.raises(DataError, match=f"party 'bank', arrays, column 'age': .*{said}"):
        Table.from_arrays("bank", {**GOOD, "age": column}, SCHEMA)


def test_each_party_has_one_table_budgets_are_pairs_and_epsilon_is_no_endless_number() -> None:
    bank, again, shop = (Table.from_arrays(party, GOOD, SCHEMA) for party in ("bank", "bank", "shop"))
    with pytest.raises(DataError, match="two tables are of the party 'bank'"):
        Federation([bank, again, shop], budget=(4.0, 1e-5))
    for budget in (3, (1.0,), "12", {1.0: 1e-5}):
        with pytest.raises(InputError, match="is not a pair"):
            Federation([bank, shop], budget=untyped(budget))
    tables = [Table.from_arrays(party, GOOD, SCHEMA) for party in ("bank", "shop")]
    with pytest.raises(InputError, match=r"epsilon = 10+… is not a finite number above 0"):
        PCA(epsilon=10**400).fit(Federation(tables, budget=(4.0, 1e-5)))


@pytest.mark.parametrize("number", [10**400, -(10**400), 10**9999], ids=["large", "small", "unprintable"])
def test_a_number_that_no_float_holds_is_no_bound(number: int) -> None:
    for declared in (
        lambda: NumericColumn("x", 0, number),
        lambda: NumericColumn("x", 0, 1, missing=number),
        lambda: RealLabel("y", number, 1),
        lambda: Ball(number),
    ):
        with pytest.raises(Misdeclared, match=r"(0…|of thousands of digits) is not a "):
            declared()
