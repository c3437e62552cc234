"""Logistic regression whose gradient vanishes on what was released, with the curvature of invented people.

The logistic log-likelihood of real people is Σ y w·f − Σ log(1 + e^{w·f}). The first sum is released: it is the sum of
features over the second class, t. The second depends on the features alone, and invented people who agree with the
release in every pair of columns give it nearly as well as real ones. So w minimises

    mean log(1 + e^{w·f}) − w·t/n + (λ/2)‖w‖²

over invented f, with λ the noise of an entry of t/n, below which nothing that it says is known. The squared loss, which
needs no invented people, puts least squares in the place of the logistic function.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from colonnade.errors import DrownedByNoise
from colonnade.learn.tables.drawing import draw_levels
from colonnade.learn.tables.margins import Margins
from colonnade.learn.tables.mixture import Fit
from colonnade.randomness import SeededRandomness

Array = NDArray[np.float64]
PEOPLE = 40_000
"""Invented people: more change a coefficient by less than the noise of a release does."""
MANY_COLUMNS = 20
"""From so many columns on, the noise of all of them together asks for a larger λ."""


@dataclass(frozen=True, eq=False)
class Matched:
    """Log-odds of the second class on features in units of the codes, and what was taken for λ."""

    coefficients: Array
    intercept: float
    penalty: float
    steps: int


def matched_rule(margins: Margins, fit: Fit, *, ridge: float = 0.0, people: int = PEOPLE) -> Matched:
    """The matched logistic rule of two classes."""
    count = float(margins.counts[1])
    if not 0.0 < count < margins.people:
        raise DrownedByNoise(
            f"the second class has a noisy count of {count:.1f} of {margins.people:.1f} people, which leaves nothing "
            "to tell apart. Use more people, or a release with less noise (a larger ε)."
        )
    levels, _ = draw_levels(fit, people, SeededRandomness("matched logistic"))
    parts = [column.codes[codes] for column, codes in zip(margins.columns, levels, strict=True)]
    features = np.column_stack([*parts, np.ones(people)]).astype(np.float32)
    target = np.append(margins.sums[1], count) / margins.people
    penalty = penalty_of(margins) + ridge / margins.people
    weight = np.full(len(target), penalty)
    weight[-1] = 0.0

    def objective(w: Array) -> tuple[float, Array]:
        scores = (features @ w.astype(np.float32)).astype(np.float64)
        value = float(np.logaddexp(0.0, scores).mean()) - float(w @ target) + 0.5 * float(weight @ w**2)
        shares = (1.0 / (1.0 + np.exp(-scores))).astype(np.float32)
        return value, (shares @ features).astype(np.float64) / people - target + weight * w

    start = np.zeros(len(target))
    start[-1] = np.log(target[-1] / (1.0 - target[-1]))
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 500, "gtol": 1e-6})
    return Matched(found.x[:-1], float(found.x[-1]), penalty, int(found.nit))


def penalty_of(margins: Margins) -> float:
    """λ: the noise of an entry of the mean features of a class; three times that with many columns."""
    noise = margins.sum_noise / margins.people
    return noise * (3.0 if len(margins.columns) >= MANY_COLUMNS else 1.0)
