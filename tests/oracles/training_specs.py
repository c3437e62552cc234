"""What is asked of a method in a test, in one line: which words are the job's and which the method's is known here.

And a plan that is run between alignment and publication alone.
"""

from collections.abc import Awaitable, Callable
from dataclasses import fields
from typing import Any

from colonnade.data.schema import Schema
from colonnade.data.table import AlignedTable, Table
from colonnade.ledger import Ledger
from colonnade.methods.glm.losses import Penalty
from colonnade.protocols.agreement import meet
from colonnade.protocols.alignment import align
from colonnade.protocols.evaluation import EvaluationPlan, EvaluationSpec
from colonnade.protocols.plans import Options, Plan, Task, TrainingSpec
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import Outcome, PartyInputs, run_here

_OWN = {item.name for item in fields(TrainingSpec)} - {"options", "gamma"}


def requested(
    options: type[Options], task: Task = "classification", epsilon: float = 1.0, **given: Any
) -> TrainingSpec:
    """A spec with these options, taken as they are: what a form would refuse, a plan refuses too.

    γ is the method's own where it has one.
    """
    own = _OWN | ({"gamma"} - set(options.model_fields))
    spec = {name: value for name, value in given.items() if name in own}
    chosen = {name: value for name, value in given.items() if name not in own}
    if isinstance(penalty := chosen.get("penalty"), Penalty):
        chosen |= penalty_options(penalty)
    if unknown := set(chosen) - set(options.model_fields):
        raise TypeError(f"{options.__name__} has no {unknown}")
    return TrainingSpec(task, epsilon, options=options.model_construct(**chosen), **spec)


def penalty_options(penalty: Penalty) -> dict[str, Any]:
    if penalty.l1 and penalty.l2:
        return {"penalty": "elastic_net", "strength": penalty.l1, "mix": penalty.l2 / penalty.l1}
    if penalty.l1:
        return {"penalty": "l1", "strength": penalty.l1}
    return {"penalty": "l2" if penalty.l2 else "none", "strength": penalty.l2}


def ledgers_for(group: Group, epsilon: float = 200.0) -> dict[str, Ledger]:
    ledgers = {name: Ledger.in_memory(name) for name in group.members}
    for name in group.owners:
        ledgers[name].set_budget(name, "*", "*", epsilon=epsilon, delta=1e-5)
    return ledgers


def run_aligned(
    work: Callable[[Party, AlignedTable | None], Awaitable[Any]],
    plan: Plan,
    tables: list[Table],
    *,
    ledgers: dict[str, Ledger] | None = None,
    record: bool = False,
) -> Outcome:
    """What every party does with its aligned rows, as every party does it."""

    async def program(party: Party, table: Table | None) -> Any:
        await meet(party)
        return await work(party, await align(party, table, "equal"))

    by_name = {table.party: table for table in tables}
    books = ledgers or ledgers_for(plan.group)
    desks = {name: PartyInputs(books[name], by_name.get(name), dataset=name) for name in plan.group.members}
    return run_here(program, plan.group, desks, record=record)


def evaluation_plan(label: str, ranges: tuple[tuple[float, float], ...], rows: int) -> EvaluationPlan:
    """Of a model over a number at each of two owners, the first with this label."""
    text = 'id = "n"\ncolumns.value = {kind = "numeric", low = -1, high = 1}\n'
    schemas = (Schema.parse(f"{text}label = {{{label}}}").public("bank"), Schema.parse(text).public("shop"))
    group = Group.of(("bank", "shop"), active="bank")
    made: EvaluationPlan = EvaluationSpec("5f0c", ranges, 1.0, delta=1e-5).plan(group, schemas, rows)
    return made
