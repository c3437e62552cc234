"""Ctrl-C at a person's keyboard: the run ends, nothing half-made stays, and no ledger forgets."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cli_project import Cli, Project, one_object, write_project

from colonnade.errors import InputError
from colonnade.models import uncertainty
from colonnade.runs.folders import new_folder, terminated_as_interrupted, uninterrupted

INTERRUPTED = 130
PATIENCE = 120.0


def test_ctrl_c_in_the_middle_of_a_run_leaves_ledgers_and_a_record_only(
    project: Project, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = project.files()

    async def pressed(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(60)

    # Rows are dealt once every ledger is charged.
    monkeypatch.setattr("colonnade.protocols.verified_rows.share_rows", pressed)
    assert cli.facts("train job.toml --output runs/long", code=INTERRUPTED)["error"]["kind"] == "Interrupted"
    assert project.files() - before == {"runs", "runs/long", "runs/long/failed.json"}, "and no hidden draft"
    record = one_object(project.path("runs/long/failed.json").read_text())
    assert record["stopped"]["kind"] == "Interrupted" and set(record["charged"]) == {"bank", "insurer"}
    assert project.charges("bank") == project.charges("insurer") == 1, "what may have been seen stays charged"


def test_ctrl_c_while_waiting_for_a_locked_ledger_is_heard_at_once(trained: Project) -> None:
    """In a process of its own, so that the signal comes from outside while SQLite waits."""
    for party in ("bank", "insurer"):
        trained.edit(f"{party}.toml", "patience = 0.2", "patience = 600.0")
    before = trained.files()
    holder = sqlite3.connect(trained.path("bank.ledger"), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    command = [sys.executable, "-c", "from colonnade.cli import main; main()", "train", "job.toml"]
    process = subprocess.Popen(command, cwd=trained.folder, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + PATIENCE
        # The draft of the folder is made just before the ledgers are opened.
        while not any(trained.path("runs").glob(".job.*")):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
        holder.close()
    assert process.returncode == INTERRUPTED
    assert err.startswith("error E130: stopped.") and "Traceback" not in err
    assert trained.files() == before
    assert trained.charges("bank") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_what_was_paid_for_to_be_written(number: signal.Signals) -> None:
    done, before = [], signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), terminated_as_interrupted(), uninterrupted():
        signal.raise_signal(number)
        done.append("written")
    assert done == ["written"] and signal.getsignal(number) is before


def test_ctrl_c_that_a_block_answers_by_skipping_something_ends_nothing_else() -> None:
    with uninterrupted() as interrupted:
        assert not interrupted()
        signal.raise_signal(signal.SIGINT)
        assert interrupted() and not interrupted()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_during_the_estimate_of_uncertainty_keeps_the_run_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    project = write_project(tmp_path)
    rehearse = uncertainty._rehearse

    def pressed(*given: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return rehearse(*given)

    monkeypatch.setattr(uncertainty, "_rehearse", pressed)
    monkeypatch.chdir(tmp_path)
    facts = cli.facts("train job.toml --output out")
    assert any("not estimated: it was interrupted" in note for note in facts["notes"])
    assert {"facts.json", "model.json", "release.npz", "report.html"} <= {
        path.name for path in project.path("out").iterdir()
    }


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "a" / "b") as folder:
        (folder.draft / "file").write_text("half")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
    with new_folder(tmp_path / "a" / "b") as folder:
        (folder.draft / "file").write_text("whole")
        folder.finish()
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("file")] == ["a/b/file"]


def test_a_folder_that_another_run_is_writing_is_refused_and_one_that_a_killed_run_left_is_not(
    tmp_path: Path,
) -> None:
    with new_folder(tmp_path / "out") as first:
        (first.draft / "file").write_text("first")
        with pytest.raises(InputError, match="another run is writing"), new_folder(tmp_path / "out"):
            raise AssertionError("two runs would write one folder")
        with new_folder(tmp_path / "out", numbered=True) as second:
            assert second.finish().name == "out-2"
        first.finish()
    with pytest.raises(InputError, match="exists already"), new_folder(tmp_path / "out"):
        raise AssertionError("a folder that exists is never opened again")
    # A lock ends with its process, a folder does not.
    left = tmp_path / ".other.draft"
    left.mkdir()
    (left / "half").write_text("half")
    with new_folder(tmp_path / "other") as folder:
        assert list(folder.draft.iterdir()) == []
        folder.finish()
