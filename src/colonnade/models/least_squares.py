"""Least squares and ridge regression from second moments.

Everything here is a function of a release that is already public, so it spends no privacy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.models.moments import ValueMoments
from colonnade.models.spectral import decompose, floor_of

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinearFit:
    """v ≈ coefficients @ x + intercept."""

    coefficients: Array
    intercept: float


def least_squares(
    moments: ValueMoments, *, floor: float | None = None, ridge: float = 0.0, unbias: bool = True
) -> LinearFit:
    """The line of least squares, with an intercept that is not penalised.

    w = (T + ridge)⁻¹(Σxv − v̄Σx) with T = G − nμμᵀ floored, and v ≈ wᵀ(x − μ) + v̄ + β. The floor is the
    one that classification uses, for the same reason: the right-hand side has noise s/c in every
    direction, which a small eigenvalue would multiply.

    β = −v̄(s/c)² tr(T⁻¹)/n: Σxv − v̄Σx and μ share the noise of Σx, so that E[wᵀμ] is off by this much.
    """
    scatter = moments.scatter()
    spectrum = decompose(scatter.matrix, floor=floor_of(floor, moments.noise, len(scatter.mean)), ridge=ridge)
    weights = spectrum.solve(moments.cross - moments.value_mean * moments.total)
    shift = moments.sum_noise**2 * spectrum.inverse_trace / scatter.count if unbias else 0.0
    intercept = float(moments.value_mean * (1.0 - shift) - weights @ scatter.mean)
    return LinearFit(weights, intercept)
