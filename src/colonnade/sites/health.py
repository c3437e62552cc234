"""Whether a member is well, in numbers that a person, a probe and an alarm look at, from its own kit and files alone.

A party is connected if its server said within `CONTACT_SECONDS` that it heard it: a message there and one back.
"""

from __future__ import annotations

import datetime
import json
import shutil
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from colonnade.errors import ColonnadeError
from colonnade.federation.files import OUTCOME, write_sealed
from colonnade.federation.party_file import PartyFile
from colonnade.ledger import Ledger
from colonnade.sites.approval import list_requests
from colonnade.sites.kit import Kit
from colonnade.sites.presence import Presence
from colonnade.sites.processes import answers, jobs_at_work
from colonnade.sites.site import RESERVE

#: FLARE's heartbeats are 10 s apart; whoever misses four is not connected.
CONTACT_SECONDS = 45.0
LEAST_DAYS = 30
LEAST_DISK = 1 << 30
_ENDED_SILENTLY = (
    "its process ended without a word, as when a machine loses power or a disk is full. What the ledger says was "
    "charged stays charged; `colonnade job resume` goes on with a job of many steps"
)
STATES = ("finished", "failed", "running", "waiting")


@dataclass(frozen=True)
class Health:
    """A member at one moment; `problems` has a sentence with its remedy for each thing that is not well."""

    member: str
    kind: str
    connected: bool
    heard_seconds: float | None
    certificate_days: int
    ledger_verified: float | None
    free_disk: int
    jobs: dict[str, int]
    problems: tuple[str, ...]

    @property
    def fine(self) -> bool:
        return not self.problems

    def to_data(self) -> dict[str, Any]:
        return {"fine": self.fine, **asdict(self)}


def health(kit: Kit) -> Health:
    problems: list[str] = []
    presence = Presence.load(kit.path)
    age = None if presence is None else presence.seconds_since_contact()
    connected = answers(kit.address) if kit.kind == "server" else age is not None and age <= CONTACT_SECONDS
    if not connected and kit.kind == "server":
        problems.append("this server takes no connections. Start it: `colonnade party start`.")
    elif not connected:
        since = "never" if age is None else f"{age:.0f} s ago"
        problems.append(
            f"the server last heard this party {since}. Look at this machine's own connection, then ask whether the "
            "server runs; `colonnade doctor` tries both."
        )
    if presence is not None and presence.refused:
        problems.append(f"{presence.refused}.")
    if presence is not None and presence.others:
        problems.append(
            f"another copy of this kit was started at {presence.others[-1]} and refused. Find out who holds it."
        )
    days = (kit.identity().certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC)).days
    if days < LEAST_DAYS:
        problems.append(f"the certificate ends in {days} days. Ask for a new one.")
    # The kit, its runs and its ledger may lie on different disks.
    verified, written = None, {kit.path, kit.runs}
    try:
        ledger = kit.path / "server.ledger" if kit.kind == "server" else None
        if kit.kind != "server" and "party" in kit.site():
            ledger = PartyFile.load(kit.site()["party"]).ledger
        if ledger is not None:
            written.add(ledger.parent)
        if ledger is not None and ledger.exists():
            Ledger.open(ledger).verify()
            verified = time.time()
    except ColonnadeError as error:
        problems.append(str(error))
    free, fullest = min((shutil.disk_usage(place).free, place) for place in written if place.is_dir())
    if free < LEAST_DISK:
        problems.append(
            f"{free >> 20} MB of disk are free at {fullest}. Make room: {LEAST_DISK >> 20} MB at least."
        )
    problems += [
        f"job {job} ended without a word, as when its disk is full or its process was killed. Look at {kit.path}, "
        "console.txt and free disk; a member that runs notes an outcome as soon as it can be written."
        for job in jobs_without_outcome(kit)
    ]
    name = "server" if kit.kind == "server" else kit.identity().name
    return Health(
        member=name,
        kind=kit.kind,
        connected=connected,
        heard_seconds=age,
        certificate_days=days,
        ledger_verified=verified,
        free_disk=free,
        jobs=dict(job_states(kit)),
        problems=tuple(problems),
    )


def job_states(kit: Kit) -> Counter[str]:
    """How many of a member's jobs stand how; one that waits for approval is also waiting."""
    states = Counter(dict.fromkeys(STATES, 0))
    lost = jobs_without_outcome(kit)
    for run in kit.runs.glob("*"):
        try:
            states[json.loads((run / OUTCOME).read_text(encoding="utf-8"))["state"]] += 1
        except FileNotFoundError:
            states["failed" if run.name in lost else "running"] += 1
    if kit.kind == "party" and "policy" in kit.site():
        states["waiting"] = len(list_requests(kit))
    return states


def jobs_without_outcome(kit: Kit) -> tuple[str, ...]:
    """The jobs whose process ended without a word: it was killed, or its disk was full."""
    silent = [run for run in sorted(kit.runs.glob("*")) if run.is_dir() and not (run / OUTCOME).exists()]
    if not silent:
        return ()
    at_work = jobs_at_work(kit)
    # A process writes its outcome before it ends: what is not there now will not come.
    return tuple(run.name for run in silent if not at_work(run.name) and not (run / OUTCOME).exists())


def reconcile(kit: Kit) -> tuple[str, ...]:
    """Note of jobs whose process ended without a word that they failed; the ids of those for which there was room."""
    lost = []
    for job in jobs_without_outcome(kit):
        facts = {"member": kit.identity().name, "job": "", "id": job, "state": "failed", "step": ""}
        facts |= {"kind": "RemoteProtocolError", "reason": _ENDED_SILENTLY}
        with suppress(OSError):
            (kit.run_folder(job) / RESERVE).unlink(missing_ok=True)
            write_sealed(kit.run_folder(job) / OUTCOME, facts)
            lost.append(job)
    return tuple(lost)
