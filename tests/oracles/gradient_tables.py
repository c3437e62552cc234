"""Small tables for training by gradients, and plans over them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from plan_runs import run_protocol
from training_specs import requested, table_of

from colonnade.data.table import Table
from colonnade.methods.slr.plan import GradientPlan, SlrOptions
from colonnade.methods.slr.protocol import noisy_gradient
from colonnade.runtime.party import Group
from colonnade.runtime.run import Outcome

NAMES = ("bank", "insurer", "shop", "clinic", "school")


def tables_of(
    parties: tuple[str, ...],
    rows: int,
    *,
    active: str | None = None,
    seed: int = 0,
    classes: tuple[str, ...] = ("no", "yes"),
    slope: float = 4.0,
) -> list[Table]:
    """Two numbers and a category at every party; the label leans on the first number of each."""
    rng = np.random.default_rng(seed)
    columns = {
        party: {
            f"{party}0": rng.uniform(-1, 1, rows),
            f"{party}1": rng.uniform(-1.2, 1.2, rows),
            f"{party}_kind": rng.choice(["a", "b", "c"], rows),
        }
        for party in parties
    }
    noisy = sum(columns[party][f"{party}0"] for party in parties) + rng.logistic(size=rows) / slope
    labels = np.array(classes)[np.clip((noisy > 0.2).astype(int), 0, len(classes) - 1)]
    label = f"label = {{column = 'y', kind = 'classes', classes = {list(classes)}}}"
    holder = active or parties[0]
    return [table_of(party, columns[party], label if party == holder else "", labels) for party in parties]


def people(source: Any) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
    """Everybody's raw columns and labels in one place, as only a test may have them."""
    rows: dict[Any, Any] = {}
    labels = None
    for table in source.tables.values():
        (block,) = table.blocks(table.rows)
        rows |= dict(block.columns)
        labels = block.label if block.label is not None else labels
    kinds = {name: np.array(list("abc"))[codes] for name, codes in rows.items() if name.endswith("_kind")}
    return rows | kinds, np.array(["no", "yes"])[labels]


def plan_for(
    tables: list[Table], group: Group | None = None, *, epsilon: float = 1.0, **shape: Any
) -> GradientPlan:
    group = group or Group.of(tuple(table.party for table in tables), active=tables[0].party)
    how = {"gamma": 1 << 10, "rounding": "retry", "epochs": 2, "rate": 0.25, **shape}
    spec = requested(SlrOptions, epsilon=epsilon, delta=1e-5, **how)
    made: GradientPlan = spec.plan(group, tuple(table.public() for table in tables), tables[0].rows)
    return made


def run_plan(plan: GradientPlan, tables: list[Table], **how: Any) -> Outcome:
    return run_protocol(noisy_gradient, plan, tables, **how)
