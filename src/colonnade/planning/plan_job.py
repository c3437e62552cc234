"""What a job would promise, from declarations alone: no row is read and no ledger is written.

What it would cost and bring is in `colonnade.planning`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from colonnade.data.schema import PublicSchema, Schema
from colonnade.errors import ColonnadeError, JobError, LedgerError, LedgerReplaced, TooFewPeople
from colonnade.federation.federation import ledger_state, release_before
from colonnade.federation.holdout import requested_part
from colonnade.federation.job import Job
from colonnade.federation.party_file import PartyFile, check_ledger
from colonnade.federation.train import prefix_job_errors, refuse_unlearnable, spec_of
from colonnade.ledger import Ledger, Release
from colonnade.ledger.admission import admit
from colonnade.ledger.state import LedgerState, Prospect, prospects
from colonnade.methods.moments.method import noise_of
from colonnade.methods.moments.plan import MomentsPlan
from colonnade.models.inputs import units
from colonnade.models.tables.margins import is_levelled
from colonnade.protocols.plans import Plan, Task, default_delta
from colonnade.runtime.party import Group

FEW_ROWS = 1000
SMALL_EPSILON = 0.5
RANDOM_MAPS_PAY = 1000
BINS_PAY = 2000


@dataclass(frozen=True)
class Answer:
    """Whether one party's budget admits a plan; `admits` is None where its own file is not here to be asked."""

    party: str
    admits: bool | None
    reason: str


def plan_job(job: Job, schemas: Mapping[str, PublicSchema], *, rows: int) -> Plan:
    """The plan of a job for this many common people: equal to the one that a run on them agrees on."""
    with prefix_job_errors(job):
        group = group_of(job, schemas)
        plan: Plan = spec_of(job).plan(group, tuple(schemas[owner] for owner in group.owners), rows)
    features = features_of(job.task, schemas)
    if job.components is not None and job.components > features:
        raise JobError(
            f"{job.path}, components: found {job.components}, but the parties declare {features} features together. "
            "Ask for at most as many components."
        )
    return plan


def group_of(job: Job, schemas: Mapping[str, PublicSchema]) -> Group:
    """Who takes part in a job, with whoever declares the label as its holder where the job names nobody."""
    holders = [party for party in job.parties if schemas[party].label is not None]
    holder = holders[0] if holders else None
    # A job that names another holder than the schemas do is refused by the plan, in its own words.
    active = holder if job.task == "pca" or job.active is None else job.active
    return Group.of(
        job.parties,
        active=active,
        server=job.server,
        threshold=job.threshold,
        computing_parties=job.computing_parties,
        disclosed_noise=job.disclosed_noise,
    )


def features_of(task: Task, schemas: Mapping[str, PublicSchema]) -> int:
    """How many features the declared columns of all parties make for a task."""
    return sum(
        schema.encoder("circle" if task == "classification" else "linear").width
        for schema in schemas.values()
    )


def ask_budgets(
    plan: Plan, files: Mapping[str, PartyFile], *, held_out: float | None = None
) -> tuple[Answer, ...]:
    """Whether each party's budget admits the plan, with what its ledger holds so far. Binds nobody, writes nothing.

    With a share `held_out` the plan is for those who are not.
    """
    answers, books = [], _ledgers(files)
    for owner in plan.group.owners:
        if owner not in files:
            answers.append(Answer(owner, None, f"{owner}'s own file is not here; only {owner} can say."))
            continue
        try:
            # One that is there and cannot be opened is told below.
            if owner in books or not files[owner].ledger.exists():
                check_ledger(files[owner], books)
            admit(_state_of(files[owner]), _release(plan, files[owner], held_out), files[owner].dataset)
            answers.append(Answer(owner, True, "its budget admits this release."))
        except LedgerReplaced as error:
            answers.append(Answer(owner, False, str(error)))
        except LedgerError as error:
            if type(error) is not LedgerError:
                raise
            # One that this user may not write to, or that is on a disk that fails: the plan itself stands.
            answers.append(Answer(owner, None, str(error)))
        except ColonnadeError as error:
            answers.append(Answer(owner, False, str(error)))
    return tuple(answers)


def costs_of(plan: Plan, file: PartyFile, *, held_out: float | None = None) -> tuple[Prospect, ...]:
    """What a plan would cost each account of a party and what it would leave. Binds nobody, writes nothing."""
    return prospects(_state_of(file), _release(plan, file, held_out), file.dataset)


def refusals_for(job: Job, plan: Plan, files: Mapping[str, PartyFile]) -> tuple[str, ...]:
    """Why a run of this plan would be refused before it is charged, whatever the budgets say."""
    if files and all(file.public for file in files.values()):
        return ()
    try:
        refuse_unlearnable(job)(plan, True)
    except TooFewPeople as error:
        return (f"A run would be refused ({error.number}): {error}",)
    return ()


def warnings_for(plan: Plan, *, epsilon: float, features: int) -> tuple[str, ...]:
    """What a person should know before a run is paid for."""
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
        return (*warnings, *map_warnings(plan), *coding_warnings(plan))
    return tuple(warnings)


def map_warnings(plan: MomentsPlan) -> tuple[str, ...]:
    """Whether random features cost more than they bring: the rule of docs/feature-maps.md, n/s against 1,000."""
    mapped = [
        party
        for party, encoder in plan.encoders.items()
        if encoder.map is not None and encoder.map.rule.random
    ]
    seen = plan.rows / noise_of(plan)
    if not mapped or seen >= RANDOM_MAPS_PAY:
        return ()
    return (
        f"Random features of {' and '.join(mapped)} will cost accuracy: {plan.rows} rows are {seen:.0f} times the "
        f"noise, and they pay from about {RANDOM_MAPS_PAY} times. Leave the map out, or use more rows or a larger ε.",
    )


def coding_warnings(plan: MomentsPlan) -> tuple[str, ...]:
    """Whether matrices by class were asked for of columns that no table can be made of."""
    poor = columns_without_levels(plan)
    if not plan.conditional or not poor:
        return ()
    return (
        f"conditional = true is for tables and trees, and neither can be had of this release: {_named(poor)} coded as "
        'numbers. Declare kind = "bins" with ordered = true, or leave conditional out.',
    )


def coding_advice(plan: Plan) -> str:
    """When to declare numbers in ordered bins, for a release of this noise: the rule of docs/tables-study.md."""
    if not isinstance(plan, MomentsPlan) or plan.spec.task != "classification":
        return ""
    poor = columns_without_levels(plan)
    if not poor:
        return "Every column is in bins or categories: tables of invented people can be made of this release."
    seen = plan.rows / noise_of(plan)
    notify = f"{_named(poor)} coded as numbers, of which no table can be made."
    if plan.several:
        # The rule was found for sums of a label that is alone.
        return notify
    if seen < BINS_PAY:
        return (
            f"{notify} Numbers carry less noise than bins here: {plan.rows} people are {seen:.0f} times the noise, and "
            f"ordered bins are expected to pay from about {BINS_PAY} times."
        )
    return (
        f"{notify} Ordered bins are expected to pay here, for tables and for a closer logistic fit: {plan.rows} people "
        f"are {seen:.0f} times the noise, and {BINS_PAY} times do. With dozens of weak columns numbers may stay better."
    )


def columns_without_levels(plan: MomentsPlan) -> list[str]:
    """The columns of which a release has averages, and not how many people are where."""
    return [unit.name for unit in units(tuple(plan.encoders.items())) if not is_levelled(unit)]


def _named(columns: list[str]) -> str:
    first, more = ", ".join(columns[:3]), len(columns) - 3
    if more > 0:
        return f"{first} and {more} more are"
    return f"{first} {'is' if len(columns) == 1 else 'are'}"


def _ledgers(files: Mapping[str, PartyFile]) -> dict[str, Ledger]:
    ledgers = {}
    for party, file in files.items():
        with suppress(LedgerError):
            ledgers[party] = Ledger.open(file.ledger, patience=file.patience)
    return ledgers


def _release(plan: Plan, file: PartyFile, held_out: float | None) -> Release:
    """What the party would charge: about the people who are trained on, if others are held out."""
    if held_out is None:
        return release_before(plan, file.party)
    part = requested_part(
        held_out, "training", ledger=_ledger(file), dataset=file.dataset, schema=Schema.load(file.schema)
    )
    part.check(file.party)
    return release_before(plan, file.party, part)


def _ledger(file: PartyFile) -> Ledger:
    exists = file.ledger.exists()
    return Ledger.open(file.ledger, patience=file.patience) if exists else Ledger.in_memory(file.party)


def _state_of(file: PartyFile) -> LedgerState:
    state = ledger_state(_ledger(file))
    # Only what the file says counts: a run refuses a ledger that holds a budget which the file dropped.
    kept = {account: budget for account, budget in state.budgets.items() if account.dataset != file.dataset}
    state.budgets = kept | {budget.account: budget for budget in file.budgets}
    return state
