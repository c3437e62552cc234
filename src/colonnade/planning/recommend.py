"""What a job would promise, whether budgets admit it, every method that could do it side by side, and which to take.

From declarations alone: no row is read and no ledger is written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from colonnade.data.coding import Mode
from colonnade.data.schema import PublicSchema, Schema
from colonnade.errors import ColonnadeError, LedgerError, LedgerReplaced, TooFewPeople
from colonnade.federation import train
from colonnade.federation.federation import Federation, check_budgets, ledger_state, release_before
from colonnade.federation.holdout import requested_part
from colonnade.federation.job import Job
from colonnade.federation.party_file import PartyFile, check_ledger
from colonnade.ledger import Ledger
from colonnade.ledger.admission import admit
from colonnade.methods.method import Method
from colonnade.methods.moments.method import noise_of
from colonnade.methods.moments.plan import MomentsPlan
from colonnade.methods.table import check_evaluated, methods_for
from colonnade.models.inputs import units
from colonnade.models.tables.margins import is_levelled
from colonnade.planning import forecast as forecasts
from colonnade.planning.forecast import FEWEST_PAIRS, Expected, Forecast, Work, best_of, difference, forecast
from colonnade.planning.machine import Matching
from colonnade.planning.pilot import PilotRuns
from colonnade.protocols.plans import DEFAULT_GAMMA, Plan, Task, TrainingSpec, default_delta
from colonnade.runtime.party import Group

FEW_ROWS = 1000
SMALL_EPSILON = 0.5
RANDOM_MAPS_PAY = 1000
BINS_PAY = 2000
EFFORT_BEFORE_RUN = 0.5


def plan_job(job: Job, schemas: Mapping[str, PublicSchema], *, rows: int) -> Plan:
    """The plan of a job for this many common people: equal to the one that a run on them agrees on."""
    with train.prefix_job_errors(job):
        group = group_of(job, schemas)
        plan: Plan = train.spec_of(job).plan(group, tuple(schemas[owner] for owner in group.owners), rows)
    train.check_components(job, features_of(job.task, schemas))
    return plan


def group_of(job: Job, schemas: Mapping[str, PublicSchema]) -> Group:
    """Whoever declares the label holds it where the job names nobody."""
    holder = next((party for party in job.parties if schemas[party].label is not None), None)
    # A job that names another holder than the schemas do is refused by the plan, in its own words.
    active = holder if job.task == "pca" or job.active is None else job.active
    return job.model_copy(update={"active": active}).group()


def features_of(task: Task, schemas: Mapping[str, PublicSchema]) -> int:
    mode: Mode = "circle" if task == "classification" else "linear"
    return sum(schema.encoder(mode).width for schema in schemas.values())


@dataclass(frozen=True)
class Admission:
    """Whether one party's budget admits a plan; `admits` is None where its own file is not here to be asked."""

    party: str
    admits: bool | None
    reason: str


def ask_budgets(
    plan: Plan, files: Mapping[str, PartyFile], *, held_out: float | None = None
) -> tuple[Admission, ...]:
    """With what each ledger holds so far; binds nobody, writes nothing."""
    answers, books = [], {}
    for party, file in files.items():
        with suppress(LedgerError):
            books[party] = Ledger.open(file.ledger, patience=file.patience)
    for owner in plan.group.owners:
        if owner not in files:
            answers.append(Admission(owner, None, f"{owner}'s own file is not here; only {owner} can say."))
            continue
        file = files[owner]
        exists = file.ledger.exists()
        try:
            # One that is there and cannot be opened is told below.
            if owner in books or not exists:
                check_ledger(file, books)
            ledger = Ledger.open(file.ledger, patience=file.patience) if exists else Ledger.in_memory(owner)
            state = ledger_state(ledger)
            # Only what the file says counts: a run refuses a ledger that holds a budget which the file dropped.
            other = {key: budget for key, budget in state.budgets.items() if key.dataset != file.dataset}
            state.budgets = other | {budget.account: budget for budget in file.budgets}
            part = None
            if held_out is not None:
                # The release is about the people who are trained on.
                schema = Schema.load(file.schema)
                part = requested_part(
                    held_out, "training", ledger=ledger, dataset=file.dataset, schema=schema
                )
                part.check(owner)
            admit(state, release_before(plan, owner, part), file.dataset)
            answers.append(Admission(owner, True, "its budget admits this release."))
        except ColonnadeError as error:
            if isinstance(error, LedgerError) and type(error) not in (LedgerError, LedgerReplaced):
                raise
            # A ledger that this user may not write to, or that is on a disk that fails: the plan itself stands.
            answers.append(Admission(owner, None if type(error) is LedgerError else False, str(error)))
    return tuple(answers)


def refusals_for(job: Job, plan: Plan, files: Mapping[str, PartyFile]) -> tuple[str, ...]:
    """Why a run of this plan would be refused before it is charged, whatever the budgets say."""
    if files and all(file.public for file in files.values()):
        return ()
    try:
        train.refuse_unlearnable(job)(plan, True)
    except TooFewPeople as error:
        return (f"A run would be refused ({error.number}): {error}",)
    return ()


def warnings_for(plan: Plan, epsilon: float, features: int) -> tuple[str, ...]:
    warnings, rows = [], plan.rows
    few = [f"{rows} rows are fewer than {FEW_ROWS}"] if rows < FEW_ROWS else []
    few += [f"{features} features are more than {rows} rows"] if features > rows else []
    if few and epsilon < SMALL_EPSILON:
        warnings.append(
            f"Nothing usable can be learnt at ε = {epsilon:g}: {' and '.join(few)}, and below ε = "
            f"{SMALL_EPSILON:g} the noise is larger than what it hides. Do not pay for this run."
        )
    elif few:
        warnings.append(
            f"Expect little: {' and '.join(few)}, so the model will be visibly worse than without noise."
        )
    if plan.delta >= 1 / (10 * rows):
        warnings.append(
            f"δ = {plan.delta:g} is not below 1/(10n) = {1 / (10 * rows):.2g}: that much may go wrong for some "
            f"person. Use {default_delta(rows):g}."
        )
    if isinstance(plan, MomentsPlan):
        warnings += [*map_warnings(plan), *coding_warnings(plan)]
    return tuple(warnings)


def map_warnings(plan: MomentsPlan) -> tuple[str, ...]:
    """Whether random features cost more than they bring: the rule of docs/feature-maps.md, n/s against 1,000."""
    encoders = plan.encoders.items()
    mapped = [party for party, encoder in encoders if encoder.map is not None and encoder.map.rule.random]
    seen = plan.rows / noise_of(plan)
    if not mapped or seen >= RANDOM_MAPS_PAY:
        return ()
    return (
        f"Random features of {' and '.join(mapped)} will cost accuracy: {plan.rows} rows are {seen:.0f} times the "
        f"noise, and they pay from about {RANDOM_MAPS_PAY} times. Leave the map out, or use more rows or a larger ε.",
    )


def coding_warnings(plan: MomentsPlan) -> tuple[str, ...]:
    """Whether matrices by class were asked for of columns that no table can be made of."""
    numbers = _coded_as_numbers(plan)
    if not plan.conditional or not numbers:
        return ()
    return (
        f"conditional = true is for tables and trees, and neither can be had of this release: {numbers} coded as "
        'numbers. Declare kind = "bins" with ordered = true, or leave conditional out.',
    )


def coding_advice(plan: Plan) -> str:
    """When to declare numbers in ordered bins, for a release of this noise: the rule of docs/tables.md."""
    if not isinstance(plan, MomentsPlan) or plan.spec.task != "classification":
        return ""
    numbers = _coded_as_numbers(plan)
    if not numbers:
        return (
            "Every column is in bins or categories: tables of synthetic people can be made of this release."
        )
    seen = plan.rows / noise_of(plan)
    said = f"{numbers} coded as numbers, of which no table can be made."
    if plan.several:
        # The rule was found for sums of a label that is alone.
        return said
    if seen < BINS_PAY:
        return (
            f"{said} Numbers carry less noise than bins here: {plan.rows} people are {seen:.0f} times the noise, and "
            f"ordered bins are expected to pay from about {BINS_PAY} times."
        )
    return (
        f"{said} Ordered bins are expected to pay here, for tables and for a closer logistic fit: {plan.rows} people "
        f"are {seen:.0f} times the noise, and {BINS_PAY} times do. With dozens of weak columns numbers may stay better."
    )


def _coded_as_numbers(plan: MomentsPlan) -> str:
    """The columns of which a release has averages, and not how many people are where."""
    columns = [unit.name for unit in units(tuple(plan.encoders.items())) if not is_levelled(unit)]
    if not columns:
        return ""
    more = f" and {len(columns) - 3} more" if len(columns) > 3 else ""
    return f"{', '.join(columns[:3])}{more} {'is' if len(columns) == 1 else 'are'}"


@dataclass(frozen=True)
class Candidate:
    """Its plan, what its budgets say and its forecast; or why there is none, or why it was `passed` over."""

    method: Method
    plan: Plan | None = None
    answers: tuple[Admission, ...] = ()
    forecast: Forecast | None = None
    reason: str = ""
    passed: str = ""

    @property
    def admitted(self) -> bool | None:
        """None if some are not here to be asked."""
        said = [answer.admits for answer in self.answers]
        return False if False in said else None if None in said else True

    @property
    def expected(self) -> Expected | None:
        return None if self.forecast is None else self.forecast.expected


Known = tuple[Candidate, Expected]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Where methods for a job are looked at: each with its own plan, for the same people, parties, ε and δ as `own`."""

    job: Job
    own: Plan
    schemas: Mapping[str, PublicSchema]
    files: Mapping[str, PartyFile]
    pilot_runs: PilotRuns
    matching: Matching | None = None

    def promised(self, method: Method) -> Candidate:
        plan, job = self.own, self.job
        try:
            if job.held_out is not None:
                check_evaluated(method, job.task)
            if method.name != job.method:
                owners = tuple(self.schemas[owner] for owner in plan.group.owners)
                plan = self.spec_of(method).plan(plan.group, owners, plan.rows)
            return Candidate(method, plan, ask_budgets(plan, self.files, held_out=job.held_out))
        except ColonnadeError as failure:
            return Candidate(method, reason=str(failure))

    def spec_of(self, method: Method) -> TrainingSpec:
        if method.name == self.job.method:
            return self.job.spec
        return replace(
            self.job.spec, gamma=DEFAULT_GAMMA, options=method.options(), alignment=self.job.alignment
        )

    def rehearsed(self, item: Candidate, *, simulated: bool, costed: bool = True) -> Candidate:
        if item.plan is None:
            return item
        method = item.method
        try:
            method.needs()
            prediction = forecast(
                self.pilot_runs,
                method,
                self.spec_of(method),
                item.plan,
                matching=self.matching,
                costed=costed,
                simulated=simulated,
                components=self.job.components,
            )
        except ColonnadeError as failure:
            return replace(item, reason=str(failure))
        if costed or prediction.expected is not None:
            return replace(item, forecast=prediction)
        if prediction.unknown != forecasts.NOTHING_LEFT:
            return replace(item, reason=prediction.unknown)
        return replace(item, passed="in trials of its twin, which has its noise, nothing was left to learn")

    def settled(self, item: Candidate, best: Known | None) -> Candidate:
        """The same with its cost, unless its twin is worse than the best of the others."""
        if item.forecast is None or item.expected is None:
            return item
        method, expected = item.method, item.expected
        if best is not None:
            gap, name = difference(expected, best[1]), best[0].method.name
            said = f"its twin, which has its noise and is quicker, has an error of {expected.error:.3f}"
            if gap.worse:
                said += f", larger than that of {name} by {gap.mean:.3f} ± {gap.margin:.3f}"
                return replace(item, forecast=None, passed=said)
            if method.kernel == "powers" and not difference(best[1], expected).worse:
                said += f", no smaller than that of {name} beyond chance, and encryption takes far longer"
                return replace(item, forecast=None, passed=said)
        entry = self.rehearsed(replace(item, forecast=None), simulated=False)
        if entry.forecast is None:
            return entry
        trial = item.forecast.trial
        return replace(entry, forecast=replace(entry.forecast, expected=expected, unknown="", trial=trial))

    def all(self, named: Collection[str] | None, *, simulated: bool, work: Work) -> tuple[Candidate, ...]:
        """A candidate for every method that can do the job's task as a protocol, the job's own as it is planned.

        `named` are the only methods to look at, each rehearsed. Otherwise those are passed over that a budget refuses,
        that train another kind of model, or whose quicker twin is worse than the best of the others, or under
        encryption no better.
        """
        entries: dict[str, Candidate] = {}
        later: list[str] = []
        first, *_ = able = able_methods(self.job, named)
        for method in able:
            chosen, kind = named is not None or method is first, method.trains
            if not chosen and kind != first.trains:
                item = Candidate(method, passed=f"it trains a {kind}, not a {first.trains} model")
            elif (item := self.promised(method)).admitted is False and not chosen:
                item = replace(item, passed="a budget refuses it")
            elif not chosen and method.twin is not None and simulated:
                item = self.rehearsed(item, simulated=True, costed=False)
                later.append(method.name)
            else:
                item = self.rehearsed(item, simulated=simulated)
            entries[method.name] = item
            work.done()
        # More trials of those that no budget refuses, until they are told apart or time is up.
        entered = {
            name: item.forecast
            for name, item in entries.items()
            if item.admitted is not False and item.forecast is not None
        }
        raced = forecasts.race(tuple(entered.values()), seconds=self.pilot_runs.effort)
        for name, prediction in zip(entered, raced, strict=True):
            entries[name] = replace(entries[name], forecast=prediction)
        known = _eligible(tuple(item for name, item in entries.items() if name not in later))
        best = known[best_of([expected for _, expected in known])] if known else None
        return tuple(self.settled(item, best) if name in later else item for name, item in entries.items())


def able_methods(job: Job, named: Collection[str] | None) -> list[Method]:
    """The job's own method, then these, or all that can do its task."""
    methods = [method for method in methods_for(job.task) if isinstance(method, Method)]
    able = [method for method in methods if named is None or method.name in {*named, job.method}]
    return sorted(able, key=lambda method: method.name != job.method)


class Choice(NamedTuple):
    recommended: str | None
    why: str


def choose(entries: tuple[Candidate, ...], *, usual: str = "", lead: float = 0.0) -> Choice:
    """The job's own method, which comes first, unless another is shown to be better; without it the task's `usual` one.

    Shown to be better: its error is smaller in at least `FEWEST_PAIRS` trials on the same people, by more than the
    error of that difference, and than the `usual` one's by this `lead`, and its model is not left in parts, unless
    that of the job's own is too. What a budget refuses, and what has no known error, is never recommended.
    """
    known = _eligible(entries)
    named = {item.method.name: (item, expected) for item, expected in known}
    kept = named.get(entries[0].method.name if entries else "") or named.get(usual)

    def is_better(expected: Expected) -> bool:
        if kept is None:
            return len(expected.known) >= FEWEST_PAIRS
        gap = difference(kept[1], expected)
        return gap.worse and (gap.mean >= lead or kept[0].method.name != usual)

    better = [pair for pair in known if is_better(pair[1])]
    best = better[best_of([expected for _, expected in better])] if better else kept
    if best is None:
        why = "No error could be estimated, so no method is recommended."
        if known:
            why = f"No method was tried at least {FEWEST_PAIRS} times, so none is recommended."
        elif entries and all(item.admitted is False for item in entries if item.forecast is not None):
            why = "No budget admits any of them."
        return Choice(None, why)
    why = " ".join(
        [
            _reason(best, kept, entries, lead if best[0].method.name == usual else 0.0),
            *_left_out(best, entries, known),
        ]
    )
    return Choice(best[0].method.name, why)


def _eligible(entries: tuple[Candidate, ...]) -> list[Known]:
    """Those that may be recommended: no budget refuses them, their error is known, their model is of the job's kind."""
    in_parts = bool(entries) and entries[0].forecast is not None and entries[0].forecast.split
    return [
        (item, item.expected)
        for item in entries
        if item.admitted is not False
        and item.forecast is not None
        and item.expected is not None
        and (in_parts or not item.forecast.split)
    ]


def _reason(best: Known, kept: Known | None, entries: tuple[Candidate, ...], lead: float) -> str:
    (item, expected), error = best, best[1].error
    if kept is None:
        return f"It has the least expected error, {error:.3f}, of those that were tried often enough."
    if item is not kept[0]:
        gap = difference(kept[1], expected)
        return (
            f"In {gap.pairs} trials on the same people its error, {error:.3f}, is smaller than that of "
            f"{kept[0].method.name} by {gap.mean:.3f} ± {gap.margin:.3f}."
        )
    which = "the job's own" if item is entries[0] else "the usual one for this task"
    least = " and by half a point" if lead else ""
    return (
        f"It is {which}, with an expected error of {error:.3f}, and no other is shown to be better: with a smaller "
        f"error in at least {FEWEST_PAIRS} trials on the same people, by more than chance makes of them{least}."
    )


def _left_out(best: Known, entries: tuple[Candidate, ...], known: list[Known]) -> list[str]:
    candidates = [item for item in entries if item.forecast is not None and item.admitted is not False]
    left = {
        "{} would leave the model in parts with the parties, which the job does not ask for.": [
            item for item in candidates if item.expected is not None and item not in [one for one, _ in known]
        ],
        "Too few trials to compare it with: {}.": [
            item
            for item, expected in known
            if item is not best[0] and difference(best[1], expected).pairs < FEWEST_PAIRS
        ],
        "No error is known for {}.": [item for item in candidates if item.expected is None],
        "A budget refuses {}.": [item for item in entries if item.admitted is False],
    }
    in_parts = best[0].forecast is not None and best[0].forecast.split
    said = ["Its model stays in parts with the parties, who score people together."] if in_parts else []
    return said + [
        text.format(", ".join(item.method.name for item in items)) for text, items in left.items() if items
    ]


def forecast_before_run(job: Job, federation: Federation) -> Forecast | None:
    """What the run of a job will take, from declarations and numbers of rows alone.

    None unless everybody declared the data public: a forecast goes by how many people each party has. None also where
    the method has no protocol, or the run will be refused, which it then says itself.
    """
    if not federation.public:
        return None
    try:
        method = train.protocol_of(job)
        method.needs()
        schemas = forecasts.schemas_of(federation)
        rows = {owner: federation.tables[owner].rows for owner in federation.group.owners}
        shown = {owner: max(count, federation.shown_ids.get(owner, 0)) for owner, count in rows.items()}
        if job.alignment == "equal" and len(set(rows.values())) != 1:
            return None
        most = min((rows if job.alignment == "equal" else shown).values())
        plan: Plan = job.spec.plan(federation.group, tuple(schemas.values()), most)
        check_budgets(plan, federation.ledgers, federation.datasets)
        matching = Matching(federation.group, schemas, job.alignment, plan.rows, shown)
        runs = PilotRuns(schemas, effort=EFFORT_BEFORE_RUN, draws=1, tries=1, weighed=False)
        return forecast(runs, method, job.spec, plan, matching=matching, components=job.components)
    except ColonnadeError:
        return None
