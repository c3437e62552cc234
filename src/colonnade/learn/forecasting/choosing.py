"""Every method that could do a job, side by side, and which of them to take."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from colonnade.data.schema import PublicSchema
from colonnade.errors import ColonnadeError, PlanError
from colonnade.learn.forecasting.cost import Cost
from colonnade.learn.forecasting.forecast import Forecast, forecast
from colonnade.learn.forecasting.rehearsal import Rehearsals, Stage
from colonnade.learn.jobs import Job
from colonnade.learn.party_files import PartyFile
from colonnade.learn.planning import Answer, ask_budgets
from colonnade.methods.baselines.method import without_privacy
from colonnade.methods.method import Asked, Method
from colonnade.methods.moments.plan import DEFAULT_GAMMA
from colonnade.methods.table import methods_for
from colonnade.protocols.plans import Plan
from colonnade.runtime.party import silent

# Errors closer than this, or than twice the spread of the draws, are not told apart by a simulation.
TOLD_APART = 0.005
AS_MUCH = 1.1
Advance = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Candidate:
    """One method for a job: its plan, what its budgets say and its forecast; or the reason why there is none."""

    method: Method
    plan: Plan | None = None
    answers: tuple[Answer, ...] = ()
    forecast: Forecast | None = None
    reason: str = ""

    @property
    def admitted(self) -> bool | None:
        """Whether every party's budget admits it; None if some are not here to be asked."""
        said = [answer.admits for answer in self.answers]
        return False if False in said else None if None in said else True


@dataclass(frozen=True)
class Choice:
    """The candidates with the job's own first, which of them to take, and why.

    `without_privacy` is the error of an exact model of the same invented people, against which others are read.
    """

    candidates: tuple[Candidate, ...]
    recommended: str | None
    why: str
    without_privacy: float | None


def candidates(
    job: Job,
    own: Plan,
    schemas: Mapping[str, PublicSchema],
    *,
    files: Mapping[str, PartyFile],
    rehearsals: Rehearsals,
    matching: Cost | None = None,
    simulated: bool = True,
    named: Collection[str] | None = None,
    advance: Advance = silent,
) -> tuple[Candidate, ...]:
    """A candidate for every method that can do the job's task as a protocol, the job's own as it is planned.

    `named` are the only methods to look at, the job's own among them.
    """
    able = [
        method
        for method in methods_for(job.task)
        if isinstance(method, Method) and (named is None or method.name in named)
    ]
    able.sort(key=lambda method: method.name != job.method)
    found = []
    for number, method in enumerate(able):
        advance("rehearsing", number, len(able))
        found.append(
            _candidate(
                job,
                method,
                own,
                schemas,
                files=files,
                rehearsals=rehearsals,
                matching=matching,
                simulated=simulated,
            )
        )
    advance("rehearsing", len(able), len(able))
    return tuple(found)


def choose(found: tuple[Candidate, ...], *, without_privacy: float | None = None) -> Choice:
    """The least expected error among those that no budget refuses; of errors a simulation cannot tell apart, the one
    that sends least; of those that send as much within a tenth, the job's own, or else the first. A method whose
    error nothing foretells is never recommended over one whose error is known.
    """
    open_to = [item for item in found if item.forecast is not None and item.admitted is not False]
    known = [item for item in open_to if item.forecast is not None and item.forecast.expected is not None]
    if not known:
        why = (
            "No budget admits any of them."
            if found and not open_to
            else "Nothing foretells the error of any of them, so that none is recommended over another."
        )
        return Choice(found, None, why, without_privacy)
    least = min(known, key=_error)
    close = [
        item
        for item in known
        if _error(item) - _error(least) <= max(TOLD_APART, 2 * math.hypot(_spread(item), _spread(least)))
    ]
    little = min(_bytes(item) for item in close)
    best = next(item for item in close if _bytes(item) <= AS_MUCH * little)
    why = (
        f"It has the least expected error, {_error(best):.3f}, of the {len(known)} whose error was simulated."
    )
    if len(close) > 1:
        others = ", ".join(item.method.name for item in close if item is not best)
        why = (
            f"Its expected error, {_error(best):.3f}, is as good as the least: a simulation cannot tell {others} "
            "apart from it, and none of them sends clearly less."
        )
    if best.forecast is not None and best.forecast.split:
        why += " Its model stays in parts with the parties, who score people together."
    unknown = [item.method.name for item in open_to if item not in known]
    if unknown:
        why += f" Nothing foretells the error of {', '.join(unknown)}."
    refused = [item.method.name for item in found if item.admitted is False]
    if refused:
        why += f" A budget refuses {', '.join(refused)}."
    return Choice(found, best.method.name, why, without_privacy)


def error_without_privacy(
    job: Job, plan: Plan, rehearsals: Rehearsals, *, most: int = 10_000
) -> float | None:
    """The error of an exact model of the same invented people; None where none can be trained."""
    rows = min(plan.rows, most, rehearsals.most)
    stage = Stage(plan, rehearsals.people(rows).tables(rows))
    stage.public = True
    asked = Asked(job.task, job.epsilon)
    try:
        found = without_privacy(stage, asked)
    except ColonnadeError:
        return None
    return rehearsals.score(asked, found, components=job.components)


def _candidate(
    job: Job,
    method: Method,
    own: Plan,
    schemas: Mapping[str, PublicSchema],
    *,
    files: Mapping[str, PartyFile],
    rehearsals: Rehearsals,
    matching: Cost | None,
    simulated: bool,
) -> Candidate:
    asked = asked_of(job, method)
    plan: Any = own
    try:
        if method.name != job.method:
            plan = planned(method, asked, job, own, schemas)
        answers = ask_budgets(plan, files)
    except (PlanError, ColonnadeError) as error:
        return Candidate(method, reason=str(error))
    try:
        method.needs()
        made = forecast(
            rehearsals,
            method,
            asked,
            plan,
            matching=matching,
            simulated=simulated,
            components=job.components,
        )
    except ColonnadeError as error:
        return Candidate(method, plan, answers, reason=str(error))
    return Candidate(method, plan, answers, made)


def asked_of(job: Job, method: Method) -> Asked:
    """What the job asks for, of its own method with its options; of another with that one's defaults."""
    if method.name == job.method:
        return job.asked
    return replace(job.asked, gamma=DEFAULT_GAMMA, options=method.options())


def planned(method: Method, asked: Asked, job: Job, own: Plan, schemas: Mapping[str, PublicSchema]) -> Plan:
    """Another method's plan for the same people, parties, ε and δ."""
    made: Plan = method.request(asked, job.alignment).plan(
        own.group, tuple(schemas[owner] for owner in own.group.owners), own.rows
    )
    return made


def _error(item: Candidate) -> float:
    expected = None if item.forecast is None else item.forecast.expected
    return float("inf") if expected is None else expected.error


def _spread(item: Candidate) -> float:
    expected = None if item.forecast is None else item.forecast.expected
    return 0.0 if expected is None or expected.spread is None else expected.spread


def _bytes(item: Candidate) -> int:
    return 0 if item.forecast is None else item.forecast.cost.bytes_sent
