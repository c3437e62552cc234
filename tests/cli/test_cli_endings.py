"""However a verb ends: Ctrl-C, a kill, a full disk. What was paid for is kept, and no ledger forgets."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from certificates import Root
from cli_project import Cli, Project, one_object, train, write_project
from kits import make_kit
from typed import untyped

import colonnade.runs.drafts
import colonnade.runs.train_job
from colonnade.cli.app import run
from colonnade.errors import InputError
from colonnade.evaluation.predict import Stored
from colonnade.federation.party_file import PartyFile
from colonnade.models import uncertainty
from colonnade.models.release import MomentRelease
from colonnade.numbers import compiling
from colonnade.runs.drafts import draft_of, new_folder, terminated_as_interrupted, uninterrupted

INPUT, INTERRUPTED = 3, 130
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_ends_a_program_is_ctrl_c_also_where_that_is_ignored(number: signal.Signals) -> None:
    signals = {signal.SIGINT: signal.SIG_IGN, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    before = {one: signal.signal(one, handler) for one, handler in signals.items()}
    try:
        with pytest.raises(KeyboardInterrupt), terminated_as_interrupted():
            signal.raise_signal(number)
        # Somebody said nohup.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with terminated_as_interrupted():
            signal.raise_signal(signal.SIGHUP)
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


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


WHOLE = {"release.npz", "model.json", "facts.json", "report.html"}


def then_signal(number: signal.Signals) -> Callable[..., None]:
    """What keeps a release, and a signal right after it."""
    keep = colonnade.runs.train_job._keep_paid

    def kept(*arguments: Any) -> None:
        keep(*arguments)
        signal.raise_signal(number)

    return kept


KILLED_AT_A_CHARGE = """
import os, signal, sys
from colonnade.cli.app import run
from colonnade.ledger import Ledger
from colonnade.runs import writing

charge, made = Ledger.charge, []

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def killing(ledger, *arguments, **named):
    if ledger.path is not None and len(made) == int(sys.argv[1]):
        die()
    receipt = charge(ledger, *arguments, **named)
    if ledger.path is not None:
        made.append(receipt)
    return receipt

# Where every ledger is charged, it dies when it would keep what was opened.
Ledger.charge, writing.keep_opened = killing, die
run(sys.argv[2:])
"""


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_killed_run_is_listed_kept_and_finished(killed: Project, cli: Cli) -> None:
    draft = draft_of(killed.path("runs/first"))
    assert {"release.npz", "paid.json"} <= names(draft) and not killed.path("runs/first").exists()
    kept = (draft / "release.npz").read_bytes()
    # The next run of that name deletes nothing, and one without a name takes another.
    charged = killed.charges("bank")
    assert "`colonnade recover runs/first` finishes it" in cli(
        "train job.toml --output runs/first", code=INPUT
    )
    assert (draft / "release.npz").read_bytes() == kept and killed.charges("bank") == charged == 1
    (listed,) = cli.facts("runs runs")["runs"]
    assert (listed["run"], listed["state"], listed["rows"]) == ("runs/first", "unfinished", 400)

    facts = cli.facts("recover first")
    assert names(killed.path("runs/first")) == WHOLE and not draft.exists()
    assert any("stopped after its release was opened" in note for note in facts["notes"])
    release = MomentRelease.load(killed.path("runs/first/release.npz"))
    model = Stored.load(killed.path("runs/first")).whole
    assert facts["run"] == release.run and model is not None and model.run == release.run
    assert facts["model_facts"]["features"] and killed.charges("bank") == charged
    for verb in ("show", "report"):
        assert run([verb, "runs/first"]) == 0
    assert "there is nothing to recover" in cli("recover first", code=INPUT)
    # It says what the run would have said.
    assert train(killed, "--output", "runs/second") == 0
    recovered, whole = (
        one_object(killed.path(f"runs/{name}/facts.json").read_text()) for name in ("first", "second")
    )
    assert recovered.keys() == whole.keys() and recovered["model_facts"].keys() == whole["model_facts"].keys()
    assert recovered["guarantees"] == whole["guarantees"] and recovered["requested"] == whole["requested"]


@pytest.mark.parametrize("charges", [pytest.param(0, marks=pytest.mark.slow), 1, 2])
def test_a_run_that_is_killed_between_its_charge_and_what_it_keeps_is_listed(
    project: Project, charges: int, cli: Cli, capsys: pytest.CaptureFixture[str]
) -> None:
    """A ledger has its entry, and nothing that the run opened is on the disk."""
    words = ["train", str(project.path("job.toml")), "--output", "runs/first"]
    command = [sys.executable, "-c", KILLED_AT_A_CHARGE, str(charges), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert sum(project.charges(party) for party in ("bank", "insurer")) == charges
    listed = cli.facts("runs runs")["runs"]
    assert [(one["run"], one["state"], one["epsilon"]) for one in listed] == [
        ("runs/first", "failed", 1.0)
    ] * bool(charges)
    # The next run of that name takes nothing of it away.
    assert "`colonnade recover runs/first`" in cli("train job.toml --output runs/first", code=INPUT)
    said = cli("recover first")
    assert not draft_of(project.path("runs/first")).exists()
    if not charges:
        assert "before any ledger was charged" in said and train(project, "--output", "runs/first") == 0
        return
    assert "Its process was killed after it was charged" in said
    assert names(project.path("runs/first")) == {"failed.json"}
    assert run(["show", "runs/first"]) == 0 and said.splitlines()[0] in capsys.readouterr().out
    (listed,) = cli.facts("runs runs")["runs"]
    assert (listed["run"], listed["state"]) == ("runs/first", "failed")
    assert sum(project.charges(party) for party in ("bank", "insurer")) == charges


def test_a_signal_after_the_release_was_opened_loses_nothing(
    project: Project, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("colonnade.runs.train_job._keep_paid", then_signal(signal.SIGINT))
        assert train(project, "--output", "run") == INTERRUPTED
    assert names(project.path("run")) == {"release.npz", "paid.json", "failed.json"}
    assert not draft_of(project.path("run")).exists()
    assert [line["state"] for line in cli.facts("runs .")["runs"]] == ["failed"]
    assert run(["recover", "run"]) == 0
    assert names(project.path("run")) == WHOLE


def test_parts_of_a_model_are_kept_too(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.edit("job.toml", '"moments"', '"private-messages"')
    with monkeypatch.context() as patched:
        patched.setattr("colonnade.runs.train_job._keep_paid", then_signal(signal.SIGTERM))
        assert train(project, "--output", "run") == INTERRUPTED
    parts = {f"{party}.model.json" for party in ("bank", "insurer")}
    assert names(project.path("run/parties")) == parts
    assert run(["recover", "run"]) == 0
    assert {"facts.json", "report.html"} <= names(project.path("run"))
    assert names(project.path("run/parties")) == parts


def test_runs_that_make_the_same_ledger_share_it(project: Project) -> None:
    project.edit("bank.toml", "patience = 0.2", "patience = 60.0")
    together = threading.Barrier(8)

    def opened(_: int) -> object:
        together.wait()
        return PartyFile.load(project.path("bank.toml")).open_ledger().opening()

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(opened, range(8)))) == 1


def test_an_internal_error_after_a_charge_says_what_stays_charged(
    project: Project, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("a value of somebody")

    monkeypatch.setattr("colonnade.federation.train.train_on", broken)
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
    claim = colonnade.runs.drafts._claim

    def pressed(name: Path) -> Any:
        claimed = claim(name)
        signal.raise_signal(signal.SIGINT)
        return claimed

    monkeypatch.setattr(colonnade.runs.drafts, "_claim", pressed)
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "a" / "b"):
        raise AssertionError("Ctrl-C was pressed before")
    assert list(tmp_path.iterdir()) == []
