"""Linear models of rows that lie in one place, solved exactly: scikit-learn's solutions, without loading it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colonnade.methods.baselines.losses import Loss
from colonnade.numbers.threads import few_threads

Array = NDArray[np.float64]
# Where the mean loss is as flat as this it is at its least.
_FLAT = 1e-6


def exact_classes(features: Array, classes: NDArray[np.int64], *, penalty: float) -> tuple[Array, Array]:
    """Weights and constants with the least summed log-loss plus penalty/2·‖weights‖²; constants are free.

    `classes` are numbered from 0 and all occur: of two there is one row of weights, of more one for each.
    """
    # Loading it takes longer than most runs wait for anything, and few are compared with no privacy.
    from scipy.optimize import minimize

    count, width = features.shape
    occurring = int(classes.max()) + 1
    loss = Loss("classes", classes, outputs=1 if occurring == 2 else occurring)
    everybody = np.arange(count)
    bordered = np.column_stack([features, np.ones(count)])
    held = np.append(np.full(width, penalty / count), 0.0)

    def objective(point: Array) -> tuple[float, Array]:
        weights = point.reshape(loss.outputs, width + 1)
        scores = bordered @ weights.T
        slope = loss.residuals(scores, everybody).T @ bordered / count + held * weights
        return float(loss.values(scores, everybody).mean() + (held * weights**2).sum() / 2), slope.ravel()

    with few_threads(bordered.size):
        solution = minimize(
            objective,
            np.zeros(loss.outputs * (width + 1)),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 2000, "maxfun": 10_000, "ftol": 1e-13, "gtol": _FLAT},
        )
    weights = np.asarray(solution.x).reshape(loss.outputs, width + 1)
    return weights[:, :-1], weights[:, -1]


def exact_numbers(features: Array, labels: Array) -> tuple[Array, Array]:
    """The weights, the shortest where several do, and the constant with the least squares."""
    centre, middle = features.mean(axis=0), labels.mean()
    weights = np.linalg.lstsq(features - centre, labels - middle, rcond=None)[0]
    return weights[None, :], np.atleast_1d(middle - centre @ weights)
