"""Logistic regression whose gradient vanishes on what was released, with the curvature of invented people.

The logistic log-likelihood of real people is Σ y w·f − Σ log(1 + e^{w·f}). The first sum is released: it is the sum of
features over the second class, t. The second depends on the features alone, and invented people who agree with the
release in every pair of columns give it nearly as well as real ones. So w minimises

    mean log(1 + e^{w·f}) − w·t/n + (λ/2)‖w‖²

over invented f, with λ the noise of an entry of t/n, below which nothing that it says is known. The squared loss, which
needs no invented people, puts least squares in the place of the logistic function.

λ holds all scores back, more than their order asks for. So the score s = w·f is matched once more by itself, as one
column without a penalty: mean p = n₁/n and mean s·p = w·t/n, what noise adds to w·t taken out. Scores are stretched by
it and never flattened.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from colonnade.errors import DrownedByNoise
from colonnade.models.tables.drawing import draw_levels
from colonnade.models.tables.margins import Margins
from colonnade.models.tables.mixture import Fit
from colonnade.randomness import SeededRandomness

Array = NDArray[np.float64]
_LEAST_CURVATURE = 1e-9
PEOPLE = 40_000
"""Invented people: more change a coefficient by less than the noise of a release does."""
MANY_COLUMNS = 20
"""From so many columns on, the noise of all of them together asks for a larger λ."""


MOST_STRETCH = 2.0


@dataclass(frozen=True, eq=False)
class Matched:
    """Log-odds of the second class on features in units of the codes, and what was taken for λ.

    `stretch` is by how much the scores that λ held back were multiplied.
    """

    coefficients: Array
    intercept: float
    penalty: float
    steps: int
    stretch: float = 1.0


def matched_rule(margins: Margins, fit: Fit, *, ridge: float = 0.0) -> Matched:
    """The matched logistic rule of two classes."""
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
    penalty = penalty_of(margins) + ridge / margins.people
    weight = np.full(len(target), penalty)
    weight[-1] = 0.0

    def objective(w: Array) -> tuple[float, Array]:
        scores = (features @ w.astype(np.float32)).astype(np.float64)
        value = float(np.logaddexp(0.0, scores).mean()) - float(w @ target) + 0.5 * float(weight @ w**2)
        shares = (1.0 / (1.0 + np.exp(-scores))).astype(np.float32)
        return value, (shares @ features).astype(np.float64) / PEOPLE - target + weight * w

    from scipy.optimize import minimize

    start = np.zeros(len(target))
    start[-1] = np.log(target[-1] / (1.0 - target[-1]))
    solution = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 500, "gtol": 1e-6})
    stretch, intercept = _stretched(features, solution.x, target, weight, margins.sum_noise / margins.people)
    return Matched(stretch * solution.x[:-1], intercept, penalty, int(solution.nit), stretch)


def _stretched(
    features: NDArray[np.float32], weights: Array, target: Array, penalty: Array, noise: float
) -> tuple[float, float]:
    """The slope and the intercept with which scores agree with what was released of them.

    Where t moves by η, w moves by (H + Λ)⁻¹η, H being the curvature: so noise adds σ² tr (H + Λ)⁻¹ to w·t on average.
    """
    scores = (features[:, :-1] @ weights[:-1].astype(np.float32)).astype(np.float64)
    chances = expit(scores + weights[-1])
    bend = (features.T * (chances * (1.0 - chances)).astype(np.float32)) @ features / len(features)
    inverse = np.linalg.inv(bend.astype(np.float64) + np.diag(penalty + _LEAST_CURVATURE))
    told = float(weights[:-1] @ target[:-1]) - noise**2 * float(np.trace(inverse[:-1, :-1]))

    def objective(line: Array) -> tuple[float, Array]:
        tried = line[0] * scores + line[1]
        value = float(np.logaddexp(0.0, tried).mean()) - line[0] * told - line[1] * target[-1]
        shares = expit(tried)
        return value, np.array(
            [float(scores @ shares) / len(scores) - told, float(shares.mean()) - target[-1]]
        )

    from scipy.optimize import minimize

    line = minimize(
        objective,
        np.array([1.0, weights[-1]]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(1.0, MOST_STRETCH), (None, None)],
    ).x
    return float(line[0]), float(line[1])


def penalty_of(margins: Margins) -> float:
    """λ: the noise of an entry of the mean features of a class; three times that with many columns."""
    noise = margins.sum_noise / margins.people
    return noise * (3.0 if len(margins.columns) >= MANY_COLUMNS else 1.0)
