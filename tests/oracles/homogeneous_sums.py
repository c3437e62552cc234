"""Sums of equal binomials: their Rényi divergence by direct summation."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp


def homogeneous_renyi(contributors: int, trials: int, beta: float, order: float) -> float:
    """D_α of Bin(Mb, ½ + β) and Bin((M − 1)b, ½ + β) + Bin(b, ½ − β), at any real order and for any length.

    >>> round(homogeneous_renyi(5, 16, 0.1, 8.0), 6)
    2.25142
    """
    high, low = 0.5 + beta, 0.5 - beta
    total = contributors * trials
    others, own = _log_binomial(total - trials, high), _log_binomial(trials, low)
    spread = np.full((total + 1, trials + 1), -np.inf)
    for ones in range(trials + 1):
        spread[ones : ones + len(others), ones] = others + own[ones]
    return float(logsumexp(order * _log_binomial(total, high) + (1 - order) * logsumexp(spread, axis=1))) / (
        order - 1
    )


def _log_binomial(total: int, probability: float) -> NDArray[np.float64]:
    counts = np.arange(total + 1)
    ways = np.array([math.log(math.comb(total, count)) for count in range(total + 1)])
    result: NDArray[np.float64] = (
        ways + counts * math.log(probability) + (total - counts) * math.log1p(-probability)
    )
    return result
