"""Noisy margin descent: second moments once, then one opened gradient a step, over everybody.

Box of the protocol:

1. every owner charges its ledger for everything and tells its peers the ledger's head;
2. owners deal their integer rows at degree t, once, the label holder with ỹ·a₀ beside them; keepers keep these shares,
   multiply them, and the moments are opened to the server with noise of degree 2t;
3. at every step the server names the weights, and owners compare what they heard before they deal: each turns its
   score into an angle and deals the integers that its table has for it;
4. keepers multiply: owners without the label in a tree, at last with the label holder's part, lowering the degree by
   resharing after each product; then the slopes by the rows, degree 2t;
5. every dealer deals its part of the noise at degree 2t, and the sum is opened to the server, which moves the weights.

With `verify = "all"` two keepers check the norm of every row of 2 and 3, and every product of 4 before it is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.ledger import Release
from colonnade.methods.margin.optimiser import MarginDescent
from colonnade.methods.margin.plan import MarginPlan
from colonnade.methods.margin.rows import OwnRows, part_of
from colonnade.methods.margin.turning import held, shared_slopes
from colonnade.methods.moments.protocol import symmetric
from colonnade.numbers.arrays import FieldArray
from colonnade.protocols.agreement import agree_on_public
from colonnade.protocols.charging import charge_first
from colonnade.protocols.messages import hear, tell
from colonnade.protocols.session import RowSource
from colonnade.protocols.shared import MomentSum, Shared
from colonnade.protocols.sharing import open_to, share, share_noise
from colonnade.protocols.turning import taken
from colonnade.protocols.verified_rows import share_rows, share_verified
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
LARGEST_WEIGHT = 2.0**512
"""Scores by smaller weights are finite, whatever the rows are; whether a run is stopped must not depend on them."""


async def noisy_margin(party: Party, table: RowSource | None, plan: MarginPlan) -> MarginDescent | None:
    """The descent with the trained weights at the server, None elsewhere."""
    release = plan.release(party.name, run=party.run, reproducible=party.seeded)
    await charge_first(party, release)
    rows = OwnRows.read(party.name, table, plan, party.randomness) if party.owns_columns else None
    kept, opened = await _moments(party, rows, plan, release)
    descent = None if opened is None else MarginDescent(plan, opened)
    for step in range(plan.schedule.steps):
        weights = await published_weights(party, descent, plan, step)
        gradient = await _gradient(party, rows, kept, weights, plan, step)
        noise = await share_noise(
            party,
            lambda: noise_part(party, plan),
            plan.size * plan.heads,
            scheme=plan.scheme,
            step=f"noise {step}",
        )
        noisy = await open_to(
            party,
            party.group.server,
            gradient + noise,
            scheme=plan.scheme,
            release=release,
            step=f"gradient {step}",
        )
        if descent is not None and noisy is not None:
            descent.step(noisy[0])
        party.progress("steps", step + 1, plan.schedule.steps)
    return descent


@dataclass(frozen=True, eq=False)
class Kept:
    """One keeper's shares of one block between steps: rows, and ỹ·a₀ at the scale of a slope."""

    rows: FieldArray
    constants: FieldArray


async def _moments(
    party: Party, rows: OwnRows | None, plan: MarginPlan, release: Release
) -> tuple[list[Kept], Integers | None]:
    kept = []
    moments = MomentSum(plan.field, plan.size, keeps_shares=party.keeps_shares)
    for number, block in enumerate(_blocks(plan)):
        count = block.stop - block.start
        mine = None if rows is None else rows.dealt(block, plan)
        columns = await share_rows(party, mine, count, plan, step=f"columns {number}")
        dealt, own = columns[plan.label_holder], plan.widths[plan.label_holder]
        columns[plan.label_holder] = taken(dealt, 0, own)
        moments.add([columns[owner] for owner in party.group.owners])
        if party.keeps_shares:
            first, *rest = (held(columns[owner]) for owner in party.group.owners)
            constants = held(taken(dealt, own, own + plan.heads))
            others = plan.wave_grid ** len(plan.others)
            kept.append(Kept(first.stack_columns(rest), constants.times(others)))
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
    party: Party, rows: OwnRows | None, kept: list[Kept], weights: Array, plan: MarginPlan, step: int
) -> Shared:
    """Shares of Σ r̃x̃ over everybody, degree 2t, with no mask left."""
    mine = None if rows is None else weights[part_of(plan, party.name)]
    total: FieldArray | None = None
    for number, block in enumerate(_blocks(plan)):
        label = f"{step}.{number}"
        count = block.stop - block.start
        dealt = None if rows is None or mine is None else rows.waves(block, mine, plan)
        waves = await _waves(party, dealt, count, plan, f"waves {label}")
        slopes = await shared_slopes(party, waves, plan, label)
        if slopes.share is not None:
            slope = slopes.share + kept[number].constants
            parts = [
                kept[number].rows.transpose_times(slope.columns(head, head + 1)) for head in range(plan.heads)
            ]
            block_sum = parts[0].stack_rows(parts[1:])
            total = block_sum if total is None else total + block_sum
    shape = (1, plan.size * plan.heads)
    return Shared(None if total is None else total.reshape(shape), shape, 2 * party.group.threshold)


async def _waves(
    party: Party, dealt: Integers | None, rows: int, plan: MarginPlan, step: str
) -> dict[str, Shared]:
    """Every owner's waves for a block, checked where the plan says so."""
    if plan.verify != "none":
        return await share_verified(party, dealt, rows, plan.wave_claims, scheme=plan.scheme, step=step)
    shapes = dict.fromkeys(party.group.owners, (rows, plan.wave_width))
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
    heard: Array = said.array("weights", dtype="f8", shape=shape)
    if not np.isfinite(heard).all():
        raise said.wrong("its weights are not finite numbers")
    if np.abs(heard).max(initial=0.0) > LARGEST_WEIGHT:
        raise said.wrong("its weights reach past 2^512, and scores by them need not be finite numbers")
    planned = np.frombuffer(bytes.fromhex(plan.hash), dtype=np.uint8)
    await agree_on_public(party, label, party.group.owners, planned, heard)
    return heard


def noise_part(party: Party, plan: MarginPlan) -> Integers:
    """This dealer's part of the noise of a step."""
    return plan.noise.part(party.group.whole).draw((1, plan.size * plan.heads), party.randomness)


def _blocks(plan: MarginPlan) -> list[slice]:
    starts = range(0, plan.rows, plan.block)
    return [slice(start, min(start + plan.block, plan.rows)) for start in starts]
