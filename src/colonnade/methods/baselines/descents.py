"""Private optimisers of a trusted party: DP-SGD, and Frank-Wolfe. Proofs of both: docs/proofs/baselines.md.

DP-SGD: gradients are clipped and truncated to a grid of integers, and noise is drawn on it, so ε rests on integers
alone. With Gaussian noise this is Abadi et al. (arXiv 1607.00133v2); with Laplace noise, clipped in L1, it is pure ε as
in Song, Chaudhuri and Sarwate (GlobalSIP 2013).

Frank-Wolfe: Talwar, Thakurta and Zhang (NIPS 2015). The gradient's score of each corner ±r·e_j of an L1 ball gets
Laplace noise and the least is taken. Only the choice is released, so the noise does not grow with the columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, softmax

from colonnade.data.block import clamp_columns
from colonnade.errors import PlanError
from colonnade.noise import DiscreteGaussianNoise, DiscreteLaplaceNoise
from colonnade.numbers.rounding import toward_zero
from colonnade.privacy import events
from colonnade.privacy.calibrate import calibrate
from colonnade.randomness import Randomness

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CentralLoss:
    """Logistic loss for classes 0 and 1, softmax for more, squares for numbers in [−1, 1]."""

    kind: Literal["classes", "numbers"]
    targets: NDArray[np.int64] | Array
    outputs: int

    def values(self, scores: Array, records: NDArray[np.int64]) -> Array:
        targets = self.targets[records]
        if self.outputs == 1:
            return np.asarray(np.logaddexp(0.0, scores[:, 0]) - targets * scores[:, 0])
        chosen = scores[np.arange(len(records)), targets.astype(np.int64)]
        return np.asarray(logsumexp(scores, axis=1) - chosen)

    def residuals(self, scores: Array, records: NDArray[np.int64]) -> Array:
        """∂loss/∂score for these records at these scores, one column for each output."""
        targets = self.targets[records]
        if self.kind == "numbers":
            return np.asarray(scores - targets[:, None])
        if self.outputs == 1:
            return np.asarray(expit(scores) - targets[:, None])
        shares = np.asarray(softmax(scores, axis=1))
        shares[np.arange(len(records)), targets.astype(np.int64)] -= 1.0
        return shares


Law = Literal["gaussian", "laplace"]

GRID = 1 << 20
"""The clipping bound in units of the grid: one record moves a step's sum by at most this."""
_RATE_BITS = 32
# A step's gradients are made some records at a time, so that memory does not grow with the sample.
_PIECE = 1 << 22


@dataclass(frozen=True)
class DescentSchedule:
    """Public, chosen without the data. `rate` is a multiple of 2⁻³²; `noise` is σ² or Laplace's scale, on the grid."""

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
    def event(self) -> events.Repeated:
        """The whole run to whoever reads the weights and does not know the samples."""
        return _run(self.law, self.noise, entries=self.entries, rate=self.rate, steps=self.steps)


@lru_cache(maxsize=256)
def schedule(
    rows: int, *, entries: int, law: Law, epochs: int, batch: int, epsilon: float, delta: float
) -> DescentSchedule:
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
    return DescentSchedule(law, rows, entries, steps, rate, noise)


def _run(law: Law, noise: Fraction, *, entries: int, rate: Fraction, steps: int) -> events.Repeated:
    step = (
        events.Approximated(events.DiscreteGaussian(GRID, noise), draws=entries)
        if law == "gaussian"
        else events.DiscreteLaplace(GRID, noise)
    )
    return events.Repeated(events.PoissonSampled(rate=rate, event=step), times=steps)


def descend(
    features: Array,
    loss: CentralLoss,
    plan: DescentSchedule,
    *,
    clip: float,
    learning_rate: float,
    randomness: Randomness,
) -> Array:
    """The mean over the second half, which costs nothing; steps are divided by the expected size of a sample."""
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


def _sample(plan: DescentSchedule, randomness: Randomness) -> NDArray[np.int64]:
    """Each record with probability `rate`, exactly and independently."""
    if plan.rate == 1:
        return np.arange(plan.rows)
    bound = plan.rate.numerator * ((1 << _RATE_BITS) // plan.rate.denominator)
    draws = randomness.words(-(-plan.rows // 2)).view(np.uint32)[: plan.rows]
    return np.flatnonzero(draws < np.uint32(bound))


def clipped_sum(
    features: Array, loss: CentralLoss, weights: Array, chosen: NDArray[np.int64], *, clip: float, law: Law
) -> NDArray[np.int64]:
    """Guarantee: each record adds integers of norm at most `GRID`, in L2 for Gaussian and in L1 for Laplace noise."""
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


LARGEST_EPSILON = 20.0
# A choice of this ε costs more than the largest target at every useful δ, so calibration never settles beyond it.
_LARGEST_CHOICE = 30.0
# What the logarithms of a coin's two probabilities can lose in doubles is a few 2⁻⁵³, whatever ε is.
_MARGIN = 2.0**-48


@dataclass(frozen=True)
class Walk:
    """So many steps toward corners of the ball ‖w‖₁ ≤ radius, chosen with Laplace noise of this scale."""

    steps: int
    radius: float
    scale: Fraction

    @property
    def event(self) -> events.Repeated:
        return _choices(self.scale, self.steps)


@lru_cache(maxsize=256)
def walk(steps: int, *, radius: float, epsilon: float, delta: float) -> Walk:
    if steps < 1 or not (math.isfinite(radius) and radius > 0):
        raise PlanError(
            f"Frank-Wolfe needs at least one step and a radius above 0, not {steps} and {radius}."
        )
    if not 0 < epsilon <= LARGEST_EPSILON or not 0 <= delta < 0.5:
        raise PlanError(
            f"Frank-Wolfe is accounted for up to ε = {LARGEST_EPSILON:g} at δ below 1/2, not at ε = {epsilon:g}, "
            f"δ = {delta:g}."
        )
    scale = calibrate(lambda scale: _choices(scale, steps), epsilon=epsilon, delta=delta)
    return Walk(steps, radius, scale)


def choice_epsilon(scale: Fraction) -> Fraction:
    """ε of one choice: each score moves by at most `GRID` in either direction."""
    return 2 * GRID / Fraction(scale)


def _choices(scale: Fraction, steps: int) -> events.Repeated:
    """One choice as randomised response of the same ε, which every mechanism of that ε can be made from.

    A coin of probability ½ + β or ½ − β has the loss log((1 + 2β)/(1 − 2β)), which is ε for β = tanh(ε/2)/2.
    """
    epsilon = min(float(choice_epsilon(scale)), _LARGEST_CHOICE)
    return events.Repeated(events.PoissonBinomial(1, 1, math.tanh(epsilon / 2) / 2 + _MARGIN), times=steps)


def wander(features: Array, loss: CentralLoss, plan: Walk, *, bound: float, randomness: Randomness) -> Array:
    """`features` are at most 1 in modulus, residuals at most `bound`; a record moves each score by at most `GRID`."""
    weights = np.zeros(features.shape[1])
    noise = DiscreteLaplaceNoise(plan.scale)
    everybody = np.arange(len(features))
    for step in range(plan.steps):
        residuals = loss.residuals(features @ weights[:, None], everybody)
        total = entry_sum(features, residuals, bound=bound)
        scores = np.concatenate([total, -total]) + noise.draw(2 * len(total), randomness)
        best = int(scores.argmin())
        corner = np.zeros_like(weights)
        corner[best % len(total)] = plan.radius if best < len(total) else -plan.radius
        pace = 2.0 / (step + 2.0)
        weights = (1.0 - pace) * weights + pace * corner
    return weights


def entry_sum(features: Array, residuals: Array, *, bound: float) -> NDArray[np.int64]:
    """Σ residual·feature on the grid. Guarantee: each record adds at most `GRID` in modulus to each entry."""
    integers = toward_zero(features * residuals * (GRID / bound))
    return np.asarray(np.clip(integers, -GRID, GRID).sum(axis=0))
