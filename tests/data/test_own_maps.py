"""A party's own function: one person at a time, its norm held, and no value in any message."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from typed import untyped

from colonnade.data.encoder import Quantizer
from colonnade.data.own_maps import OwnMap
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.errors import DataError, SchemaError

SCHEMA = Schema.parse(
    """
id = "patient"
columns.weight = {kind = "numeric", low = 30, high = 200}
columns.height = {kind = "numeric", low = 1.2, high = 2.2}
columns.sex = {kind = "binary", values = ["F", "M"]}

[label]
column = "ill"
kind = "classes"
classes = ["no", "yes"]
"""
)
RAW: dict[str, Any] = {
    "weight": [81.0, 500.0, 64.0],
    "height": [1.8, 1.5, 1.6],
    "sex": ["M", "F", "F"],
    "ill": ["no", "yes", "no"],
}


def bmi(person: Mapping[str, Any]) -> list[float]:
    return [person["weight"] / person["height"] ** 2, 30.0 if person["sex"] == "F" else 0.0]


def test_a_table_comes_out_as_its_peers_will_know_it() -> None:
    own = OwnMap("bmi", bmi, features=2, bound=40.0, reads=("weight", "height", "sex"))
    table = own.on(Table.from_arrays("clinic", RAW, SCHEMA))
    assert [column.name for column in table.schema.columns] == ["bmi0", "bmi1"]
    (block,) = table.blocks()
    # The second weighs 200 at most, which makes a vector longer than 40.
    long = np.array([200 / 1.5**2, 30.0])
    expected = [[25.0, 0.0], *(40 * long / np.linalg.norm(long))[None], [64 / 1.6**2, 30.0]]
    np.testing.assert_allclose(np.column_stack([block.columns["bmi0"], block.columns["bmi1"]]), expected)
    assert table.clipping.counts == {"bmi": 1, "weight": 1}
    assert block.label is not None and block.label.tolist() == [0, 1, 0]
    assert list(table.ids()) == ["0", "1", "2"]


def test_columns_that_are_not_read_stay_as_they_are() -> None:
    own = OwnMap(
        "bmi", lambda person: [person["weight"]], features=1, bound=200.0, reads=("weight",), sha256=64 * "a"
    )
    schema = own.schema(SCHEMA)
    assert [column.name for column in schema.columns] == ["height", "sex", "bmi0"]
    assert schema.encoder("linear").feature_names == ("height", "sex", "bmi0")
    assert Schema.from_data(schema.to_data()) == schema
    assert schema.to_data()["map"] == {
        "kind": "ball",
        "bound": 200.0,
        "name": "bmi",
        "sha256": 64 * "a",
        "columns": ["bmi0"],
    }


def test_the_function_never_sees_two_people_at_once() -> None:
    seen: list[Any] = []

    def watched(person: Mapping[str, Any]) -> list[float]:
        seen.append(dict(person))
        return [0.0]

    own = OwnMap("watched", watched, features=1, bound=1.0)
    list(own.on(Table.from_arrays("clinic", RAW, SCHEMA)).blocks(size=2))
    assert [person["sex"] for person in seen] == ["M", "F", "F"]
    assert all(isinstance(person["weight"], float) for person in seen)


@settings(max_examples=50)
@given(hnp.arrays(np.float64, (3, 2), elements=st.floats(-1e149, 1e149)), st.floats(1e-3, 1e3))
def test_whatever_the_function_gives_is_no_longer_than_declared(vectors: np.ndarray, bound: float) -> None:
    given = iter(vectors)
    own = OwnMap("any", lambda person: next(given), features=2, bound=bound, sha256=64 * "0")
    (block,) = own.on(Table.from_arrays("clinic", RAW, SCHEMA)).blocks()
    encoder = own.schema(SCHEMA).encoder("circle")
    norms = np.linalg.norm(encoder.encode(block), axis=1)
    assert norms.max() <= math.sqrt(encoder.attributes) * (1 + 1e-12)
    quantizer = Quantizer(encoder, attributes_total=2, gamma=4096)
    for row in quantizer.quantize(block):
        assert sum(int(value) ** 2 for value in row) <= quantizer.norm_squared_bound


def test_the_digest_is_that_of_the_source_or_must_be_given() -> None:
    first, again = (OwnMap("bmi", bmi, features=2, bound=40.0).sha256 for _ in range(2))
    assert first == again and len(first) == 64
    assert (
        OwnMap(
            "other", untyped(test_the_digest_is_that_of_the_source_or_must_be_given), features=2, bound=40.0
        ).sha256
        != first
    )
    with pytest.raises(SchemaError, match=r"not at hand to be hashed\. Give sha256"):
        OwnMap("sum", sum, features=1, bound=1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda person: [1 / 0, person["weight"]], "stopped with ZeroDivisionError on one person"),
        (lambda person: [person["weigth"], 0], "stopped with KeyError"),
        (lambda person: [1.0], r"shape \(1,\); 2 numbers are declared"),
        (lambda person: [math.nan, 1.0], "not finite"),
        (lambda person: [1e200, 1.0], "not finite"),
        (lambda person: ["81", "x"], "stopped with ValueError"),
    ],
)
def test_what_goes_wrong_in_a_function_is_told_without_a_value(function: Any, message: str) -> None:
    own = OwnMap("mine", function, features=2, bound=1.0, sha256=64 * "0")
    with pytest.raises(DataError, match=message) as caught:
        list(own.on(Table.from_arrays("clinic", RAW, SCHEMA)).blocks())
    assert "party 'clinic'" in str(caught.value)
    assert not any(value in str(caught.value) for value in ("81", "1.8", "'M'"))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_declarations_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(SchemaError, match="bound = 0"):
        OwnMap("bmi", bmi, features=2, bound=0)
    with pytest.raises(SchemaError, match="features = 0"):
        OwnMap("bmi", bmi, features=0, bound=1.0)
    with pytest.raises(SchemaError, match="needs a name"):
        OwnMap(" ", bmi, features=1, bound=1.0)
    with pytest.raises(SchemaError, match=r"'wieght' is not declared\. Did you mean 'weight'"):
        OwnMap("bmi", bmi, features=2, bound=40.0, reads=("wieght",)).schema(SCHEMA)
    mapped = OwnMap("bmi", bmi, features=2, bound=40.0).schema(SCHEMA)
    with pytest.raises(SchemaError, match="go through 'ball' already"):
        OwnMap("bmi", bmi, features=2, bound=40.0).schema(mapped)


def test_raw_rows_get_what_the_function_makes_of_them_for_prediction() -> None:
    own = OwnMap("bmi", bmi, features=2, bound=100.0)
    rows = own.rows({"weight": [81.0], "height": [1.8], "sex": ["M"]}, SCHEMA)
    encoder = own.schema(SCHEMA).encoder("circle")
    np.testing.assert_allclose(encoder.encode(rows), [[0.25 * math.sqrt(2), 0.0]])
