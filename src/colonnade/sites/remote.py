"""The two classes that a job on NVIDIA FLARE names. Nothing else of a job runs at a site.

FLARE starts a process for each job at the server and at every site; the server's builds a `Coordinator`, a site's a
`Member`, both from the job's own text. From there on all members are alike: each takes part over its channel.
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
from colonnade.federation.files import LOG, OUTCOME, make_folder, write_sealed
from colonnade.federation.job import Job, ScoreJob, parse_job
from colonnade.runtime.run import reason_for_peers
from colonnade.sites.flare import FlareChannel, server_address, site_address
from colonnade.sites.kit import Kit
from colonnade.sites.site import take_part

TASK = "take part"
_NAME = "the submitted job"
_LEAVING_SECONDS = 10.0
_TIMES = frozenset({"time", "started", "seconds"})


class _JobComponent:
    """What the server's and a site's part in a job share: the job in its own text, and the channel to its members."""

    def __init__(self, job: str, resumes: str = "", proposal: str = "") -> None:
        super().__init__()
        self._resumes, self._proposal = resumes, proposal
        self._channel: FlareChannel | None = None
        self._job: Job | ScoreJob | None = None
        self._refusal: ColonnadeError | None = None
        try:
            self._job = parse_job(job, name=_NAME)
        except ColonnadeError as error:
            # Raised here it would end a process without an outcome.
            self._refusal = error

    def _listen(self, member: str, context: FLContext) -> None:
        if self._job is not None:
            job_id = context.get_job_id()
            addresses = {party: site_address(party, job_id) for party in self._job.parties}
            addresses[self._job.server] = server_address(job_id)
            self._channel = FlareChannel(member, context.get_engine().get_cell(), addresses)

    def _note_refusal(self, member: str, context: FLContext) -> None:
        error = self._refusal
        if error is None:
            return
        folder = _kit(context).run_folder(context.get_job_id())
        make_folder(folder)
        facts = {"member": member, "job": "", "id": context.get_job_id(), "state": "failed"}
        facts |= {"step": "reading the job", "kind": type(error).__name__}
        facts |= {"reason": str(error), "told": reason_for_peers(error)}
        write_sealed(folder / OUTCOME, facts)

    def _take_part(self, member: str, context: FLContext, abort_signal: Signal) -> dict[str, Any]:
        if self._channel is None or self._job is None:
            raise RuntimeError("FLARE asked for a run that it never started")
        return asyncio.run(
            take_part(
                self._channel,
                _kit(context),
                member=member,
                job=self._job,
                job_id=context.get_job_id(),
                resumes=self._resumes,
                proposal=self._proposal,
                is_aborted=lambda: bool(abort_signal.triggered),
            )
        )


def _kit(context: FLContext) -> Kit:
    return Kit.load(context.get_engine().get_workspace().get_root_dir())


class Coordinator(_JobComponent, Controller):  # type: ignore[misc]
    """The server's part in a job: it asks every party to take part, and takes part itself."""

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Listen before any party may speak."""
        if self._job is not None:
            self._listen(self._job.server, fl_ctx)

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        if self._job is None:
            self._note_refusal("server", fl_ctx)
            self.system_panic(f"{_NAME} cannot be read. Every member's own outcome says why.", fl_ctx)
            return
        parties = list(self._job.parties)
        task = Task(name=TASK, data=Shareable(), timeout=0)
        self.broadcast(task, fl_ctx, targets=parties, min_responses=len(parties))
        outcome = self._take_part(self._job.server, fl_ctx, abort_signal)
        self._show(fl_ctx)
        deadline = time.monotonic() + _LEAVING_SECONDS
        while self.get_num_standing_tasks() and time.monotonic() < deadline and not abort_signal.triggered:
            time.sleep(0.05)
        if outcome["state"] != "finished":
            self.system_panic(outcome["told"], fl_ctx)

    def _show(self, fl_ctx: FLContext) -> None:
        """Show the submitter how it ended, not how long it took: the server waits while parties compare ids."""
        job_id = fl_ctx.get_job_id()
        kept = _kit(fl_ctx).run_folder(job_id)
        downloaded = Path(fl_ctx.get_engine().get_workspace().get_run_dir(job_id))
        for name in (OUTCOME, LOG):
            if (kept / name).exists() and downloaded.is_dir():
                text = (kept / name).read_text(encoding="utf-8")
                records = [json.loads(one) for one in ([text] if name == OUTCOME else text.splitlines())]
                lines = [
                    json.dumps({key: one[key] for key in one if key not in _TIMES}) + "\n" for one in records
                ]
                (downloaded / name).write_text("".join(lines), encoding="utf-8")

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Nothing is left to stop."""

    def process_result_of_unknown_task(
        self, client: Any, task_name: str, client_task_id: str, result: Shareable, fl_ctx: FLContext
    ) -> None:
        """Answers that nobody asked for are not read."""


class Member(_JobComponent, Executor):  # type: ignore[misc]
    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Listen before any peer may speak."""
        if event_type == EventType.START_RUN:
            self._note_refusal(fl_ctx.get_identity_name(), fl_ctx)
            self._listen(fl_ctx.get_identity_name(), fl_ctx)

    def execute(
        self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal
    ) -> Shareable:
        if self._job is None:
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)
        outcome = self._take_part(fl_ctx.get_identity_name(), fl_ctx, abort_signal)
        done = outcome["state"] == "finished"
        return make_reply(ReturnCode.OK if done else ReturnCode.EXECUTION_EXCEPTION)
