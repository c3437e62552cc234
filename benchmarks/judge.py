"""How near a judgement on private people is to the truth, through the real protocol.

    python benchmarks/judge.py --data FOLDER --json

FOLDER holds the public files of Adult, of default of credit card clients, and of give me some credit. Two parties and a
server, ε = 1, δ = 1e-5, 20 % of the people held out: a model is trained on the others and judged on these, both by
their protocols, with a key of its own for every draw. Prints one JSON object on its last line: the mean absolute
difference to the exact figure on the same people (``auc_error_adult``, ``auc_error_credit``, ``accuracy_error_adult``
and more); ``logloss_over_best_recalibration``, the log-loss on the held-out people of probabilities recalibrated by the
judgement, over that of the best recalibration of these people, on give me some credit, where 6.7 % are of one class;
and ``extra_epsilon``, the largest increase of any total by judging, over all parties, observers and units but columns.
Of three classes, the marital status of Adult from its other columns: ``auc_error_marital`` and
``rest_accuracy_error_marital``, of each class against the rest. Of numbers, its weekly hours: ``rmse_error_hours`` and
``mae_error_hours``, as shares of the exact figures, and ``r2_error_hours``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from public_data import PublicSet, adult, credit, give_credit

from colonnade import Federation, LinearRegression, LogisticRegression
from colonnade.data.labels import ClassLabel, RealLabel
from colonnade.evaluation.estimates import (
    ClassEstimate,
    NumberEstimate,
    ScoreDistribution,
    TwoClassEstimate,
    estimate_classes,
    estimate_numbers,
    estimate_two_classes,
    losses,
    recalibration,
)
from colonnade.evaluation.evaluate import Evaluation, Price, evaluate_jointly
from colonnade.evaluation.predict import Stored
from colonnade.federation.train import joined_rows
from colonnade.models.files.linear_file import model_file
from colonnade.protocols.plans import Task

Rows = np.ndarray[Any, Any]

DELTA = 1e-5


def hours(folder: Path) -> PublicSet:
    """Adult with the hours that people work in a week as the label, 1 to 99, and their income left out."""
    data = adult(folder)
    columns = tuple(column for column in data.columns if column.name != "hours_per_week")
    rows = {name: values for name, values in data.rows.items() if name != "hours_per_week"}
    labels = np.array([float(value) for value in data.rows["hours_per_week"]])
    return PublicSet(columns, RealLabel("hours_per_week", 1, 99), rows, labels)


def marital(folder: Path) -> PublicSet:
    """Adult with being married, never married or something else as the label."""
    data = adult(folder)
    columns = tuple(column for column in data.columns if column.name != "marital_status")
    rows = {name: values for name, values in data.rows.items() if name != "marital_status"}
    named = {"Married-civ-spouse": "married", "Never-married": "never"}
    labels = np.array([named.get(str(value), "other") for value in data.rows["marital_status"]])
    return PublicSet(columns, ClassLabel("marital_status", ("married", "never", "other")), rows, labels)


FIGURES = {"AUC": "auc", "accuracy": "accuracy", "log-loss": "logloss", "average precision": "precision"}
SETS: dict[str, tuple[Callable[[Path], PublicSet], tuple[str, ...]]] = {
    "adult": (adult, ("adult_train.parquet", "adult_test.parquet")),
    "credit": (credit, ("uci_default_credit_card.parquet",)),
    "skewed": (give_credit, ("fate_give_credit_homo_test.parquet",)),
    "marital": (marital, ("adult_train.parquet", "adult_test.parquet")),
    "hours": (hours, ("adult_train.parquet", "adult_test.parquet")),
}


def draw(data: PublicSet, *, epsilon: float, held_out: float) -> dict[str, float]:
    """One training and one judgement: how far each figure is off, and what judging added to any total."""
    everybody = np.arange(len(data.labels))
    federation = Federation(data.tables(2, everybody), budget=(100.0, DELTA), held_out=held_out)
    numbers = isinstance(data.label, RealLabel)
    task: Task = "regression" if numbers else "classification"
    release = federation.moments(task=task, epsilon=epsilon, delta=DELTA)
    model = (LinearRegression() if numbers else LogisticRegression()).fit(release)
    before = totals(federation)
    stored = Stored(model_file(model, method="moments", run=release.run), {}, {})
    evaluated = evaluate_jointly(federation, stored, Price.of_training(federation.runs[-1].plan, epsilon))
    after = totals(federation)
    rows, labels = joined_rows(evaluated.run.aligned, model.frame_)
    if isinstance(evaluated.estimate, ClassEstimate):
        found = off_several(evaluated.estimate, model, rows, labels)
    else:
        found = (off_numbers if numbers else off_classes)(evaluated, model, rows, labels)
    found["extra"] = max(
        after[key] - before.get(key, 0.0) for key in after if not key[1].startswith("columns")
    )
    found["people"] = float(len(labels))
    return found


def off_numbers(evaluated: Evaluation, model: Any, rows: Rows, labels: Rows) -> dict[str, float]:
    """How far RMSE, MAE and R² are off, the first two as shares of the exact ones."""
    judgement = evaluated.estimate
    if not isinstance(judgement, NumberEstimate):
        raise TypeError("this set has a number to predict")
    exact = estimate_numbers(rows @ model.coef_ + model.intercept_, labels, label="hours").figures
    off = {name: abs(judgement.figures[name].value - exact[name].value) for name in exact}
    return {
        "rmse_error": off["RMSE"] / exact["RMSE"].value,
        "mae_error": off["MAE"] / exact["MAE"].value,
        "r2_error": off["R²"],
        "rmse": exact["RMSE"].value,
        "stated": judgement.figures["RMSE"].noise / exact["RMSE"].value,
    }


def off_several(judgement: ClassEstimate, model: Any, rows: Rows, labels: Rows) -> dict[str, float]:
    """How far figures of each of several classes against the rest are off, and how far accuracy is said to be."""
    names = tuple(str(name) for name in model.classes_)
    codes = np.array([names.index(str(label)) for label in labels])
    exact = estimate_classes(model.decision_function(rows), codes, names=names, chances=True).figures
    off = {name: abs(figure.value - exact[name].value) for name, figure in judgement.figures.items()}
    return {
        "auc_error": off["AUC"],
        "rest_accuracy_error": off["accuracy against the rest"],
        "accuracy": exact["accuracy"].value,
        "stated": judgement.figures["accuracy against the rest"].noise,
    }


def off_classes(evaluated: Evaluation, model: Any, rows: Rows, labels: Rows) -> dict[str, float]:
    """How far figures of two classes are off, and what recalibration is worth."""
    judgement = evaluated.estimate
    if not isinstance(judgement, TwoClassEstimate):
        raise TypeError("these sets have two classes")
    scores = model.decision_function(rows)
    classes = (labels == model.classes_[1]).astype(np.int64)
    names = (str(model.classes_[0]), str(model.classes_[1]))
    exact = estimate_two_classes(scores, classes, names=names, threshold=0.0, chances=True)
    found = {
        f"{short}_error": abs(judgement.figures[name].value - exact.figures[name].value)
        for name, short in FIGURES.items()
    }
    best = recalibration(ScoreDistribution.of(scores, classes))
    found["recalibrated"] = log_loss(scores, classes, judgement.recalibration) / log_loss(
        scores, classes, best
    )
    found["auc"] = exact.figures["AUC"].value
    found["stated"] = judgement.figures["AUC"].noise
    return found


def totals(federation: Federation) -> dict[tuple[str, str, str], float]:
    """ε of every account of every party."""
    return {
        (party, total.unit, total.observer): total.epsilon
        for party in federation.tables
        for total in federation.ledgers[party].totals()
    }


def log_loss(scores: np.ndarray[Any, Any], classes: np.ndarray[Any, Any], by: tuple[float, float]) -> float:
    """The log-loss of probabilities recalibrated so."""
    first, second = losses(by[0] * scores + by[1])["log-loss"]
    return float(np.where(classes == 1, second, first).mean())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="the folder with the data sets")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--held-out", type=float, default=0.2)
    parser.add_argument("--only", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    arguments = parser.parse_args()
    for name in arguments.only:
        for file in SETS[name][1]:
            if arguments.data is None or not (arguments.data / file).is_file():
                sys.exit(f"judge.py needs --data FOLDER with {file}; --only NAME ... leaves sets out")
    figures: dict[str, float] = {}
    extra: list[float] = []
    started = time.perf_counter()
    for name in arguments.only:
        data = SETS[name][0](arguments.data)
        runs = [
            draw(data, epsilon=arguments.epsilon, held_out=arguments.held_out) for _ in range(arguments.draws)
        ]
        for field in runs[0]:
            values = [run[field] for run in runs]
            if field == "extra":
                extra += values
            elif field == "recalibrated":
                key = "logloss_over_best_recalibration"
                figures[key if name == "skewed" else f"{key}_{name}"] = statistics.mean(values)
            else:
                figures[f"{field}_{name}"] = statistics.mean(values)
        print(
            f"{time.perf_counter() - started:6.0f} s  {name}: {len(runs)} draws", file=sys.stderr, flush=True
        )
    figures["extra_epsilon"] = max(extra)
    if not arguments.json:
        for key, value in figures.items():
            print(f"{key}: {value:.5f}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
