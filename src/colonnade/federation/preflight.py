"""What can be found wrong before a run is found before it: nothing is charged for a run that must fail.

The protocol would find all of it too, but a party learns of a peer's refusal only after its own ledger has said yes.
What is wrong with rows each party finds itself when they meet, before any ledger is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from colonnade.data.documents import shown
from colonnade.data.table import Table
from colonnade.errors import DataError, InputError
from colonnade.ledger import Ledger, Release
from colonnade.ledger.admission import admit
from colonnade.ledger.state import LedgerState
from colonnade.protocols.parts import PartSpec
from colonnade.protocols.plans import Plan
from colonnade.protocols.specs import Spec
from colonnade.runtime.group import Group

PlanT = TypeVar("PlanT", bound=Plan)


def check_plan(spec: Spec, group: Group, tables: Mapping[str, Table]) -> Plan | None:
    """The plan of what is asked, or the `PlanError` that it would end in.

    How many people the parties have in common shows only when they meet: the plan is for the most it can be.
    None where the ids must be equal and already their numbers are not, for which alignment has the words.
    """
    rows = {table.rows for table in tables.values()}
    if spec.alignment == "equal" and len(rows) != 1:
        return None
    plan: Plan = spec.plan(group, tuple(tables[owner].public() for owner in group.owners), min(rows))
    return plan


def check_budgets(
    plan: Plan,
    ledgers: Mapping[str, Ledger],
    datasets: Mapping[str, str],
    parts: Mapping[str, PartSpec] | None = None,
) -> None:
    """Ask every owner's ledger whether it would admit the release; writes nothing.

    The answer binds nobody: `charge` decides again when the run comes to it.
    """
    for owner in plan.group.owners:
        release = release_before(plan, owner, (parts or {}).get(owner))
        admit(ledger_state(ledgers[owner]), release, datasets[owner])


def ledger_state(ledger: Ledger) -> LedgerState:
    """What a ledger's entries add up to, as a state of its own to ask."""
    state = LedgerState(f"the ledger of {ledger.party}")
    for entry in ledger.entries():
        state.read(entry)
    return state


def release_before(plan: Plan, owner: str, part: PartSpec | None = None) -> Release:
    """What an owner would charge for this plan, under the name of no run."""
    release = plan.release(owner, run="before the run", reproducible=False)
    return release if part is None else replace(release, part=part.before())


def by_party(tables: Iterable[Table]) -> dict[str, Table]:
    """The tables of a federation by the parties that hold them, one each."""
    parties: dict[str, Table] = {}
    for table in tables if isinstance(tables, Iterable) else (tables,):
        if not isinstance(table, Table):
            raise DataError(
                f"a federation is of tables, one for each party; found {type(table).__name__}. Make them with "
                "Table(party, file, schema) or Table.of."
            )
        if table.party in parties:
            raise DataError(
                f"two tables are of the party {table.party!r}, and each party has one. Join them by id, or give the "
                "other party its own name."
            )
        parties[table.party] = table
    return parties


def checked_budget(budget: object) -> tuple[float, float] | None:
    """A budget as a caller gave it, if it is ε and δ; what they may be is the ledger's to say."""
    if budget is None or (isinstance(budget, tuple | list) and len(budget) == 2):
        return None if budget is None else (budget[0], budget[1])
    raise InputError(f"budget = {shown(budget)} is not a pair. Give (epsilon, delta), such as (4.0, 1e-5).")
