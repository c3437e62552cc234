"""A network in parts: owners embed, a secure sum shows the label holder the sum, step by step."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.data.table import AlignedTable, Table
from colonnade.errors import DataError, LocalProtocolError, PlanError
from colonnade.ledger import Release
from colonnade.methods.network.plan import BOUND, EMBEDDING_GRID, GRADIENT_GRID, Batch, Indices, NetworkPlan
from colonnade.protocols.agreement import agree_on_public, charge_first
from colonnade.protocols.messages import hear, tell
from colonnade.protocols.plans import TrainingSpec
from colonnade.protocols.secure_sum import Masks, secure_sum, share_mask_keys
from colonnade.protocols.session import SessionResult, confirm, prepare
from colonnade.randomness import Randomness
from colonnade.runtime.party import AskingAccountant, Party
from colonnade.runtime.wire import Message

Floats = NDArray[Any]
Integers = NDArray[np.int64]


class Contributor(Protocol):
    """An owner's network over its own rows, seen from outside: rows are positions in the aligned order.

    An embedding lies in [−C, C]^P and is a function of its own row and the network only. Sums are of rows' gradients by
    the network's parameters, as they are or each clipped and at most `grid` long on integers.
    """

    @property
    def embedding(self) -> int: ...

    @property
    def parameters(self) -> int: ...

    def embed(self, rows: Indices) -> Floats: ...

    def clipped_sum(self, rows: Indices, gradient: Floats, *, clip: float, grid: int) -> Integers: ...

    def plain_sum(self, rows: Indices, gradient: Floats) -> Floats: ...

    def step(self, direction: Floats) -> None: ...


class Fusion(Protocol):
    """The label holder's model on top of the sums, seen from outside."""

    def labels(self) -> Floats:
        """What is to be learnt, one row each: ±1 entries for classes, numbers in [−1, 1] otherwise."""

    def learn(self, rows: Indices, sums: Floats, targets: Floats) -> Floats:
        """Learn from a batch and return the gradient of each row's loss by its sum."""

    def look(self, rows: Indices, sums: Floats, targets: Floats) -> None: ...

    def goes_on(self, epoch: int) -> bool: ...


@dataclass(frozen=True, eq=False)
class PartyModels:
    """What one party brings: a network over its columns, the fusion model, both, or, at a server, neither."""

    contributor: Contributor | None = None
    fusion: Fusion | None = None


# Called once rows are aligned, with the table and the plan.
ModelFactory = Callable[[AlignedTable | None, NetworkPlan], PartyModels]


def check_models(party: Party, plan: NetworkPlan, brought: PartyModels) -> None:
    contributor = brought.contributor
    if (contributor is None) is not (party.name not in plan.contributors):
        raise LocalProtocolError(f"{party.name} brings a network exactly if it owns columns")
    if (brought.fusion is None) is not (party.name != plan.receiver):
        raise LocalProtocolError(f"{party.name} brings the fusion model exactly if it holds the label")
    if contributor is None:
        return
    if contributor.embedding != plan.options.embedding:
        raise PlanError(
            f"{party.name}: its network makes embeddings of {contributor.embedding} numbers, but all parties agreed on "
            f"{plan.options.embedding}. Give every network an output of {plan.options.embedding}."
        )
    if plan.update_noise is not None and contributor.parameters > plan.options.parameters:
        raise PlanError(
            f"{party.name}: its network has {contributor.parameters} parameters; this plan accounts for noise on "
            f"{plan.options.parameters}. Say parameters = {contributor.parameters}, or take a smaller network."
        )


@dataclass(frozen=True, eq=False)
class Training:
    plan: NetworkPlan
    release: Release
    masks: Masks | None
    brought: PartyModels
    targets: Floats | None


async def one_batch(party: Party, run: Training, batch: Batch) -> Floats | None:
    plan, brought = run.plan, run.brought
    sums = await _sum(party, run, batch)
    fusion = brought.fusion
    gradient = None
    if fusion is not None and sums is not None and run.targets is not None and plan.learns_locally:
        targets = run.targets[batch.rows]
        if batch.held_out:
            fusion.look(batch.rows, sums, targets)
        else:
            gradient = _travelling(fusion.learn(batch.rows, sums, targets), plan, batch)
    if batch.held_out or not plan.learns_locally:
        return sums
    received = await _return_gradient(party, run, batch, gradient)
    contributor = brought.contributor
    if contributor is not None and received is not None and plan.update_noise is None:
        # The paper's regime takes the exact mean.
        contributor.step(contributor.plain_sum(batch.rows, received) / len(batch.rows))
    elif contributor is not None and received is not None and plan.update_noise is not None:
        clip = plan.options.clip
        summed = contributor.clipped_sum(batch.rows, received, clip=clip, grid=GRADIENT_GRID)
        noise = plan.update_noise.draw(len(summed), party.randomness)
        contributor.step((summed + noise) * (clip / (GRADIENT_GRID * plan.batch)))
    return sums


async def _sum(party: Party, run: Training, batch: Batch) -> Floats | None:
    plan, contributor = run.plan, run.brought.contributor
    step, shape = f"sum {batch.step}", (len(batch.rows), plan.options.embedding)
    embedded = None if contributor is None else _checked(contributor.embed(batch.rows), shape, party.name)
    if plan.noise is None:
        return await _sent_one_by_one(party, run, batch, embedded)
    counts = None if embedded is None else plan.noise.draw(embedded, party.randomness)
    total = await secure_sum(
        party,
        counts,
        shape,
        streams=run.masks,
        among=plan.contributors,
        ring=plan.ring,
        receiver=plan.receiver,
        release=run.release,
        step=step,
    )
    if total is None:
        return None
    if counts is None or embedded is None or plan.learns_locally:
        return plan.noise.estimate(total, parties=len(plan.contributors))
    # Nothing computed from this goes back, so that the holder may use its own part as it is.
    others = total.astype(np.int64) - counts
    return plan.noise.estimate(others, parties=plan.hiding) + embedded


async def _sent_one_by_one(
    party: Party, run: Training, batch: Batch, embedded: Floats | None
) -> Floats | None:
    """The baselines: every contributor sends its own embedding, with integer noise of its own or without any."""
    plan, step = run.plan, f"sum {batch.step}"
    shape = (len(batch.rows), plan.options.embedding)
    mine: NDArray[Any] | None = None
    if embedded is not None:
        # A label holder that sends nothing back uses its own embedding as it is.
        own = party.name == plan.receiver and not plan.learns_locally
        mine = _alone(party, plan, embedded, noisy=not own)
        if party.name != plan.receiver:
            await tell(party, plan.receiver, step, Message(arrays={"rows": mine}))
    if party.name != plan.receiver:
        return None
    total = np.zeros(shape)
    exact = plan.options.mechanism == "none"
    for name in plan.contributors:
        sent = mine
        if name != party.name:
            said = await hear(party, name, step)
            sent = said.array("rows", dtype="u4" if exact else "i4", shape=shape)
        if sent is not None:
            values = np.ascontiguousarray(sent)
            total += values.view("<f4") if exact else values * (BOUND / EMBEDDING_GRID)
    return total


def _alone(party: Party, plan: NetworkPlan, embedded: Floats, *, noisy: bool) -> NDArray[Any]:
    if plan.options.mechanism == "none":
        return np.ascontiguousarray(embedded, "<f4").view("<u4")
    values = np.rint(embedded * (EMBEDDING_GRID / BOUND)).astype(np.int64)
    if noisy and plan.local_noise is not None:
        values = values + plan.local_noise.draw(embedded.shape, party.randomness)
    sent: NDArray[Any] = np.clip(values, -(2**31), 2**31 - 1).astype("<i4")
    return sent


async def _return_gradient(
    party: Party, run: Training, batch: Batch, gradient: NDArray[Any] | None
) -> Floats | None:
    plan, step = run.plan, f"back {batch.step}"
    shape = (len(batch.rows), plan.options.embedding)
    if gradient is None:
        if run.brought.contributor is None:
            return None
        said = await hear(party, plan.receiver, step)
        code, width = ("u4", shape) if plan.options.gradient_bits == 32 else ("u1", (shape[0], 2 * shape[1]))
        gradient = said.array("gradient", dtype=code, shape=width)
        values = _read_gradient(gradient, plan)
        if not np.isfinite(values).all():
            raise said.wrong("the gradient holds values that are not finite numbers")
        # One gradient went to all of them, and what they embed next rests on it.
        await agree_on_public(party, step, plan.taught, gradient)
        return values
    for name in plan.contributors:
        if name != party.name:
            await tell(party, name, step, Message(arrays={"gradient": gradient}))
    return _read_gradient(gradient, plan)


def _checked(embedded: Floats, shape: tuple[int, int], name: str) -> Floats:
    if embedded.shape != shape:
        raise DataError(
            f"{name}: {shape[0]} rows should be embedded into shape {shape}; the network gave {embedded.shape}."
        )
    # Written so that what is not a number fails it too.
    if not (np.abs(embedded) <= BOUND).all():
        raise DataError(
            f"{name}: the network gave embeddings outside [−{BOUND}, {BOUND}] or that are not numbers. End "
            "it with a bounded function such as tanh, or lower its learning rate."
        )
    return embedded


def label_targets(plan: NetworkPlan, fusion: Fusion, randomness: Randomness) -> Floats:
    """The labels, randomised once where anything computed from them leaves; without bias."""
    labels = fusion.labels()
    if plan.label_noise is None:
        return labels
    counts = plan.label_noise.draw(labels, randomness)
    return plan.label_noise.estimate(counts, parties=1)


def _travelling(gradient: Floats, plan: NetworkPlan, batch: Batch) -> NDArray[Any]:
    """The gradient as bits that travel: 32 a number, or 16."""
    if gradient.shape != (len(batch.rows), plan.options.embedding) or not np.isfinite(gradient).all():
        raise DataError(
            f"{plan.receiver}: the fusion model gave no finite gradient of shape "
            f"{(len(batch.rows), plan.options.embedding)} at step {batch.step}. Lower its learning rate."
        )
    if plan.options.gradient_bits == 32:
        return np.ascontiguousarray(gradient, "<f4").view("<u4")
    largest = float(np.finfo(np.float16).max)
    return np.ascontiguousarray(np.clip(gradient, -largest, largest), "<f2").view("u1")


def _read_gradient(sent: NDArray[Any], plan: NetworkPlan) -> Floats:
    code = "<f4" if plan.options.gradient_bits == 32 else "<f2"
    return np.ascontiguousarray(sent).view(code).astype(np.float32)


@dataclass(frozen=True, eq=False)
class TrainedEmbeddings(SessionResult[NetworkPlan]):
    """What a member comes away with. `sums` are the last noisy sums of every row, at the label holder."""

    epochs: int
    brought: PartyModels
    sums: Floats | None = None


async def embeddings_session(
    party: Party, table: Table | None, spec: TrainingSpec, bring: ModelFactory
) -> TrainedEmbeddings:
    aligned, plan = await prepare(party, table, spec, NetworkPlan)
    brought = bring(aligned, plan)
    check_models(party, plan, brought)
    release = plan.release(party.name, run=party.run, reproducible=party.seeded)
    await charge_first(party, release)
    epochs, sums = await _train(party, plan, release, brought)
    await confirm(party, "")
    return TrainedEmbeddings(plan, party.run, party.seeded, aligned, epochs, brought=brought, sums=sums)


async def _train(
    party: Party, plan: NetworkPlan, release: Release, brought: PartyModels
) -> tuple[int, Floats | None]:
    masks: Masks | None = None
    if plan.options.mechanism == "poisson-binomial":
        masks = await share_mask_keys(party, plan.contributors)
    targets = None if brought.fusion is None else label_targets(plan, brought.fusion, party.randomness)
    # The ledger has said yes to the whole schedule; every step asks it again, and it knows the answer.
    paid = replace(party, ledger=_Paid(party.ledger, release))
    run = Training(plan, release, masks, brought, targets)
    sums = None if brought.fusion is None else np.zeros((plan.rows, plan.options.embedding))
    epoch = 0
    for epoch in range(plan.passes):
        for batch in plan.batches(epoch):
            opened = await one_batch(paid, run, batch)
            if sums is not None and opened is not None:
                sums[batch.rows] = opened
        party.progress("epochs", epoch + 1, plan.passes)
        if not await _another(party, run, epoch):
            break
    return epoch + 1, sums


async def _another(party: Party, run: Training, epoch: int) -> bool:
    step, fusion = f"epoch {epoch}", run.brought.fusion
    if fusion is None:
        said = (await hear(party, run.plan.receiver, step)).integer("goes on") == 1
        await agree_on_public(party, step, run.plan.taught, np.array([said], dtype=np.uint8))
        return said
    more = fusion.goes_on(epoch) and epoch + 1 < run.plan.passes
    for member in party.group.others(party.name):
        await tell(party, member, step, Message({"goes on": int(more)}))
    return more


@dataclass(frozen=True, eq=False)
class _Paid(AskingAccountant):
    """A ledger that has said yes to one release and is asked about nothing else."""

    release: Release

    def charge(self, release: Release, dataset: str, *, fresh: bool = False) -> None:
        if release is not self.release or fresh:
            self.ledger.charge(release, dataset, fresh=fresh)


def formula_bytes(plan: NetworkPlan) -> float:
    """T·B·M·P(log₂(bM) + F)/8: PBM-VFL's count; F is the size of a returned number in bits, 0 where none is."""
    contributors, counted = len(plan.contributors), plan.options.mechanism == "poisson-binomial"
    up = math.log2(plan.options.trials * contributors) if counted else 32.0
    back = plan.options.gradient_bits if plan.learns_locally else 0
    return contributors * plan.options.embedding * plan.passes * (plan.rows * up + plan.train_rows * back) / 8
