"""What a run leaves for its readers depends on the people in common, on noise, and on nothing else.

Every run here draws the same coins for its noise, and others for finding the common people, so that two runs whose
sums are equal release the same numbers: whatever then differs in a shared file is told without noise.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_project import Project, one_object, train, write_project
from encrypted_runs import WIDER

import colonnade.federation.party_file
import colonnade.protocols.session
import colonnade.runs.writing
from colonnade.cli.app import run as run_command
from colonnade.crypto import curve as blinded_sets
from colonnade.data.table import AlignedTable, Table
from colonnade.federation.federation import Federation
from colonnade.ledger import Ledger
from colonnade.methods.encrypted import plan as encrypted_plan
from colonnade.models.files.document import PARTIES
from colonnade.protocols.alignment import Alignment, align
from colonnade.randomness import SystemRandomness
from colonnade.runtime.party import Party

ROWS = 120
# So few ids to a frame that one party's many ids take its numbers beyond what one byte holds.
FEW_POINTS = 4
FROM_NOISE = ("model_facts", "spectrum", "notes", "digest")
METHODS = {
    "moments": "",
    "functional": "",
    "slr": "[options]\nepochs = 1\nrate = 1.0\n",
    "margin": "[options]\nsteps = 2\n",
    "local": "",
    "private-messages": "[options]\nepochs = 1\n",
    "one-shot": "",
    "network": "[options]\nepochs = 1\n",
    "encrypted": "[options]\nepochs = 1\n",
}
Change = Callable[[Project], None]


async def align_by_other_coins(
    party: Party, table: Table | None, how: Alignment, *, in_shares: bool
) -> AlignedTable | None:
    """Alignment draws more for more ids; what is drawn after it must not move for that."""
    randomness, party.randomness = party.randomness, SystemRandomness()
    try:
        return await align(party, table, how, in_shares=in_shares)
    finally:
        party.randomness = randomness


@pytest.fixture(autouse=True)
def same_coins(monkeypatch: pytest.MonkeyPatch) -> None:
    made = colonnade.federation.party_file.federation_of

    def seeded(*arguments: Any, **named: Any) -> Federation:
        federation = made(*arguments, **named)
        federation._noise_seed = 3
        return federation

    monkeypatch.setattr(colonnade.federation.party_file, "federation_of", seeded)
    monkeypatch.setattr(colonnade.protocols.session, "align", align_by_other_coins)
    monkeypatch.setattr(blinded_sets, "BLOCK_POINTS", FEW_POINTS)
    monkeypatch.setattr(encrypted_plan, "PaillierKeys", lambda bits: WIDER)
    monkeypatch.setattr(colonnade.runs.writing, "now", lambda: "2026-01-01T00:00:00+00:00")


def nothing(project: Project) -> None:
    """Two runs on the same files: the control."""


def one_more_customer(project: Project) -> None:
    """A customer of the bank whom the insurer does not have."""
    with project.path("bank.csv").open("a") as file:
        file.write("Z1,44,nurse,low\n")


def many_more_customers(project: Project) -> None:
    """So many that finding the common people takes more frames, of larger numbers."""
    with project.path("insurer.csv").open("a") as file:
        file.write("".join(f"Y{number},3,no\n" for number in range(200)))


def a_value_out_of_bounds(project: Project) -> None:
    """Beyond its bound a value counts as the bound, so that only what is measured by the way can tell."""
    project.row("bank.csv", 7, "C6,500,clerk,low")


def another_value(project: Project) -> None:
    project.row("bank.csv", 7, "C6,30,clerk,low")


def a_longer_ledger(project: Project) -> None:
    """The bank has done much with another data set."""
    ledger = Ledger.create(project.path("bank.ledger"), "bank")
    for number in range(130):
        ledger.set_budget("payrolls", "record", f"party:p{number}", epsilon=3.0, delta=1e-5)


def finished(folder: Path, change: Change, *, method: str) -> Project:
    """A finished run on files with people whom only one party has, after a change to them."""
    folder.mkdir()
    project = write_project(folder, ROWS)
    project.row("bank.csv", 7, "C6,90,clerk,low")
    with project.path("bank.csv").open("a") as file:
        file.write("Z0,44,nurse,low\n")
    with project.path("insurer.csv").open("a") as file:
        file.write("Y,3,no\n")
    project.edit("job.toml", 'method = "moments"', f'method = "{method}"')
    with project.path("job.toml").open("a") as file:
        file.write(METHODS[method])
    project.edit("job.toml", "epsilon = 1.0", "epsilon = 10.0")
    project.edit("bank.toml", "epsilon = 4.0", "epsilon = 400.0")
    project.edit("insurer.toml", "epsilon = 4.0", "epsilon = 400.0")
    change(project)
    assert train(project, "--output", str(folder / "run"), "--json") == 0
    return project


def shared_files(project: Project) -> dict[str, bytes]:
    run = project.path("run")
    return {
        path.relative_to(run).as_posix(): path.read_bytes()
        for path in sorted(run.rglob("*"))
        if path.is_file() and path.relative_to(run).parts[0] != PARTIES
    }


def told_without_noise(project: Project) -> dict[str, Any]:
    facts = one_object(project.path("run/facts.json").read_text())
    return {key: value for key, value in facts.items() if key not in FROM_NOISE}


def test_every_byte_for_readers_is_the_same_whatever_only_one_party_knows(tmp_path: Path) -> None:
    plain = shared_files(finished(tmp_path / "plain", nothing, method="moments"))
    assert set(plain) == {"facts.json", "report.html", "model.json", "release.npz"}
    for change in (nothing, one_more_customer, many_more_customers, a_value_out_of_bounds, a_longer_ledger):
        changed = finished(tmp_path / change.__name__, change, method="moments")
        assert shared_files(changed) == plain, change.__name__


@pytest.mark.parametrize("method", [method for method in METHODS if method != "moments"])
def test_what_is_told_without_noise_is_the_same_for_every_method(tmp_path: Path, method: str) -> None:
    plain = told_without_noise(finished(tmp_path / "plain", nothing, method=method))
    assert plain["rows"] == ROWS and plain["traffic"]["bytes"] > 0

    def both(project: Project) -> None:
        one_more_customer(project)
        another_value(project)

    assert told_without_noise(finished(tmp_path / "changed", both, method=method)) == plain


def test_a_value_that_is_summed_changes_what_noise_covers_and_nothing_else(tmp_path: Path) -> None:
    plain = finished(tmp_path / "plain", nothing, method="moments")
    changed = finished(tmp_path / "changed", another_value, method="moments")
    before, after = shared_files(plain), shared_files(changed)
    assert set(before) == set(after)
    assert before["release.npz"] != after["release.npz"], "the release covers it, so the release shows it"
    assert told_without_noise(plain) == told_without_noise(changed)


def test_other_data_sets_and_steps_of_alignment_are_on_a_partys_own_page_alone(tmp_path: Path) -> None:
    project = finished(tmp_path / "plain", a_longer_ledger, method="moments")
    shared = b"".join(shared_files(project).values())
    ledger = Ledger.open(project.path("bank.ledger"))
    assert b"payrolls" not in shared and ledger.receipt().head.encode() not in shared
    own = project.path(f"run/{PARTIES}/bank.html").read_text()
    assert "payrolls" in own and ledger.receipt().head in own and "blinded" in own
    assert "payrolls" not in project.path(f"run/{PARTIES}/insurer.html").read_text()
    facts = one_object(project.path("run/facts.json").read_text())
    steps = {item["step"] for item in facts["traffic"]["steps"]}
    assert steps >= {"hello", "columns", "noise", "release"}
    assert not steps & {"id", "set", "blinded", "twice", "common"}
    assert "forecast" not in facts, "a forecast goes by how many people each party has"


def test_a_record_of_failure_tells_no_more_of_a_ledger_than_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*arguments: Any, **named: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(colonnade.runs.writing, "write_report", broken)
    project = write_project(tmp_path)
    a_longer_ledger(project)
    assert train(project, "--output", str(tmp_path / "run")) != 0
    text = project.path("run/failed.json").read_text()
    record = json.loads(text)
    ledger = Ledger.open(project.path("bank.ledger"))
    assert set(record["charged"]) == {"bank", "insurer"}
    assert set(record["charged"]["bank"]) == {"time", "what"}, "and no number, which counts everything else"
    assert record["ledgers"]["bank"]["totals"]
    assert "payrolls" not in text and ledger.receipt().head not in text
    assert run_command(["show", str(tmp_path / "run")]) == 0
    assert "Charged by then: bank, insurer" in capsys.readouterr().err
