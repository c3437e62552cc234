"""χ² of integer draws against exact probabilities, and the product's own lower bound on ε, at a false-alarm rate that
no run of tests will meet.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from colonnade.lab.experiments import counted_bound, threshold_bound

FALSE_ALARM = 1e-9


def chi_square(draws: NDArray[np.int64], probability: Callable[..., Any], extent: int) -> float:
    """p-value of the draws against probability(k) on [-reach, reach], everything beyond in one bin.

    Bins with fewer than 20 expected draws are pooled.
    """
    values = np.arange(-extent, extent + 1)
    inside = draws[np.abs(draws) <= extent]
    observed = np.bincount(inside + extent, minlength=2 * extent + 1).astype(float)
    expected = probability(values) * len(draws)
    return pooled(observed, expected, len(draws))


def pooled(observed: NDArray[np.float64], expected: NDArray[np.float64], count: int) -> float:
    large = expected >= 20
    have = np.append(observed[large], count - observed[large].sum())
    want = np.append(expected[large], count - expected[large].sum())
    if want[-1] < 20:  # too little left over for a bin of its own: it joins the smallest
        smallest = np.argmin(want[:-1])
        have[smallest] += have[-1]
        want[smallest] += want[-1]
        have, want = have[:-1], want[:-1]
    return float(stats.chi2.sf(((have - want) ** 2 / want).sum(), len(want) - 1))


def chi_square_of_quantiles(draws: NDArray[np.int64], quantile: Callable[..., Any], bins: int = 256) -> float:
    """The same for a law so wide that a continuous distribution function stands for it."""
    edges = quantile(np.arange(1, bins) / bins)
    observed = np.bincount(np.searchsorted(edges, draws.astype(float)), minlength=bins).astype(float)
    return pooled(observed, np.full(bins, len(draws) / bins), len(draws))


def skellam(mu: float) -> Callable[..., Any]:
    return lambda k: special.ive(np.abs(k), 2 * mu)


def discrete_gaussian(sigma_squared: float) -> Callable[..., Any]:
    support = np.arange(-10_000, 10_001)
    total = np.exp(-(support**2) / (2 * sigma_squared)).sum()
    return lambda k: np.exp(-(k.astype(float) ** 2) / (2 * sigma_squared)) / total


def discrete_laplace(scale: float) -> Callable[..., Any]:
    q = np.exp(-1 / scale)
    return lambda k: (1 - q) / (1 + q) * q ** np.abs(k).astype(float)


def polya(shape: float, scale: float) -> Callable[..., Any]:
    return lambda k: np.where(k >= 0, stats.nbinom.pmf(k, shape, 1 - np.exp(-1 / scale)), 0)


def binomial(trials: int, p: float) -> Callable[..., Any]:
    return lambda k: np.where((k >= 0) & (k <= trials), stats.binom.pmf(k, trials, p), 0)


def audited_epsilon(statistic: Callable[..., Any], *, delta: float = 0.0, draws: int = 1_000_000) -> float:
    """The best of all threshold events, chosen on one half of the draws and judged on the other.

    `statistic(neighbour, count)` gives that many independent values, for neighbour False and True, larger
    where True is likelier.
    """
    values = [statistic(side, draws) for side in (False, True)]
    return threshold_bound(*values, delta=delta, confidence=1 - FALSE_ALARM).epsilon


def lower_bound(hits: int, misses: int, *, count: int) -> float:
    """What so many hits on one side and misses on the other of `count` draws each show."""
    return counted_bound(hits, misses, trials=(count, count), confidence=1 - FALSE_ALARM)
