"""Runs with a process for each member: what they take of processor, wire and memory."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import duckdb

from benchmarks.loopback import LOOPBACK, connect
from benchmarks.players import ONE_THREAD, heard, say
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.ledger import Ledger
from colonnade.methods.table import checked_options, protocol_named
from colonnade.protocols.plans import TrainingSpec
from colonnade.runtime.channel import Traffic
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import run_as

TIMEOUT = 3600.0
# People of a first run, which compiles kernels and makes tables of noise, and is not counted.
FEW = 300


@dataclass(frozen=True)
class Shape:
    """How much there is: people, columns of all owners together, and owners."""

    rows: int
    columns: int
    parties: int

    @property
    def owners(self) -> tuple[str, ...]:
        """Their names; the first holds the label."""
        return tuple(f"party{number}" for number in range(self.parties))

    @property
    def group(self) -> Group:
        """All members, by the defaults of the library."""
        return Group.of(self.owners, active=self.owners[0])

    def columns_of(self, owner: str) -> range:
        """The numbers of an owner's columns, dealt out evenly.

        >>> [list(Shape(10, 5, 2).columns_of(owner)) for owner in ("party0", "party1")]
        [[0, 1], [2, 3, 4]]
        """
        place = self.owners.index(owner)
        return range(place * self.columns // self.parties, (place + 1) * self.columns // self.parties)

    def schema(self, owner: str) -> Schema:
        """What an owner declares."""
        lines = ['id = "id"']
        lines += [
            f'columns.x{number} = {{kind = "numeric", low = 0, high = 1}}'
            for number in self.columns_of(owner)
        ]
        if owner == self.owners[0]:
            lines.append('label = {column = "y", kind = "classes", classes = ["no", "yes"]}')
        return Schema.parse("\n".join(lines))

    def write(self, folder: Path) -> None:
        """A Parquet file for each owner: made-up numbers of the same people in the same order."""
        number = "(hash(n * 1024 + {0}) % 256) / 255"
        for owner in self.owners:
            listed = [f"{number.format(place)} AS x{place}" for place in self.columns_of(owner)]
            if owner == self.owners[0]:
                listed.append(f"CASE WHEN {number.format(0)} > 0.5 THEN 'yes' ELSE 'no' END AS y")
            duckdb.sql(
                f"COPY (SELECT n AS id, {', '.join(listed)} FROM range({self.rows}) AS t(n)) "
                f"TO '{folder / f'{owner}-{self.rows}.parquet'}' (FORMAT parquet)"
            )

    def table(self, owner: str, folder: Path) -> Table:
        """An owner's file."""
        return Table(owner, folder / f"{owner}-{self.rows}.parquet", self.schema(owner))


def spec_of(method: str) -> TrainingSpec:
    """ε = 1 for two classes, with the method's defaults."""
    options = checked_options(protocol_named(method), {})
    return TrainingSpec("classification", 1.0, delta=1e-5, accepted_delta=1e-5, options=options)


class Members:
    """All members of a group with so many owners, each a process of its own, started with the first run."""

    def __init__(self, parties: int) -> None:
        self.parties, self.group = parties, Shape(0, parties, parties).group
        self._processes: dict[str, subprocess.Popen[str]] = {}

    def _start(self) -> None:
        listening = [socket.create_server((LOOPBACK, 0)) for _ in self.group.members]
        ports = {
            name: each.getsockname()[1] for name, each in zip(self.group.members, listening, strict=True)
        }
        for each in listening:
            each.close()
        command = [sys.executable, "-W", "ignore", "-m", "reproduction.scale_processes"]
        self._processes = {
            member: subprocess.Popen(
                [*command, member, str(self.parties), json.dumps(ports)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, **ONE_THREAD},
            )
            for member in self.group.members
        }

    def __enter__(self) -> Members:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.communicate()

    def run(self, method: str, shape: Shape) -> dict[str, float]:
        """One run, after one on few people that is not counted.

        `seconds` are of the processor in the member that works most, which is how long it takes where each has a
        machine of its own and the network is quick; `all_seconds` are those of all members together and `wall` is the
        clock here. `bytes` are sent by all together. `memory` is the peak of the member that has most, above what it
        had `before`.
        """
        requested = spec_of(method)
        schemas = tuple(shape.schema(owner).public(owner) for owner in shape.owners)
        # So that what has no plan is refused here, and not by every process.
        requested.plan(self.group, schemas, shape.rows)
        with tempfile.TemporaryDirectory() as folder:
            for once in {replace(shape, rows=FEW), shape}:
                once.write(Path(folder))
            order = json.dumps({"method": method, "shape": asdict(shape), "folder": folder})
            if not self._processes:
                self._start()
            for process in self._processes.values():
                say(process, order)
            said = {member: heard(process) for member, process in self._processes.items()}
        stopped = [member for member, line in said.items() if not line]
        if stopped:
            raise SystemExit(f"{method} on {shape}: {', '.join(stopped)} stopped")
        found = [json.loads(line) for line in said.values()]
        return {
            "seconds": max(each["seconds"] for each in found),
            "all_seconds": sum(each["seconds"] for each in found),
            "wall": max(each["wall"] for each in found),
            "bytes": sum(each["bytes"] for each in found),
            "memory": max(each["memory"] for each in found),
            "before": max(each["before"] for each in found),
            "load": os.getloadavg()[0],
        }


async def _play(member: str, parties: int, ports: dict[str, int]) -> None:
    """One member: a run for every line on standard input."""
    ledger = Ledger.in_memory(member)
    ledger.set_budget(member, "*", "*", epsilon=1e9, delta=0.5)
    channel = await connect(member, ports)
    group = Shape(0, parties, parties).group
    party = Party(name=member, group=group, channel=channel, ledger=ledger, dataset=member, timeout=TIMEOUT)

    async def program(party: Party) -> None:
        while line := await asyncio.to_thread(sys.stdin.readline):
            order = json.loads(line)
            shape = Shape(**order["shape"])
            for size in (replace(shape, rows=FEW), shape):
                figures = await _measured(party, order["method"], size, Path(order["folder"]))
            sys.stdout.write(json.dumps(figures) + "\n")
            sys.stdout.flush()

    await run_as(party, program)
    await channel.close()


async def _measured(party: Party, method: str, shape: Shape, folder: Path) -> dict[str, float]:
    """One run as one member."""
    chosen, requested = protocol_named(method), spec_of(method)
    once = replace(
        party, numbers={}, alignment_numbers={}, opened=set(), run="", seeded=False, traffic=Traffic()
    )
    table = shape.table(party.name, folder) if party.owns_columns else None
    before, clock, wall = _peak_from_here(), time.process_time(), time.perf_counter()
    await chosen.session(requested)(once, table, replace(requested, alignment="equal"))
    return {
        "seconds": time.process_time() - clock,
        "wall": time.perf_counter() - wall,
        "bytes": float(once.traffic.bytes_sent),
        "memory": float(_status("VmHWM") - before),
        "before": float(before),
    }


def _peak_from_here() -> int:
    """Begin to measure the peak of this process anew; the bytes that it holds now (proc(5), clear_refs)."""
    ctypes.CDLL(None).malloc_trim(0)  # what earlier runs left
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _status("VmRSS")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"/proc/self/status has no {name}")


if __name__ == "__main__":
    asyncio.run(_play(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])))
