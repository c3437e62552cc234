"""One moment release in one process, against plain BLAS on the same integers, and its memory on long tables.

Prints one JSON object on its last line:

* ``ratio_to_plain``: the protocol as it is by default, rows checked, on Adult's size (45,222 × 41 integers of 16 bits,
  two owners and a server in one process; rounding, dealing, checks, products, noise, opening) over float64 BLAS XᵀX of
  the same integers, processor time of one thread, medians of interleaved repetitions; ``protocol_ms`` and
  ``plain_ms`` are the two sides;
* ``ratio_to_plain_unchecked``: the same with verify = "none"; ``protocol_unchecked_ms`` is its side;
* ``blas_kernel``: by which kernel the plain product is made; kernels of one machine differ by a third;
* ``peak_rss_mb``: the largest memory of a process that streams 5,000,000 × 40 rows from Parquet through it.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.ledger import Ledger
from colonnade.methods.moments.plan import MomentsOptions, MomentsPlan
from colonnade.methods.moments.protocol import moments_session, noisy_moments
from colonnade.protocols.agreement import meet
from colonnade.protocols.plans import TrainingSpec
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import PartyInputs, run_here

GROUP = Group.of(("bank", "insurer"))
ADULT_ROWS, ADULT_COLUMNS, GAMMA = 45_222, 41, 1 << 15
LONG_ROWS, LONG_COLUMNS = 5_000_000, 40
REPETITIONS = 9


def schema_of(party: str, columns: int) -> Schema:
    """Numeric columns between −1 and 1."""
    names = "".join(f"[columns.{party}{i}]\nkind='numeric'\nlow=-1\nhigh=1\n" for i in range(columns))
    return Schema.parse(f"id = 'n'\n{names}")


def desks_for(tables: Mapping[str, object]) -> dict[str, PartyInputs]:
    """Everybody's ledger in memory, with a budget that does not matter here."""
    desks = {}
    for name in GROUP.members:
        ledger = Ledger.in_memory(name)
        ledger.set_budget(name, "*", "*", epsilon=1e6, delta=1e-9)
        desks[name] = PartyInputs(ledger, tables.get(name), dataset=name)
    return desks


def ratio_to_plain() -> dict[str, Any]:
    """Milliseconds of processor time of the protocol, rounding to integers included, and of plain BLAS, interleaved."""
    rng = np.random.default_rng(1)
    half = (ADULT_COLUMNS - 1) // 2  # the constant column is the last one
    tables = {
        party: Table.from_arrays(
            party,
            {f"{party}{i}": rng.uniform(-1, 1, ADULT_ROWS) for i in range(half)},
            schema_of(party, half),
        )
        for party in GROUP.owners
    }
    schemas = tuple(table.public() for table in tables.values())
    request = TrainingSpec("pca", 5.0, delta=1e-6, gamma=GAMMA, options=MomentsOptions())
    plans = {
        "protocol": request.plan(GROUP, schemas, ADULT_ROWS),
        "protocol_unchecked": replace(request, verify="none").plan(GROUP, schemas, ADULT_ROWS),
    }
    if [plan.verify for plan in plans.values()] != ["rows", "none"]:
        raise SystemExit("rows are not checked by default")
    plan = plans["protocol"]
    blocks = {party: next(table.blocks(ADULT_ROWS)) for party, table in tables.items()}
    integers = [plan.quantizers[party].quantize(block) for party, block in blocks.items()]
    integers.append(np.full((ADULT_ROWS, 1), plan.label.constant(GAMMA)))
    joint = np.concatenate(integers, axis=1).astype(np.float64)

    async def program(party: Party, table: Table | None, plan: MomentsPlan) -> Any:
        await meet(party)
        return await noisy_moments(party, table, plan)

    used: dict[str, list[float]] = {name: [] for name in (*plans, "plain")}
    for _ in range(REPETITIONS + 1):
        opened = {}
        for name, agreed in plans.items():
            desks = desks_for(tables)
            start = time.process_time()
            opened[name] = run_here(program, GROUP, desks, agreed).results["server"]
            used[name].append(1e3 * (time.process_time() - start))
        start = time.process_time()
        expected = joint.T @ joint
        used["plain"].append(1e3 * (time.process_time() - start))
        # The constant column is the first owner's, so it is dealt behind that owner's features and arranged last.
        for name, agreed in plans.items():
            if np.abs(opened[name] - expected).max() > len(GROUP.members) * agreed.noise.support:
                raise SystemExit("the opened matrix is not the moment matrix plus its noise")
    found = {name: statistics.median(each[1:]) for name, each in used.items()}
    kernels = {pool["architecture"] for pool in threadpool_info() if "numpy" in pool["filepath"]}
    return {f"{name}_ms": each for name, each in found.items()} | {
        "ratio_to_plain": found["protocol"] / found["plain"],
        "ratio_to_plain_unchecked": found["protocol_unchecked"] / found["plain"],
        "blas_kernel": " ".join(sorted(kernels)),
    }


def long_table() -> None:
    """In a process of its own: make 5,000,000 rows, stream them, and print the peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        halves = {"bank": LONG_COLUMNS // 2, "insurer": LONG_COLUMNS - LONG_COLUMNS // 2}
        for party, width in halves.items():
            script = [
                sys.executable,
                __file__,
                "--write",
                party,
                str(width),
                str(Path(folder) / f"{party}.parquet"),
            ]
            subprocess.run(script, check=True)
        tables = {
            p: Table(p, Path(folder) / f"{p}.parquet", schema_of(p, width)) for p, width in halves.items()
        }
        start = time.perf_counter()
        run_here(
            moments_session,
            GROUP,
            desks_for(dict(tables)),
            TrainingSpec("pca", 1.0, delta=1e-8, options=MomentsOptions()),
            timeout=600.0,
        )
        seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"peak_rss_mb": peak, "long_seconds": seconds}))


def write_parquet(party: str, width: int, path: str) -> None:
    """One party's long table, written in pieces."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(2)
    names = [f"{party}{i}" for i in range(width)]
    schema = pa.schema([("n", pa.int64()), *((name, pa.float64()) for name in names)])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, LONG_ROWS, 250_000):
            columns: dict[str, np.ndarray] = {"n": np.arange(start, start + 250_000)}
            columns |= {name: rng.uniform(-1, 1, 250_000) for name in names}
            writer.write_table(pa.table(columns, schema=schema))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    parser.add_argument("--write", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--long", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.write:
        write_parquet(arguments.write[0], int(arguments.write[1]), arguments.write[2])
        return
    if arguments.long:
        long_table()
        return
    figures = ratio_to_plain()
    child = subprocess.run([sys.executable, __file__, "--long"], capture_output=True, text=True, check=True)
    figures |= json.loads(child.stdout.splitlines()[-1])
    if not arguments.json:
        print(
            f"protocol {figures['protocol_ms']:.1f} ms, without checks {figures['protocol_unchecked_ms']:.1f} ms, "
            f"plain BLAS {figures['plain_ms']:.2f} ms by its kernel for {figures['blas_kernel']}"
        )
        print(f"{LONG_ROWS} × {LONG_COLUMNS} rows from Parquet in {figures['long_seconds']:.1f} s")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
