"""`colonnade train` with people held out, and `colonnade evaluate`: private people, public rows, refusals."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from colonnade.cli.app import run
from colonnade.ledger import Ledger
from colonnade.models.files.linear_file import ModelFile

PEOPLE = 2400
JOB = """name = "who buys"
task = "classification"
parties = ["bank", "shop"]
active = "bank"
epsilon = 3.0
delta = 1e-5
"""


def write(folder: Path, *, first: int, people: int, job: str, ledgers: Path, classes: int = 2) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(first)
    age, spent = rng.uniform(-1, 1, (2, people))
    odds = 3.0 * age + 2.0 * spent + rng.logistic(size=people) * 0.6
    names = [f"c{first + number}" for number in range(people)]
    answer = np.where(odds > 0.4, "yes", "no")
    columns = {"id": names, "age": age.round(4), "spent": spent.round(4), "buys": answer}
    declared = '["no", "yes"]' if classes == 2 else '["no", "maybe", "yes"]'
    label = f'[label]\ncolumn = "buys"\nkind = "classes"\nclasses = {declared}\n'

    def keep(name: str, *wanted: str) -> None:
        rows = zip(*(columns[column] for column in wanted), strict=True)
        lines = [",".join(map(str, row)) for row in (wanted, *rows)]
        (folder / f"{name}.csv").write_text("\n".join([*lines, ""]))

    keep("bank", "id", "age", "buys")
    keep("shop", "id", "spent")
    keep("rows", "id", "age", "spent", "buys")
    for party, feature, own in (("bank", "age", label), ("shop", "spent", "")):
        (folder / f"{party}.schema.toml").write_text(
            f'id = "id"\ncolumns.{feature} = {{kind = "numeric", low = -1, high = 1}}\n{own}'
        )
        (folder / f"{party}.toml").write_text(
            f'party = "{party}"\ndata = "{party}.csv"\nschema = "{party}.schema.toml"\ndataset = "people"\n'
            f'ledger = "{ledgers / party}.ledger"\n[[budget]]\nepsilon = 20.0\ndelta = 1e-5\n'
        )
    path = folder / "job.toml"
    path.write_text(job)
    return path


def requested(*arguments: Any, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code = run([*map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out.strip().splitlines()[-1])


def totals(folder: Path) -> dict[tuple[str, str, str], float]:
    return {
        (name, total.unit, total.observer): total.epsilon
        for name in ("bank", "shop")
        for total in Ledger.open(folder / f"{name}.ledger").totals()
    }


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that held people out, with everything that lies about it."""
    folder = tmp_path_factory.mktemp("evaluate")
    text = f'{JOB}method = "margin"\nheld_out = 0.3\n'
    job = write(folder, first=0, people=PEOPLE, job=text, ledgers=folder)
    assert run(["train", str(job), "--output", str(folder / "run"), "--json"]) == 0
    return folder


def test_what_was_trained_is_judged_on_those_held_out_and_costs_nothing_more(trained: Path) -> None:
    facts = json.loads((trained / "run" / "facts.json").read_text())
    evaluated = facts["evaluated"]
    assert facts["rows"] + evaluated["people"] == PEOPLE
    # The truth is about 0.97; noise moves it by what is said.
    auc = evaluated["figures"]["AUC"]
    assert abs(auc["value"] - 0.965) < 5 * (auc["noise"] + auc["sampling"]) + 0.01
    assert evaluated["figures"]["accuracy"]["value"] > evaluated["figures"]["accuracy"]["baseline"] + 0.1
    stated = {(item["observer"], item["unit"]): item["epsilon"] for item in facts["guarantees"]}
    for (_, unit, observer), epsilon in totals(trained).items():
        if (observer, unit) in stated:
            assert epsilon == pytest.approx(stated[observer, unit])
    # Exact figures of its own columns are on the label holder's page and nowhere else.
    alone = "own columns alone would have"
    pages = {file.name: alone in file.read_text() for file in (trained / "run").rglob("*.html")}
    assert pages == {"bank.html": True, "shop.html": False, "report.html": False}


def test_runs_are_listed_with_their_score(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = requested("runs", trained / "run", capsys=capsys)
    assert found["runs"][0]["score"].startswith("AUC 0.9")
    card = trained / "card.md"
    assert run(["export", str(trained / "run"), "--card", str(card)]) == 0
    assert card.read_text().count("(data:image/svg+xml;base64,") == 4


def test_public_rows_are_judged_exactly_and_for_nothing(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, first=10_000, people=500, job=JOB, ledgers=tmp_path)
    before = totals(trained)
    rows = tmp_path / "rows.csv"
    code, found = requested("evaluate", trained / "run", "--rows", rows, "--label", "buys", capsys=capsys)
    assert code == 0 and found["exact"] and found["people"] == 500
    _, scored = requested("predict", trained / "run", "--rows", rows, capsys=capsys)
    chances = [float(line["probability of yes"]) for line in scored["scores"]]
    with rows.open() as file:
        truth = [line["buys"] == "yes" for line in csv.DictReader(file)]
    assert found["figures"]["AUC"]["value"] == pytest.approx(roc_auc_score(truth, chances), abs=1e-4)
    assert totals(trained) == before
    _, recall = requested(
        "evaluate", trained / "run", "--rows", rows, "--label", "buys", "-t", "recall=0.9", capsys=capsys
    )
    (_, _), (missed, right) = recall["confusion"]
    assert 0.9 <= right / (missed + right) < 0.92


def test_other_private_people_are_judged_charged_and_remembered(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write(tmp_path, first=50_000, people=900, job=JOB, ledgers=tmp_path)
    code, found = requested("evaluate", trained / "run", job, "--threshold", "balanced", capsys=capsys)
    assert code == 0, found
    assert found["people"] == 900 and not found["exact"] and len(found["guarantees"]) == 4
    assert json.loads(Path(found["kept"]).read_text())["figures"]["AUC"]["noise"] > 0
    spent = totals(tmp_path)
    assert 2.0 < max(spent.values()) < 8.0
    # Exact scores of those judged would show more of them than was promised.
    code, refused = requested("predict", trained / "run", job, capsys=capsys)
    assert code != 0 and refused["error"]["kind"] == "TrainedOn"


REFUSED = {
    "--rows rows.csv": "--rows needs --label",
    "--rows rows.csv --label buys --epsilon 1": "--epsilon is for a JOB",
    "--rows rows.csv --label sold": "rows.csv has no column 'sold'",
    "--rows rows.csv --label age": "",
    "--rows rows.csv --label buys --threshold best": "rules are balanced",
    "": "give a JOB, or --rows FILE",
    "few/job.toml --threshold recall=7": "rules are balanced",
    "few/job.toml": "40 people to evaluate on are too few",
    "three/job.toml": "declared otherwise than the one that the model predicts",
    "again/job.toml": "were trained on: their figures would be too good",
}


def test_what_cannot_be_judged_is_named_and_nothing_is_charged(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, first=90_000, people=40, job=JOB, ledgers=tmp_path)
    write(tmp_path / "few", first=91_000, people=40, job=JOB, ledgers=tmp_path)
    write(tmp_path / "three", first=92_000, people=40, job=JOB, ledgers=tmp_path, classes=3)
    write(tmp_path / "again", first=0, people=60, job=JOB, ledgers=tmp_path)
    for arguments, said in REFUSED.items():
        code, found = requested("evaluate", trained / "run", *arguments.split(), capsys=capsys)
        assert code in (2, 3, 4, 5) and said in found["error"]["message"], found
        for path in tmp_path.glob("*.ledger"):
            assert not Ledger.open(path).totals()


def test_too_few_to_judge_on_are_refused_before_training_is_paid_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f'{JOB}method = "moments"\nheld_out = 0.05\n'
    job = write(tmp_path, first=0, people=600, job=text, ledgers=tmp_path)
    code, found = requested("train", job, "--output", tmp_path / "run", capsys=capsys)
    assert code == 4 and "people would do" in found["error"]["message"], found
    # A twentieth of 600, and not a nineteenth, as of people of whom nobody is held out any more.
    assert ": 30 people to evaluate on are too few" in found["error"]["message"], found
    assert not Ledger.open(tmp_path / "bank.ledger").totals()


def test_a_job_takes_weights_and_a_threshold_by_rule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f'{JOB}method = "moments"\nheld_out = 0.4\n[options]\nclass_weight = {{yes = 4.0}}\n'
    job = write(tmp_path, first=0, people=2000, job=f'{text}threshold = "recall=0.9"\n', ledgers=tmp_path)
    code, facts = requested("train", job, "--output", tmp_path / "run", capsys=capsys)
    assert code == 0, facts
    (_, _), (missed, right) = facts["evaluated"]["confusion"]
    assert 0.88 < right / (missed + right) < 0.92
    model = ModelFile.load(tmp_path / "run" / "model.json")
    assert model.threshold == pytest.approx(facts["evaluated"]["threshold"]) != 0.5
    notes = " ".join(facts["notes"])
    assert "Class weights: no 1, yes 4." in notes
    said = re.search(r"The threshold is (\S+) ± (\S+): threshold = 'recall=0.9', read from", notes)
    # No more digits than its error has.
    assert said and float(said[2]) > 0 and len(said[1]) <= len(said[2]) == len(said[2].rstrip("0")), notes
    assert json.loads((tmp_path / "run" / "facts.json").read_text())["requested"]["options"]["threshold"]


def test_another_share_and_other_columns_are_refused_and_nothing_is_charged(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = totals(trained)
    job = write(tmp_path, first=0, people=PEOPLE, job=f"{JOB}held_out = 0.25\n", ledgers=trained)
    code, found = requested("evaluate", trained / "run", job, capsys=capsys)
    assert code == 4 and "was cut at 0.3 before" in found["error"]["message"], found
    assert "Write held_out = 0.3" in found["error"]["message"]
    job = write(tmp_path / "other", first=70_000, people=900, job=JOB, ledgers=tmp_path)
    shop, bank = (tmp_path / "other" / f"{party}.schema.toml" for party in ("shop", "bank"))
    declared = shop.read_text()
    shop.write_text(declared.replace("high = 1", "high = 2"))
    code, found = requested("evaluate", trained / "run", job, capsys=capsys)
    assert code == 3 and "shop: the model reads spent" in found["error"]["message"], found
    shop.write_text(declared)
    bank.write_text(bank.read_text().split("[label]")[0])
    code, found = requested("evaluate", trained / "run", job, capsys=capsys)
    assert code in (3, 4) and "label" in found["error"]["message"], found
    assert totals(trained) == before
    assert not (tmp_path / "bank.ledger").exists() or not Ledger.open(tmp_path / "bank.ledger").totals()
