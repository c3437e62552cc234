"""Linear classifiers from class counts, class sums and a Gram matrix.

Everything here is a function of a release that is already public, so it spends no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from colonnade.errors import DrownedByNoise
from colonnade.models.log_odds import log_odds
from colonnade.models.moments import ClassMoments
from colonnade.models.spectral import decompose, floor_of, held

Array = NDArray[np.float64]

# A class whose count is within this many of its own standard deviations of zero has no usable mean.
COUNT_DEVIATIONS = 2.0


@dataclass(frozen=True, eq=False)
class Discriminant:
    """Scores a class by `coefficients @ x + intercepts`, in log-odds.

    Two classes have one row, the log-odds of the second class; more have one row each, whose softmax is
    the probability. `faint` lists the classes that are too rare for this noise: they keep their share of
    the rows and nothing else.
    """

    coefficients: Array
    intercepts: Array
    faint: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Score:
    """A score of two classes, `weights @ x + offset`, whose mean is the second one's share.

    `explained` is the share of the indicator's variance that it explains, and `gain` how far least squares was held
    back.
    """

    weights: Array
    offset: float
    share: float
    explained: float
    gain: float


def binary_score(
    moments: ClassMoments,
    *,
    floor: float | None = None,
    ridge: float = 0.0,
    unbias: bool = True,
    names: Sequence[object] = (0, 1),
    merged: int = 1,
) -> Score:
    """Least squares on the indicator of the second class, held back as far as noise speaks in it.

    w = T⁻¹(S₁ − n₁μ) with T floored, π = n₁/n, and f(x) = g·(wᵀ(x − μ) + β) + π.

    β = (1 − 2π)(s/c)² tr(T⁻¹)/n: w and μ share the noise of S₀ and S₁, so that E[wᵀμ] is off by just this
    much, which is a shift of every score towards the larger class.

    g = κ/max(κ, v), where κ is the covariance of wᵀx with the indicator, what noise adds to it taken out, and v is
    the variance of wᵀx: the regression of the indicator on the score itself. It is 1 without noise. Derivations:
    docs/proofs/moment-rules.md.

    `merged` is how many classes the first one is made of: its sum then carries the noise of so many.
    """
    for name, count in zip(names, moments.counts, strict=True):
        if not count > 0:
            raise DrownedByNoise(_no_rows(name, float(count), moments.count_noise))
    scatter = moments.scatter()
    n, mean = scatter.count, scatter.mean
    share = float(moments.counts[1]) / n
    spectrum = decompose(scatter.matrix, floor=floor_of(floor, moments.noise, len(mean)), ridge=ridge)
    difference = moments.sums[1] - moments.counts[1] * mean
    weights = spectrum.solve(difference)
    through = moments.sum_noise**2 * spectrum.inverse_trace
    bias = (1.0 - share - merged * share) * through / n if unbias else 0.0
    factor = (merged * share**2 + (1.0 - share) ** 2) * moments.sum_noise**2
    noisy = 2.0 * factor**2 * float(spectrum.inverse @ spectrum.inverse)
    covariance = above_zero(
        (float(difference @ weights) - factor * spectrum.inverse_trace) / n,
        math.sqrt(max(4.0 * factor * float(weights @ weights) - noisy, noisy)) / n,
    )
    variance = float(held(spectrum.observed, moments.noise) @ (spectrum.vectors.T @ weights) ** 2) / n
    # Never sharpened: where the floor holds directions back, how far is itself known through noise alone.
    gain = covariance / max(covariance, variance) if covariance > 0 else 0.0
    return Score(
        gain * weights,
        gain * (bias - float(weights @ mean)) + share,
        share,
        gain * covariance / (share * (1.0 - share)),
        gain,
    )


def above_zero(value: float, deviation: float) -> float:
    """The mean of a truth that is not negative, of which a normal error of this deviation left `value`."""
    if deviation <= 0:
        return max(value, 0.0)
    place = value / deviation
    # The ratio φ/Φ by logarithms, which hold where both have vanished.
    ratio = math.exp(-place * place / 2.0 - math.log(math.sqrt(2.0 * math.pi)) - float(log_ndtr(place)))
    return max(value + deviation * ratio, 0.0)


def binary_rule(
    moments: ClassMoments,
    *,
    floor: float | None = None,
    ridge: float = 0.0,
    unbias: bool = True,
    names: Sequence[object] = (0, 1),
    merged: int = 1,
) -> Discriminant:
    """Least squares on the class indicator (`binary_score`) as the log-odds that its moments determine."""
    score = binary_score(moments, floor=floor, ridge=ridge, unbias=unbias, names=names, merged=merged)
    line = log_odds(score.share, score.explained)
    intercept = line.at(np.array([score.offset]))
    faint = _faint(moments)
    return Discriminant((line.slope * score.weights)[None, :], intercept, faint)


def multiclass_rule(
    moments: ClassMoments,
    *,
    floor: float | None = None,
    ridge: float = 0.0,
    unbias: bool = True,
    names: Sequence[object] = (),
) -> Discriminant:
    """Linear discriminant analysis with a floored within-class scatter.

    W = G − Σ S_c S_cᵀ/n_c, m_c = S_c/n_c, and
    score_c(x) = n m_cᵀW⁻¹x − (n/2)(m_cᵀW⁻¹m_c − tr(W⁻¹)(s/c)²/n_c²) + log(n_c/n): the log of the class
    probability up to a term common to all classes, for normal classes with one covariance W/n. The
    subtracted trace is what the noise of S_c adds to m_cᵀW⁻¹m_c on average; left in, it would punish small
    classes. A class whose count does not stand out of its noise has no usable mean: it is given the common
    mean, which leaves it its share of the rows, and is listed as faint.
    """
    scatter = moments.scatter()
    n, mean = scatter.count, scatter.mean
    faint = _faint_of_many(moments, names)
    counts = moments.counts.copy()
    sums = moments.sums.copy()
    for index in faint:
        counts[index] = max(counts[index], 1.0)
        sums[index] = counts[index] * mean
    means = sums / counts[:, None]
    within = moments.gram - sums.T @ means
    spectrum = decompose(
        (within + within.T) / 2.0, floor=floor_of(floor, moments.noise, len(mean)), ridge=ridge
    )
    coefficients = n * spectrum.solve(means.T).T
    lift = np.zeros(len(counts))
    if unbias:
        lift = n * spectrum.inverse_trace * moments.sum_noise**2 / counts**2
        lift[list(faint)] = 0.0
    lengths = np.einsum("cd,cd->c", coefficients, means)
    return Discriminant(coefficients, -0.5 * (lengths - lift) + np.log(counts / n), faint)


def one_vs_rest_rule(
    moments: ClassMoments,
    *,
    floor: float | None = None,
    ridge: float = 0.0,
    unbias: bool = True,
    names: Sequence[object] = (),
) -> Discriminant:
    """`binary_rule` for every class against all others together, as one row of log-odds each.

    Each rule is least squares on the indicator of its class: it does not assume that classes have one covariance, but a
    class that lies between others never has the highest score. A class without a usable count is faint: its row is the
    logarithm of its share.
    """
    n = float(moments.counts.sum())
    faint = _faint_of_many(moments, names)
    rows, intercepts = np.zeros_like(moments.sums), np.zeros(len(moments.counts))
    for index in range(len(moments.counts)):
        if index in faint:
            share = min(max(float(moments.counts[index]), 1.0) / n, 0.5)
            intercepts[index] = np.log(share / (1.0 - share))
            continue
        rest = np.arange(len(moments.counts)) != index
        pair = ClassMoments(
            moments.gram,
            np.array([moments.sums[rest].sum(axis=0), moments.sums[index]]),
            np.array([moments.counts[rest].sum(), moments.counts[index]]),
            noise=moments.noise,
            border=moments.border,
        )
        rule = binary_rule(
            pair,
            floor=floor,
            ridge=ridge,
            unbias=unbias,
            names=("the rest", names[index] if names else index),
            merged=len(moments.counts) - 1,
        )
        rows[index], intercepts[index] = rule.coefficients[0], rule.intercepts[0]
    return Discriminant(rows, intercepts, faint)


def probabilities(scores: Array) -> Array:
    """Class probabilities from `Discriminant` scores, one row a person."""
    if scores.shape[1] == 1:
        scores = np.column_stack([np.zeros(len(scores)), scores[:, 0]])
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def class_codes(scores: Array, threshold: float = 0.5) -> NDArray[np.int64]:
    """The number of the class that scores speak for: of two by the threshold, of more by the largest."""
    if scores.shape[1] > 1:
        return np.asarray(scores.argmax(axis=1))
    return np.asarray(scores[:, 0] > math.log(threshold / (1.0 - threshold)), dtype=np.int64)


def _faint(moments: ClassMoments) -> tuple[int, ...]:
    """The classes whose count does not stand out of its noise."""
    return tuple(np.flatnonzero(~(moments.counts > COUNT_DEVIATIONS * moments.count_noise)).tolist())


def _faint_of_many(moments: ClassMoments, names: Sequence[object]) -> tuple[int, ...]:
    faint = _faint(moments)
    if len(moments.counts) - len(faint) < 2:
        worst = faint[0]
        name = names[worst] if names else worst
        raise DrownedByNoise(_no_rows(name, float(moments.counts[worst]), moments.count_noise))
    return faint


def _no_rows(name: object, count: float, deviation: float) -> str:
    return (
        f"class {name!r} has a noisy count of {count:.1f} rows (standard deviation {deviation:.1f}), "
        "which is too few to tell it from the others. Use more rows of that class, merge it with another, "
        "or a release with less noise (a larger ε)."
    )
