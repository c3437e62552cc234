"""Private set intersection of two owners beside OpenMined's PSI.

* ``cpu_ratio_to_openmined``: processor seconds of both owners for 100,000 ids a side, half of them common, over
  OpenMined's for the same ids; on either side both owners run in one process, and hashing, blinding, the wire format
  and matching are included. Here both owners end with the common rows; there only the client does.
* ``million_seconds``, ``million_peak_mb``: 1,000,000 ids a side, each owner a process of its own on loopback: wall
  clock, and the larger process's peak memory, ids included. `--quick` leaves this part out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Mapping

from opponents import measured_against

from colonnade.ledger import Ledger
from colonnade.protocols.agreement import meet
from colonnade.protocols.intersection import intersect
from colonnade.runtime.group import Group
from colonnade.runtime.party import Party
from colonnade.runtime.run import Desk, run_as, run_here
from colonnade.runtime.sockets import connect

GROUP = Group.of(("bank", "insurer"), active="bank")


async def program(party: Party, ids: list[str] | None) -> int:
    await meet(party)
    found = await intersect(party, ids)
    return 0 if found is None else len(found.rows)


def ids_of(name: str, count: int) -> list[str] | None:
    first = {"bank": 0, "insurer": count // 2}.get(name)
    return None if first is None else [f"person-{number}" for number in range(first, first + count)]


def here(count: int) -> dict[str, float]:
    """Both owners in this process."""
    desks = {name: Desk(Ledger.in_memory(name), ids_of(name, count)) for name in GROUP.members}
    start, started = time.perf_counter(), time.process_time()
    outcome = run_here(program, GROUP, desks, timeout=3600)
    figures = {"wall": time.perf_counter() - start, "cpu": time.process_time() - started}
    check(outcome.results, count)
    return figures | {"bytes": outcome.bytes_sent}


def check(common: Mapping[str, int], count: int) -> None:
    if {common[name] for name in GROUP.owners} != {count - count // 2}:
        raise SystemExit("the owners found another intersection")


async def one_party(name: str, count: int, ports: dict[str, int]) -> None:
    ids = ids_of(name, count)
    channel = await connect(name, ports)
    party = Party(name=name, group=GROUP, channel=channel, ledger=Ledger.in_memory(name), timeout=3600)
    start, started = time.perf_counter(), time.process_time()
    common = await run_as(party, program, ids)
    figures = {
        "wall": time.perf_counter() - start,
        "cpu": time.process_time() - started,
        "common": common,
        "bytes": party.traffic.bytes_sent,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    await asyncio.sleep(0.2)
    await channel.close()
    print(json.dumps(figures))


def free_ports() -> dict[str, int]:
    sockets = [socket.socket() for _ in GROUP.members]
    for found in sockets:
        found.bind(("127.0.0.1", 0))
    ports = {name: found.getsockname()[1] for name, found in zip(GROUP.members, sockets, strict=True)}
    for found in sockets:
        found.close()
    return ports


def apart(count: int) -> dict[str, dict[str, float]]:
    """Every party's figures for one run in separate processes."""
    ports = json.dumps(free_ports())
    processes = {
        name: subprocess.Popen(
            [sys.executable, __file__, "--party", name, "--count", str(count), "--ports", ports],
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in GROUP.members
    }
    figures = {
        name: json.loads(process.communicate()[0].splitlines()[-1]) for name, process in processes.items()
    }
    check({name: figures[name]["common"] for name in GROUP.members}, count)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    parser.add_argument("--quick", action="store_true", help="leave the million out")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--party", help=argparse.SUPPRESS)
    parser.add_argument("--ports", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.party:
        asyncio.run(one_party(arguments.party, arguments.count, arguments.ports))
        return
    here(200)
    ours = here(arguments.count)
    openmined = measured_against("openmined_psi.py", arguments.count)
    figures = {
        "cpu_ratio_to_openmined": round(ours["cpu"] / openmined["cpu"], 3),
        "processor_seconds": round(ours["cpu"], 2),
        "openmined_processor_seconds": round(openmined["cpu"], 2),
        "seconds": round(ours["wall"], 2),
        "openmined_seconds": round(openmined["wall"], 2),
        "bytes": int(ours["bytes"]),
        "ids": arguments.count,
    }
    if not arguments.quick:
        million = apart(1_000_000)
        figures["million_seconds"] = round(max(million[name]["wall"] for name in GROUP.owners), 1)
        figures["million_peak_mb"] = round(max(million[name]["peak_mb"] for name in GROUP.owners))
    print(json.dumps(figures) if arguments.json else "\n".join(f"{k}: {v}" for k, v in figures.items()))


if __name__ == "__main__":
    main()
