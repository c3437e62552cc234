"""One member's part in a job between machines, whatever engine carries its frames, and what it keeps of failed runs."""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import re
import shutil
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from colonnade.data.table import Table
from colonnade.errors import CannotWrite, ColonnadeError, InputError, JobError, RemoteProtocolError
from colonnade.evaluation.held_out import HeldOut, evaluate_at_site
from colonnade.federation.federation import Run, Site
from colonnade.federation.files import make_folder, open_own, sealed_text, write_whole
from colonnade.federation.holdout import JOURNAL, LOG, OUTCOME, STANDING, Standing, outcome_note
from colonnade.federation.job import Job, ScoreJob
from colonnade.federation.party_file import RECORD_DAYS, PartyFile
from colonnade.federation.train import keep_opened, protocol_of, result_at
from colonnade.methods.method import TrainingResult
from colonnade.randomness import Randomness, SeededRandomness, SystemRandomness
from colonnade.runtime.channel import Channel, LoggedChannel, StepFacts, step_line
from colonnade.runtime.identity import seal
from colonnade.runtime.journal import Journal, JournalChannel, ReplayRandomness, destroy
from colonnade.runtime.party import Party
from colonnade.runtime.run import Outcome, Program, reason_for_peers, run_as
from colonnade.sites.approval import REQUESTS
from colonnade.sites.kit import JOBS, Kit
from colonnade.sites.provision import BEFORE, destroy_keys
from colonnade.sites.site_inputs import SiteInputs, inputs_of, scoring_of

_DAY = 24 * 3600.0
_JOB_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def clean(kit: Kit, *, days: float | None = None, only_say: bool = False) -> tuple[Path, ...]:
    """Destroy the records of runs that failed longer ago than the party's file says, and what else ended by then.

    Those are requests, what FLARE kept of jobs, at the server with its list of them, and the key of a certificate that
    was renewed by an earlier version. Returns what was destroyed or, with `only_say`, what would be. Outcomes, logs and
    ledgers stay. A run without its record cannot be resumed: its job is submitted anew, and charged anew.
    """
    kept = _days(kit) if days is None else days
    if not kept >= 0:
        raise InputError(f"found {kept!r} days; records are kept for 0 or more.")
    before = time.time() - kept * _DAY
    records = tuple(_old_records(kit, before))
    requests = tuple(
        path for path in sorted((kit.path / REQUESTS).glob("*.json")) if path.stat().st_mtime < before
    )
    jobs = tuple(_old_jobs(kit, before))
    keys = tuple(path for path in [kit.path / BEFORE] if path.is_dir())
    if not only_say:
        for folder in records:
            destroy(folder)
        for path in requests:
            path.unlink()
        for folder in jobs:
            shutil.rmtree(folder)
        for folder in keys:
            destroy_keys(folder)
    return (*records, *requests, *jobs, *keys)


def _days(kit: Kit) -> float:
    site = kit.site()
    return PartyFile.load(site["party"]).record_days if "party" in site else RECORD_DAYS


def _old_records(kit: Kit, before: float) -> Iterator[Path]:
    for folder in sorted(kit.runs.glob(f"*/{JOURNAL}")):
        outcome = folder.parent / OUTCOME
        # A run without an outcome may go on; `party start` gives one to those that cannot.
        if outcome.exists() and outcome.stat().st_mtime < before:
            state = json.loads(outcome.read_text(encoding="utf-8")).get("state")
            if state == "failed":
                yield folder


def _old_jobs(kit: Kit, before: float) -> Iterator[Path]:
    for folder in sorted((*kit.path.iterdir(), *kit.path.glob(f"{JOBS}/*"))):
        if folder.is_dir() and _JOB_ID.fullmatch(folder.name) and folder.stat().st_mtime < before:
            outcome = kit.run_folder(folder.name) / OUTCOME
            # A job that runs has a folder of runs and no outcome; one that FLARE refused has neither.
            if outcome.exists() if outcome.parent.exists() else True:
                yield folder


RESERVE = "reserve"
# Room for an outcome, which on a full disk could not be written otherwise.
_OUTCOME_BYTES = 1 << 16
# How long members wait for each other's processes: an engine starts them one after the other.
JOINING_SECONDS = 300.0
_GLANCE_SECONDS = 0.2
# How long a member that was stopped may take to notice before it is cut off: FLARE's own patience is not much longer.
_GRACE_SECONDS = 2.0


class Keep(Protocol):
    """What writes a run's folder: `colonnade.runs.recovery.finish_run`."""

    def __call__(
        self,
        folder: Path,
        job: Job,
        run: Run[Any],
        place: Site,
        result: TrainingResult | ColonnadeError | None,
        *,
        evaluation: HeldOut = None,
    ) -> tuple[dict[str, Any], ColonnadeError | None]:
        """Write it, and return the facts and why there is no model."""
        ...


class EngineChannel(Channel, Protocol):
    """A channel of an engine, which has to wait until everybody's process is there."""

    async def open(self, timeout: float) -> None:
        """Return when every peer is there."""
        ...

    async def interrupt(self, reason: str) -> None:
        """Let whatever waits for a peer stop waiting, for this reason."""
        ...

    async def close(self) -> None: ...


async def take_part(
    meeting: EngineChannel,
    kit: Kit,
    *,
    keep: Keep,
    member: str,
    job: Job | ScoreJob,
    job_id: str,
    resumes: str = "",
    proposal: str = "",
    stopped: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Run a member's part and return its outcome, which is also written to its folder. Raises nothing of a run's own.

    `keep` writes what came of a run into the member's folder. `resumes` is the id of an earlier job that this one goes
    on with, `proposal` what two administrators signed, if they did. `stopped` says whether somebody who may do so has
    stopped the job.
    """
    folder = kit.run_folder(job_id)
    facts: dict[str, Any] = {
        "member": member,
        "job": job.name,
        "id": job_id,
        "resumes": resumes,
        "started": _now(),
    }
    began = time.perf_counter()
    # Keys and lists of runs that nobody went on with end here, also where nobody calls `party clean`.
    with suppress(ColonnadeError, OSError):
        clean(kit)
    parties: list[Party] = []
    with _log_in(folder) as (log, unwritable):
        channel = LoggedChannel(meeting, lambda step: _write_line(log, member, job_id, step))
        work = asyncio.ensure_future(
            _refused(meeting, channel, unwritable)
            if unwritable is not None
            else _run(meeting, channel, kit, keep, member, job, job_id, resumes, proposal, folder, parties)
        )
        watch = asyncio.create_task(_watched(work, meeting, stopped))
        try:
            facts |= {"state": "finished", **await work}
        except asyncio.CancelledError:
            error = RemoteProtocolError(
                f"{member} at step {channel.step!r}: the job was stopped by its server"
            )
            facts |= _failed(error, channel)
        except BaseException as error:
            facts |= _failed(error, channel)
        finally:
            watch.cancel()
            await meeting.close()
    if facts["state"] == "failed":
        # By it the ledger is asked what was charged; a run that was never agreed on was charged for nothing.
        facts["run"] = parties[0].run if parties else ""
    facts["seconds"] = round(time.perf_counter() - began, 3)
    # There was no room at all where this fails: the member gives the job an outcome once there is.
    with suppress(OSError):
        (folder / RESERVE).unlink(missing_ok=True)
        _write(folder / OUTCOME, facts)
    (folder / STANDING).unlink(missing_ok=True)
    return facts


async def _refused(meeting: EngineChannel, channel: LoggedChannel, error: CannotWrite) -> dict[str, Any]:
    await meeting.open(JOINING_SECONDS)
    channel.stop(reason_for_peers(error))
    raise error


async def _run(
    meeting: EngineChannel,
    channel: LoggedChannel,
    kit: Kit,
    keep: Keep,
    member: str,
    job: Job | ScoreJob,
    job_id: str,
    resumes: str,
    proposal: str,
    folder: Path,
    parties: list[Party],
) -> dict[str, Any]:
    """Run a member's part; `parties` gets the member once it has met the others, to name the run by if it fails."""
    await meeting.open(JOINING_SECONDS)
    group = job.group()
    journal = recorded = None
    try:
        inputs = inputs_of(kit, job, member, job_id, resumes, proposal)
        work = _work(kit, job, member, keep, inputs)
        if isinstance(job, Job):
            record = kit.run_folder(resumes or job_id) / JOURNAL
            journal = Journal.resume(record) if resumes else Journal.begin(record)
        elif resumes:
            raise JobError(f"{job.path}: a job of scores is too short to resume. Submit it anew.")
        # A peer that does not come is named by its own timeout, which ends before this one.
        async with asyncio.timeout(2 * JOINING_SECONDS):
            sealed: Channel = await seal(
                channel,
                member,
                group.members,
                # Members that mean to go on with different runs have no common name for this one.
                job=f"{job_id} goes on with {resumes}" if resumes else job_id,
                identity=kit.identity(),
                trust=kit.trust(),
                certified={job.server: kit.server},
                timeout=JOINING_SECONDS,
            )
            if journal is not None:
                sealed = recorded = JournalChannel(member, sealed, journal)
                if resumes:
                    await recorded.compare(group.others(member), timeout=JOINING_SECONDS)
    except BaseException as error:
        if journal is not None:
            journal.close()
        channel.stop(reason_for_peers(error))
        raise
    standing = Standing(folder)
    party = Party(
        name=member,
        group=group,
        channel=sealed,
        ledger=inputs.accountant,
        randomness=_draws(kit, member, journal),
        dataset=inputs.dataset,
        shown_ids=inputs.shown_ids,
        most_ids=inputs.most_ids,
        trusts_server=inputs.trusts_server,
        public=inputs.public,
        asks=inputs.asks,
        approves=inputs.approves,
        progress=standing,
        remembers=inputs.remembers(job),
        part=inputs.part,
        timeout=job.timeout,
    )
    standing.run = lambda: party.run
    parties.append(party)
    if recorded is not None and not work.resumable:
        party.aligned = _from_there(party, recorded)

    async def trained_and_evaluated(
        party: Party, table: Table | None, request: Any
    ) -> tuple[Run[Any], HeldOut]:
        result = await work.program(party, table, request)
        ended: Run[Any] = Run(result.plan, Outcome({member: result}, {member: party.traffic}))
        if inputs.evaluates is None or not isinstance(job, Job):
            return ended, None
        work.paid(folder, ended)
        part, asks = inputs.evaluates()
        return ended, await evaluate_at_site(
            party, table, job, ended, part=part, accountant=inputs.accountant, asks=asks
        )

    ended: Run[Any]
    evaluation: HeldOut
    try:
        ended, evaluation = await run_as(party, trained_and_evaluated, inputs.table, work.request)
    except BaseException:
        if journal is not None:
            journal.close()
        raise
    facts = ended.recorded(member) | _kept(work, folder, ended, inputs.site(member), evaluation)
    if journal is not None:
        journal.forget()
    return facts


@dataclass(frozen=True, eq=False)
class _Work:
    """What a job has this member run, and how it keeps what came of it."""

    request: Any
    program: Program
    resumable: bool
    keep: Callable[[Path, Run[Any], Site, HeldOut], dict[str, Any]]
    paid: Callable[[Path, Run[Any]], None] = lambda _folder, _run: None


def _work(kit: Kit, job: Job | ScoreJob, member: str, keep: Keep, inputs: SiteInputs) -> _Work:
    if isinstance(job, ScoreJob):
        known = inputs.lists()
        scoring = scoring_of(job, kit.run_folder(job.model), member, known)
        return _Work(
            scoring.request,
            scoring.session,
            resumable=False,
            keep=lambda folder, run, _site, _evaluation: scoring.keep(folder, member, run.result()),
        )
    method = protocol_of(job)
    method.needs()

    def keep_run(folder: Path, run: Run[Any], site: Site, evaluation: HeldOut) -> dict[str, Any]:
        return outcome_note(*keep(folder, job, run, site, result_at(job, run), evaluation=evaluation))

    def keep_paid(folder: Path, run: Run[Any]) -> None:
        result = result_at(job, run)
        if result is not None and not isinstance(result, ColonnadeError):
            # What cannot be written now is tried again at the end, which says why.
            with suppress(OSError, ColonnadeError):
                keep_opened(folder, job, run, result)

    job.spec.check()
    return _Work(job.spec, method.session(job.spec), method.resumable, keep_run, keep_paid)


def _kept(work: _Work, folder: Path, run: Run[Any], site: Site, evaluation: HeldOut) -> dict[str, Any]:
    """What a member notes of a run, once everything is written."""
    try:
        return work.keep(folder, run, site, evaluation)
    except OSError as error:
        raise CannotWrite(
            f"{folder} cannot be written to ({error.strerror or error}). The run had ended and stays charged."
        ) from None


def _from_there(party: Party, recorded: JournalChannel) -> Callable[[], None]:
    """What ends the record of a short run once people are matched: nothing that is charged is ever done again."""

    def aligned() -> None:
        recorded.end()
        if isinstance(party.randomness, ReplayRandomness):
            party.randomness = SystemRandomness()

    return aligned


def _draws(kit: Kit, member: str, journal: Journal | None) -> Randomness:
    # A seed makes a run repeatable for tests and demonstrations; the run, its ledgers and its release say so.
    seed = kit.site().get("noise_seed")
    if seed is not None:
        return SeededRandomness(f"{seed}/0/{member}")
    return SystemRandomness() if journal is None else ReplayRandomness(journal.key)


async def _watched(work: asyncio.Future[Any], meeting: EngineChannel, stopped: Callable[[], bool]) -> None:
    """End the work if the job was stopped: an engine also stops a job at everybody when one member dies."""
    while not stopped():
        await asyncio.sleep(_GLANCE_SECONDS)
    await meeting.interrupt("the job was stopped by its server")
    await asyncio.sleep(_GRACE_SECONDS)
    work.cancel()


def _failed(error: BaseException, channel: LoggedChannel) -> dict[str, Any]:
    if isinstance(error, ColonnadeError):
        message = str(error)
    else:
        # Where, but not the message: an unforeseen one may quote data.
        frame = traceback.extract_tb(error.__traceback__)[-1]
        message = f"a mistake in Colonnade: {type(error).__name__} at {Path(frame.filename).name}, line {frame.lineno}"
    return {
        "state": "failed",
        "step": channel.step,
        "kind": type(error).__name__,
        "reason": message,
        "told": reason_for_peers(error),
    }


@contextmanager
def _log_in(folder: Path) -> Iterator[tuple[Any, CannotWrite | None]]:
    """A run's log, and room set aside for its outcome; why there is none, if the folder cannot be written to."""
    log = None
    try:
        try:
            make_folder(folder)
            log = open_own(folder / LOG)
            with (folder / RESERVE).open("xb") as file:
                os.posix_fallocate(file.fileno(), 0, _OUTCOME_BYTES)
        except OSError as error:
            yield (
                log,
                CannotWrite(
                    f"{folder} cannot be written to ({error.strerror or error}). Nothing was charged. Make room, and "
                    "submit the job anew."
                ),
            )
        else:
            yield log, None
    finally:
        with suppress(OSError):
            if log is not None:
                log.close()


def _write_line(log: Any, member: str, job_id: str, facts: StepFacts) -> None:
    # A full disk ends a run where its record cannot be written. Peers are told then, with or without this line.
    with suppress(OSError):
        if log is None:
            return
        log.write(step_line(member, job_id, facts) + "\n")
        log.flush()


def _write(path: Path, facts: dict[str, Any]) -> None:
    write_whole(path, sealed_text(facts) + "\n", own=True)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
