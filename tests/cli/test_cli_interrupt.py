"""Ctrl-C at a person's keyboard: the run ends, nothing half-made stays, and no ledger forgets."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_project import Project, one_object, write_project

from colonnade.cli.folders import new_folder, uninterrupted
from colonnade.errors import InputError

INTERRUPTED = 130
# Enough for the run to be still dealing columns when the signal comes.
MANY_ROWS = 120_000
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


def test_ctrl_c_in_the_middle_of_a_run_leaves_ledgers_and_no_folder(tmp_path: Path) -> None:
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
    assert project.files() == before, "neither the folder nor the one above it, nor a hidden draft"
    assert project.charges("bank") == project.charges("insurer") == 1, "what may have been seen stays charged"


def test_ctrl_c_while_waiting_for_a_locked_ledger_is_heard_at_once(tmp_path: Path) -> None:
    project = write_project(tmp_path)
    for party in ("bank", "insurer"):
        project.edit(f"{party}.toml", "patience = 0.2", "patience = 600.0")
    first = started(project)
    first.communicate(timeout=PATIENCE)
    assert first.returncode == 0
    before = project.files()
    holder = sqlite3.connect(project.path("bank.ledger"), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    process = started(project)
    try:
        # The draft of the folder is made just before the ledgers are opened.
        wait_until(
            lambda: any(path.name.startswith(".job-2.") for path in (tmp_path / "runs").iterdir()), process
        )
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
        holder.close()
    assert process.returncode == INTERRUPTED
    assert err.startswith("error: stopped.") and "Traceback" not in err
    assert project.files() == before
    assert project.charges("bank") == 1


def test_ctrl_c_waits_for_what_was_paid_for_to_be_written() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        signal.raise_signal(signal.SIGINT)
        done.append("written")
    assert done == ["written"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "a" / "b") as folder:
        (folder.draft / "file").write_text("half")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
    with new_folder(tmp_path / "a" / "b") as folder:
        (folder.draft / "file").write_text("whole")
        folder.finish()
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("file")] == ["a/b/file"]


def test_two_runs_for_one_folder_both_keep_what_they_made(tmp_path: Path) -> None:
    with new_folder(tmp_path / "out") as first, new_folder(tmp_path / "out") as second:
        names = [first.finish().name, second.finish().name]
    assert names == ["out", "out-2"]
    with pytest.raises(InputError, match="exists already"), new_folder(tmp_path / "out"):
        raise AssertionError("a folder that exists is never opened again")


def test_an_interrupted_demonstration_leaves_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen([*COLONNADE, "demo"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: any(tmp_path.glob(".demo-run.*/*.ledger")), process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, "Traceback" in err) == (INTERRUPTED, False)
    assert list(tmp_path.iterdir()) == []
