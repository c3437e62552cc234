"""Three functions that stand in for the logistic one where only sums and products can be taken under encryption.

Each gives a coefficient f for a score z = θᵀx and a label y = ±1, such that the gradient of a batch of s records is
(1/s)Σ f·x. Source: "Is Vertical Logistic Regression Privacy-Preserving?", equation (5) over 4 and appendices E, F.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Approximation = Literal["taylor", "minimax", "piecewise"]
Array = NDArray[np.float64]

SLOPES: dict[Approximation, float] = {"taylor": 0.25, "minimax": 0.197, "piecewise": 1.0}
"""The largest slope of each coefficient in z: gradient descent converges for step sizes up to 2/(slope·‖x‖²)."""

HARMLESS_SCORES: dict[Approximation, float] = {"taylor": 2.0, "minimax": 3.2, "piecewise": 0.5}
"""While every |z| is smaller, the sign of a coefficient is the opposite of the label."""


def coefficients(approximation: Approximation, scores: Array, labels: Array) -> Array:
    """f for every record."""
    match approximation:
        case "taylor":
            return 0.25 * scores - 0.5 * labels
        case "minimax":
            return -0.004 * scores**3 + 0.197 * scores - 0.5 * labels
        case "piecewise":
            # Clipping z to ±1/2 gives both outer branches: −y where y·z ≤ −1/2, and 0 where y·z ≥ 1/2.
            return np.clip(scores, -0.5, 0.5) - 0.5 * labels
