"""What the server does with noisy moments and gradients. It is post-processing: no choice here changes what is learnt.

P = U diag(1/(k·max(λ, τ))) Uᵀ from the moments U diag(λ) Uᵀ, with k = 0.15 so that no step is too long for the slope of
the curve, and eigenvalues raised to what noise could have made of them. w ← w − P·g; the model is the mean of the
second half of the path.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from colonnade.methods.margin.plan import MarginPlan

Array = NDArray[np.float64]
BEND = 0.15
"""k of two thirds of the steepest slope of the curve of six harmonics; steeper curves take as much of theirs."""


def floor_factor(deviation: float, columns: int, rows: int) -> float:
    """How many times the noise's own eigenvalues are raised to: clip(10·σ·D^1.5/n, ½, 2)."""
    return float(np.clip(10 * deviation * columns**1.5 / rows, 0.5, 2.0))


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
        self._preconditioner = self._precondition()

    def _precondition(self) -> Array:
        plan = self._plan
        # σ at sensitivity 1 for all of the budget, as what is opened carries it: the moments have it over √f.
        of_moments = math.sqrt(float(plan.moments_variance) * plan.overhead) / plan.gamma**2
        whole = of_moments * math.sqrt(plan.schedule.moments_share)
        least = floor_factor(whole, plan.size, plan.rows) * math.sqrt(plan.size / 2) * of_moments
        values, vectors = np.linalg.eigh(self.moments / plan.gamma**2)
        bend = max(BEND, 2 / 3 * plan.waves.curve.slope)
        inverse: Array = (vectors / (bend * np.maximum(values, least))) @ vectors.T
        return inverse

    def step(self, opened: NDArray[np.int64]) -> None:
        """Move by one opened gradient, Σ r̃x̃ with its noise, as integers."""
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
        return mean * log_odds_slope(self._root_mean_square(mean))

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

    def _root_mean_square(self, weights: Array) -> Array:
        """How large scores are, by the moments: √(wᵀ Σx̃x̃ᵀ w / n), for every head."""
        squares = np.einsum("ij,ik,kj->j", weights, self.moments / self._plan.gamma**2, weights)
        sizes: Array = np.sqrt(np.maximum(squares, 0.0) / self._plan.rows)
        return sizes


def _first_slopes(plan: MarginPlan) -> tuple[int, int]:
    """r̃ of every row at w = 0: of those that are not of a head's class, and of those that are."""
    waves, others, at_zero = plan.waves, len(plan.others), np.zeros(1)
    # Of the others every sine is 0.
    cosines = waves.deal_plain(at_zero)[0, : plan.schedule.harmonics].tolist()
    slopes = []
    for label, sign in ((False, -1), (True, 1)):
        labelled = waves.deal_labelled(at_zero, np.array([label]))[0].tolist()
        turned = sum(mine * theirs**others for mine, theirs in zip(labelled, cosines, strict=False))
        slopes.append(turned + sign * waves.constant * plan.wave_grid**others)
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
