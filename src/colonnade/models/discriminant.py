"""Linear classifiers from class counts, class sums and a Gram matrix: log-odds, and what their scores say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, expit, log_expit, log_ndtr, ndtri

from colonnade.data.labels import LabelBlock
from colonnade.errors import DrownedByNoise
from colonnade.models.moments import ClassMoments, decompose, denoised, floor_of

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
    """A law of scores: quantiles of the first class and of the second, rising; sums with `weights` are integrals."""

    first: Array
    second: Array

    @property
    def weights(self) -> Array:
        """How much each quantile counts; they sum to 1."""
        chances = expit(_PLACES) * expit(-_PLACES)
        return np.asarray(chances / chances.sum())


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
    probability is π.
    """
    if not 0.0 < share < 1.0:
        raise ValueError(f"a class that some people have and some have not, not a share of {share}")
    explained = min(explained, LARGEST_EXPLAINED)
    if explained < _LEAST_EXPLAINED:
        return LogOdds(share, 1.0 / (share * (1.0 - share)), float(np.log(share / (1.0 - share))))
    return least_cross_entropy(share, (normal_law(share, explained), beta_law(share, explained)))


def least_cross_entropy(share: float, models: tuple[ScoreLaw, ...]) -> LogOdds:
    """The line of the least mean cross-entropy over these laws: Newton's method on a convex objective."""
    scores = np.concatenate([part for law in models for part in (law.first, law.second)]) - share
    weights = np.concatenate([chance * law.weights for law in models for chance in (1.0 - share, share)])
    weights = weights / len(models)
    is_second = np.tile(np.repeat([0.0, 1.0], len(_PLACES)), len(models))
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


# A class whose count is within this many of its own standard deviations of zero has no usable mean.
COUNT_DEVIATIONS = 2.0


@dataclass(frozen=True, eq=False)
class Discriminant:
    """Scores a class by `coefficients @ x + intercepts`, in log-odds: one row for two classes, else one each.

    `faint` lists the classes that are too rare for this noise: they keep their share of the rows and nothing else.
    """

    coefficients: Array
    intercepts: Array
    faint: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Score:
    """`weights @ x + offset`, whose mean is the second class's share; `gain` is how far least squares was held back."""

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

    w = T⁻¹(S₁ − n₁μ) with T floored, π = n₁/n, and f(x) = g·(wᵀ(x − μ) + β) + π. β = (1 − 2π)(s/c)² tr(T⁻¹)/n is what
    the noise that w and μ share shifts scores by. g = κ/max(κ, v), where κ is the covariance of wᵀx with the
    indicator, noise taken out, and v the variance of wᵀx; it is 1 without noise (docs/proofs/moment-rules.md).
    `merged` is how many classes the first one is made of: its sum then carries the noise of so many.
    """
    for name, count in zip(names, moments.counts, strict=True):
        if not count > 0:
            raise _no_rows(name, float(count), moments.count_noise)
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
    variance = float(denoised(spectrum.observed, moments.noise) @ (spectrum.vectors.T @ weights) ** 2) / n
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
    return Discriminant((line.slope * score.weights)[None, :], intercept, faint_classes(moments))


def multiclass_rule(
    moments: ClassMoments,
    *,
    floor: float | None = None,
    ridge: float = 0.0,
    unbias: bool = True,
    names: Sequence[object] = (),
) -> Discriminant:
    """Linear discriminant analysis with a floored within-class scatter.

    W = G − Σ S_c S_cᵀ/n_c, m_c = S_c/n_c, and score_c(x) = n m_cᵀW⁻¹x − (n/2)(m_cᵀW⁻¹m_c − tr(W⁻¹)(s/c)²/n_c²) +
    log(n_c/n). The subtracted trace is what the noise of S_c adds to m_cᵀW⁻¹m_c on average. A class whose count does
    not stand out of its noise is given the common mean, which leaves it its share of the rows, and is listed as
    faint.
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
    floor = floor_of(floor, moments.noise, len(mean))
    spectrum = decompose((within + within.T) / 2.0, floor=floor, ridge=ridge)
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

    It does not assume one covariance, but a class between others never has the highest score. Faint: the log of its
    share.
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
    if scores.shape[1] == 1:
        scores = np.column_stack([np.zeros(len(scores)), scores[:, 0]])
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def class_codes(scores: Array, threshold: float = 0.5) -> NDArray[np.int64]:
    """The number of the class that scores speak for: of two by the threshold, of more by the largest."""
    if scores.shape[1] > 1:
        return np.asarray(scores.argmax(axis=1))
    return np.asarray(scores[:, 0] > math.log(threshold / (1.0 - threshold)), dtype=np.int64)


def faint_classes(moments: ClassMoments) -> tuple[int, ...]:
    return tuple(np.flatnonzero(~(moments.counts > COUNT_DEVIATIONS * moments.count_noise)).tolist())


def _faint_of_many(moments: ClassMoments, names: Sequence[object]) -> tuple[int, ...]:
    faint = faint_classes(moments)
    if len(moments.counts) - len(faint) < 2:
        worst = faint[0]
        name = names[worst] if names else worst
        raise _no_rows(name, float(moments.counts[worst]), moments.count_noise)
    return faint


def _no_rows(name: object, count: float, deviation: float) -> DrownedByNoise:
    return DrownedByNoise(
        f"class {name!r} has a noisy count of {count:.1f} rows (standard deviation {deviation:.1f}), "
        "which is too few to tell it from the others. Use more rows of that class, merge it with another, "
        "or a release with less noise (a larger ε)."
    )


Answer = Literal["probabilities", "margin", "prediction", "components"]


@dataclass(frozen=True)
class Reading:
    """How a person reads the scores of a kind of model, said on its class."""

    title: str
    """What the model is, in a sentence."""
    answer: Answer
    link: Literal["identity", "log"] = "identity"

    @property
    def classifies(self) -> bool:
        return self.answer in ("probabilities", "margin")

    def offsets(self, weights: Array, offsets: Array) -> Array:
        """What is added to x · w: the intercept, or for components what their mean takes off."""
        return -(weights @ offsets) if self.answer == "components" else offsets

    def values(self, scores: Array) -> Array:
        if self.answer == "probabilities":
            return probabilities(scores)
        return np.exp(scores) if self.link == "log" else scores

    def names(self, label: LabelBlock, width: int) -> tuple[str, ...]:
        """What these numbers are called, for scores of this width."""
        match self.answer:
            case "components":
                return tuple(f"component {number + 1}" for number in range(width))
            case "probabilities":
                return tuple(f"probability of {name}" for name in label.classes)
            case "margin":
                return (f"margin of {label.classes[1]}",)
            case "prediction":
                return (label.label.column if label.label is not None else "prediction",)
