"""What a plan promises to cost and to bring, before it is run."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from colonnade.errors import ColonnadeError
from colonnade.learn.forecasting.cost import Cost, cost_data, weighted
from colonnade.learn.forecasting.rehearsal import DRAWS, Rehearsals, Rehearsed
from colonnade.methods.method import Asked, Found, Kernel, Method, Noise
from colonnade.protocols.plans import Plan, Task

FEWEST = 500
ERRORS: Mapping[Task, str] = {
    "classification": "share of people classed wrongly",
    "regression": "mean squared error, the label scaled to [−1, 1]",
    "pca": "share of the best directions' variance that is missed",
}


@dataclass(frozen=True)
class Expected:
    """The error of a model of invented people, on others of them: the mean of some draws of the noise.

    `rows` is how many were learnt from; fewer than the plan's make it an upper figure. `twin` says that the protocol's
    ideal twin was run in its place, with the same noise.
    """

    error: float
    spread: float | None
    draws: int
    rows: int
    twin: bool = False


@dataclass(frozen=True)
class Forecast:
    """What one plan costs and brings. `expected` is None where nothing foretells the error, and `unknown` says why.

    `split` says that the model stays in parts with the parties.
    """

    cost: Cost
    whole: bool
    noise: Noise | None
    kernel: Kernel
    expected: Expected | None
    unknown: str = ""
    split: bool = False

    def to_data(self) -> dict[str, Any]:
        """The forecast as plain values."""
        noise, expected = self.noise, self.expected
        return {
            **cost_data(self.cost),
            "rehearsed": "whole" if self.whole else "abridged",
            "noise": None if noise is None else {"standard_deviation": noise.deviation, "on": noise.on},
            "expected": None
            if expected is None
            else {
                "error": expected.error,
                "spread": expected.spread,
                "draws": expected.draws,
                "rows": expected.rows,
                "twin": expected.twin,
            },
            "unknown": self.unknown,
            "split": self.split,
        }


def forecast(
    rehearsals: Rehearsals,
    method: Method,
    asked: Asked,
    plan: Plan,
    *,
    matching: Cost | None = None,
    simulated: bool = True,
    components: int | None = None,
) -> Forecast:
    """Rehearse a plan. `matching` is what finding the common people adds; `simulated` = False leaves the error out."""
    rehearsed = rehearsals.rehearse(method, asked, plan)
    cost = rehearsed.cost if matching is None else weighted([(1.0, rehearsed.cost), (1.0, matching)])
    expected, unknown = None, "no simulation was asked for"
    if simulated:
        expected, unknown = _expected(rehearsals, method, asked, plan, rehearsed, components)
    return Forecast(
        cost, rehearsed.whole, method.noise(plan), method.kernel, expected, unknown, rehearsed.split
    )


def _expected(
    rehearsals: Rehearsals,
    method: Method,
    asked: Asked,
    plan: Plan,
    rehearsed: Rehearsed,
    components: int | None,
) -> tuple[Expected | None, str]:
    """The mean error over some draws, and why there is none."""
    found, rows, twin = list(rehearsed.found), plan.rows, False
    if not found:
        try:
            found, rows, twin = _simulated(rehearsals, method, asked, plan, rehearsed.cost.seconds)
        except ColonnadeError as error:
            return None, str(error)
    if not found:
        seconds = rehearsed.cost.seconds
        return None, f"a simulation takes about {seconds:.0f} s, and --effort allows {rehearsals.effort:g} s"
    scores = [rehearsals.score(asked, learnt, components=components) for learnt in found]
    errors = [score for score in scores if score is not None]
    if not errors:
        return None, "in the simulation noise left nothing to learn"
    spread = statistics.stdev(errors) if len(errors) > 1 else None
    return Expected(statistics.fmean(errors), spread, len(errors), rows, twin), ""


def _simulated(
    rehearsals: Rehearsals, method: Method, asked: Asked, plan: Plan, seconds: float
) -> tuple[list[Found], int, bool]:
    """Models where the whole is too long to rehearse: by a quicker twin, or from fewer people at the same ε."""
    rows = min(plan.rows, rehearsals.most)
    if method.twin is not None:
        smaller = _planned_for(rehearsals, method, asked, plan, rows)
        tables = rehearsals.people(rows).tables(rows)
        return [method.twin(smaller, tables) for _ in range(DRAWS)], rows, True
    rows = min(rows, int(plan.rows * rehearsals.effort / seconds))
    if rows < min(FEWEST, plan.rows):
        return [], rows, False
    smaller = _planned_for(rehearsals, method, asked, plan, rows)
    return [rehearsals.perform(method, asked, smaller)[1]], rows, False


def _planned_for(rehearsals: Rehearsals, method: Method, asked: Asked, plan: Plan, rows: int) -> Plan:
    """The plan for other people, with the same ε and δ."""
    if rows == plan.rows:
        return plan
    request = method.request(replace(asked, delta=plan.delta or asked.delta), "equal")
    schemas = tuple(rehearsals.schemas[owner] for owner in plan.group.owners)
    made: Plan = request.plan(plan.group, schemas, rows)
    return made
