"""Logistic regression by noisy gradients: secret batches, one opened vector a step."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from colonnade.data.table import Table
from colonnade.errors import LocalProtocolError, RemoteProtocolError
from colonnade.methods.slr.plan import RATE_BITS, Array, GradientPlan, SlrDescent
from colonnade.numbers.field import FieldArray
from colonnade.protocols.agreement import agree_on_public, charge_first
from colonnade.protocols.messages import exchange, hear, tell
from colonnade.protocols.plans import TrainingSpec
from colonnade.protocols.session import RowSource, SessionResult, own_rows, prepare, publish
from colonnade.protocols.sharing import Shared, open_to, share_noise
from colonnade.protocols.verified_rows import share_rows
from colonnade.randomness import KeyedRandomness
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

Integers = NDArray[np.int64]
_BYTES = 32


async def share_batch_key(party: Party) -> bytes:
    mine = Message({"contribution": party.randomness.bytes(_BYTES)})
    said = {party.name: mine, **await exchange(party, "batch key", mine, party.group.owners)}
    whole = hashlib.sha256(f"colonnade batches: {party.run}".encode())
    for owner in party.group.owners:
        contribution = said[owner].fields.get("contribution")
        if type(contribution) is not bytes or len(contribution) != _BYTES:
            raise RemoteProtocolError(
                f"{party.name} at step 'batch key', from {owner}: a contribution has {_BYTES} bytes"
            )
        whole.update(contribution)
    key = whole.digest()
    if len(party.group.owners) > 2:
        # An owner that told two others different contributions would mix different people's columns in one row.
        await agree_on_public(party, "batch key", party.group.owners, np.frombuffer(key, dtype=np.uint8))
    return key


class Batches:
    """The batches of a run, one after another; every owner who holds the key makes the same.

    Guarantee: a batch has `capacity` places, no record is in more than `uses` batches, and but for a probability of
    `limits_cost` over the run each record is in each batch with probability `rate`, independently.
    """

    def __init__(self, plan: GradientPlan, key: bytes) -> None:
        self._plan, self._key = plan, key
        self._used = np.zeros(plan.rows, dtype=np.int32)
        self._step = 0

    def next(self) -> NDArray[np.int64]:
        """The record in each place; −1 where there is none."""
        plan = self._plan
        randomness = KeyedRandomness(hashlib.sha256(self._key + self._step.to_bytes(8, "little")).digest())
        self._step += 1
        words = randomness.words(-(-plan.rows // 2)).view(np.uint32)[: plan.rows]
        drawn = words < int(plan.schedule.rate * (1 << RATE_BITS)) if plan.schedule.rate < 1 else words >= 0
        drawn &= self._used < plan.uses
        self._used += drawn
        members = np.flatnonzero(drawn)
        places = np.full(max(plan.capacity, len(members)), -1, dtype=np.int64)
        places[: len(members)] = members
        # A random order; of more members than places, random ones are kept.
        order = np.argsort(randomness.words(len(places)), kind="stable")
        return places[order][: plan.capacity]


async def noisy_gradient(party: Party, table: RowSource | None, plan: GradientPlan) -> Array | None:
    """The trained weights at the server, None elsewhere."""
    server, steps = party.group.server, plan.schedule.steps
    release = plan.release(party.name, run=party.run, reproducible=party.seeded)
    await charge_first(party, release)
    rows = integer_rows(party, table, plan) if party.owns_columns else None
    batches = Batches(plan, await share_batch_key(party)) if party.owns_columns else None
    cap = float(plan.schedule.weight_cap)
    descent = (
        SlrDescent(plan.size, plan.schedule.optimiser, cap=cap, steps=steps) if party.is_server else None
    )
    for step in range(steps):
        weights = await _published_weights(party, descent, plan, step)
        places = None if batches is None else batches.next()
        gradient = FusedSum(plan, weights, keeps_shares=party.keeps_shares)
        for number, start in enumerate(range(0, plan.capacity, plan.block)):
            count = min(plan.block, plan.capacity - start)
            mine = None
            if rows is not None and places is not None:
                mine = batch_rows(rows, places[start : start + count])
            label = f"batch {step}.{number}"
            columns = await share_rows(party, mine, count, plan, step=label)
            gradient.add(columns)
        noise = await share_noise(
            party, lambda: noise_part(party, plan), plan.size, scheme=plan.scheme, step=f"noise {step}"
        )
        noisy = gradient.value() + noise
        label = f"gradient {step}"
        opened = await open_to(party, server, noisy, scheme=plan.scheme, release=release, step=label)
        if descent is not None and opened is not None:
            expected = float(plan.rows * plan.schedule.rate)
            descent.step(opened[0].astype(np.float64) / (4.0 * plan.gamma**3 * expected))
        party.progress("steps", step + 1, steps)
    return None if descent is None else descent.model


def noise_part(party: Party, plan: GradientPlan) -> Integers:
    return plan.noise.part(party.group.whole).draw((1, plan.size), party.randomness)


class FusedSum:
    """Shares of Σ x̃(2γ² + ⟨w̃, x̃⟩ − 4γỹ) over blocks of rows; a zero row adds nothing, whatever the rest is."""

    def __init__(self, plan: GradientPlan, weights: Integers, *, keeps_shares: bool) -> None:
        self._plan, self._keeps_shares = plan, keeps_shares
        self._sum: FieldArray | None = None
        self._weights, start = {}, 0
        for owner, width in plan.widths.items():
            mine = weights[start : start + width]
            if owner == plan.label_holder:
                # The label is dealt beside the features, as one more factor of the bracket: −γ or γ, so that
                # −2γ times it is 2γ² − 4γỹ, and whoever keeps to that norm keeps to the bracket's bound.
                mine = np.append(mine, -2 * plan.gamma)
            self._weights[owner] = plan.field.encode(mine[:, None])
            start += width

    def add(self, columns: Mapping[str, Shared]) -> None:
        if not self._keeps_shares:
            return
        plan, shares = self._plan, {}
        for owner in plan.group.owners:
            mine = columns[owner].share
            if mine is None or columns[owner].degree != plan.group.threshold:
                raise LocalProtocolError(f"a computing party lacks a share of degree t of {owner}'s batch")
            shares[owner] = mine
        bracket = reduce(FieldArray.__add__, (mine @ self._weights[owner] for owner, mine in shares.items()))
        # The last column of the label holder is the label: its product with the bracket is left out.
        first, *rest = (
            mine.transpose_times(bracket).rows(0, plan.widths[owner]) for owner, mine in shares.items()
        )
        block = first.stack_rows(rest)
        self._sum = block if self._sum is None else self._sum + block

    def value(self) -> Shared:
        shape = (1, self._plan.size)
        share = None if self._sum is None else self._sum.reshape(shape)
        return Shared(share, shape, 2 * self._plan.group.threshold)


def integer_rows(party: Party, table: RowSource | None, plan: GradientPlan) -> NDArray[np.signedinteger]:
    """This owner's part of every row, in the narrowest integers: features, then constant and label where held."""
    quantizer = plan.quantizers[party.name]
    kind = np.int16 if 2 * plan.gamma < 1 << 15 else np.int32
    rows = np.empty((plan.rows, plan.dealt[party.name]), dtype=kind)
    start = 0
    for block in own_rows(party.name, table, plan.rows).blocks(1 << 14):
        stop = start + block.rows
        rows[start:stop, : quantizer.width] = quantizer.quantize(block, party.randomness)
        if party.name == plan.label_holder:
            if block.label is None:
                raise LocalProtocolError(f"{party.name} holds the label but brought rows without it")
            rows[start:stop, -2] = plan.constant
            rows[start:stop, -1] = plan.gamma * (2 * block.label.astype(np.int64) - 1)
        start = stop
    return rows


def batch_rows(rows: NDArray[np.signedinteger], places: Integers) -> Integers:
    """The rows in these places, zero rows where there is nobody."""
    used = np.zeros((len(places), rows.shape[1]), dtype=np.int64)
    there = places >= 0
    used[there] = rows[places[there]]
    return used


async def _published_weights(
    party: Party, descent: SlrDescent | None, plan: GradientPlan, step: int
) -> Integers:
    """Sensitivity rests on their norm, and on every party's using the same (docs/proofs/public-state.md)."""
    label = f"weights {step}"
    if descent is not None:
        weights = descent.on_grid(plan.gamma, plan.weight_squared)
        for member in party.group.others(party.name):
            await tell(party, member, label, Message(arrays={"weights": weights}))
        return weights
    said = await hear(party, party.group.server, label)
    weights = said.array("weights", dtype="i8", shape=(plan.size,))
    if sum(int(entry) ** 2 for entry in weights) > plan.weight_squared:
        raise said.wrong("its weights are longer than the plan allows")
    await agree_on_public(party, label, party.group.others(party.group.server), weights)
    return weights


@dataclass(frozen=True, eq=False)
class TrainedWeights(SessionResult[GradientPlan]):
    """In the order of the plan's owners, the constant last of the label holder's; empty where only shares were kept."""

    weights: Array


async def gradient_session(party: Party, table: Table | None, spec: TrainingSpec) -> TrainedWeights:
    aligned, plan = await prepare(party, table, spec, GradientPlan)
    trained = await noisy_gradient(party, aligned, plan)

    def checked(said: Message) -> Array:
        read: Array = said.array("weights", dtype="f8", shape=(plan.size,))
        if not float(np.linalg.norm(read)) <= float(plan.schedule.weight_cap) * (1 + 1e-9):
            raise said.wrong("the published weights are longer than the plan allows")
        return read

    weights = await publish(party, trained, "model", "weights", checked, np.zeros(0))
    return TrainedWeights(plan, party.run, party.seeded, aligned, weights)
