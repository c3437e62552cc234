"""Networks judged by scores with noise: no total grows, figures are those of the scores, coalitions are refused."""

from typing import Any

import numpy as np
import pytest

from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.errors import PlanError
from colonnade.evaluation import evaluate
from colonnade.evaluation.evaluate import Evaluation
from colonnade.evaluation.held_out import evaluate_trained, refuse_before_training
from colonnade.evaluation.predict import Scores, read_scores
from colonnade.federation.federation import Federation, Hooks
from colonnade.federation.job import Job
from colonnade.federation.train import result_for

pytest.importorskip("torch")

PEOPLE = 240
NAMES = {"three": ("low", "middle", "high"), "two": ("low", "high")}
SMALL = "embedding = 2\nepochs = 1\n"


def federation(owners: str, label: str) -> tuple[Federation, dict[str, Any]]:
    """Owners of one column each about the same people, the first with the label; and everybody's label."""
    rng = np.random.default_rng(7)
    ids = [f"p{number}" for number in range(PEOPLE)]
    values = rng.uniform(0, 9, PEOPLE).round(3) if label == "number" else rng.choice(NAMES[label], PEOPLE)
    kind = f'kind = "classes"\nclasses = {list(NAMES.get(label, ()))}'
    kind = 'kind = "real"\nlow = 0\nhigh = 9' if label == "number" else kind
    tables = []
    for owner in owners:
        columns: dict[str, Any] = {"id": np.array(ids), f"x{owner}": rng.uniform(-1, 1, PEOPLE)}
        text = f'id = "id"\ncolumns.x{owner} = {{kind = "numeric", low = -1, high = 1}}\n'
        if owner == owners[0]:
            columns["y"] = values
            text += f'[label]\ncolumn = "y"\n{kind}\n'
        tables.append(Table.from_arrays(owner, columns, Schema.parse(text)))
    made = Federation(tables, budget=(50.0, 1e-5), held_out=0.4)
    return made, dict(zip(ids, values, strict=True))


def job(owners: str, label: str, options: str) -> Job:
    task = "regression" if label == "number" else "classification"
    return Job.parse(
        f'name = "n"\ntask = "{task}"\nmethod = "network"\nparties = {list(owners)}\nactive = "a"\nepsilon = 3.0\n'
        f"delta = 1e-5\nheld_out = 0.4\n[options]\n{options}"
    )


@pytest.mark.parametrize(
    ("owners", "label", "options"),
    [
        ("ab", "number", SMALL),
        ("abc", "three", SMALL),
        ("ab", "two", f'{SMALL}regime = "private-local"\n'),
        pytest.param("abc", "two", f'{SMALL}regime = "private-local"\n', marks=pytest.mark.slow),
        ("ab", "two", f'{SMALL}mechanism = "local-gaussian"\n'),
    ],
)
def test_no_total_grows_and_figures_are_those_of_the_scores(
    monkeypatch: pytest.MonkeyPatch, owners: str, label: str, options: str
) -> None:
    seen: list[Scores] = []

    def kept(*arguments: Any, **named: Any) -> Scores:
        seen.append(read_scores(*arguments, **named))
        return seen[-1]

    monkeypatch.setattr(evaluate, "read_scores", kept)
    made, answers = federation(owners, label)
    requested = job(owners, label, options)

    def totals() -> dict[tuple[str, str, str], float]:
        return {
            (party, total.observer, total.unit): total.epsilon
            for party, ledger in made.ledgers.items()
            for total in ledger.totals()
        }

    found = result_for(requested, made)
    before = totals()
    evaluated = evaluate_trained(requested, made, found, made.runs[-1])
    assert isinstance(evaluated, Evaluation) and evaluated.estimate is not None, evaluated
    assert totals() == pytest.approx(before) and before
    truth = [answers[person] for person in seen[0].ids]
    figures = evaluated.estimate.figures
    if label == "number":
        assert figures["RMSE"].value == pytest.approx(np.sqrt(np.mean((seen[0].values[:, 0] - truth) ** 2)))
    else:
        right = np.array(NAMES[label])[seen[0].values.argmax(axis=1)] == truth
        assert figures["accuracy"].value == pytest.approx(float(right.mean()))


def test_coalitions_for_which_no_score_is_stated_are_refused_before_anything_is_charged() -> None:
    made, _ = federation("abc", "two")
    requested = job("abc", "two", f'{SMALL}coalitions = [["a", "b"]]\n')
    made = made.with_hooks(Hooks(asks=refuse_before_training(requested)))
    with pytest.raises(PlanError, match=r"no statement covers .* coalitions .* Nothing was charged"):
        result_for(requested, made)
    assert not any(ledger.totals() for ledger in made.ledgers.values())
