"""The Poisson binomial release: a sum of binomials whose parameters are in [½ − β, ½ + β].

With n = Mb trials in all, let S_i be the law of the sum when i of the n coins have parameter ½ + β and the rest
½ − β. The worst pair of neighbours for one contributor's change is one of (S_(i+b), S_i), i = 0 … n − b, up to
reflection, for every divergence that is jointly convex: docs/proofs/poisson-binomial.md. For Rényi divergences the
largest has always been found at i = n − b, the homogeneous pair; the rule here takes the maximum over all of
them, so that nothing rests on that observation.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from colonnade.privacy.leaves import PoissonBinomial
from colonnade.privacy.special import log_sum

LONGEST_SUM = 256
_SMALLEST_LOGARITHM = 600.0
"""Probabilities stay above e⁻⁶⁰⁰, so that doubles hold them all."""


def poisson_binomial_renyi(event: PoissonBinomial, order: float) -> float:
    """An upper bound on D_α between neighbours, in both directions; exact where the sum is short enough.

    One contributor changes: the largest divergence over the pairs (S_(i+b), S_i). A long sum is cut into groups of
    trials, whose divergences add up to no less (the total is a function of the groups' totals). Several change:
    each of their coins is counted as if it were shown, which is exact when all contributors change.
    """
    high, low = probabilities(event)
    if event.changed > 1:
        return event.changed * event.trials * _coin_renyi(high, low, order)
    return math.fsum(
        count * _largest_renyi(contributors, trials, high, low, order)
        for contributors, trials, count in groups(event)
    )


def homogeneous_renyi(contributors: int, trials: int, beta: float, order: float) -> float:
    """D_α of Bin(Mb, ½ + β) and Bin((M − 1)b, ½ + β) + Bin(b, ½ − β), at any real order and for any length."""
    high, low = 0.5 + beta, 0.5 - beta
    total = contributors * trials
    others, own = _log_binomial(total - trials, high), _log_binomial(trials, low)
    spread = np.full((total + 1, trials + 1), -np.inf)
    for ones in range(trials + 1):
        spread[ones : ones + len(others), ones] = others + own[ones]
    return float(log_sum(order * _log_binomial(total, high) + (1 - order) * log_sum(spread))) / (order - 1)


def groups(event: PoissonBinomial) -> list[tuple[int, int, int]]:
    """How a long sum is cut: (contributors, trials in a group, number of such groups)."""
    _, low = probabilities(event)
    longest = max(1, min(LONGEST_SUM, int(_SMALLEST_LOGARITHM / -math.log(low))))
    # A contributor beyond the longest sum is treated as known to the observer: that can only cost more.
    contributors = min(event.contributors, longest)
    trials = min(event.trials, longest // contributors)
    whole, rest = divmod(event.trials, trials)
    return [(contributors, trials, whole)] + ([(contributors, rest, 1)] if rest else [])


def pure_loss(event: PoissonBinomial) -> float:
    """The largest log-ratio of probabilities: every changed coin shows its less likely face."""
    high, low = probabilities(event)
    return event.changed * event.trials * math.log(high / low)


@lru_cache(maxsize=8)
def worst_pairs(
    contributors: int, trials: int, high: float, low: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The laws (S_(i+b), S_i), one pair in each row."""
    total = contributors * trials
    highs, lows = _binomials(total, high, low), _binomials(total, low, high)
    laws = np.stack([np.convolve(highs[i], lows[total - i]) for i in range(total + 1)])
    laws.setflags(write=False)
    return laws[trials:], laws[: total + 1 - trials]


def _largest_renyi(contributors: int, trials: int, high: float, low: float, order: float) -> float:
    first, second = _logarithms(contributors, trials, high, low)
    largest = float(np.max(log_sum(order * first + (1 - order) * second)))
    # n products and sums of positive numbers lose at most a few n units in the last place of each logarithm.
    lost = (2 * order - 1) * contributors * trials * 2.0**-50
    return (largest + lost) / (order - 1)


@lru_cache(maxsize=8)
def _logarithms(
    contributors: int, trials: int, high: float, low: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first, second = worst_pairs(contributors, trials, high, low)
    return np.log(first), np.log(second)


def _binomials(total: int, one: float, zero: float) -> list[NDArray[np.float64]]:
    """The laws of 0 … total coins with these probabilities of one and zero."""
    laws = [np.ones(1)]
    for _ in range(total):
        laws.append(np.convolve(laws[-1], (zero, one)))
    return laws


def _log_binomial(total: int, probability: float) -> NDArray[np.float64]:
    counts = np.arange(total + 1)
    ways = np.array([math.log(math.comb(total, count)) for count in range(total + 1)])
    result: NDArray[np.float64] = (
        ways + counts * math.log(probability) + (total - counts) * math.log1p(-probability)
    )
    return result


def _coin_renyi(high: float, low: float, order: float) -> float:
    """D_α of a coin with parameter `high` from one with parameter `low` = 1 − high."""
    return (
        math.log(high) - math.log(low) + math.log(high + low * (low / high) ** (2 * order - 2)) / (order - 1)
    )


def probabilities(event: PoissonBinomial) -> tuple[float, float]:
    beta = Fraction(event.beta)
    return float(Fraction(1, 2) + beta), float(Fraction(1, 2) - beta)
