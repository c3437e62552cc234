"""Ids of several columns: the same people by the same rules, wherever rows come from."""

import sqlite3
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow.csv import write_csv
from test_data_one_mistake import opened, sources

from colonnade.data.schema import Schema
from colonnade.data.sources import PostgreSQLSource, SQLiteSource
from colonnade.data.table import Table
from colonnade.errors import BadIds, ColumnMissing, DataError, PlanError, SchemaError
from colonnade.federation.federation import Federation

COLUMNS = "[columns.{0}]\nkind = 'numeric'\nlow = 0\nhigh = 100\n"
IDS = 'id = ["name", "birth"]\n'
ROWS = [("Ann", "1980-02-01", 3), (" Bob|x", "1975-12-31", 4), ("Bob", "1975-12-31", 5)]
SPELT = ["Ann|1980-02-01", "Bob\\|x|1975-12-31", "Bob|1975-12-31"]


def schema(column: str, ids: str = IDS) -> Schema:
    return Schema.parse(ids + COLUMNS.format(column))


def test_every_source_spells_an_id_of_several_columns_alike(tmp_path: Path) -> None:
    names, births, x = zip(*ROWS, strict=True)
    days = np.array(births, dtype="datetime64[D]")
    table = pa.table({"name": names, "birth": days, "x": x})
    made = dict(sources(table, tmp_path))
    write_csv(table, made.setdefault("csv", tmp_path / "a.csv"))
    with sqlite3.connect(tmp_path / "a.sqlite") as database:
        database.execute("CREATE TABLE people (name, birth, x)")
        database.executemany("INSERT INTO people VALUES (?, ?, ?)", ROWS)
    made |= {
        "sqlite": SQLiteSource("select * from people", tmp_path / "a.sqlite"),
        "texts": {"name": names, "birth": births, "x": x},
        "moments": {"name": names, "birth": days.astype("datetime64[ns]"), "x": x},
    }
    for kind, source in made.items():
        assert sorted(opened(source, schema("x")).ids()) == sorted(SPELT), kind
    late = Table.of("bank", {"name": ["Ann"], "birth": [datetime(1980, 2, 1, 6)], "x": [1]}, schema("x"))
    assert list(late.ids()) == ["Ann|1980-02-01 06:00:00"]
    with pytest.raises(
        BadIds, match=r"'birth': ids are double .* floats of whole numbers where some are missing"
    ):
        Table.of("bank", {"name": names, "birth": np.array([1980, 1975, np.nan]), "x": x}, schema("x"))


def test_a_database_server_spells_an_id_of_several_columns_alike(postgresql: str) -> None:
    listed = ", ".join(f"('{name}', DATE '{birth}', {x})" for name, birth, x in ROWS)
    query = f"select name, birth, x from (values {listed}) as people(name, birth, x)"
    table = Table("bank", PostgreSQLSource(query, postgresql, "TEST_DB_PASSWORD"), schema("x")).check()
    assert sorted(table.ids()) == sorted(SPELT)
    assert {
        row: x for block in table.blocks() for row, x in zip(table.ids(), block.columns["x"], strict=True)
    } == {spelt: x for spelt, (_, _, x) in zip(SPELT, ROWS, strict=True)}


def test_people_are_found_by_several_columns_and_other_numbers_of_columns_are_told() -> None:
    rules = 'id = {{column = ["{0}", "{1}"], case = "fold"}}\n'
    bank = Table.from_arrays(
        "bank",
        {"name": ["Ann", "Bob", "Eve"], "birth": ["1980", "1975", "1960"], "x": [1, 2, 3]},
        schema("x", rules.format("name", "birth")),
    )
    shop = Table.from_arrays(
        "shop",
        {"who": ["EVE", "ann", "bob"], "born": ["1960", "1980", "1976"], "y": [7, 8, 9]},
        schema("y", rules.format("who", "born")),
    )
    found = Federation([bank, shop], budget=(1.0, 1e-5)).align().results
    pairs = {
        (x, y)
        for mine, theirs in zip(found["bank"].blocks(), found["shop"].blocks(), strict=True)
        for x, y in zip(mine.columns["x"], theirs.columns["y"], strict=True)
    }
    assert pairs == {(1.0, 8.0), (3.0, 7.0)}
    bank = Table.from_arrays("bank", {"name": ["a"], "birth": ["b"], "x": [1]}, schema("x"))
    shop = Table.from_arrays("shop", {"name": ["a|b"], "y": [1]}, schema("y", 'id = "name"\n'))
    with pytest.raises(PlanError, match="different rules for ids"):
        Federation([bank, shop], budget=(1.0, 1e-5)).align()


def test_what_is_missing_or_repeated_after_spelling_is_counted() -> None:
    given = {"name": ["a", "a", "b"], "birth": ["1", "2", "2"], "x": [1, 2, 3]}
    assert Table.from_arrays("bank", given, schema("x")).rows == 3
    for births, why in (
        (["1", "2", ""], "id columns 'name' and 'birth': 1 id is missing"),
        (["1", " 1", "3"], "'name' and 'birth': 1 id is repeated. .* add a column that tells"),
    ):
        with pytest.raises(BadIds, match=why):
            Table.from_arrays("bank", {**given, "birth": births}, schema("x"))


def test_a_part_that_is_not_there_is_named_and_a_schema_survives_being_written(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,x\nAnn,1\n")
    with pytest.raises(ColumnMissing, match="'birth'"):
        Table("bank", tmp_path / "a.csv", schema("x"))
    with pytest.raises(DataError, match="'birth' is declared but missing"):
        Table.from_arrays("bank", {"name": ["a"], "x": [1]}, schema("x"))
    declared = schema("x", 'id = {column = ["name", "birth"], case = "fold"}\n')
    assert Schema.from_data(declared.to_data()) == declared
    assert declared.id_columns == ("name", "birth") and declared.id_name == "name, birth"


@pytest.mark.parametrize(
    ("ids", "why"),
    [
        ('id = ["name", "name"]\n', "named twice"),
        ("id = []\n", "id"),
        ('id = ["x", "name"]\n', "is the id column and a feature"),
        ("id = [3]\n", "id"),
    ],
)
def test_ids_that_are_declared_wrongly_are_refused(ids: str, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        schema("x", ids)
