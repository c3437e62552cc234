"""What a plan foretells against what a run then takes, and what its recommendation costs on public sets.

Each of eight jobs is forecast as `colonnade plan` does it, from pilots on synthetic people, and then run on other rows.

* ``worst_bytes_error``: |predicted − measured| / measured, the largest over the jobs.
* ``worst_time_factor``: the larger of predicted/measured and measured/predicted, the largest over the jobs. Seconds are
  the lesser of wall and processor time, so that what else the machine does counts little; medians of the runs.
* ``rounds_equal``: whether every job took exactly the rounds that were foretold.

With ``--data`` jobs that name no method are planned for public sets between two parties. Every method that the plan
foretells to end in ten minutes is trained on three splits, and scored on the people who were left out. One that is
more than .03 behind the best on the first split cannot be the best, and is not trained on the other two.

* ``recommended_regret``: the mean error of the recommended method less that of the best of these, the largest over sets
  and ε. What was found is kept in ``build/plan_regret.json``: a run that was stopped goes on from there.
"""

from __future__ import annotations

import os

# One thread of linear algebra: threads that wait for each other on a busy machine are not work.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from public_data import PublicSet, acs_income_texas, adult, credit, dutch, kdd_probes, phishing

from colonnade.cli.plan_answer import plan_facts
from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import ClassLabel
from colonnade.data.levels import CategoricalColumn
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.errors import ColonnadeError
from colonnade.evaluation.open_rows import HeldOut
from colonnade.federation.federation import Federation
from colonnade.federation.job import Job
from colonnade.methods.method import Method
from colonnade.methods.table import METHODS, checked_options, methods_for, protocol_named
from colonnade.planning.cost import Clock
from colonnade.planning.forecast import forecast
from colonnade.planning.machine import Matching
from colonnade.planning.pilot import PilotRuns
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.plans import TrainingSpec
from colonnade.randomness import SystemRandomness


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
    Shape("messages, batches", "private-messages", 60_000, (10, 30), options={"epochs": 8, "batch": 4000}),
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


SETS = {
    "adult": adult,
    "credit": credit,
    "phishing": phishing,
    "texas": acs_income_texas,
    "dutch": dutch,
    "kdd": kdd_probes,
}
EPSILONS = (0.3, 1.0, 4.0)
SPLITS = (0, 1, 2)
DELTA = 1e-6
LONGEST = 600.0
BEHIND = 0.03
KEPT = Path("build/plan_regret.json")


def kept(name: str, make: Callable[[], Any]) -> Any:
    """What was found before under this name; it is found now if it was not."""
    known = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    if name not in known:
        known[name] = make()
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        fresh = KEPT.with_suffix(".new")
        fresh.write_text(json.dumps(known, indent=1), encoding="utf-8")
        fresh.replace(KEPT)
    return known[name]


def advised(people: PublicSet, epsilon: float) -> dict[str, Any]:
    """What `colonnade plan` recommends, and which of all methods it foretells to end in time."""
    train, _ = people.parts(0)
    tables = people.tables(2, train)
    schemas = {table.party: table.public() for table in tables}
    job = Job.parse(
        f"name = 'n'\ntask = 'classification'\nparties = {list(schemas)}\nactive = '{tables[0].party}'\n"
        f"epsilon = {epsilon}\ndelta = {DELTA}"
    )

    def planned(**how: Any) -> dict[str, Any]:
        held = dict.fromkeys(schemas, len(train))
        return plan_facts(job, schemas, files={}, rows=len(train), sizes=held, advance=lambda *_: None, **how)

    recommended = planned(named=None)["recommended"]
    every = frozenset(method.name for method in methods_for("classification"))
    forecasts = {
        item["method"]: item["forecast"] for item in planned(named=every, simulated=False)["methods"]
    }
    ending = [name for name, made in forecasts.items() if made is not None and made["seconds"] <= LONGEST]
    return {"recommended": recommended, "ending": ending}


def error_of(people: PublicSet, name: str, epsilon: float, split: int) -> float | None:
    """The share of people left out whom a training of this split classes wrongly; by a twin where there is one."""
    method = protocol_named(name)
    spec = TrainingSpec(
        "classification",
        epsilon,
        delta=DELTA,
        options=method.options(),
        # What is checked changes no number.
        verify="none" if method.checks else None,
        alignment="equal",
    )
    train, test = people.parts(split)
    tables = {table.party: table for table in people.tables(2, train)}
    place = Federation(list(tables.values()), budget=(1e9, 0.5), alignment="equal")
    try:
        if method.twin is not None:
            plan = spec.plan(place.group, tuple(table.public() for table in tables.values()), len(train))
            found = method.twin(plan, tables, SystemRandomness())
        else:
            found = method.train(place, spec)
        return 1.0 - HeldOut("classification", people.tables(2, test)).score(found)
    except ColonnadeError:
        return None


def regret(people: PublicSet, where: str, epsilon: float) -> float:
    """How much larger the mean error of the recommended method is than that of the best."""
    advice = kept(f"{where}, advice", partial(advised, people, epsilon))
    recommended = advice["recommended"]

    def error(method: str, split: int) -> float | None:
        found: float | None = kept(
            f"{where}, {method}, {split}", partial(error_of, people, method, epsilon, split)
        )
        print(f"{where}, {method}, {split}: {found}", flush=True)
        return found

    first = {name: error(name, SPLITS[0]) for name in dict.fromkeys([recommended, *advice["ending"]])}
    ended = {name: value for name, value in first.items() if value is not None}
    near = min(ended.values()) + BEHIND
    means = {
        name: statistics.fmean([value, *(error(name, split) or 1.0 for split in SPLITS[1:])])
        for name, value in ended.items()
        if value <= near or name == recommended
    }
    best = min(means, key=lambda name: means[name])
    print(f"{where}: {recommended}, {means[recommended] - means[best]:.5f} over {best}", flush=True)
    return round(means[recommended] - means[best], 5)


def regrets(data: Path, sets: list[str], epsilons: list[float]) -> dict[str, float]:
    """By set and ε, what following the recommendation costs."""
    found = {}
    for name in sets:
        people = SETS[name](data)
        for epsilon in epsilons:
            where = f"{name}, {epsilon:g}"
            found[where] = regret(people, where, epsilon)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object, last")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="only jobs whose name contains this")
    parser.add_argument("--data", type=Path, help="the folder of public sets, for recommended_regret")
    parser.add_argument("--sets", nargs="*", choices=SETS, default=list(SETS))
    parser.add_argument("--epsilons", nargs="*", type=float, default=list(EPSILONS))
    arguments = parser.parse_args()
    lines = []
    for shape in SHAPES:
        if arguments.only in shape.name:
            lines.append(compared(shape, arguments.repeats))
            print("  ".join(f"{key}={value}" for key, value in lines[-1].items()), flush=True)
    result: dict[str, Any] = {
        "worst_bytes_error": max((line["bytes_error"] for line in lines), default=None),
        "worst_time_factor": max((line["time_factor"] for line in lines), default=None),
        "rounds_equal": all(line["rounds_predicted"] == line["rounds_measured"] for line in lines),
        "jobs": lines,
    }
    if arguments.data is not None:
        result["regrets"] = regrets(arguments.data, arguments.sets, arguments.epsilons)
        result["recommended_regret"] = max(result["regrets"].values(), default=None)
    if arguments.json:
        print(json.dumps(result))
        return
    for key in ("worst_bytes_error", "worst_time_factor", "rounds_equal", "recommended_regret"):
        if key in result:
            print(f"{key}: {result[key]}")


if __name__ == "__main__":
    main()
