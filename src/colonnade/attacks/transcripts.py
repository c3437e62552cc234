"""Runs to attack, between parties in this process that all declared their data public, recorded as each saw them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.attacks.views import PartyView
from colonnade.data.table import Table
from colonnade.ledger import Ledger
from colonnade.methods.encrypted.exchange import Question
from colonnade.methods.encrypted.ideal import IdealDescent, ideal_descent
from colonnade.methods.encrypted.owner import OwnerState, OwnerTranscript
from colonnade.methods.encrypted.plan import EncryptedPlan
from colonnade.methods.encrypted.protocol import Descended, encrypted_session
from colonnade.protocols.specs import TrainingSpec
from colonnade.randomness import SystemRandomness
from colonnade.runtime.group import Group
from colonnade.runtime.party import Party, silent
from colonnade.runtime.run import PartyInputs, run_here

Array = NDArray[np.float64]
Asker = Callable[[EncryptedPlan, str], Question]
Progress = Callable[[str, int, int], None]
# Attacks run on public data, with ledgers that end with them; nothing of it is anybody's budget.
_UNLIMITED = 1e9


@dataclass(frozen=True, eq=False)
class Transcript:
    """What every owner could write down, and the truth to score an attack with."""

    plan: EncryptedPlan
    diaries: Mapping[str, OwnerTranscript]
    holdings: Mapping[str, OwnerState]

    @property
    def labels(self) -> Array:
        """The true labels, ±1."""
        labels = self.holdings[self.plan.active].labels
        if labels is None:
            raise ValueError("the active party brought no labels")
        return labels

    @property
    def largest_starting_score(self) -> float:
        """ε of corollary 4.5: the largest |θ₀ᵀx|, which the attacker knows from how weights are initialised."""
        scores = sum(
            (self.holdings[owner].features @ diary.weights[0] for owner, diary in self.diaries.items()),
            np.zeros(self.plan.rows),
        )
        return float(np.max(np.abs(scores)))

    def view(self, owner: str) -> PartyView:
        holding = self.holdings[owner]
        return PartyView(self.plan, owner, self.diaries[owner], holding.features, holding.labels)


def owners_alone(tables: Mapping[str, Table]) -> Group:
    """The group of these parties; two need nobody else."""
    holders = [party for party, table in tables.items() if table.schema.label is not None]
    active = holders[0] if holders else None
    if len(tables) == 2:
        first, second = tables
        return Group.pair(first, second, active=active)
    return Group.of(tuple(tables), active=active)


def planned(tables: Mapping[str, Table], request: TrainingSpec) -> EncryptedPlan:
    """The plan that these parties would agree on; all tables hold the same people in the same order."""
    rows = min(table.rows for table in tables.values())
    schemas = tuple(table.public() for table in tables.values())
    plan: EncryptedPlan = request.plan(owners_alone(tables), schemas, rows)
    return plan


def recorded(
    tables: Mapping[str, Table],
    request: TrainingSpec,
    *,
    attacker: str | None = None,
    asks: Asker | None = None,
    progress: Progress = silent,
) -> tuple[Transcript, Question | None]:
    """The protocol itself, every message of it; `attacker` asks something else than was agreed, if `asks` says so."""
    group = owners_alone(tables)
    question = asks(planned(tables, request), attacker) if asks is not None and attacker is not None else None
    inputs = {}
    for member in group.members:
        ledger = Ledger.in_memory(member)
        if member in tables:
            ledger.set_budget(member, "*", "*", epsilon=_UNLIMITED, delta=0.5)
        inputs[member] = PartyInputs(ledger, tables.get(member), dataset=member)

    async def program(party: Party, table: Table | None) -> Descended:
        return await encrypted_session(party, table, request, question if party.name == attacker else None)

    outcome = run_here(program, group, inputs, timeout=600.0, record=True, progress=progress)
    results: dict[str, Descended] = {owner: outcome.results[owner] for owner in group.owners}
    plan = results[group.owners[0]].plan
    diaries = {owner: result.diary for owner, result in results.items() if result.diary is not None}
    return Transcript(plan, diaries, _holdings(tables, plan)), question


def arbiters(tables: Mapping[str, Table], request: TrainingSpec) -> tuple[Transcript, IdealDescent]:
    """A run in which an arbiter tells every party its gradient after each batch, without encryption in between."""
    plan = planned(tables, request)
    randomness = {owner: SystemRandomness() for owner in plan.group.owners}
    ideal = ideal_descent(plan, tables, randomness)
    return Transcript(plan, ideal.diaries, _holdings(tables, plan)), ideal


def messages_by_epoch(plan: EncryptedPlan, ideal: IdealDescent, owner: str) -> list[Array]:
    """An owner's messages in the clear, an array an epoch in the order of the records, in natural units."""
    steps = plan.schedule.steps_per_epoch
    messages = []
    for epoch in range(plan.schedule.epochs):
        message = np.zeros(plan.rows)
        sent = ideal.messages[owner][epoch * steps : (epoch + 1) * steps]
        for rows, numbers in zip(plan.batches(epoch), sent, strict=True):
            message[rows] = numbers / (1 << plan.fraction_bits)
        messages.append(message)
    return messages


def _holdings(tables: Mapping[str, Table], plan: EncryptedPlan) -> dict[str, OwnerState]:
    return {owner: OwnerState(owner, tables[owner], plan, SystemRandomness()) for owner in plan.group.owners}
