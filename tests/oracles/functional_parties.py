"""Small federations for the functional mechanism, and noise that is silent or remembered."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.ledger import Ledger
from colonnade.methods.functional.protocol import functional_mechanism
from colonnade.methods.functional.request import FunctionalRequest
from colonnade.protocols.agreement import meet
from colonnade.protocols.alignment import align
from colonnade.runtime.group import Group
from colonnade.runtime.run import Desk, run_here

NAMES = ("bank", "insurer", "shop", "clinic", "school")
LABELS = {
    "classification": "[label]\ncolumn='y'\nkind='classes'\nclasses=['no','yes']\n",
    "regression": "[label]\ncolumn='y'\nkind='real'\nlow=-4\nhigh=4\n",
}


def tables_of(parties, rows, *, task="classification", active=None, seed=0, width=2, empty=()):
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


def group_of(tables, **roles):
    active = next(table.party for table in tables if table.schema.label is not None)
    return Group.of(tuple(table.party for table in tables), active=active, **roles)


def plan_for(tables, *, task="classification", epsilon=1.0, delta=1e-5, rows=None, group=None, **more):
    schemas = tuple(table.public() for table in tables)
    group = group or group_of(tables)
    rows = rows or tables[0].rows
    if "epsilons" in more:
        more["epsilons"] = tuple(dict(more["epsilons"]).items())
    return FunctionalRequest(task=task, epsilon=epsilon, delta=delta, **more).plan(group, schemas, rows)


@dataclass(frozen=True)
class Remembered:
    """A block's noise whose parts are remembered, or left out altogether."""

    noise: object
    drawn: list = field(default_factory=list, compare=False)
    silent: bool = False

    def __getattr__(self, name):
        return getattr(self.noise, name)

    def part(self, group):
        return _Part(self, self.noise.part(group))


@dataclass(frozen=True)
class _Part:
    of: Remembered
    part: object

    def draw(self, shape, randomness):
        if self.of.silent:
            return np.zeros(shape, dtype=np.int64)
        self.of.drawn.append(self.part.draw(shape, randomness))
        return self.of.drawn[-1]


def with_noise(plan, *, silent):
    """The plan with noises that remember what was drawn; silent ones draw zeros."""
    return replace(plan, noises=tuple(Remembered(noise, [], silent) for noise in plan.noises))


def ledgers_for(group, epsilon=50.0):
    ledgers = {name: Ledger.in_memory(name) for name in group.members}
    for name in group.owners:
        ledgers[name].set_budget(name, "*", "*", epsilon=epsilon, delta=1e-5)
    return ledgers


def run_plan(plan, tables, *, ledgers=None, record=False):
    """The protocol between alignment and opening, as every party runs it."""

    async def program(party, table):
        await meet(party)
        aligned = await align(party, table, "equal")
        return await functional_mechanism(party, aligned, plan), aligned

    by_name = {table.party: table for table in tables}
    books = ledgers or ledgers_for(plan.group)
    desks = {name: Desk(books[name], by_name.get(name), dataset=name) for name in plan.group.members}
    return run_here(program, plan.group, desks, record=record)
