"""Exact laws that accounting needs: one Skellam variable, Poisson binomial sums, and Poisson subsampling."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from colonnade.privacy.events import PoissonBinomial

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


MAX_TABLE = 2**16
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
    room = MAX_TABLE - _DEVIATIONS * math.sqrt(2 * mu) - 128
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
    extent = int(order * shift + _DEVIATIONS * math.sqrt(2 * mu)) + 128
    length = 1 << (extent + shift).bit_length()
    table = log_skellam(mu, length)
    points = np.arange(-length + 1 + shift, length)
    terms = order * table[np.abs(points - shift)] + (1 - order) * table[np.abs(points)]
    if max(terms[0], terms[-1]) > terms.max() - _NEGLIGIBLE:
        return math.inf
    return max(0.0, float(log_sum(terms)) / (order - 1))


MAX_SUM = 256
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
        # D_α of a coin with parameter `high` from one with parameter `low` = 1 − high, for each of them.
        ratio = math.log(high) - math.log(low)
        coin = ratio + math.log(high + low * (low / high) ** (2 * order - 2)) / (order - 1)
        return event.changed * event.trials * coin
    return math.fsum(
        count * _largest_renyi(contributors, trials, high, low, order)
        for contributors, trials, count in groups(event)
    )


def groups(event: PoissonBinomial) -> list[tuple[int, int, int]]:
    """How a long sum is cut: (contributors, trials in a group, number of such groups)."""
    _, low = probabilities(event)
    most = max(1, min(MAX_SUM, int(_SMALLEST_LOGARITHM / -math.log(low))))
    # A contributor beyond the longest sum is treated as known to the observer: that can only cost more.
    contributors = min(event.contributors, most)
    trials = min(event.trials, most // contributors)
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
    distributions = np.stack([np.convolve(highs[i], lows[total - i]) for i in range(total + 1)])
    distributions.setflags(write=False)
    return distributions[trials:], distributions[: total + 1 - trials]


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
    distributions = [np.ones(1)]
    for _ in range(total):
        distributions.append(np.convolve(distributions[-1], (zero, one)))
    return distributions


def probabilities(event: PoissonBinomial) -> tuple[float, float]:
    beta = Fraction(event.beta)
    return float(Fraction(1, 2) + beta), float(Fraction(1, 2) - beta)


LARGEST_SAMPLED_ORDER = 1024.0


def sampled_renyi(rate: float, divergence: Callable[[float], float], order: float) -> float:
    """D_α after sampling at this rate, from the divergences ℓ ↦ D_ℓ(P‖Q) without it; infinite past order 1024."""
    whole = math.ceil(order)
    if whole > LARGEST_SAMPLED_ORDER:
        return math.inf
    if rate == 0:
        return 0.0
    if rate == 1:
        return divergence(float(whole))
    from scipy.special import gammaln

    powers = np.arange(2, whole + 1, dtype=np.float64)
    exponents = (powers - 1) * np.array([divergence(float(power)) for power in powers])
    weights = (
        gammaln(whole + 1)
        - gammaln(powers + 1)
        - gammaln(whole - powers + 1)
        + powers * math.log(rate)
        + (whole - powers) * math.log1p(-rate)
    )
    # The weights of all ℓ sum to 1, and those of 0 and 1 carry a factor e⁰: only the excess over 1 is summed, so
    # that a small divergence keeps its digits.
    with np.errstate(divide="ignore"):
        excess = log_sum(weights + exponents + np.log(-np.expm1(-exponents)))
    return float(np.logaddexp(0.0, excess)) / (whole - 1)
