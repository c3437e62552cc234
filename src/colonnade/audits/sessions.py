"""One session of a method's own protocol among all its parties, in this process, recorded as each of them saw it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from colonnade.audits.people import People, table_of
from colonnade.audits.recorded_randomness import RecordedRandomness
from colonnade.data.schema import PublicSchema
from colonnade.ledger import Ledger
from colonnade.protocols.specs import Spec
from colonnade.randomness import Randomness, SeededRandomness, SystemRandomness
from colonnade.runtime.group import Group
from colonnade.runtime.memory import memory_network
from colonnade.runtime.party import Party
from colonnade.runtime.run import Outcome, PartyInputs, Program, run_here
from colonnade.runtime.wire import Message, decode

# Audits are of synthetic or public people, with ledgers that end with them; nothing of it is anybody's budget.
_UNLIMITED = 1e9


@dataclass(frozen=True, eq=False)
class Session:
    """What came of one session: results, frames by member, and the coins of everybody who deals noise,
    of owners those since they read their last row."""

    plan: Any
    outcome: Outcome
    people: People
    randomness: Mapping[str, RecordedRandomness]

    def result(self, member: str) -> Any:
        return self.outcome.results[member]

    def heard(self, member: str, step: str, *, sender: str | None = None) -> list[Message]:
        """What a member received at steps of this kind, in order, from everybody or from one sender."""
        return [
            decode(seen.frame)[1]
            for seen in self.outcome.seen[member] or ()
            if seen.step.split(" ")[0] == step and sender in (None, seen.sender)
        ]

    def alone(self, owner: str) -> Party:
        """A party that can draw again, for itself, what it drew in the session since it read its last row."""
        return alone(self.plan.group, owner, self.randomness[owner].again())


def alone(group: Group, owner: str, randomness: Randomness) -> Party:
    """A party with these coins and nobody to talk to."""
    return Party(owner, group, memory_network((owner,))[owner], Ledger.in_memory(owner), randomness)


@dataclass(eq=False)
class Sessions:
    """As many sessions as are asked for, of one request among these parties; `seed` makes them repeat."""

    program: Program
    group: Group
    schemas: tuple[PublicSchema, ...]
    timeout: float = 600.0
    seed: int | None = None
    count: int = field(default=0, init=False)

    def randomness(self, member: str) -> Randomness:
        """Where a member draws from in the next session."""
        if self.seed is None:
            return SystemRandomness()
        return SeededRandomness(f"audit {self.seed}/{self.count}/{member}")

    def run(self, request: Spec, people: People) -> Session:
        randomness = {member: RecordedRandomness(self.randomness(member)) for member in self.group.dealers}
        inputs = {}
        for member in self.group.members:
            ledger = Ledger.in_memory(member)
            if member in self.group.owners:
                ledger.set_budget(member, "*", "*", epsilon=_UNLIMITED, delta=0.5)
                schema = next(schema for schema in self.schemas if schema.party == member)
                table = table_of(schema.with_ids(), member, people[member], randomness[member].mark)
                inputs[member] = PartyInputs(ledger, table, dataset=member, randomness=randomness[member])
            else:
                own = randomness.get(member) or self.randomness(member)
                inputs[member] = PartyInputs(ledger, dataset=member, randomness=own)
        outcome = run_here(self.program, self.group, inputs, request, timeout=self.timeout, record=True)
        self.count += 1
        return Session(outcome.results[self.group.owners[0]].plan, outcome, people, randomness)
