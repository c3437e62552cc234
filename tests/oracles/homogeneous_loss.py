"""The homogeneous Poisson binomial pair: ε composed, by dp-accounting from the two laws, and its Rényi divergence."""

import math

import numpy as np
from dp_accounting.pld.privacy_loss_distribution import from_two_probability_mass_functions
from numpy.typing import NDArray
from scipy.stats import binom

from colonnade.privacy.distributions import log_sum


def homogeneous_epsilon(
    contributors: int, trials: int, beta: float, *, times: int, delta: float, interval: float
) -> float:
    """P = Bin(Mb, ½ + β) against Q = Bin((M − 1)b, ½ + β) + Bin(b, ½ − β), both directions, composed."""
    total = contributors * trials
    first = binom.pmf(np.arange(total + 1), total, 0.5 + beta)
    second = np.convolve(
        binom.pmf(np.arange(total - trials + 1), total - trials, 0.5 + beta),
        binom.pmf(np.arange(trials + 1), trials, 0.5 - beta),
    )
    laws = [{value: math.log(p) for value, p in enumerate(law) if p > 0} for law in (first, second)]
    result: float = max(
        from_two_probability_mass_functions(one, other, value_discretization_interval=interval)
        .self_compose(times)
        .get_epsilon_for_delta(delta)
        for one, other in (laws, laws[::-1])
    )
    return result


def homogeneous_renyi(contributors: int, trials: int, beta: float, order: float) -> float:
    """D_α of Bin(Mb, ½ + β) and Bin((M − 1)b, ½ + β) + Bin(b, ½ − β), at any real order and for any length."""
    high, low = 0.5 + beta, 0.5 - beta
    total = contributors * trials
    others, own = _log_binomial(total - trials, high), _log_binomial(trials, low)
    spread = np.full((total + 1, trials + 1), -np.inf)
    for ones in range(trials + 1):
        spread[ones : ones + len(others), ones] = others + own[ones]
    return float(log_sum(order * _log_binomial(total, high) + (1 - order) * log_sum(spread))) / (order - 1)


def _log_binomial(total: int, probability: float) -> NDArray[np.float64]:
    counts = np.arange(total + 1)
    ways = np.array([math.log(math.comb(total, count)) for count in range(total + 1)])
    result: NDArray[np.float64] = (
        ways + counts * math.log(probability) + (total - counts) * math.log1p(-probability)
    )
    return result
