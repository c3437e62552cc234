"""What a plan would cost, by running it: the real protocol on blank rows, with nobody's data and no real ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from colonnade.data.block import Block
from colonnade.data.columns import NumericColumn
from colonnade.data.schema import PublicSchema
from colonnade.ledger import Ledger
from colonnade.privacy.guarantee import Guarantee
from colonnade.protocols.agreement import agree, meet
from colonnade.protocols.functional_mechanism import functional_mechanism
from colonnade.protocols.functional_plan import FunctionalPlan
from colonnade.protocols.moments_plan import MomentsPlan
from colonnade.protocols.noisy_moments import noisy_moments
from colonnade.runtime.party import Party
from colonnade.runtime.run import Desk, run_here

# Budgets have a δ also where a plan of pure ε does without.
_BLANK_DELTA = 1e-9


@dataclass(frozen=True)
class BlankRows:
    """Rows that say nothing: every number at its lower bound, every category the first."""

    schema: PublicSchema
    rows: int

    def blocks(self, size: int) -> Iterator[Block]:
        """The rows in blocks, made as they are asked for."""
        for start in range(0, self.rows, size):
            count = min(size, self.rows - start)
            columns = {
                column.name: np.full(count, column.low)
                if isinstance(column, NumericColumn)
                else np.zeros(count, dtype=np.int32)
                for column in self.schema.columns
            }
            label = None if self.schema.label is None else np.zeros(count, dtype=np.int32)
            yield Block(columns, label, count)


@dataclass(frozen=True)
class Bill:
    """ε for every observer, and what would go over the wire."""

    guarantees: tuple[Guarantee, ...]
    bytes_by_step: Mapping[str, int]
    rounds: int

    @property
    def bytes_sent(self) -> int:
        """Everything that would go over the wire."""
        return sum(self.bytes_by_step.values())


def bill(plan: MomentsPlan | FunctionalPlan) -> Bill:
    """Run the plan on blanks: no data is read and no ledger is touched.

    Bytes and rounds are those of the real run after its introductions, since nothing a party sends has a
    size that depends on rows' contents.
    """

    async def program(party: Party, table: BlankRows | None) -> None:
        await meet(party)
        await agree(party, "plan", plan.to_data())
        if isinstance(plan, FunctionalPlan):
            await functional_mechanism(party, table, plan)
        else:
            await noisy_moments(party, table, plan)

    schemas = {schema.party: schema for schema in plan.schemas}
    desks = {}
    for member in plan.group.members:
        ledger = Ledger.in_memory(member)
        ledger.set_budget("blank", "*", "*", epsilon=1e9, delta=plan.delta or _BLANK_DELTA)
        table = BlankRows(schemas[member], plan.rows) if member in schemas else None
        desks[member] = Desk(ledger, table, dataset="blank")
    outcome = run_here(program, plan.group, desks)
    return Bill(plan.guarantees, outcome.bytes_by_step, outcome.rounds)
