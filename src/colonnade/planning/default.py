"""Which method is taken where none is named, once columns and people are known.

Margin descent, unless it cannot be planned, or trials on invented people say that moments do better. People and coins
of these trials come from public seeds and there are always as many of them, so that one question has one answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from colonnade.data.schema import PublicSchema
from colonnade.errors import ColonnadeError
from colonnade.federation.federation import Federation
from colonnade.federation.job import Job
from colonnade.methods.method import Method
from colonnade.methods.table import METHODS, default_method, protocol_named
from colonnade.planning.forecast import Expected, by_twin
from colonnade.planning.pairs import difference
from colonnade.planning.pilot_run import PilotRuns
from colonnade.planning.work import Work
from colonnade.protocols.plans import Plan, Task, TrainingSpec
from colonnade.runtime.party import Group

TRIALS = 4
# So many invented people at most, and so many numbers of them; with more columns nothing is tried in passing.
MOST_PEOPLE, MOST_NUMBERS, FEWEST = 4000, 400_000, 500
# Where this much ε is left for so few people, noise decides nothing.
AMPLE = 20.0

Notify = Callable[[float], None]


def nobody(_seconds: float) -> None:
    """Tell nobody how many seconds are left."""


def left_open(job: Job) -> bool:
    """Whether trials say which method the job takes: it names none, and no option of the usual one."""
    return bool(job.because) and job.method != "moments" and job.options == METHODS[job.method].options()


def settle(
    job: Job, group: Group, schemas: Mapping[str, PublicSchema], *, rows: int, notify: Notify = nobody
) -> Job:
    """A job that names no method, with the one to take for these columns and about so many people, and why.

    One that names a method or options of the usual one, or that takes moments whatever the columns are, stays as it is.
    `told` hears after each trial how many seconds the others may take.
    """
    if not left_open(job):
        return job
    name, because = default_for(job.spec, group, schemas, rows=rows, notify=notify)
    if name == job.method:
        return replace(job, because=because)
    # No site knows the others' columns before they meet.
    because += f'. Between machines the job alone decides, so write method = "{name}" into it'
    return replace(job, method=name, options=METHODS[name].options(), because=because)


def default_of(federation: Federation, task: Task, *, epsilon: float, delta: float) -> tuple[str, str]:
    """The method for a federation where none is named, and why."""
    spec, work = TrainingSpec(task, epsilon, delta=delta), Work(federation.progress, 1)
    chosen = default_for(
        spec, federation.group, schemas_of(federation), rows=people_of(federation), notify=work.notify
    )
    work.end()
    return chosen


def schemas_of(federation: Federation) -> dict[str, PublicSchema]:
    """What every owner declared, in the order of the group."""
    return {owner: federation.tables[owner].public() for owner in federation.group.owners}


def people_of(federation: Federation) -> int:
    """How many people there are at most, by the numbers that parties show each other."""
    held = min(
        max(table.rows, federation.shown_ids.get(party, 0)) for party, table in federation.tables.items()
    )
    return trained_on(held, federation.held_out)


def trained_on(rows: int, held_out: float | None) -> int:
    """How many of the people in common a job trains on, if it holds a share of them out."""
    return rows if held_out is None else max(1, round(rows * (1 - held_out)))


def default_for(
    spec: TrainingSpec,
    group: Group,
    schemas: Mapping[str, PublicSchema],
    *,
    rows: int,
    notify: Notify = nobody,
) -> tuple[str, str]:
    """The method for these columns and people where none is named, and why.

    `asked` says what for; its options are nobody's.
    """
    name, because = default_method(spec.task, group, epsilon=spec.epsilon, delta=spec.delta, gamma=spec.gamma)
    if name == "moments":
        return name, because
    usual, simple = protocol_named(name), protocol_named("moments")
    try:
        plain = _planned(simple, spec, group, schemas, rows)
    except ColonnadeError:
        return name, because  # whoever runs it is told why not
    try:
        _planned(usual, spec, group, schemas, rows)
    except ColonnadeError as error:
        return simple.name, f"margin descent cannot be planned: {str(error).rstrip('.')}"
    width = sum(schema.encoder("circle").width for schema in schemas.values())
    if width * FEWEST > MOST_NUMBERS:
        return name, f"{because}; {width} features are too many to try both in passing"
    few = min(rows, MOST_PEOPLE, MOST_NUMBERS // max(1, width))
    # As much noise for each person as there would be: fewer people, and an ε as much larger.
    ample = min(spec.epsilon * rows / few, max(spec.epsilon, AMPLE))
    tried = replace(spec, epsilon=ample, delta=plain.delta, accepted_delta=plain.delta, verify="none")
    try:
        plans = {each.name: _planned(each, tried, group, schemas, few) for each in (usual, simple)}
        pilot_runs = PilotRuns(schemas, weighed=False)
        left = _Left(2 * TRIALS, notify)
        errors = {
            each.name: _errors(pilot_runs, each, tried, plans[each.name], left) for each in (usual, simple)
        }
    except ColonnadeError:
        return name, because
    gap = difference(errors[usual.name], errors[simple.name])
    wrong = {each: f"{error.error:.3f}" for each, error in errors.items()}
    tried_out = (
        f"in {TRIALS} trials margin descent classed {wrong[name]} of invented people wrongly and moments "
        f"{wrong[simple.name]}"
    )
    if gap.worse:
        return simple.name, f"{tried_out}, which is {gap.mean:.3f} ± {gap.margin:.3f} less"
    return name, f"{because}; {tried_out}, which is not less beyond chance"


def _planned(
    method: Method, spec: TrainingSpec, group: Group, schemas: Mapping[str, PublicSchema], rows: int
) -> Plan:
    spec = replace(spec, options=method.options())
    made: Plan = replace(spec, alignment="equal").plan(
        group, tuple(schemas[owner] for owner in group.owners), rows
    )
    return made


class _Left:
    """Tells after each of so many trials how many seconds the others may take."""

    def __init__(self, trials: int, notify: Notify) -> None:
        self._trials, self._notify, self._over = trials, notify, 0
        self._began = time.perf_counter()

    def ended(self) -> None:
        self._over += 1
        each = (time.perf_counter() - self._began) / self._over
        self._notify((self._trials - self._over) * each)


def _errors(pilot_runs: PilotRuns, method: Method, spec: TrainingSpec, plan: Plan, left: _Left) -> Expected:
    """The error of every trial; where noise left nothing to learn, that of guessing."""
    spec = replace(spec, options=method.options())

    def performed(trial: int) -> float | None:
        result = pilot_runs.perform(method, spec, plan, trial=trial)[1]
        return pilot_runs.score(spec, result, components=None, trial=trial)

    error: Callable[[int], float | None] = performed
    if method.twin is not None:
        error = by_twin(pilot_runs, method, spec, plan, components=None)
    labels = [schema.label for schema in pilot_runs.schemas.values()]
    guessing = 1 - 1 / max(len(label.classes) for label in labels if label is not None and label.classes)
    errors = []
    for trial in range(TRIALS):
        errors.append(error(trial))
        left.ended()
    return Expected(tuple(guessing if each is None else each for each in errors), plan.rows)
