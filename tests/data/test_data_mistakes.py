"""What a person gives wrongly in Python ends in an error of ours, as it does on the command line."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from typed import untyped

from colonnade import PCA, Federation, Ledger, Schema, Table
from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import RealLabel
from colonnade.data.maps import Ball
from colonnade.errors import ColonnadeError, DataError, InputError, Misdeclared, SchemaError

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


@pytest.mark.parametrize("schema", [None, {"id": "c"}, 'id = "c"', 7])
def test_what_is_no_schema_is_told_as_that(schema: Any) -> None:
    with pytest.raises(SchemaError, match=f"declared by a Schema, not by {type(schema).__name__}"):
        Table.from_arrays("bank", GOOD, schema)
    with pytest.raises(SchemaError, match="declared by a Schema"):
        Table("bank", "bank.csv", schema)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Table.from_arrays("bank", None, SCHEMA),
        lambda: Table.from_arrays("bank", [GOOD], SCHEMA),
        lambda: Table.from_arrays("bank", {1: [1]}, SCHEMA),
        lambda: Table.from_arrays(untyped(None), GOOD, SCHEMA),
        lambda: Table.from_arrays("bank", {**GOOD, "c": np.array([["a", "b"]] * 4)}, SCHEMA),
        lambda: Federation(untyped(None)),
        lambda: Federation(untyped([GOOD, GOOD])),
        lambda: Schema.parse(untyped(None)),
        lambda: Schema.parse(untyped(b'id = "c"')),
        lambda: Ledger.in_memory("bank").set_budget("a", "record", "server", epsilon=10**400, delta=1e-5),
    ],
)
def test_a_thing_of_the_wrong_type_is_an_error_of_ours(wrong: Callable[[], Any]) -> None:
    with pytest.raises(ColonnadeError):
        wrong()


def test_each_party_of_a_federation_has_one_table_and_budgets_are_pairs() -> None:
    bank, again, shop = (Table.from_arrays(party, GOOD, SCHEMA) for party in ("bank", "bank", "shop"))
    with pytest.raises(DataError, match="two tables are of the party 'bank'"):
        Federation([bank, again, shop], budget=(4.0, 1e-5))
    for budget in (3, (1.0,), "12", {1.0: 1e-5}):
        with pytest.raises(InputError, match="is not a pair"):
            Federation([bank, shop], budget=untyped(budget))


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


@pytest.mark.parametrize(
    ("rows", "said"),
    [({"age": 3}, "found int"), ({"age": np.zeros((1, 2))}, "2 dimensions"), ({"age": "3"}, "found str")],
)
def test_what_is_no_column_is_not_predicted_from(rows: Any, said: str) -> None:
    with pytest.raises(DataError, match=f"column 'age': .*{said}"):
        SCHEMA.public("bank").encoder("linear").encode(rows)


def test_a_number_of_four_hundred_digits_is_no_epsilon() -> None:
    tables = [Table.from_arrays(party, GOOD, SCHEMA) for party in ("bank", "shop")]
    with pytest.raises(InputError, match=r"epsilon = 10+… is not a finite number above 0"):
        PCA(epsilon=10**400).fit(Federation(tables, budget=(4.0, 1e-5)))
