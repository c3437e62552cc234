"""χ² of integer draws against exact probabilities, at a false-alarm rate that no run of tests will meet."""

import numpy as np
from scipy import special, stats

FALSE_ALARM = 1e-9


def chi_square(draws, probability, reach):
    """p-value of the draws against probability(k) on [-reach, reach], everything beyond in one bin.

    Bins with fewer than 20 expected draws are pooled.
    """
    values = np.arange(-reach, reach + 1)
    inside = draws[np.abs(draws) <= reach]
    observed = np.bincount(inside + reach, minlength=2 * reach + 1).astype(float)
    expected = probability(values) * len(draws)
    return pooled(observed, expected, len(draws))


def pooled(observed, expected, count):
    large = expected >= 20
    have = np.append(observed[large], count - observed[large].sum())
    want = np.append(expected[large], count - expected[large].sum())
    if want[-1] < 20:  # too little left over for a bin of its own: it joins the smallest
        smallest = np.argmin(want[:-1])
        have[smallest] += have[-1]
        want[smallest] += want[-1]
        have, want = have[:-1], want[:-1]
    return float(stats.chi2.sf(((have - want) ** 2 / want).sum(), len(want) - 1))


def chi_square_of_quantiles(draws, quantile, bins=256):
    """The same for a law so wide that a continuous distribution function stands for it."""
    edges = quantile(np.arange(1, bins) / bins)
    observed = np.bincount(np.searchsorted(edges, draws.astype(float)), minlength=bins).astype(float)
    return pooled(observed, np.full(bins, len(draws) / bins), len(draws))


def skellam(mu):
    return lambda k: special.ive(np.abs(k), 2 * mu)


def discrete_gaussian(sigma_squared):
    support = np.arange(-10_000, 10_001)
    total = np.exp(-(support**2) / (2 * sigma_squared)).sum()
    return lambda k: np.exp(-(k.astype(float) ** 2) / (2 * sigma_squared)) / total


def discrete_laplace(scale):
    q = np.exp(-1 / scale)
    return lambda k: (1 - q) / (1 + q) * q ** np.abs(k).astype(float)


def polya(shape, scale):
    return lambda k: np.where(k >= 0, stats.nbinom.pmf(k, shape, 1 - np.exp(-1 / scale)), 0)


def binomial(trials, p):
    return lambda k: np.where((k >= 0) & (k <= trials), stats.binom.pmf(k, trials, p), 0)
