"""Members' FLARE processes on this machine: started each with its own kit, and ended with everything they started.

FLARE starts a process for each job in a session of its own, and such a process outlives the one that started it. It
names the kit's folder on its command line, which is how it is found again.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from colonnade.errors import KitError
from colonnade.runtime.kit import Kit
from colonnade.runtime.operations import answers
from colonnade.runtime.presence import PRESENCE

CONSOLE = "console.txt"
_BEFORE = "console.before.txt"
_CONNECTED = "Successfully registered client"
_MODULES = "nvflare.private.fed.app."
#: The program of a job's process; no import, because it lies above this room.
JOB_PROCESS = "colonnade.learn.job_process"
#: What a job's process is called while it waits for one; then by the beginning of the job's id.
SPARE = "colonnade spare"
LONGEST_NAME = 15
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
    """What runs a server's or a party's FLARE process in the foreground."""
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
    """Start a member's FLARE process in a session of its own; what it says goes to the kit's console file.

    What the kit's process said the last time is kept beside it.
    """
    check_startable(kit)
    kit.keep_up()
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
    """Return if this kit does not run yet and lies where FLARE can start jobs."""
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
    """The processes on this machine that run this kit, those of its jobs included."""
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
    return lambda job: unnamed or job[:LONGEST_NAME] in names


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
    """Start members with what this yields; all of them, and all they started, end with the block, whatever ends it.

    Ctrl-C, a service manager's TERM and a terminal that closes raise `KeyboardInterrupt` inside the block.
    """
    kits: list[Kit] = []
    processes: list[subprocess.Popen[bytes]] = []

    def begin(kit: Kit) -> subprocess.Popen[bytes]:
        check_startable(kit)
        # Noted before it is started: an interruption in between leaves nothing behind.
        kits.append(kit)
        processes.append(start(kit))
        return processes[-1]

    # Who was told to ignore a signal, such as by nohup, ignores it.
    heard = [how for how in _SIGNALS if signal.getsignal(how) != signal.SIG_IGN]
    before = {how: signal.signal(how, _interrupt) for how in heard}
    try:
        yield begin
    finally:
        # Somebody who is impatient would leave processes behind.
        for how in heard:
            signal.signal(how, signal.SIG_IGN)
        end(kits, processes)
        for how, handler in before.items():
            signal.signal(how, handler)


def _interrupt(_number: int, _frame: Any) -> None:
    raise KeyboardInterrupt
