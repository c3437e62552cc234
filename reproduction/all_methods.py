"""Every method for two classes on public sets at five ε, by accuracy and by AUC."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression as Central
from sklearn.metrics import roc_auc_score

from benchmarks.public_data import PublicSet, Split, acs_income_texas, adult, binned, credit, phishing
from colonnade.errors import ColonnadeError
from colonnade.federation.federation import Federation
from colonnade.methods.method import TrainingSpec
from colonnade.methods.table import METHODS, checked_options, train_with
from colonnade.models.logistic import LogisticRegression
from colonnade.models.release import MomentRelease
from colonnade.models.trees import GradientBoostedTrees
from colonnade.report.charts import Axes, Chart, Level, Series, Style, svg
from reproduction.one_place import DELTA, OnePlace
from reproduction.sections import FIGURES, Part, Picture, Section, Table, load, timed
from reproduction.skellam_sets import made_up_incomes

EPSILONS = (0.1, 0.5, 1.0, 4.0, 10.0)
SETS: dict[str, Callable[[Path], PublicSet]] = {
    "Adult": adult,
    "Default of credit cards": credit,
    "ACSIncome of Texas": acs_income_texas,
    "Phishing": phishing,
}
BY_PROTOCOL = ("functional", "intermediate", "one-shot", "local")
DRAWN = 50_000
"""Invented people on whom a regression is fitted."""
TOGETHER = "Which tool to take"
Scores = NDArray[np.float64]


def study(data: Path, quick: bool) -> list[Part]:
    """What to take, then a section for each set."""
    if quick:
        few = made_up_incomes(600)
        return [Part("made up", lambda: _section("made up", few, epsilons=(1.0,), others=("functional",)))]
    return [
        Part(TOGETHER, _together),
        *(Part(name, partial(_measured_of, name, data)) for name in SETS),
    ]


def _measured_of(name: str, data: Path) -> Section:
    return _section(name, SETS[name](data))


def _section(
    name: str,
    people: PublicSet,
    *,
    epsilons: Sequence[float] = EPSILONS,
    others: Sequence[str] = BY_PROTOCOL,
) -> Section:
    facts: dict[str, Any] = {}
    with timed() as watch:
        split, coded = people.split(2, 0), binned(people).split(2, 0)
        truth = np.asarray(split.test_labels.astype(str) == str(people.label.classes[1]))  # type: ignore[union-attr]
        place, coarse = OnePlace(split.tables), OnePlace(coded.tables)
        column = people.label.column
        for epsilon in epsilons:
            for method, scores in _scores(split, place, coded, coarse, column, epsilon, others):
                facts[f"{method}, {epsilon:g}"] = _judged(scores, truth)
        exact = Federation(split.tables, budget=(1e6, DELTA), public=True)
        found = train_with(exact, "non-private", TrainingSpec("classification", 1.0, DELTA, DELTA))
        facts["without privacy"] = _judged(_decided(found, split), truth)
    commonest = max(float(truth.mean()), 1.0 - float(truth.mean()))
    text = f"""
{len(split.train_labels):,} people to train on and {len(truth):,} others to score, one split, {len(people.columns)}
columns between two parties, δ = 1e-5. Always answering the commonest class has {commonest:.4f}; a model without privacy
has {facts["without privacy"][0]:.4f} and an AUC of {facts["without privacy"][1]:.4f}.
"""
    picture = () if name == "made up" else (_picture(name, facts, epsilons),)
    return Section(name, text, (_table(facts, epsilons),), picture, watch.seconds, facts={"scores": facts})


def _scores(
    split: Split,
    place: OnePlace,
    coded: Split,
    coarse: OnePlace,
    label: str,
    epsilon: float,
    others: Sequence[str],
) -> Iterator[tuple[str, Scores]]:
    """Every method's scores of the held-out people."""
    yield "margin", _decided(place.margin(epsilon=epsilon), split)
    yield "moments", _decided(place.moments("classification", epsilon=epsilon), split)
    plain = coarse.moments("classification", epsilon=epsilon)
    yield "moments of ordered bins", _decided(plain, coded)
    yield "regression on a table", _on_table(plain, label, coded)
    by_class = coarse.moments("classification", epsilon=epsilon, options={"conditional": True})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trees = GradientBoostedTrees().fit(by_class)
    yield "trees", np.asarray(trees.decision_function(coded.test_rows))
    for method in others:
        source = Federation(split.tables, budget=(1e6, DELTA), public=True)
        try:
            options = checked_options(METHODS[method], {})
            found = train_with(
                source, method, TrainingSpec("classification", epsilon, DELTA, DELTA, options=options)
            )
        except ColonnadeError:
            continue
        yield method, _decided(found, split)


def _decided(found: Any, split: Split) -> Scores:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression().fit(found)
    return np.asarray(model.decision_function(split.test_rows))


def _on_table(release: MomentRelease, label: str, split: Split) -> Scores:
    """Scores by scikit-learn on invented people of a release, with a ridge as strong as its noise."""
    table = release.table_model().draw(DRAWN, seed=0)
    scale = np.sqrt(release.attributes)
    noise = release.noise / release.border / release.rows * scale
    model = Central(C=1.0 / (DRAWN * noise), max_iter=500)
    model.fit(release.features(table) * scale, table[label] == release.label.classes[1])
    return np.asarray(model.decision_function(release.features(split.test_rows) * scale))


def _judged(scores: Scores, truth: NDArray[np.bool_]) -> list[float]:
    right, area = float(((scores > 0) == truth).mean()), float(roc_auc_score(truth, scores))
    return [round(right, 5), round(area, 5)]


def _methods(facts: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(key.rsplit(", ", 1)[0] for key in facts if ", " in key))


def _table(facts: Mapping[str, list[float]], epsilons: Sequence[float]) -> Table:
    rows = [
        (
            method,
            *(
                "{:.4f} / {:.4f}".format(*facts[f"{method}, {epsilon:g}"])
                if f"{method}, {epsilon:g}" in facts
                else "no plan"
                for epsilon in epsilons
            ),
        )
        for method in _methods(facts)
    ]
    rows.append(("without privacy", *("{:.4f} / {:.4f}".format(*facts["without privacy"]) for _ in epsilons)))
    head = ("method", *(f"ε = {epsilon:g}" for epsilon in epsilons))
    return Table("Accuracy / AUC on held-out people", head, tuple(rows))


def _together() -> Section:
    """Which tool to take, from what was kept of the sets."""
    found = {
        section.title: section.facts["scores"]
        for section in load("all_methods") or []
        if section.title in SETS
    }
    rows, lines = [], []
    methods = _methods(next(iter(found.values())))
    for measure, place in (("accuracy", 0), ("AUC", 1)):
        for method in methods:
            cells = []
            for epsilon in EPSILONS:
                behind = [
                    facts["without privacy"][place] - facts[f"{method}, {epsilon:g}"][place]
                    for facts in found.values()
                    if f"{method}, {epsilon:g}" in facts
                ]
                cells.append(f"{100 * fmean(behind):.1f}" if len(behind) == len(found) else "no plan")
            rows.append((measure, method, *cells))
    for epsilon in EPSILONS:
        said = []
        for measure, place in (("accuracy", 0), ("AUC", 1)):
            best = {
                name: max(
                    (m for m in methods if f"{m}, {epsilon:g}" in facts),
                    key=lambda m: facts[f"{m}, {epsilon:g}"][place],
                )
                for name, facts in found.items()
            }
            named = "; ".join(f"{method} on {name}" for name, method in best.items())
            said.append(f"by {measure} {named}")
        lines.append(f"- ε = {epsilon:g}: {', '.join(said)}.")
    names = ", ".join(found)
    text = f"""
{len(found)} public sets ({names}) between two parties, one split each, at five ε. Margin descent, moments, tables and
trees have the plans, integers and noise of their protocols in one place, which changes no number; the others are by
their protocols. The table has points behind a model without privacy, on average over the sets; the sections below have
every figure.
*Moments of ordered bins* have every number in 16 ordered bins, *regression on a table* is scikit-learn on {DRAWN:,}
invented people of the same release, *trees* are boosted from a second release, by class. The best of each:

{chr(10).join(lines)}
"""
    head = ("points behind in", "method", *(f"ε = {epsilon:g}" for epsilon in EPSILONS))
    return Section(
        TOGETHER,
        text,
        (Table(f"Behind a model without privacy, mean over {len(found)} sets", head, tuple(rows)),),
    )


def _picture(name: str, facts: Mapping[str, list[float]], epsilons: Sequence[float]) -> Picture:
    shown = ("margin", "moments", "moments of ordered bins", "regression on a table", "trees", "functional")
    styles = (
        Style("#1f5fa8", (), "circle"),
        Style("#b5472f", (5, 2), "square"),
        Style("#2e7d4f", (1.5, 2), "up"),
        Style("#6b4c9a", (6, 2, 1.5, 2), "diamond"),
        Style("#8a6d1f", (1.5, 1.5, 5, 1.5), "down"),
        Style("#595959", (8, 3), "cross"),
    )
    lines = tuple(
        Series(
            method,
            tuple(epsilons),
            tuple(100 * facts[f"{method}, {epsilon:g}"][1] for epsilon in epsilons),
            (),
            style,
        )
        for method, style in zip(shown, styles, strict=True)
        if all(f"{method}, {epsilon:g}" in facts for epsilon in epsilons)
    )
    level = Level(100 * facts["without privacy"][1], Style("#999999", (2, 2)), note="no privacy")
    axes = Axes("ε", "AUC, %", log_x=True, ticks=tuple(epsilons), from_zero=False)
    file = f"all-methods-{name.split()[0].lower()}.svg"
    FIGURES.mkdir(parents=True, exist_ok=True)
    (FIGURES / file).write_text(svg(Chart(f"{name}: AUC against ε", axes, lines, (level,))), encoding="utf-8")
    return Picture(file, f"AUC on {name} against ε for margin, moments, tables and trees")
