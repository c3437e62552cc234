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

import numpy as np

from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.errors import RemoteProtocolError
from colonnade.learn.federation import Federation
from colonnade.learn.jobs import Job
from colonnade.learn.methods import train_with
from colonnade.learn.taking_part import OUTCOME
from colonnade.ledger import Ledger
from colonnade.runtime.kit import Kit
from colonnade.runtime.operations import Administration, end, start, wait_for_server
from colonnade.runtime.provision import all_kits

PARTIES = ("bank", "shop")
MEMBERS = ("server", *PARTIES)
ROWS = 80
SEED = 3


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
        path = self.folder / f"{party}.ledger"
        return sum(entry.kind == "charge" for entry in Ledger.open(path).entries()) if path.exists() else 0


@contextmanager
def live(folder: Path, *, seeded: bool = True) -> Iterator[Live]:
    """A server and two parties that are connected; ended, whatever happens."""
    for party in PARTIES:
        write_party(folder, party)
    _, kits = all_kits(folder / "kits", "test", PARTIES, host="localhost", port=_free_port())
    seed = {"noise_seed": SEED} if seeded else {}
    for party in PARTIES:
        files = {"party": str(folder / f"{party}.toml"), "policy": str(folder / f"{party}.policy.toml")}
        kits[party].tell_site({**files, **seed})
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


def job_text(kind: str = 'method = "moments"', *, timeout: float = 60) -> str:
    """A job between the two parties."""
    parties = json.dumps(list(PARTIES))
    return (
        f'name = "test"\ntask = "classification"\n{kind}\nparties = {parties}\nactive = "bank"\nepsilon = 1.0\n'
        f"delta = 1e-5\ntimeout = {timeout}\n"
    )


def in_process(text: str) -> Federation:
    """The same job in this process, with the same seeds."""
    tables = [Table.from_arrays(party, _columns(party), Schema.parse(_schema(party))) for party in PARTIES]
    federation = Federation(tables, budget=(50.0, 1e-5), noise_seed=SEED)
    job = Job.parse(text)
    train_with(federation, job.method, job.asked)
    return federation


def write_party(folder: Path, party: str) -> None:
    """A party's table, schema, policy and own file."""
    values = _columns(party)
    lines = [",".join(values), *(",".join(str(values[name][row]) for name in values) for row in range(ROWS))]
    others = json.dumps([other for other in PARTIES if other != party])
    (folder / f"{party}.csv").write_text("\n".join(lines))
    (folder / f"{party}.schema.toml").write_text(_schema(party))
    (folder / f"{party}.policy.toml").write_text(
        f'methods = ["moments", "intermediate"]\nparties = {others}\ndelta = 1e-5\nepsilon = {{"*" = 20.0}}\n'
    )
    (folder / f"{party}.toml").write_text(
        f'party = "{party}"\ndata = "{party}.csv"\nschema = "{party}.schema.toml"\ndataset = "d"\n'
        f'ledger = "{party}.ledger"\nbudget = [{{epsilon = 500.0, delta = 1e-5}}]\n'
    )


def _columns(party: str) -> dict[str, Any]:
    drawn = np.random.default_rng(len(party))
    values: dict[str, Any] = {"id": [f"p{row}" for row in range(ROWS)]}
    values |= {f"{party}_{at}": drawn.uniform(0, 1, ROWS).round(3) for at in range(2)}
    if party == "bank":
        values["risk"] = np.where(drawn.uniform(size=ROWS) < 0.5, "low", "high")
    return values


def _schema(party: str) -> str:
    text = 'id = "id"\n'
    for at in range(2):
        text += f'columns.{party}_{at} = {{kind = "numeric", low = 0, high = 1}}\n'
    label = 'label = {column = "risk", kind = "classes", classes = ["low", "high"]}\n'
    return text + (label if party == "bank" else "")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
