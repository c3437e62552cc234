"""The linear program that the coefficients of `methods/margin/curve.py` come from: a trigonometric polynomial.

They are stored, not computed where a run is planned: two machines with different solvers would plan different runs. A
test holds the stored ones to this program.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from colonnade.methods.margin.curve import MILLION, PERIOD, WINDOW

Array = NDArray[np.float64]
_INSIDE, _AROUND = 300, 500
"""How many margins the fit is compared at, and at how many places of the circle it is bounded."""


def capped_logistic(margins: Array, cap: float = 0.5) -> Array:
    """min(1/(1 + e^m), cap): logistic where a row is on its side, linear where it is far on the other."""
    return np.asarray(np.minimum(1 / (1 + np.exp(margins)), cap))


def fitted_coefficients(harmonics: int, cap: float = 0.5) -> tuple[int, ...]:
    """(a₀, a₁ … a_M, b₁ … b_M) in millionths: the least largest error in the window, with 0 ≤ h ≤ cap all around."""
    low, high = WINDOW
    period = float(PERIOD)
    inside = np.linspace(low, high, _INSIDE)
    around = np.linspace(high - period, high, _AROUND, endpoint=False)
    target = capped_logistic(inside, cap)
    rows, bounded = _phasors(inside, harmonics, period), _phasors(around, harmonics, period)
    count = rows.shape[1]
    error, none = np.ones((_INSIDE, 1)), np.zeros((_AROUND, 1))
    found = linprog(
        np.append(np.zeros(count), 1.0),
        A_ub=np.vstack(
            [np.hstack(pair) for pair in ((rows, -error), (-rows, -error), (bounded, none), (-bounded, none))]
        ),
        b_ub=np.concatenate([target, -target, np.full(_AROUND, cap), np.zeros(_AROUND)]),
        bounds=[(None, None)] * count + [(0, None)],
        method="highs",
    )
    return tuple(round(value * MILLION) for value in found.x[:count])


def _phasors(margins: Array, harmonics: int, period: float) -> Array:
    angles = np.outer(margins, np.arange(1, harmonics + 1)) * (2 * np.pi / period)
    return np.hstack([np.ones((len(margins), 1)), np.cos(angles), np.sin(angles)])
