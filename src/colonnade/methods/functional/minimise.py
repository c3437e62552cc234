"""Minimising a noisy quadratic objective: everything here is a function of what was opened, and spends no privacy.

f(w) = wᵀMw + λᵀw. Linear: Σ (v − wᵀx)² has M = Σxxᵀ, λ = −2Σvx. Logistic: the loss to second order around w = 0 has
M = Σxxᵀ/8, λ = −½Σvx with v = ±1. With noise M need not be positive definite, and f then has no minimum. What is done
about it must not look at the data again: eigenvalues are raised to a floor, or a ridge is added and what is still not
positive is left out. Drawing again until M is positive definite would be a second release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import DrownedByNoise
from colonnade.methods.functional.protocol import OpenedObjective
from colonnade.models.spectral import Spectrum, decompose, floor_of
from colonnade.noise.discrete_laplace import DiscreteLaplaceNoise
from colonnade.privacy.paper.functional_mechanism import linear_sensitivity, logistic_sensitivity
from colonnade.protocols.specs import Task
from colonnade.randomness import Randomness

Array = NDArray[np.float64]

_GRID = 1 << 20  # steps of the discrete Laplace noise in one scale of the continuous one that it stands for


@dataclass(frozen=True, eq=False)
class Objective:
    """f(w) = wᵀMw + λᵀw; with an intercept the last coordinate is its, and the square of it is exact.

    `noise` is the standard deviation of an entry of M, `border_noise` of one in the intercept's row.
    """

    quadratic: Array
    linear: Array
    noise: float
    border_noise: float = 0.0
    intercept: bool = False


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where f is smallest, w and intercept; `dropped` directions could not be told from noise and are left out."""

    weights: Array
    intercept: float
    dropped: int = 0


def minimise(objective: Objective, *, ridge: float | None = None) -> Minimum:
    """The minimum of a noisy objective, with its intercept free.

    Without `ridge` eigenvalues are raised to min(2√d, 12) standard deviations of the noise (`default_floor`). With
    it, so many standard deviations are added to each of them, and directions that are still not positive are left
    out: 4 is what Zhang et al. propose for the functional mechanism.

    The intercept is taken out first: for given w it is b = −(λ₀/2 + aᵀw)/m, where a is its row of M and m its square.
    a is in λ − aλ₀/m and in aᵀw, so noise of standard deviation s shifts aᵀw by λ₀ s² tr(T⁻¹)/2m on average, which is
    taken off again.
    """
    matrix, linear = objective.quadratic, objective.linear
    if not objective.intercept:
        spectrum = _spectrum(matrix, objective.noise, ridge)
        return Minimum(-0.5 * spectrum.solve(linear), 0.0, int(np.count_nonzero(spectrum.inverse == 0)))
    inner, row, square = matrix[:-1, :-1], matrix[:-1, -1], float(matrix[-1, -1])
    first, last = linear[:-1], float(linear[-1])
    spectrum = _spectrum(inner - np.outer(row, row) / square, objective.noise, ridge)
    weights = -0.5 * spectrum.solve(first - row * (last / square))
    shared = 0.5 * (last / square) * objective.border_noise**2 * spectrum.inverse_trace
    intercept = -(last / 2.0 + float(row @ weights) - shared) / square
    return Minimum(weights, intercept, int(np.count_nonzero(spectrum.inverse == 0)))


def _spectrum(matrix: Array, noise: float, ridge: float | None) -> Spectrum:
    if ridge is None:
        return decompose(matrix, floor=floor_of(None, noise, len(matrix)))
    return decompose(matrix + ridge * noise * np.eye(len(matrix)), floor=0.0)


def opened_objective(opened: OpenedObjective) -> Objective:
    """The objective in natural units from the integers that were opened.

    In the ball a feature is x/√m, as everywhere in a release; in the box it is x itself. The square of the intercept's
    1 is the public number of rows.
    """
    plan, parts = opened.plan, opened.plan.dissection
    matrix = parts.matrix(opened.coefficients).astype(np.float64)
    gamma, g, c = float(plan.gamma), float(plan.label_size), float(plan.constant_size)
    at = parts.features
    deviation = math.sqrt(max(noise.variance(plan.group) for noise in plan.noises))
    second, first = (0.125, -0.5) if plan.spec.task == "classification" else (1.0, -2.0)
    quadratic = second * matrix[np.ix_(at, at)] / gamma**2
    linear = first * matrix[at, parts.label] / (gamma * g)
    noise = second * deviation / gamma**2
    if parts.constant is None:
        return Objective(quadratic, linear, noise)
    row = second * matrix[at, parts.constant] / (gamma * c)
    total = float(matrix[parts.constant, parts.label]) / (c * g)
    bordered = np.block([[quadratic, row[:, None]], [row[None, :], np.array([[second * plan.rows]])]])
    border_noise = second * deviation / (gamma * c)
    return Objective(bordered, np.append(linear, first * total), noise, border_noise, intercept=True)


def check_classes(opened: OpenedObjective) -> None:
    """Refuse to tell two classes apart where the noisy count of one of them is not above zero."""
    plan, parts = opened.plan, opened.plan.dissection
    if plan.spec.task != "classification" or parts.constant is None:
        return
    size = float(plan.label_size * plan.constant_size)
    difference = float(parts.matrix(opened.coefficients)[parts.constant, parts.label]) / size
    deviation = math.sqrt(max(noise.variance(plan.group) for noise in plan.noises)) / size / 2.0
    for name, count in zip(
        plan.label.classes, ((plan.rows - difference) / 2, (plan.rows + difference) / 2), strict=True
    ):
        if not count > 0:
            raise DrownedByNoise(
                f"class {name!r} has a noisy count of {count:.1f} rows (standard deviation {deviation:.1f}), "
                "which is too few to tell it from the other. Use more rows of that class, or a larger ε."
            )


def paper_objective(
    features: Array, labels: Array, *, task: Task, epsilon: float, randomness: Randomness
) -> Objective:
    """The objective as the paper perturbs it, from rows in the clear: for data that is public, and no guarantee.

    Features lie in [−1, 1]; labels in [−1, 1], or 0 and 1. Lap(Δ_f/ε) is added to every first-order and every ordered
    second-order coefficient, Δ_f as in the paper; there is no intercept. The noise is Laplace on a grid of 2^-20 of its
    scale.
    """
    width = features.shape[1]
    if task == "classification":
        sensitivity = logistic_sensitivity(width)
        quadratic, linear = features.T @ features / 8.0, features.T @ (0.5 - labels)
    else:
        sensitivity = linear_sensitivity(width)
        quadratic, linear = features.T @ features, -2.0 * features.T @ labels
    scale = sensitivity.value / epsilon
    drawn = DiscreteLaplaceNoise(Fraction(_GRID)).draw((width + 1, width), randomness) * (scale / _GRID)
    # f holds w_a w_b and w_b w_a: their noise is the mean of two draws.
    noisy = quadratic + (drawn[1:] + drawn[1:].T) / 2.0
    return Objective(noisy, linear + drawn[0], noise=scale)
