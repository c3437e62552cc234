"""What is odd about a file, a path or a stream is told as that, and never as a mistake in Colonnade."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from cli_project import Project, one_object, train, write_project

from colonnade.cli.app import run
from colonnade.data.documents import LARGEST, Document
from colonnade.errors import FormError, LedgerError
from colonnade.ledger.entry_store import _translated

INPUT = 3
COLONNADE = f"{sys.executable} -c 'from colonnade.cli import main; main()'"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return write_project(tmp_path)


@pytest.mark.parametrize(
    ("text", "announced"),
    [
        (f"epsilon = {'9' * 5000}", "line 2: a whole number has 5000 digits"),
        (f"x = {'[' * 20_000}{']' * 20_000}", "nested too deep"),
        (f"{'.'.join(['a'] * 20_000)} = 1", "line 2: a key has 40000 letters"),
        (f"[{'.'.join(['a'] * 20_000)}]", "line 2: a key has"),
        (f'x = "{"y" * LARGEST}"', f"{LARGEST} are the most"),
    ],
    ids=["digits", "nested", "dotted", "header", "large"],
)
def test_toml_beyond_what_can_be_read_is_told_by_its_limit(tmp_path: Path, text: str, announced: str) -> None:
    (tmp_path / "job.toml").write_text(f'name = "risk"\n{text}\n')
    with pytest.raises(FormError, match=announced):
        Document.load(tmp_path / "job.toml")


def test_long_texts_are_no_long_keys() -> None:
    sql = ", ".join(f"t.column_{number}" for number in range(500))
    text = f'sql = """\nselect {sql}\nfrom t where a = 1"""'
    assert sql in Document.parse(text, "bank.toml").data["sql"]


def test_facts_nested_thousands_deep_are_refused(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.path("out").mkdir()
    project.path("out/facts.json").write_text("[" * 100_000)
    assert run(["show", "out"]) == INPUT
    assert "out/facts.json is not JSON" in capsys.readouterr().err


@pytest.mark.parametrize("name", [".", "", "/"])
def test_what_is_no_name_for_a_folder_is_refused(
    project: Project, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert train(project, "--output", name) == INPUT
    assert "is no name for a new folder. Nothing was run or charged" in capsys.readouterr().err
    assert project.charges("bank") == 0


@pytest.mark.parametrize("key", ["data", "schema", "ledger"])
def test_nul_in_a_path_is_told_as_that(
    project: Project, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    project.edit("bank.toml", f'{key} = "bank', f'{key} = "ba\\u0000nk')
    assert train(project) == INPUT
    err = capsys.readouterr().err
    assert "NUL" in err or r"ba\x00nk.csv does not exist" in err


def test_a_closed_standard_output_changes_nothing_but_what_is_read(project: Project) -> None:
    for words in ("train job.toml --output out", "show out"):
        ended = subprocess.run(
            ["/bin/sh", "-c", f"{COLONNADE} {words} >&-"], stderr=subprocess.PIPE, text=True, check=False
        )
        assert (ended.returncode, ended.stderr) == (0, "")
    assert one_object(project.path("out/facts.json").read_text())["rows"] == 400


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_a_full_standard_output_is_named(project: Project) -> None:
    ended = subprocess.run(
        ["/bin/sh", "-c", f"{COLONNADE} schema --check bank.schema.toml >/dev/full"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert ended.returncode == INPUT and "standard output cannot be written to" in ended.stderr


def test_a_line_too_long_is_told_as_that(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.row("bank.csv", 3, f"C2,30,{'x' * 3_000_000},low")
    assert train(project) == INPUT
    err = capsys.readouterr().err
    assert "line 4: the line is longer than 2000000 bytes" in err and "quotation" not in err
    project.row("bank.csv", 0, f"customer,age,job,{'x' * 3_000_000}")
    assert train(project) == INPUT
    assert "its header is longer than 2000000 letters" in capsys.readouterr().err


def test_a_mark_for_what_is_missing_is_no_category(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.row("bank.csv", 3, "C2,NA,clerk,low")
    assert train(project) == INPUT
    err = capsys.readouterr().err
    assert "such as NA" in err and "Leave such cells empty" in err and "categorical" not in err


def test_a_link_to_itself_and_a_name_too_long_are_told_as_that(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.path("bank.csv").unlink()
    project.path("bank.csv").symlink_to("bank.csv")
    assert train(project) == INPUT
    err = capsys.readouterr().err
    assert "bank.toml, line 2, data" in err and "leads back to itself" in err and "Did you mean" not in err
    project.edit("bank.toml", 'data = "bank.csv"', f'data = "{"d" * 3000}.csv"')
    assert train(project) == INPUT
    err = capsys.readouterr().err
    assert "bank.toml, line 2, data" in err and "longer than a path can be" in err and len(err) < 600


def test_a_nested_column_is_there_and_cannot_be_used(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    duckdb.sql(
        "COPY (SELECT customer, [age] AS age, job, risk FROM read_csv('bank.csv')) TO 'bank.parquet' (FORMAT parquet)"
    )
    project.edit("bank.toml", "bank.csv", "bank.parquet")
    assert train(project) == INPUT
    err = capsys.readouterr().err
    assert "column 'age' holds lists or records" in err and "not in the file" not in err


def test_advice_fits_the_mistake(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.edit("job.toml", "delta = 1e-5", "delta = 1e-5\n[options]\nfoo = 1")
    assert train(project) == INPUT
    assert "unknown key 'foo'; known are threshold, class_weight, conditional." in capsys.readouterr().err
    project.edit("job.toml", "[options]\nfoo = 1", "")
    project.edit("job.toml", "epsilon = 1.0", "epsilon = 1e-9")
    assert train(project) == 4
    assert "raise epsilon" in capsys.readouterr().err


def test_a_ledger_that_cannot_be_opened_leaves_a_plan_as_it_is(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    # A directory in its place is refused as a ledger without write permission is, whoever runs this.
    project.path("bank.ledger").mkdir()
    assert run(["plan", "job.toml", "--rows", "400", "--methods", "none", "--no-simulation"]) == 0
    out = capsys.readouterr().out
    assert "a ledger is a file" in out and "Nothing was run or charged" in out


def test_a_full_disk_under_a_ledger_is_named_whatever_sqlite_calls_it(project: Project) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
    with (
        pytest.raises(LedgerError, match=r"bank.ledger: .*full or fails: make room"),
        _translated("bank.ledger"),
    ):
        raise error
