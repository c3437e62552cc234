"""What `colonnade privacy` answers: ε for every observer of a mechanism, or the least noise for an ε.

Everything but the noise of a `MechanismFamily` is fixed, and its `views` say what each observer is left with. Whatever
is asked, from noise to ε, from ε to noise or as a curve, is accounting of these views.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from colonnade.cli.screen import Answer
from colonnade.errors import PlanError, PrivacyError
from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.events import Event, PoissonSampled, Repeated, event_to_data
from colonnade.privacy.guarantee import Guarantee, View, account, check_claim
from colonnade.privacy.observers import REPLACE, ZERO_OUT, OthersPart, Reader, Server
from colonnade.privacy.paper import LABEL, PaperFigure
from colonnade.report.charts import Axes, Series, check_plot_path, draw
from colonnade.report.facts import guarantee_facts

ROUNDED = "ε is rounded up; a calibrated parameter is rounded to the safe side at six digits and accounted for again."
NEAR_ITS_LAW = "The sampler is within 2⁻¹⁰⁰ of its law per draw; the distance of all draws is taken out of δ."
REAL_NOISE = (
    "This is the law of real numbers. Floating-point draws of it leak low bits; Colonnade draws integers "
    "(discrete-gaussian, discrete-laplace, skellam)."
)
AS_GIVEN = "Sensitivities are taken as you give them: round them up."
_MOST_POINTS = 16

Views: TypeAlias = Callable[[Fraction, int], tuple[View, ...]]


@dataclass(frozen=True)
class MechanismFamily:
    """A mechanism with everything fixed but its noise, which can be drawn from `least` to `greatest`.

    `views(noise, times)` has what each observer is left with. `search(event, epsilon, delta)` replaces the usual
    calibration where less of a parameter hides more. `needs_delta` says that the noise is truncated.
    """

    name: str
    parameter: str
    views: Views
    notes: tuple[str, ...]
    least: Fraction = Fraction(1, 10**12)
    greatest: Fraction = Fraction(10**60)
    search: Callable[[Event, float, float], Fraction] | None = None
    paper: Callable[[Fraction, int, float], tuple[PaperFigure, ...]] | None = None
    repeats: str = "releases"
    needs_delta: bool = False


@dataclass(frozen=True)
class PrivacyQuery:
    """What is asked of a mechanism: a noise parameter, or the ε that it should be calibrated to."""

    noise: Fraction | None = None
    epsilon: float | None = None
    delta: float = 1e-5
    times: int = 1
    to: str | None = None
    paper: bool = False
    plot: Path | None = None
    against: str = "delta"

    def __post_init__(self) -> None:
        if (self.noise is None) == (self.epsilon is None):
            raise PlanError(
                "give either the noise or --epsilon: from the noise to ε, or from ε to the least noise."
            )
        if not 0 <= self.delta < 1:
            raise PlanError(f"--delta {self.delta:g}: δ is a probability, at least 0 and less than 1.")
        if self.epsilon is not None and not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise PlanError(f"--epsilon {self.epsilon:g}: privacy loss is a positive number. Try 1.")
        if self.times < 1:
            raise PlanError(f"--times {self.times}: a release is made at least once.")
        if self.to is not None and self.epsilon is None:
            raise PlanError("--for says whom --epsilon is meant for; without --epsilon it has no use.")


@dataclass(frozen=True)
class PrivacyAnswer:
    """One view and one guarantee per observer, for one amount of noise; `whom` it was calibrated for, if it was."""

    noise: Fraction
    to: str | None
    views: tuple[View, ...]
    guarantees: tuple[Guarantee, ...]


@dataclass(frozen=True)
class AnyOwners:
    """Some owners of columns, whichever they are, who pool what they know."""

    count: int
    knows_batches: bool = True

    @property
    def name(self) -> str:
        return "party:any" if self.count == 1 else f"coalition:any {self.count} owners"

    @property
    def sentence(self) -> str:
        return "Any one owner" if self.count == 1 else f"Any group of {self.count} owners"


def threshold_of(owners: int, threshold: int | None) -> int:
    """How many of these owners may collude: as given, or as in a committee of owners."""
    if threshold is None:
        threshold = 0 if owners == 1 else max(1, (owners - 1) // 2)
    if owners < 1 or not 0 <= threshold < owners:
        raise PlanError(
            f"of {owners} owners at most {max(owners - 1, 0)} can collude and leave noise; "
            f"--threshold {threshold} was asked."
        )
    return threshold


def added_noise(
    event: Callable[..., Event], *, unit: str, rate: Fraction | None, owners: int = 1, threshold: int = 0
) -> Views:
    """The views of noise that so many owners deal in parts of 1/(owners − t), of whom t may collude.

    `event(noise, party, known=…, parts=…, of=…)` is one release to an observer, an owner or not, who knows so many
    of these parts.
    """
    if rate is not None and not 0 < rate <= 1:
        raise PlanError(f"--rate {rate}: a sampling rate is above 0 and at most 1.")
    about = ZERO_OUT if unit == ZERO_OUT.name else REPLACE
    hidden = "" if rate is None else ", and it learns neither who is in a batch nor how many"
    colluding = {0: "no owner disclose", 1: "one owner discloses"}.get(
        threshold, f"{threshold} owners disclose"
    )

    def views(noise: Fraction, times: int) -> tuple[View, ...]:
        def seen(party: bool, known: int) -> Event:
            return event(noise, party, known=known, parts=owners, of=owners - threshold)

        blind = seen(False, threshold)
        blind = Repeated(blind if rate is None else PoissonSampled(rate, blind), times)  # type: ignore[arg-type]
        if owners == 1:
            return (View(Reader(), about, blind, f"whoever draws the noise keeps it secret{hidden}"),)
        provided = f"at most {colluding} noise parts to it{hidden}"
        found = [View(observer, about, blind, provided) for observer in (Server(), Reader())]
        for known in sorted({1, max(threshold, 1)}):
            # Owners know the batches, so a sample hides nothing from them and every release may use the record.
            provided = "it sees only the noisy sums besides its own columns and noise parts"
            found.append(View(AnyOwners(known), OthersPart(), Repeated(seen(True, known), times), provided))
        return tuple(found)

    return views


def work_out(mechanism: MechanismFamily, query: PrivacyQuery) -> PrivacyAnswer:
    """The guarantees, after calibration if ε was asked for; no bound where accounting refuses one observer only."""
    if mechanism.needs_delta and query.delta == 0:
        raise PrivacyError(
            "noise dealt in parts is truncated, so no ε holds at δ = 0. Give --delta, for instance 1e-9."
        )
    noise, to = query.noise, None
    if query.epsilon is not None:
        noise, to = _calibrated(mechanism, query, query.epsilon)
    if noise is None or noise <= 0:
        raise PlanError(f"{mechanism.parameter} = {noise}: without noise nothing is hidden.")
    views = mechanism.views(noise, query.times)
    guarantees = []
    for view in views:
        check_claim(view.event, observer=view.observer, unit=view.unit)
        epsilon, method = math.inf, "no bound"
        with suppress(PrivacyError):  # the others are still told
            cost = account(view.event, query.delta)
            epsilon, method = cost.epsilon, cost.method
        guarantees.append(Guarantee(view.observer, view.unit, epsilon, query.delta, view.assumption, method))
    if all(math.isinf(item.epsilon) for item in guarantees):
        account(views[0].event, query.delta)  # says why
    return PrivacyAnswer(noise, to, views, tuple(guarantees))


def _calibrated(mechanism: MechanismFamily, query: PrivacyQuery, epsilon: float) -> tuple[Fraction, str]:
    """The least noise that keeps the observers whom ε is meant for within it, and who they are."""

    def drawable(noise: Fraction) -> Fraction:
        return min(max(noise, mechanism.least), mechanism.greatest)

    def event(place: int, noise: Fraction) -> Event:
        return mechanism.views(drawable(noise), query.times)[place].event

    some = drawable(Fraction(1, 4))
    kinds = [view.observer.name.split(":")[0] for view in mechanism.views(some, query.times)]
    to = query.to or ("server" if "server" in kinds else kinds[0])
    places = [place for place, kind in enumerate(kinds) if to in ("everyone", kind)]
    if not places:
        there = ", ".join(dict.fromkeys(kinds))
        raise PlanError(f"--for {to}: this release has no such observer. It has {there}; or say everyone.")
    if mechanism.search is not None:
        wanted = places[:1] if to == "server" else places
        return min(mechanism.search(event(place, some), epsilon, query.delta) for place in wanted), to
    found = (calibrate(partial(event, place), epsilon=epsilon, delta=query.delta) for place in places)
    noise = drawable(max(found))
    # A target that even the largest drawable noise misses looks met nowhere; one met by the least is met there.
    if any(account(event(place, noise), query.delta).epsilon > epsilon for place in places):
        raise PlanError(f"no {mechanism.parameter} that can be drawn keeps this within ε = {epsilon:g}.")
    return noise, to


def respond(mechanism: MechanismFamily, query: PrivacyQuery, given: dict[str, Any]) -> Answer:
    """The answer, with the options that were `given`; its curve is drawn where one is asked for."""
    if query.plot is not None:
        check_plot_path(query.plot)
    try:
        answer = work_out(mechanism, query)
        lines = () if query.plot is None else _curve(mechanism, query, answer)
    except (ValueError, TypeError) as error:
        # Pure functions speak of their own arguments, which are what the user gave.
        raise PlanError(f"{error}.") from None
    if query.plot is not None:
        axes = Axes(f"number of {mechanism.repeats}", "ε", whole_x=True)
        if query.against == "delta":
            axes = Axes("δ", "ε", log_x=True)
        title = f"{mechanism.name}, {mechanism.parameter} = {number_text(answer.noise)}"
        draw(query.plot, lines, axes, title=title)
    data = _data(mechanism, query, answer, given, lines)
    return Answer(data, lambda _: "\n".join(_text(data)))


def _curve(mechanism: MechanismFamily, query: PrivacyQuery, answer: PrivacyAnswer) -> tuple[Series, ...]:
    """ε of every observer over δ, or over the number of repetitions; points that are refused are left out."""
    points: list[list[tuple[float, float]]] = [[] for _ in answer.views]
    if query.against == "delta":
        deltas = [10 ** (-10 + step / 2) for step in range(17)]
        places = [(delta, answer.views, delta) for delta in deltas]
    else:
        most = query.times if query.times > 1 else 100
        counts = sorted({1, *(math.ceil(most * step / _MOST_POINTS) for step in range(1, _MOST_POINTS + 1))})
        places = [(float(count), mechanism.views(answer.noise, count), query.delta) for count in counts]
    for x, views, delta in places:
        for line, view in zip(points, views, strict=True):
            with suppress(PrivacyError):
                line.append((x, account(view.event, delta).epsilon))
    drawn = []
    for view, line in zip(answer.views, points, strict=True):
        if line:
            xs, ys = zip(*line, strict=True)
            drawn.append(Series(f"{view.observer.name}, {view.unit.name}", xs, ys))
    return tuple(drawn)


def _data(
    mechanism: MechanismFamily,
    query: PrivacyQuery,
    answer: PrivacyAnswer,
    given: dict[str, Any],
    lines: tuple[Series, ...],
) -> dict[str, Any]:
    # The rate is said apart, and classes are not used where the label is a number.
    apart = {"rate", "classes"} if given.get("regression") else {"rate"}
    shown = {name: str(value) if isinstance(value, Fraction) else value for name, value in given.items()}
    noise = {"name": mechanism.parameter, "value": float(answer.noise), "exact": str(answer.noise)}
    target = {"epsilon": query.epsilon, "delta": query.delta, "for": answer.to}
    figures = mechanism.paper(answer.noise, query.times, query.delta) if mechanism.paper else ()
    said = [{"label": LABEL, **asdict(figure), "sentence": str(figure)} for figure in figures]
    curves = [{"label": line.label, "x": line.xs, "epsilon": line.ys} for line in lines]
    return {
        "mechanism": mechanism.name,
        "given": {name: value for name, value in shown.items() if value is not None and name not in apart},
        "noise": {**noise, "calibrated": None if answer.to is None else target},
        "delta": query.delta,
        "times": query.times,
        "times_of": mechanism.repeats,
        "rate": shown.get("rate"),
        "guarantees": [
            {**guarantee_facts(item), "event": event_to_data(view.event)}
            for item, view in zip(answer.guarantees, answer.views, strict=True)
        ],
        "notes": [ROUNDED, *mechanism.notes],
        "paper": said if query.paper else None,
        "plot": {"file": str(query.plot), "against": query.against, "curves": curves} if query.plot else None,
    }


def _text(data: dict[str, Any]) -> list[str]:
    noise, target = data["noise"], data["noise"]["calibrated"]
    first = f"{data['mechanism']}, {noise['name']} = {number_text(Fraction(noise['exact']))}"
    if target:
        aim = f"ε = {target['epsilon']:g} at δ = {target['delta']:g}"
        first += f", the least for {aim} for the observer {target['for']}"
    if data["times"] > 1:
        first += f", {data['times']} {data['times_of']}"
    if data["rate"]:
        first += f", each record in a release with probability {data['rate']}"
    lines = [first, "", *(f"  {item['sentence']}" for item in data["guarantees"])]
    if data["paper"] is not None:
        lines += ["", "What the papers' own formulas say:"]
        figures = [f"  {figure['sentence']}" for figure in data["paper"]]
        lines += figures or ["  No paper has a formula for this release."]
    lines += ["", *(f"  {note}" for note in data["notes"])]
    return [*lines, "", f"Plot: {data['plot']['file']}"] if data["plot"] else lines


def number_text(value: Fraction) -> str:
    """A parameter for people: six digits, or the fraction itself where it is short."""
    text = f"{float(value):.6g}"
    return text if Fraction(text) == value or len(str(value)) > 12 else str(value)
