"""Ledgers with a budget for every owner, and runs of one protocol between alignment and opening."""

from collections.abc import Iterable, Mapping
from typing import Any

from typed import there

from colonnade.data.table import Table
from colonnade.ledger import Ledger
from colonnade.protocols.agreement import meet
from colonnade.protocols.alignment import align
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import Outcome, PartyInputs, run_here
from colonnade.runtime.wire import decode


def ledgers_for(group: Group, epsilon: float = 200.0) -> dict[str, Ledger]:
    ledgers = {name: Ledger.in_memory(name) for name in group.members}
    for name in group.owners:
        ledgers[name].set_budget(name, "*", "*", epsilon=epsilon, delta=1e-5)
    return ledgers


def inputs_for(
    group: Group, tables: Iterable[Table] = (), ledgers: Mapping[str, Any] | None = None
) -> dict[str, PartyInputs]:
    by_name = {table.party: table for table in tables}
    books = ledgers or ledgers_for(group)
    return {name: PartyInputs(books[name], by_name.get(name), dataset=name) for name in group.members}


def received(outcome: Outcome, member: str, kind: str, array: str) -> list[tuple[str, Any]]:
    """The arrays of this name that a member saw at steps of one kind, in order, each with its step."""
    found = [seen for seen in there(outcome.seen[member]) if seen.step.startswith(kind)]
    return [(seen.step, decode(seen.frame)[1].arrays[array]) for seen in found]


def run_protocol(
    protocol: Any,
    plan: Any,
    tables: list[Table],
    *,
    record: bool = False,
    ledgers: Any = None,
    times: int = 1,
) -> Outcome:
    """The protocol as every party runs it, with the aligned rows beside what it opens."""

    async def program(party: Party, table: Table | None) -> tuple[Any, Any]:
        await meet(party)
        aligned = await align(party, table, "equal")
        for _ in range(times):
            opened = await protocol(party, aligned, plan)
        return opened, aligned

    return run_here(program, plan.group, inputs_for(plan.group, tables, ledgers), record=record)
