"""Edges of bins: by list, by number, by quantiles of a public set, and what is refused."""

from pathlib import Path

import pytest

from colonnade.data.kinds import Column
from colonnade.data.levels import BinnedColumn
from colonnade.data.schema import Schema
from colonnade.errors import DataMissing, Misdeclared, SchemaError


def declared(text: str) -> Column:
    return Schema.parse(f'id = "n"\n[columns.age]\nkind = "bins"\n{text}').columns[0]


def test_a_number_of_bins_makes_edges_of_one_width_on_the_declared_scale() -> None:
    assert declared("bins = 4\nlow = 20\nhigh = 100") == BinnedColumn("age", (40, 60, 80), low=20, high=100)
    found = declared('bins = 3\nlow = 0\nhigh = 999\ntransform = "log1p"\nordered = true')
    assert isinstance(found, BinnedColumn) and found.ordered
    assert found.edges == pytest.approx((9, 99))


def test_quantiles_of_a_public_file_become_edges_that_the_schema_holds(tmp_path: Path) -> None:
    (tmp_path / "census.csv").write_text("YEARS\n" + "\n".join(str(age) for age in range(100)))
    path = tmp_path / "bank.toml"
    path.write_text(
        'id = "n"\n[columns.age]\nkind = "bins"\nbins = 4\nordered = true\n'
        'quantiles = {file = "census.csv", column = "YEARS"}\n'
    )
    schema = Schema.load(path)
    assert schema.columns == (BinnedColumn("age", (24, 49, 74), ordered=True),)
    (tmp_path / "census.csv").unlink()
    assert Schema.from_data(schema.to_data()) == schema
    with pytest.raises(DataMissing, match=r"public set.*census\.csv does not exist"):
        Schema.load(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "declares neither of edges, a list, and bins"),
        ("edges = [1]\nbins = 4", "declares both of edges"),
        ("bins = 1\nlow = 0\nhigh = 9", "not a whole number from 2 to 256"),
        ("bins = 1000\nlow = 0\nhigh = 9", "not a whole number from 2 to 256"),
        ("bins = 4\nlow = 0", "high is not declared"),
        ("bins = 4\nlow = 3\nhigh = 3", "low and high are both 3"),
        ('bins = 4\nlow = -1\nhigh = 3\ntransform = "log1p"', "log1p needs low above -1"),
        ("edges = [1, 2]\nlow = 5", "low = 5 is not below its first edge"),
        ("edges = [1, 2]\nhigh = 1", "high = 1 is not at or above its last edge"),
        ("bins = 40\nlow = 0\nhigh = 9\nwhole = true", "no whole number lies from"),
        ('bins = 4\nquantiles = "census.csv"', "List them as edges here"),
    ],
)
def test_what_makes_no_bins_is_told_with_its_line(text: str, says: str) -> None:
    with pytest.raises(SchemaError, match=says) as announced:
        declared(text)
    assert "columns.age" in str(announced.value)


@pytest.mark.parametrize(
    ("quantiles", "says"),
    [
        ('"census.csv"', "has no column 'age'"),
        ("7", "quantiles names a public file"),
        ('{file = "census.csv", column = "WORDS"}', "WORDS"),
        ('{file = "census.csv", column = "SAME"}', "one number only"),
    ],
)
def test_a_public_set_that_makes_no_edges_is_refused(tmp_path: Path, quantiles: str, says: str) -> None:
    (tmp_path / "census.csv").write_text("YEARS,WORDS,SAME\n1,one,5\n2,two,5\n")
    path = tmp_path / "bank.toml"
    path.write_text(f'id = "n"\n[columns.age]\nkind = "bins"\nbins = 4\nquantiles = {quantiles}\n')
    with pytest.raises(Misdeclared, match=says):
        Schema.load(path)


def test_bins_as_they_were_declared_before_have_the_same_description() -> None:
    plain = BinnedColumn("age", (18, 65), missing="category")
    assert plain.to_data() == {"name": "age", "kind": "bins", "edges": [18.0, 65.0], "missing": "category"}
