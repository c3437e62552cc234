"""Noisy margin descent: second moments once, then one opened gradient a step; and its twin in one place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.data.table import Table
from colonnade.errors import LocalProtocolError
from colonnade.ledger import Release
from colonnade.methods.margin.plan import MarginPlan
from colonnade.methods.moments.protocol import symmetric
from colonnade.numbers.field import FieldArray
from colonnade.protocols.agreement import agree_on_public, charge_first
from colonnade.protocols.messages import hear, tell
from colonnade.protocols.plans import TrainingSpec
from colonnade.protocols.session import RowSource, SessionResult, own_rows, prepare, publish
from colonnade.protocols.sharing import MomentSum, Shared, open_to, share, share_noise
from colonnade.protocols.verified_products import reshare_products, rotated
from colonnade.protocols.verified_rows import share_rows, share_verified
from colonnade.randomness import Randomness
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
BEND = 0.15
"""k of two thirds of the steepest slope of the curve of six harmonics; steeper curves take as much of theirs."""


class MarginDescent:
    """Weights that start at zero and move by noisy gradients as they come.

    `moments` and `opened` are what was opened, as integers; `path` are the weights of every step.
    """

    def __init__(self, plan: MarginPlan, moments: NDArray[np.int64]) -> None:
        self._plan = plan
        self.moments = moments
        self.weights: Array = np.zeros((plan.size, plan.heads))
        self.path: list[Array] = []
        self.opened: list[NDArray[np.int64]] = []
        self._sum = np.zeros_like(self.weights)
        # σ at sensitivity 1 for all of the budget, as what is opened carries it: the moments have it over √f.
        of_moments = math.sqrt(float(plan.moments_variance) * plan.overhead) / plan.gamma**2
        whole = of_moments * math.sqrt(plan.schedule.moments_share)
        # So many times the noise's own eigenvalues are those of the moments raised to.
        times = float(np.clip(10 * whole * plan.size**1.5 / plan.rows, 0.5, 2.0))
        least = times * math.sqrt(plan.size / 2) * of_moments
        values, vectors = np.linalg.eigh(self.moments / plan.gamma**2)
        bend = max(BEND, 2 / 3 * plan.phasors.curve.slope)
        self._preconditioner: Array = (vectors / (bend * np.maximum(values, least))) @ vectors.T

    def step(self, opened: NDArray[np.int64]) -> None:
        plan = self._plan
        gradient = np.asarray(opened, dtype=np.float64).reshape(plan.heads, plan.size).T
        gradient /= plan.scale * plan.gamma
        self.path.append(self.weights)
        self.opened.append(opened)
        # What is opened is Σ ỹh(ỹ⟨w, x⟩)x, the gradient with the other sign.
        self.weights = self.weights + self._preconditioner @ gradient
        if len(self.path) > plan.schedule.steps // 2:
            self._sum += self.weights

    @property
    def model(self) -> Array:
        mean: Array = self._sum / max(1, len(self.path) - self._plan.schedule.steps // 2)
        # How large scores are, by the moments: √(wᵀ Σx̃x̃ᵀ w / n), for every head.
        squares = np.einsum("ij,ik,kj->j", mean, self.moments / self._plan.gamma**2, mean)
        return mean * log_odds_slope(np.sqrt(np.maximum(squares, 0.0) / self._plan.rows))

    @property
    def counts(self) -> Array:
        """How many people are of each head's class, by the first gradient; at least twice its noise, and the rest too.

        At w = 0 a row's slope is one of two known integers, by its label, and its constant is known: the entry of the
        constant is n₊r̃₊ + n₋r̃₋ times it.
        """
        plan, (below, above) = self._plan, _first_slopes(self._plan)
        opened = np.asarray(self.opened[0], dtype=np.float64).reshape(plan.heads, plan.size)
        noise = math.sqrt(float(plan.variance) * plan.overhead) / plan.constant / (above - below)
        counts = (opened[:, plan.constant_place] / plan.constant - plan.rows * below) / (above - below)
        least = min(max(1.0, 2.0 * noise), plan.rows / 2.0)
        return np.clip(counts, least, plan.rows - least)


def _first_slopes(plan: MarginPlan) -> tuple[int, int]:
    """r̃ of every row at w = 0: of those that are not of a head's class, and of those that are."""
    phasors, others, at_zero = plan.phasors, len(plan.others), np.zeros(1)
    # Of the others every sine is 0.
    cosines = phasors.deal_plain(at_zero)[0, : plan.schedule.harmonics].tolist()
    slopes = []
    for label, sign in ((False, -1), (True, 1)):
        labelled = phasors.deal_labelled(at_zero, np.array([label]))[0].tolist()
        rotated = sum(mine * theirs**others for mine, theirs in zip(labelled, cosines, strict=False))
        slopes.append(rotated + sign * phasors.constant * plan.phasor_grid**others)
    return slopes[0], slopes[1]


def log_odds_slope(size: Array) -> Array:
    """What a score of this size is multiplied by to be a log-odds.

    Where p·h(s) = (1 − p)·h(−s) for h = min(1/(1 + e^m), ½), the loss is least: a score s stands for log-odds of
    ±log((1 + e^|s|)/2), half as steep as s near 0 and as steep far out. One slope for all keeps the model linear, and
    what is predicted does not depend on it: that of a score of typical size.
    """
    least = np.maximum(size, 1e-6)
    slope: Array = (np.logaddexp(0.0, least) - math.log(2.0)) / least
    return slope


@dataclass(frozen=True, eq=False)
class OwnRows:
    """One owner's integers, and its labels where it holds them, kept at home for all steps."""

    features: NDArray[np.signedinteger]
    positive: NDArray[np.bool_] | None
    """For every head, whether a row is of its class."""

    @classmethod
    def read(cls, owner: str, table: RowSource | None, plan: MarginPlan, randomness: Randomness) -> OwnRows:
        quantizer, holds = plan.quantizers[owner], owner == plan.label_holder
        kind = np.int16 if 2 * plan.gamma < 1 << 15 else np.int32
        features = np.empty((plan.rows, plan.widths[owner]), dtype=kind)
        positive = np.zeros((plan.rows, plan.heads), dtype=bool) if holds else None
        start = 0
        for block in own_rows(owner, table, plan.rows).blocks(1 << 14):
            stop = start + block.rows
            features[start:stop, : quantizer.width] = quantizer.quantize(block, randomness)
            if positive is not None:
                if block.label is None:
                    raise LocalProtocolError(f"{owner} holds the label but brought rows without it")
                features[start:stop, -1] = plan.constant
                classes = [1] if plan.heads == 1 else range(plan.heads)
                positive[start:stop] = block.label.astype(np.int64)[:, None] == np.array(classes)
            start = stop
        return cls(features, positive)

    def dealt(self, rows: slice, plan: MarginPlan) -> Integers:
        features = self.features[rows].astype(np.int64)
        if self.positive is None:
            return features
        constants = np.where(self.positive[rows], plan.phasors.constant, -plan.phasors.constant)
        return np.concatenate([features, constants], axis=1)

    def phasors(self, rows: slice, weights: Array, plan: MarginPlan) -> Integers:
        scores = (self.features[rows] @ weights / plan.gamma).T
        if self.positive is None:
            heads = [plan.phasors.deal_plain(head) for head in scores]
        else:
            pairs = zip(scores, self.positive[rows].T, strict=True)
            heads = [plan.phasors.deal_labelled(head, positive) for head, positive in pairs]
        return heads[0] if len(heads) == 1 else np.concatenate(heads, axis=1)


def part_of(plan: MarginPlan, owner: str) -> slice:
    before = plan.group.owners[: plan.group.owners.index(owner)]
    start = sum(plan.widths[name] for name in before)
    return slice(start, start + plan.widths[owner])


async def shared_slopes(party: Party, phasors: dict[str, Shared], plan: MarginPlan, label: str) -> Shared:
    """Shares of the slopes without their constant, one for every head, at degree t."""
    others = await rotated(
        party,
        [phasors[owner] for owner in plan.others],
        scheme=plan.scheme,
        groups=plan.heads,
        step=f"turning {label}",
        verify=plan.verify,
    )
    width = plan.phasor_width // plan.heads
    left, right = (each.in_rows_of(width) for each in (phasors[plan.label_holder], others))
    slopes = await reshare_products(
        party, left, right, scheme=plan.scheme, verify=plan.verify, step=f"slopes {label}"
    )
    return slopes.in_rows_of(plan.heads)


def share_of(value: Shared) -> FieldArray:
    if value.share is None:
        raise LocalProtocolError("a computing party lacks a share of what was dealt")
    return value.share


LARGEST_WEIGHT = 2.0**512
"""Scores by smaller weights are finite, whatever the rows are; whether a run is stopped must not depend on them."""


async def noisy_margin(party: Party, table: RowSource | None, plan: MarginPlan) -> MarginDescent | None:
    """The descent with the trained weights at the server, None elsewhere."""
    release = plan.release(party.name, run=party.run, reproducible=party.seeded)
    await charge_first(party, release)
    rows = OwnRows.read(party.name, table, plan, party.randomness) if party.owns_columns else None
    kept, moments = await _moments(party, rows, plan, release)
    descent = None if moments is None else MarginDescent(plan, moments)
    for step in range(plan.schedule.steps):
        weights = await published_weights(party, descent, plan, step)
        gradient = await _gradient(party, rows, kept, weights, plan, step)
        entries, label = plan.size * plan.heads, f"noise {step}"
        noise = await share_noise(
            party, lambda: noise_part(party, plan), entries, scheme=plan.scheme, step=label
        )
        noisy, server, label = gradient + noise, party.group.server, f"gradient {step}"
        opened = await open_to(party, server, noisy, scheme=plan.scheme, release=release, step=label)
        if descent is not None and opened is not None:
            descent.step(opened[0])
        party.progress("steps", step + 1, plan.schedule.steps)
    return descent


@dataclass(frozen=True, eq=False)
class KeptShares:
    """One computing party's shares of one block between steps: rows, and ỹ·a₀ at the scale of a slope."""

    rows: FieldArray
    constants: FieldArray


async def _moments(
    party: Party, rows: OwnRows | None, plan: MarginPlan, release: Release
) -> tuple[list[KeptShares], Integers | None]:
    kept = []
    moments = MomentSum(plan.field, plan.size, keeps_shares=party.keeps_shares)
    for number, block in enumerate(_blocks(plan)):
        count = block.stop - block.start
        mine = None if rows is None else rows.dealt(block, plan)
        columns = await share_rows(party, mine, count, plan, step=f"columns {number}")
        dealt, own = columns[plan.label_holder], plan.widths[plan.label_holder]
        columns[plan.label_holder] = dealt.columns(range(own))
        moments.add([columns[owner] for owner in party.group.owners])
        if party.keeps_shares:
            first, *rest = (share_of(columns[owner]) for owner in party.group.owners)
            constants = share_of(dealt.columns(range(own, own + plan.heads)))
            others = plan.phasor_grid ** len(plan.others)
            kept.append(KeptShares(first.stack_columns(rest), constants.times(others)))
        party.progress("columns", block.stop, plan.rows)

    def matrix_part() -> Integers:
        whole = plan.moments_noise.part(party.group.whole).draw_symmetric(plan.size, party.randomness)
        return whole[np.triu_indices(plan.size)]

    entries = plan.size * (plan.size + 1) // 2
    noise = await share_noise(party, matrix_part, entries, scheme=plan.scheme, step="noise of matrix")
    noisy = moments.upper_triangle() + noise
    opened = await open_to(
        party, party.group.server, noisy, scheme=plan.scheme, release=release, step="matrix"
    )
    return kept, None if opened is None else symmetric(opened[0], plan.size)


async def _gradient(
    party: Party, rows: OwnRows | None, kept: list[KeptShares], weights: Array, plan: MarginPlan, step: int
) -> Shared:
    """Shares of Σ r̃x̃ over everybody, degree 2t, with no mask left."""
    mine = None if rows is None else weights[part_of(plan, party.name)]
    total: FieldArray | None = None
    for number, block in enumerate(_blocks(plan)):
        label = f"{step}.{number}"
        count = block.stop - block.start
        dealt = None if rows is None or mine is None else rows.phasors(block, mine, plan)
        phasors = await _phasors(party, dealt, count, plan, f"waves {label}")
        slopes = await shared_slopes(party, phasors, plan, label)
        if slopes.share is not None:
            slope = slopes.share + kept[number].constants
            parts = [
                kept[number].rows.transpose_times(slope.columns(head, head + 1)) for head in range(plan.heads)
            ]
            block_sum = parts[0].stack_rows(parts[1:])
            total = block_sum if total is None else total + block_sum
    shape = (1, plan.size * plan.heads)
    return Shared(None if total is None else total.reshape(shape), shape, 2 * party.group.threshold)


async def _phasors(
    party: Party, dealt: Integers | None, rows: int, plan: MarginPlan, step: str
) -> dict[str, Shared]:
    if plan.verify != "none":
        return await share_verified(party, dealt, rows, plan.phasor_claims, scheme=plan.scheme, step=step)
    shapes = dict.fromkeys(party.group.owners, (rows, plan.phasor_width))
    return await share(party, dealt, shapes, scheme=plan.scheme, degree=party.group.threshold, step=step)


async def published_weights(
    party: Party, descent: MarginDescent | None, plan: MarginPlan, step: int
) -> Array:
    """The weights of a step, from the server, the same for all owners, who compare them before they deal.

    Any weights are covered by the bound, and two told to two owners amount to one joint w; comparing them has all
    owners deal at the same. What the server makes of the gradients and publishes is its word (docs/proofs/margin.md).
    """
    label, shape = f"weights {step}", (plan.size, plan.heads)
    if descent is not None:
        for owner in party.group.owners:
            await tell(party, owner, label, Message(arrays={"weights": descent.weights}))
        return descent.weights
    if not party.owns_columns:
        return np.zeros(shape)
    said = await hear(party, party.group.server, label)
    weights: Array = said.array("weights", dtype="f8", shape=shape)
    if not np.isfinite(weights).all():
        raise said.wrong("its weights are not finite numbers")
    if np.abs(weights).max(initial=0.0) > LARGEST_WEIGHT:
        raise said.wrong("its weights reach past 2^512, and scores by them need not be finite numbers")
    planned = np.frombuffer(bytes.fromhex(plan.hash), dtype=np.uint8)
    await agree_on_public(party, label, party.group.owners, planned, weights)
    return weights


def noise_part(party: Party, plan: MarginPlan) -> Integers:
    return plan.noise.part(party.group.whole).draw((1, plan.size * plan.heads), party.randomness)


def _blocks(plan: MarginPlan) -> list[slice]:
    starts = range(0, plan.rows, plan.block)
    return [slice(start, min(start + plan.block, plan.rows)) for start in starts]


@dataclass(frozen=True, eq=False)
class MarginTrained(SessionResult[MarginPlan]):
    """Weights and counts are empty at a member that only kept shares; `descent` is what the server made.

    `counts` are noisy numbers of people of each head's class. Weights are in the order of the plan's owners, one column
    for each head; the constant is the last of the label holder's.
    """

    weights: Array
    counts: Array
    descent: MarginDescent | None = None


async def margin_session(party: Party, table: Table | None, spec: TrainingSpec) -> MarginTrained:
    aligned, plan = await prepare(party, table, spec, MarginPlan)
    descent = await noisy_margin(party, aligned, plan)

    def checked(said: Message) -> Array:
        read: Array = said.array("weights", dtype="f8", shape=(plan.size + 1, plan.heads))
        if not np.isfinite(read).all() or (read[-1] <= 0).any() or (read[-1] >= plan.rows).any():
            raise said.wrong(
                "the published weights are not finite numbers, or its counts not of so many people"
            )
        return read

    trained = None if descent is None else np.concatenate([descent.model, descent.counts[None, :]])
    read = await publish(party, trained, "model", "weights", checked, np.zeros((0, plan.heads)))
    counts = read[-1] if len(read) else np.zeros(0)
    return MarginTrained(plan, party.run, party.seeded, aligned, read[:-1], counts, descent)


def ideal_margin(plan: MarginPlan, tables: Mapping[str, RowSource], randomness: Randomness) -> MarginDescent:
    """The descent on everybody's rows in one place, with as much noise as would be dealt."""
    rows = {owner: OwnRows.read(owner, tables[owner], plan, randomness) for owner in plan.group.owners}
    return descended(plan, rows, randomness)


def descended(plan: MarginPlan, rows: Mapping[str, OwnRows], randomness: Randomness) -> MarginDescent:
    joint = np.concatenate([rows[owner].features for owner in plan.group.owners], axis=1).astype(np.float64)
    dealers, parts = range(len(plan.group.dealers)), plan.group.whole
    moments = (joint.T @ joint).astype(np.int64)
    for _ in dealers:
        moments += plan.moments_noise.part(parts).draw_symmetric(plan.size, randomness)
    descent = MarginDescent(plan, moments)
    for _ in range(plan.schedule.steps):
        opened = summed_slopes(joint, ideal_slopes(plan, rows, descent.weights))
        for _ in dealers:
            opened += plan.noise.part(parts).draw(opened.shape, randomness)
        descent.step(opened)
    return descent


def ideal_slopes(plan: MarginPlan, rows: Mapping[str, OwnRows], weights: Array) -> Integers:
    everything = slice(0, plan.rows)
    dealt = {
        owner: part.phasors(everything, weights[part_of(plan, owner)], plan) for owner, part in rows.items()
    }
    holder = rows[plan.label_holder]
    if holder.positive is None:
        raise ValueError("the label holder's rows have no labels")
    harmonics = plan.schedule.harmonics
    slopes = np.empty((plan.rows, plan.heads), dtype=np.int64)
    for head in range(plan.heads):
        here = slice(2 * harmonics * head, 2 * harmonics * (head + 1))
        real, imaginary = np.ones((2, plan.rows, harmonics), dtype=np.int64)
        imaginary[:] = 0
        for owner in plan.others:
            cosine, sine = np.split(dealt[owner][:, here], 2, axis=1)
            real, imaginary = real * cosine - imaginary * sine, real * sine + imaginary * cosine
        p, q = np.split(dealt[plan.label_holder][:, here], 2, axis=1)
        constant = plan.phasors.constant * plan.phasor_grid ** len(plan.others)
        signs = np.where(holder.positive[:, head], constant, -constant)
        slopes[:, head] = (p * real + q * imaginary).sum(axis=1) + signs
    return slopes


def summed_slopes(joint: Array, slopes: Integers) -> Integers:
    """Σ r̃x̃ over all rows, head by head: floats would not hold it, so slopes are added in two halves that they hold."""
    """Σ r̃x̃ over all rows, head by head: floats would not hold it, so slopes are added in two halves that they hold."""
    """Σ r̃x̃ over all rows, head by head: floats would not hold it, so slopes are added in two halves that they hold."""
    low = slopes & ((1 << 20) - 1)
    high = (slopes - low) >> 20
    halves = [(joint.T @ half.astype(np.float64)).astype(np.int64) for half in (low, high)]
    sums: Integers = (halves[0] + (halves[1] << 20)).T.reshape(-1)
    return sums
