"""`colonnade schema` and `new`: a draft holds no value, and nothing passes until a person has filled it in."""

import sqlite3
import tomllib
from pathlib import Path

import duckdb
import pytest
from cli_project import Cli, Project

from colonnade.cli.app import run
from colonnade.data.schema import Schema
from colonnade.data.sources import FileSource
from colonnade.errors import SchemaError
from colonnade.federation.job import Job
from colonnade.federation.party_file import PartyFile

INPUT = 3
ROWS = [
    ("customer id", "age", "born", "sex", "income, yearly", "empty"),
    ("A-77012", "41", "1980-02-29", "sekret-F", "12345.5", ""),
    ("A-77013", "", "1991-12-31", "sekret-M", "99999", ""),
]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [",".join(f'"{value}"' for value in row) for row in ROWS]
    Path("bank.csv").write_text("\n".join(lines), encoding="utf-8")


FILLED = {
    '[columns.age]\nkind = "numeric"\nlow = ""\nhigh = ""': (
        '[columns.age]\nkind = "numeric"\nlow = 18\nhigh = 99\nmissing = {value = 40}'
    ),
    '[columns.born]\nkind = "date"\nlow = ""  # a date, such as 2000-01-31\nhigh = ""': (
        '[columns.born]\nkind = "date"\nlow = 1920-01-01\nhigh = 2010-01-01'
    ),
    '[columns.sex]\nkind = "categorical"\ncategories = []': (
        '[columns.sex]\nkind = "categorical"\ncategories = ["sekret-F", "sekret-M"]'
    ),
    '[columns."income, yearly"]\nkind = "numeric"\nlow = ""\nhigh = ""': (
        '[columns."income, yearly"]\nkind = "numeric"\nlow = 0\nhigh = 1e6\ntransform = "log1p"'
    ),
    '[columns.empty]\nkind = "categorical"\ncategories = []\n': "",
}


def test_a_draft_has_names_and_kinds_and_no_value_and_passes_once_it_is_filled_in(cli: Cli) -> None:
    text = cli("schema", "bank.csv")
    for row in ROWS[1:]:
        for value in filter(None, row):
            assert value not in text
    assert 'id = "customer id"' in text
    with pytest.raises(SchemaError, match=r"columns.age.low: low is left blank"):
        Schema.parse(text)

    assert "5 columns" in cli("schema", "bank.csv", "--output", "bank.toml")
    assert Path("bank.toml").read_text(encoding="utf-8").rstrip() == text.rstrip()
    said = cli("schema", "--check", "bank.toml", code=INPUT)
    assert said.count("left blank.") == 8 and "columns.income, yearly.low" in said and "leak" in said

    for blank, filled in FILLED.items():
        assert blank in text
        text = text.replace(blank, filled)
    Path("bank.toml").write_text(text, encoding="utf-8")
    assert "complete" in cli("schema", "--check", "bank.toml")
    assert "agrees with the columns" in cli("schema", "--check", "bank.toml", "--data", "bank.csv")


def test_a_check_names_columns_that_the_data_lacks_and_kinds_that_it_does_not_have(cli: Cli) -> None:
    Path("a.toml").write_text('id = "customer id"\ncolumns.agee = {kind = "numeric", low = 0, high = 9}')
    assert "complete" in cli("schema", "--check", "a.toml")
    said = cli("schema", "--check", "a.toml", "--data", "bank.csv", code=INPUT)
    assert "column 'agee' is declared but not in the file bank.csv. Did you mean 'age'?" in said
    with duckdb.connect("a.duckdb") as database:
        database.execute('CREATE TABLE t AS SELECT 1 AS "customer id", true AS agee')
    query = ("--data", "a.duckdb", "--sql", "select * from t")
    assert "holds BOOLEAN values" in cli("schema", "--check", "a.toml", *query, code=INPUT)
    Path("a.toml").write_text('id = "customer id"\ncolumns.age = {kind = "numeric", low = 9, high = 0}')
    assert "not below" in cli("schema", "--check", "a.toml", code=INPUT)


def test_kinds_come_from_the_types_of_a_database_and_from_text_where_there_are_none(cli: Cli) -> None:
    create = "CREATE TABLE t (user_id BIGINT, x DECIMAL(9, 2), seen TIMESTAMP, ok BOOLEAN, code VARCHAR)"
    with duckdb.connect("b.duckdb") as database:
        database.execute(create)
    drafted = cli.facts("schema", "b.duckdb", "--sql", "select * from t")
    kinds = {"x": "numeric", "seen": "date", "ok": "binary", "code": "categorical"}
    assert (drafted["id"], drafted["kinds"]) == ("user_id", kinds)
    assert "values = [false, true]" in drafted["schema"]

    # The text of numbers is a number's only where a source knows nothing better.
    with duckdb.connect("b.duckdb") as database:
        database.execute("INSERT INTO t VALUES (1, 2.5, '2020-01-01', true, '7')")
    assert cli.facts("schema", "b.duckdb", "--sql", "select * from t")["kinds"] == kinds
    lite = sqlite3.connect("b.db")
    with lite:
        lite.execute(create)
        lite.execute("INSERT INTO t VALUES (1, 2.5, '2020-01-01 10:00', 1, '7')")
    lite.close()
    drafted = cli.facts("schema", "sqlite:b.db", "--sql", "select * from t")
    assert drafted["kinds"] == {"x": "numeric", "seen": "date", "ok": "numeric", "code": "numeric"}

    Path("bank.toml").write_text('data = {sql = "select code, x from t", database = "b.duckdb"}')
    drafted = cli.facts("schema", "bank.toml")
    assert drafted["id"] is None and list(drafted["kinds"]) == ["code", "x"]
    assert 'id = ""' in drafted["schema"]


def test_new_files_are_complete_once_the_blanks_are_filled_in(project: Project, cli: Cli) -> None:
    made = ["new", "houses/risk", "--party", "bank=bank.csv", "--party", "insurer=insurer.csv"]
    assert "colonnade train houses/risk/job.toml" in cli(*made, "--label", "bank:risk")
    assert "label.classes: left blank" in cli("schema --check houses/risk/bank.schema.toml", code=INPUT)
    drafted = Path("houses/risk/bank.schema.toml").read_text()
    assert "[columns.risk]" not in drafted and 'column = "risk"' in drafted
    for party in ("bank", "insurer"):
        filled = Path(f"{party}.schema.toml").read_text()
        Path(f"houses/risk/{party}.schema.toml").write_text(filled)
    assert run(["train", "houses/risk/job.toml", "--output", "run"]) == 0
    assert "exists already" in cli(*made, "--label", "bank:risk", code=INPUT)


def test_ids_and_odd_names_of_columns_are_written_so_that_they_can_be_read(project: Project) -> None:
    odd = 'zahlt "gern", [ja]?'
    project.path("a.csv").write_text(f'Kunden-Nr,"{odd.replace(chr(34), chr(34) * 2)}",Alter\nK1,ja,3\n')
    parties = ["--party", "bank=a.csv", "--party", "insurer=insurer.csv"]
    made = [*parties, "--label", f"bank:{odd}", "--id", "bank:Kunden-Nr", "--id", "customer"]
    assert run(["new", 'the "risk"', *made]) == 0
    bank = tomllib.loads(Path('the "risk"/bank.schema.toml').read_text())
    assert bank["id"] == "Kunden-Nr" and bank["label"]["column"] == odd and list(bank["columns"]) == ["Alter"]
    other = tomllib.loads(Path('the "risk"/insurer.schema.toml').read_text())
    assert other["id"] == "customer" and "customer" not in other["columns"] and "label" not in other
    assert Job.load('the "risk"/job.toml').name == 'the "risk"'
    assert PartyFile.load('the "risk"/bank.toml').data == FileSource(Path('the "risk"/../a.csv'))
