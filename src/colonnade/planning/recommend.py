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
from colonnade.methods.baselines.method import without_privacy
from colonnade.methods.method import Method
from colonnade.methods.table import check_evaluated, methods_for
from colonnade.planning.alignment_cost import Matching
from colonnade.planning.cost import Cost
from colonnade.planning.forecast import Expected, Forecast, by_twin, forecast
from colonnade.planning.pairs import FEWEST_PAIRS, best_of, difference, race
from colonnade.planning.pilot_run import PilotFederation, PilotRuns
from colonnade.planning.plan_job import Answer, ask_budgets
from colonnade.planning.work import Work
from colonnade.protocols.plans import DEFAULT_GAMMA, Plan, TrainingSpec


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
        pilot_runs=replace(pilot_runs, notify=work.notify),
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
    entries = _raced(entries, seconds=pilot_runs.effort, notify=work.notify)
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
    able = [
        method
        for method in methods_for(job.task)
        if isinstance(method, Method) and (named is None or method.name in named)
    ]
    return sorted(able, key=lambda method: method.name != job.method)


def choose(
    entries: tuple[Candidate, ...], *, usual: str = "", without_privacy: float | None = None
) -> Choice:
    """The job's own method, which comes first, unless another is shown to be better; without it the task's `usual` one.

    Shown to be better: its error is smaller in at least `FEWEST_PAIRS` trials on the same people, by more than the
    error of that difference, and its model is not left in parts with the parties, unless that of the job's own is too.
    What a budget refuses, and what nothing foretells the error of, is never recommended. Where neither the job's own
    nor the usual method can be, it is the best of those that were tried often enough, or none.
    """
    known = _eligible(entries)
    if not known:
        return Choice(entries, None, _why_none(entries), without_privacy)
    named = {item.method.name: item for item in known}
    kept = named.get(entries[0].method.name) or named.get(usual)
    tried = [item for item in known if len(_expected(item).known) >= FEWEST_PAIRS]
    better = [item for item in tried if kept is None or difference(_expected(kept), _expected(item)).worse]
    best = better[best_of([_expected(item) for item in better])] if better else kept
    if best is None:
        said = f"Nothing was tried at least {FEWEST_PAIRS} times, so that none is recommended over another."
        return Choice(entries, None, said, without_privacy)
    why = " ".join([_reason(best, kept, entries), *_left_out(best, entries, known)])
    return Choice(entries, best.method.name, why, without_privacy)


def _eligible(entries: Collection[Candidate]) -> list[Candidate]:
    """Those that may be recommended: no budget refuses them, their error is known, their model is of the job's kind."""
    in_parts = any(item.forecast is not None and item.forecast.split for item in list(entries)[:1])
    return [
        item
        for item in entries
        if item.admitted is not False
        and item.forecast is not None
        and item.forecast.expected is not None
        and (in_parts or not item.forecast.split)
    ]


def _why_none(entries: tuple[Candidate, ...]) -> str:
    made = [item for item in entries if item.forecast is not None]
    if entries and not any(item.admitted is not False for item in made):
        return "No budget admits any of them."
    return "Nothing foretells the error of any that could be, so that none is recommended over another."


def _reason(best: Candidate, kept: Candidate | None, entries: tuple[Candidate, ...]) -> str:
    error = _expected(best).error
    if kept is None:
        return f"It has the least expected error, {error:.3f}, of those that were tried often enough."
    if best is not kept:
        gap = difference(_expected(kept), _expected(best))
        return (
            f"In {gap.pairs} trials on the same people its error, {error:.3f}, is smaller than that of "
            f"{kept.method.name} by {gap.mean:.3f} ± {gap.margin:.3f}."
        )
    which = "the job's own" if best is entries[0] else "the usual one for this task"
    return (
        f"It is {which}, with an expected error of {error:.3f}, and no other is shown to be better: with a smaller "
        f"error in at least {FEWEST_PAIRS} trials on the same people, by more than chance makes of them."
    )


def _left_out(best: Candidate, entries: tuple[Candidate, ...], known: list[Candidate]) -> list[str]:
    open_to = [item for item in entries if item.forecast is not None and item.admitted is not False]
    unknown = [item for item in open_to if item.forecast is not None and item.forecast.expected is None]
    in_parts = [item for item in open_to if item not in known and item not in unknown]
    rare = [item for item in known if item is not best and _pairs(best, item) < FEWEST_PAIRS]
    said = []
    if best.forecast is not None and best.forecast.split:
        said.append("Its model stays in parts with the parties, who score people together.")
    if in_parts:
        said.append(
            f"{_names(in_parts)} would leave the model in parts with the parties, which the job does not ask for."
        )
    if rare:
        said.append(f"Too few trials to compare it with: {_names(rare)}.")
    if unknown:
        said.append(f"Nothing foretells the error of {_names(unknown)}.")
    refused = [item for item in entries if item.admitted is False]
    if refused:
        said.append(f"A budget refuses {_names(refused)}.")
    return said


def _pairs(one: Candidate, other: Candidate) -> int:
    return difference(_expected(one), _expected(other)).pairs


def _names(items: list[Candidate]) -> str:
    return ", ".join(item.method.name for item in items)


def _raced(
    entries: Mapping[str, Candidate], *, seconds: float, notify: Callable[[float], None]
) -> dict[str, Candidate]:
    """More trials of those that no budget refuses, until they are told apart or time is up."""
    entered = {
        name: item.forecast
        for name, item in entries.items()
        if item.forecast is not None and item.admitted is not False
    }
    ended = race(tuple(entered.values()), seconds=seconds, notify=notify)
    raced = dict(zip(entered, ended, strict=True))
    return {
        name: replace(item, forecast=raced[name]) if name in raced else item for name, item in entries.items()
    }


def _best(entries: Mapping[str, Candidate]) -> Candidate | None:
    known = _eligible(entries.values())
    return known[best_of([_expected(item) for item in known])] if known else None


def error_without_privacy(job: Job, plan: Plan, pilot_runs: PilotRuns, *, most: int = 10_000) -> float | None:
    """The error of an exact model of the same invented people; None where none can be trained."""
    rows = min(plan.rows, most, pilot_runs.most)
    stage = PilotFederation(plan, pilot_runs.people(rows).tables(rows))
    stage.public = True
    spec = TrainingSpec(job.task, job.epsilon)
    try:
        result = without_privacy(stage, spec)
    except ColonnadeError:
        return None
    return pilot_runs.score(spec, result, components=job.components)


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
    spec = spec_of(job, method)
    plan: Any = own
    try:
        if job.held_out is not None:
            check_evaluated(method, job.task)
        if method.name != job.method:
            plan = planned(spec, job, own, schemas)
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
            error = by_twin(pilot_runs, method, spec, plan, components=job.components)
            worse, twin = _twin_is_worse(method, error, against, rows=plan.rows, seconds=pilot_runs.effort)
            if worse:
                return replace(item, passed=worse)
        made = forecast(
            pilot_runs,
            method,
            spec,
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
    notify = f"its twin, which has its noise and is quicker, has an error of {twin.error:.3f}"
    if gap.worse:
        return (
            f"{notify}, larger than that of {against.method.name} by {gap.mean:.3f} ± {gap.margin:.3f}",
            twin,
        )
    if method.kernel == "powers" and not difference(best, twin).worse:
        no_better = (
            f"no smaller than that of {against.method.name} beyond chance, and encryption takes far longer"
        )
        return f"{notify}, {no_better}", twin
    return "", twin


def spec_of(job: Job, method: Method) -> TrainingSpec:
    """What the job asks for, of its own method with its options; of another with that one's defaults."""
    if method.name == job.method:
        return job.spec
    return replace(job.spec, gamma=DEFAULT_GAMMA, options=method.options())


def planned(spec: TrainingSpec, job: Job, own: Plan, schemas: Mapping[str, PublicSchema]) -> Plan:
    """Another method's plan for the same people, parties, ε and δ."""
    made: Plan = replace(spec, alignment=job.alignment).plan(
        own.group, tuple(schemas[owner] for owner in own.group.owners), own.rows
    )
    return made


def _expected(item: Candidate) -> Expected:
    if item.forecast is None or item.forecast.expected is None:
        raise ValueError(f"nothing foretells the error of {item.method.name}")
    return item.forecast.expected
