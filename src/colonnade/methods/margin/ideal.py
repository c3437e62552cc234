"""Noisy margin descent as a trusted party would do it: the same integers, the same noise, and nothing dealt.

Without noise the protocol opens exactly these integers; forecasts take it for the protocol, which takes far longer.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from colonnade.methods.margin.optimiser import MarginDescent
from colonnade.methods.margin.plan import MarginPlan
from colonnade.methods.margin.rows import OwnRows, part_of
from colonnade.protocols.session import RowSource
from colonnade.randomness import Randomness

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


def ideal_margin(plan: MarginPlan, tables: Mapping[str, RowSource], randomness: Randomness) -> MarginDescent:
    """The descent on everybody's rows in one place, with as much noise as would be dealt."""
    rows = {owner: OwnRows.read(owner, tables[owner], plan, randomness) for owner in plan.group.owners}
    return descended(plan, rows, randomness)


def descended(plan: MarginPlan, rows: Mapping[str, OwnRows], randomness: Randomness) -> MarginDescent:
    """The descent on rows that are integers already."""
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
    """r̃ of every row and head, from what each owner would deal."""
    everything = slice(0, plan.rows)
    dealt = {
        owner: part.waves(everything, weights[part_of(plan, owner)], plan) for owner, part in rows.items()
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
        constant = plan.waves.constant * plan.wave_grid ** len(plan.others)
        signs = np.where(holder.positive[:, head], constant, -constant)
        slopes[:, head] = (p * real + q * imaginary).sum(axis=1) + signs
    return slopes


def summed_slopes(joint: Array, slopes: Integers) -> Integers:
    """Σ r̃x̃ over all rows, head by head: floats would not hold it, so slopes are added in two halves that they hold."""
    low = slopes & ((1 << 20) - 1)
    high = (slopes - low) >> 20
    halves = [(joint.T @ half.astype(np.float64)).astype(np.int64) for half in (low, high)]
    sums: Integers = (halves[0] + (halves[1] << 20)).T.reshape(-1)
    return sums
