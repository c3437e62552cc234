"""Private Frank-Wolfe by a trusted party: at every step the corner of an L1 ball that noise makes look best.

Talwar, Thakurta and Zhang, "Nearly-Optimal Private LASSO" (NIPS 2015): the gradient's score of each corner ±r·e_j gets
Laplace noise, the least is taken, and the weights move toward that corner. Only the choice is released, so the noise
does not grow with the number of columns. Here scores are integers, noise is discrete, and a step's loss is composed
as that of the worst mechanism with the same pure ε. Proof: docs/proofs/baselines.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PlanError
from colonnade.methods.baselines.losses import Loss
from colonnade.noise import DiscreteLaplaceNoise
from colonnade.numbers.rounding import toward_zero
from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.events import Repeated
from colonnade.privacy.leaves import PoissonBinomial
from colonnade.randomness import Randomness

Array = NDArray[np.float64]

GRID = 1 << 20
"""The largest entry of one record's gradient, in units of the grid."""
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
    def event(self) -> Repeated:
        """The whole walk to whoever sees every corner it turned to."""
        return _choices(self.scale, self.steps)


@lru_cache(maxsize=256)
def walk(steps: int, *, radius: float, epsilon: float, delta: float) -> Walk:
    """The walk with the least noise within (ε, δ)."""
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


def _choices(scale: Fraction, steps: int) -> Repeated:
    """One choice as randomised response of the same ε, which every mechanism of that ε can be made from.

    A coin of probability ½ + β or ½ − β has the loss log((1 + 2β)/(1 − 2β)), which is ε for β = tanh(ε/2)/2.
    """
    epsilon = min(float(choice_epsilon(scale)), _LARGEST_CHOICE)
    return Repeated(PoissonBinomial(1, 1, math.tanh(epsilon / 2) / 2 + _MARGIN), times=steps)


def wander(features: Array, loss: Loss, plan: Walk, *, bound: float, randomness: Randomness) -> Array:
    """Weights after the walk, one row. `features` are at most 1 in modulus and residuals at most `bound`.

    Whatever the records are, each moves each score by at most `GRID`: its entries are clipped to that in integers.
    """
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
