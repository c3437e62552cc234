"""Log-odds from a least-squares score of two classes, when nothing is known of it but its first two moments.

A release says how often the second class occurs (π) and which share of the indicator's variance a score explains (R²),
and not how scores are distributed. Two laws with these moments stand at the ends of what tables do. In one the classes
are normal with one variance: log-odds are a straight line in the score and as steep as can be. In the other the score
is the probability, with a Beta law: least squares is right as it stands. The line here has the least cross-entropy on
average over both (docs/proofs/moment-rules.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, expit, log_expit, ndtri

Array = NDArray[np.float64]

# Keeps the log-odds finite where a noisy release claims to explain the label entirely.
LARGEST_EXPLAINED = 0.95
# Below this both laws are one normal law up to what doubles can tell of the slope.
_LEAST_EXPLAINED = 1e-6
# Quantiles of a class's law at evenly spaced log-odds, so that a rare class meets the tail of the other.
_PLACES = np.linspace(-24.0, 24.0, 97)
_STEPS = 100
_SETTLED = 1e-9


@dataclass(frozen=True)
class LogOdds:
    """Log-odds of the second class at a score f: slope · (f − share) + level."""

    share: float
    slope: float
    level: float

    def at(self, scores: Array) -> Array:
        return np.asarray(self.slope * (scores - self.share) + self.level)


@dataclass(frozen=True, eq=False)
class ScoreLaw:
    """A law of scores, as quantiles of the first class and of the second, from the least to the largest.

    Sums over them with `weights` are integrals: the trapezoidal rule after u = 1/(1 + e^(−t)).
    """

    first: Array
    second: Array

    @property
    def weights(self) -> Array:
        """How much each quantile counts; they sum to 1."""
        chances = expit(_PLACES) * expit(-_PLACES)
        return np.asarray(chances / chances.sum())

    def cross_entropy(self, line: LogOdds) -> float:
        """The mean of −ln p of the class that is true, where classes occur with the line's share."""
        first, second = log_expit(-line.at(self.first)), log_expit(line.at(self.second))
        return float(self.weights @ (-(1.0 - line.share) * first - line.share * second))


def normal_law(share: float, explained: float) -> ScoreLaw:
    """Two normal classes with one variance: means R² apart, variance R²(1 − R²)π(1 − π) in each."""
    # Each half from its own end, where a double can tell the smallest chances apart.
    quantiles = np.sign(_PLACES) * -ndtri(expit(-np.abs(_PLACES)))
    spread = np.sqrt(explained * (1.0 - explained) * share * (1.0 - share)) * quantiles
    return ScoreLaw(share - share * explained + spread, share + (1.0 - share) * explained + spread)


def beta_law(share: float, explained: float) -> ScoreLaw:
    """A score that is a probability: Beta(πν, (1 − π)ν) among all, ν = 1/R² − 1; by Bayes' rule in each class."""
    total = 1.0 / explained - 1.0
    alpha, beta = share * total, (1.0 - share) * total
    return ScoreLaw(_beta(alpha, beta + 1.0), _beta(alpha + 1.0, beta))


def _beta(alpha: float, beta: float) -> Array:
    low, high = expit(_PLACES[_PLACES < 0]), expit(-_PLACES[_PLACES >= 0])
    return np.concatenate([betaincinv(alpha, beta, low), 1.0 - betaincinv(beta, alpha, high)])


def log_odds(share: float, explained: float) -> LogOdds:
    """The log-odds for a score with mean π that explains R² of the indicator's variance.

    Guarantee: on average over `normal_law` and `beta_law` no other straight line has a smaller cross-entropy; the mean
    probability is π, and so much higher in the second class as the score says it is.
    """
    if not 0.0 < share < 1.0:
        raise ValueError(f"a class that some people have and some have not, not a share of {share}")
    explained = min(explained, LARGEST_EXPLAINED)
    if explained < _LEAST_EXPLAINED:
        return LogOdds(share, 1.0 / (share * (1.0 - share)), float(np.log(share / (1.0 - share))))
    return least_cross_entropy(share, (normal_law(share, explained), beta_law(share, explained)))


def least_cross_entropy(share: float, laws: tuple[ScoreLaw, ...]) -> LogOdds:
    """The straight line whose cross-entropy is least on average over these laws, by Newton's method.

    The objective is convex, and strictly so where the classes' scores overlap.
    """
    scores = np.concatenate([part for law in laws for part in (law.first, law.second)]) - share
    weights = np.concatenate([chance * law.weights for law in laws for chance in (1.0 - share, share)]) / len(
        laws
    )
    is_second = np.tile(np.repeat([0.0, 1.0], len(_PLACES)), len(laws))
    sign = 2.0 * is_second - 1.0
    unit = float(np.sqrt(weights @ scores**2))
    rows = np.column_stack([scores / unit, np.ones_like(scores)])

    def objective(line: Array) -> float:
        return float(-weights @ log_expit(sign * (rows @ line)))

    line = np.array([unit / (share * (1.0 - share)), np.log(share / (1.0 - share))])
    least = objective(line)
    for _ in range(_STEPS):
        chances = expit(rows @ line)
        slope = rows.T @ (weights * (chances - is_second))
        bend = (rows.T * (weights * chances * (1.0 - chances))) @ rows
        step = np.linalg.solve(bend, slope)
        # Half a step, and half again, until it goes down: far from the minimum Newton's goes too far.
        while (tried := objective(line - step)) > least and np.abs(step).max() > _SETTLED:
            step /= 2.0
        line, least = line - step, min(tried, least)
        if np.abs(step).max() <= _SETTLED * np.abs(line).max():
            break
    return LogOdds(share, float(line[0] / unit), float(line[1]))
