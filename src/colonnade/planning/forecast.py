"""What a plan promises to cost and to bring, before it is run."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from colonnade.errors import ColonnadeError
from colonnade.methods.method import Kernel, Method, NoiseSummary, TrainingResult
from colonnade.planning.alignment_cost import Matching
from colonnade.planning.cost import Cost, cost_data, weighted
from colonnade.planning.pilot_run import PilotOutcome, PilotRuns, TrialError
from colonnade.protocols.plans import Plan, Task, TrainingSpec
from colonnade.randomness import SeededRandomness

FEWEST = 500
NOTHING_LEARNT = "in the simulation noise left nothing to learn"
ERRORS: Mapping[Task, str] = {
    "classification": "share of people classed wrongly",
    "regression": "mean squared error, the label scaled to [−1, 1]",
    "pca": "share of the best directions' variance that is missed",
}


@dataclass(frozen=True)
class Expected:
    """The errors of models of invented people, on others of them: one for each trial, None where noise left nothing.

    Trials of two methods with one number have the same people and draws. `rows` is how many were learnt from; fewer
    than the plan's make it an upper figure. `twin` says that the protocol's ideal twin was run in its place, with the
    same noise.
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
        """The mean area under the ROC curve, where classes are told apart."""
        areas = [error.auc for error in self.known if isinstance(error, TrialError) and error.auc is not None]
        return statistics.fmean(areas) if areas else None

    @property
    def spread(self) -> float | None:
        """Their standard deviation, if there are several."""
        return statistics.stdev(self.known) if len(self.known) > 1 else None


@dataclass(frozen=True)
class Forecast:
    """What one plan costs and brings. `expected` is None where nothing foretells the error, and `unknown` says why.

    `split` says that the model stays in parts with the parties. `trial` has the error of one more trial by its number,
    where that can be had in about as long as the first ones took.
    """

    cost: Cost
    whole: bool
    noise: NoiseSummary | None
    kernel: Kernel
    expected: Expected | None
    unknown: str = ""
    split: bool = False
    trial: Callable[[int], float | None] | None = field(default=None, compare=False)

    def to_data(self) -> dict[str, Any]:
        noise, expected = self.noise, self.expected
        return {
            **cost_data(self.cost),
            "rehearsed": "whole" if self.whole else "abridged",
            "noise": None if noise is None else {"standard_deviation": noise.deviation, "on": noise.on},
            "expected": None
            if expected is None
            else {
                "error": expected.error,
                "auc": expected.auc,
                "spread": expected.spread,
                "draws": len(expected.known),
                "rows": expected.rows,
                "twin": expected.twin,
            },
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
    simulated: bool = True,
    components: int | None = None,
) -> Forecast:
    """Rehearse a plan. `matching` is what finding the common people adds; `simulated` = False leaves the error out."""
    rehearsed = pilot_runs.rehearse(method, spec, plan)
    added = None if matching is None else matching.cost(plan)
    cost = rehearsed.cost if added is None else weighted([(1.0, rehearsed.cost), (1.0, added)])
    expected, unknown, trial = None, "no simulation was asked for", None
    if simulated:
        try:
            expected, unknown, trial = _expected(pilot_runs, method, spec, plan, rehearsed, components)
        except ColonnadeError as error:
            unknown = str(error)
    return Forecast(
        cost, rehearsed.whole, method.noise(plan), method.kernel, expected, unknown, rehearsed.split, trial
    )


def _expected(
    pilot_runs: PilotRuns,
    method: Method,
    spec: TrainingSpec,
    plan: Plan,
    rehearsed: PilotOutcome,
    components: int | None,
) -> tuple[Expected | None, str, Callable[[int], float | None] | None]:
    """The errors of some trials, or why there are none, and how to have more."""
    rows, draws = plan.rows, len(rehearsed.trained)
    learn: Callable[[int], TrainingResult]
    if rehearsed.whole:
        trained = dict(enumerate(rehearsed.trained))

        def learn(trial: int) -> TrainingResult:
            return trained.pop(trial, None) or pilot_runs.perform(method, spec, plan, trial=trial)[1]

    elif method.twin is not None:
        ideal = by_twin(pilot_runs, method, spec, plan, components=components)
        errors = tuple(ideal(trial) for trial in range(pilot_runs.draws))
        expected = Expected(errors, min(plan.rows, pilot_runs.most), twin=True)
        return (expected, "", ideal) if expected.known else (None, NOTHING_LEARNT, None)

    else:
        # From fewer people at the same ε, once: it takes as long as a whole run may take.
        seconds = rehearsed.cost.seconds
        rows, draws = min(plan.rows, pilot_runs.most, int(plan.rows * pilot_runs.effort / seconds)), 1
        if rows < min(FEWEST, plan.rows):
            return (
                None,
                f"a simulation takes about {seconds:.0f} s, and --effort allows {pilot_runs.effort:g} s",
                None,
            )
        smaller = _planned_for(pilot_runs, spec, plan, rows)

        def learn(trial: int) -> TrainingResult:
            return pilot_runs.perform(method, spec, smaller, trial=trial)[1]

    def error(trial: int) -> float | None:
        return pilot_runs.score(spec, learn(trial), components=components, trial=trial)

    expected = Expected(tuple(error(trial) for trial in range(draws)), rows)
    if not expected.known:
        return None, NOTHING_LEARNT, None
    return expected, "", error if rehearsed.whole else None


def by_twin(
    pilot_runs: PilotRuns, method: Method, spec: TrainingSpec, plan: Plan, *, components: int | None
) -> Callable[[int], float | None]:
    """How far the protocol's ideal twin is from perfect in each trial: the same noise, and far quicker."""
    if method.twin is None:
        raise ValueError(f"{method.name} has no twin")
    ideal, rows = method.twin, min(plan.rows, pilot_runs.most)
    smaller = _planned_for(pilot_runs, spec, plan, rows)

    def error(trial: int) -> float | None:
        randomness = SeededRandomness(f"trial {trial}")
        result = ideal(smaller, pilot_runs.people(rows, trial).tables(rows), randomness)
        return pilot_runs.score(spec, result, components=components, trial=trial)

    return error


def _planned_for(pilot_runs: PilotRuns, spec: TrainingSpec, plan: Plan, rows: int) -> Plan:
    """The plan for other people, with the same ε and δ."""
    if rows == plan.rows:
        return plan
    request = replace(spec, delta=plan.delta or spec.delta, alignment="equal")
    schemas = tuple(pilot_runs.schemas[owner] for owner in plan.group.owners)
    made: Plan = request.plan(plan.group, schemas, rows)
    return made
