"""Runs on the disk: listed, shown, reported again, each file for whom it is; failed ones say where they stopped."""

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli_project import ROWS, Cli, Project, one_object, train, write_project
from encrypted_runs import WIDER

from colonnade.cli.app import run
from colonnade.errors import PeerTimeout
from colonnade.methods.encrypted import plan as encrypted_plan
from colonnade.runtime.party import Party

INPUT, PROTOCOL = 3, 7


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = write_project(tmp_path_factory.mktemp("finished"))
    assert run(["train", str(project.path("job.toml")), "--output", str(project.path("runs/first"))]) == 0
    return project


def test_runs_are_listed_with_task_epsilon_rows_date_and_state(
    finished: Project, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.chdir(finished.folder)
    head, line = cli("runs").splitlines()
    assert head.split() == ["run", "name", "task", "epsilon", "rows", "score", "date", "state"]
    assert "runs/first" in line and f"  {ROWS}  " in line and line.endswith("done")
    (listed,) = cli.facts("runs")["runs"]
    assert (listed["task"], listed["epsilon"], listed["state"]) == ("classification", 1.0, "done")


@pytest.mark.parametrize(("defence", "epsilon"), [("sound", 1.0), ("none", None)])
def test_a_run_of_encrypted_gradients_is_listed_with_its_epsilon_where_it_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli, defence: str, epsilon: float | None
) -> None:
    monkeypatch.setattr(encrypted_plan, "PaillierKeys", lambda bits: WIDER)
    project = write_project(tmp_path, 60)
    project.edit("job.toml", '"moments"', '"encrypted"')
    with project.path("job.toml").open("a") as job:
        job.write(f'\n[options]\ndefence = "{defence}"\nepochs = 1\nbatch = 60\n')
    for party in ("bank", "insurer"):
        project.edit(f"{party}.toml", "patience = 0.2", "patience = 0.2\npublic = true")
    assert run(["train", str(project.path("job.toml")), "--output", str(tmp_path / "runs/first")]) == 0
    (listed,) = cli.facts("runs", str(tmp_path / "runs"))["runs"]
    assert (listed["epsilon"], listed["state"]) == (epsilon, "done")


def test_show_and_report_say_again_what_the_run_said(
    finished: Project, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.chdir(finished.folder)
    facts = one_object(Path("runs/first/facts.json").read_text())
    for name in ("runs/first", "first", "runs/first/facts.json"):
        out = cli("show", name, "--verbose")
        assert all(item["sentence"] in out for item in facts["guarantees"])
    assert cli.facts("show first") == facts
    assert "Report: again.html" in cli("report first --output again.html")
    assert Path("again.html").read_text() == Path("runs/first/report.html").read_text()
    assert "again.html exists already" in cli("report first --output again.html", code=INPUT)


def failing_after_charges(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that falls silent while rows are dealt, which no look before the run can find."""

    async def silent_peer(party: Party, *_: object, **__: object) -> None:
        if party.name == "insurer":
            raise PeerTimeout("insurer waited 600 s at step 'columns 0' for bank.")
        await party.channel.receive("insurer", "columns 0", 60.0)

    monkeypatch.setattr("colonnade.protocols.verified_rows.share_rows", silent_peer)


def test_a_run_that_failed_half_way_says_where_and_what_was_charged(
    project: Project, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_after_charges(monkeypatch)
    before = project.files()
    err = cli("train job.toml --output runs/half", code=PROTOCOL)
    assert "Charged by then: bank, insurer, for run" in err
    assert "`colonnade show runs/half`" in err
    assert project.files() - before == {"runs", "runs/half", "runs/half/failed.json"}
    record = one_object(project.path("runs/half/failed.json").read_text())
    assert record["stopped"]["party"] == "insurer"
    assert record["stopped"]["reached"]["bank"] == "receipts"
    assert set(record["charged"]) == {"bank", "insurer"}
    shown = cli("show half")
    assert "insurer stopped it after step 'receipts'" in shown and "1.00 of 4" in shown
    announced = cli("report half", code=INPUT)
    assert "failed half way" in announced and "insurer stopped it after step 'receipts'" in announced
    assert "Charged by then: bank, insurer, for run" in announced
    assert cli("runs").splitlines()[1].endswith("failed")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], check=False, capture_output=True
    )
    if made.returncode:
        pytest.skip("only a superuser can mount a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_fills_up_during_the_run_is_told_with_file_and_charge(
    project: Project, small_disk: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if somebody else had filled the disk since: room is not set aside, and little is left.
    monkeypatch.setattr("colonnade.runs.drafts.Folder.reserve", lambda self, size: None)
    (small_disk / "others").write_bytes(b"x" * (230 << 10))
    err = cli("train", "job.toml", "--output", str(small_disk / "run"), code=INPUT)
    assert "No space left" in err and str(small_disk / "run") in err
    assert "Charged by then: bank, insurer, for run" in err
    assert project.charges("bank") == project.charges("insurer") == 1
    # The release had room, and with more of it the rest is made.
    assert f"`colonnade recover {small_disk / 'run'}` makes the rest of it" in err
    (small_disk / "others").unlink()
    assert run(["recover", str(small_disk / "run")]) == 0
    assert {"release.npz", "model.json", "facts.json"} <= {
        path.name for path in (small_disk / "run").iterdir()
    }


def test_facts_hold_no_row_and_the_record_of_a_failure_no_reason_about_data(
    project: Project, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    from colonnade.errors import BadValues

    async def unreadable(party: Party, *_: object, **__: object) -> None:
        raise BadValues(f"party {party.name!r}, column 'age': 17 values are missing.")

    monkeypatch.setattr("colonnade.protocols.verified_rows.share", unreadable)
    assert "17 values" in cli("train job.toml --output half", code=INPUT), (
        "at the keyboard of its own operator"
    )
    text = project.path("half/failed.json").read_text()
    stopped = json.loads(text)["stopped"]
    assert "17" not in stopped["reason"] and stopped["kind"] == "DataError" and "BadValues" not in text


SHARED = ("release.npz", "model.json", "facts.json", "report.html")


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def rights(folder: Path) -> dict[str, int]:
    return {
        path.relative_to(folder).as_posix(): stat.S_IMODE(path.stat().st_mode)
        for path in (folder, *folder.rglob("*"))
    }


@pytest.mark.parametrize(("mask", "shared"), [(0o000, 0o644), (0o077, 0o600)])
def test_own_files_are_for_their_party_and_shared_ones_follow_the_umask(
    project: Project, mask: int, shared: int
) -> None:
    with umask(mask):
        assert train(project, "--output", "run") == 0
    found = rights(project.path("run"))
    assert found.pop(".") == found.pop("parties") == 0o700
    assert {name: found.pop(name) for name in SHARED} == dict.fromkeys(SHARED, shared)
    assert {name.split(".", 1)[1] for name in found} == {"html", "people.npz", "outcome.json", "log.jsonl"}
    assert set(found.values()) == {0o600}, found


def test_the_parts_of_a_model_are_their_parties_own(project: Project) -> None:
    project.edit("job.toml", '"moments"', '"private-messages"')
    with umask(0o022):
        assert train(project, "--output", "run") == 0
    found = rights(project.path("run"))
    assert {found[f"parties/{party}.model.json"] for party in ("bank", "insurer")} == {0o600}
    assert found["facts.json"] == found["report.html"] == 0o644


def test_a_draft_that_a_killed_process_left_gives_a_file_no_rights(tmp_path: Path) -> None:
    from colonnade.federation.files import write_whole

    left = tmp_path / f".own.{os.getpid()}.draft"
    left.write_text("half")
    left.chmod(0o666)
    write_whole(tmp_path / "own", "whole", own=True)
    assert rights(tmp_path) == {".": rights(tmp_path)["."], "own": 0o600}
    assert (tmp_path / "own").read_text() == "whole"
