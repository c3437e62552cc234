"""An epoch of training by private messages against the same epoch without noise, by the same protocol in the same run.

100,000 rows, 30 columns at the active party and 300 at the passive one, batches of 3,200. Each epoch goes through the
real protocol: frames, channels, clipping, noise from the system's randomness. Rows are encoded before the clock
starts; the first epoch of each kind, which also makes tables of noise, is not counted.

* ``ratio_to_nonprivate``: seconds of a private epoch over seconds of one without noise, processor time, medians of
  interleaved repetitions.
* ``seconds_by_rows``, ``seconds_by_epochs``: private training over rows and over epochs, with the slope of a straight
  line through them and how much of the variation the line explains: cost is linear in both.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import replace
from typing import Any

import numpy as np

from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import ClassLabel
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.ledger import Ledger
from colonnade.methods.messages.plan import PrivateMessagesOptions, PrivateMessagesPlan
from colonnade.methods.messages.protocol import batch_order, descend
from colonnade.protocols.agreement import meet
from colonnade.protocols.alignment import align
from colonnade.protocols.messages import exchange
from colonnade.protocols.plans import TrainingSpec
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import PartyInputs, run_here
from colonnade.runtime.wire import Message

ROWS, ACTIVE, PASSIVE, BATCH = 100_000, 30, 300, 3200


def tables(rows: int) -> list[Table]:
    """Uniform columns and a label that both sides say something about."""
    generator = np.random.default_rng(1)
    made = []
    for party, width in (("active", ACTIVE), ("passive", PASSIVE)):
        columns = tuple(NumericColumn(f"{party}{i}", low=-1, high=1) for i in range(width))
        values = generator.uniform(-1, 1, (width, rows))
        arrays = {column.name: row for column, row in zip(columns, values, strict=True)}
        label = None
        if party == "active":
            label = ClassLabel("y", ("no", "yes"))
            arrays["y"] = np.where(values[0] + generator.normal(size=rows) > 0, "yes", "no")
        made.append(Table.from_arrays(party, arrays, Schema("row", columns, label)))
    return made


def plan_of(made: list[Table], calibration: str, *, epochs: int) -> PrivateMessagesPlan:
    """The plan of one kind of run."""
    options = PrivateMessagesOptions(epochs=epochs, batch=min(BATCH, made[0].rows))
    spec = TrainingSpec("classification", 1.0, options=options, public=("active", "passive"))
    spec = spec.with_options(calibration=calibration)
    group = Group.of(("active", "passive"), active="active")
    plan: PrivateMessagesPlan = spec.plan(group, tuple(table.public() for table in made), made[0].rows)
    return plan


class Prepared:
    """Both parties with their rows encoded, ready to run epochs."""

    def __init__(self, made: list[Table]) -> None:
        self.made = {table.party: table for table in made}
        self.rows: dict[str, tuple[Any, Any]] = {}

    def seconds(self, plan: PrivateMessagesPlan) -> tuple[float, float]:
        """Processor and wall seconds of all parties together from the first message to the last."""
        starts, ends = [], []

        async def program(party: Party, table: Table | None) -> None:
            await meet(party)
            aligned = await align(party, table, "equal")
            if aligned is None:
                return
            if party.name not in self.rows:
                self.rows[party.name] = batch_order(aligned, plan)
            features, targets = self.rows[party.name]
            # Everybody is ready before the clock starts.
            await exchange(party, "ready", Message(), plan.group.owners)
            starts.append((time.process_time(), time.perf_counter()))
            await descend(party, plan, features, targets=targets)
            ends.append((time.process_time(), time.perf_counter()))

        desks = {
            member: PartyInputs(Ledger.in_memory(member), self.made.get(member))
            for member in plan.group.members
        }
        run_here(program, plan.group, desks)
        return max(ends)[0] - min(starts)[0], max(ends)[1] - min(starts)[1]


def line(points: dict[int, float]) -> dict[str, object]:
    """Seconds at each point, the slope of a straight line through them and its R²."""
    x, y = np.array(list(points)), np.array(list(points.values()))
    slope, offset = np.polyfit(x, y, 1)
    rest = ((y - slope * x - offset) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    return {
        "seconds": {str(key): round(value, 4) for key, value in points.items()},
        "slope": float(f"{slope:.4g}"),
        "r_squared": round(float(1 - rest), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    prepared = Prepared(tables(ROWS))
    made = list(prepared.made.values())
    plans = {kind: plan_of(made, kind, epochs=1) for kind in ("sound", "none")}
    used: dict[str, list[tuple[float, float]]] = {kind: [] for kind in plans}
    for repeat in range(arguments.repeats + 1):
        for kind, plan in plans.items():
            seconds = prepared.seconds(plan)
            if repeat:
                used[kind].append(seconds)
    processor = {kind: statistics.median(cpu for cpu, _ in times) for kind, times in used.items()}
    wall = {kind: statistics.median(seconds for _, seconds in times) for kind, times in used.items()}

    def training(rows: int, epochs: int) -> float:
        some = Prepared(tables(rows))
        plan = plan_of(list(some.made.values()), "sound", epochs=epochs)
        some.seconds(replace(plan, spec=plan.spec.with_options(epochs=1)))
        return min(some.seconds(plan)[0] for _ in range(3))

    result = {
        "rows": ROWS,
        "columns": [ACTIVE, PASSIVE],
        "batch": BATCH,
        "private_seconds": round(processor["sound"], 4),
        "nonprivate_seconds": round(processor["none"], 4),
        "ratio_to_nonprivate": round(processor["sound"] / processor["none"], 3),
        "private_wall_seconds": round(wall["sound"], 4),
        "nonprivate_wall_seconds": round(wall["none"], 4),
        "by_rows_one_epoch": line({rows: training(rows, 1) for rows in (10_000, 20_000, 40_000, 80_000)}),
        "by_epochs_10000_rows": line({epochs: training(10_000, epochs) for epochs in (1, 2, 5, 10)}),
    }
    if arguments.json:
        print(json.dumps(result))
        return
    for key, value in result.items():
        print(f"{key}: {value}")


if __name__ == "__main__":
    main()
