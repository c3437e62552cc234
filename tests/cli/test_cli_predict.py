"""`colonnade predict` and `export`: released models score anywhere, parties together; what discloses is refused."""

import csv
import json
import shutil
import stat
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import yaml
from cli_project import Cli, Project, train
from typed import untyped

from colonnade.cli.app import run
from colonnade.ledger import Ledger
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
    project.edit("job.toml", '"moments"', '"private-messages"')
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
    assert facts["model_facts"]["split"] and facts["model_facts"]["coefficients"] == []
    assert sorted(path.name for path in Path("run/parties").glob("*.model.json")) == ["bank.model.json"]
    assert not Path("run/model.json").exists()


FILES = ("bank", "insurer")


def named_by(project: Project, declared: str) -> None:
    for party in FILES:
        project.edit(f"{party}.schema.toml", 'id = "customer"', f"id = {declared}")


def exact(project: Project) -> int:
    return sum(release.exact for release in releases(project, "insurer"))


def releases(project: Project, party: str) -> list[Any]:
    from colonnade.ledger.release import Release

    entries = Ledger.open(project.path(f"{party}.ledger")).entries()
    return [Release.from_data(entry.body["release"]) for entry in entries if entry.kind == "charge"]


def only(project: Project, kept: range) -> None:
    for party in FILES:
        whole = project.path(f"{party}.whole")
        if not whole.exists():
            shutil.copy(project.path(f"{party}.csv"), whole)
        header, *rows = whole.read_text().splitlines()
        project.path(f"{party}.csv").write_text("\n".join([header, *(rows[n] for n in kept)]) + "\n")


@pytest.mark.parametrize(
    "declared",
    [
        '{column = "customer", case = "lower"}',
        '{column = "customer", case = "fold", unicode = "NFKC"}',
        '{column = "customer", trim = false}',
    ],
)
def test_ids_respelt_by_other_rules_get_no_exact_scores(trained: Project, cli: Cli, declared: str) -> None:
    named_by(trained, declared)
    said = cli("predict run job.toml", code=REFUSED)
    assert "people were trained on under ids of column 'customer' with trim = true, case = \"exact\"" in said
    assert "nobody can tell who of them was trained on" in said and "--epsilon" in said
    assert exact(trained) == 0
    # Noise covers whoever they are.
    assert run(["predict", "run", "job.toml", "--epsilon", "1"]) == 0


def test_people_of_one_training_get_no_exact_scores_by_the_model_of_another(
    project: Project, cli: Cli, capsys: pytest.CaptureFixture[str]
) -> None:
    only(project, range(200))
    assert train(project, "--output", "first") == 0
    only(project, range(200, 300))
    assert train(project, "--output", "second") == 0
    only(project, range(100, 200))
    capsys.readouterr()
    for model in ("first", "second", "second/model.json"):
        assert "100 of the 100 people to score were trained on" in cli(
            "predict", model, "job.toml", code=REFUSED
        )
    # Another name for the data set makes nobody another person.
    for party in FILES:
        project.edit(f"{party}.toml", 'dataset = "customers"', 'dataset = "visitors"')
    for model in ("first", "second"):
        assert run(["predict", model, "job.toml"]) == REFUSED
    only(project, range(300, 400))
    found = cli.facts("predict second job.toml")
    assert found["exact"] == 100 and "no ε covers them" in found["statement"]
    assert exact(project) == 100
    only(project, range(310, 400))
    assert "EXACT scores of 90 people were disclosed" in cli("predict second job.toml")


def test_the_lists_are_their_partys_own_and_a_damaged_one_is_found_before_anything_is_charged(
    trained: Project, cli: Cli
) -> None:
    lists = sorted(trained.folder.glob("*.ledger.people.*.npz"))
    assert [path.name.split(".")[0] for path in lists] == list(FILES)
    for path in (*lists, *trained.folder.glob("run/parties/*.people.npz")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    lists[0].write_bytes(lists[0].read_bytes()[:100])
    charged = trained.charges("insurer")
    assert f"{lists[0].name} does not hold the people" in cli("train job.toml --output again", code=INPUT)
    assert trained.charges("insurer") == charged


def test_a_run_is_exported_with_its_statement(trained: Project, cli: Cli) -> None:
    out = cli("export run --onnx model.onnx --card README.md --license mit")
    model = ModelFile.load(trained.path("run/model.json"))
    card = trained.path("README.md").read_text()
    front = yaml.safe_load(card.split("---")[1])
    assert (front["license"], "onnx" in front["tags"]) == ("mit", True)
    assert "model-index" not in front, "this data is not public"
    for sentence in str(model.privacy).splitlines():
        assert sentence in out and sentence in card
    running = onnxruntime.InferenceSession(trained.path("model.onnx"), providers=["CPUExecutionProvider"])
    people: dict[str, list[Any]] = {
        "age": [30.0, 80.0],
        "job": ["clerk", "nurse"],
        "claims": [1.0, 12.0],
        "smoker": ["no", "yes"],
    }
    given = {
        name: np.array(values, dtype=object if isinstance(values[0], str) else untyped(float)).reshape(-1, 1)
        for name, values in people.items()
    }
    label, probabilities = running.run(["label", "probabilities"], given)
    assert label.tolist() == untyped(model.estimator()).predict(people).tolist()
    assert np.allclose(probabilities, untyped(model.estimator()).predict_proba(people), atol=1e-12)
