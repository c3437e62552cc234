"""What it costs that two computing parties check every owner's rows, and whether those who cheat are caught.

Prints one JSON object on its last line. Seconds are processor time of all roles in one process on one thread, the least
of interleaved repetitions; Adult's shape is 45,222 × 41 integers of 16 bits:

* ``ratio_to_unverified_k2``, ``ratio_to_unverified_k4``: a moment release with verify = "rows" over one with "none",
  two owners and a server, and four owners;
* ``bytes_ratio_k2``, ``bytes_ratio_k4``: the same for bytes sent;
* ``slr_ratio_to_unverified_k2``: the same for a whole run of noisy gradients with its defaults;
* ``functional_ratio_to_unverified_k2``: the same for the functional mechanism of a logistic objective;
* ``margin_ratio_to_unverified_k2``, ``margin_bytes_ratio_k2``: a whole run of noisy margin descent with its defaults
  and verify = "all" over one with its defaults and "none"; ``margin_seconds_k2`` are those of the former;
* ``soundness_bits``, ``wraparound_bits``: a cheat passes with probability at most 2 to the minus these;
* ``attacks_tried``, ``attacks_caught``: cheats of several kinds against checks of a block;
* ``growth_with_rows``: seconds of four times as many rows over four times the seconds;
* ``peak_rss_growth``: memory of four times as many rows over that of the fewer, each in a process of its own.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from colonnade.crypto.row_proofs import PROJECTIONS, RowClaim, RowClaims
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.ledger import Ledger
from colonnade.methods.functional.plan import FunctionalOptions
from colonnade.methods.functional.protocol import functional_mechanism
from colonnade.methods.margin.plan import MarginOptions
from colonnade.methods.margin.protocol import noisy_margin
from colonnade.methods.moments.plan import MomentsOptions, MomentsPlan
from colonnade.methods.moments.protocol import noisy_moments
from colonnade.methods.slr.plan import SlrOptions
from colonnade.methods.slr.protocol import noisy_gradient
from colonnade.numbers.field import FIELD63
from colonnade.protocols.agreement import meet
from colonnade.protocols.assumptions import Verify
from colonnade.protocols.plans import TrainingSpec
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import PartyInputs, Program, run_here

ADULT_ROWS, ADULT_COLUMNS, GAMMA = 45_222, 41, 1 << 15


def schema_of(party: str, columns: int) -> Schema:
    """Numeric columns between −1 and 1."""
    names = "".join(f"[columns.{party}{i}]\nkind='numeric'\nlow=-1\nhigh=1\n" for i in range(columns))
    return Schema.parse(f"id = 'n'\n{names}")


def desks_for(group: Group, tables: dict[str, Table]) -> dict[str, PartyInputs]:
    """Everybody's ledger in memory, with a budget that does not matter here."""
    desks = {}
    for name in group.members:
        ledger = Ledger.in_memory(name)
        ledger.set_budget(name, "*", "*", epsilon=1e6, delta=1e-5)
        desks[name] = PartyInputs(ledger, tables.get(name), dataset=name)
    return desks


def tables_of(group: Group, rows: int) -> dict[str, Table]:
    """Made-up columns, as many as Adult has, spread over the owners; the constant column is the last one."""
    rng = np.random.default_rng(1)
    count = len(group.owners)
    return {
        party: Table.from_arrays(
            party, {f"{party}{i}": rng.uniform(-1, 1, rows) for i in range(width)}, schema_of(party, width)
        )
        for party, width in zip(
            group.owners, ((ADULT_COLUMNS - 1 + i) // count for i in range(count)), strict=True
        )
    }


def compared(
    owners: int, repetitions: int, rows: int = ADULT_ROWS, verifies: tuple[Verify, ...] = ("none", "rows")
) -> dict[str, dict[str, float]]:
    """Seconds and bytes of one release with and without checks, interleaved."""
    group = Group.of(tuple(f"owner{i}" for i in range(owners)))
    tables = tables_of(group, rows)
    schemas = tuple(table.public() for table in tables.values())
    plans = {
        verify: TrainingSpec(
            "pca", 5.0, delta=1e-6, gamma=GAMMA, verify=verify, options=MomentsOptions()
        ).plan(group, schemas, rows)
        for verify in verifies
    }

    def program(plan: MomentsPlan) -> Program:
        async def run(party: Party, table: Table | None) -> object:
            await meet(party)
            return await noisy_moments(party, table, plan)

        return run

    return timed({verify: program(plan) for verify, plan in plans.items()}, group, tables, repetitions)


def timed(
    programs: dict[str, Program], group: Group, tables: dict[str, Table], repetitions: int
) -> dict[str, dict[str, float]]:
    """The least seconds and the bytes of each program, run in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    sent: dict[str, int] = {}
    for _ in range(repetitions + 1):
        for name, program in programs.items():
            desks = desks_for(group, tables)
            start = time.process_time()
            outcome = run_here(program, group, desks, timeout=600.0)
            seconds[name].append(time.process_time() - start)
            sent[name] = outcome.bytes_sent
    return {name: {"seconds": min(seconds[name][1:]), "bytes": sent[name]} for name in programs}


def labelled() -> tuple[Group, dict[str, Table]]:
    """Two owners, of whom the first holds a label of two classes."""
    rng = np.random.default_rng(1)
    group = Group.of(("owner0", "owner1"), active="owner0")
    tables = tables_of(group, ADULT_ROWS)
    label = '[label]\ncolumn = "y"\nkind = "classes"\nclasses = ["no", "yes"]'
    held = {f"owner0{i}": rng.uniform(-1, 1, ADULT_ROWS) for i in range(9)}
    held["y"] = rng.choice(["no", "yes"], ADULT_ROWS)
    names = "".join(f"[columns.owner0{i}]\nkind='numeric'\nlow=-1\nhigh=1\n" for i in range(9))
    tables["owner0"] = Table.from_arrays("owner0", held, Schema.parse(f"id = 'n'\n{names}{label}"))
    return group, tables


def ratio(request: TrainingSpec, protocol: Callable[..., Awaitable[object]], repetitions: int) -> float:
    """Seconds of a labelled run with checks of rows over those without."""
    group, tables = labelled()
    schemas = tuple(table.public() for table in tables.values())

    def program(verify: Verify) -> Program:
        plan = replace(request, verify=verify).plan(group, schemas, ADULT_ROWS)

        async def run(party: Party, table: Table | None) -> object:
            await meet(party)
            return await protocol(party, table, plan)

        return run

    found = timed({"none": program("none"), "rows": program("rows")}, group, tables, repetitions)
    return found["rows"]["seconds"] / found["none"]["seconds"]


def descents(repetitions: int) -> dict[str, float]:
    """Runs of margin with checks and without, each as a job would have it."""
    group, tables = labelled()
    schemas = tuple(table.public() for table in tables.values())

    def program(verify: Verify) -> Program:
        requested = TrainingSpec("classification", 1.0, delta=1e-6, options=MarginOptions(), verify=verify)
        plan = requested.planned(group, schemas, ADULT_ROWS)
        _ = plan.views, plan.scheme, plan.phasors.plain, plan.phasors.labelled

        async def run(party: Party, table: Table | None) -> object:
            await meet(party)
            return await noisy_margin(party, table, plan)

        return run

    programs = {"none": program("none"), "all": program("all")}
    found = timed(programs, group, tables, repetitions)
    return {
        "margin_seconds_k2": found["all"]["seconds"],
        "margin_ratio_to_unverified_k2": found["all"]["seconds"] / found["none"]["seconds"],
        "margin_bytes_ratio_k2": found["all"]["bytes"] / found["none"]["bytes"],
    }


def attacked(times: int) -> dict[str, int]:
    """Cheats of every kind that changes what a second verifier holds; how many it noticed."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "crypto"))
    from row_sessions import Session, one_more, short_rows
    from test_row_pitfalls import wrapping

    def changed(kind: str) -> Session:
        session = Session.of(short_rows(80, 2, 1 << 20), RowClaim(2, 1 << 20))
        place = int.from_bytes(os.urandom(2), "little")

        def long_row(s: Session) -> None:
            more = np.zeros(s.rows.shape, dtype=np.int64)
            more[place % 80, 0] = 1 << 33
            s.held["shares"][1][0] = s.held["shares"][1][0] + FIELD63.encode(more)

        def word(which: str, s: Session) -> None:
            s.held[which] = one_more(s.held[which], place)

        def bit(s: Session) -> None:
            used = np.argwhere(s.claims.used)
            s.held["bits"][tuple(used[place % len(used)])] ^= 1

        steps = {
            "long row": ("dealt", long_row),
            "bits": ("bits", bit),
            "proof": ("proved", lambda s: word("proof", s)),
            "answer": ("answered", lambda s: word("answer", s)),
            "replayed": ("answered", lambda s: s.held.__setitem__("other first", bytes(32))),
        }
        step, change = steps[kind]
        session.changes[step] = change
        return session

    kinds = ("long row", "bits", "proof", "answer", "replayed", "wrap-around")
    tried = [wrapping() if kind == "wrap-around" else changed(kind) for kind in kinds for _ in range(times)]
    return {"attacks_tried": len(tried), "attacks_caught": sum(not session.run() for session in tried)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory:
        compared(2, 1, arguments.memory, ("rows",))
        print(json.dumps({"rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))
        return
    figures: dict[str, float] = {}
    for owners in (2, 4):
        found = compared(owners, arguments.repetitions)
        figures[f"unverified_seconds_k{owners}"] = found["none"]["seconds"]
        figures[f"ratio_to_unverified_k{owners}"] = found["rows"]["seconds"] / found["none"]["seconds"]
        figures[f"bytes_ratio_k{owners}"] = found["rows"]["bytes"] / found["none"]["bytes"]
        verified = found["rows"]["seconds"]
        if owners == 2:
            longer = compared(2, 2, 4 * ADULT_ROWS, ("rows",))["rows"]["seconds"]
            figures["growth_with_rows"] = longer / (4 * verified)
    some = max(2, arguments.repetitions // 3)
    steps = TrainingSpec("classification", 5.0, delta=1e-6, options=SlrOptions())
    figures["slr_ratio_to_unverified_k2"] = ratio(steps, noisy_gradient, some)
    objective = TrainingSpec("classification", 1.0, delta=1e-6, options=FunctionalOptions())
    figures["functional_ratio_to_unverified_k2"] = ratio(
        objective, functional_mechanism, arguments.repetitions
    )
    figures |= descents(arguments.repetitions)
    claims = RowClaims(32_768, (RowClaim(21, 3 * GAMMA**2 // 4),), (0, -1))
    figures |= {"soundness_bits": claims.algebraic_bits, "wraparound_bits": PROJECTIONS}
    figures |= attacked(20)
    memory = []
    for rows in (ADULT_ROWS, 4 * ADULT_ROWS):
        child = subprocess.run(
            [sys.executable, __file__, "--memory", str(rows)], capture_output=True, text=True, check=True
        )
        # The made-up columns themselves lie in memory: 8 bytes for each of 40 a row.
        memory.append(json.loads(child.stdout.splitlines()[-1])["rss"] - rows * 40 * 8 / 1024)
    figures["peak_rss_growth"] = memory[1] / memory[0]
    if not arguments.json:
        print(f"four owners: {verified:.3f} s with checks")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
