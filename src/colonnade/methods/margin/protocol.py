"""Noisy margin descent: second moments once, then one opened gradient a step, over everybody.

Box of the protocol:

1. every owner charges its ledger for everything and tells its peers the ledger's head;
2. owners deal their integer rows at degree t, once, and the label holder ỹ·a₀; keepers keep these shares, multiply
   them, and the moments are opened to the server with noise of degree 2t;
3. at every step the server names the weights, and owners compare what they heard before they deal: each turns its
   score into an angle and deals the integers that its table has for it;
4. keepers multiply: owners without the label in a tree, at last with the label holder's part, lowering the degree by
   resharing after each product; then the slopes by the rows, degree 2t;
5. every owner deals its part of the noise at degree 2t, and the sum is opened to the server, which moves the weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import LocalProtocolError
from colonnade.ledger import Release
from colonnade.methods.margin.descent import MarginDescent
from colonnade.methods.margin.plan import MarginPlan
from colonnade.numbers.field import FieldArray
from colonnade.protocols.agreement import agree_on_public
from colonnade.protocols.charging import charge_first
from colonnade.protocols.messages import hear, tell
from colonnade.protocols.noisy_moments import symmetric
from colonnade.protocols.session import RowSource, own_rows
from colonnade.protocols.shared import MomentSum, Shared, total
from colonnade.protocols.sharing import lower, open_to, share
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


async def noisy_margin(party: Party, table: RowSource | None, plan: MarginPlan) -> MarginDescent | None:
    """The descent with the trained weights at the server, None elsewhere."""
    release = plan.release(party.name, run=party.run, reproducible=party.tainted)
    await charge_first(party, release)
    rows = OwnRows.read(party, table, plan) if party.owns_columns else None
    kept, opened = await _moments(party, rows, plan, release)
    descent = None if opened is None else MarginDescent(plan, opened)
    for step in range(plan.schedule.steps):
        weights = await published_weights(party, descent, plan, step)
        gradient = await _gradient(party, rows, kept, weights, plan, step)
        noise = _noise(party, plan)
        noises = await _dealt_noise(party, noise, plan, plan.size * plan.heads, f"noise {step}")
        noisy = gradient + total(noises.values())
        found = await open_to(
            party, party.group.server, noisy, scheme=plan.scheme, release=release, step=f"gradient {step}"
        )
        if descent is not None and found is not None:
            descent.step(found[0])
        party.progress("steps", step + 1, plan.schedule.steps)
    return descent


@dataclass(frozen=True, eq=False)
class OwnRows:
    """One owner's integers, and its labels where it holds them, kept at home for all steps."""

    features: NDArray[np.signedinteger]
    positive: NDArray[np.bool_] | None
    """For every head, whether a row is of its class."""

    @classmethod
    def read(cls, party: Party, table: RowSource | None, plan: MarginPlan) -> OwnRows:
        """Encode, bound and round every row, once."""
        quantizer, holds = plan.quantizers[party.name], party.name == plan.label_holder
        kind = np.int16 if 2 * plan.gamma < 1 << 15 else np.int32
        features = np.empty((plan.rows, plan.widths[party.name]), dtype=kind)
        positive = np.zeros((plan.rows, plan.heads), dtype=bool) if holds else None
        start = 0
        for block in own_rows(party.name, table, plan.rows).blocks(1 << 14):
            stop = start + block.rows
            features[start:stop, : quantizer.width] = quantizer.quantize(block, party.randomness)
            if positive is not None:
                if block.label is None:
                    raise LocalProtocolError(f"{party.name} holds the label but brought rows without it")
                features[start:stop, -1] = plan.constant
                classes = [1] if plan.heads == 1 else range(plan.heads)
                positive[start:stop] = block.label.astype(np.int64)[:, None] == np.array(classes)
            start = stop
        return cls(features, positive)

    def waves(self, rows: slice, weights: Array, plan: MarginPlan) -> Integers:
        """What this owner deals for these rows at its part of the weights: 2M integers for every head."""
        scores = self.features[rows] @ weights / plan.gamma
        heads = []
        for head in range(plan.heads):
            if self.positive is None:
                heads.append(plan.waves.deal_plain(scores[:, head]))
            else:
                heads.append(plan.waves.deal_labelled(scores[:, head], self.positive[rows, head]))
        return heads[0] if len(heads) == 1 else np.concatenate(heads, axis=1)


@dataclass(frozen=True, eq=False)
class Kept:
    """One keeper's shares of one block between steps: rows, and ỹ·a₀ at the scale of a slope."""

    rows: FieldArray
    constants: FieldArray


async def _moments(
    party: Party, rows: OwnRows | None, plan: MarginPlan, release: Release
) -> tuple[list[Kept], Integers | None]:
    """The keepers' shares of all rows; at the server also the noisy moments."""
    t, kept = party.group.threshold, []
    moments = MomentSum(plan.field, plan.size, keeps_shares=party.keeps_shares)
    for number, block in enumerate(_blocks(plan)):
        count = block.stop - block.start
        shapes = {owner: (count, width) for owner, width in plan.widths.items()}
        mine = None if rows is None else rows.features[block].astype(np.int64)
        columns = await share(party, mine, shapes, scheme=plan.scheme, degree=t, step=f"columns {number}")
        moments.add([columns[owner] for owner in party.group.owners])
        label = None
        if rows is not None and rows.positive is not None:
            label = np.where(rows.positive[block], plan.waves.constant, -plan.waves.constant)
        shape = {plan.label_holder: (count, plan.heads)}
        labels = await share(party, label, shape, scheme=plan.scheme, degree=t, step=f"labels {number}")
        if party.keeps_shares:
            first, *rest = (_held(columns[owner]) for owner in party.group.owners)
            others = plan.wave_grid ** len(plan.others)
            kept.append(Kept(first.stack_columns(rest), _held(labels[plan.label_holder]).times(others)))
        party.progress("columns", block.stop, plan.rows)
    noise = None
    if party.owns_columns:
        whole = plan.moments_noise.part(party.group.honest_owners).draw_symmetric(plan.size, party.randomness)
        noise = whole[np.triu_indices(plan.size)][None, :]
    noises = await _dealt_noise(party, noise, plan, plan.size * (plan.size + 1) // 2, "noise of moments")
    # Degree 2t: at degree t the server and one keeper would learn more (docs/proofs/noise-degree.md).
    noisy = moments.upper_triangle() + total(noises.values())
    opened = await open_to(
        party, party.group.server, noisy, scheme=plan.scheme, release=release, step="moments"
    )
    return kept, None if opened is None else symmetric(opened[0], plan.size)


async def _gradient(
    party: Party, rows: OwnRows | None, kept: list[Kept], weights: Array, plan: MarginPlan, step: int
) -> Shared:
    """Shares of Σ r̃x̃ over everybody, degree 2t, with no mask left."""
    width = 2 * plan.schedule.harmonics * plan.heads
    mine = None if rows is None else weights[_part(plan, party.name)]
    found: FieldArray | None = None
    for number, block in enumerate(_blocks(plan)):
        label = f"{step}.{number}"
        count = block.stop - block.start
        shapes = dict.fromkeys(party.group.owners, (count, width))
        dealt = None if rows is None or mine is None else rows.waves(block, mine, plan)
        waves = await share(
            party, dealt, shapes, scheme=plan.scheme, degree=party.group.threshold, step=f"waves {label}"
        )
        slopes = await _slopes(party, waves, plan, label)
        if slopes.share is not None:
            slope = slopes.share + kept[number].constants
            parts = [
                kept[number].rows.transpose_times(slope.columns(head, head + 1)) for head in range(plan.heads)
            ]
            block_sum = parts[0].stack_rows(parts[1:])
            found = block_sum if found is None else found + block_sum
    shape = (1, plan.size * plan.heads)
    return Shared(None if found is None else found.reshape(shape), shape, 2 * party.group.threshold)


async def _slopes(party: Party, waves: dict[str, Shared], plan: MarginPlan, label: str) -> Shared:
    """Shares of the slopes without their constant, one for every head, at degree t."""
    level = [waves[owner] for owner in plan.others]
    depth = 0
    while len(level) > 1:
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        turned = [pair for pair in pairs if len(pair) == 2]
        left, right = (_beside([pair[side] for pair in turned]) for side in (0, 1))
        groups = plan.heads * len(turned)
        product = _lifted(left, right, lambda x, y, groups=groups: complex_products(x, y, groups))
        low = await lower(party, product, scheme=plan.scheme, step=f"turning {label}.{depth}")
        width = waves[plan.label_holder].shape[1]
        level = [
            *(_taken(low, at * width, (at + 1) * width) for at in range(len(turned))),
            *(pair[0] for pair in pairs if len(pair) == 1),
        ]
        depth += 1
    product = _lifted(
        waves[plan.label_holder], level[0], lambda x, y: inner_products(x, y, plan.heads), plan.heads
    )
    return await lower(party, product, scheme=plan.scheme, step=f"slopes {label}")


def complex_products(left: FieldArray, right: FieldArray, groups: int) -> FieldArray:
    """Products of complex numbers: every group of columns holds real parts, then as many imaginary parts.

    >>> from colonnade.numbers.field import FIELD63
    >>> i, turned = (FIELD63.encode(np.array([pair])) for pair in ([0, 1], [3, 4]))
    >>> complex_products(i, turned, 1).decode().tolist()
    [[-4, 3]]
    """
    half = left.shape[1] // (2 * groups)
    parts = []
    for start in range(0, left.shape[1], 2 * half):
        a, c = (one.columns(start, start + half) for one in (left, right))
        b, d = (one.columns(start + half, start + 2 * half) for one in (left, right))
        parts += [a.multiply(c) - b.multiply(d), a.multiply(d) + b.multiply(c)]
    return parts[0].stack_columns(parts[1:])


def inner_products(left: FieldArray, right: FieldArray, heads: int) -> FieldArray:
    """The inner product of every row's columns, head by head.

    >>> from colonnade.numbers.field import FIELD63
    >>> row = FIELD63.encode(np.array([[1, 2, 3, 4]]))
    >>> inner_products(row, row, 2).decode().tolist()
    [[5, 25]]
    """
    width = left.shape[1] // heads
    if heads == 1:
        return left.row_products(right)
    starts = range(0, left.shape[1], width)
    first, *rest = (
        left.columns(at, at + width).row_products(right.columns(at, at + width)) for at in starts
    )
    return first.stack_columns(rest)


async def published_weights(
    party: Party, descent: MarginDescent | None, plan: MarginPlan, step: int
) -> Array:
    """The weights of a step, from the server, the same for all owners, who compare them before they deal.

    Any weights are covered by the bound, and two told to two owners amount to one joint w; comparing them keeps the
    model that is trained the one that is published (docs/proofs/margin.md).
    """
    label, shape = f"weights {step}", (plan.size, plan.heads)
    if descent is not None:
        for owner in party.group.owners:
            await tell(party, owner, label, Message(arrays={"weights": descent.weights}))
        return descent.weights
    if not party.owns_columns:
        return np.zeros(shape)
    said = await hear(party, party.group.server, label)
    heard: Array = said.array("weights", dtype="f8", shape=shape)
    if not np.isfinite(heard).all():
        raise said.wrong("its weights are not finite numbers")
    planned = np.frombuffer(bytes.fromhex(plan.hash), dtype=np.uint8)
    await agree_on_public(party, label, party.group.owners, planned, heard)
    return heard


def _noise(party: Party, plan: MarginPlan) -> Integers | None:
    if not party.owns_columns:
        return None
    shape = (1, plan.size * plan.heads)
    return plan.noise.part(party.group.honest_owners).draw(shape, party.randomness)


async def _dealt_noise(
    party: Party, noise: Integers | None, plan: MarginPlan, entries: int, step: str
) -> dict[str, Shared]:
    shapes = dict.fromkeys(party.group.owners, (1, entries))
    return await share(party, noise, shapes, scheme=plan.scheme, degree=2 * party.group.threshold, step=step)


def _blocks(plan: MarginPlan) -> list[slice]:
    starts = range(0, plan.rows, plan.block)
    return [slice(start, min(start + plan.block, plan.rows)) for start in starts]


def _part(plan: MarginPlan, owner: str) -> slice:
    """Where an owner's part of the weights stands."""
    start = 0
    for name, width in plan.widths.items():
        if name == owner:
            return slice(start, start + width)
        start += width
    raise LocalProtocolError(f"{owner} owns no columns of this plan")


def _held(value: Shared) -> FieldArray:
    if value.share is None:
        raise LocalProtocolError("a keeper lacks a share of what was dealt")
    return value.share


def _lifted(left: Shared, right: Shared, product, heads: int | None = None) -> Shared:  # type: ignore[no-untyped-def]
    shape = (left.shape[0], heads or left.shape[1])
    degree = left.degree + right.degree
    if left.share is None or right.share is None:
        return Shared(None, shape, degree)
    return Shared(product(left.share, right.share), shape, degree)


def _beside(values: list[Shared]) -> Shared:
    width = sum(value.shape[1] for value in values)
    shares = [value.share for value in values if value.share is not None]
    joined = shares[0].stack_columns(shares[1:]) if shares else None
    return Shared(joined, (values[0].shape[0], width), values[0].degree)


def _taken(value: Shared, start: int, stop: int) -> Shared:
    share = None if value.share is None else value.share.columns(start, stop)
    return Shared(share, (value.shape[0], stop - start), value.degree)
