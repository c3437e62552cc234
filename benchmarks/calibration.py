"""How good probabilities from one private release are, through the real protocol.

    python benchmarks/calibration.py --data FOLDER --json

FOLDER holds the public files named below. Two parties and a server, δ = 1e-5, two classes, mean over 80/20 splits with
one release each. Prints one JSON object on its last line, with an entry for each set and ε: ``log_loss``, ``brier`` and
``calibration_error`` (mean distance of probability and frequency over ten bins of equal size) of `LogisticRegression`
on people it has not seen; the same three for the best straight line in the log-odds, found by looking at the test
labels (``recalibrated``), for the share of the class in the release (``constant``), and for the rule of version 0.1
(``before``: normal classes, crossing where least squares passes one half); ``auc``; and ``accuracy`` of cuts:
``half`` is least squares at one half, ``shares`` predicts as many people as the release counts in the class,
``best`` is the best cut in hindsight. Constants of the rule were not chosen on any of these sets: it has none.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from public_data import (
    PublicSet,
    Split,
    acs_income_texas,
    adult,
    credit,
    give_credit,
    kdd_probes,
    phishing,
    thinned,
)
from scipy.special import expit, log_expit
from scipy.stats import rankdata

from colonnade import Federation, LogisticRegression
from colonnade.models.discriminant import binary_score

DELTA = 1e-5
BUDGET = (100.0, DELTA)
BINS = 10
Array = NDArray[np.float64]
ADULT = ("adult_train.parquet", "adult_test.parquet")
ACS = ("acs_income_2018.parquet",)
SETS: dict[str, tuple[Callable[[Path], PublicSet], tuple[str, ...]]] = {
    "adult": (adult, ADULT),
    "credit": (credit, ("uci_default_credit_card.parquet",)),
    "phishing": (phishing, ("phishing_websites.parquet",)),
    "acs_tx": (acs_income_texas, ACS),
    "give_credit": (give_credit, ("fate_give_credit_homo_test.parquet",)),
    "acs_tx_rare": (lambda folder: thinned(acs_income_texas(folder), 0.066), ACS),
    "acs_tx_rarer": (lambda folder: thinned(acs_income_texas(folder), 0.02), ACS),
    "adult_rare": (lambda folder: thinned(adult(folder), 0.05), ADULT),
    "kdd_probes": (kdd_probes, ("kddcup99_10_percent.parquet",)),
}


def evaluated(odds: Array, announced: NDArray[np.bool_]) -> dict[str, float]:
    """Log-loss, Brier score and calibration error of log-odds."""
    chances = expit(odds)
    order = np.argsort(chances, kind="stable")
    gaps = [
        abs(float(chances[part].mean() - announced[part].mean())) * len(part)
        for part in np.array_split(order, BINS)
    ]
    return {
        "log_loss": float(-np.mean(log_expit(np.where(announced, odds, -odds)))),
        "brier": float(np.mean((chances - announced) ** 2)),
        "calibration_error": sum(gaps) / len(announced),
    }


def recalibrated(odds: Array, announced: NDArray[np.bool_]) -> Array:
    """The log-odds of a logistic regression of the labels on these log-odds."""
    spread = float(odds.std()) or 1.0
    rows, line = np.column_stack([odds / spread, np.ones_like(odds)]), np.array([spread, 0.0])

    def loss(tried: Array) -> float:
        return float(-np.mean(log_expit(np.where(announced, 1.0, -1.0) * (rows @ tried))))

    for _ in range(60):
        chances = expit(rows @ line)
        bend = (rows.T * (chances * (1 - chances))) @ rows + 1e-9 * np.eye(2)
        step = np.linalg.solve(bend, rows.T @ (chances - announced))
        while loss(line - step) > loss(line) and np.abs(step).max() > 1e-9:
            step /= 2
        line = line - step
    return np.asarray(rows @ line)


def measured(_data: PublicSet, split: Split, epsilon: float) -> dict[str, Any]:
    """All figures of one release."""
    release = Federation(split.tables, budget=BUDGET).moments(
        task="classification", epsilon=epsilon, delta=DELTA, accepted_delta=DELTA
    )
    model = LogisticRegression().fit(release)
    announced = split.test_labels.astype(str) == str(release.label.classes[1])
    odds = model.decision_function(split.test_rows)
    score = binary_score(release.class_moments())
    share, explained = score.share, min(score.explained / score.gain, 0.95)
    fitted = share + (release.features(split.test_rows) @ score.weights + score.offset - share) / score.gain
    before = (fitted - 0.5) / (share * (1 - share) * (1 - explained))

    def right(cut: float) -> float:
        return float(np.mean((fitted > cut) == announced))

    ranks = rankdata(odds)
    auc = (ranks[announced].sum() - announced.sum() * (announced.sum() + 1) / 2) / (
        announced.sum() * (~announced).sum()
    )
    return {
        **evaluated(odds, announced),
        "recalibrated": evaluated(recalibrated(odds, announced), announced),
        "constant": evaluated(np.full(len(announced), math.log(share / (1 - share))), announced),
        "before": evaluated(before, announced),
        "auc": float(auc),
        "share": share,
        "explained": score.explained,
        "accuracy": {
            "rule": float(np.mean((odds > 0) == announced)),
            "half": right(0.5),
            "shares": right(float(np.quantile(fitted, 1 - share))),
            "best": max(right(float(cut)) for cut in np.quantile(fitted, np.linspace(0, 1, 401))),
            "constant": float(max(announced.mean(), 1 - announced.mean())),
        },
    }


def mean_of(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The mean of every figure."""
    return {
        key: mean_of([run[key] for run in runs])
        if isinstance(value, dict)
        else round(statistics.mean(run[key] for run in runs), 5)
        for key, value in runs[0].items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="the folder with the data sets")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0])
    parser.add_argument("--only", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    arguments = parser.parse_args()
    for name in arguments.only:
        for file in SETS[name][1]:
            if arguments.data is None or not (arguments.data / file).is_file():
                parser.error(f"{name} needs {file} in the folder given with --data")
    found: dict[str, Any] = {}
    for name in arguments.only:
        data = SETS[name][0](arguments.data)
        for epsilon in arguments.epsilon:
            runs = [measured(data, data.split(2, number), epsilon) for number in range(arguments.splits)]
            made = found[f"{name}_eps{epsilon:g}"] = mean_of(runs)
            print(
                f"{name} ε = {epsilon:g}: share {made['share']:.3f}, R² {made['explained']:.3f}; log-loss "
                f"{made['log_loss']:.4f} (recalibrated {made['recalibrated']['log_loss']:.4f}, constant "
                f"{made['constant']['log_loss']:.4f}, before {made['before']['log_loss']:.4f}); accuracy "
                f"{made['accuracy']['rule']:.4f} (at one half {made['accuracy']['half']:.4f}, equal shares "
                f"{made['accuracy']['shares']:.4f}, best {made['accuracy']['best']:.4f})",
                file=sys.stderr,
                flush=True,
            )
    print(json.dumps(found) if arguments.json else json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
