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
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TextIO

from colonnade.data.table import Table
from colonnade.errors import CannotWrite, ColonnadeError, InputError, JobError, RemoteProtocolError
from colonnade.evaluation.held_out import HeldOut, evaluate_at_site
from colonnade.federation.federation import Run
from colonnade.federation.files import JOURNAL, LOG, OUTCOME, PROGRESS, make_folder, open_own, write_sealed
from colonnade.federation.holdout import NoModel, ProgressFile, outcome_note
from colonnade.federation.job import Job, ScoreJob
from colonnade.federation.party_file import RECORD_DAYS, PartyFile
from colonnade.federation.train import keep_opened, protocol_of, result_at
from colonnade.randomness import Randomness, SeededRandomness, SystemRandomness
from colonnade.runs.recovery import finish_run
from colonnade.runtime.channel import Channel, LoggedChannel, StepFacts, step_line
from colonnade.runtime.identity import seal
from colonnade.runtime.journal import Journal, JournalChannel, ReplayRandomness, destroy
from colonnade.runtime.party import Party
from colonnade.runtime.run import Outcome, Program, reason_for_peers, run_as
from colonnade.sites.approval import REQUESTS
from colonnade.sites.kit import JOBS, Kit
from colonnade.sites.provision import BEFORE, destroy_keys
from colonnade.sites.site_inputs import inputs_of, scoring_of

_DAY = 24 * 3600.0
_JOB_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def clean(kit: Kit, *, days: float | None = None, only_say: bool = False) -> tuple[Path, ...]:
    """Destroy records of runs that failed longer ago than the party's file says, and what else ended by then.

    Returns what was destroyed or, with `only_say`, what would be. Outcomes, logs and ledgers stay.
    """
    if days is None:
        site = kit.site()
        days = PartyFile.load(site["party"]).record_days if "party" in site else RECORD_DAYS
    if not days >= 0:
        raise InputError(f"found {days!r} days; records are kept for 0 or more.")
    before = time.time() - days * _DAY
    records = [
        outcome.parent / JOURNAL
        for outcome in sorted(kit.runs.glob(f"*/{OUTCOME}"))
        # A run without an outcome may go on; `party start` gives one to those that cannot.
        if (outcome.parent / JOURNAL).exists()
        and outcome.stat().st_mtime < before
        and json.loads(outcome.read_text(encoding="utf-8")).get("state") == "failed"
    ]
    requests = [
        path for path in sorted((kit.path / REQUESTS).glob("*.json")) if path.stat().st_mtime < before
    ]
    jobs = [
        folder
        for folder in sorted((*kit.path.iterdir(), *kit.path.glob(f"{JOBS}/*")))
        if folder.is_dir()
        and _JOB_ID.fullmatch(folder.name)
        and folder.stat().st_mtime < before
        # A job that runs has a folder of runs and no outcome; one that FLARE refused has neither.
        and (not (run := kit.run_folder(folder.name)).exists() or (run / OUTCOME).exists())
    ]
    keys = [path for path in [kit.path / BEFORE] if path.is_dir()]
    if not only_say:
        for ending, folders in ((destroy, records), (shutil.rmtree, jobs), (destroy_keys, keys)):
            for folder in folders:
                ending(folder)
        for path in requests:
            path.unlink()
    return (*records, *requests, *jobs, *keys)


RESERVE = "reserve"
# Room for an outcome, which on a full disk could not be written otherwise.
_OUTCOME_BYTES = 1 << 16
# How long members wait for each other's processes: an engine starts them one after the other.
JOINING_SECONDS = 300.0
_GLANCE_SECONDS = 0.2
# How long a member that was stopped may take to notice before it is cut off: FLARE's own patience is not much longer.
_GRACE_SECONDS = 2.0


class EngineChannel(Channel, Protocol):
    """A channel of an engine, which has to wait until everybody's process is there."""

    async def open(self, timeout: float) -> None: ...

    async def interrupt(self, reason: str) -> None: ...

    async def close(self) -> None: ...


async def take_part(
    meeting: EngineChannel,
    kit: Kit,
    *,
    member: str,
    job: Job | ScoreJob,
    job_id: str,
    resumes: str = "",
    proposal: str = "",
    is_aborted: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Run a member's part and return its outcome, which its folder has too. Raises nothing of a run's own."""
    folder = kit.run_folder(job_id)
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    facts: dict[str, Any] = {"member": member, "job": job.name, "id": job_id}
    facts |= {"resumes": resumes, "started": started}
    began = time.perf_counter()
    # Keys and lists of runs that nobody went on with end here, also where nobody calls `party clean`.
    with suppress(ColonnadeError, OSError):
        clean(kit)
    log, unwritable = _open_log(folder)

    def note(step: StepFacts) -> None:
        # A full disk ends a run where its record cannot be written. Peers are told then, with or without this line.
        with suppress(OSError):
            if log is not None:
                log.write(step_line(member, job_id, step) + "\n")
                log.flush()

    channel = LoggedChannel(meeting, note)
    part = _Participation(meeting, channel, kit, member, job, job_id, resumes, proposal, folder)
    work = asyncio.ensure_future(part.run(unwritable))
    watch = asyncio.create_task(_watch(work, meeting, is_aborted))
    try:
        facts |= {"state": "finished", **await work}
    except asyncio.CancelledError:
        error = RemoteProtocolError(f"{member} at step {channel.step!r}: the job was stopped by its server")
        facts |= _failed(error, channel)
    except BaseException as error:
        facts |= _failed(error, channel)
    finally:
        watch.cancel()
        await meeting.close()
        with suppress(OSError):
            if log is not None:
                log.close()
    if facts["state"] == "failed":
        # By it the ledger is asked what was charged; a run that was never agreed on was charged for nothing.
        facts["run"] = part.party.run if part.party is not None else ""
    facts["seconds"] = round(time.perf_counter() - began, 3)
    # There was no room at all where this fails: the member gives the job an outcome once there is.
    with suppress(OSError):
        (folder / RESERVE).unlink(missing_ok=True)
        write_sealed(folder / OUTCOME, facts)
    (folder / PROGRESS).unlink(missing_ok=True)
    return facts


def _open_log(folder: Path) -> tuple[TextIO | None, CannotWrite | None]:
    log = None
    try:
        make_folder(folder)
        log = open_own(folder / LOG)
        with (folder / RESERVE).open("xb") as file:
            os.posix_fallocate(file.fileno(), 0, _OUTCOME_BYTES)
    except OSError as error:
        return log, CannotWrite(
            f"{folder} cannot be written to ({error.strerror or error}). Nothing was charged. Make room, and submit "
            "the job anew."
        )
    return log, None


@dataclass(eq=False)
class _Participation:
    """One member's part in one job. `party` is this member once it has met the others, to name the run by."""

    meeting: EngineChannel
    channel: LoggedChannel
    kit: Kit
    member: str
    job: Job | ScoreJob
    job_id: str
    resumes: str
    proposal: str
    folder: Path
    party: Party | None = None

    async def run(self, unwritable: CannotWrite | None) -> dict[str, Any]:
        kit, job, member, journal = self.kit, self.job, self.member, None
        program: Program
        spec: Any
        await self.meeting.open(JOINING_SECONDS)
        try:
            if unwritable is not None:
                raise unwritable
            inputs = inputs_of(kit, job, member, self.job_id, self.resumes, self.proposal)
            if isinstance(job, ScoreJob):
                scoring = scoring_of(job, kit.run_folder(job.scores), member, inputs.lists())
                if self.resumes:
                    raise JobError(f"{job.path}: a job of scores is too short to resume. Submit it anew.")
                program, spec = scoring.session, scoring.request
            else:
                method = protocol_of(job)
                method.needs()
                job.spec.check()
                program, spec = method.session(job.spec), job.spec
                record = kit.run_folder(self.resumes or self.job_id) / JOURNAL
                journal = Journal.resume(record) if self.resumes else Journal.begin(record)
            sealed, recorded = await self._seal(journal)
        except BaseException as error:
            if journal is not None:
                journal.close()
            self.channel.stop(reason_for_peers(error))
            raise
        progress = ProgressFile(self.folder)
        seed = kit.site().get("noise_seed")
        randomness: Randomness = SystemRandomness() if journal is None else ReplayRandomness(journal.key)
        if seed is not None:
            # A seed makes a run repeatable for tests and demonstrations; the run, its ledgers and its release say so.
            randomness = SeededRandomness(f"{seed}/0/{member}")
        party = self.party = inputs.party(
            member, job.group(), sealed, timeout=job.timeout, progress=progress, randomness=randomness
        )
        progress.run = lambda: party.run

        def end_record() -> None:
            # Once people are matched: nothing of a short run that is charged is ever done again.
            if recorded is not None:
                recorded.end()
            if isinstance(party.randomness, ReplayRandomness):
                party.randomness = SystemRandomness()

        if isinstance(job, Job) and not method.resumable:
            party.aligned = end_record

        async def trained_and_evaluated(
            party: Party, table: Table | None, spec: Any
        ) -> tuple[Run[Any], HeldOut]:
            result = await program(party, table, spec)
            ended: Run[Any] = Run(result.plan, Outcome({member: result}, {member: party.traffic}))
            if inputs.evaluates is None or not isinstance(job, Job):
                return ended, None
            self._keep_paid(job, ended)
            part, asks = inputs.evaluates()
            return ended, await evaluate_at_site(
                party, table, job, ended, part=part, accountant=inputs.ledger, asks=asks
            )

        try:
            ended, evaluation = await run_as(party, trained_and_evaluated, inputs.table, spec)
        except BaseException:
            if journal is not None:
                journal.close()
            raise
        facts: dict[str, Any] = ended.summary_for(member)
        try:
            if isinstance(job, ScoreJob):
                facts |= scoring.keep(self.folder, member, ended.result())
            else:
                site = inputs.site(member)
                try:
                    result, failure = result_at(job, ended), None
                except ColonnadeError as error:
                    result, failure = None, NoModel.of(error)
                written, failure = finish_run(
                    self.folder, job, ended, site, result, failure=failure, evaluation=evaluation
                )
                facts |= outcome_note(written.model_facts.to_data(), failure)
        except OSError as error:
            raise CannotWrite(
                f"{self.folder} cannot be written to ({error.strerror or error}). The run had ended and stays charged."
            ) from None
        if journal is not None:
            journal.forget()
        return facts

    async def _seal(self, journal: Journal | None) -> tuple[Channel, JournalChannel | None]:
        """The channel on which every peer has proved who it is, and the part of it that keeps the record."""
        job, group, recorded = self.job, self.job.group(), None
        # A peer that does not come is named by its own timeout, which ends before this one.
        async with asyncio.timeout(2 * JOINING_SECONDS):
            sealed: Channel = await seal(
                self.channel,
                self.member,
                group.members,
                # Members that mean to go on with different runs have no common name for this one.
                job=f"{self.job_id} goes on with {self.resumes}" if self.resumes else self.job_id,
                identity=self.kit.identity(),
                trust=self.kit.trust(),
                certified={job.server: self.kit.server},
                timeout=JOINING_SECONDS,
            )
            if journal is not None:
                sealed = recorded = JournalChannel(self.member, sealed, journal)
                if self.resumes:
                    await recorded.compare(group.others(self.member), timeout=JOINING_SECONDS)
        return sealed, recorded

    def _keep_paid(self, job: Job, run: Run[Any]) -> None:
        """Keep what was paid for before an evaluation begins; what cannot be written now is tried again at the end."""
        with suppress(OSError, ColonnadeError):
            if (result := result_at(job, run)) is not None:
                keep_opened(self.folder, job, run, result)


async def _watch(work: asyncio.Future[Any], meeting: EngineChannel, is_aborted: Callable[[], bool]) -> None:
    """End the work if the job was stopped: an engine also stops a job at everybody when one member dies."""
    while not is_aborted():
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
        message = (
            f"an internal error: {type(error).__name__} at {Path(frame.filename).name}, line {frame.lineno}"
        )
    facts = {"state": "failed", "step": channel.step, "kind": type(error).__name__}
    return facts | {"reason": message, "told": reason_for_peers(error)}
