"""DP-SGD by a trusted party: clipped gradients of a secret sample, with noise at every step.

Each record of a step's sample adds its own gradient, clipped and truncated to a grid of integers; noise is drawn on
the same grid, so ε rests on integers alone. With Gaussian noise this is Abadi et al., "Deep Learning with
Differential Privacy" (arXiv 1607.00133v2); with Laplace noise, clipped in L1, it is pure ε as in Song, Chaudhuri and
Sarwate, "Stochastic gradient descent with differentially private updates" (GlobalSIP 2013), which the functional
mechanism's paper compares itself with. Proof of the bounds: docs/proofs/baselines.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.data.clipping import clamp_columns
from colonnade.errors import PlanError
from colonnade.methods.baselines.losses import Loss
from colonnade.noise import DiscreteGaussianNoise, DiscreteLaplaceNoise
from colonnade.numbers.rounding import toward_zero
from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.events import Approximated, PoissonSampled, Repeated
from colonnade.privacy.leaves import DiscreteGaussian, DiscreteLaplace
from colonnade.randomness import Randomness

Array = NDArray[np.float64]
Law = Literal["gaussian", "laplace"]

GRID = 1 << 20
"""The clipping bound in units of the grid: one record moves a step's sum by at most this."""
_RATE_BITS = 32
# A step's gradients are made some records at a time, so that memory does not grow with the sample.
_PIECE = 1 << 22


@dataclass(frozen=True)
class Schedule:
    """How often, on how many, with how much noise: all of it public and chosen without the data.

    `rate` is a multiple of 2⁻³². `noise` is σ² for Gaussian noise and the scale for Laplace noise, on the grid.
    """

    law: Law
    rows: int
    entries: int
    steps: int
    rate: Fraction
    noise: Fraction

    @property
    def mechanism(self) -> DiscreteGaussianNoise | DiscreteLaplaceNoise:
        return (
            DiscreteGaussianNoise(self.noise) if self.law == "gaussian" else DiscreteLaplaceNoise(self.noise)
        )

    @property
    def event(self) -> Repeated:
        """The whole run to whoever reads the weights and does not know the samples."""
        return _run(self.law, self.noise, entries=self.entries, rate=self.rate, steps=self.steps)


@lru_cache(maxsize=256)
def schedule(
    rows: int, *, entries: int, law: Law, epochs: int, batch: int, epsilon: float, delta: float
) -> Schedule:
    """The schedule with the least noise within (ε, δ). Laplace noise is calibrated at δ = 0, whatever δ is."""
    if rows < 1 or epochs < 1 or batch < 1:
        raise PlanError(
            f"DP-SGD needs rows, at least one epoch and at least one record a step, not {rows}, {epochs} and {batch}."
        )
    whole = 1 << _RATE_BITS
    rate = Fraction(min(whole, -(-batch * whole // rows)), whole)
    steps = max(1, round(epochs / rate))
    noise = calibrate(
        lambda noise: _run(law, noise, entries=entries, rate=rate, steps=steps),
        epsilon=epsilon,
        delta=delta if law == "gaussian" else 0.0,
    )
    return Schedule(law, rows, entries, steps, rate, noise)


def _run(law: Law, noise: Fraction, *, entries: int, rate: Fraction, steps: int) -> Repeated:
    step = (
        Approximated(DiscreteGaussian(GRID, noise), draws=entries)
        if law == "gaussian"
        else DiscreteLaplace(GRID, noise)
    )
    return Repeated(PoissonSampled(rate=rate, event=step), times=steps)


def descend(
    features: Array,
    loss: Loss,
    plan: Schedule,
    *,
    clip: float,
    learning_rate: float,
    randomness: Randomness,
) -> Array:
    """Weights after all steps, one row for each output; the mean over the second half, which costs nothing.

    A step divides by the expected size of a sample, not by the size it drew, which would be another release.
    """
    weights = np.zeros((loss.outputs, features.shape[1]))
    average = np.zeros_like(weights)
    mechanism, kept = plan.mechanism, plan.steps - plan.steps // 2
    pace = learning_rate * clip / (GRID * float(plan.rate) * plan.rows)
    for step in range(plan.steps):
        chosen = _sample(plan, randomness)
        total = clipped_sum(features, loss, weights, chosen, clip=clip, law=plan.law)
        total += mechanism.draw(plan.entries, randomness)
        weights = weights - pace * total.reshape(weights.shape)
        if step >= plan.steps - kept:
            average += weights / kept
    return average


def clipped_sum(
    features: Array, loss: Loss, weights: Array, chosen: NDArray[np.int64], *, clip: float, law: Law
) -> NDArray[np.int64]:
    """The sum of the chosen records' gradients, each clipped and truncated on the grid.

    Guarantee: each record adds integers of norm at most `GRID`, in L2 for Gaussian and in L1 for Laplace noise,
    checked in integer arithmetic.
    """
    total = np.zeros(weights.size, dtype=np.int64)
    piece = max(1, _PIECE // weights.size)
    for start in range(0, len(chosen), piece):
        part = chosen[start : start + piece]
        rows = features[part]
        residuals = loss.residuals(rows @ weights.T, part)
        gradients = np.einsum("io,ij->oji", residuals, rows).reshape(weights.size, len(part))
        size = np.linalg.norm(gradients, ord=2 if law == "gaussian" else 1, axis=0)
        gradients *= GRID / np.maximum(size, clip)
        integers = toward_zero(gradients)
        if law == "gaussian":
            clamp_columns(integers, GRID**2)
        else:
            # Floats may have left a record a few units too long; it is left out rather than believed.
            integers[:, np.abs(integers).sum(axis=0) > GRID] = 0
        total += integers.sum(axis=1)
    return total


def _sample(plan: Schedule, randomness: Randomness) -> NDArray[np.int64]:
    """Each record with probability `rate`, exactly and independently."""
    bound = plan.rate.numerator * ((1 << _RATE_BITS) // plan.rate.denominator)
    if bound == 1 << _RATE_BITS:
        return np.arange(plan.rows)
    coins = randomness.words(-(-plan.rows // 2)).view(np.uint32)[: plan.rows]
    return np.flatnonzero(coins < np.uint32(bound))
