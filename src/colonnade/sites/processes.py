"""Members' FLARE processes on this machine, the processes of their jobs, and asking a federation's server for jobs."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
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

from colonnade.errors import KitError, PeerTimeout, RemoteProtocolError
from colonnade.sites.kit import COORDINATOR, MEMBER, Kit
from colonnade.sites.presence import PRESENCE

# A server that does much else answers late; one that is gone is noticed at once.
_ANSWER_SECONDS = 30.0


def answers(address: tuple[str, int], *, timeout: float = 1.0) -> bool:
    try:
        socket.create_connection(address, timeout).close()
    except OSError:
        return False
    return True


def wait_for_server(kit: Kit, *, timeout: float = 60.0) -> None:
    deadline = time.monotonic() + timeout
    while not answers(kit.address):
        if time.monotonic() > deadline:
            host, port = kit.address
            raise PeerTimeout(
                f"nothing answers at {host}:{port}, where this federation's server should be. Ask whether it was "
                "started, and whether a firewall lets you through."
            )
        time.sleep(0.2)


def write_job(
    folder: Path, text: str, *, name: str, parties: Sequence[str], resumes: str = "", proposal: str = ""
) -> None:
    """A FLARE job: three JSON files that name two installed classes and carry the job's own text. No code."""
    described = {
        "name": name,
        "resource_spec": {},
        "deploy_map": {"coordinator": ["server"], "member": list(parties)},
        "min_clients": len(parties),
        "mandatory_clients": list(parties),
    }
    arguments = {"job": text, "resumes": resumes}
    coordinator = {"id": "coordinator", "path": COORDINATOR, "args": arguments}
    signed = {"proposal": proposal} if proposal else {}
    member = {"tasks": ["*"], "executor": {"path": MEMBER, "args": {**arguments, **signed}}}
    for path, content in (
        ("meta.json", described),
        ("coordinator/config/config_fed_server.json", {"format_version": 2, "workflows": [coordinator]}),
        ("member/config/config_fed_client.json", {"format_version": 2, "executors": [member]}),
    ):
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


class Administration(contextlib.AbstractContextManager["Administration"]):
    """A session with a federation's server, with the rights of an administrator's kit. Close it, or use `with`."""

    def __init__(self, kit: Kit, *, timeout: float = 30.0) -> None:
        if kit.kind != "admin":
            raise KitError(f"{kit.path} is a {kit.kind}'s kit. Jobs are submitted with the administrator's.")
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        wait_for_server(kit, timeout=timeout)
        with _quietly(f"the federation's server refused {kit.path.name}"):
            self._session = new_secure_session(kit.identity().name, str(kit.path), timeout=timeout)
            self._session.set_timeout(_ANSWER_SECONDS)

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        with contextlib.suppress(Exception), _quietly("closing the session"):
            self._session.close()

    def submit(
        self, text: str, *, name: str, parties: Sequence[str], resumes: str = "", proposal: str = ""
    ) -> str:
        with tempfile.TemporaryDirectory() as folder, _quietly("the job was not accepted"):
            write_job(Path(folder), text, name=name, parties=parties, resumes=resumes, proposal=proposal)
            return str(self._session.submit_job(folder))

    def submit_folder(self, folder: Path) -> str:
        with _quietly("the job was not accepted"):
            return str(self._session.submit_job(str(folder)))

    def status(self, job: str) -> dict[str, Any]:
        with _quietly(f"there is no job {job}"):
            return dict(self._session.get_job_meta(job))

    def jobs(self) -> list[dict[str, Any]]:
        with _quietly("the jobs cannot be listed"):
            return [dict(job) for job in self._session.list_jobs(detailed=True, reverse=True)]

    def parties(self) -> list[str]:
        with _quietly("the parties cannot be listed"):
            return [client.name for client in self._session.get_system_info().client_info]

    def stop(self, job: str) -> None:
        with _quietly(f"job {job} cannot be stopped"):
            self._session.abort_job(job)

    def download(self, job: str, folder: Path) -> Path:
        with _quietly(f"what is left of job {job} cannot be downloaded"):
            return Path(self._session.download_job_result(job, str(folder)))


@contextmanager
def _quietly(refusal: str) -> Iterator[None]:
    logging.getLogger("nvflare").setLevel(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    except (OSError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise RemoteProtocolError(f"{refusal} ({type(error).__name__}: {error}).") from None


CONSOLE = "console.txt"
_BEFORE = "console.before.txt"
_CONNECTED = "Successfully registered client"
_MODULES = "nvflare.private.fed.app."
#: The program of a job's process; no import, because it imports this module.
JOB_PROCESS = "colonnade.sites.job_process"
#: What a job's process is called while it waits for one; then by the beginning of the job's id.
SPARE = "colonnade spare"
MAX_NAME = 15
_GRACE_SECONDS = 10.0
_UMASK = 0o027
_GLANCE_SECONDS = 0.05
# FLARE's own patience. What a job's end is, the server knows from its own part in it: it need not wait long for a
# party that is gone. Processes of one job start together on a busy machine, some much later than others.
_PATIENCE = {"NVFLARE_CLIENT_OUTCOME_WAIT_TIMEOUT": "20", "NVFLARE_MAX_RUNNER_SYNC_TIMEOUT": "300"}
# What ends a program that a person or a service manager has had enough of.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Begin = Callable[[Kit], "subprocess.Popen[bytes]"]


def command_for(kit: Kit) -> list[str]:
    if kit.kind == "admin":
        raise KitError(
            f"{kit.path} is an administrator's kit, which starts nothing. Name a server's or a party's."
        )
    module, file, who = (
        ("server.server_train", "fed_server.json", [])
        if kit.kind == "server"
        else ("client.client_train", "fed_client.json", [f"uid={kit.identity().name}"])
    )
    named = ["-m", f"{_MODULES}{module}", "-m", str(kit.path), "-s", file]
    settings = ["--set", "secure_train=true", "org=colonnade", "config_folder=config", *who]
    return [sys.executable, "-u", *named, *settings]


def start(kit: Kit) -> subprocess.Popen[bytes]:
    """Start a member's FLARE process in a session of its own; the kit's console file has what it says."""
    check_startable(kit)
    # What an earlier process was told says nothing about this one.
    (kit.path / PRESENCE).unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):
        (kit.path / CONSOLE).replace(kit.path / _BEFORE)
    with open(kit.path / CONSOLE, "xb", opener=lambda path, flags: os.open(path, flags, 0o640)) as console:
        return subprocess.Popen(
            command_for(kit),
            cwd=kit.path,
            env={**_PATIENCE, **os.environ},
            stdout=console,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # FLARE's own files, logs among them, are for the account and its group.
            umask=_UMASK,
        )


def check_startable(kit: Kit) -> None:
    for path in (str(kit.path), sys.executable):
        if shlex.split(path) != [path]:
            # FLARE puts both into one line for a job's process, without quotes.
            raise KitError(f"{path}: FLARE cannot run jobs from a path with spaces or quotes. Move it.")
    if running := kit_processes(kit):
        raise KitError(
            f"{kit.path} runs already (process {', '.join(str(process.pid) for process in running)}). A kit is one "
            "member: end that one first."
        )


def kit_processes(kit: Kit) -> list[Any]:
    import psutil  # comes with FLARE

    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if str(kit.path) in words and any(word.startswith((_MODULES, JOB_PROCESS)) for word in words):
                processes.append(process)
    return processes


def jobs_at_work(kit: Kit) -> Callable[[str], bool]:
    """Whether a job of this kit, by its id, has a process on this machine now: each is called by its job."""
    import psutil  # comes with FLARE

    names: set[str] = set()
    for process in kit_processes(kit):
        with contextlib.suppress(psutil.Error):
            if JOB_PROCESS in process.cmdline():
                names.add(process.name())
    # One that was not called anything yet, or cannot be on this system, may be any job's.
    unnamed = any(name.startswith("python") for name in names)
    return lambda job: unnamed or job[:MAX_NAME] in names


def connected(kit: Kit) -> bool:
    """Whether the process that runs this kit has proved itself to the server, or, of a server, takes connections."""
    if kit.kind == "server":
        return answers(kit.address)
    try:
        return _CONNECTED in (kit.path / CONSOLE).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return False


def end(kits: Sequence[Kit], processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End what runs for these kits, and reap what of it `start` started: asked at first, then forced."""
    _signal(kits, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_SECONDS
    while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
        time.sleep(_GLANCE_SECONDS)
    # A process may have started one more before it ended, so they are looked for until there is none.
    while _signal(kits, signal.SIGKILL):
        time.sleep(_GLANCE_SECONDS)
    for process in processes:
        process.wait()


def _signal(kits: Sequence[Kit], how: signal.Signals) -> int:
    numbers = {process.pid for kit in kits for process in kit_processes(kit)}
    for number in numbers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, how)
    return len(numbers)


@contextmanager
def process_group() -> Iterator[Begin]:
    """Start members with what this yields; all end with the block, in which TERM and HUP are as Ctrl-C."""
    kits: list[Kit] = []
    processes: list[subprocess.Popen[bytes]] = []

    def begin(kit: Kit) -> subprocess.Popen[bytes]:
        check_startable(kit)
        # Noted before it is started: an interruption in between leaves nothing behind.
        kits.append(kit)
        processes.append(start(kit))
        return processes[-1]

    # Who was told to ignore a signal, such as by nohup, ignores it.
    signals = [how for how in _SIGNALS if signal.getsignal(how) != signal.SIG_IGN]
    before = {how: signal.signal(how, signal.default_int_handler) for how in signals}
    try:
        yield begin
    finally:
        # Somebody who is impatient would leave processes behind.
        for how in signals:
            signal.signal(how, signal.SIG_IGN)
        end(kits, processes)
        for how, handler in before.items():
            signal.signal(how, handler)


class _Launcher(ProcessJobLauncher):  # type: ignore[misc]
    """What both kinds of member share; one spare process at most."""

    kind: str

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
        words = shlex.split(self.get_command(job_meta, fl_ctx))
        # python -m MODULE ARGUMENTS: which module it is, the job's process knows from its kind.
        arguments = words[words.index("-m") + 2 :]
        credentials = get_credential_env(fl_ctx.get_prop(FLContextKey.JOB_PROCESS_ARGS) or {})
        payload = json.dumps({"arguments": arguments, "credentials": credentials}).encode() + b"\n"
        process = self._take() or _start(
            self.kind, str(fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT).get_root_dir())
        )
        if process.stdin is not None:
            process.stdin.write(payload)
            process.stdin.close()
        return _Handle(process, self)

    def refill(self) -> None:
        with self._lock:
            if self._kit and (self._spare is None or self._spare.poll() is not None):
                self._spare = _start(self.kind, self._kit)

    def _take(self) -> subprocess.Popen[bytes] | None:
        with self._lock:
            spare, self._spare = self._spare, None
        return spare if spare is not None and spare.poll() is None else None


class ServerLauncher(_Launcher):
    kind = "server"

    def get_command(self, job_meta: dict[str, Any], fl_ctx: FLContext) -> str:
        return str(generate_server_command(fl_ctx))


class PartyLauncher(_Launcher):
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
