"""`colonnade compare`: what it prints and writes on public data, and what it refuses on private data."""

import json

import pytest
from cli_project import Cli, Project

from colonnade import MomentRelease
from colonnade.cli.app import run

FEW = ("--methods", "moments,non-private,dp-sgd-laplace", "--epsilons", "2,4", "--seeds", "2")


def compare(project: Project, *options: str) -> int:
    return run(["compare", str(project.path("job.toml")), *options])


@pytest.fixture
def public(project: Project) -> Project:
    for party in ("bank", "insurer"):
        project.edit(f"{party}.toml", "patience = 0.2", "patience = 0.2\npublic = true")
    return project


def test_public_data_gives_a_table_a_picture_and_a_page_and_charges_nothing(
    public: Project, cli: Cli
) -> None:
    out = cli("compare", "job.toml", *FEW, "--output", "out")
    folder = public.path("out")
    assert sorted(path.name for path in folder.iterdir()) == [
        "comparison.html",
        "comparison.json",
        "comparison.svg",
    ]
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
    assert public.charges("bank") == public.charges("insurer") == 0


def test_private_data_is_charged_for_every_run_and_no_score_is_shown(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--methods", "moments,functional,dp-sgd", "--epsilons", "1", "--charge", "--output", "out")
    assert compare(project, *options) == 0
    printed = capsys.readouterr()
    assert "are charged" in printed.err and "Left out: dp-sgd" in printed.err
    assert "no accuracy is shown" in printed.out and "dp-sgd was left out" in printed.out
    assert project.charges("bank") == project.charges("insurer") == 2
    facts = json.loads(project.path("out/comparison.json").read_text())
    assert all(row["scores"] == [] and row["guarantees"] for row in facts["rows"])
    assert all(row["seconds"] is None for row in facts["rows"]), "time can depend on rows"
    assert not project.path("out/comparison.svg").exists()
    release = MomentRelease.load(project.path("out/models/moments at ε = 1.npz"))
    assert release.guarantees and not release.reproducible, "what was paid for is kept"
    weights = json.loads(project.path("out/models/functional at ε = 1.json").read_text())
    assert len(weights["coefficients"][0]) == len(weights["features"]) and weights["guarantees"]


def test_an_error_on_private_data_is_told_to_the_operator_and_not_to_readers(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.row("bank.csv", 9, "C8,not a number,clerk,low")
    options = ("--methods", "moments", "--epsilons", "1", "--charge", "--output", "out")
    assert compare(project, *options) == 0
    printed = capsys.readouterr()
    assert "note: moments at ε = 1 gave no model" in printed.err and "bank.csv" in printed.err
    for text in (printed.out, *(path.read_text() for path in project.path("out").glob("comparison.*"))):
        assert "bank.csv" not in text and "its own operator can see why" in text
    assert project.charges("bank") == 0
