"""The path without a server against the path with three keepers: the same columns, the same noise, one process each.

569 rows, 10 numeric columns and two classes at one owner, 20 numeric columns at the other. Prints one JSON object on
its last line: seconds of wall clock and bytes on the wire of both paths, medians of interleaved repetitions after one
that is not counted, and their ratios. Planning is done before the clock starts, for both.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import json
import statistics
import time

import numpy as np

from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.ledger import Ledger
from colonnade.methods.moments.session import MomentsRequest, moments_session
from colonnade.protocols.paillier_moments import paillier_moments_session
from colonnade.protocols.paillier_plan import PaillierKeys, plan_paillier_moments
from colonnade.runtime.group import Group
from colonnade.runtime.run import Desk, run_here

COLUMNS = {"clinic": 10, "laboratory": 20}
LABEL = "[label]\ncolumn = 'y'\nkind = 'classes'\nclasses = ['no', 'yes']\n"
REQUEST = MomentsRequest("classification", 1.0, 1e-5, alignment="equal")
PAIR = Group.pair(*COLUMNS, active="clinic")
KEPT = Group.of(tuple(COLUMNS), active="clinic")


def table_of(party: str, rows: int) -> Table:
    """Numeric columns between −1 and 1, and the label at the first owner."""
    rng = np.random.default_rng(len(party))
    names = [f"{party}{i}" for i in range(COLUMNS[party])]
    text = "id = 'n'\n" + "".join(
        f"[columns.{name}]\nkind = 'numeric'\nlow = -1\nhigh = 1\n" for name in names
    )
    arrays = {name: rng.uniform(-1, 1, rows) for name in names}
    if party == "clinic":
        text, arrays["y"] = text + LABEL, rng.choice(["no", "yes"], rows)
    return Table.from_arrays(party, arrays, Schema.parse(text))


def timed(program, group: Group, tables: dict[str, Table], *agreed) -> tuple[float, int]:
    """Seconds and bytes of one session, ledgers in memory."""
    desks = {}
    for name in group.members:
        ledger = Ledger.in_memory(name)
        ledger.set_budget(name, "*", "*", epsilon=1e6, delta=1e-5)
        desks[name] = Desk(ledger, tables.get(name), dataset=name)
    start = time.perf_counter()
    outcome = run_here(program, group, desks, *agreed, timeout=600.0)
    return time.perf_counter() - start, outcome.bytes_sent


def main() -> None:
    """Measure both paths."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print only the last line")
    parser.add_argument("--rows", type=int, default=569)
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    tables = {party: table_of(party, options.rows) for party in COLUMNS}
    schemas = tuple(table.public() for table in tables.values())
    keys = PaillierKeys()
    plan = plan_paillier_moments(REQUEST, PAIR, schemas, options.rows, keys)
    pair, kept = [], []
    for _ in range(options.repetitions + 1):
        pair.append(timed(paillier_moments_session, PAIR, tables, REQUEST, keys))
        kept.append(timed(moments_session, KEPT, tables, REQUEST))
    figures = {
        "rows": options.rows,
        "columns": plan.size,
        "key_bits": keys.bits,
        "fields_per_ciphertext": plan.packing.count,
        "paillier_seconds": round(statistics.median(seconds for seconds, _ in pair[1:]), 3),
        "keepers_seconds": round(statistics.median(seconds for seconds, _ in kept[1:]), 3),
        "paillier_bytes": pair[-1][1],
        "keepers_bytes": kept[-1][1],
    }
    figures["times_slower"] = round(figures["paillier_seconds"] / figures["keepers_seconds"], 1)
    if not options.json:
        print(__doc__)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
