"""Whether a run takes what it takes with one thread of BLAS, however many BLAS would take by itself.

Prints one JSON object on its last line, and fails if a ratio of processor time is above 1.3. Either way has processes
of its own, in turn: as it comes, and with one thread forced by the environment. A time is the least of repetitions:

* ``threads_as_it_comes``, ``blas_kernel``: how many threads BLAS takes by itself here, and which of its kernels;
* ``moments_ratio``: processor time of a classifier from one moment release, checked as it is by default, of 45,222 ×
  40 numbers of two owners, as it comes over that with one thread; ``moments_ms`` and ``moments_ms_one_thread``;
* ``margin_ratio``: the same by noisy margin descent on 45,222 × 20;
* ``job_ratio``: the same from moments of 200,000 × 20;
* ``*_wall_ratio``: the same by the clock, which other programs on the machine disturb: it fails nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

ONE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"), "1")
RUNS = {"moments": ("moments", 45_222, 40), "margin": ("margin", 45_222, 20), "job": ("moments", 200_000, 20)}
MOST = 1.3


def child(name: str, repetitions: int) -> dict[str, Any]:
    """In a process of its own: the least processor time and the least time by the clock, in milliseconds."""
    import numpy as np
    from threadpoolctl import threadpool_info

    from colonnade import Federation, LogisticRegression, Schema, Table

    blas = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    method, rows, columns = RUNS[name]
    rng = np.random.default_rng(1)
    tables = []
    for party in ("bank", "insurer"):
        names = [f"{party}{i}" for i in range(columns // 2)]
        held: dict[str, np.ndarray] = {column: rng.uniform(-1, 1, rows) for column in names}
        schema = "id = 'n'\n" + "".join(f"[columns.{c}]\nkind='numeric'\nlow=-1\nhigh=1\n" for c in names)
        if party == "bank":
            likely = held["bank0"] + held["bank1"] + rng.normal(0, 1, rows) > 0
            held["y"] = np.where(likely, "yes", "no")
            schema += "[label]\ncolumn='y'\nkind='classes'\nclasses=['no', 'yes']\n"
        tables.append(Table.of(party, held, Schema.parse(schema)))
    used, waited = [], []
    # The first compiles what is not compiled yet.
    for _ in range(repetitions + 1):
        federation = Federation(tables, budget=(10.0, 1e-6))
        start = time.process_time(), time.perf_counter()
        LogisticRegression(epsilon=1.0, delta=1e-6, method=method).fit(federation)
        used.append(1e3 * (time.process_time() - start[0]))
        waited.append(1e3 * (time.perf_counter() - start[1]))
    threads = max(pool["num_threads"] for pool in blas)
    return {
        "taken": min(used[1:]),
        "waited": min(waited[1:]),
        "threads": threads,
        "kernel": blas[0]["architecture"],
    }


def measured(name: str, environment: Mapping[str, str], repetitions: int) -> dict[str, Any]:
    """The same, from outside."""
    inherited = {key: value for key, value in os.environ.items() if key not in ONE}
    command = [sys.executable, __file__, "--child", name, "--repetitions", str(repetitions)]
    done = subprocess.run(
        command, env=inherited | dict(environment), stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--child", choices=RUNS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(child(arguments.child, arguments.repetitions)))
        return
    figures: dict[str, Any] = {}
    for name in RUNS:
        both = [
            (measured(name, {}, arguments.repetitions), measured(name, ONE, arguments.repetitions))
            for _ in range(3)
        ]
        free, one = ({key: min(pair[side][key] for pair in both) for key in both[0][side]} for side in (0, 1))
        figures |= {"threads_as_it_comes": free["threads"], "blas_kernel": free["kernel"]}
        figures |= {f"{name}_ms": free["taken"], f"{name}_ms_one_thread": one["taken"]}
        figures |= {
            f"{name}_ratio": free["taken"] / one["taken"],
            f"{name}_wall_ratio": free["waited"] / one["waited"],
        }
        if not arguments.json:
            print(f"{name}: {free['taken']:.0f} ms of processor time, with one thread {one['taken']:.0f} ms")
    print(json.dumps(figures))
    if slow := [name for name in RUNS if figures[f"{name}_ratio"] > MOST]:
        raise SystemExit(
            f"more than {MOST} times the processor time of one thread of BLAS: {', '.join(slow)}"
        )


if __name__ == "__main__":
    main()
