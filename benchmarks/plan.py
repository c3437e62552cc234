"""What a plan foretells against what a run then takes: bytes, rounds and seconds of eight jobs.

Each job is forecast as `colonnade plan` does it, but from pilots only: no whole run is rehearsed, so that whatever is
compared was inferred from shorter runs on invented people. Then the job is run on other rows.

* ``worst_bytes_error``: |predicted − measured| / measured, the largest over the jobs.
* ``worst_time_factor``: the larger of predicted/measured and measured/predicted, the largest over the jobs. Seconds are
  the lesser of wall and processor time, so that what else the machine does counts little; medians of the runs.
* ``rounds_equal``: whether every job took exactly the rounds that were foretold.
"""

from __future__ import annotations

import os

# One thread of linear algebra: threads that wait for each other on a busy machine are not work.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import statistics
import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import ClassLabel
from colonnade.data.levels import CategoricalColumn
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.federation.federation import Federation
from colonnade.methods.method import Method
from colonnade.methods.table import METHODS, checked_options
from colonnade.planning.alignment_cost import Matching
from colonnade.planning.clock import Clock
from colonnade.planning.forecast import forecast
from colonnade.planning.pilot_run import PilotRuns
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.plans import TrainingSpec


@dataclass(frozen=True)
class Shape:
    """One job: numeric columns of each party, categories of the first party's further columns, rows and method."""

    name: str
    method: str
    rows: int
    widths: tuple[int, ...]
    categories: tuple[int, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    alone: int = 0
    """People that each party holds beside those in common; ids are matched if there are any."""

    @property
    def alignment(self) -> Alignment:
        return "auto"


SHAPES = (
    Shape("moments, Adult's columns", "moments", 120_000, (5, 1), categories=(7, 6, 14, 6, 5, 2, 2)),
    Shape("moments, five parties, 400 features", "moments", 20_000, (40, 40, 40, 40, 40)),
    Shape("functional, four parties", "functional", 120_000, (5, 5, 5, 5)),
    Shape("slr, three parties", "slr", 15_000, (6, 6, 6)),
    Shape("intermediate, batches", "intermediate", 60_000, (10, 30), options={"epochs": 8, "batch": 4000}),
    Shape("encrypted, two parties", "encrypted", 2048, (5, 5), options={"epochs": 2}),
    Shape("network, two parties", "network", 20_000, (8, 8)),
    Shape("one-shot, ids to match", "one-shot", 3000, (4, 4), alone=1000),
)


def tables(shape: Shape, seed: int) -> list[Table]:
    """Uniform columns and a label that the first party's say something about; ids in another order at each party."""
    generator = np.random.default_rng(seed)
    held, made = shape.rows + shape.alone, []
    for number, width in enumerate(shape.widths):
        party = f"party{number}"
        columns: list[Any] = [NumericColumn(f"{party} {i}", low=-1, high=1) for i in range(width)]
        arrays: dict[str, Any] = {column.name: generator.uniform(-1, 1, held) for column in columns}
        label = None
        if number == 0:
            label = ClassLabel("y", ("no", "yes"))
            arrays["y"] = np.where(arrays["party0 0"] + generator.normal(size=held) > 0, "yes", "no")
            for place, count in enumerate(shape.categories):
                names = tuple(f"kind {kind}" for kind in range(count))
                columns.append(CategoricalColumn(f"category {place}", names))
                arrays[columns[-1].name] = np.array(names)[generator.integers(count, size=held)]
        ids = [f"common {row}" for row in range(shape.rows)] + [
            f"{party} {row}" for row in range(shape.alone)
        ]
        order = generator.permutation(held) if shape.alone else np.arange(held)
        arrays = {name: values[order] for name, values in arrays.items()}
        schema = Schema("id", tuple(columns), label)
        made.append(Table.from_arrays(party, arrays, schema, ids=[ids[place] for place in order]))
    return made


def federation(shape: Shape, seed: int) -> Federation:
    """The parties with their tables, and ledgers that refuse nothing."""
    return Federation(tables(shape, seed), budget=(1e9, 0.5), alignment=shape.alignment)


def compared(shape: Shape, repeats: int) -> dict[str, Any]:
    """One job: foretold from pilots, then run."""
    method = METHODS[shape.method]
    requested = TrainingSpec("classification", 1.0, options=checked_options(method, shape.options))
    first = federation(shape, 1)
    schemas = {party: table.public() for party, table in first.tables.items()}
    if not isinstance(method, Method):
        raise SystemExit(f"{shape.method} has no plan")
    plan = replace(requested, alignment=shape.alignment).plan(
        first.group, tuple(schemas.values()), shape.rows
    )
    began = time.perf_counter()
    held = dict.fromkeys(schemas, shape.rows + shape.alone)
    matching = Matching(first.group, schemas, shape.alignment, shape.rows, held)
    rehearsals = PilotRuns(schemas, effort=0.0, weighed=False)
    predicted = forecast(rehearsals, method, requested, plan, matching=matching, simulated=False).cost
    spent = time.perf_counter() - began
    seconds, wall = [], []
    for repeat in range(repeats):
        place = federation(shape, 2 + repeat)
        with Clock() as clock:
            method.train(place, requested)
        seconds.append(clock.seconds)
        wall.append(clock.wall)
    outcome = place.runs[-1].outcome
    measured = statistics.median(seconds)
    return {
        "job": shape.name,
        "bytes_predicted": predicted.bytes_sent,
        "bytes_measured": outcome.bytes_sent,
        "bytes_error": round(abs(predicted.bytes_sent / outcome.bytes_sent - 1), 5),
        "rounds_predicted": predicted.rounds,
        "rounds_measured": outcome.rounds,
        "seconds_predicted": round(predicted.seconds, 3),
        "seconds_measured": round(measured, 3),
        "wall_measured": round(statistics.median(wall), 3),
        "time_factor": round(max(predicted.seconds / measured, measured / predicted.seconds), 3),
        "rehearsal_seconds": round(spent, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object, last")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="only jobs whose name contains this")
    arguments = parser.parse_args()
    lines = []
    for shape in SHAPES:
        if arguments.only in shape.name:
            lines.append(compared(shape, arguments.repeats))
            print("  ".join(f"{key}={value}" for key, value in lines[-1].items()), flush=True)
    result = {
        "worst_bytes_error": max(line["bytes_error"] for line in lines),
        "worst_time_factor": max(line["time_factor"] for line in lines),
        "rounds_equal": all(line["rounds_predicted"] == line["rounds_measured"] for line in lines),
        "jobs": lines,
    }
    if arguments.json:
        print(json.dumps(result))
        return
    for key in ("worst_bytes_error", "worst_time_factor", "rounds_equal"):
        print(f"{key}: {result[key]}")


if __name__ == "__main__":
    main()
