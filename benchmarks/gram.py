"""The secure product XᵀX beside plain BLAS and beside MPyC, every party a process of its own on loopback.

Adult's size, 45,222 × 41 integers of 16 bits, split among two owners (the server is the third computing party) and
among four
(three of them keep). From the moment when everybody is connected and holds its columns to the moment when the server
holds XᵀX: dealing, products, zero noise dealt at full degree, opening. Every result is compared with the exact product.
Wall clock, medians, and what is compared is interleaved:

* ``ratio_to_plain_k2``, ``ratio_to_plain_k4``: over float64 BLAS XᵀX of the same integers while the parties wait, on
  one thread or on as many as BLAS takes by itself (``plain_threads``), whichever median is smaller; every party
  computes on one thread;
* ``times_faster_than_mpyc``: MPyC's seconds over ours, the lower of the two; MPyC runs with threshold 1, three
  processes for two owners and four for four;
* ``bits126_over_bits63``: the same product in the larger field, two owners;
* ``processor_seconds_k2``, ``_k4``: what all parties' processors did, together, for one product;
* ``growth``: seconds by rows, columns and computing parties.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from loopback import LOOPBACK, connect
from opponents import measured_against
from players import ONE_THREAD, heard, say
from threadpoolctl import threadpool_info, threadpool_limits

from colonnade.crypto.sharing import Shamir
from colonnade.ledger import Ledger, Release
from colonnade.methods.moments.protocol import symmetric
from colonnade.numbers.field import FIELD63, FIELD126
from colonnade.protocols.agreement import meet
from colonnade.protocols.sharing import MomentSum, block_rows, open_to, share, total
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import run_as

ROWS, COLUMNS, BITS = 45_222, 41, 16
PLAIN_A_TURN = 5
REST = 0.2
"""Seconds after a product of BLAS, whose threads wait for the next one by taking the processor from whoever has it."""


@dataclass(frozen=True)
class Case:
    """One size of the problem."""

    rows: int = ROWS
    columns: int = COLUMNS
    field_bits: int = 63


def group_of(owners: int, threshold: int) -> Group:
    return Group.of(tuple(f"owner{index}" for index in range(owners)), threshold=threshold)


def columns_of(case: Case, group: Group, owner: str) -> np.ndarray:
    """One owner's integers, the same in every process that asks."""
    index = group.owners.index(owner)
    edges = [case.columns * place // len(group.owners) for place in (index, index + 1)]
    draw = np.random.default_rng([case.rows, case.columns, index])
    return draw.integers(-(1 << BITS - 1), 1 << BITS - 1, (case.rows, edges[1] - edges[0]))


async def product(party: Party, mine: np.ndarray | None, case: Case, number: int) -> np.ndarray | None:
    """The lines of `noisy_moments` on integers that are already there, with noise that is zero."""
    group, t = party.group, party.group.threshold
    scheme = Shamir(len(group.computing_parties), FIELD63 if case.field_bits == 63 else FIELD126)
    edges = [case.columns * place // len(group.owners) for place in range(len(group.owners) + 1)]
    widths = dict(zip(group.owners, np.diff(edges).tolist(), strict=True))
    moments = MomentSum(scheme.field, case.columns, keeps_shares=party.keeps_shares)
    block = block_rows(case.columns)
    for start in range(0, case.rows, block):
        stop = min(start + block, case.rows)
        shapes = {owner: (stop - start, width) for owner, width in widths.items()}
        part = None if mine is None else mine[start:stop]
        dealt = await share(party, part, shapes, scheme=scheme, degree=t, step=f"columns {start} of {number}")
        moments.add([dealt[owner] for owner in group.owners])
    shape = (1, case.columns * (case.columns + 1) // 2)
    zero = None if mine is None else np.zeros(shape, dtype=np.int64)
    shapes = dict.fromkeys(group.owners, shape)
    noises = await share(party, zero, shapes, scheme=scheme, degree=2 * t, step=f"noise {number}")
    noisy = moments.upper_triangle() + total(noises.values())
    release = Release(f"{party.run}/{number}", party.run, "gram", "XᵀX", group.server, (), False)
    opened = await open_to(
        party, group.server, noisy, scheme=scheme, release=release, step=f"moments {number}"
    )
    return None if opened is None else symmetric(opened[0], case.columns)


async def play(name: str, group: Group, ports: dict[str, int]) -> None:
    """One party: connect, then one product for every line on standard input."""
    channel = await connect(name, ports)
    party = Party(name=name, group=group, channel=channel, ledger=Ledger.in_memory(name), timeout=600.0)

    async def program(party: Party) -> None:
        await meet(party)
        number, mine, held = 0, None, None
        while line := await asyncio.to_thread(sys.stdin.readline):
            order = json.loads(line)
            case = Case(**order["case"])
            if order["verb"] == "prepare":
                held = case.rows, case.columns
                mine = columns_of(case, group, name) if party.owns_columns else None
                print(json.dumps("ready"), flush=True)
                continue
            if held != (case.rows, case.columns):
                raise SystemExit("prepare comes first")
            started = time.process_time()
            opened = await product(party, mine, case, number)
            answer = {"done": time.perf_counter(), "processor": time.process_time() - started}
            number += 1
            print(json.dumps(answer | {"opened": opened if opened is None else opened.tolist()}), flush=True)

    await run_as(party, program)
    await channel.close()


class Federation:
    """Processes that wait, connected, for the next product."""

    def __init__(self, owners: int, threshold: int = 1) -> None:
        self.group = group_of(owners, threshold)
        listening = [socket.create_server((LOOPBACK, 0)) for _ in self.group.members]
        ports = {
            name: each.getsockname()[1] for name, each in zip(self.group.members, listening, strict=True)
        }
        for each in listening:
            each.close()
        self._processes = {
            name: subprocess.Popen(
                [
                    sys.executable,
                    str(Path(__file__).resolve()),
                    "--play",
                    name,
                    str(owners),
                    str(threshold),
                    json.dumps(ports),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, **ONE_THREAD},
            )
            for name in self.group.members
        }
        self.processor: list[float] = []

    def _all(self, verb: str, case: Case) -> dict[str, Any]:
        order = json.dumps({"verb": verb, "case": asdict(case)})
        for process in self._processes.values():
            say(process, order)
        lines = {name: heard(process) for name, process in self._processes.items()}
        dead = [name for name, line in lines.items() if not line]
        if dead:
            raise SystemExit(f"{', '.join(dead)} stopped in the middle of {case}")
        return {name: json.loads(line) for name, line in lines.items()}

    def prepare(self, case: Case) -> None:
        """Everybody holds its columns and has run the product once, untimed."""
        self._all("prepare", case)
        owned = [columns_of(case, self.group, owner) for owner in self.group.owners]
        self.integers = np.concatenate(owned, axis=1)
        self._exact = self.integers.T @ self.integers
        self.seconds(case)
        self.processor.clear()

    def seconds(self, case: Case) -> float:
        """One product, checked. Processes on one machine read one monotonic clock."""
        start = time.perf_counter()
        answers = self._all("product", case)
        if not np.array_equal(np.array(answers[self.group.server]["opened"]), self._exact):
            raise SystemExit(f"the opened product is not exact: {case}")
        self.processor.append(sum(answer["processor"] for answer in answers.values()))
        return float(answers[self.group.server]["done"] - start)

    def median(self, case: Case, repeats: int) -> float:
        self.prepare(case)
        return statistics.median(self.seconds(case) for _ in range(repeats))

    def close(self) -> None:
        for process in self._processes.values():
            process.communicate()


def beside_plain(federation: Federation, repeats: int) -> tuple[float, float]:
    """Median seconds of the secure product and of BLAS on the same integers, turn by turn."""
    case = Case()
    federation.prepare(case)
    floats = federation.integers.astype(np.float64)
    ours: list[float] = []
    plain: dict[int | None, list[float]] = {None: [], 1: []}
    for _ in range(repeats):
        time.sleep(REST)
        ours.append(federation.seconds(case))
        for threads, seconds in plain.items():
            with threadpool_limits(threads, user_api="blas"):
                for _ in range(PLAIN_A_TURN):
                    start = time.perf_counter()
                    floats.T @ floats
                    seconds.append(time.perf_counter() - start)
    return statistics.median(ours), min(map(statistics.median, plain.values()))


def larger_field(federation: Federation, repeats: int) -> float:
    """Median seconds with 126 bits over those with 63, turn by turn."""
    seconds: dict[int, list[float]] = {63: [], 126: []}
    federation.prepare(Case())
    for _ in range(repeats + 1):
        for bits, used in seconds.items():
            used.append(federation.seconds(Case(field_bits=bits)))
    return statistics.median(seconds[126][1:]) / statistics.median(seconds[63][1:])


def growth(two: Federation, repeats: int) -> dict[str, dict[str, float]]:
    """Seconds of the product as one size changes and the others stay."""
    table: dict[str, dict[str, float]] = {"rows": {}, "columns": {}, "computing_parties": {}}
    for rows in (ROWS // 4, ROWS // 2, ROWS, 2 * ROWS):
        table["rows"][str(rows)] = two.median(Case(rows=rows), repeats)
    for columns in (COLUMNS // 2, COLUMNS, 2 * COLUMNS, 4 * COLUMNS):
        table["columns"][str(columns)] = two.median(Case(columns=columns), repeats)
    for threshold in (1, 2, 3):
        federation = Federation(2 * threshold, threshold)
        table["computing_parties"][str(2 * threshold + 1)] = federation.median(Case(), repeats)
        federation.close()
    return {by: {size: round(value, 4) for size, value in line.items()} for by, line in table.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--alone", action="store_true", help="leave MPyC and the growth table out")
    parser.add_argument("--play", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.play:
        name, owners, threshold, ports = arguments.play
        asyncio.run(play(name, group_of(int(owners), int(threshold)), json.loads(ports)))
        return

    figures: dict[str, Any] = {}
    faster = []
    for owners in (2, 4):
        federation = Federation(owners)
        ours, plain = beside_plain(federation, arguments.repeats)
        figures |= {f"ratio_to_plain_k{owners}": round(ours / plain, 1)}
        figures |= {f"seconds_k{owners}": round(ours, 4), f"plain_seconds_k{owners}": round(plain, 5)}
        figures[f"processor_seconds_k{owners}"] = round(statistics.median(federation.processor), 4)
        if owners == 2:
            figures["bits126_over_bits63"] = round(larger_field(federation, arguments.repeats), 2)
            if not arguments.alone:
                figures["growth"] = growth(federation, max(3, arguments.repeats // 3))
        federation.close()
        if not arguments.alone:
            mpyc = measured_against("mpyc_gram.py", ROWS, COLUMNS, owners, BITS)
            figures[f"mpyc_seconds_k{owners}"] = round(mpyc["seconds"], 2)
            faster.append(mpyc["seconds"] / ours)
    if faster:
        figures["times_faster_than_mpyc"] = round(min(faster), 1)
    figures["plain_threads"] = max(
        pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"
    )
    if arguments.json:
        print(json.dumps(figures))
        return
    for by, line in figures.pop("growth", {}).items():
        print(f"seconds by {by:8}", "   ".join(f"{size}: {value:.3f}" for size, value in line.items()))
    for name, value in figures.items():
        print(f"{name:26} {value}")


if __name__ == "__main__":
    main()
