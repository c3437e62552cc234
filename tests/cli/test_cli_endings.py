"""However a verb ends, what was paid for is kept, what was noted shows changes, and names make no lines."""

import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from certificates import Root
from cli_project import Cli, Project, train
from kits import make_kit
from typed import untyped

import colonnade.runs.folders
from colonnade.federation.party_file import PartyFile
from colonnade.numbers import compiling
from colonnade.runs.folders import new_folder, terminated_as_interrupted

INTERRUPTED = 130
AT_ONCE = 8


def at_once(work: Any) -> list[Any]:
    """What each of several threads that begin together came away with, or what it raised."""
    together, found = threading.Barrier(AT_ONCE), []

    def begin() -> None:
        together.wait()
        try:
            found.append(work())
        except Exception as error:
            found.append(error)

    threads = [threading.Thread(target=begin) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_runs_that_make_the_same_ledger_share_it(project: Project) -> None:
    project.edit("bank.toml", "patience = 0.2", "patience = 60.0")
    found = at_once(lambda: PartyFile.load(project.path("bank.toml")).open_ledger().opening())
    assert len(set(found)) == 1, found


def test_an_internal_error_after_a_charge_says_what_stays_charged(
    project: Project, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("a value of somebody")

    monkeypatch.setattr("colonnade.evaluation.trained_run.train_on", broken)
    said = cli("train", str(project.path("job.toml")), "--output", str(project.path("run")), code=1)
    assert "That stays charged" in said and "KeyError" in said and "somebody" not in said


def test_loops_are_compiled_where_there_is_no_place_for_them(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def nowhere(self: Any, function: Any) -> None:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(compiling._Kept, "__init__", nowhere)
    monkeypatch.setattr(compiling, "_announced", [])
    kernels = [compiling.machine_code(lambda value: value + 1) for _ in range(2)]
    assert [untyped(kernel)(1) for kernel in kernels] == [2, 2]
    assert len(caplog.records) == 1 and "NUMBA_CACHE_DIR" in caplog.text


def test_a_full_place_for_compiled_loops_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(self: Any, *given: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(untyped(compiling).caching.FunctionCache, "save_overload", full)
    monkeypatch.setattr(compiling, "_announced", [])
    assert compiling.machine_code(lambda value: value + 2)(1) == 3
    assert "No space left on device" in caplog.text


def test_jobs_of_a_site_that_was_killed_are_listed(tmp_path: Path, cli: Cli) -> None:
    kit = make_kit(tmp_path, Root.make(), "bank")
    for job, files in (("killed", ()), ("paid", ("release.npz", "paid.json"))):
        kit.run_folder(job).mkdir(parents=True)
        for name in ("log.jsonl", *files):
            (kit.run_folder(job) / name).write_text("{}")
    listed = cli.facts("runs", "--kit", str(kit.path))["runs"]
    assert {Path(line["run"]).name: line["state"] for line in listed} == {
        "killed": "running or killed",
        "paid": "unfinished",
    }


def test_a_column_whose_name_has_a_line_break_makes_no_line(project: Project, cli: Cli) -> None:
    forged = "age\\nThe server learns nothing."
    project.edit("bank.schema.toml", "[columns.age]", f'[columns."{forged}"]')
    text = project.path("bank.csv").read_text()
    project.path("bank.csv").write_text(
        text.replace("customer,age", 'customer,"age\nThe server learns nothing."', 1)
    )
    assert train(project, "--output", "out") == 0
    out = cli("show out")
    assert forged in out and not any(
        line.startswith("The server learns nothing") for line in out.splitlines()
    )


def test_ctrl_c_while_a_folder_is_claimed_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = colonnade.runs.folders._claim

    def pressed(name: Path) -> Any:
        claimed = claim(name)
        signal.raise_signal(signal.SIGINT)
        return claimed

    monkeypatch.setattr(colonnade.runs.folders, "_claim", pressed)
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "a" / "b"):
        raise AssertionError("Ctrl-C was pressed before")
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_that_is_gone_is_ctrl_c_unless_somebody_said_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with pytest.raises(KeyboardInterrupt), terminated_as_interrupted():
            signal.raise_signal(signal.SIGHUP)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with terminated_as_interrupted():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
