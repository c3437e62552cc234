"""Hockey-stick curves of single leaves: δ(ε) = sup over neighbours and events S of P(S) − e^ε Q(S), for every real ε.

A curve may be given only if it dominates every pair of neighbours, in every number of coordinates the leaf allows:

* normal noise: a shift of any direction is a shift of one coordinate;
* Laplace and discrete Laplace: a shift spread over coordinates is dominated by the same shift of one
  (docs/proofs/laplace-coordinates.md);
* discrete Gaussian and Skellam: one coordinate only, where a log-concave law makes the largest shift the worst;
* Poisson binomial: the pointwise largest over all pairs that can be worst (docs/proofs/poisson-binomial.md);
* a Poisson sample of a symmetric one of these: the exact transform of its curve, one for each direction.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.privacy.composition import Leaf
from colonnade.privacy.events import PoissonSampled
from colonnade.privacy.leaves import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    PerStep,
    PoissonBinomial,
    Skellam,
)
from colonnade.privacy.poisson_binomial import groups, probabilities, worst_pairs
from colonnade.privacy.skellam import LONGEST_TABLE, log_skellam

Floats = NDArray[np.float64]

_NORMAL_REACH = 9.0
"""Deviations past which a normal tail, 10⁻¹⁹, is counted as a loss without bound."""
_TABLE_REACH = 10.0


@dataclass(frozen=True)
class Curve:
    """δ as a function of an array of ε, in both directions, and the loss past which little is left.

    `width` is how many values are computed for each ε.
    """

    reach: float
    forward: Callable[[Floats], Floats]
    backward: Callable[[Floats], Floats]
    width: int = 1


def curves_of(leaf: Leaf) -> tuple[tuple[Curve, int], ...] | None:
    """The dominating curves of a leaf with their counts, or None if none is proved or it is too long."""
    match leaf:
        case Gaussian():
            return _symmetric(_gaussian(float(leaf.sensitivity / leaf.sigma)))
        case PerStep() if not leaf.discrete:
            return _symmetric(_gaussian(math.sqrt(leaf.sum_of_squares / float(leaf.sigma_squared))))
        case Laplace():
            return _symmetric(_laplace(float(leaf.sensitivity / leaf.scale)))
        case DiscreteLaplace():
            return _symmetric(_discrete_laplace(math.floor(leaf.sensitivity), float(leaf.scale)))
        case DiscreteGaussian() if leaf.coordinates == 1:
            return _symmetric(_discrete_gaussian(math.floor(leaf.sensitivity), float(leaf.sigma_squared)))
        case Skellam() if leaf.coordinates == 1:
            return _symmetric(_skellam(math.floor(min(leaf.l1, leaf.l2)), float(leaf.mu)))
        case PoissonBinomial():
            return _poisson_binomial(leaf)
        case PoissonSampled():
            inner = curves_of(leaf.event)  # type: ignore[arg-type]
            return (
                None if inner is None else tuple((_sampled(c, float(leaf.rate)), count) for c, count in inner)
            )
        case _:
            return None


def _symmetric(curve: Curve | None) -> tuple[tuple[Curve, int], ...] | None:
    return None if curve is None else ((curve, 1),)


def _both(reach: float, delta: Callable[[Floats], Floats], width: int = 1) -> Curve:
    return Curve(reach, delta, delta, width)


def _gaussian(mu: float) -> Curve:
    if mu == 0:
        return _nothing()
    from scipy.special import log_ndtr, ndtr

    def delta(epsilons: Floats) -> Floats:
        outside: Floats = ndtr(mu / 2 - epsilons / mu) - np.exp(epsilons + log_ndtr(-mu / 2 - epsilons / mu))
        return outside

    return _both(mu * mu / 2 + _NORMAL_REACH * mu, delta)


def _laplace(ratio: float) -> Curve:
    def delta(epsilons: Floats) -> Floats:
        inside = -np.expm1((np.minimum(epsilons, ratio) - ratio) / 2)
        return np.where(epsilons <= -ratio, -np.expm1(epsilons), inside)

    return _both(ratio, delta)


def _nothing() -> Curve:
    return _both(0.0, lambda epsilons: np.maximum(0.0, -np.expm1(epsilons)))


def _discrete_laplace(shift: int, scale: float) -> Curve | None:
    """The loss is (k − 2y)/s, y the noise clipped to [0, k]."""
    if shift == 0:
        return _nothing()
    if shift > LONGEST_TABLE:
        return None
    steps = np.arange(shift + 1)
    first = np.exp(-steps / scale) / (1 + math.exp(-1 / scale))
    first[1:-1] *= -math.expm1(-1 / scale)
    return _table(first, first[::-1], (shift - 2 * steps) / scale, missing=0.0)


def _discrete_gaussian(shift: int, sigma_squared: float) -> Curve | None:
    reach = _TABLE_REACH * math.sqrt(sigma_squared) + 10
    if shift == 0:
        return _nothing()
    if reach + shift > LONGEST_TABLE:
        return None
    # The noise values from which the loss L(x) = (k² − 2kx)/2σ² falls; k − x are the noise values under Q.
    points = np.arange(-math.ceil(reach), math.ceil(reach) + shift + 1)
    scaled = np.exp(-(points**2) / (2 * sigma_squared))
    total = math.fsum(
        np.exp(-(np.arange(-math.ceil(reach), math.ceil(reach) + 1) ** 2) / (2 * sigma_squared))
    )
    first, second = scaled / total, np.exp(-((points - shift) ** 2) / (2 * sigma_squared)) / total
    return _table(first, second, shift * (shift - 2 * points) / (2 * sigma_squared), missing=1e-18)


def _skellam(shift: int, mu: float) -> Curve | None:
    reach = math.ceil(_TABLE_REACH * math.sqrt(2 * mu) + 60)
    if shift == 0:
        return _nothing()
    if reach + shift >= LONGEST_TABLE:
        return None
    logarithms = log_skellam(mu, 1 << (reach + shift).bit_length())
    points = np.arange(-reach, reach + shift + 1)
    first, second = logarithms[np.abs(points)], logarithms[np.abs(points - shift)]
    return _table(np.exp(first), np.exp(second), first - second, missing=1e-18)


def _table(first: Floats, second: Floats, losses: Floats, *, missing: float) -> Curve:
    """δ from the two laws listed by falling loss; `missing` is the mass the first may have outside the list."""
    first_sums, second_sums = _sums(first), _sums(second)
    rising = -losses

    def delta(epsilons: Floats) -> Floats:
        at = np.searchsorted(rising, -epsilons, side="left")
        return np.minimum(1.0, np.maximum(0.0, first_sums[at] - np.exp(epsilons) * second_sums[at] + missing))

    return _both(float(losses[0]), delta)


def _poisson_binomial(leaf: PoissonBinomial) -> tuple[tuple[Curve, int], ...]:
    high, low = probabilities(leaf)
    if leaf.changed > 1:
        # Showing every changed coin costs at least as much, and exactly as much when all contributors change.
        coin = _table(
            np.array([high, low]), np.array([low, high]), np.log([high / low, low / high]), missing=0.0
        )
        return ((coin, leaf.changed * leaf.trials),)
    return tuple((_largest_of_pairs(m, b, high, low), count) for m, b, count in groups(leaf))


def _largest_of_pairs(contributors: int, trials: int, high: float, low: float) -> Curve:
    firsts, seconds = worst_pairs(contributors, trials, high, low)
    # The likelihood ratio rises with the sum, so reversing each row lists it by falling loss.
    pairs = [
        (_sums(first[::-1]), _sums(second[::-1]), -np.log(first[::-1] / second[::-1]))
        for first, second in zip(firsts, seconds, strict=True)
    ]

    def delta(epsilons: Floats) -> Floats:
        largest = np.zeros_like(epsilons)
        scale = np.exp(epsilons)
        for first, second, rising in pairs:
            at = np.searchsorted(rising, -epsilons, side="left")
            np.maximum(largest, first[at] - scale * second[at], out=largest)
        return np.minimum(1.0, largest)

    return _both(trials * math.log(high / low), delta, len(pairs))


def _sampled(curve: Curve, rate: float) -> Curve:
    """The curves of ((1 − q)Q + qP, Q) and of (Q, (1 − q)Q + qP), from the curve of (P, Q) = that of (Q, P)."""

    def joined(epsilons: Floats) -> Floats:
        excess = 1 + np.expm1(epsilons) / rate
        inside = rate * curve.forward(np.log(np.maximum(excess, 1e-300)))
        return np.where(excess > 0, inside, -np.expm1(epsilons))

    def left(epsilons: Floats) -> Floats:
        kept = 1 - np.exp(epsilons) * (1 - rate)
        with np.errstate(over="ignore"):
            ratio = epsilons + math.log(rate) - np.log(np.maximum(kept, 1e-300))
        return np.where(kept > 0, kept * curve.forward(np.minimum(ratio, 700.0)), 0.0)

    reach = math.log1p(rate * math.expm1(curve.reach)) if curve.reach < 700 else curve.reach
    return Curve(reach, joined, left, curve.width)


def _sums(masses: Floats) -> Floats:
    return np.concatenate(([0.0], np.cumsum(masses)))
