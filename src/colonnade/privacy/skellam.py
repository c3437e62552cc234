"""The exact law of one Skellam variable, Sk(μ) = Poisson(μ) − Poisson(μ), and its divergences under a shift.

log f(k) is log f(0) plus the logarithms of the ratios ρ_k = f(k+1)/f(k) of Bessel functions, which satisfy
ρ_(k−1) = 1/(k/μ + ρ_k). Run downwards this recursion is positive and contracts errors, so that the logarithms
are good to the last digits far into tails whose probabilities no double can hold.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from colonnade.privacy.special import log_sum

LONGEST_TABLE = 2**16
_DEVIATIONS = 50.0
_NEGLIGIBLE = 60.0
"""Terms below e⁻⁶⁰ of the largest may be left out: e⁻⁶⁰ times any length of table is below one part in 10²⁰."""


@lru_cache(maxsize=64)
def log_skellam(mu: float, length: int) -> NDArray[np.float64]:
    """log P(Sk(μ) = k) for k = 0 … length − 1."""
    from scipy.special import ive

    argument = 2 * mu
    # A step at k shrinks an error by ρ², about e^(−k/μ): from this start on, what the first guess lacks is gone.
    start = length + 16 + math.ceil(math.sqrt(length**2 + 80 * mu) - length)
    ratio = argument / (start + math.hypot(start, argument))
    for k in range(start, length - 1, -1):
        ratio = 1 / (k / mu + ratio)
    ratios = np.ones(length)
    for k in range(length - 1, 0, -1):
        ratio = 1 / (k / mu + ratio)
        ratios[k] = ratio
    table = np.log(ratios)
    table[0] = math.log(ive(0, argument))
    table.setflags(write=False)
    total: NDArray[np.float64] = np.cumsum(table)
    return total


def exact_order_limit(shift: int, mu: float) -> float:
    """The largest order for which the exact divergence fits a table; below 1 if none does."""
    room = LONGEST_TABLE - _DEVIATIONS * math.sqrt(2 * mu) - 128
    return room / max(shift, 1) - 1


def exact_skellam_renyi(shift: int, mu: float, order: float) -> float:
    """D_α of Sk(μ) and Sk(μ) + shift, the same in both directions; a bound for every smaller shift.

    Sk(μ) is log-concave, so that every divergence grows with the shift. Where the sum does not fit a table the
    answer is infinite, never too small.
    """
    if shift == 0:
        return 0.0
    if order > exact_order_limit(shift, mu):
        return math.inf
    reach = int(order * shift + _DEVIATIONS * math.sqrt(2 * mu)) + 128
    length = 1 << (reach + shift).bit_length()
    table = log_skellam(mu, length)
    points = np.arange(-length + 1 + shift, length)
    terms = order * table[np.abs(points - shift)] + (1 - order) * table[np.abs(points)]
    if max(terms[0], terms[-1]) > terms.max() - _NEGLIGIBLE:
        return math.inf
    return max(0.0, float(log_sum(terms)) / (order - 1))
