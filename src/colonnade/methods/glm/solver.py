"""Generalised linear models solved exactly, where somebody may look at all the rows it has."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from colonnade.methods.glm.interfaces import Loss
from colonnade.methods.glm.penalties import Penalty
from colonnade.methods.glm.rows import CONSTANT
from colonnade.numbers.threads import few_threads

Array = NDArray[np.float64]


def solve(features: Array, targets: Array, *, loss: Loss, penalty: Penalty) -> Array:
    """The weights that minimise the mean loss plus the penalty; the last weight is not penalised.

    Weights are split into positive and negative parts, so that ‖w‖₁ is smooth between bounds (L-BFGS-B).
    """
    rows, width = features.shape
    held = width - 1
    parts = 2 if penalty.l1 else 1

    def joined(point: Array) -> Array:
        return point[:width] - point[width:] if parts == 2 else point

    def objective(point: Array) -> tuple[float, Array]:
        weights = joined(point)
        scores = features @ weights
        gradient = loss.residual(scores, targets) @ features / rows
        gradient[:held] += penalty.l2 * weights[:held]
        value = float(loss.value(scores, targets).mean()) + penalty.l2 / 2 * float(
            weights[:held] @ weights[:held]
        )
        if parts == 1:
            return value, gradient
        slope = np.concatenate((np.full(held, penalty.l1), np.zeros(1)))
        value += penalty.l1 * float(np.abs(point[:held]).sum() + np.abs(point[width : width + held]).sum())
        return value, np.concatenate((gradient + slope, slope - gradient))

    from scipy.optimize import minimize

    bounds = None if parts == 1 else [(0.0, None)] * (2 * width)
    with few_threads(features.size):
        solution = minimize(
            objective,
            np.zeros(parts * width),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": 5000, "maxfun": 20000, "ftol": 1e-13, "gtol": 1e-8},
        )
    return joined(np.asarray(solution.x))


def solve_parts(
    parts: Mapping[str, Array], targets: Array, *, active: str, loss: Loss, penalty: Penalty
) -> dict[str, Array]:
    """The same of owners' rows side by side: weights by owner, the active one's with that of the constant last."""
    order = [*(owner for owner in parts if owner != active), active]
    constant = np.full((len(targets), 1), CONSTANT)
    features = np.concatenate([*(parts[owner] for owner in order), constant], axis=1)
    ends = np.cumsum([parts[owner].shape[1] for owner in order[:-1]])
    solution = solve(features, targets, loss=loss, penalty=penalty)
    return dict(zip(order, np.split(solution, ends), strict=True))
