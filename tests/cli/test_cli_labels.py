"""A job with several labels: one run, a model for each of them, and verbs that take one by name."""

import csv
from pathlib import Path

import pytest
from cli_project import Cli, Project, train_until_killed

from colonnade.cli.app import run
from colonnade.models.files.linear_file import ModelFile
from colonnade.models.release import MomentRelease

PLAN = 4
LABELS = """
[labels.risk]
kind = "classes"
classes = ["low", "high"]

[labels.loss]
kind = "real"
low = 0
high = 90
"""


@pytest.fixture
def several(project: Project) -> Project:
    """The bank has a second label, which is its customers' age and so can be learnt; all data is public."""
    schema = project.path("bank.schema.toml").read_text()
    project.path("bank.schema.toml").write_text(schema[: schema.index("[label]")] + LABELS)
    head, *lines = project.path("bank.csv").read_text().splitlines()
    announced = [f"{line},{line.split(',')[1]}" for line in lines]
    project.path("bank.csv").write_text("\n".join([f"{head},loss", *announced]) + "\n")
    for party in ("bank", "insurer"):
        project.edit(f"{party}.toml", "patience", "public = true\npatience")
        project.edit(f"{party}.toml", "epsilon = 4.0", "epsilon = 40.0")
    project.edit("job.toml", "epsilon = 1.0", "epsilon = 8.0")
    return project


def everybody(path: str) -> None:
    with Path("bank.csv").open() as bank, Path("insurer.csv").open() as insurer:
        rows = [one | other for one, other in zip(csv.DictReader(bank), csv.DictReader(insurer), strict=True)]
    with Path(path).open("w") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_one_run_leaves_a_model_of_each_label_and_verbs_take_one_by_name(several: Project, cli: Cli) -> None:
    said = cli("train job.toml --output run")
    assert ["loss", "regression"] in [
        line.split()[:2] for line in said.splitlines() if "model-2.json" in line
    ]
    assert several.charges("bank") == several.charges("insurer") == 1
    models = [ModelFile.load(Path("run") / name) for name in ("model.json", "model-2.json")]
    assert [one.frame.label.label.column for one in models if one.frame.label.label] == ["risk", "loss"]
    release = MomentRelease.load("run/release.npz")
    assert release.label_names == ("risk", "loss")
    assert models[1].privacy == models[0].privacy

    everybody("people.csv")
    rows = ["--rows", "people.csv", "--id", "customer"]
    assert cli.facts("predict", "run", *rows, "--label", "loss")["names"] == ["loss"]
    assert "probability of high" in cli.facts("predict", "run", *rows)["names"]
    assert "RMSE" in cli("evaluate", "run", *rows, "--label", "loss", "--json")
    evaluated = cli.facts("evaluate run job.toml --label loss")
    assert evaluated["label"] == "loss" and Path(evaluated["kept"]).is_file()
    assert run(["export", "run", "--label", "loss", "--card", "card.md"]) == 0
    card = Path("card.md").read_text()
    assert "`loss`" in card and "R² on the training rows" in card and "accuracy" not in card
    assert run(["report", "run"]) == 0
    page = Path("run/report.html").read_text()
    assert "A model of each label" in page and "model-2.json" in page and "2 labels" in page
    assert run(["report", "run", "--label", "loss", "--output", "loss.html"]) == 0
    assert "This is the model of loss" in Path("loss.html").read_text()
    assert "in units of the label" in cli("show run --label loss")
    for verb in (["show", "run"], ["predict", "run", *rows], ["report", "run", "--output", "x.html"]):
        assert "Did you mean 'loss'?" in cli(*verb, "--label", "los", code=PLAN)


def test_plan_says_what_several_labels_cost_and_other_methods_are_refused(several: Project, cli: Cli) -> None:
    said = " ".join(cli("plan job.toml --rows 400 --methods none --no-simulation").split())
    assert "One release is for 2 labels (risk, loss), at the ε of one" in said
    several.edit("job.toml", '"moments"', '"margin"')
    assert "margin learns one label, and bank declares 2 (risk, loss)" in cli(
        "train job.toml --output run", code=PLAN
    )
    assert several.charges("bank") == 0


def test_a_run_that_was_stopped_is_recovered_with_all_its_models(several: Project) -> None:
    train_until_killed(several, "runs/first")
    assert run(["recover", "first"]) == 0
    model = ModelFile.load(several.path("runs/first/model-2.json"))
    assert model.frame.label.label is not None and model.frame.label.label.column == "loss"
