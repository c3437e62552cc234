"""Logistic regression by gradient descent under Paillier encryption, between owners alone.

Box of the protocol, for every batch t (docs/proofs/encrypted-gradient.md):

1. all charge their ledgers for the whole schedule before the first batch, and make keys;
2. every owner computes its scores xᵢw, the owner of the label xᵢw − 2yᵢ; with a defence it adds noise and clips;
3. for every receiver the others' messages are added up under encryption; it multiplies them by its columns and masks;
4. the owner of the key decrypts and returns what it cannot read; the receiver takes off the mask: its gradient;
5. every owner updates its own weights, which stay with it.

Powers and comparisons of a sum cannot be taken under this encryption. With the minimax and piecewise approximations the
owner of the label therefore reads the sum of the others' scores, computes the coefficients, and sends them encrypted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.packing import from_fixed
from colonnade.data.table import Table
from colonnade.methods.encrypted.exchange import Exchange, Question
from colonnade.methods.encrypted.owner import OwnerState, OwnerTranscript
from colonnade.methods.encrypted.plan import EncryptedPlan
from colonnade.protocols.charging import charge_first
from colonnade.protocols.session import RowSource, SessionResult, confirm, prepare
from colonnade.protocols.specs import TrainingSpec
from colonnade.runtime.party import Party

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Descended(SessionResult[EncryptedPlan]):
    """An owner's own weights at the end of a run; nothing at a member that owns no columns."""

    weights: Array
    diary: OwnerTranscript | None = None


async def encrypted_session(
    party: Party, table: Table | None, spec: TrainingSpec, question: Question | None = None
) -> Descended:
    """Prepare, descend, end together. Every owner comes away with its own weights and nobody with another's.

    `question` is for attacks: what a receiver asks instead of what was agreed.
    """
    aligned, plan = await prepare(party, table, spec, EncryptedPlan)
    weights, diary = await encrypted_gradient(party, aligned, plan, question)
    await confirm(party, "")
    return Descended(plan, party.run, party.seeded, aligned, weights, diary)


async def encrypted_gradient(
    party: Party, table: RowSource | None, plan: EncryptedPlan, question: Question | None = None
) -> tuple[Array, OwnerTranscript | None]:
    """This owner's weights after all epochs, and, where the run is recorded, what it could write down."""
    await charge_first(party, plan.release(party.name, run=party.run, reproducible=party.seeded))
    if not party.owns_columns:
        return np.zeros(0), None
    holding = OwnerState(party.name, table, plan, party.randomness)
    exchange = Exchange(party, plan, question)
    await exchange.begin()
    batches, weights, sums, scores = [], [], [], []
    number = 0
    for epoch in range(plan.schedule.epochs):
        for rows in plan.batches(epoch):
            before = holding.weights
            total, others = await _batch(party, plan, holding, exchange, rows, f"batch {number}")
            number += 1
            party.progress("batches", number, plan.schedule.steps)
            if party.seen is not None:
                batches.append(rows)
                weights.append(before)
                sums.append(total)
                scores.append(others)
    kept = OwnerTranscript(tuple(batches), tuple(weights), tuple(sums), tuple(scores))
    return holding.weights, kept if party.seen is not None else None


async def _batch(
    party: Party, plan: EncryptedPlan, holding: OwnerState, exchange: Exchange, rows: Integers, step: str
) -> tuple[Array, Array]:
    """One batch: Σ f·x as this owner sees it, and the others' scores where it reads them."""
    if plan.splits:
        return await _split_batch(party, plan, holding, exchange, rows, step), np.zeros(0)
    return await _coefficient_batch(party, plan, holding, exchange, rows, step)


async def _split_batch(
    party: Party, plan: EncryptedPlan, holding: OwnerState, exchange: Exchange, rows: Integers, step: str
) -> Array:
    receivers = [owner for owner in plan.group.owners if plan.width(owner)]
    # One message for all: with fresh noise for each receiver, receivers could average.
    mine = holding.message(rows)
    # Whoever is first sends without waiting; those in between follow in one order everywhere, so that nobody waits
    # for somebody who waits for it.
    others = [receiver for receiver in receivers if receiver != party.name]
    for receiver in sorted(others, key=lambda name: plan.relay(name)[0] != party.name):
        await exchange.contribute(receiver, mine, step)
    masks = []
    if party.name in receivers:
        numbers = await exchange.collect(len(rows), step)
        masks = await exchange.ask(numbers, holding.integers[rows], step)
    for receiver in others:
        if plan.relay(receiver)[0] == party.name:
            await exchange.answer(receiver, step)
    received: tuple[int, ...] = ()
    if party.name in receivers:
        received = await exchange.read(masks, len(rows), step)
    return holding.descend_split(rows, received)


async def _coefficient_batch(
    party: Party, plan: EncryptedPlan, holding: OwnerState, exchange: Exchange, rows: Integers, step: str
) -> tuple[Array, Array]:
    passives = [owner for owner in plan.group.owners if owner != plan.active]
    if party.name != plan.active:
        await exchange.contribute(plan.active, holding.on_grid(holding.scores(rows)), step)
        numbers = await exchange.collect(len(rows), step)
        masks = await exchange.ask(numbers, holding.integers[rows], step)
        return holding.descend(holding.real(await exchange.read(masks, len(rows), step))), np.zeros(0)
    summed = await exchange.read_sums(len(rows), step)
    others = from_fixed(summed, plan.fraction_bits)
    coefficients = holding.coefficients(rows, others)
    for passive in passives:
        await exchange.contribute(passive, holding.on_grid(coefficients), step)
    for passive in passives:
        await exchange.answer(passive, step)
    return holding.descend(holding.features[rows].T @ coefficients), others
