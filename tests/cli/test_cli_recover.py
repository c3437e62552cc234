"""A release that was paid for is found again, whatever ended the run after it was opened."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_project import Cli, Project, one_object, train

import colonnade.cli.train
from colonnade.cli.app import run
from colonnade.evaluation.predict import Stored
from colonnade.models.release import MomentRelease
from colonnade.runs.folders import draft_of, terminated_as_interrupted

INPUT, INTERRUPTED = 3, 130
WHOLE = {"release.npz", "model.json", "facts.json", "report.html"}


def then_signal(number: signal.Signals) -> Callable[..., None]:
    """What keeps a release, and a signal right after it."""
    keep = colonnade.cli.train._keep_paid

    def kept(*arguments: Any) -> None:
        keep(*arguments)
        signal.raise_signal(number)

    return kept


KILLED_AT_A_CHARGE = """
import os, signal, sys
from colonnade.cli.app import run
from colonnade.ledger import Ledger
from colonnade.report import run_folder

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
Ledger.charge, run_folder.keep_opened = killing, die
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
    assert facts["learnt"]["features"] and killed.charges("bank") == charged
    for verb in ("show", "report"):
        assert run([verb, "runs/first"]) == 0
    assert "there is nothing to recover" in cli("recover first", code=INPUT)


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


def test_what_is_recovered_says_what_the_run_would_have_said(
    killed: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["recover", "runs/first"]) == 0
    assert train(killed, "--output", "runs/second") == 0
    recovered, whole = (
        one_object(killed.path(f"runs/{name}/facts.json").read_text()) for name in ("first", "second")
    )
    assert recovered.keys() == whole.keys()
    assert recovered["learnt"].keys() == whole["learnt"].keys()
    assert recovered["guarantees"] == whole["guarantees"] and recovered["requested"] == whole["requested"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_after_the_release_was_opened_loses_nothing(
    project: Project,
    number: signal.Signals,
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("colonnade.cli.train._keep_paid", then_signal(number))
        assert train(project, "--output", "run") == INTERRUPTED
    assert names(project.path("run")) == {"release.npz", "paid.json", "failed.json"}
    assert not draft_of(project.path("run")).exists()
    assert [line["state"] for line in cli.facts("runs .")["runs"]] == ["failed"]
    assert run(["recover", "run"]) == 0
    assert names(project.path("run")) == WHOLE


def test_parts_of_a_model_are_kept_too(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.edit("job.toml", '"moments"', '"intermediate"')
    with monkeypatch.context() as patched:
        patched.setattr("colonnade.cli.train._keep_paid", then_signal(signal.SIGTERM))
        assert train(project, "--output", "run") == INTERRUPTED
    parts = {f"{party}.model.json" for party in ("bank", "insurer")}
    assert names(project.path("run/parties")) == parts
    assert run(["recover", "run"]) == 0
    assert {"facts.json", "report.html"} <= names(project.path("run"))
    assert names(project.path("run/parties")) == parts


def test_sigterm_is_heard_where_ctrl_c_is_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt), terminated_as_interrupted():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)
