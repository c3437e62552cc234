"""How a member's FLARE process starts the process of a job: by handing the job to a spare one that waits for it.

Most of the time between submitting a job and its first step is Python reading its libraries. A spare process has read
them before there is a job, and knows nothing else: no data, no key, no job. It takes one job, ends with it, and the
next spare is started after that; so jobs are as far apart as processes are (docs/decisions/0016-a-spare-process.md).
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.app_common.job_launcher.process_launcher import ProcessHandle, ProcessJobLauncher
from nvflare.utils.job_launcher_utils import (
    generate_client_command,
    generate_server_command,
    get_credential_env,
)

from colonnade.runtime.processes import JOB_PROCESS


class _Launcher(ProcessJobLauncher):  # type: ignore[misc]
    """What both kinds of member share; one spare process at most."""

    kind = ""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._kit = ""
        self._spare: subprocess.Popen[bytes] | None = None

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Have a spare process from the start; it ends when this one closes its input, and so when this one ends."""
        if event_type == EventType.SYSTEM_START:
            self._kit = str(fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT).get_root_dir())
            self.refill()
        elif event_type == EventType.SYSTEM_END:
            self._kit = ""
            if (spare := self._take()) is not None and spare.stdin is not None:
                spare.stdin.close()
        super().handle_event(event_type, fl_ctx)

    def launch_job(self, job_meta: dict[str, Any], fl_ctx: FLContext) -> ProcessHandle:
        """Hand a job to the spare process, or to a new one if there is none."""
        words = shlex.split(self.get_command(job_meta, fl_ctx))
        # python -m MODULE ARGUMENTS: which module it is, the job's process knows from its kind.
        arguments = words[words.index("-m") + 2 :]
        credentials = get_credential_env(fl_ctx.get_prop(FLContextKey.JOB_PROCESS_ARGS) or {})
        told = json.dumps({"arguments": arguments, "credentials": credentials}).encode() + b"\n"
        process = self._take() or _start(
            self.kind, str(fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT).get_root_dir())
        )
        if process.stdin is not None:
            process.stdin.write(told)
            process.stdin.close()
        return _Handle(process, self)

    def refill(self) -> None:
        """Start a spare process unless there is one."""
        with self._lock:
            if self._kit and (self._spare is None or self._spare.poll() is not None):
                self._spare = _start(self.kind, self._kit)

    def _take(self) -> subprocess.Popen[bytes] | None:
        """The spare process, which is then nobody else's; None if there is none that lives."""
        with self._lock:
            spare, self._spare = self._spare, None
        return spare if spare is not None and spare.poll() is None else None


class ServerLauncher(_Launcher):
    """The server's."""

    kind = "server"

    def get_command(self, job_meta: dict[str, Any], fl_ctx: FLContext) -> str:
        return str(generate_server_command(fl_ctx))


class PartyLauncher(_Launcher):
    """A party's."""

    kind = "party"

    def get_command(self, job_meta: dict[str, Any], fl_ctx: FLContext) -> str:
        return str(generate_client_command(fl_ctx))


class _Handle(ProcessHandle):  # type: ignore[misc]
    """A job's process; when it has ended there is time for the next spare one."""

    def __init__(self, process: subprocess.Popen[bytes], launcher: _Launcher) -> None:
        super().__init__(process=process)
        self._launcher = launcher

    def wait(self) -> None:
        super().wait()
        self._launcher.refill()


def _start(kind: str, kit: str) -> subprocess.Popen[bytes]:
    """A process that reads libraries and then its input; it names the kit, so that it is found again."""
    command = [sys.executable, "-u", "-m", JOB_PROCESS, kind, kit]
    return subprocess.Popen(command, stdin=subprocess.PIPE, env=dict(os.environ), start_new_session=True)
