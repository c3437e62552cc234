"""The answer to a question about a mechanism: ε for every observer, in words, as data, and as a curve."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from colonnade.cli.screen import say, say_json
from colonnade.errors import PlanError, PrivacyError
from colonnade.privacy.events import event_to_data
from colonnade.privacy.guarantee import Guarantee, View, account, check_claim
from colonnade.privacy.paper.figure import LABEL
from colonnade.protocols.noise_families import Family
from colonnade.report.charts import Axes, Series
from colonnade.report.curves import check_plot_path, draw

Against = Literal["delta", "times"]
ROUNDED = "ε is rounded up; a calibrated parameter is rounded to the safe side at six digits and accounted for again."
_DELTA_EXPONENTS = tuple(-10 + step / 2 for step in range(17))
_MOST_POINTS = 16
_USUAL_TIMES = 100


@dataclass(frozen=True)
class Question:
    """What a user asked of a family: a noise parameter, or the ε that it should be calibrated to."""

    given: Mapping[str, Any]
    parameter: Fraction | None
    epsilon: float | None
    delta: float
    times: int = 1
    rate: Fraction | None = None
    whom: str | None = None

    def __post_init__(self) -> None:
        if (self.parameter is None) == (self.epsilon is None):
            raise PlanError(
                "give either the noise or --epsilon: from the noise to ε, or from ε to the least noise."
            )
        if not 0 <= self.delta < 1:
            raise PlanError(f"--delta {self.delta:g}: δ is a probability, at least 0 and less than 1.")
        if self.epsilon is not None and not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise PlanError(f"--epsilon {self.epsilon:g}: privacy loss is a positive number. Try 1.")
        if self.times < 1:
            raise PlanError(f"--times {self.times}: a release is made at least once.")
        if self.rate is not None and not 0 < self.rate <= 1:
            raise PlanError(f"--rate {self.rate}: a sampling rate is above 0 and at most 1.")
        if self.whom is not None and self.epsilon is None:
            raise PlanError("--for says whom --epsilon is meant for; without --epsilon it has no use.")


@dataclass(frozen=True)
class Wanted:
    """How a user wants the answer."""

    as_json: bool = False
    paper: bool = False
    plot: Path | None = None
    against: Against = "delta"


@dataclass(frozen=True)
class Answer:
    """One guarantee per observer, for one value of the noise parameter."""

    family: Family
    question: Question
    parameter: Fraction
    whom: str
    views: tuple[View, ...]
    guarantees: tuple[Guarantee, ...]


def answer(family: Family, question: Question, wanted: Wanted) -> None:
    if wanted.plot is not None:
        check_plot_path(wanted.plot)
    try:
        solution = work_out(family, question)
        lines = curve(solution, wanted.against) if wanted.plot is not None else ()
    except (ValueError, TypeError) as error:
        # Pure functions speak of their own arguments, which are what the user gave.
        raise PlanError(f"{error}.") from None
    if wanted.plot is not None:
        axes = (
            Axes("δ", "ε", log_x=True)
            if wanted.against == "delta"
            else Axes(f"number of {family.repeats}", "ε", whole_x=True)
        )
        title = f"{family.mechanism}, {family.parameter} = {number_text(solution.parameter)}"
        draw(wanted.plot, lines, axes, title=title)
    data = as_data(solution, wanted, lines)
    if wanted.as_json:
        say_json(data)
    else:
        say("\n".join(as_text(data)))


def work_out(family: Family, question: Question) -> Answer:
    """The guarantees, after calibration if ε was asked for."""
    parameter, whom = question.parameter, question.whom or "server"
    if parameter is None and question.epsilon is not None:
        kinds = [
            view.observer.name.split(":")[0]
            for view in family.views(min(max(Fraction(1, 4), family.least), family.greatest), question.times)
        ]
        if question.whom is None and "server" not in kinds:
            whom = kinds[0]
        parameter = family.least_noise(
            whom, epsilon=question.epsilon, delta=question.delta, times=question.times
        )
    if parameter is None or parameter <= 0:
        raise PlanError(f"{family.parameter} = {parameter}: without noise nothing is hidden.")
    views = family.views(parameter, question.times)
    for view in views:
        check_claim(view.event, observer=view.observer, unit=view.unit)
    guarantees = tuple(_guaranteed(view, question.delta) for view in views)
    if all(math.isinf(item.epsilon) for item in guarantees):
        account(views[0].event, question.delta)  # says why
    return Answer(family, question, parameter, whom, views, guarantees)


def _guaranteed(view: View, delta: float) -> Guarantee:
    """What this observer learns at most; no bound where accounting refuses, so that the others are still told."""
    try:
        cost = account(view.event, delta)
    except PrivacyError:
        return Guarantee(view.observer, view.unit, math.inf, delta, view.assumption, "no bound")
    return Guarantee(view.observer, view.unit, cost.epsilon, cost.delta, view.assumption, cost.method)


def curve(solution: Answer, against: Against) -> tuple[Series, ...]:
    """ε of every observer over δ, or over the number of repetitions; points that are refused are left out."""
    family, question = solution.family, solution.question
    points: list[list[tuple[float, float]]] = [[] for _ in solution.views]
    if against == "delta":
        places = [(10.0**exponent, solution.views, 10.0**exponent) for exponent in _DELTA_EXPONENTS]
    else:
        most = question.times if question.times > 1 else _USUAL_TIMES
        counts = sorted({1, *(math.ceil(most * step / _MOST_POINTS) for step in range(1, _MOST_POINTS + 1))})
        places = [(float(count), family.views(solution.parameter, count), question.delta) for count in counts]
    for x, views, delta in places:
        for place, view in enumerate(views):
            try:
                points[place].append((x, account(view.event, delta).epsilon))
            except PrivacyError:
                continue
    lines = []
    for view, pairs in zip(solution.views, points, strict=True):
        if pairs:
            xs, ys = zip(*pairs, strict=True)
            lines.append(Series(f"{view.observer.name}, {view.unit.name}", xs, ys))
    return tuple(lines)


def as_data(solution: Answer, wanted: Wanted, lines: tuple[Series, ...]) -> dict[str, Any]:
    family, question = solution.family, solution.question
    figures = family.paper(solution.parameter, question.times, question.delta) if family.paper else ()
    return {
        "mechanism": family.mechanism,
        "given": {name: _plain(value) for name, value in question.given.items() if value is not None},
        "noise": {
            "name": family.parameter,
            "value": float(solution.parameter),
            "exact": str(solution.parameter),
            "calibrated": None
            if question.epsilon is None
            else {"epsilon": question.epsilon, "delta": question.delta, "for": solution.whom},
        },
        "delta": question.delta,
        "times": question.times,
        "times_of": family.repeats,
        "rate": _plain(question.rate),
        "guarantees": [
            {
                "observer": item.observer.name,
                "unit": item.unit.name,
                "epsilon": item.epsilon if math.isfinite(item.epsilon) else None,
                "delta": item.delta,
                "assumption": item.assumption,
                "method": item.method,
                "sentence": str(item),
                "event": event_to_data(view.event),
            }
            for item, view in zip(solution.guarantees, solution.views, strict=True)
        ],
        "notes": [ROUNDED, *family.notes],
        "paper": [
            {
                "label": LABEL,
                "value": figure.value,
                "formula": figure.formula,
                "why_not": figure.why_not,
                "sentence": str(figure),
            }
            for figure in figures
        ]
        if wanted.paper
        else None,
        "plot": None
        if wanted.plot is None
        else {
            "file": str(wanted.plot),
            "against": wanted.against,
            "curves": [{"label": line.label, "x": line.xs, "epsilon": line.ys} for line in lines],
        },
    }


def as_text(data: dict[str, Any]) -> list[str]:
    noise = data["noise"]
    how = ""
    if noise["calibrated"]:
        target = noise["calibrated"]
        how = f", the least for ε = {target['epsilon']:g} at δ = {target['delta']:g} for the observer {target['for']}"
    often = "" if data["times"] == 1 else f", {data['times']} {data['times_of']}"
    sampled = f", each record in a release with probability {data['rate']}" if data["rate"] else ""
    value = number_text(Fraction(noise["exact"]))
    lines = [f"{data['mechanism']}, {noise['name']} = {value}{how}{often}{sampled}", ""]
    lines += [f"  {item['sentence']}" for item in data["guarantees"]]
    if data["paper"] is not None:
        lines += ["", "What the papers' own formulas say:"]
        lines += [f"  {figure['sentence']}" for figure in data["paper"]] or [
            "  No paper has a formula for this release."
        ]
    lines += ["", *(f"  {note}" for note in data["notes"])]
    if data["plot"]:
        lines += ["", f"Plot: {data['plot']['file']}"]
    return lines


def number_text(value: Fraction) -> str:
    """A parameter for people: six digits, or the fraction itself where it is short."""
    text = f"{float(value):.6g}"
    return text if Fraction(text) == value or len(str(value)) > 12 else str(value)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Fraction) else value
