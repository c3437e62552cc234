"""Every method that could do a job, side by side, and which of them to take."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from colonnade.data.schema import PublicSchema
from colonnade.errors import ColonnadeError, PlanError
from colonnade.federation.job import Job
from colonnade.federation.party_file import PartyFile
from colonnade.forecast.alignment_cost import Matching
from colonnade.forecast.cost import Cost
from colonnade.forecast.forecast import Expected, Forecast, by_twin, forecast
from colonnade.forecast.pairs import best_of, difference, race
from colonnade.forecast.pilot_run import PilotFederation, PilotRuns
from colonnade.forecast.plan_job import Answer, ask_budgets
from colonnade.forecast.work import Work
from colonnade.methods.baselines.method import without_privacy
from colonnade.methods.method import Method, TrainingSpec
from colonnade.methods.moments.plan import DEFAULT_GAMMA
from colonnade.methods.table import check_judged, methods_for
from colonnade.protocols.plans import Plan

AS_MUCH = 1.1


@dataclass(frozen=True)
class Candidate:
    """One method for a job: its plan, what its budgets say and its forecast; or the reason why there is none.

    `passed` says why a method that could do the job was not rehearsed.
    """

    method: Method
    plan: Plan | None = None
    answers: tuple[Answer, ...] = ()
    forecast: Forecast | None = None
    reason: str = ""
    passed: str = ""

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
    pilot_runs: PilotRuns,
    matching: Matching | None = None,
    simulated: bool = True,
    named: Collection[str] | None = None,
    work: Work,
) -> tuple[Candidate, ...]:
    """A candidate for every method that can do the job's task as a protocol, the job's own as it is planned.

    `named` are the only methods to look at, the job's own among them, each rehearsed. Otherwise three kinds are passed
    over unless they are the job's own: those that a budget refuses, those that train another kind of model, and those
    whose quicker twin is worse than the best of the others, or under encryption no better, so that they would not be
    recommended. Of `work`, each method that is looked at is a part.
    """
    able = _able(job, named)
    kind = able[0].trains
    look = partial(
        _candidate,
        job,
        own,
        schemas,
        files=files,
        pilot_runs=replace(pilot_runs, told=work.told),
        matching=matching,
        simulated=simulated,
        all_of_them=named is not None,
    )
    entries: dict[str, Candidate] = {}
    later = []
    for number, method in enumerate(able):
        if named is not None or not number:
            entries[method.name] = look(method)
        elif method.trains != kind:
            entries[method.name] = Candidate(
                method, passed=f"it trains a {method.trains}, not a {kind} model"
            )
            continue
        elif method.twin is not None and simulated:
            later.append(method)
            continue
        else:
            entries[method.name] = look(method)
        work.done()
    entries = _raced(entries, seconds=pilot_runs.effort, told=work.told)
    for method in later:
        entries[method.name] = look(method, against=_best(entries))
        work.done()
    return tuple(entries[method.name] for method in able)


def looked_at(job: Job, named: Collection[str] | None) -> int:
    """How many methods are looked at and not passed over at once: the job's own, and these, or all of its kind."""
    if named is not None:
        return len(_able(job, {*named, job.method}))
    able = _able(job, None)
    return sum(method.trains == able[0].trains for method in able)


def _able(job: Job, named: Collection[str] | None) -> list[Method]:
    """The methods that can do the job's task as a protocol, or those of them that are named; the job's own first."""
    able = [
        method
        for method in methods_for(job.task)
        if isinstance(method, Method) and (named is None or method.name in named)
    ]
    return sorted(able, key=lambda method: method.name != job.method)


def choose(entries: tuple[Candidate, ...], *, without_privacy: float | None = None) -> Choice:
    """The least expected error among those that no budget refuses, by trials in pairs.

    A difference within its own error is a tie, unless one of the two is told apart from a third that the other is not
    told apart from. A tie goes to the method that sends least; of those that send as much within a tenth, to the job's
    own, or else to the first. A method whose error nothing foretells is never recommended over one whose error is
    known.
    """
    open_to = [item for item in entries if item.forecast is not None and item.admitted is not False]
    known = [item for item in open_to if item.forecast is not None and item.forecast.expected is not None]
    if not known:
        why = (
            "No budget admits any of them."
            if entries and not open_to
            else "Nothing foretells the error of any of them, so that none is recommended over another."
        )
        return Choice(entries, None, why, without_privacy)
    least = known[best_of([_expected(item) for item in known])]
    # Few trials of the least tell nobody apart from it; more of another may.
    tied = [item for item in known if item is least or not _worse_than_any(item, known)]
    little = min(_bytes(item) for item in tied)
    best = next(item for item in tied if _bytes(item) <= AS_MUCH * little)
    why = _reason(best, least, tied, len(known))
    if best.forecast is not None and best.forecast.split:
        why += " Its model stays in parts with the parties, who score people together."
    unknown = [item.method.name for item in open_to if item not in known]
    if unknown:
        why += f" Nothing foretells the error of {', '.join(unknown)}."
    refused = [item.method.name for item in entries if item.admitted is False]
    if refused:
        why += f" A budget refuses {', '.join(refused)}."
    return Choice(entries, best.method.name, why, without_privacy)


def _worse_than_any(item: Candidate, known: list[Candidate]) -> bool:
    return any(difference(_expected(item), _expected(other)).worse for other in known)


def _reason(best: Candidate, least: Candidate, tied: list[Candidate], known: int) -> str:
    error = _expected(best).error
    if len(tied) == 1:
        return f"It has the least expected error, {error:.3f}, of the {known} whose error was simulated."
    others = ", ".join(item.method.name for item in tied if item is not best)
    if best is least:
        return (
            f"It has the least expected error, {error:.3f}; {others} cannot be told apart from it in trials on the "
            "same people, and none of them sends clearly less."
        )
    gap = difference(_expected(best), _expected(least))
    pairs = "1 trial" if gap.pairs < 2 else f"{gap.pairs} trials"
    return (
        f"Its expected error, {error:.3f}, is as good as the least: in {pairs} on the same people it differs from that "
        f"of {least.method.name} by {gap.mean:.3f} ± {gap.margin:.3f}, which is a tie, and a tie goes to what is "
        f"simpler and cheaper. Of those that cannot be told apart ({others} besides) none sends clearly less."
    )


def _raced(
    entries: Mapping[str, Candidate], *, seconds: float, told: Callable[[float], None]
) -> dict[str, Candidate]:
    """More trials of those that no budget refuses, until they are told apart or time is up."""
    entered = {
        name: item.forecast
        for name, item in entries.items()
        if item.forecast is not None and item.admitted is not False
    }
    ended = race(tuple(entered.values()), seconds=seconds, told=told)
    raced = dict(zip(entered, ended, strict=True))
    return {
        name: replace(item, forecast=raced[name]) if name in raced else item for name, item in entries.items()
    }


def _best(entries: Mapping[str, Candidate]) -> Candidate | None:
    known = [
        item
        for item in entries.values()
        if item.admitted is not False and item.forecast is not None and item.forecast.expected is not None
    ]
    return known[best_of([_expected(item) for item in known])] if known else None


def error_without_privacy(job: Job, plan: Plan, pilot_runs: PilotRuns, *, most: int = 10_000) -> float | None:
    """The error of an exact model of the same invented people; None where none can be trained."""
    rows = min(plan.rows, most, pilot_runs.most)
    stage = PilotFederation(plan, pilot_runs.people(rows).tables(rows))
    stage.public = True
    asked = TrainingSpec(job.task, job.epsilon)
    try:
        result = without_privacy(stage, asked)
    except ColonnadeError:
        return None
    return pilot_runs.score(asked, result, components=job.components)


def _candidate(
    job: Job,
    own: Plan,
    schemas: Mapping[str, PublicSchema],
    method: Method,
    *,
    files: Mapping[str, PartyFile],
    pilot_runs: PilotRuns,
    matching: Matching | None,
    simulated: bool,
    all_of_them: bool,
    against: Candidate | None = None,
) -> Candidate:
    asked = asked_of(job, method)
    plan: Any = own
    try:
        if job.held_out is not None:
            check_judged(method, job.task)
        if method.name != job.method:
            plan = planned(method, asked, job, own, schemas)
        answers = ask_budgets(plan, files, held_out=job.held_out)
    except (PlanError, ColonnadeError) as failure:
        return Candidate(method, reason=str(failure))
    item = Candidate(method, plan, answers)
    if item.admitted is False and method.name != job.method and not all_of_them:
        return replace(item, passed="a budget refuses it")
    twin = None
    try:
        method.needs()
        if against is not None:
            error = by_twin(pilot_runs, method, asked, plan, components=job.components)
            worse, twin = _twin_is_worse(method, error, against, rows=plan.rows, seconds=pilot_runs.effort)
            if worse:
                return replace(item, passed=worse)
        made = forecast(
            pilot_runs,
            method,
            asked,
            plan,
            matching=matching,
            simulated=simulated,
            components=job.components,
        )
    except ColonnadeError as failure:
        return replace(item, reason=str(failure))
    if twin is not None and made.expected is not None and len(made.expected.errors) < len(twin.errors):
        made = replace(made, expected=twin)
    return replace(item, forecast=made)


def _twin_is_worse(
    method: Method, error: Callable[[int], float | None], against: Candidate, *, rows: int, seconds: float
) -> tuple[str, Expected]:
    """In words, if it is, otherwise nothing; and its trials."""
    first = Expected(tuple(error(trial) for trial in range(len(_expected(against).errors))), rows, twin=True)
    if not first.known or against.forecast is None:
        return "in trials of its twin, which has its noise, nothing was left to learn", first
    entered = Forecast(Cost({}), False, None, method.kernel, first, trial=error)
    ended = [made.expected for made in race((against.forecast, entered), seconds=seconds)]
    best, twin = ended[0] or _expected(against), ended[1] or first
    gap = difference(twin, best)
    told = f"its twin, which has its noise and is quicker, has an error of {twin.error:.3f}"
    if gap.worse:
        return f"{told}, larger than that of {against.method.name} by {gap.mean:.3f} ± {gap.margin:.3f}", twin
    if method.kernel == "powers" and not difference(best, twin).worse:
        no_better = (
            f"no smaller than that of {against.method.name} beyond chance, and encryption takes far longer"
        )
        return f"{told}, {no_better}", twin
    return "", twin


def asked_of(job: Job, method: Method) -> TrainingSpec:
    """What the job asks for, of its own method with its options; of another with that one's defaults."""
    if method.name == job.method:
        return job.asked
    return replace(job.asked, gamma=DEFAULT_GAMMA, options=method.options())


def planned(
    method: Method, asked: TrainingSpec, job: Job, own: Plan, schemas: Mapping[str, PublicSchema]
) -> Plan:
    """Another method's plan for the same people, parties, ε and δ."""
    made: Plan = method.request(asked, job.alignment).plan(
        own.group, tuple(schemas[owner] for owner in own.group.owners), own.rows
    )
    return made


def _expected(item: Candidate) -> Expected:
    if item.forecast is None or item.forecast.expected is None:
        raise ValueError(f"nothing foretells the error of {item.method.name}")
    return item.forecast.expected


def _bytes(item: Candidate) -> int:
    return 0 if item.forecast is None else item.forecast.cost.bytes_sent
