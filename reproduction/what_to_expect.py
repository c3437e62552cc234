"""What noise costs in accuracy, against people, columns, ε and parties: a theorem for squares, a study for classes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from benchmarks.public_data import PublicSet, acs_income_texas, adult, credit, phishing
from colonnade.data.labels import RealLabel
from colonnade.errors import PlanError
from colonnade.federation.federation import Federation
from colonnade.methods.method import TrainedModel
from colonnade.methods.moments.method import noise_of
from colonnade.methods.table import train_with
from colonnade.models.logistic import LogisticRegression
from colonnade.models.release import MomentRelease
from colonnade.protocols.plans import TrainingSpec
from colonnade.randomness import public_permutation
from reproduction.expected_law import law_section
from reproduction.noisy_quadratic import squares_section
from reproduction.one_place import DELTA, OnePlace
from reproduction.sections import Part, Section, Table, load, timed
from reproduction.skellam_sets import made_up_incomes

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
PEOPLE = (1000, 2000, 5000, 10_000, 20_000, 36_000, 100_000)
MANY = 20_000
"""Past so many people there is one repetition: chance moves them less, and they take longer."""
PARTIES, PARTIES_AT, REPEATS = (3, 5, 10), 5000, 3
SETS: dict[str, Callable[[Path], PublicSet]] = {
    "Adult": adult,
    "Default of credit cards": credit,
    "ACSIncome of Texas": acs_income_texas,
    "Phishing": phishing,
}
LAW, SQUARES = "How much accuracy noise takes", "What the theorem says of squares"


@dataclass(frozen=True)
class Point:
    """One setting: how much less accurate than without privacy, on the same people, over some repetitions.

    `noise` is the standard deviation of what carries the noise, by person: a moment, or an entry of each step's mean
    gradient. `columns` are those of the encoded rows.
    """

    people: str
    method: str
    rows: int
    columns: int
    epsilon: float
    parties: int
    noise: float
    lost: float
    deviation: float
    exact: float


def study(data: Path, quick: bool) -> list[Part]:
    """The law over all sets, a part for each set, and one for the theorem."""
    if quick:
        few = made_up_incomes(1500)
        return [
            Part(
                "made up", lambda: measured("made up", few, people=(500, 1000), epsilons=(1.0,), parties=())
            ),
            Part(
                SQUARES,
                lambda: squares_section(
                    SQUARES, {"made up": as_numbers(few)}, people=(1000,), epsilons=(1.0,)
                ),
            ),
        ]
    return [
        Part(LAW, lambda: law_section(LAW, kept_points())),
        *(Part(name, partial(_measured_of, name, data)) for name in SETS),
        Part(
            SQUARES,
            lambda: squares_section(
                SQUARES,
                {name: as_numbers(SETS[name](data)) for name in SETS},
                people=(2000, 8000, 20_000),
                epsilons=(0.3, 1.0, 10.0),
            ),
        ),
    ]


def _measured_of(name: str, data: Path) -> Section:
    return measured(name, SETS[name](data))


def kept_points() -> list[dict[str, Any]]:
    """What was measured on all sets."""
    return [point for section in load("what_to_expect") or [] for point in section.facts.get("points", [])]


def as_numbers(people: PublicSet) -> PublicSet:
    """The same people, their class as −1 or 1."""
    second = people.labels.astype(str) == str(people.label.classes[1])
    return replace(people, label=RealLabel("as_number", -1, 1), labels=np.where(second, 1.0, -1.0))


def measured(
    name: str,
    everybody: PublicSet,
    *,
    people: Sequence[int] = PEOPLE,
    epsilons: Sequence[float] = EPSILONS,
    parties: Sequence[int] = PARTIES,
) -> Section:
    """Accuracy lost on one set: at every number of people and ε, with half the columns, and with more parties."""
    half = replace(everybody, columns=everybody.columns[::2])
    most = len(everybody.labels) - len(everybody.labels) // 5
    with timed() as watch:
        points: list[Point] = []
        for count in (count for count in people if count <= most):
            points += _lost(name, everybody, count, epsilons, parties=2)
            points += _lost(name, half, count, [e for e in epsilons if e in (0.3, 1.0, 3.0)], parties=2)
        for more in parties:
            points += _lost(name, everybody, min(PARTIES_AT, most), (1.0,), parties=more)
    return Section(
        name,
        f"{len(everybody.labels):,} people, {len(everybody.columns)} columns, {points[0].columns} once encoded.",
        tuple(_tables(points, epsilons)),
        (),
        watch.seconds,
        facts={"points": [asdict(point) for point in points]},
    )


def _lost(
    name: str, everybody: PublicSet, count: int, epsilons: Sequence[float], *, parties: int
) -> Iterator[Point]:
    """Every method at every ε on the same people, each time others, tested on those whom nobody trained on."""
    order = public_permutation(len(everybody.labels), 0)
    fifth = len(order) // 5
    test, rest = order[:fifth], order[fifth:]
    rows, labels = {key: values[test] for key, values in everybody.rows.items()}, everybody.labels[test]
    found: dict[tuple[str, float], list[float]] = {}
    noises: dict[tuple[str, float], tuple[float, int]] = {}
    exact = []
    for repeat in range(1 if count > MANY else REPEATS):
        chosen = rest[public_permutation(len(rest), repeat + 1)[:count]]
        place = OnePlace(everybody.tables(parties, chosen))
        source = Federation(place.tables, budget=(1e6, DELTA), public=True)
        requested = TrainingSpec("classification", 1.0, delta=DELTA, accepted_delta=DELTA)
        exact.append(_score(train_with(source, "non-private", requested), rows, labels))
        for epsilon in epsilons:
            release = place.moments("classification", epsilon=epsilon)
            runs = {"moments": _score(release, rows, labels)}
            plan = place.plan("moments", "classification", epsilon=epsilon)
            noises["moments", epsilon] = noise_of(plan) / count, release.columns
            try:
                descent = place.plan("margin", "classification", epsilon=epsilon)
                runs["margin"] = _score(place.margin(epsilon=epsilon), rows, labels)
                noises["margin", epsilon] = descent.deviation / count, release.columns
            except PlanError:
                pass
            for method, score in runs.items():
                found.setdefault((method, epsilon), []).append(exact[-1] - score)
    for (method, epsilon), lost in found.items():
        noise, columns = noises[method, epsilon]
        deviation = stdev(lost) if len(lost) > 1 else 0.0
        yield Point(
            *(name, method, count, columns, epsilon, parties, float(f"{noise:.4g}")),
            *(round(fmean(lost), 5), round(deviation, 5), round(fmean(exact), 5)),
        )


def _score(found: MomentRelease | TrainedModel, rows: dict[str, Any], labels: Any) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression().fit(found)
    return float(model.score(rows, labels))


def _tables(points: Sequence[Point], epsilons: Sequence[float]) -> Iterator[Table]:
    widest = max(point.columns for point in points)
    for method in dict.fromkeys(point.method for point in points):
        whole = [p for p in points if p.method == method and p.parties == 2 and p.columns == widest]
        rows = []
        for count in dict.fromkeys(point.rows for point in whole):
            here = {point.epsilon: point for point in whole if point.rows == count}
            cells = [f"{100 * here[epsilon].lost:.1f}" if epsilon in here else "" for epsilon in epsilons]
            rows.append((f"{count:,}", f"{next(iter(here.values())).exact:.4f}", *cells))
        head = ("people", "without privacy", *(f"ε = {epsilon:g}" for epsilon in epsilons))
        yield Table(f"Points of accuracy lost by {method}, two parties", head, tuple(rows))
    more = [point for point in points if point.parties > 2]
    if more:
        counts = tuple(dict.fromkeys(point.parties for point in more))
        rows = []
        for method in dict.fromkeys(point.method for point in more):
            two = [
                p
                for p in points
                if (p.method, p.parties, p.columns, p.rows, p.epsilon)
                == (method, 2, widest, more[0].rows, 1.0)
            ]
            by = {point.parties: point for point in (*two, *more) if point.method == method}
            cells = [f"{100 * by[count].lost:.1f}" if count in by else "no plan" for count in (2, *counts)]
            rows.append((method, *cells))
        head = ("method", *(f"{count} parties" for count in (2, *counts)))
        yield Table(f"Points lost with {more[0].rows:,} people at ε = 1, by parties", head, tuple(rows))
