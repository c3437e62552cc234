"""Small federations for the functional mechanism, and noise that is silent or remembered."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from plan_runs import run_protocol
from training_specs import requested, table_of
from typed import untyped

from colonnade.data.table import Table
from colonnade.methods.functional.plan import FunctionalOptions, FunctionalPlan
from colonnade.methods.functional.protocol import functional_mechanism
from colonnade.protocols.plans import Task
from colonnade.randomness import SystemRandomness
from colonnade.runtime.party import Group
from colonnade.runtime.run import Outcome

NAMES = ("bank", "insurer", "shop", "clinic", "school")
LABELS = {
    "classification": "[label]\ncolumn='y'\nkind='classes'\nclasses=['no','yes']\n",
    "regression": "[label]\ncolumn='y'\nkind='real'\nlow=-4\nhigh=4\n",
}


def tables_of(
    parties: tuple[str, ...],
    rows: int,
    *,
    task: str = "classification",
    active: str | None = None,
    seed: int = 0,
    width: int = 2,
    empty: tuple[str, ...] = (),
) -> list[Table]:
    """Numbers and a three-valued column for each party; the label follows the numbers. `empty` own the label alone."""
    draw = np.random.default_rng([seed, rows])
    numbers = {
        party: {f"{party}{i}": draw.uniform(-1.1, 1.1, rows) for i in range(width)} for party in parties
    }
    score = sum(values for party in parties for values in numbers[party].values())
    tables = []
    for party in parties:
        mine, label, labels = {}, "", None
        if party not in empty:
            mine = {**numbers[party], f"{party}_kind": draw.choice(["a", "b", "c"], rows)}
        if party == (active or parties[0]):
            label, noisy = LABELS[task], score + draw.normal(size=rows) / 2
            labels = np.where(noisy > 0.5, "yes", "no") if task == "classification" else noisy
        tables.append(table_of(party, mine, label, labels))
    return tables


def group_of(tables: list[Table], **roles: Any) -> Group:
    active = next(table.party for table in tables if table.schema.label is not None)
    return Group.of(tuple(table.party for table in tables), active=active, **roles)


def plan_for(
    tables: list[Table],
    *,
    task: Task = "classification",
    epsilon: float = 1.0,
    delta: float = 1e-5,
    rows: int | None = None,
    group: Group | None = None,
    **more: Any,
) -> FunctionalPlan:
    if "epsilons" in more:
        more |= {"epsilons": dict(more["epsilons"]), "budget": "bottom-up"}
    spec = requested(FunctionalOptions, task=task, epsilon=epsilon, delta=delta, **more)
    schemas = tuple(table.public() for table in tables)
    made: FunctionalPlan = spec.plan(group or group_of(tables), schemas, rows or tables[0].rows)
    return made


class Remembered:
    """A block's noise whose parts are remembered, or left out altogether."""

    def __init__(self, noise: object, *, silent: bool) -> None:
        self.noise, self.silent, self.drawn = noise, silent, list[Any]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.noise, name)

    def part(self, group: Group) -> Any:
        part = untyped(self.noise).part(group)

        def draw(shape: int, randomness: SystemRandomness) -> NDArray[np.int64]:
            if self.silent:
                return np.zeros(shape, dtype=np.int64)
            self.drawn.append(part.draw(shape, randomness))
            return np.asarray(self.drawn[-1])

        return SimpleNamespace(draw=draw)


def with_noise(plan: FunctionalPlan, *, silent: bool) -> FunctionalPlan:
    return replace(plan, noises=untyped(tuple(Remembered(noise, silent=silent) for noise in plan.noises)))


def run_plan(plan: FunctionalPlan, tables: list[Table], **how: Any) -> Outcome:
    return run_protocol(functional_mechanism, plan, tables, **how)
