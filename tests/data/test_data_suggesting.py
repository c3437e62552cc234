"""Drafts: codes that look like categories, and what rows that are public suggest; nothing of any others."""

import json
from pathlib import Path

import pytest

from colonnade.cli.app import run
from colonnade.data.coding import code
from colonnade.data.kinds import NumericColumn
from colonnade.data.schema import Schema

ROWS = 300


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "bank.csv"
    lines = ["customer_id,code,age,since,stay,town,note"]
    for row in range(ROWS):
        stay = f"{row % 9} days 0{row % 7}:30:00"
        since = f"20{10 + row % 9}-03-0{1 + row % 9}"
        lines.append(f"C{row},{1 + row % 5}.0,{18 + row % 61},{since},{stay},{'ab'[row % 2]},text {row}")
    path.write_text("\n".join(lines) + "\n")
    return path


def drafted(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(["schema", *words, "--json"]) == 0
    return str(json.loads(capsys.readouterr().out)["schema"])


def test_few_whole_numbers_are_drafted_as_categories_and_no_value_is_told(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = drafted(capsys, str(table))
    assert '[columns.code]\nkind = "categorical"  # whole numbers' in text
    assert '[columns.age]\nkind = "numeric"\nlow = ""' in text
    body = text.split("\n\n", 1)[1]
    assert "categories = []" in body and "78" not in body and '"a"' not in body


@pytest.mark.parametrize("said", ["--public", "own file"])
def test_of_public_rows_bounds_and_categories_are_suggested_and_make_a_schema(
    table: Path, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(table), "--public"]
    if said == "own file":
        own = table.with_name("bank.toml")
        own.write_text('party = "bank"\ndata = "bank.csv"\npublic = true\n')
        given = [str(own)]
    text = drafted(capsys, *given)
    assert 'categories = ["1", "2", "3", "4", "5"]' in text and 'categories = ["a", "b"]' in text
    assert "low = 18\nhigh = 78" in text and "low = 2010-03-01\nhigh = 2018-03-09" in text
    assert "low = 0\nhigh = 720000" in text, "a duration is its seconds"
    assert '[columns.note]\nkind = "categorical"\ncategories = []' in text, "text is no category"
    whole = text.split("[columns.note]")[0]
    assert {column.name for column in Schema.parse(whole).columns} == {"code", "age", "since", "stay", "town"}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1 days", 86400.0),
        ("0 days 00:00:01.5", 1.5),
        ("1 day 02:03:04", 93784.0),
        ("-1 days +23:59:59", -1.0),
    ],
)
def test_a_duration_as_data_frames_write_it_is_its_seconds(text: str, seconds: float) -> None:
    assert code([text], NumericColumn("stay", -1e6, 1e6)).values.tolist() == [seconds]
    assert code([f"{text}:00"], NumericColumn("stay", -1e6, 1e6)).problems.text == 1
