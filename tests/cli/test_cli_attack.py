"""`colonnade attack` as a user runs it; what attacks find: tests/lab/test_attacks_campaign.py."""

import pytest
from cli_project import ROWS, Cli, Project

from colonnade.lab.campaign import Campaign


def test_attacks_are_told_to_programs_and_charge_nothing(
    project: Project, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for party in ("bank", "insurer"):
        project.edit(f"{party}.toml", "patience", "public = true\npatience")
    monkeypatch.setattr(Campaign, "findings", lambda self: iter(()))
    facts = cli.facts("attack job.toml --output out")
    assert facts["findings"] == [] and facts["people"] == ROWS and facts["picture"] is None
    assert project.path("out/facts.json").exists() and not project.path("bank.ledger").exists()
