"""Every method for two classes on public sets at five ε, by accuracy and by AUC."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
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
from colonnade.methods.table import METHODS, checked_options, protocol_named, train_with
from colonnade.models.logistic import LogisticRegression
from colonnade.models.release import MomentRelease
from colonnade.models.trees import GradientBoostedTrees
from colonnade.planning.pilot import PilotRuns
from colonnade.protocols.plans import TrainingSpec
from colonnade.report.charts import Axes, Chart, Level, Series, Style, svg
from reproduction.judged_quality import TITLE, judged_section
from reproduction.one_place import DELTA, OnePlace
from reproduction.sections import FIGURES, Part, Picture, Pieces, Section, Table, load, said, timed
from reproduction.skellam_sets import made_up_incomes

EPSILONS = (0.1, 0.5, 1.0, 4.0, 10.0)
SETS: dict[str, Callable[[Path], PublicSet]] = {
    "Adult": adult,
    "Default of credit cards": credit,
    "ACSIncome of Texas": acs_income_texas,
    "Phishing": phishing,
}
BY_PROTOCOL = ("functional", "slr", "private-messages", "one-shot", "local")
BY_FORECAST = ("network", "encrypted")
"""Methods that are on no set: what a training would take is foretold."""
DRAWN = 50_000
"""Synthetic people on whom a regression is fitted."""
TOGETHER, EXACT = "Which tool to take", "without privacy"
KEPT = Path("build/all_methods.json")
SHOWN = {
    "margin": Style("#1f5fa8", (), "circle"),
    "moments": Style("#b5472f", (5, 2), "square"),
    "moments of ordered bins": Style("#2e7d4f", (1.5, 2), "up"),
    "regression on a table": Style("#6b4c9a", (6, 2, 1.5, 2), "diamond"),
    "trees": Style("#8a6d1f", (1.5, 1.5, 5, 1.5), "down"),
    "functional": Style("#595959", (8, 3), "cross"),
}
Scores = NDArray[np.float64]
Way = Callable[[float], dict[str, Scores]]


def study(data: Path, quick: bool) -> list[Part]:
    """What to take, then a section for each set."""
    if quick:
        few = made_up_incomes(600)
        return [
            Part("made up", lambda: _section("made up", few, epsilons=(1.0,), others=("functional",))),
            Part(TITLE, lambda: judged_section({"made up": lambda: few}, epsilons=(10.0,), kept=None)),
        ]
    return [
        Part(TOGETHER, _together),
        *(Part(name, partial(_measured_of, name, data)) for name in SETS),
        Part(
            TITLE,
            lambda: judged_section(
                {name: partial(read, data) for name, read in SETS.items()}, epsilons=EPSILONS, kept=KEPT
            ),
        ),
    ]


def _measured_of(name: str, data: Path) -> Section:
    return _section(name, SETS[name](data), kept=KEPT)


def _section(
    name: str,
    people: PublicSet,
    *,
    epsilons: Sequence[float] = EPSILONS,
    others: Sequence[str] = BY_PROTOCOL,
    kept: Path | None = None,
) -> Section:
    """One set; every method's figures are kept as soon as they are there, so that an interruption loses one."""
    with timed() as watch:
        split, coded = people.split(2, 0), binned(people).split(2, 0)
        truth = np.asarray(split.test_labels.astype(str) == str(people.label.classes[1]))
        ways = _ways(split, coded, people.label.column, others)
        pieces = Pieces(kept)
        exact = pieces.get(f"{name}, {EXACT}", partial(_judged, partial(_exact, split), 0.0, truth))
        found = {
            (way, epsilon): pieces.get(f"{name}, {way}, {epsilon:g}", partial(_judged, made, epsilon, truth))
            for way, made in ways.items()
            for epsilon in epsilons
        }
        foretold = {
            method: pieces.get(f"{name}, {method}, foretold", partial(_foretold, split, method))
            for method in (BY_FORECAST if kept else ())
        }
    facts = {
        f"{method}, {epsilon:g}": figures
        for (_, epsilon), each in found.items()
        for method, figures in each.items()
    } | exact
    commonest = max(float(truth.mean()), 1.0 - float(truth.mean()))
    left = " Runs were kept from before; the seconds below are those of the rest." if pieces.found else ""
    text = f"""
{len(split.train_labels):,} people to train on and {len(truth):,} others to score, one split, {len(people.columns)}
columns between two parties, δ = 1e-5. Always answering the commonest class has {commonest:.4f}; a model without privacy
has {facts[EXACT][0]:.4f} and an AUC of {facts[EXACT][1]:.4f}.{_in_words(foretold)}{left}
"""
    picture = () if name == "made up" else (_picture(name, facts, epsilons),)
    return Section(name, text, (_table(facts, epsilons),), picture, watch.seconds, facts={"scores": facts})


def _ways(split: Split, coded: Split, label: str, others: Sequence[str]) -> dict[str, Way]:
    """Ways to have scores of the held-out people at an ε: one for each release, of which several models may be made."""
    place, coarse = OnePlace(split.tables), OnePlace(coded.tables)

    def bins(epsilon: float) -> dict[str, Scores]:
        plain = coarse.moments("classification", epsilon=epsilon)
        return {
            "moments of ordered bins": _decided(plain, coded),
            "regression on a table": _on_table(plain, label, coded),
        }

    def trees(epsilon: float) -> dict[str, Scores]:
        by_class = coarse.moments("classification", epsilon=epsilon, options={"conditional": True})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = GradientBoostedTrees().fit(by_class)
        return {"trees": np.asarray(fitted.decision_function(coded.test_rows))}

    def by_protocol(method: str, epsilon: float) -> dict[str, Scores]:
        source = Federation(split.tables, budget=(1e6, DELTA), public=True)
        options = checked_options(METHODS[method], {})
        try:
            found = train_with(
                source,
                method,
                TrainingSpec("classification", epsilon, delta=DELTA, accepted_delta=DELTA, options=options),
            )
        except ColonnadeError:
            return {}
        return {method: _decided(found, split)}

    return {
        "margin": lambda epsilon: {"margin": _decided(place.margin(epsilon=epsilon), split)},
        "moments": lambda epsilon: {
            "moments": _decided(place.moments("classification", epsilon=epsilon), split)
        },
        "bins": bins,
        "trees": trees,
        **{method: partial(by_protocol, method) for method in others},
    }


def _foretold(split: Split, method: str) -> float | None:
    """Processor seconds of one training at ε = 1, as `colonnade plan` foretells it; none where there is no plan."""
    chosen, place = protocol_named(method), Federation(split.tables, budget=(1e6, DELTA), public=True)
    requested = TrainingSpec(
        "classification", 1.0, delta=DELTA, accepted_delta=DELTA, options=checked_options(chosen, {})
    )
    schemas = {table.party: table.public() for table in split.tables}
    try:
        plan = requested.plan(place.group, tuple(schemas.values()), len(split.train_labels))
    except ColonnadeError:
        return None
    return PilotRuns(schemas, weighed=False).rehearse(chosen, requested, plan)[0].seconds


def _in_words(foretold: Mapping[str, float | None]) -> str:
    known = [f"{method} {said(seconds)}" for method, seconds in foretold.items() if seconds is not None]
    none = [method for method, seconds in foretold.items() if seconds is None]
    words = f" Not run; forecasts of one training by `colonnade plan`: {', '.join(known)}." if known else ""
    return words + (f" There is no plan for {', '.join(none)}." if none else "")


def _exact(split: Split, _epsilon: float) -> dict[str, Scores]:
    source = Federation(split.tables, budget=(1e6, DELTA), public=True)
    found = train_with(
        source, "non-private", TrainingSpec("classification", 1.0, delta=DELTA, accepted_delta=DELTA)
    )
    return {EXACT: _decided(found, split)}


def _decided(found: Any, split: Split) -> Scores:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression().fit(found)
    return np.asarray(model.decision_function(split.test_rows))


def _on_table(release: MomentRelease, label: str, split: Split) -> Scores:
    """Scores by scikit-learn on synthetic people of a release, with a ridge as strong as its noise."""
    table = release.table_model().draw(DRAWN, seed=0)
    scale = np.sqrt(release.attributes)
    noise = release.noise / release.border / release.rows * scale
    model = Central(C=1.0 / (DRAWN * noise), max_iter=500)
    model.fit(release.features(table) * scale, table[label] == release.label.classes[1])
    return np.asarray(model.decision_function(release.features(split.test_rows) * scale))


def _judged(way: Way, epsilon: float, truth: NDArray[np.bool_]) -> dict[str, list[float]]:
    """Accuracy and AUC of every model that a way makes."""
    return {
        method: [
            round(float(((scores > 0) == truth).mean()), 5),
            round(float(roc_auc_score(truth, scores)), 5),
        ]
        for method, scores in way(epsilon).items()
    }


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
    rows.append((EXACT, *("{:.4f} / {:.4f}".format(*facts[EXACT]) for _ in epsilons)))
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
    methods = list(dict.fromkeys(method for facts in found.values() for method in _methods(facts)))
    for measure, place in (("accuracy", 0), ("AUC", 1)):
        for method in methods:
            cells = []
            for epsilon in EPSILONS:
                behind = [
                    facts[EXACT][place] - facts[f"{method}, {epsilon:g}"][place]
                    for facts in found.values()
                    if f"{method}, {epsilon:g}" in facts
                ]
                some = "" if len(behind) == len(found) else f" ({len(behind)} sets)"
                cells.append(f"{100 * fmean(behind):.1f}{some}" if behind else "no plan")
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
their protocols. The table has points behind a model without privacy, on average over the sets that a method was
run on; the sections below have every figure.
*Moments of ordered bins* have every number in 16 ordered bins, *regression on a table* is scikit-learn on {DRAWN:,}
synthetic people of the same release, *trees* are boosted from a second release, by class. The best of each:

{chr(10).join(lines)}
"""
    head = ("points behind in", "method", *(f"ε = {epsilon:g}" for epsilon in EPSILONS))
    return Section(
        TOGETHER,
        text,
        (Table(f"Behind a model without privacy, mean over {len(found)} sets", head, tuple(rows)),),
        (_mean_picture(found),),
    )


def _mean_picture(found: Mapping[str, Mapping[str, list[float]]]) -> Picture:
    """Points of accuracy behind, on average over the sets."""
    lines = tuple(
        Series(
            method,
            EPSILONS,
            tuple(
                max(
                    0.05,
                    100
                    * fmean(facts[EXACT][0] - facts[f"{method}, {epsilon:g}"][0] for facts in found.values()),
                )
                for epsilon in EPSILONS
            ),
            (),
            style,
        )
        for method, style in SHOWN.items()
        if all(f"{method}, {epsilon:g}" in facts for facts in found.values() for epsilon in EPSILONS)
    )
    words = f"points of accuracy behind a model without privacy, mean over {len(found)} public sets"
    axes = Axes("ε", "points behind", log_x=True, log_y=True, ticks=EPSILONS)
    picture = Picture("all-methods-behind.svg", words[0].upper() + words[1:] + ", by method")
    FIGURES.mkdir(parents=True, exist_ok=True)
    picture.path.write_text(
        svg(Chart(f"Behind no privacy, mean over {len(found)} sets", axes, lines)), encoding="utf-8"
    )
    return picture


def _picture(name: str, facts: Mapping[str, list[float]], epsilons: Sequence[float]) -> Picture:
    lines = tuple(
        Series(
            method,
            tuple(epsilons),
            tuple(100 * facts[f"{method}, {epsilon:g}"][1] for epsilon in epsilons),
            (),
            style,
        )
        for method, style in SHOWN.items()
        if all(f"{method}, {epsilon:g}" in facts for epsilon in epsilons)
    )
    level = Level(100 * facts[EXACT][1], Style("#999999", (2, 2)), note="no privacy")
    axes = Axes("ε", "AUC, %", log_x=True, ticks=tuple(epsilons), from_zero=False)
    file = f"all-methods-{name.split()[0].lower()}.svg"
    FIGURES.mkdir(parents=True, exist_ok=True)
    (FIGURES / file).write_text(svg(Chart(f"{name}: AUC against ε", axes, lines, (level,))), encoding="utf-8")
    return Picture(file, f"AUC on {name} against ε for {', '.join(line.label for line in lines)}")
