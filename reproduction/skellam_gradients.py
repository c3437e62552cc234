"""The shape of Figure 3 of SLR: accuracy on ACSIncome, by noisy gradients and by what they are compared with."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any

from benchmarks.public_data import PublicSet, Split
from colonnade.errors import PlanError
from colonnade.federation.federation import Federation
from colonnade.methods.method import TrainedModel
from colonnade.methods.table import METHODS, checked_options, train_with
from colonnade.models.logistic import LogisticRegression
from colonnade.models.release import MomentRelease
from colonnade.privacy.paper import LABEL
from colonnade.protocols.plans import TrainingSpec
from reproduction.one_place import OnePlace
from reproduction.sections import Section, Table, spread_text, timed

DELTA = 1e-5
BUDGET = (1e4, DELTA)
EPOCHS, RATE = 10, 0.1
GRID = (2.0, 8.0, 32.0)
"""Learning rates from which one is chosen for DP-SGD and one for SLR, on another state."""
CHOSEN_AT = 4.0
REFUSED = "no plan"
# The paper's own schedule: epochs by ε, at a rate of 0.001 and weights of norm 1.
PAPER_EPOCHS = {0.5: 5.0, 1.0: 5.0, 2.0: 8.0, 4.0: 10.0, 8.0: 20.0, 16.0: 20.0}
Run = Callable[[Split, OnePlace], float]


def gradients_section(
    states: Mapping[str, PublicSet],
    other: PublicSet,
    *,
    epsilons: tuple[float, ...],
    exponents: tuple[int, ...],
    splits: int,
    paper: tuple[float, ...],
) -> Section:
    """Accuracy of SLR beside central DP-SGD on the same schedule, margin descent, local perturbation and the exact."""
    facts: dict[str, float] = {}
    tables = []
    with timed() as watch:
        chosen = {method: _chosen(other, method) for method in ("dp-sgd", "slr")}
        for state, people in states.items():
            tables.append(_table(state, people, chosen, facts, epsilons, exponents, splits, paper))
    grid = ", ".join(f"{rate:g}" for rate in GRID)
    sizes = ", ".join(f"{state} with {len(people.labels):,} people" for state, people in states.items())
    runs = "one split" if splits == 1 else f"{splits} splits"
    text = f"""
ACSIncome: {sizes}; two parties and a server; the plans of the protocols, their integers and their noise, in one place
instead of in shares, which changes no number. Test accuracy over {runs} at δ = 1e-5 and every ε of the paper.
SLR and DP-SGD take the same {EPOCHS} epochs at the same rate of {RATE:g}; each has its learning rate from the grid
{grid}, chosen on another state at ε = {CHOSEN_AT:g} ({chosen["slr"]:g} and {chosen["dp-sgd"]:g}), and keeps it at every
ε. DP-SGD clips at 1 and trusts one place with all rows. Margin descent has nothing to choose. SLR's weights are capped
at norm 8; the paper caps them at 1, where the linear sigmoid cannot reach past ½ ± ¼, and accuracy stays near that of
the commonest class on these features: that is most of the difference between its line and ours, not privacy. The
paper's grids are 2^12, 2^14 and 2^16. "{REFUSED}" on the two finer ones: the noise of a cubic sum has a variance past
2^88, which the sampler does not draw, and is refused by name before anything is read. The paper's figure shows
ACSIncome by curves, from which no numbers are taken; its text says that at ε ≥ 4 the drop from DP-SGD is 2 to 3 % on
California and Texas.
"""
    return Section(
        "The shape of Figure 3: logistic regression on ACSIncome",
        text,
        tuple(tables),
        seconds=watch.seconds,
        facts=facts,
    )


def _table(
    state: str,
    people: PublicSet,
    chosen: dict[str, float],
    facts: dict[str, float],
    epsilons: tuple[float, ...],
    exponents: tuple[int, ...],
    splits: int,
    paper: tuple[float, ...],
) -> Table:
    cut = [people.split(2, number) for number in range(splits)]
    places = [OnePlace(split.tables, delta=DELTA) for split in cut]
    exact = [_accuracy(split, "non-private", {}, 1.0) for split in cut]
    lines: dict[str, list[str]] = {}
    for epsilon in epsilons:
        for name, run in _runs(epsilon, chosen, exponents, paper=epsilon in paper).items():
            try:
                scores = [run(split, place) for split, place in zip(cut, places, strict=True)]
            except PlanError:
                scores = []
            else:
                facts[f"{state}, {name}, {epsilon:g}"] = round(fmean(scores), 6)
            lines.setdefault(name, []).append(spread_text(scores) if scores else REFUSED)
    constant = max(float((people.labels == 0).mean()), float((people.labels != 0).mean()))
    facts[f"{state}, no privacy"] = round(fmean(exact), 6)
    rows = [(name, *found) for name, found in lines.items() if len(found) == len(epsilons)]
    rows.append(("no privacy", *(spread_text(exact) for _ in epsilons)))
    rows.append(("always the commonest class", *(f"{constant:.4f}" for _ in epsilons)))
    for name, found in lines.items():
        if len(found) < len(epsilons):
            shown = iter(found)
            rows.append((name, *(next(shown) if epsilon in paper else "" for epsilon in epsilons)))
    head = ("method", *(f"ε = {epsilon:g}" for epsilon in epsilons))
    spread = ", mean ± standard deviation" if splits > 1 else ""
    return Table(f"Accuracy on held-out people of {state}{spread}", head, tuple(rows))


def _runs(
    epsilon: float, chosen: dict[str, float], exponents: tuple[int, ...], *, paper: bool
) -> dict[str, Run]:
    def slr(exponent: int) -> Run:
        options = {
            "epochs": float(EPOCHS),
            "rate": RATE,
            "learning_rate": chosen["slr"],
            "gamma": 1 << exponent,
        }
        return lambda split, place: _score(split, place.slr(epsilon=epsilon, options=options))

    runs: dict[str, Run] = {f"SLR, sound, γ = 2^{exponent}": slr(exponent) for exponent in exponents}
    runs |= {
        "DP-SGD, central": lambda split, _: _accuracy(
            split, "dp-sgd", _descent(split, chosen["dp-sgd"]), epsilon
        ),
        "margin descent, sound": lambda split, place: _score(split, place.margin(epsilon=epsilon)),
        "one moment release, sound": lambda split, place: _score(
            split, place.moments("classification", epsilon=epsilon)
        ),
        "local perturbation": lambda split, _: _accuracy(split, "local", {}, epsilon),
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
        runs[f"SLR with three releases, γ = 2^10, {LABEL}"] = lambda split, _: _accuracy(
            split, "slr", options, epsilon
        )
    return runs


def _chosen(other: PublicSet, method: str) -> float:
    split = other.split(2, 0)
    place = OnePlace(split.tables, delta=DELTA)

    def score(rate: float) -> float:
        if method == "dp-sgd":
            return _accuracy(split, method, _descent(split, rate), CHOSEN_AT)
        options = {"epochs": float(EPOCHS), "rate": RATE, "learning_rate": rate}
        return _score(split, place.slr(epsilon=CHOSEN_AT, options=options))

    return max(GRID, key=score)


def _descent(split: Split, rate: float) -> Mapping[str, Any]:
    batch = max(1, round(RATE * len(split.train_labels)))
    return {"epochs": EPOCHS, "batch": batch, "clip": 1.0, "learning_rate": rate}


def _accuracy(split: Split, method: str, options: Mapping[str, Any], epsilon: float) -> float:
    source = Federation(split.tables, budget=BUDGET, public=True)
    requested = TrainingSpec(
        "classification",
        epsilon,
        delta=DELTA,
        accepted_delta=DELTA,
        options=checked_options(METHODS[method], options),
    )
    return _score(split, train_with(source, method, requested))


def _score(split: Split, found: MomentRelease | TrainedModel) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression().fit(found)
    return float(model.score(split.test_rows, split.test_labels))
