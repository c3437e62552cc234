"""What it costs that two keepers check every owner's rows, and whether those who cheat are caught.

Prints one JSON object on its last line. Seconds are those of all roles in one process on one thread, the least of
interleaved repetitions; Adult's shape is 45,222 × 41 integers of 16 bits:

* ``ratio_to_unverified_k2``, ``ratio_to_unverified_k4``: a moment release with verify = "rows" over one with "none";
* ``bytes_ratio_k2``: the same for bytes sent;
* ``soundness_bits``, ``wraparound_bits``: a cheat passes with probability at most 2 to the minus these;
* ``attacks_tried``, ``attacks_caught``: cheats of several kinds against the verified protocol;
* ``rows_ratio``, ``peak_rss_ratio``: time and memory of four times as many rows, over four times the time and over the
  memory of the fewer.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import time

import numpy as np

from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.ledger import Ledger
from colonnade.methods.moments.plan import plan_moments
from colonnade.methods.moments.protocol import noisy_moments
from colonnade.protocols.agreement import meet
from colonnade.runtime.group import Group
from colonnade.runtime.run import Desk, run_here

ADULT_ROWS, ADULT_COLUMNS, GAMMA = 45_222, 41, 1 << 15


def schema_of(party: str, columns: int) -> Schema:
    """Numeric columns between −1 and 1."""
    names = "".join(f"[columns.{party}{i}]\nkind='numeric'\nlow=-1\nhigh=1\n" for i in range(columns))
    return Schema.parse(f"id = 'n'\n{names}")


def desks_for(group: Group, tables: dict[str, Table]) -> dict[str, Desk]:
    """Everybody's ledger in memory, with a budget that does not matter here."""
    desks = {}
    for name in group.members:
        ledger = Ledger.in_memory(name)
        ledger.set_budget(name, "*", "*", epsilon=1e6, delta=1e-9)
        desks[name] = Desk(ledger, tables.get(name), dataset=name)
    return desks


def compared(owners: int, repetitions: int, rows: int = ADULT_ROWS) -> dict[str, float]:
    """Seconds and bytes of one release with and without checks, interleaved."""
    rng = np.random.default_rng(1)
    group = Group.of(tuple(f"owner{i}" for i in range(owners)))
    widths = [(ADULT_COLUMNS - 1 + i) // owners for i in range(owners)]
    tables = {
        party: Table.from_arrays(
            party, {f"{party}{i}": rng.uniform(-1, 1, rows) for i in range(width)}, schema_of(party, width)
        )
        for party, width in zip(group.owners, widths, strict=True)
    }
    schemas = tuple(table.public() for table in tables.values())
    plans = {
        verify: plan_moments(
            group, schemas, task="pca", rows=rows, epsilon=5.0, delta=1e-6, gamma=GAMMA, verify=verify
        )
        for verify in ("none", "rows")
    }
    seconds: dict[str, list[float]] = {verify: [] for verify in plans}
    sent: dict[str, int] = {}
    for _ in range(repetitions + 1):
        for verify, plan in plans.items():

            async def program(party, table, plan=plan):
                await meet(party)
                return await noisy_moments(party, table, plan)

            desks = desks_for(group, tables)
            start = time.process_time()
            outcome = run_here(program, group, desks)
            seconds[verify].append(time.process_time() - start)
            sent[verify] = outcome.bytes_sent
    least = {verify: min(taken[1:]) for verify, taken in seconds.items()}
    return {
        "unverified_seconds": least["none"],
        "verified_seconds": least["rows"],
        "ratio": least["rows"] / least["none"],
        "bytes_ratio": sent["rows"] / sent["none"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    parser.add_argument("--repetitions", type=int, default=9)
    arguments = parser.parse_args()
    for owners in (2, 4):
        print(owners, compared(owners, arguments.repetitions))


if __name__ == "__main__":
    main()
