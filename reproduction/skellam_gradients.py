"""The shape of Figure 3 of SLR: accuracy on ACSIncome of Texas, by noisy gradients and by what it is compared with."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any

from benchmarks.public_data import PublicSet, Split
from colonnade.federation.federation import Federation
from colonnade.methods.method import Asked
from colonnade.methods.table import METHODS, checked_options, train_with
from colonnade.models.logistic import LogisticRegression
from colonnade.privacy.paper.figure import LABEL
from reproduction.sections import Section, Table, spread_text, timed

DELTA = 1e-5
BUDGET = (1e4, DELTA)
EPOCHS, RATE = 10, 0.1
GRID = (2.0, 8.0, 32.0)
"""Learning rates from which one is chosen for DP-SGD and one for SLR, on another state."""
# The paper's own schedule: epochs by ε, at a rate of 0.001 and weights of norm 1.
PAPER_EPOCHS = {1.0: 5.0, 4.0: 10.0, 16.0: 20.0}


def gradients_section(
    people: PublicSet, other: PublicSet, *, epsilons: tuple[float, ...], splits: int, paper: bool
) -> Section:
    """Accuracy of SLR beside central DP-SGD on the same schedule, local perturbation and the exact model."""
    facts: dict[str, float] = {}
    with timed() as watch:
        chosen = {method: _chosen(other, method) for method in ("dp-sgd", "slr")}
        lines: dict[str, list[list[float]]] = {}
        for epsilon in epsilons:
            for name, run in _runs(epsilon, chosen, paper=paper).items():
                scores = [run(people.split(2, number)) for number in range(splits)]
                lines.setdefault(name, []).append(scores)
                facts[f"{name.split(',')[0].replace(' ', '_')}_eps{epsilon:g}"] = round(fmean(scores), 6)
    constant = max(float((people.labels == 0).mean()), float((people.labels != 0).mean()))
    rows = [(name, *(spread_text(scores) for scores in found)) for name, found in lines.items()]
    rows.append(("always the commonest class", *(f"{constant:.4f}" for _ in epsilons)))
    grid = ", ".join(f"{rate:g}" for rate in GRID)
    text = f"""
ACSIncome of Texas, {len(people.labels):,} people, two parties and a server, the real protocol; test accuracy over
{splits} splits at δ = 1e-5. SLR and DP-SGD take the same {EPOCHS} epochs at the same rate of {RATE:g}; each has its
learning rate from the grid {grid}, chosen on another state ({chosen["slr"]:g} and {chosen["dp-sgd"]:g}). DP-SGD clips
at 1 and trusts one place with all rows. SLR's weights are capped at norm 8; the paper caps them at 1, where the linear
sigmoid cannot reach past ½ ± ¼, and accuracy stays near that of the commonest class on these features: that is most
of the difference between its line and ours, not privacy. The paper's figure shows ACSIncome by curves only, from which
no numbers are taken; its text says that at ε ≥ 4 the drop from DP-SGD is 2 to 3 % on California and Texas.
"""
    head = ("method", *(f"ε = {epsilon:g}" for epsilon in epsilons))
    return Section(
        "The shape of Figure 3: logistic regression on ACSIncome",
        text,
        (Table("Accuracy on held-out people, mean ± standard deviation", head, tuple(rows)),),
        seconds=watch.seconds,
        facts=facts,
    )


def _runs(epsilon: float, chosen: dict[str, float], *, paper: bool) -> dict[str, Callable[[Split], float]]:
    slr: Mapping[str, Any] = {"epochs": float(EPOCHS), "rate": RATE, "learning_rate": chosen["slr"]}
    runs: dict[str, Callable[[Split], float]] = {
        "SLR, sound": lambda split: _accuracy(split, "slr", slr, epsilon),
        "DP-SGD, central": lambda split: _accuracy(
            split, "dp-sgd", _descent(split, chosen["dp-sgd"]), epsilon
        ),
        "one moment release, sound": lambda split: _accuracy(split, "moments", {}, epsilon),
        "local perturbation": lambda split: _accuracy(split, "local", {}, epsilon),
        "no privacy": lambda split: _accuracy(split, "non-private", {}, epsilon),
    }
    if paper:
        options: Mapping[str, Any] = {
            "calibration": "paper",
            "gamma": 1 << 10,
            "weight_cap": 1.0,
            "rate": 0.001,
            "epochs": PAPER_EPOCHS[epsilon],
            "learning_rate": chosen["slr"],
        }
        runs[f"SLR with three releases, {LABEL}"] = lambda split: _accuracy(split, "slr", options, epsilon)
    return runs


def _chosen(other: PublicSet, method: str) -> float:
    split = other.split(2, 0)

    def score(rate: float) -> float:
        options: Mapping[str, Any] = (
            _descent(split, rate)
            if method == "dp-sgd"
            else {"epochs": float(EPOCHS), "rate": RATE, "learning_rate": rate}
        )
        return _accuracy(split, method, options, 4.0)

    return max(GRID, key=score)


def _descent(split: Split, rate: float) -> Mapping[str, Any]:
    batch = max(1, round(RATE * len(split.train_labels)))
    return {"epochs": EPOCHS, "batch": batch, "clip": 1.0, "learning_rate": rate}


def _accuracy(split: Split, method: str, options: Mapping[str, Any], epsilon: float) -> float:
    source = Federation(split.tables, budget=BUDGET, public=True)
    asked = Asked("classification", epsilon, DELTA, DELTA, options=checked_options(METHODS[method], options))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression().fit(train_with(source, method, asked))
    return float(model.score(split.test_rows, split.test_labels))
