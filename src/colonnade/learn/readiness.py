"""What can be found wrong before a run is found before it: nothing is charged for a run that must fail.

The protocol would find all of it too, but partly after ledgers were charged: a row that cannot be read shows
when its block is dealt, and a party learns of a peer's refusal after its own ledger has said yes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from colonnade.data.table import Table
from colonnade.ledger import Ledger
from colonnade.ledger.admission import admit
from colonnade.ledger.book import Book
from colonnade.protocols.moments_plan import MomentsPlan
from colonnade.protocols.moments_session import MomentsRequest
from colonnade.runtime.group import Group
from colonnade.runtime.party import silent

Progress = Callable[[str, int, int], None]


def check_tables(tables: Mapping[str, Table], *, progress: Progress = silent) -> None:
    """Read every row of every party once; the first that is not as declared is a `DataError`."""
    for party, table in tables.items():
        step = f"checking {party}"
        progress(step, 0, table.rows)
        for _ in table.ids():
            pass
        seen = 0
        for block in table.blocks():
            seen += block.rows
            progress(step, seen, table.rows)


def check_plan(request: MomentsRequest, group: Group, tables: Mapping[str, Table]) -> MomentsPlan | None:
    """The plan of a request, or the `PlanError` that it would end in.

    How many people the parties have in common shows only when they meet: the plan is for the most it can be.
    None where the ids must be equal and already their numbers are not, for which alignment has the words.
    """
    rows = {table.rows for table in tables.values()}
    if request.alignment == "equal" and len(rows) != 1:
        return None
    return request.plan(group, tuple(tables[owner].public() for owner in group.owners), min(rows))


def check_budgets(plan: MomentsPlan, ledgers: Mapping[str, Ledger], datasets: Mapping[str, str]) -> None:
    """Ask every owner's ledger whether it would admit the release; writes nothing.

    The answer binds nobody: `charge` decides again when the run comes to it.
    """
    for owner in plan.group.owners:
        book = Book(f"the ledger of {owner}")
        for entry in ledgers[owner].entries():
            book.read(entry)
        admit(book, plan.release(owner, run="before the run", reproducible=False), datasets[owner])
