"""`colonnade audit` as a user runs it."""

import json
from typing import Any

import pytest
from cli_project import Cli, Project

from colonnade.cli.app import run
from colonnade.lab import experiments as auditing
from colonnade.lab.experiments import Experiment, Sessions
from colonnade.report.record import FindingRecord


def audit(*arguments: str) -> int:
    return run(["audit", *arguments])


def test_an_audit_of_a_job_reads_no_row_and_charges_nothing(project: Project, cli: Cli) -> None:
    project.path("bank.csv").unlink()
    project.path("insurer.csv").unlink()
    said = cli("audit job.toml --runs 8")
    assert "proved: ε ≤ 1.00 at δ = 1e-05" in said
    assert "A lower bound near 0 proves nothing" in said
    facts = json.loads(project.path("audits/job/facts.json").read_text())
    assert [item["observer"] for item in facts["findings"]] == [
        "server",
        "reader",
        "party:bank",
        "party:insurer",
    ]
    assert all(0 <= item["lower"] <= item["upper"] for item in facts["findings"])
    assert "<svg" in project.path("audits/job/audit.svg").read_text()
    assert project.charges("bank") == 0 and not project.path("bank.ledger").exists()


def test_an_audit_of_a_run_joins_its_report(trained: Project, cli: Cli) -> None:
    before = trained.path("run/facts.json").read_text()
    charges = trained.charges("bank")
    facts = cli.facts("audit run --runs 8")
    assert facts["method"] == "moments" and not facts["defect"]
    page = trained.path("run/report.html").read_text()
    assert "What an audit could show of it" in page and "party:insurer" in page
    assert trained.path("run/facts.json").read_text() == before
    assert trained.charges("bank") == charges
    assert run(["report", "run", "--output", "again.html"]) == 0
    assert "What an audit could show of it" in trained.path("again.html").read_text()
    assert audit("run", "--output", "elsewhere", "--runs", "8") == 3


def test_people_of_private_data_are_refused_and_of_public_data_taken(project: Project, cli: Cli) -> None:
    assert "bank.toml, insurer.toml did not" in cli("audit job.toml --public --runs 8", code=4).replace(
        "\n", " "
    )
    assert not project.path("audits").exists()
    for party in ("bank", "insurer"):
        project.edit(f"{party}.toml", "patience = 0.2", "patience = 0.2\npublic = true")
    assert "people declared public" in cli("audit job.toml --public --runs 8")


def test_more_than_is_proved_is_a_loud_defect(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise that is far too small for its claim, which is what a defect would look like."""
    whole = auditing.carry_out

    def claimed_less(
        experiments: tuple[Experiment, Experiment, Experiment, Experiment], sessions: Sessions, **options: Any
    ) -> tuple[FindingRecord, ...]:
        found = whole(experiments, sessions, **options)
        return (found[0].model_copy(update={"lower": 2.0, "exceeded": True}), *found[1:])

    monkeypatch.setattr(auditing, "carry_out", claimed_less)
    assert audit("job.toml", "--runs", "8", "--output", "found") == 5
    said = capsys.readouterr()
    assert "DEFECT" in said.out and "DEFECT" in said.err
    assert json.loads(project.path("found/facts.json").read_text())["defect"]
