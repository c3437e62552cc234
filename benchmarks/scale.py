"""A whole job on tables of a million rows or, with `--large`, ten million: from Parquet to a model.

Two owners with 20 columns a side, half of their people in common, each in an order of its own; all parties in one
process, which is harder on memory than one each. Rows are read, ids compared, noise added, moments opened and a model
fitted; the ledgers are files, so people are remembered too.

* ``peak_rss_mb``: the peak memory of the process, all parties in it.
* ``rows_per_second``: rows a side over wall clock, from opening the files to the model.
* ``seconds_by_stage``: wall clock of the label holder by stage; `reading` checks every row, `aligning` finds the common
  people, `learning` is the protocol, `fitting` the model.
* ``accuracy``: on the people themselves, to show that it is one.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from colonnade import Federation, Ledger, LogisticRegression, Schema, Table

PARTIES = ("bank", "shop")
COLUMNS = 20


def write_files(folder: Path, rows: int) -> None:
    """Parquet with uniform numbers; the label depends on three columns of each side."""
    number = "(hash(n * 64 + {0}) % 1000000) / 1e6"
    label = " + ".join(number.format(place) for place in (0, 1, 2, 20, 21, 22))
    for side, party in enumerate(PARTIES):
        first = side * (rows // 2)
        columns = [f"{number.format(side * COLUMNS + place)} AS {party}{place}" for place in range(COLUMNS)]
        if not side:
            columns.append(f"CASE WHEN {label} > 3 THEN 'yes' ELSE 'no' END AS y")
        duckdb.sql(
            f"COPY (SELECT 'person-' || n AS id, {', '.join(columns)} FROM range({first}, {first + rows}) AS t(n) "
            f"ORDER BY hash(n + {side})) TO '{folder / f'{party}.parquet'}' (FORMAT parquet)"
        )


def table_of(folder: Path, party: str) -> Table:
    lines = ['id = "id"']
    lines += [f'columns.{party}{place} = {{kind = "numeric", low = 0, high = 1}}' for place in range(COLUMNS)]
    if party == PARTIES[0]:
        lines.append('label = {column = "y", kind = "classes", classes = ["no", "yes"]}')
    return Table(party, folder / f"{party}.parquet", Schema.parse("\n".join(lines)))


def ledger_of(folder: Path, party: str) -> Ledger:
    ledger = Ledger.create(folder / f"{party}.ledger", party)
    ledger.set_budget(party, "*", "*", epsilon=10.0, delta=1e-5)
    return ledger


def job(folder: Path, rows: int) -> dict[str, object]:
    start = time.perf_counter()
    tables = [table_of(folder, party) for party in PARTIES]
    ledgers = {party: ledger_of(folder, party) for party in PARTIES}
    federation = Federation(tables, ledgers=ledgers, budget=(10.0, 1e-5), timeout=3600)
    release = federation.moments(task="classification", epsilon=1.0)
    opened = time.perf_counter()
    model = LogisticRegression().fit(release)
    end = time.perf_counter()
    traffic = federation.runs[-1].outcome.traffic[PARTIES[0]]
    stages = {"reading": 0.0, "aligning": 0.0, "learning": 0.0}
    for step, seconds in traffic.seconds.items():
        stage = "aligning" if step in traffic.own else "reading" if step == "introduction" else "learning"
        stages[stage] += seconds
    stages |= {"fitting": end - opened}
    stages["other"] = max(0.0, end - start - sum(stages.values()))
    return {
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "rows_per_second": round(rows / (end - start)),
        "seconds": round(end - start, 1),
        "seconds_by_stage": {stage: round(seconds, 1) for stage, seconds in stages.items()},
        "rows": rows,
        "common": release.rows,
        "accuracy": round(accuracy(model, folder), 3),
    }


def accuracy(model: LogisticRegression, folder: Path) -> float:
    bank, shop = (folder / f"{party}.parquet" for party in PARTIES)
    found = duckdb.execute(
        f"SELECT * FROM '{bank}' AS b JOIN '{shop}' AS s USING (id) WHERE hash(id) % 100 = 0 LIMIT 20000"
    ).fetchnumpy()
    return float(model.score(found, found["y"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    parser.add_argument("--large", action="store_true", help="ten million rows a side instead of one")
    parser.add_argument("--rows", type=int, help="so many rows a side")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.folder:
        print(json.dumps(job(arguments.folder, arguments.rows)))
        return
    rows = arguments.rows or (10_000_000 if arguments.large else 1_000_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, rows)
        # In a process of its own: making the files takes memory too.
        command = [sys.executable, __file__, "--folder", name, "--rows", str(rows)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        figures = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(figures) if arguments.json else "\n".join(f"{k}: {v}" for k, v in figures.items()))


if __name__ == "__main__":
    main()
