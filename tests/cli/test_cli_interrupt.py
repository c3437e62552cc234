"""Ctrl-C at a person's keyboard: the run ends, nothing half-made stays, and no ledger forgets."""

import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_project import Cli, Project, one_object, write_project

from colonnade.errors import InputError
from colonnade.models import uncertainty
from colonnade.runs.folders import new_folder, terminated_as_interrupted, uninterrupted

INTERRUPTED = 130
# Enough for the run to be still dealing columns when the signal comes.
MANY_ROWS = 60_000
PATIENCE = 120.0
COLONNADE = (sys.executable, "-c", "from colonnade.cli import main; main()")


def started(project: Project, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COLONNADE, "train", "job.toml", *options],
        cwd=project.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until(there: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not there():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def has_charged(path: Path) -> bool:
    if not path.exists() or not path.stat().st_size:
        return False
    with sqlite3.connect(path) as connection:
        (count,) = connection.execute(
            """SELECT count(*) FROM entries WHERE body LIKE '%"kind":"charge"%'"""
        ).fetchone()
    connection.close()
    return bool(count)


def test_ctrl_c_in_the_middle_of_a_run_leaves_ledgers_and_a_record_only(tmp_path: Path) -> None:
    project = write_project(tmp_path, MANY_ROWS)
    for party in ("bank", "insurer"):
        project.edit(f"{party}.toml", "delta = 1e-5", "delta = 1e-6")
    project.edit("job.toml", "delta = 1e-5", "delta = 1e-6")
    before = project.files()
    process = started(project, "--output", "runs/long", "--json")
    try:
        ledgers = [project.path("bank.ledger"), project.path("insurer.ledger")]
        wait_until(lambda: all(map(has_charged, ledgers)), process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == INTERRUPTED, err
    assert err == "" and one_object(out)["error"]["kind"] == "Interrupted"
    assert project.files() - before == {"runs", "runs/long", "runs/long/failed.json"}, "and no hidden draft"
    record = one_object(project.path("runs/long/failed.json").read_text())
    assert record["stopped"]["kind"] == "Interrupted" and set(record["charged"]) == {"bank", "insurer"}
    assert project.charges("bank") == project.charges("insurer") == 1, "what may have been seen stays charged"


def test_ctrl_c_while_waiting_for_a_locked_ledger_is_heard_at_once(trained: Project) -> None:
    for party in ("bank", "insurer"):
        trained.edit(f"{party}.toml", "patience = 0.2", "patience = 600.0")
    before = trained.files()
    holder = sqlite3.connect(trained.path("bank.ledger"), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    process = started(trained)
    try:
        # The draft of the folder is made just before the ledgers are opened.
        wait_until(lambda: any(trained.path("runs").glob(".job.*")), process)
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
