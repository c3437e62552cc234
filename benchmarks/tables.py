"""Tables, matched logistic regression and boosted trees from releases of public data, through the real protocol.

    python benchmarks/tables.py --data FOLDER --json

FOLDER holds the public files named below. Two parties and a server, δ = 1e-5, ε = 1, every number in 16 ordered bins of
one width between its declared bounds, so that no edge knows the data; means over five 80/20 splits, on people who were
held out. Prints one JSON object on its last line:

``adult_lr_on_table_auc``   scikit-learn's logistic regression on 50,000 synthetic people of a plain release
``adult_matched_accuracy``  ``LogisticRegression(rule="matched")`` of the same release; ``credit_matched_accuracy`` too
``adult_trees_auc``         ``GradientBoostedTrees`` from a class-conditional release, a second one at the same ε
``mean_pair_tv``            mean total variation between pairs of columns of the table and of the people of the release
``fit_seconds``             processor time of one fit, the least of all
``extra_epsilon``           what the ledgers were charged for tables and models beyond the release

``--rules`` prints instead by how much the matched rule is better than least squares on sets that no figure is of.
``--blocks`` prints what trees lose where the other owner's columns are not told apart by class, and what that saves.
``--study`` adds the other sets and ε = 0.5 and 4, and what plain rules do on them. Progress goes to standard error.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from public_data import (
    PublicSet,
    Split,
    acs_income,
    acs_income_texas,
    adult,
    binned,
    credit,
    give_credit,
    kdd_probes,
    phishing,
)
from scipy.special import log_expit
from sklearn.linear_model import LogisticRegression as Central
from sklearn.metrics import roc_auc_score

from colonnade import Federation, LogisticRegression
from colonnade.data.coding import code
from colonnade.data.kinds import Column, DateColumn, NumericColumn
from colonnade.data.labels import ClassLabel, LabelBlock
from colonnade.models.fitting import strength_of
from colonnade.models.release import MomentRelease
from colonnade.models.trees import GradientBoostedTrees
from colonnade.planning.cost import Cost

DELTA = 1e-5
BUDGET = (100.0, DELTA)
ROWS = 50_000
FILES = {
    "adult": (adult, ("adult_train.parquet", "adult_test.parquet")),
    "credit": (credit, ("uci_default_credit_card.parquet",)),
    "phishing": (phishing, ("phishing_websites.parquet",)),
    "acs_tx": (acs_income_texas, ("acs_income_2018.parquet",)),
}
Array = np.ndarray[Any, Any]
# Figures of Adult at ε = 1 that stand by themselves, and what is taken over splits.
WHOLE: dict[str, Callable[[list[float]], float]] = {
    "mean_pair_tv": statistics.mean,
    "fit_seconds": min,
    "extra_epsilon": max,
}


def released(split: Split, epsilon: float, *, conditional: bool = False) -> tuple[MomentRelease, Federation]:
    """One release, and whose ledgers paid for it."""
    federation = Federation(split.tables, budget=BUDGET)
    release = federation.moments(
        task="classification", epsilon=epsilon, delta=DELTA, accepted_delta=DELTA, conditional=conditional
    )
    return release, federation


def spent(federation: Federation) -> float:
    """What all accounts of all parties' ledgers hold together, those aside of which nothing is bounded."""
    totals = [total.epsilon for ledger in federation.ledgers.values() for total in ledger.totals()]
    return sum(epsilon for epsilon in totals if math.isfinite(epsilon))


def evaluated(scores: Array, truth: Array) -> tuple[float, float]:
    """Accuracy at one half, and AUC."""
    return float(((scores > 0) == truth).mean()), float(roc_auc_score(truth, scores))


def pair_distance(table: Any, rows: dict[str, Array], columns: tuple[Column, ...]) -> float:
    """The mean total variation of pairs of columns."""
    coded = [
        (code(table[c.name], c).values, code(rows[c.name], c).values, len(c.levels))
        for c in columns
        if not isinstance(c, NumericColumn | DateColumn)
    ]
    found = []
    for (a, b, k), (c, d, m) in combinations(coded, 2):
        ours, theirs = (np.bincount(x * m + y, minlength=k * m) for x, y in ((a, c), (b, d)))
        found.append(0.5 * np.abs(ours / ours.sum() - theirs / theirs.sum()).sum())
    return float(np.mean(found))


def on_table(release: MomentRelease, table: Any, label: str, rows: Any) -> Array:
    """Scores of people by logistic regression on a table, with the ridge of the matched rule."""
    scale = np.sqrt(release.attributes)
    noise = release.noise / release.border / release.rows * scale
    model = Central(C=1.0 / (len(table) * noise), max_iter=500)
    model.fit(release.features(table) * scale, table[label] == release.label.classes[1])
    return np.asarray(model.decision_function(release.features(rows) * scale))


def measured(
    name: str, data: PublicSet, splits: int, epsilon: float, *, trees: bool
) -> dict[str, list[float]]:
    """Every figure of one set at one ε, split by split."""
    found: dict[str, list[float]] = defaultdict(list)
    for number in range(splits):
        split = data.split(2, number)
        truth = np.asarray(split.test_labels.astype(str) == LabelBlock(data.label).classes[1])
        release, federation = released(split, epsilon)
        before = spent(federation)
        started = time.process_time()
        model = release.table_model()
        found["fit_seconds"].append(time.process_time() - started)
        table = model.draw(ROWS, seed=number)
        models = {
            "least_squares": LogisticRegression(rule="least-squares").fit(release),
            "matched": LogisticRegression(rule="matched").fit(release),
            "default": LogisticRegression().fit(release),
        }
        scores = {kind: one.decision_function(split.test_rows) for kind, one in models.items()}
        scores["lr_on_table"] = on_table(release, table, data.label.column, split.test_rows)
        found["mean_pair_tv"].append(pair_distance(table, split.train_rows, data.columns))
        found["extra_epsilon"].append(spent(federation) - before)
        if trees:
            by_class, _ = released(split, epsilon, conditional=True)
            scores["trees"] = GradientBoostedTrees().fit(by_class).decision_function(split.test_rows)
        for kind, given in scores.items():
            accuracy, auc = evaluated(given, truth)
            found[f"{kind}_accuracy"].append(accuracy)
            found[f"{kind}_auc"].append(auc)
        said = ", ".join(f"{key} {values[-1]:.4f}" for key, values in found.items())
        print(f"{name} ε = {epsilon:g}, split {number}: {said}", file=sys.stderr, flush=True)
    return found


def asked_instead(data: PublicSet, column: str) -> PublicSet:
    """The same people, asked whether a column has its first level."""
    requested = next(one for one in data.columns if one.name == column)
    level = requested.levels[0] if not isinstance(requested, NumericColumn | DateColumn) else ""
    labels = np.where(data.rows[column].astype(str) == level, "first", "other")
    left = tuple(one for one in data.columns if one.name != column)
    rows = {one.name: data.rows[one.name] for one in left}
    return PublicSet(left, ClassLabel(column, ("first", "other")), rows, labels)


def kept_apart(folder: Path) -> dict[str, PublicSet]:
    """Sets that no figure of the study is of: where the rule's default is chosen."""
    colorado, hawaii = acs_income(folder, "CO"), acs_income(folder, "HI")
    return {
        "colorado income": colorado,
        "colorado sex": asked_instead(colorado, "SEX"),
        "colorado married": asked_instead(colorado, "MAR"),
        "hawaii income": hawaii,
        "give credit": give_credit(folder),
        "probes": kdd_probes(folder),
    }


def compared_rules(folder: Path, splits: int) -> None:
    """By how much the matched rule is better than least squares, and how the classes stand out of the noise."""
    for name, data in kept_apart(folder).items():
        people = binned(data)
        for epsilon in (0.05, 0.1, 0.2, 0.5, 1.0):
            found: dict[str, list[float]] = defaultdict(list)
            for number in range(splits):
                split = people.split(2, number)
                truth = np.asarray(split.test_labels.astype(str) == LabelBlock(people.label).classes[1])
                release, _ = released(split, epsilon)
                found["strength"].append(strength_of(release.margins()))
                odds = {
                    rule: LogisticRegression(rule=rule).fit(release).decision_function(split.test_rows)
                    for rule in ("matched", "least-squares")
                }
                accuracy, auc = zip(*(evaluated(one, truth) for one in odds.values()), strict=True)
                losses = [float(-np.mean(log_expit(np.where(truth, one, -one)))) for one in odds.values()]
                found["accuracy"].append(accuracy[0] - accuracy[1])
                found["auc"].append(auc[0] - auc[1])
                found["log-loss saved"].append(losses[1] - losses[0])
            said = ", ".join(f"{key} {statistics.mean(values):+.4f}" for key, values in found.items())
            print(f"{name} ε = {epsilon:g}: {said}", flush=True)


def without_block(release: MomentRelease, party: str) -> MomentRelease:
    """The release as it were without a resharing: the columns of this party together, and not by class.

    What is left says how the classes' means differ in them; within a class they are taken to vary as they do in both.
    """
    size = release.matrix.shape[0] // 2
    start, mine = 0, slice(0, 0)
    for owner, encoder in release.encoders:
        mine = slice(start, start + encoder.width) if owner == party else mine
        start += encoder.width
    matrix = release.matrix.astype(np.float64)
    constant = release.label.constant(release.gamma)
    blocks = [matrix[kind * size : (kind + 1) * size, kind * size : (kind + 1) * size] for kind in (0, 1)]
    counts = [block[-1, -1] / constant**2 for block in blocks]
    sums = [block[mine, -1] / constant for block in blocks]
    means = [np.outer(each, each) / count for each, count in zip(sums, counts, strict=True)]
    within = (sum(block[mine, mine] for block in blocks) - sum(means)) / sum(counts)
    for block, count, mean in zip(blocks, counts, means, strict=True):
        block[mine, mine] = count * within + mean
    return replace(release, matrix=np.rint(matrix).astype(np.int64))


def compared_blocks(folder: Path, splits: int) -> None:
    """What trees lose where no product is reshared, and what the resharing costs."""
    for name in ("adult", "phishing"):
        data = binned(FILES[name][0](folder))
        found: dict[str, list[float]] = defaultdict(list)
        for number in range(splits):
            split = data.split(2, number)
            truth = np.asarray(split.test_labels.astype(str) == LabelBlock(data.label).classes[1])
            release, federation = released(split, 1.0, conditional=True)
            sent = Cost.of(federation.runs[-1].outcome, seconds=0.0).sent
            found["bytes"].append(sum(sent.values()))
            found["bytes of the resharing"].append(
                sum(size for (_, _, step), size in sent.items() if step.startswith("classes"))
            )
            other = next(owner for owner, _ in release.encoders if owner != federation.group.active)
            for kind, one in (("", release), (" without it", without_block(release, other))):
                scores = GradientBoostedTrees().fit(one).decision_function(split.test_rows)
                accuracy, auc = evaluated(scores, truth)
                found[f"accuracy{kind}"].append(accuracy)
                found[f"auc{kind}"].append(auc)
        said = ", ".join(f"{key} {statistics.mean(values):.4f}" for key, values in found.items())
        print(f"{name} ε = 1: {said}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="the folder with the data sets")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument(
        "--study", action="store_true", help="all sets of the utility benchmark, and ε = 0.5 and 4"
    )
    parser.add_argument(
        "--rules", action="store_true", help="only where the matched rule pays, on sets that no figure is of"
    )
    parser.add_argument(
        "--blocks", action="store_true", help="only what a block that is not told apart by class costs trees"
    )
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    arguments = parser.parse_args()
    for requested, compared in ((arguments.rules, compared_rules), (arguments.blocks, compared_blocks)):
        if requested and arguments.data is not None:
            compared(arguments.data, arguments.splits)
            return
    names = list(FILES) if arguments.study else ["adult", "credit"]
    for file in (file for name in names for file in FILES[name][1]):
        if arguments.data is None or not (arguments.data / file).is_file():
            sys.exit(f"tables.py needs --data FOLDER with {file}")
    figures: dict[str, float] = {}
    for name in names:
        data = binned(FILES[name][0](arguments.data))
        for epsilon in (0.5, 1.0, 4.0) if arguments.study else (1.0,):
            trees = arguments.study or name == "adult"
            suffix = "" if epsilon == 1.0 else f"_eps{epsilon:g}"
            for kind, values in measured(name, data, arguments.splits, epsilon, trees=trees).items():
                figures[f"{name}_{kind}{suffix}"] = statistics.mean(values)
                figures[f"{name}_{kind}{suffix}_spread"] = statistics.pstdev(values)
                if name == "adult" and not suffix and kind in WHOLE:
                    figures[kind] = WHOLE[kind](values)
    if not arguments.json:
        for key, value in figures.items():
            print(f"{key}: {value:.4f}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
