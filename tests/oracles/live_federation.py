"""A federation of real FLARE processes on this machine, with the files that its parties would write."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from two_houses import PARTIES, SEED, charges, write_party

from colonnade.errors import RemoteProtocolError
from colonnade.learn.taking_part import OUTCOME
from colonnade.runtime.kit import Kit
from colonnade.runtime.operations import Administration, end, start, wait_for_server
from colonnade.runtime.provision import all_kits


@dataclass
class Live:
    """What runs: kits, processes by member, and an administrator's session."""

    folder: Path
    kits: dict[str, Kit]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    session: Any = None

    def submit(self, text: str, *, resumes: str = "") -> str:
        """Submit a job."""
        return str(self.session.submit(text, name="test", parties=PARTIES, resumes=resumes))

    def wait(self, job_id: str, *, timeout: float = 240.0) -> str:
        """FLARE's word for how a job ended."""
        states = [""]

        def ended() -> bool:
            states.append(str(self.session.status(job_id)["status"]))
            return states[-1].startswith("FINISHED")

        self.until(ended, timeout=timeout)
        return states[-1]

    def outcome(self, member: str, job_id: str) -> dict[str, Any] | None:
        """What a member noted; None if it noted nothing."""
        path = self.kits[member].run_folder(job_id) / OUTCOME
        return json.loads(path.read_text()) if path.exists() else None

    def at_step(self, member: str, job_id: str, step: str, *, timeout: float = 120.0) -> None:
        """Return when a member has left a step behind."""
        log = self.kits[member].run_folder(job_id) / "log.jsonl"
        self.until(lambda: log.exists() and f'"step": "{step}' in log.read_text(), timeout=timeout)

    def until(self, fulfilled: Callable[[], bool], *, timeout: float = 120.0) -> None:
        """Return when something is so."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            # A busy machine may keep the server from answering in time; it is asked again.
            with contextlib.suppress(RemoteProtocolError):
                if fulfilled():
                    return
            time.sleep(0.1)
        raise AssertionError("it never came to that")

    def start(self, member: str) -> None:
        """Start a member's process."""
        self.processes[member] = start(self.kits[member])

    def gather(self) -> None:
        """Return when every party is connected."""
        self.until(lambda: set(self.session.parties()) == set(PARTIES))

    def job_process(self, member: str, job_id: str) -> int:
        """The process that runs a member's part of a job: the one whose command names both."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if job_id in words and str(self.kits[member].path) in words:
                found.append(int(path.parent.name))
        assert found, f"{member} has no process for {job_id}"
        return found[0]

    def charges(self, party: str) -> int:
        """How many releases a party's ledger was charged for."""
        return charges(self.folder, party)


@contextmanager
def live(folder: Path, *, seeded: bool = True) -> Iterator[Live]:
    """A server and two parties that are connected; ended, whatever happens."""
    _, kits = all_kits(folder / "kits", "test", PARTIES, host="localhost", port=_free_port())
    seed = {"noise_seed": SEED} if seeded else {}
    for party in PARTIES:
        kits[party].tell_site({**write_party(folder, party), **seed})
    kits["server"].tell_site(seed)
    running = Live(folder, kits)
    try:
        running.start("server")
        wait_for_server(kits["bank"])
        for party in PARTIES:
            running.start(party)
        with Administration(kits["admin"]) as session:
            running.session = session
            running.gather()
            yield running
    finally:
        for process in running.processes.values():
            end(process)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
