"""What a plan promises to cost and to bring, and which of two methods has the smaller error.

A method that nobody named is chosen here too: margin descent, unless it cannot be planned, or trials on synthetic
people say that moments do better. Trials draw from public seeds, so that one question has one answer.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scipy.special import stdtrit

from colonnade.data.schema import PublicSchema
from colonnade.errors import ColonnadeError
from colonnade.federation.federation import Federation
from colonnade.federation.job import Job
from colonnade.methods.margin.plan import MarginPlan
from colonnade.methods.method import Method, NoiseSummary
from colonnade.methods.moments.method import noise_of
from colonnade.methods.moments.plan import MomentsPlan
from colonnade.methods.table import METHODS, default_method, protocol_named
from colonnade.planning.cost import Clock, Cost, weighted
from colonnade.planning.machine import Matching
from colonnade.planning.pilot import PilotRuns, Trial, TrialError
from colonnade.protocols.plans import Plan, Task, TrainingSpec
from colonnade.runtime.party import Group

Advance = Callable[[str, int, int], None]
ERRORS: Mapping[Task, str] = {
    "classification": "share of people classed wrongly",
    "regression": "mean squared error, the label scaled to [−1, 1]",
    "pca": "share of the best directions' variance that is missed",
}
RATE = 0.95
# Of fewer trials chance is not known well enough to say anything.
FEWEST_PAIRS = 3
MOST_TRIALS = 6
TRIALS = 4
# So many synthetic people at most, and so many numbers of them; with more columns nothing is tried in passing.
MOST_PEOPLE, MOST_NUMBERS, FEWEST = 4000, 400_000, 500
HALF_A_POINT = 0.005
"""Below this the study could not tell what was lost from chance."""
A_POINT = 0.01
NOTHING_LEFT = "in the simulation noise left nothing to learn"
PAST_THE_LAW = 0.15
"""The study stops here: whoever would lose more has a model that says next to nothing."""


@dataclass(frozen=True)
class Expected:
    """The errors of trials by number, None where noise left nothing; of two methods on the same people and draws.

    With fewer `rows` than the plan's the error is an upper figure. `twin` says that the protocol's twin was run.
    """

    errors: tuple[float | None, ...]
    rows: int
    twin: bool = False

    @property
    def known(self) -> tuple[float, ...]:
        return tuple(error for error in self.errors if error is not None)

    @property
    def error(self) -> float:
        return statistics.fmean(self.known)

    @property
    def auc(self) -> float | None:
        areas = [error.auc for error in self.known if isinstance(error, TrialError) and error.auc is not None]
        return statistics.fmean(areas) if areas else None

    @property
    def spread(self) -> float | None:
        return statistics.stdev(self.known) if len(self.known) > 1 else None

    def to_data(self) -> dict[str, Any]:
        return {
            "error": self.error,
            "auc": self.auc,
            "spread": self.spread,
            "draws": len(self.known),
            "rows": self.rows,
            "twin": self.twin,
        }


@dataclass(frozen=True)
class Forecast:
    """`expected` is None where no error is known, and `unknown` says why; `trial` has one more by number."""

    cost: Cost
    whole: bool
    noise: NoiseSummary | None
    expected: Expected | None
    unknown: str = ""
    split: bool = False
    trial: Callable[[int], float | None] | None = field(default=None, compare=False)

    def to_data(self) -> dict[str, Any]:
        noise, expected = self.noise, self.expected
        return {
            **self.cost.to_data(),
            "rehearsed": "whole" if self.whole else "abridged",
            "noise": None if noise is None else {"standard_deviation": noise.deviation, "on": noise.on},
            "expected": None if expected is None else expected.to_data(),
            "unknown": self.unknown,
            "split": self.split,
        }


def forecast(
    pilot_runs: PilotRuns,
    method: Method,
    spec: TrainingSpec,
    plan: Plan,
    *,
    matching: Matching | None = None,
    costed: bool = True,
    simulated: bool = True,
    components: int | None = None,
) -> Forecast:
    """Rehearse a plan: its cost if `costed`, with what `matching` people adds, and its error if `simulated`."""
    cost, whole, split = pilot_runs.rehearse(method, spec, plan) if costed else (Cost(), False, False)
    seconds = cost.seconds * pilot_runs.people(plan.rows) / plan.rows
    if costed and matching is not None and (added := matching.cost(plan)) is not None:
        cost = weighted([(1.0, cost), (1.0, added)])
    said = "no simulation was asked for"
    result = Forecast(cost, whole, method.noise(plan), None, said, split)
    if not simulated:
        return result
    if method.twin is None and seconds > pilot_runs.effort:
        said = f"a simulation takes about {seconds:.0f} s, and --effort allows {pilot_runs.effort:g} s"
        return replace(result, unknown=said)
    try:
        trial = pilot_runs.trials(method, spec, plan, components=components)
        expected = expect(pilot_runs, method, plan, trial, pilot_runs.draws)
    except ColonnadeError as error:
        return replace(result, unknown=str(error))
    if not expected.known:
        return replace(result, unknown=NOTHING_LEFT)
    return replace(result, expected=expected, unknown="", trial=trial)


def expect(pilot_runs: PilotRuns, method: Method, plan: Plan, trial: Trial, draws: int) -> Expected:
    errors = tuple(trial(number) for number in range(draws))
    return Expected(errors, pilot_runs.people(plan.rows), twin=method.twin is not None)


@dataclass(frozen=True)
class Difference:
    """How much larger the error of one method is than another's, and the error of that figure.

    Guarantee: where differences of trials are normal, the true one lies within `margin` of `mean` with chance 95 %. A
    single pair has no error of its own, and may be off by anything.
    """

    mean: float
    margin: float
    pairs: int

    @property
    def worse(self) -> bool:
        return self.pairs >= FEWEST_PAIRS and self.mean > self.margin


def difference(one: Expected, other: Expected) -> Difference:
    pairs = [
        mine - theirs
        for mine, theirs in zip(one.errors, other.errors, strict=False)
        if mine is not None and theirs is not None
    ]
    if len(pairs) < 2:
        return Difference(one.error - other.error, math.inf, len(pairs))
    quantile = float(stdtrit(len(pairs) - 1, 0.5 + RATE / 2))
    margin = quantile * statistics.stdev(pairs) / math.sqrt(len(pairs))
    return Difference(statistics.fmean(pairs), margin, len(pairs))


def least_lead(task: Task) -> float:
    """By how much less another must err than the usual method: synthetic people suit the squared loss of its rivals."""
    return HALF_A_POINT if task == "classification" else 0.0


def best_of(expected: Sequence[Expected]) -> int:
    """The place of the least mean; but whoever is told apart from it in pairs, and better, takes its place."""
    places = range(len(expected))
    best = min(places, key=lambda place: expected[place].error)
    for _ in expected:
        better = [place for place in places if difference(expected[best], expected[place]).worse]
        if not better:
            break
        best = min(better, key=lambda place: expected[place].error)
    return best


def race(entered: Sequence[Forecast], *, seconds: float) -> tuple[Forecast, ...]:
    """More trials of those that cannot be told apart from the best, as far as time allows.

    Whoever is told apart by then runs no further, so that all pairs have the same numbers. It ends where one is left,
    after `MOST_TRIALS`, or when the seconds are used up.
    """
    forecasts, spent = list(entered), 0.0
    while True:
        known = {place: one.expected for place, one in enumerate(forecasts) if one.expected is not None}
        best = list(known.values())[best_of(list(known.values()))] if known else None
        running = {
            place: each
            for place, each in known.items()
            if forecasts[place].trial is not None and best is not None and not difference(each, best).worse
        }
        fewest = min((len(each.errors) for each in running.values()), default=MOST_TRIALS)
        if len(running) < 2 or fewest >= MOST_TRIALS or spent >= seconds:
            return tuple(forecasts)
        with Clock() as clock:
            for place, each in running.items():
                trial = forecasts[place].trial
                if len(each.errors) == fewest and trial is not None:
                    longer = replace(each, errors=(*each.errors, trial(fewest)))
                    forecasts[place] = replace(forecasts[place], expected=longer)
        spent += clock.seconds


class Work:
    """Tells how many of so many parts are over."""

    def __init__(self, advance: Advance, parts: int) -> None:
        self._advance, self._parts, self._over = advance, parts, 0
        advance("rehearsing", 0, parts)

    def done(self) -> None:
        self._over += 1
        self._advance("rehearsing", self._over, self._parts)


@dataclass(frozen=True)
class Law:
    """The share of people whose class a model no longer finds: constant · σ^noise_power · d^column_power.

    `factor` is how far four settings in five of the study were from it at most, half a point added to both.
    """

    constant: float
    noise_power: float
    column_power: float
    factor: float

    def lost(self, noise: float, columns: int) -> float:
        return float(self.constant * noise**self.noise_power * columns**self.column_power)

    def people_for(self, lost: float, noise: float, columns: int) -> float:
        """At this noise in all, at the far end of the factor."""
        near = (lost + HALF_A_POINT) / self.factor - HALF_A_POINT
        by_person = (near / (self.constant * columns**self.column_power)) ** (1.0 / self.noise_power)
        return float(noise / by_person)


# As `python -m reproduction --only what_to_expect` found them; a test holds them to its results.
POWER_LAWS = {"moments": Law(0.00951, 0.539, 1.03, 1.75), "margin": Law(0.023, 0.749, 0.834, 1.7)}


def expected_loss(plan: Plan) -> dict[str, Any] | None:
    """None where the study says nothing: other methods and tasks, more classes, several labels."""
    if isinstance(plan, MarginPlan):
        law, noise, studied = POWER_LAWS["margin"], plan.deviation, True
    elif isinstance(plan, MomentsPlan):
        law, noise = POWER_LAWS["moments"], noise_of(plan)
        studied = plan.spec.task == "classification" and not (plan.conditional or plan.several)
    else:
        return None
    if not studied or plan.label.width != 2:
        return None
    columns = sum(encoder.width for encoder in plan.encoders.values())
    lost = law.lost(noise / plan.rows, columns)
    return {
        "lost": lost,
        "low": max(0.0, (lost + HALF_A_POINT) / law.factor - HALF_A_POINT),
        "high": (lost + HALF_A_POINT) * law.factor - HALF_A_POINT,
        "people_for_a_point": round(law.people_for(A_POINT, noise, columns)),
    }


def left_open(job: Job) -> bool:
    """Whether trials say which method the job takes: it names none, and no option of the usual one."""
    return bool(job.because) and job.method != "moments" and job.options == METHODS[job.method].options()


def settle(job: Job, group: Group, schemas: Mapping[str, PublicSchema], *, rows: int) -> Job:
    """A job that names no method, with the one to take for these columns and about so many people, and why."""
    if not left_open(job):
        return job
    name, because = default_for(job.spec, group, schemas, rows=rows)
    if name == job.method:
        return job.model_copy(update={"because": because})
    # No site knows the others' columns before they meet.
    because += f'. Between machines the job alone decides, so write method = "{name}" into it'
    options = METHODS[name].options()
    return job.model_copy(update={"method": name, "options": options, "because": because})


def default_of(federation: Federation, task: Task, *, epsilon: float, delta: float) -> tuple[str, str]:
    work = Work(federation.hooks.progress, 1)
    spec, rows = TrainingSpec(task, epsilon, delta=delta), people_of(federation)
    chosen = default_for(spec, federation.group, schemas_of(federation), rows=rows)
    work.done()
    return chosen


def schemas_of(federation: Federation) -> dict[str, PublicSchema]:
    return {owner: federation.tables[owner].public() for owner in federation.group.owners}


def people_of(federation: Federation) -> int:
    """How many people there are at most, by the numbers that parties show each other."""
    people = min(
        max(table.rows, federation.shown_ids.get(party, 0)) for party, table in federation.tables.items()
    )
    return trained_on(people, federation.held_out)


def trained_on(rows: int, held_out: float | None) -> int:
    return rows if held_out is None else max(1, round(rows * (1 - held_out)))


def default_for(
    spec: TrainingSpec, group: Group, schemas: Mapping[str, PublicSchema], *, rows: int
) -> tuple[str, str]:
    """The method where none is named, and why; `spec` says what for, and its options are nobody's."""
    name, because = default_method(spec.task, group, epsilon=spec.epsilon, delta=spec.delta, gamma=spec.gamma)
    if name == "moments":
        return name, because
    usual, simple = protocol_named(name), protocol_named("moments")
    owners = tuple(schemas[owner] for owner in group.owners)
    specs = {each.name: replace(spec, options=each.options(), alignment="equal") for each in (usual, simple)}
    try:
        plans = {simple.name: specs[simple.name].plan(group, owners, rows)}
    except ColonnadeError:
        return name, because  # whoever runs it is told why not
    try:
        plans[name] = specs[name].plan(group, owners, rows)
    except ColonnadeError as error:
        return simple.name, f"margin descent cannot be planned: {str(error).rstrip('.')}"
    width = sum(schema.encoder("circle").width for schema in schemas.values())
    if width * FEWEST > MOST_NUMBERS:
        return name, f"{because}; {width} features are too many to try both in passing"
    pilot_runs = PilotRuns(schemas, most=min(MOST_PEOPLE, MOST_NUMBERS // max(1, width)))
    guessing = 1 - 1 / max(
        len(label.classes) for schema in owners for label in schema.labels if label.classes
    )
    errors = {}
    try:
        for each in (usual, simple):
            trial = pilot_runs.trials(each, specs[each.name], plans[each.name])
            expected = expect(pilot_runs, each, plans[each.name], trial, TRIALS)
            # Where noise left nothing to learn, the error is that of guessing.
            errors[each.name] = replace(
                expected, errors=tuple(guessing if error is None else error for error in expected.errors)
            )
    except ColonnadeError:
        return name, because
    gap = difference(errors[name], errors[simple.name])
    tried_out = (
        f"in {TRIALS} trials margin descent classed {errors[name].error:.3f} of synthetic people wrongly and moments "
        f"{errors[simple.name].error:.3f}"
    )
    if gap.worse and gap.mean >= least_lead(spec.task):
        return simple.name, f"{tried_out}, which is {gap.mean:.3f} ± {gap.margin:.3f} less"
    return name, f"{because}; {tried_out}, which is not half a point less beyond chance"
