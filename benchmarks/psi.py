"""Finding the people that two owners have in common, beside OpenMined's PSI and SecretFlow's RR22.

Ids are matched through the server, as two owners whose policies name it do by default; the whole alignment counts, from
tables to the same rows in the same order, with the comparison of ids on the curve. Processor seconds are those of both
owners and the server together.

* ``cpu_ratio_to_openmined``: processor seconds for 100,000 ids a side, half of them common, over OpenMined's for the
  same ids; on either side everybody runs in one process, and hashing, the wire format and matching are included. Here
  both owners end with the common rows; there only the client does. ``curve_ratio_to_openmined`` is the same on a curve.
* ``cpu_growth_1e6_over_1e5``: the same processor seconds for 1,000,000 ids a side, over those for 100,000.
* ``bytes_per_id``: what owners and server send for 1,000,000 ids a side, over 1,000,000.
* ``cpu_ratio_to_spu_rr22``: processor seconds of the alignment for 1,000,000 rows a side, over SPU's RR22; on either
  side everybody is a process of its own on loopback, and each owner reads a CSV and ends with the common rows in one
  order. ``peak_rss_mb_1e6`` is the larger owner's peak memory, ``server_peak_rss_mb_1e6`` the server's.
* ``peak_rss_mb_1e7``, ``seconds_1e7`` (with `--large`): the same alignment for 10,000,000 rows a side: the larger
  owner's peak memory, everything included, the server's, and wall clock.

Libraries and kernels are loaded before anything is timed, on either side. Each figure is the least of `--times` runs.
`--quick` leaves out all but the first.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import duckdb
import numpy as np
from loopback import connect
from opponents import measured_against

from colonnade.crypto.pseudonyms import DUMMIES, PseudonymList, common, numbered
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.ledger import Ledger
from colonnade.protocols.alignment import Alignment, alignment_session
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import PartyInputs, run_as, run_here

GROUP = Group.of(("bank", "insurer"), active="bank")
MILLION = 1_000_000


async def alignment(party: Party, table: Table | None, how: Alignment = "server") -> int:
    found = await alignment_session(party, table, how, False)
    return 0 if found is None else found.rows


def schema_of(place: int) -> Schema:
    return Schema.parse(f'id = "id"\ncolumns.x{place} = {{kind = "numeric", low = 0, high = 6}}')


def table_in_memory(name: str, count: int) -> Table | None:
    if name not in GROUP.owners:
        return None
    place = GROUP.owners.index(name)
    first = place * (count // 2)
    ids = [f"person-{number}" for number in range(first, first + count)]
    return Table.from_arrays(name, {f"x{place}": np.zeros(count)}, schema_of(place), ids=ids)


def here(count: int, how: Alignment = "server") -> dict[str, float]:
    """Both owners and the server in this process."""
    desks = {
        name: PartyInputs(Ledger.in_memory(name), table_in_memory(name, count)) for name in GROUP.members
    }
    start, started = time.perf_counter(), time.process_time()
    outcome = run_here(alignment, GROUP, desks, how, timeout=3600)
    figures = {"wall": time.perf_counter() - start, "cpu": time.process_time() - started}
    check(outcome.results, count)
    return figures | {"bytes": outcome.bytes_sent}


def least(times: int, count: int, how: Alignment = "server") -> dict[str, float]:
    return min((here(count, how) for _ in range(times)), key=lambda figures: figures["cpu"])


def check(common: Mapping[str, float], count: int) -> None:
    if {common[name] for name in GROUP.owners} != {count - count // 2}:
        raise SystemExit("the owners found another intersection")


def write_files(folder: Path, count: int) -> None:
    """Each owner's people in an order of its own, half of them common."""
    for place, first in enumerate((0, count // 2)):
        duckdb.sql(
            f"COPY (SELECT 'person-' || n AS id, n % 7 AS x{place} FROM range({first}, {first + count}) AS t(n) "
            f"ORDER BY hash(n + {place})) TO '{folder / f'{place}.csv'}' (HEADER)"
        )


def table_of(name: str, folder: Path) -> Table | None:
    if name not in GROUP.owners:
        return None
    place = GROUP.owners.index(name)
    return Table(name, folder / f"{place}.csv", schema_of(place))


def load() -> None:
    """Read a few rows and match a few texts, for the libraries and kernels that a process loads once."""
    listed = PseudonymList.of(numbered(DUMMIES + 1, b"key"), 1, key=b"key", padding=b"key").strings
    common([listed, listed])
    with tempfile.TemporaryDirectory() as name:
        write_files(Path(name), 10)
        table = table_of(GROUP.owners[0], Path(name))
        if table is not None:
            table.check().take([0])


async def one_party(name: str, folder: Path, ports: dict[str, int]) -> None:
    channel = await connect(name, ports)
    load()
    ledger = Ledger.in_memory(name)
    this = Party(name=name, group=GROUP, channel=channel, ledger=ledger, timeout=3600, trusts_server=True)
    table = table_of(name, folder)
    start, started = time.perf_counter(), time.process_time()
    common = await run_as(this, alignment, table)
    figures = {
        "wall": time.perf_counter() - start,
        "cpu": time.process_time() - started,
        "common": common,
        "bytes": this.traffic.bytes_sent,
        "peak_mb": peak_mb(),
    }
    await asyncio.sleep(0.2)
    await channel.close()
    print(json.dumps(figures))


def peak_mb() -> float:
    """The most memory of this process; getrusage would count what it was forked from."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for found in sockets:
        found.bind(("127.0.0.1", 0))
    ports = [found.getsockname()[1] for found in sockets]
    for found in sockets:
        found.close()
    return ports


def apart(folder: Path, count: int) -> dict[str, dict[str, float]]:
    """Every party's figures for one alignment in separate processes."""
    ports = json.dumps(dict(zip(GROUP.members, free_ports(len(GROUP.members)), strict=True)))
    processes = {
        name: subprocess.Popen(
            [sys.executable, __file__, "--party", name, "--folder", str(folder), "--ports", ports],
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


def cpu(figures: Mapping[str, Mapping[str, float]]) -> float:
    return sum(figures[name]["cpu"] for name in GROUP.members)


def owners_most(figures: Mapping[str, Mapping[str, float]], what: str) -> float:
    return max(figures[name][what] for name in GROUP.owners)


def beside_spu(times: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, MILLION)
        ours = min((apart(folder, MILLION) for _ in range(times)), key=cpu)
        theirs = min(
            (measured_against("spu_psi.py", MILLION, folder, *free_ports(2)) for _ in range(times)),
            key=lambda figures: figures["cpu"],
        )
    return {
        "cpu_ratio_to_spu_rr22": round(cpu(ours) / theirs["cpu"], 3),
        "aligned_processor_seconds": round(cpu(ours), 2),
        "spu_processor_seconds": round(theirs["cpu"], 2),
        "server_processor_seconds": round(ours[GROUP.server]["cpu"], 2),
        "aligned_seconds": round(owners_most(ours, "wall"), 2),
        "spu_seconds": round(theirs["wall"], 2),
        "peak_rss_mb_1e6": round(owners_most(ours, "peak_mb")),
        "server_peak_rss_mb_1e6": round(ours[GROUP.server]["peak_mb"]),
        "spu_peak_rss_mb_1e6": round(theirs["peak_mb"]),
    }


def large() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, 10 * MILLION)
        figures = apart(folder, 10 * MILLION)
    return {
        "peak_rss_mb_1e7": round(owners_most(figures, "peak_mb")),
        "server_peak_rss_mb_1e7": round(figures[GROUP.server]["peak_mb"]),
        "seconds_1e7": round(owners_most(figures, "wall"), 1),
        "processor_seconds_1e7": round(cpu(figures), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    parser.add_argument(
        "--quick", action="store_true", help="100,000 ids beside OpenMined's, and nothing else"
    )
    parser.add_argument("--large", action="store_true", help="also ten million rows a side")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=3, help="of how many runs the least is taken")
    parser.add_argument("--party", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--ports", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.party:
        asyncio.run(one_party(arguments.party, arguments.folder, arguments.ports))
        return
    here(1000)
    ours = least(arguments.times, arguments.count)
    openmined = measured_against("openmined_psi.py", arguments.count)
    figures = {
        "cpu_ratio_to_openmined": round(ours["cpu"] / openmined["cpu"], 4),
        "processor_seconds": round(ours["cpu"], 2),
        "openmined_processor_seconds": round(openmined["cpu"], 2),
        "seconds": round(ours["wall"], 2),
        "openmined_seconds": round(openmined["wall"], 2),
        "ids": arguments.count,
    }
    if not arguments.quick:
        million = least(arguments.times, MILLION)
        base = ours if arguments.count == 100_000 else least(arguments.times, 100_000)
        figures["cpu_growth_1e6_over_1e5"] = round(million["cpu"] / base["cpu"], 2)
        figures["bytes_per_id"] = round(million["bytes"] / MILLION, 1)
        curve = here(arguments.count, "curve")["cpu"]
        figures["curve_ratio_to_openmined"] = round(curve / openmined["cpu"], 3)
        figures["curve_processor_seconds"] = round(curve, 2)
        figures |= beside_spu(arguments.times)
    if arguments.large:
        figures |= large()
    print(json.dumps(figures) if arguments.json else "\n".join(f"{k}: {v}" for k, v in figures.items()))


if __name__ == "__main__":
    main()
