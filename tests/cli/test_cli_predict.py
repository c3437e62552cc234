"""`colonnade predict`: released models score anywhere, parties score together, and what would disclose is refused."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from cli_project import Cli, Project, train
from typed import untyped

from colonnade.cli.app import run
from colonnade.models.files.linear_file import ModelFile

INPUT, PLAN, REFUSED = 3, 4, 5


def joined(path: str) -> list[dict[str, str]]:
    """Both parties' columns of everybody, in one file under new ids."""
    with Path("bank.csv").open() as bank, Path("insurer.csv").open() as insurer:
        others = {row["customer"]: row for row in csv.DictReader(insurer)}
        rows = [row | others[row["customer"]] for row in csv.DictReader(bank) if row["customer"] in others]
    with Path(path).open("w") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return rows


def strangers(project: Project) -> None:
    """The same people under ids that nobody trained on."""
    for name in ("bank.csv", "insurer.csv"):
        lines = project.path(name).read_text().splitlines()
        project.path(name).write_text("\n".join([lines[0], *(f"new-{line}" for line in lines[1:])]) + "\n")


def test_released_weights_score_a_file_anywhere(trained: Project, cli: Cli) -> None:
    rows = joined("people.csv")
    assert "discloses nothing to anybody else" in cli(
        "predict run --rows people.csv --id customer --output scores.csv"
    )
    model = ModelFile.load(Path("run/model.json")).estimator()
    raw = {
        "age": [float(row["age"]) for row in rows],
        "claims": [float(row["claims"]) for row in rows],
        "job": [row["job"] for row in rows],
        "smoker": [row["smoker"] for row in rows],
    }
    found = list(csv.DictReader(Path("scores.csv").read_text().splitlines()))
    assert [row["predicted"] for row in found] == untyped(model).predict(raw).tolist()
    assert np.allclose(
        [float(row["probability of high"]) for row in found],
        untyped(model).predict_proba(raw)[:, 1],
        rtol=1e-5,
    )
    assert (
        run(["predict", "run", "--rows", "people.csv", "--id", "customer", "--output", "scores.csv"]) == INPUT
    )


def test_ctrl_c_while_scores_are_written_leaves_no_file(
    trained: Project, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined("people.csv")
    before = trained.files()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    scored = ["predict", "run", "--rows", "people.csv", "--id", "customer", "--output", "scores.csv"]
    assert "error E130" in cli(*scored, code=130)
    assert trained.files() == before


def test_whoever_cannot_be_scored_is_named_and_the_others_are_scored(
    trained: Project, cli: Cli, capsys: pytest.CaptureFixture[str]
) -> None:
    strangers(trained)
    joined("people.csv")
    capsys.readouterr()
    words = ["predict", "run", "--rows", "people.csv", "--id", "customer"]
    whole = cli.facts(*words)
    assert whole["left_out"] == []
    head, *lines = Path("people.csv").read_text().splitlines()
    cells = lines[3].split(",")
    lines[3] = ",".join([cells[0], "s3cret", *cells[2:]])
    Path("people.csv").write_text("\n".join([head, *lines]) + "\n")
    rest = cli.facts(*words)
    ((gone, reason),) = (item.values() for item in rest["left_out"])
    assert gone == cells[0] and "text where a number is declared" in reason and "s3cret" not in reason
    assert rest["scores"] == [line for line in whole["scores"] if line["id"] != gone]
    out = cli(*words)
    assert "1 person could not be scored" in out and gone in out
    assert "1 value is text" in cli(*words, "--strict", code=INPUT)
    Path("people.csv").write_text("\n".join([head, lines[3]]) + "\n")
    assert run(words) == INPUT, "nobody is left to score"


def test_parties_score_together_as_the_model_does_in_one_place(trained: Project, cli: Cli) -> None:
    strangers(trained)
    joined("people.csv")
    alone = {
        line["id"]: line["predicted"]
        for line in cli.facts("predict run --rows people.csv --id customer")["scores"]
    }
    together = cli.facts("predict run/model.json job.toml")
    assert {line["id"]: line["predicted"] for line in together["scores"]} == alone
    assert "is the other parties' part of it" in together["statement"]


def test_people_that_a_model_was_trained_on_get_noisy_scores_or_none(
    trained: Project, cli: Cli, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["predict", "run", "job.toml"]) != 0
    assert "were trained on" in capsys.readouterr().err
    out = cli("predict run job.toml --epsilon 1")
    assert "They carry noise of a standard deviation of up to" in out and "Party bank learns at most" in out
    # Noise makes nobody certain: at this ε all that is said of people is close to not knowing.
    scored = cli.facts("predict run job.toml --epsilon 1")["scores"]
    chances = [float(value) for line in scored for name, value in line.items() if name.startswith("prob")]
    assert min(chances) > 0.05 and max(chances) < 0.95
    assert all(0.01 < float(line["± probability of low"]) <= 0.5 for line in scored)


def test_weights_that_stay_with_their_parties_score_public_people_only(project: Project, cli: Cli) -> None:
    project.edit("job.toml", '"moments"', '"intermediate"')
    assert train(project, "--output", "run") == 0
    assert not Path("run/model.json").exists()
    strangers(project)
    assert "no guarantee covers that" in cli("predict run job.toml", code=PLAN)
    for party in ("bank", "insurer"):
        project.edit(f"{party}.toml", 'dataset = "customers"', 'dataset = "customers"\npublic = true')
    assert run(["predict", "run", "job.toml"]) == 0
    assert run(["predict", "run", "--rows", "bank.csv"]) == INPUT
    assert "a part alone scores nobody" in cli("predict run/parties/bank.model.json job.toml", code=INPUT)


def test_a_model_apart_from_its_run_gives_no_exact_scores(trained: Project, cli: Cli) -> None:
    Path("elsewhere").mkdir()
    Path("run/model.json").rename("elsewhere/model.json")
    # The data set remembers the run, wherever its model lies.
    assert "400 of the 400 people to score were trained on" in cli(
        "predict elsewhere/model.json job.toml", code=REFUSED
    )
    for path in Path().glob("*.ledger.people.*.npz"):
        path.unlink()
    assert "is not known here" in cli("predict elsewhere/model.json job.toml", code=PLAN)


def test_exact_scores_stand_in_the_ledger_of_whose_part_they_disclose(trained: Project, cli: Cli) -> None:
    strangers(trained)
    assert run(["predict", "run", "job.toml"]) == 0
    out = cli("ledger insurer.toml")
    assert (
        "insurer's part of the exact scores of 400 people of 'customers' went to bank: no ε covers them"
        in out
    )
    assert "exact scores of 400" not in cli("ledger bank.toml").split("History")[0]


def test_weights_that_no_guarantee_covers_are_in_no_shared_file(project: Project) -> None:
    project.edit("job.toml", '"moments"', '"one-shot"')
    assert train(project, "--output", "run") == 0
    facts = json.loads(Path("run/facts.json").read_text())
    assert facts["learnt"]["split"] and facts["learnt"]["coefficients"] == []
    assert sorted(path.name for path in Path("run/parties").glob("*.model.json")) == ["bank.model.json"]
    assert not Path("run/model.json").exists()
