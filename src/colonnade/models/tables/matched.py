"""Logistic regression whose gradient vanishes on what was released, with the curvature of synthetic people.

The logistic log-likelihood of real people is Σ y w·f − Σ log(1 + e^{w·f}). The first sum is released: it is the sum of
features over the second class, t. The second depends on the features alone, and synthetic people who agree with the
release in every pair of columns give it nearly as well as real ones. So w minimises

    mean log(1 + e^{w·f}) − w·t/n + (λ/2)‖w‖²

over synthetic f, with λ the noise of an entry of t/n. λ holds all scores back, more than their order asks for: so the
score s = w·f is matched once more by itself, without a penalty: mean p = n₁/n and mean s·p = w·t/n, noise taken out.
Both are minima of convex functions, sought by Newton's steps until none moves anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from colonnade.errors import DrownedByNoise
from colonnade.models.tables.margins import Margins
from colonnade.models.tables.synthetic import Fit, draw_levels
from colonnade.numbers.threads import one_thread
from colonnade.randomness import SeededRandomness

Array = NDArray[np.float64]
_LEAST_CURVATURE = 1e-9
_MOST_STEPS = 100
_HALVINGS = 30
_BLOCK = 4096
PEOPLE = 40_000
"""Synthetic people: more change a coefficient by less than the noise of a release does."""
MANY_COLUMNS = 20
"""From so many columns on, the noise of all of them together asks for a larger λ."""


MOST_STRETCH = 2.0


@dataclass(frozen=True, eq=False)
class MatchedRule:
    """Log-odds of the second class on features in units of the codes; `stretch` undoes what λ held back."""

    coefficients: Array
    intercept: float
    penalty: float
    steps: int
    stretch: float = 1.0


@one_thread()
def matched_rule(margins: Margins, fit: Fit, *, ridge: float = 0.0) -> MatchedRule:
    count = float(margins.counts[1])
    if not 0.0 < count < margins.people:
        raise DrownedByNoise(
            f"the second class has a noisy count of {count:.1f} of {margins.people:.1f} people, which leaves nothing "
            "to tell apart. Use more people, or a release with less noise (a larger ε)."
        )
    levels, _ = draw_levels(fit, PEOPLE, SeededRandomness("matched logistic"))
    parts = [column.codes[codes] for column, codes in zip(margins.columns, levels, strict=True)]
    features = np.column_stack([*parts, np.ones(PEOPLE)]).astype(np.float32)
    target = np.append(margins.sums[1], count) / margins.people
    # λ: the noise of an entry of the mean features of a class, three times that with many columns.
    noise = margins.sum_noise / margins.people
    penalty = noise * (3.0 if len(margins.columns) >= MANY_COLUMNS else 1.0) + ridge / margins.people
    weight = np.full(len(target), penalty)
    weight[-1] = 0.0
    start = np.zeros(len(target))
    start[-1] = np.log(target[-1] / (1.0 - target[-1]))
    least = _minimum(features, start, target, weight)
    stretch, intercept = _stretched(features, least, target, noise)
    return MatchedRule(stretch * least.weights[:-1], intercept, penalty, least.steps, stretch)


def _stretched(
    features: NDArray[np.float32], least: _Minimum, target: Array, noise: float
) -> tuple[float, float]:
    """The slope and the intercept with which scores agree with the release; noise adds σ² tr (H + Λ)⁻¹ to w·t."""
    weights = least.weights
    scores = features[:, :-1].astype(np.float64) @ weights[:-1]
    inverse = np.linalg.inv(least.curvature)
    explained = float(weights[:-1] @ target[:-1]) - noise**2 * float(np.trace(inverse[:-1, :-1]))
    ones, share = np.ones((len(scores), 1)), target[-1:]
    rows, free = np.column_stack([scores, ones]), np.zeros(2)
    slope, offset = _minimum(rows, np.array([1.0, weights[-1]]), np.append(explained, share), free).weights
    if not 1.0 <= slope <= MOST_STRETCH:
        # Of a convex function of two numbers the least within bounds of one is on the bound that is passed.
        slope = min(max(slope, 1.0), MOST_STRETCH)
        (offset,) = _minimum(ones, weights[-1:], share, free[1:], known=slope * scores).weights
    return float(slope), float(offset)


@dataclass(frozen=True, eq=False)
class _Minimum:
    """Where a sum is least, the curvature there, and after how many steps."""

    weights: Array
    curvature: Array
    steps: int


def _minimum(
    rows: NDArray[Any], start: Array, target: Array, penalty: Array, *, known: Array | None = None
) -> _Minimum:
    """The least of mean log(1 + e^s) − w·t + ½ Σ λw², s being w·rows beside what is known of it."""

    def at(w: Array) -> tuple[float, Array, Array]:
        value, slope, bend = 0.0, np.zeros(len(w)), np.zeros((len(w), len(w)))
        for begin in range(0, len(rows), _BLOCK):
            part = rows[begin : begin + _BLOCK].astype(np.float64)
            scores = part @ w if known is None else part @ w + known[begin : begin + _BLOCK]
            chances = expit(scores)
            value += float(np.logaddexp(0.0, scores).sum())
            slope += chances @ part
            bend += (part.T * (chances * (1.0 - chances))) @ part
        return (
            value / len(rows) - float(w @ target) + 0.5 * float(penalty @ w**2),
            slope / len(rows) - target + penalty * w,
            bend / len(rows) + np.diag(penalty + _LEAST_CURVATURE),
        )

    weights = start
    value, slope, bend = at(weights)
    for number in range(1, _MOST_STEPS + 1):
        step = np.linalg.solve(bend, -slope)
        for _ in range(_HALVINGS):
            tried = at(weights + step)
            # Near the least, values differ by less than their own rounding.
            if tried[0] <= value + 1e-13 * abs(value):
                break
            step = step / 2.0
        weights, (value, slope, bend) = weights + step, tried
        if float(np.abs(step).max()) <= 1e-10 * max(1.0, float(np.abs(weights).max())):
            return _Minimum(weights, bend, number)
    return _Minimum(weights, bend, _MOST_STEPS)
