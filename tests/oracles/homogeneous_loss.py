"""ε of the composed homogeneous Poisson binomial pair, by dp-accounting from the two laws."""

import math

import numpy as np
from dp_accounting.pld.privacy_loss_distribution import from_two_probability_mass_functions
from scipy.stats import binom


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
