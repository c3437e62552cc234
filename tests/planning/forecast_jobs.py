"""Small jobs with every method, and the runs that forecasts are held to."""

from typing import Any

import numpy as np
from typed import untyped

from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import ClassLabel, RealLabel
from colonnade.data.levels import CategoricalColumn
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.federation.federation import Federation
from colonnade.methods.method import Method
from colonnade.methods.table import METHODS, checked_options
from colonnade.planning.cost import Cost, weighted
from colonnade.planning.machine import Matching
from colonnade.planning.pilot import PilotRuns
from colonnade.protocols.plans import Plan, Task, TrainingSpec
from colonnade.runtime.run import Outcome


def tables(widths: list[int], rows: int, *, task: Task = "classification", alone: int = 0) -> list[Table]:
    """Numbers and one column of categories at each party; the label is with the first. Nobody's order is another's
    where parties hold people alone."""
    generator = np.random.default_rng(5)
    made = []
    for number, width in enumerate(widths):
        party, held = f"house{number}", rows + alone
        columns: list[Any] = [NumericColumn(f"n{number}.{i}", low=0, high=10) for i in range(width)]
        arrays: dict[str, Any] = {column.name: generator.uniform(0, 10, held) for column in columns}
        columns.append(CategoricalColumn(f"c{number}", ("red", "green", "blue")))
        arrays[f"c{number}"] = np.array(["red", "green", "blue"])[generator.integers(3, size=held)]
        label: Any = None
        if number == 0 and task != "pca":
            label = ClassLabel("y", ("no", "yes")) if task == "classification" else RealLabel("y", 0, 20)
            score = arrays["n0.0"] + generator.normal(size=held)
            arrays["y"] = (
                np.where(score > 5, "yes", "no") if task == "classification" else np.clip(score, 0, 20)
            )
        ids = [f"all {row}" for row in range(rows)] + [f"{party} {row}" for row in range(alone)]
        order = generator.permutation(held) if alone else np.arange(held)
        arrays = {name: values[order] for name, values in arrays.items()}
        schema = Schema("id", tuple(columns), label)
        made.append(Table.from_arrays(party, arrays, schema, ids=[ids[place] for place in order]))
    return made


def planned(
    method: str, made: list[Table], rows: int, *, task: Task = "classification", options: dict[str, Any]
) -> tuple[TrainingSpec, Plan, Federation]:
    chosen = METHODS[method]
    requested = TrainingSpec(task, 1.0, options=checked_options(chosen, options))
    federation = Federation(made, budget=(1e9, 0.5))
    schemas = tuple(table.public() for table in made)
    assert isinstance(chosen, Method)
    return requested, requested.plan(federation.group, schemas, rows), federation


def foretold(method: str, requested: TrainingSpec, plan: Plan, made: list[Table]) -> Cost:
    """The forecast from pilots alone, for people whom all hold in one order."""
    schemas = {table.party: table.public() for table in made}
    rehearsals = PilotRuns(schemas, effort=0.0, tries=1, weighed=False)
    cost, _, _ = rehearsals.rehearse(untyped(METHODS[method]), requested, plan)
    asking = Matching(plan.group, schemas, "auto", plan.rows, dict.fromkeys(schemas, plan.rows)).cost(plan)
    return cost if asking is None else weighted([(1.0, cost), (1.0, asking)])


def ran(method: str, requested: TrainingSpec, federation: Federation) -> Outcome:
    METHODS[method].train(federation, requested)
    return federation.runs[-1].outcome
