"""What is odd about a file, a path or a stream is told as that, and never as a mistake in Colonnade."""

import sqlite3
from pathlib import Path

import pytest
from cli_project import Cli, Project, write_project

from colonnade.data.documents import Document
from colonnade.errors import LedgerError
from colonnade.ledger.entry_store import _translated

INPUT = 3


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return write_project(tmp_path)


def test_long_texts_are_no_long_keys() -> None:
    sql = ", ".join(f"t.column_{number}" for number in range(500))
    text = f'sql = """\nselect {sql}\nfrom t where a = 1"""'
    assert sql in Document.parse(text, "bank.toml").data["sql"]


@pytest.mark.parametrize("name", [".", "", "/"])
def test_what_is_no_name_for_a_folder_is_refused(project: Project, cli: Cli, name: str) -> None:
    assert "is no name for a new folder. Nothing was run or charged" in cli(
        "train", "job.toml", "--output", name, code=INPUT
    )
    assert project.charges("bank") == 0


def test_advice_fits_the_mistake(project: Project, cli: Cli) -> None:
    project.edit("job.toml", "delta = 1e-5", "delta = 1e-5\n[options]\nfoo = 1")
    assert "unknown key 'foo'; known are threshold, class_weight, conditional." in cli(
        "train job.toml", code=INPUT
    )
    project.edit("job.toml", "[options]\nfoo = 1", "")
    project.edit("job.toml", "epsilon = 1.0", "epsilon = 1e-9")
    assert "raise epsilon" in cli("train job.toml", code=4)


def test_a_full_disk_under_a_ledger_is_named_whatever_sqlite_calls_it(project: Project) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
    with (
        pytest.raises(LedgerError, match=r"bank.ledger: .*full or fails: make room"),
        _translated("bank.ledger"),
    ):
        raise error
