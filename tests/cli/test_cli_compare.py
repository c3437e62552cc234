"""`colonnade compare` and `attack` as a user runs them; private data: tests/corpus; what attacks find: tests/lab."""

import json

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


def test_public_data_gives_a_table_a_picture_and_a_page_and_charges_nothing(
    project: Project, cli: Cli
) -> None:
    for party in ("bank", "insurer"):
        project.edit(f"{party}.toml", "patience = 0.2", "patience = 0.2\npublic = true")
    methods = ("--methods", "moments,non-private,dp-sgd-laplace")
    out = cli("compare", "job.toml", *methods, "--epsilons", "2,4", "--seeds", "2", "--output", "out")
    folder = project.path("out")
    assert {path.name for path in folder.iterdir()} == {
        f"comparison.{kind}" for kind in ("html", "json", "svg")
    }
    facts = json.loads((folder / "comparison.json").read_text())
    assert [(row["method"], row["epsilon"]) for row in facts["rows"]] == [
        ("moments", 2.0),
        ("moments", 4.0),
        ("non-private", None),
        ("dp-sgd-laplace", 2.0),
        ("dp-sgd-laplace", 4.0),
    ]
    assert all(len(row["scores"]) == 2 for row in facts["rows"])
    assert "ε = 2" in out and "without any privacy" in out and "out/comparison.html" in out
    assert project.charges("bank") == project.charges("insurer") == 0
