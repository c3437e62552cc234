"""Small federations for the functional mechanism, and noise that is silent or remembered."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from plan_runs import run_protocol
from training_specs import requested
from typed import untyped

from colonnade.data.schema import Schema
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
    active = active or parties[0]
    draw = np.random.default_rng([seed, rows])
    arrays = {
        party: {f"{party}{i}": draw.uniform(-1.1, 1.1, rows) for i in range(width)} for party in parties
    }
    score = sum(values for party in parties for values in arrays[party].values())
    tables = []
    for party in parties:
        text, mine = "id='n'\n", {}
        if party not in empty:
            for name, values in arrays[party].items():
                text += f"[columns.{name}]\nkind='numeric'\nlow=-1\nhigh=1\n"
                mine[name] = values
            text += f"[columns.{party}_kind]\nkind='categorical'\ncategories=['a','b','c']\n"
            mine[f"{party}_kind"] = draw.choice(["a", "b", "c"], rows)
        if party == active:
            text += LABELS[task]
            noisy = score + draw.normal(size=rows) / 2
            mine["y"] = np.where(noisy > 0.5, "yes", "no") if task == "classification" else noisy
        tables.append(Table.from_arrays(party, mine, Schema.parse(text)))
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
    schemas = tuple(table.public() for table in tables)
    group = group or group_of(tables)
    rows = rows or tables[0].rows
    if "epsilons" in more:
        more |= {"epsilons": dict(more["epsilons"]), "budget": "bottom-up"}
    made: FunctionalPlan = requested(FunctionalOptions, task=task, epsilon=epsilon, delta=delta, **more).plan(
        group, schemas, rows
    )
    return made


@dataclass(frozen=True)
class Remembered:
    """A block's noise whose parts are remembered, or left out altogether."""

    noise: object
    drawn: list[Any] = field(default_factory=list[Any], compare=False)
    silent: bool = False

    def __getattr__(self, name: str) -> Callable[..., Any] | bool:
        result: Callable[..., Any] | bool = getattr(self.noise, name)
        return result

    def part(self, group: Group) -> Any:
        return _Part(self, untyped(self.noise).part(group))


@dataclass(frozen=True)
class _Part:
    of: Remembered
    part: object

    def draw(self, shape: int, randomness: SystemRandomness) -> NDArray[np.int64]:
        if self.of.silent:
            return np.zeros(shape, dtype=np.int64)
        self.of.drawn.append(untyped(self.part).draw(shape, randomness))
        result: NDArray[np.int64] = self.of.drawn[-1]
        return result


def with_noise(plan: FunctionalPlan, *, silent: bool) -> FunctionalPlan:
    """The plan with noises that remember what was drawn; silent ones draw zeros."""
    return replace(plan, noises=untyped(tuple(Remembered(noise, [], silent) for noise in plan.noises)))


def run_plan(plan: FunctionalPlan, tables: list[Table], **how: Any) -> Outcome:
    return run_protocol(functional_mechanism, plan, tables, **how)
