"""The two classes that a job on NVIDIA FLARE names. Nothing else of a job runs at a site.

FLARE starts a process for each job at the server and at every site; the server's builds a `Coordinator`, a site's a
`Member`, both from the job's own text. From there on all members are alike: each takes part over its channel. These
are where a process begins, as a verb of the command line is, and kits name them: so they know the rooms above this one.
"""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from nvflare.apis.controller_spec import Task
from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from colonnade.errors import ColonnadeError
from colonnade.federation.files import make_folder, sealed_text, write_whole
from colonnade.federation.holdout import LOG, OUTCOME
from colonnade.federation.job import Job, ScoreJob, parse_job
from colonnade.runs.recovery import finish_run
from colonnade.runtime.run import reason_for_peers
from colonnade.sites.flare import FlareChannel, server_address, site_address
from colonnade.sites.kit import Kit
from colonnade.sites.site import take_part

TASK = "take part"
_NAME = "the submitted job"
_LEAVING_SECONDS = 10.0
_TIMES = frozenset({"time", "started", "seconds"})


def _kit(context: FLContext) -> Kit:
    return Kit.load(context.get_engine().get_workspace().get_root_dir())


def _parsed(text: str) -> Job | ScoreJob | ColonnadeError:
    """The job in its own text, or what is wrong with it: raised here it would end a process without an outcome."""
    try:
        return parse_job(text, name=_NAME)
    except ColonnadeError as error:
        return error


def _no_job(kit: Kit, job_id: str, member: str, error: ColonnadeError) -> str:
    folder = kit.run_folder(job_id)
    make_folder(folder)
    facts = {"member": member, "job": "", "id": job_id, "state": "failed", "step": "reading the job"}
    facts |= {"kind": type(error).__name__, "reason": str(error), "told": reason_for_peers(error)}
    write_whole(folder / OUTCOME, sealed_text(facts) + "\n", own=True)
    return f"{_NAME} cannot be read. Every member's own outcome says why."


def _channel(member: str, job: Job | ScoreJob, context: FLContext) -> FlareChannel:
    job_id = context.get_job_id()
    addresses = {party: site_address(party, job_id) for party in job.parties}
    addresses[job.server] = server_address(job_id)
    return FlareChannel(member, context.get_engine().get_cell(), addresses)


class Coordinator(Controller):  # type: ignore[misc]
    """The server's part in a job: it asks every party to take part, and takes part itself."""

    def __init__(self, job: str, resumes: str = "") -> None:
        super().__init__()
        self._resumes = resumes
        self._job = _parsed(job)
        self._channel: FlareChannel | None = None

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Listen before any party may speak."""
        if isinstance(self._job, ColonnadeError):
            return
        self._channel = _channel(self._job.server, self._job, fl_ctx)

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Ask every party to take part, take part, and wait until all have left."""
        if isinstance(self._job, ColonnadeError):
            self.system_panic(_no_job(_kit(fl_ctx), fl_ctx.get_job_id(), "server", self._job), fl_ctx)
            return
        task = Task(name=TASK, data=Shareable(), timeout=0)
        parties = list(self._job.parties)
        self.broadcast(task, fl_ctx, targets=parties, min_responses=len(parties))
        kit, job_id = _kit(fl_ctx), fl_ctx.get_job_id()
        outcome = asyncio.run(
            take_part(
                _present(self._channel),
                kit,
                keep=finish_run,
                member=self._job.server,
                job=self._job,
                job_id=job_id,
                resumes=self._resumes,
                stopped=lambda: bool(abort_signal.triggered),
            )
        )
        self._show(kit.run_folder(job_id), Path(fl_ctx.get_engine().get_workspace().get_run_dir(job_id)))
        deadline = time.monotonic() + _LEAVING_SECONDS
        while self.get_num_standing_tasks() and time.monotonic() < deadline and not abort_signal.triggered:
            time.sleep(0.05)
        if outcome["state"] != "finished":
            self.system_panic(outcome["told"], fl_ctx)

    def _show(self, kept: Path, downloaded: Path) -> None:
        """Let whoever submitted the job see how it ended and what was learnt, which readers' lines pay for.

        How long it took goes with nobody: the server waits while parties compare ids, of which it is not to tell.
        """
        for name in (OUTCOME, LOG):
            if (kept / name).exists() and downloaded.is_dir():
                lines = (kept / name).read_text(encoding="utf-8")
                said = (
                    [json.loads(lines)]
                    if name == OUTCOME
                    else [json.loads(line) for line in lines.splitlines()]
                )
                texts = [
                    json.dumps({key: announced[key] for key in announced if key not in _TIMES})
                    for announced in said
                ]
                (downloaded / name).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Nothing is left to stop."""

    def process_result_of_unknown_task(
        self, client: Any, task_name: str, client_task_id: str, result: Shareable, fl_ctx: FLContext
    ) -> None:
        """Answers that nobody asked for are not read."""


class Member(Executor):  # type: ignore[misc]
    """A party's part in a job."""

    def __init__(self, job: str, resumes: str = "", proposal: str = "") -> None:
        super().__init__()
        self._resumes, self._proposal = resumes, proposal
        self._job = _parsed(job)
        self._channel: FlareChannel | None = None

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Listen before any peer may speak."""
        if event_type != EventType.START_RUN:
            return
        if isinstance(self._job, ColonnadeError):
            _no_job(_kit(fl_ctx), fl_ctx.get_job_id(), fl_ctx.get_identity_name(), self._job)
        else:
            self._channel = _channel(fl_ctx.get_identity_name(), self._job, fl_ctx)

    def execute(
        self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal
    ) -> Shareable:
        if isinstance(self._job, ColonnadeError):
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)
        outcome = asyncio.run(
            take_part(
                _present(self._channel),
                _kit(fl_ctx),
                keep=finish_run,
                member=fl_ctx.get_identity_name(),
                job=self._job,
                job_id=fl_ctx.get_job_id(),
                resumes=self._resumes,
                proposal=self._proposal,
                stopped=lambda: bool(abort_signal.triggered),
            )
        )
        done = outcome["state"] == "finished"
        return make_reply(ReturnCode.OK if done else ReturnCode.EXECUTION_EXCEPTION)


def _present(channel: FlareChannel | None) -> FlareChannel:
    if channel is None:
        raise RuntimeError("FLARE asked for a run that it never started")
    return channel
