"""From a job file to the folder of its run: a model and a report, or a record of what was charged for a failure."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colonnade.errors import CannotWrite, ColonnadeError, LedgerError
from colonnade.runs.drafts import BEGUN, Folder, holds_paid, new_folder, uninterrupted
from colonnade.runs.reading import RUNS
from colonnade.runs.recovery import charged_text, failure_facts, finish_run, keep_failure, note_begun

if TYPE_CHECKING:
    from colonnade.federation.federation import Federation, Run
    from colonnade.federation.job import Job
    from colonnade.report.record import RunRecord

Progress = Callable[..., AbstractContextManager[Callable[[str, int, int], None]]]
"""What shows the steps of a block; a first argument False keeps it silent."""


def train_job(
    job_path: Path, given: list[Path], output: Path | None, *, progress: Progress
) -> tuple[RunRecord, dict[str, Any]]:
    """Train as a job file says, write the run's folder, and return its record; where, by which method and ledgers."""
    from colonnade.evaluation.held_out import evaluate_trained, refuse_before_training
    from colonnade.federation.federation import Hooks
    from colonnade.federation.holdout import NoModel
    from colonnade.federation.job import Job
    from colonnade.federation.party_file import federation_of, party_files
    from colonnade.federation.train import RELEASE, result_for
    from colonnade.models.uncertainty import Watch
    from colonnade.planning.cost import Clock
    from colonnade.planning.forecast import Work, left_open, people_of, schemas_of, settle
    from colonnade.planning.recommend import forecast_before_run

    job = Job.load(job_path)
    files = party_files(job, given)
    with new_folder(output or RUNS / job.path.stem, numbered=output is None) as folder:
        new = [file for file in files.values() if not file.ledger.exists()]
        federation = federation_of(job, files)
        chosen, public = left_open(job), federation.public
        with progress(chosen or public) as advance:
            work = Work(advance, chosen + public)
            schemas, people = schemas_of(federation), people_of(federation)
            job = settle(job, federation.group, schemas, rows=people)
            features = federation.features(job.task)
            # Generously what its files may need: the matrix, and a page and facts that name every column.
            folder.reserve((1 << 20) + 4096 * features + 16 * features * features)
            if chosen:
                work.done()
            forecast = forecast_before_run(job, federation)
            if public:
                work.done()
        try:
            result, failure = None, None
            with progress() as advance, Clock() as clock:
                hooks = Hooks(
                    advance,
                    asks=None if federation.public else refuse_before_training(job),
                    begins=partial(note_begun, folder, job, federation),
                    opened=partial(_keep_paid, folder, job, federation),
                    logged=True,
                )
                try:
                    result = result_for(job, federation.with_hooks(hooks))
                except ColonnadeError as error:
                    if not federation.runs:
                        raise
                    failure = NoModel.of(error)
            run = federation.runs[-1]
            with progress() as advance:
                watched = federation.with_hooks(replace(hooks, progress=advance))
                evaluation = evaluate_trained(job, watched, result, run)
        except BaseException as error:
            stop = federation.failure
            begun = "" if stop is None else stop.run
            _fail(folder, job, federation, error, run=federation.runs[-1].name if federation.runs else begun)
            raise
        with uninterrupted() as interrupted, progress() as advance:
            try:
                folder.free_reserve()
                record, failure = finish_run(
                    folder.draft,
                    job,
                    run,
                    federation,
                    result,
                    failure=failure,
                    forecast=forecast,
                    seconds=clock.seconds,
                    watch=Watch(advance, interrupted),
                    evaluation=evaluation,
                )
            except Exception as error:
                _fail(folder, job, federation, error, run=run.name)
                raise
            finished = folder.finish()
            more = {
                "report": str(finished / "report.html"),
                "taken": {"method": job.method, "because": job.because},
                "new_ledgers": {file.party: str(file.ledger) for file in new},
            }
    if failure is not None:
        release = finished / RELEASE
        kept = f"The release was paid for and is good: {release}." if release.exists() else "It was paid for."
        raise failure.kind(f"{failure.text} {kept}")
    return record, more


def _keep_paid(folder: Folder, job: Job, federation: Federation, run: Run[Any]) -> None:
    """Write what was opened at once: whatever ends this process later, it is there to be found again."""
    from colonnade.federation.train import result_at
    from colonnade.runs.writing import keep_paid

    # What cannot be written now is tried again at the end, which says why.
    with uninterrupted(), suppress(OSError, CannotWrite):
        try:
            result = result_at(job, run)
        except ColonnadeError:
            # Nothing was learnt, which the end says.
            result = None
        if result is not None:
            folder.free_reserve()
            keep_paid(folder.draft, job, run, federation, result)
    if holds_paid(folder.draft):
        # What is kept tells that it was paid for, and may need the room.
        (folder.draft / BEGUN).unlink(missing_ok=True)


def _fail(folder: Folder, job: Job, federation: Federation, error: BaseException, *, run: str) -> None:
    """Leave a record of a run that was charged for, and say so; of one that was not, nothing is left."""
    try:
        record = failure_facts(job, federation, error, run=run)
    except LedgerError:
        # The ledger that says what was charged is what failed; what was kept is listed by `runs`.
        return
    if not record.charged:
        return
    with uninterrupted():
        kept = keep_failure(folder, record)
    if isinstance(error, KeyboardInterrupt):
        return
    place = folder.name if kept is None else kept
    shown = f" `colonnade show {place}` has the record." if kept is not None else ""
    notify = f"{charged_text(record)} That stays charged, because it may have been seen.{shown}"
    paid = holds_paid(place) or holds_paid(folder.draft)
    if paid:
        notify = f"{notify} What was paid for is kept: `colonnade recover {place}` makes the rest of it."
    if isinstance(error, OSError):
        name = Path(error.filename or folder.name).name
        left, remedy = "and nothing half-written was left", "name a folder on another disk, and run again"
        if paid:
            left = "so the run's folder is not whole"
            remedy = "move what is kept to another disk, and recover it"
        raise CannotWrite(
            f"{folder.name / name} cannot be written ({error.strerror or error}), {left}. {notify} Make room, or "
            f"{remedy}."
        ) from None
    if isinstance(error, ColonnadeError):
        raise type(error)(f"{error} {notify}") from None
    error.add_note(notify)
