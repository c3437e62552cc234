"""A federation of real FLARE processes on this machine, with the files that its parties would write."""

import contextlib
import json
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from two_houses import PARTIES, SEED, charges, write_party

from colonnade.errors import RemoteProtocolError
from colonnade.federation.files import OUTCOME
from colonnade.sites.kit import Kit
from colonnade.sites.processes import (
    CONSOLE,
    MAX_NAME,
    SPARE,
    Administration,
    Begin,
    connected,
    kit_processes,
    process_group,
    wait_for_server,
)
from colonnade.sites.provision import all_kits

# Nothing passes or fails by the clock: this is how long a machine with much else to do may take to a step.
PATIENCE_SECONDS = 900.0
_COMPLAINT = re.compile(r"\b(ERROR|CRITICAL)\b|^Traceback \(most recent call last\)")


def complaints(folder: Path) -> list[str]:
    """Lines of ERROR or worse, and tracebacks, in whatever the processes of kits below a folder said or logged."""
    named = [path for path in folder.rglob("*") if path.name.startswith(("console", "log"))]
    logs = [path for path in named if path.parent.name != "local" and path.is_file()]
    assert any(path.name == CONSOLE for path in logs), f"nothing was logged in {folder}"
    return [
        f"{path.relative_to(folder)}: {line}"
        for path in logs
        for line in path.read_text(errors="replace").splitlines()
        if _COMPLAINT.search(line)
    ]


@dataclass
class Live:
    folder: Path
    kits: dict[str, Kit]
    begin: Begin
    parties: tuple[str, ...] = PARTIES
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    session: Any = None

    def submit(self, text: str, *, resumes: str = "") -> str:
        return str(self.session.submit(text, name="test", parties=self.parties, resumes=resumes))

    def wait(self, job_id: str, *, timeout: float = PATIENCE_SECONDS) -> str:
        states = [""]

        def ended() -> bool:
            states.append(str(self.session.status(job_id)["status"]))
            return states[-1].startswith("FINISHED")

        self.until(ended, timeout=timeout)
        return states[-1]

    def outcome(self, member: str, job_id: str) -> dict[str, Any] | None:
        path = self.kits[member].run_folder(job_id) / OUTCOME
        return dict(json.loads(path.read_text())) if path.exists() else None

    def has_ended(self, member: str, job_id: str) -> bool:
        return self.outcome(member, job_id) is not None

    def at_step(self, member: str, job_id: str, step: str, *, timeout: float = PATIENCE_SECONDS) -> None:
        log = self.kits[member].run_folder(job_id) / "log.jsonl"
        self.until(lambda: log.exists() and f'"step": "{step}' in log.read_text(), timeout=timeout)

    def until(self, fulfilled: Callable[[], bool], *, timeout: float = PATIENCE_SECONDS) -> None:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            # A busy machine may keep the server from answering in time; it is asked again.
            with contextlib.suppress(RemoteProtocolError):
                if fulfilled():
                    return
            time.sleep(0.1)
        raise AssertionError("it never came to that")

    def start(self, *members: str) -> None:
        for member in members:
            self.processes[member] = self.begin(self.kits[member])
        for member in members:
            self.until(partial(self._is_there, member))

    @contextmanager
    def session_again(self) -> Iterator[None]:
        with Administration(self.kits["admin"], timeout=PATIENCE_SECONDS) as session:
            self.session = session
            yield

    def _is_there(self, member: str) -> bool:
        there = connected(self.kits[member])
        if not there and self.processes[member].poll() is not None:
            said = (self.kits[member].path / CONSOLE).read_text(errors="replace")
            raise AssertionError(f"{member}'s process ended: {said[-2000:]}")
        return there

    def job_process(self, member: str, job_id: str) -> int:
        """The process that runs a member's part of a job: the one that is called by it."""
        found = self._called(member, job_id)
        assert found, f"{member} has no process for {job_id}"
        return found[0]

    def has_spare(self, member: str) -> bool:
        return bool(self._called(member, SPARE))

    def _called(self, member: str, name: str) -> list[int]:
        found = []
        for process in kit_processes(self.kits[member]):
            # It may end while it is looked at.
            with contextlib.suppress(psutil.Error):
                found += [int(process.pid)] if process.name() == name[:MAX_NAME] else []
        return found

    def charges(self, party: str) -> int:
        return charges(self.folder, party)


@contextmanager
def live(folder: Path, *, seeded: bool = True, **how: Any) -> Iterator[Live]:
    seed = {"noise_seed": SEED} if seeded else {}
    sites = {party: {**write_party(folder, party), **seed} for party in PARTIES}
    with federation_of(folder, {**sites, "server": seed}, **how) as running:
        yield running


@contextmanager
def federation_of(
    folder: Path,
    sites: dict[str, dict[str, Any]],
    *,
    prepare: Callable[[dict[str, Kit]], None] = lambda kits: None,
    idle: int = 0,
) -> Iterator[Live]:
    """A server and parties with what each one's kit is told, connected; ended, whatever happens.

    `prepare` gets the kits before. `idle` strangers are connected to the server before the parties come, and stay.
    """
    parties = tuple(name for name in sites if name != "server")
    port = free_port()
    _, kits = all_kits(folder / "kits", "test", parties, host="localhost", port=port)
    for name, announced in sites.items():
        kits[name].tell_site(announced)
    prepare(kits)
    with process_group() as begin:
        running = Live(folder, kits, begin, parties)
        running.start("server")
        wait_for_server(kits["admin"], timeout=PATIENCE_SECONDS)
        with strangers(port, idle), Administration(kits["admin"], timeout=PATIENCE_SECONDS) as session:
            running.session = session
            running.start(*parties)
            yield running


@contextmanager
def strangers(port: int, idle: int) -> Iterator[None]:
    """So many connections that say nothing, and a quarter as many each that stop in a handshake or talk nonsense."""
    with contextlib.ExitStack() as stack:
        for number in range(idle + 2 * (idle // 4)):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            if idle <= number < idle + idle // 4:
                # The first five bytes of a TLS record that promises 512 more.
                connection.sendall(b"\x16\x03\x01\x02\x00")
            elif number >= idle + idle // 4:
                with contextlib.suppress(OSError):
                    connection.sendall(b"GET / HTTP/1.1\r\nHost: nobody\r\n\r\n" * 8)
        yield


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
