"""How a run is brought to its end: written, or noted as failed, or finished after it was stopped.

The record of a run that failed has nothing that comes from rows: of an error about a party's own data it has only the
kind, as peers do. A run notes it before it is charged, as if it were killed right then: until the first file is kept
nothing else tells that it was paid for.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colonnade.errors import ColonnadeError, ModelDamaged, ModelError
from colonnade.federation.files import FACTS, PAID, check_format, sealed_text, write_whole
from colonnade.report.plain import lines_text, now
from colonnade.runs import drafts
from colonnade.runs.reading import RUNS

if TYPE_CHECKING:
    from colonnade.evaluation.held_out import HeldOut
    from colonnade.federation.federation import Federation, Run, Site
    from colonnade.federation.holdout import NoModel
    from colonnade.federation.job import Job
    from colonnade.ledger import Ledger
    from colonnade.methods.method import TrainingResult
    from colonnade.models.uncertainty import Watch
    from colonnade.planning.forecast import Forecast
    from colonnade.report.record import FailureRecord, RunRecord
    from colonnade.runs.drafts import Folder

KILLED = "Killed"
RECOVERED = (
    "This run was stopped after its release was opened; the rest was made afterwards from what it had kept. Pages, "
    "logs and lists of people of the parties are missing."
)


def finish_run(
    folder: Path,
    job: Job,
    run: Run[Any],
    place: Federation | Site,
    result: TrainingResult | None,
    *,
    failure: NoModel | None = None,
    forecast: Forecast | None = None,
    seconds: float | None = None,
    watch: Watch | None = None,
    evaluation: HeldOut = None,
) -> tuple[RunRecord, NoModel | None]:
    """Keep what was paid for, train to the end and write the folder; its record, and why noise left no model."""
    from colonnade.evaluation.held_out import finish_training
    from colonnade.runs.writing import keep_paid, write_run

    if result is not None:
        keep_paid(folder, job, run, place, result)
    trained = finish_training(job, run, place, result, failure=failure, evaluation=evaluation, watch=watch)
    return write_run(folder, trained, place, forecast=forecast, seconds=seconds), trained.failure


def failure_facts(job: Job, federation: Federation, error: BaseException, *, run: str) -> FailureRecord:
    from colonnade.report.record import FailureRecord
    from colonnade.runtime.run import reason_for_peers

    failure = federation.failure
    reason = failure.error if failure is not None and failure.error is not None else error
    kind, why = type(reason).__name__, reason_for_peers(reason)
    if isinstance(reason, ColonnadeError) and not reason.for_peers:
        kind = reason.family
    if isinstance(error, KeyboardInterrupt):
        kind, why = "Interrupted", "it was interrupted"
    party, reached = (None, {}) if failure is None else (failure.party, dict(failure.reached))
    where = {"party": party, "reached": reached, "kind": kind, "reason": why}
    ledgers = {owner: federation.ledgers[owner] for owner in federation.group.owners}
    return FailureRecord(**_record(job, run, where), **_charges(run, ledgers, federation.datasets))


def _record(job: Job, run: str, failure: dict[str, Any]) -> dict[str, Any]:
    from colonnade import __version__

    return {
        "state": "failed",
        "name": job.name,
        "version": __version__,
        "time": now(),
        "task": job.task,
        "epsilon": job.epsilon,
        "run": run,
        "stopped": failure,
    }


def _charges(run: str, ledgers: Mapping[str, Ledger], datasets: Mapping[str, str]) -> dict[str, Any]:
    from colonnade.federation.federation import charges_of
    from colonnade.report.facts import entry_text, totals_facts
    from colonnade.report.record import ChargeRecord

    charges = charges_of(run, ledgers)
    return {
        "charged": {
            owner: ChargeRecord(time=entry.time, what=entry_text(entry)) for owner, entry in charges.items()
        },
        "ledgers": {owner: totals_facts(ledgers[owner], datasets[owner]) for owner in charges},
    }


def note_begun(folder: Folder, job: Job, federation: Federation, run: str) -> None:
    """Note a run whose charge comes next; that it cannot be written is not a reason to end it."""
    failure: dict[str, Any] = {"party": None, "reached": {}, "kind": KILLED}
    failure["reason"] = "its process was killed"
    ledgers = {
        owner: {"path": str(path.absolute()), "dataset": federation.datasets[owner]}
        for owner in federation.group.owners
        if (path := federation.ledgers[owner].path) is not None
    }
    with suppress(OSError):
        text = json.dumps({**_record(job, run, failure), "ledgers": ledgers})
        write_whole(folder.draft / drafts.BEGUN, text)


def keep_failure(folder: Folder, record: FailureRecord) -> Path | None:
    """Leave the record, and nothing else, under the folder's name; None where even that has no room."""
    text = sealed_text(record.to_data())
    try:
        folder.clear()
        write_whole(folder.draft / drafts.FAILED, text)
        return folder.finish()
    except OSError:
        return None


def where_text(record: FailureRecord) -> str:
    failure = record.stopped
    if failure.kind == KILLED:
        return "Its process was killed after it was charged, before anything that it opened was kept."
    reason = failure.reason.rstrip(".")
    if failure.party is not None:
        step = failure.reached.get(failure.party)
        after = f"after step {step!r}" if step else "before its first step"
        return f"{failure.party} stopped it {after}: {reason}."
    steps = ", ".join(f"{name} after step {step!r}" for name, step in failure.reached.items() if step)
    return f"It stopped with {steps}: {reason}." if steps else f"It stopped after its last step: {reason}."


def charged_text(record: FailureRecord) -> str:
    charged = ", ".join(record.charged)
    return f"Charged by then: {charged}, for run {record.run[:12]}." if charged else "Nothing was charged."


def failure_text(record: FailureRecord, *, width: int | None = None) -> str:
    from colonnade.report.text import budget_lines

    lines = [
        record.name,
        f"  {record.task} at ε = {record.epsilon:g}, run {record.run[:12]}, failed {record.time[:19]}Z",
        "",
        "Where it stopped",
        f"  {where_text(record)}",
        "",
        "What was charged",
        *(f"  {party}: {item.what}" for party, item in record.charged.items()),
        "  It stays charged, because it may have been seen. A new run is charged anew.",
        "",
        "Budgets when it stopped",
        *budget_lines(record.ledgers.values(), width),
    ]
    return lines_text(lines)


def killed_run(draft: Path) -> FailureRecord | None:
    """The record of a run that was killed when it was being charged and had kept nothing; None for other drafts."""
    from colonnade.ledger import Ledger
    from colonnade.report.record import FailureRecord

    if not (draft / drafts.BEGUN).is_file() or drafts.holds_paid(draft):
        return None
    with drafts.only_one(os.open(draft, os.O_RDONLY | os.O_DIRECTORY)) as free:
        if not free:
            return None
    try:
        facts = dict(json.loads((draft / drafts.BEGUN).read_text(encoding="utf-8")))
        recorded = {
            owner: (Path(one["path"]), str(one["dataset"])) for owner, one in facts["ledgers"].items()
        }
        begun = FailureRecord.model_validate(facts | {"charged": {}, "ledgers": {}})
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ModelDamaged(
            f"{draft / drafts.BEGUN} was changed since the run wrote it. Ledgers have what was charged."
        ) from None
    ledgers = {owner: Ledger.open(path) for owner, (path, _) in recorded.items()}
    datasets = {owner: dataset for owner, (_, dataset) in recorded.items()}
    return begun.model_copy(update=_charges(begun.run, ledgers, datasets))


def killed_in(folder: Path) -> dict[Path, dict[str, Any]]:
    """The runs that were to be right below a folder and were charged and killed, by name; unreadable ones say so."""
    runs = {}
    for draft in sorted(folder.glob(".*.draft")):
        try:
            record = killed_run(draft)
        except ColonnadeError:
            runs[drafts.name_of(draft)] = {"state": "unreadable"}
            continue
        if record is not None and record.charged:
            runs[drafts.name_of(draft)] = record.to_data()
    return runs


def put_away(name: Path) -> tuple[Path, FailureRecord] | None:
    """Name the record of a run that was killed; one that nobody was charged for leaves nothing. None: no such run."""
    draft = drafts.draft_of(name)
    record = killed_run(draft)
    if record is None:
        return None
    if not record.charged:
        shutil.rmtree(draft)
        return name, record
    write_whole(draft / drafts.FAILED, sealed_text(record.to_data()))
    for path in (draft / drafts.BEGUN, draft / drafts.RESERVE):
        path.unlink(missing_ok=True)
    return draft.rename(drafts.free_name(name)), record


def recovered(run: Path) -> tuple[Path, RunRecord]:
    """Make the rest of a run that was stopped; where it lies, and its record."""
    place = _place(run)
    with drafts.left_behind(place) as free, drafts.uninterrupted():
        if not free:
            raise ModelError(f"{place} is being written by a run now. Wait for it to end.")
        record = recover_run(place)
        for left in (drafts.FAILED, drafts.BEGUN):
            (place / left).unlink(missing_ok=True)
        if place.name.startswith("."):
            (place / drafts.RESERVE).unlink(missing_ok=True)
            place = place.rename(drafts.free_name(drafts.name_of(place)))
    return place, record


def _place(given: Path) -> Path:
    if not given.name:
        raise ModelError(f"{str(given)!r} names no run. `colonnade runs` lists those that were stopped.")
    for place in (given, drafts.draft_of(given), RUNS / given, drafts.draft_of(RUNS / given)):
        whole = (place / FACTS).is_file()
        if drafts.holds_paid(place) and (not whole or (place / PAID).is_file()):
            return place
        if whole:
            raise ModelError(
                f"{place} is whole: there is nothing to recover. `colonnade show {place}` shows it."
            )
    raise ModelError(
        f"there is no run {given} that was stopped after its release was paid for. `colonnade runs` lists them."
    )


def recover_run(folder: Path) -> RunRecord:
    """Write what is missing of a stopped run from what it kept; what only the run itself knew is not made up."""
    from jinja2 import UndefinedError

    from colonnade.federation.train import RELEASE, ModelSpec, train_more, train_on
    from colonnade.methods.table import METHODS, checked_options
    from colonnade.models.files.document import MODEL
    from colonnade.models.files.linear_file import Model, model_file
    from colonnade.models.release import MomentRelease
    from colonnade.report.html import run_page
    from colonnade.report.record import ModelFactsRecord, RequestRecord, RunRecord
    from colonnade.runs.writing import write_labels, write_report

    try:
        recorded = dict(json.loads((folder / PAID).read_text(encoding="utf-8")))
        check_format(recorded, folder / PAID)
        facts, components = dict(recorded["facts"]), recorded["components"]
        spec = facts["requested"]
    except FileNotFoundError:
        raise ModelError(
            f"{folder} has what was paid for, but the run was stopped before it had noted anything about it. "
            f"`MomentRelease.load` reads {RELEASE}, and models are fitted from it at no further cost."
        ) from None
    except (OSError, ValueError, KeyError, TypeError):
        raise ModelDamaged(
            f"{folder / PAID} cannot be read: it was changed since the run wrote it."
        ) from None
    try:
        record, requested = RunRecord.model_validate(facts), RequestRecord.model_validate(spec)
        run_page(record)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, UndefinedError):
        raise ModelDamaged(
            f"{folder / PAID} lacks what a report is made of: it was changed since the run wrote it. {RELEASE} beside "
            "it, if it is there, was paid for: `MomentRelease.load` reads it."
        ) from None
    more: dict[str, Any] = {"notes": [*record.notes, RECOVERED]}
    if (folder / RELEASE).exists():
        release = MomentRelease.load(folder / RELEASE)
        options = checked_options(METHODS[requested.method], requested.options)
        trained = train_on(release, ModelSpec(record.task, components, options), None)
        if trained.failure is not None:
            more["notes"].append(f"No model was learnt: {trained.failure.text}")
        elif isinstance(trained.model, Model):
            model_file(trained.model, method=requested.method, run=record.run).save(folder / MODEL)
            more["model_facts"] = ModelFactsRecord.model_validate(trained.model_facts)
        models = [trained, *train_more(release, None)]
        more |= write_labels(folder, requested.method, record.run, release, models)
    record = record.model_copy(update=more)
    write_report(folder, record)
    (folder / PAID).unlink()
    return record
