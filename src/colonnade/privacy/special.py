"""Two functions of doubles that accounting asks for again and again.

SciPy has both. To load it takes as long as everything else that reading a ledger takes, and its sums of exponentials
spend most of a call on what kind of array they were given.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_FAR = 2.0
_HALF_BITS = 24


def scaled_erfc(x: float) -> float:
    """exp(x²)·erfc(x) for x ≥ 0, within 2⁻⁵⁰ of its value.

    Far out it is Laplace's continued fraction, x + (1/2)/(x + (2/2)/(x + (3/2)/…), whose terms are positive: nothing
    cancels. Near 0 the square is taken in two parts, of which the larger is exact, so that e^(x²) keeps its digits.
    """
    if x < _FAR:
        head = math.ldexp(math.floor(math.ldexp(x, _HALF_BITS)), -_HALF_BITS)
        return math.exp(head * head) * math.exp((x - head) * (x + head)) * math.erfc(x)
    fraction = x
    # What is left out after n terms is about e^(−x√(8n)).
    for term in range(12 + int(320 / (x * x)), 0, -1):
        fraction = x + 0.5 * term / fraction
    return 1.0 / (math.sqrt(math.pi) * fraction)


def log_sum(logarithms: NDArray[np.float64]) -> NDArray[np.float64]:
    """log Σ exp over the last axis, where exp itself might leave the range of doubles."""
    top = logarithms.max(axis=-1, keepdims=True)
    top[~np.isfinite(top)] = 0.0
    with np.errstate(divide="ignore"):
        total: NDArray[np.float64] = np.log(np.exp(logarithms - top).sum(axis=-1)) + top[..., 0]
    return total
