"""Training by private intermediate results: noisy scores to the active party, noisy residuals back.

Every passive party sees the one noisy message of residuals, the same for all, so that pooling it shows nothing more.
The server sees nothing. Weights never leave their party: nothing here covers publishing them
(docs/private-messages.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.data.table import AlignedTable, Table
from colonnade.errors import LocalProtocolError
from colonnade.methods.glm.rows import CONSTANT
from colonnade.methods.messages.plan import GRID_BITS, PrivateMessagesPlan
from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise
from colonnade.protocols.agreement import agree_on_public, charge_first
from colonnade.protocols.messages import hear, tell
from colonnade.protocols.plans import TrainingSpec
from colonnade.protocols.session import SessionResult, from_start_to_end
from colonnade.randomness import Randomness, public_permutation
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

Array = NDArray[np.float64]
# Noise drawn at a time.
_DRAWN = 1 << 16
# Messages that nobody clips still fit 64 bits with their noise.
_EXTENT = 2.0**40


@dataclass(frozen=True, eq=False)
class TrainedPart(SessionResult[PrivateMessagesPlan]):
    """`weights` act on the owner's clipped rows; at the active party the last one is the constant's."""

    weights: Array | None


@dataclass(eq=False)
class MessagesDescent:
    weights: Array
    rate: float
    step: int = 0


async def private_messages_session(party: Party, table: Table | None, spec: TrainingSpec) -> TrainedPart:
    aligned, plan, state = await from_start_to_end(
        party, table, spec, PrivateMessagesPlan, private_messages_results
    )
    return TrainedPart(plan, party.run, party.seeded, aligned, None if state is None else state.weights)


async def private_messages_results(
    party: Party, table: AlignedTable | None, plan: PrivateMessagesPlan
) -> MessagesDescent | None:
    await charge_first(party, plan.release(party.name, run=party.run, reproducible=party.seeded))
    if not party.owns_columns:
        return None
    if table is None:
        raise LocalProtocolError(f"{party.name} owns columns but has no aligned rows")
    features, targets = batch_order(table, plan)
    return await descend(party, plan, features, targets=targets)


async def descend(
    party: Party, plan: PrivateMessagesPlan, features: Array, *, targets: Array | None
) -> MessagesDescent:
    """The steps of one owner, whose rows stand in the order of the batches; only the active one has targets."""
    state = MessagesDescent(np.zeros(features.shape[1]), rate=plan.rate(party.name))
    noise = None
    if plan.variances:
        noise = NoiseStream(plan.noise[party.name], party.randomness, total=plan.options.epochs * plan.rows)
    total = plan.schedule.steps
    for step, rows in plan.batches():
        batch = features[rows]
        if targets is not None:
            residuals = await _answer(party, plan, state, noise, batch=batch, targets=targets[rows])
        else:
            residuals = await _ask(party, plan, state, noise, batch=batch)
        step_weights(party, plan, state, batch=batch, residuals=residuals)
        state.step += 1
        party.progress("steps", step + 1, total)
    return state


def batch_order(table: AlignedTable, plan: PrivateMessagesPlan) -> tuple[Array, Array | None]:
    """An owner's rows in the public order of the batches; with the constant, and targets, at the active party."""
    active = table.party == plan.active
    width = plan.clipped.encoders[table.party].width
    features = np.full((plan.rows, width + active), CONSTANT)
    # Where each row goes: row order[i] of the table is the i-th of the batches.
    places = np.argsort(public_permutation(plan.rows, plan.options.seed))
    labels, start = [], 0
    for block in table.blocks():
        here = places[start : start + block.rows]
        features[here, :width] = plan.clipped.of(table.party, block)
        if active and block.label is not None:
            labels.append(block.label)
        start += block.rows
    if not active:
        return features, None
    targets = np.empty(plan.rows)
    targets[places] = plan.loss.targets(plan.label, np.concatenate(labels))
    return features, targets


async def _ask(
    party: Party,
    plan: PrivateMessagesPlan,
    state: MessagesDescent,
    noise: NoiseStream | None,
    *,
    batch: Array,
) -> Array:
    limit = plan.radius * plan.cap(party.name) if plan.options.calibration == "sound" else _EXTENT
    message = _noisy(party, plan, batch @ state.weights, noise, limit=limit)
    await tell(party, plan.active, f"scores {state.step}", message)
    label = f"residuals {state.step}"
    reply = await hear(party, plan.active, label)
    received = _received(reply, plan, len(batch))
    # One message went to all of them, and the next scores rest on it.
    await agree_on_public(party, label, plan.passive, reply.arrays["values"])
    return received if plan.clip is None else np.clip(received, -plan.clip, plan.clip)


async def _answer(
    party: Party,
    plan: PrivateMessagesPlan,
    state: MessagesDescent,
    noise: NoiseStream | None,
    *,
    batch: Array,
    targets: Array,
) -> Array:
    scores, sound = batch @ state.weights, plan.options.calibration == "sound"
    for passive in plan.passive:
        received = _received(await hear(party, passive, f"scores {state.step}"), plan, len(batch))
        if sound:
            limit = plan.radius * plan.cap(passive)
            received = np.clip(plan.weight(passive) * received, -limit, limit)
        scores = scores + received
    residuals = plan.loss.residual(scores, targets)
    message = _noisy(party, plan, residuals, noise, limit=plan.bounds.size if sound else _EXTENT)
    for passive in plan.passive:
        await tell(party, passive, f"residuals {state.step}", message)
    return residuals


class NoiseStream:
    """Fresh noise for so many values in all, drawn many at a time and handed out once each, in order."""

    def __init__(self, noise: DiscreteGaussianNoise, randomness: Randomness, *, total: int) -> None:
        self._noise, self._randomness, self._left = noise, randomness, total
        self._drawn: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def take(self, count: int) -> NDArray[np.int64]:
        if count > len(self._drawn):
            size = max(count - len(self._drawn), min(_DRAWN, self._left))
            self._left -= size
            self._drawn = np.concatenate((self._drawn, self._noise.draw(size, self._randomness)))
        used, self._drawn = self._drawn[:count].copy(), self._drawn[count:]
        return used


def _noisy(
    party: Party, plan: PrivateMessagesPlan, values: Array, noise: NoiseStream | None, *, limit: float
) -> Message:
    """Values on the grid with fresh noise; as they are where the plan has none."""
    if noise is None:
        return Message(arrays={"values": values})
    if not np.isfinite(values).all():
        raise _not_finite(party, plan, "messages")
    # In a sound plan they are within the limit but for rounding; clipping moves no two values apart.
    noisy = noise.take(len(values))
    noisy += np.rint(np.clip(values, -limit, limit) * (1 << GRID_BITS)).astype(np.int64)
    return Message(arrays={"values": noisy})


def _received(message: Message, plan: PrivateMessagesPlan, rows: int) -> Array:
    """What a peer sent, as numbers; any integers are fine, since whoever receives them clips them."""
    if plan.variances:
        return message.array("values", dtype="i8", shape=(rows,)).astype(np.float64) * 2.0**-GRID_BITS
    values: Array = message.array("values", dtype="f8", shape=(rows,))
    if not np.isfinite(values).all():
        raise message.wrong("it sent values that are not finite")
    return values


def step_weights(
    party: Party, plan: PrivateMessagesPlan, state: MessagesDescent, *, batch: Array, residuals: Array
) -> None:
    """One gradient step, divided by the nominal batch size, the penalty's step, and the projection."""
    free, rate = int(party.name == plan.active), state.rate
    # An overflow is not hidden: weights that are not finite stop the run.
    with np.errstate(over="ignore", invalid="ignore"):
        stepped = state.weights - rate / plan.batch * (residuals @ batch)
        weights = plan.penalty.step(stepped, rate, free=free)
        length = float(np.linalg.norm(weights))
    if not np.isfinite(length):
        raise _not_finite(party, plan, "weights")
    state.weights = weights * (plan.radius / length) if length > plan.radius else weights


def _not_finite(party: Party, plan: PrivateMessagesPlan, what: str) -> LocalProtocolError:
    advice = (
        "HDP-VFL's own protocol clips nothing, and this loss grows without bound; use calibration = 'sound'."
        if plan.options.calibration == "paper"
        else "Choose a smaller learning_rate."
    )
    return LocalProtocolError(f"{party.name}: its {what} are no longer finite. {advice}")
