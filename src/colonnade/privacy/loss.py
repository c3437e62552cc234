"""Privacy loss distributions: hockey-stick curves of single leaves, and the exact way they compose."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from colonnade.numbers.threads import one_thread
from colonnade.privacy import events
from colonnade.privacy.distributions import MAX_TABLE, groups, log_skellam, probabilities, worst_pairs
from colonnade.privacy.events import Items, Leaf

if TYPE_CHECKING:
    from dp_accounting.pld.pld_pmf import PLDPmf


Floats = NDArray[np.float64]

_NORMAL_EXTENT = 9.0
"""Deviations past which a normal tail, 10⁻¹⁹, is counted as a loss without bound."""
_TABLE_EXTENT = 10.0


@dataclass(frozen=True)
class HockeyStickCurve:
    """δ as a function of an array of ε, in both directions, and the loss past which little is left.

    `width` is how many values are computed for each ε.
    """

    extent: float
    forward: Callable[[Floats], Floats]
    backward: Callable[[Floats], Floats]
    width: int = 1


def curves_of(leaf: Leaf) -> tuple[tuple[HockeyStickCurve, int], ...] | None:
    """The dominating curves of a leaf with their counts, or None if none is proved or it is too long."""
    match leaf:
        case events.Gaussian():
            return _symmetric(_gaussian(float(leaf.sensitivity / leaf.sigma)))
        case events.PerStep() if not leaf.discrete:
            return _symmetric(_gaussian(math.sqrt(leaf.sum_of_squares / float(leaf.sigma_squared))))
        case events.Laplace():
            return _symmetric(_laplace(float(leaf.sensitivity / leaf.scale)))
        case events.DiscreteLaplace():
            return _symmetric(_discrete_laplace(math.floor(leaf.sensitivity), float(leaf.scale)))
        case events.DiscreteGaussian() if leaf.coordinates == 1:
            return _symmetric(_discrete_gaussian(math.floor(leaf.sensitivity), float(leaf.sigma_squared)))
        case events.Skellam() if leaf.coordinates == 1:
            return _symmetric(_skellam(math.floor(min(leaf.l1, leaf.l2)), float(leaf.mu)))
        case events.PoissonBinomial():
            return _poisson_binomial(leaf)
        case events.PoissonSampled():
            inner = curves_of(leaf.event)  # type: ignore[arg-type]
            return (
                None if inner is None else tuple((_sampled(c, float(leaf.rate)), count) for c, count in inner)
            )
        case _:
            return None


def _symmetric(curve: HockeyStickCurve | None) -> tuple[tuple[HockeyStickCurve, int], ...] | None:
    return None if curve is None else ((curve, 1),)


def _both(extent: float, delta: Callable[[Floats], Floats], width: int = 1) -> HockeyStickCurve:
    return HockeyStickCurve(extent, delta, delta, width)


def _gaussian(mu: float) -> HockeyStickCurve:
    if mu == 0:
        return _nothing()
    from scipy.special import log_ndtr, ndtr

    def delta(epsilons: Floats) -> Floats:
        outside: Floats = ndtr(mu / 2 - epsilons / mu) - np.exp(epsilons + log_ndtr(-mu / 2 - epsilons / mu))
        return outside

    return _both(mu * mu / 2 + _NORMAL_EXTENT * mu, delta)


def _laplace(ratio: float) -> HockeyStickCurve:
    def delta(epsilons: Floats) -> Floats:
        inside = -np.expm1((np.minimum(epsilons, ratio) - ratio) / 2)
        return np.where(epsilons <= -ratio, -np.expm1(epsilons), inside)

    return _both(ratio, delta)


def _nothing() -> HockeyStickCurve:
    return _both(0.0, lambda epsilons: np.maximum(0.0, -np.expm1(epsilons)))


def _discrete_laplace(shift: int, scale: float) -> HockeyStickCurve | None:
    """The loss is (k − 2y)/s, y the noise clipped to [0, k]."""
    if shift == 0:
        return _nothing()
    if shift > MAX_TABLE:
        return None
    steps = np.arange(shift + 1)
    first = np.exp(-steps / scale) / (1 + math.exp(-1 / scale))
    first[1:-1] *= -math.expm1(-1 / scale)
    return _table(first, first[::-1], (shift - 2 * steps) / scale, missing=0.0)


def _discrete_gaussian(shift: int, sigma_squared: float) -> HockeyStickCurve | None:
    extent = _TABLE_EXTENT * math.sqrt(sigma_squared) + 10
    if shift == 0:
        return _nothing()
    if extent + shift > MAX_TABLE:
        return None
    # The noise values from which the loss L(x) = (k² − 2kx)/2σ² falls; k − x are the noise values under Q.
    points = np.arange(-math.ceil(extent), math.ceil(extent) + shift + 1)
    scaled = np.exp(-(points**2) / (2 * sigma_squared))
    total = math.fsum(
        np.exp(-(np.arange(-math.ceil(extent), math.ceil(extent) + 1) ** 2) / (2 * sigma_squared))
    )
    first, second = scaled / total, np.exp(-((points - shift) ** 2) / (2 * sigma_squared)) / total
    return _table(first, second, shift * (shift - 2 * points) / (2 * sigma_squared), missing=1e-18)


def _skellam(shift: int, mu: float) -> HockeyStickCurve | None:
    extent = math.ceil(_TABLE_EXTENT * math.sqrt(2 * mu) + 60)
    if shift == 0:
        return _nothing()
    if extent + shift >= MAX_TABLE:
        return None
    logarithms = log_skellam(mu, 1 << (extent + shift).bit_length())
    points = np.arange(-extent, extent + shift + 1)
    first, second = logarithms[np.abs(points)], logarithms[np.abs(points - shift)]
    return _table(np.exp(first), np.exp(second), first - second, missing=1e-18)


def _table(first: Floats, second: Floats, losses: Floats, *, missing: float) -> HockeyStickCurve:
    """δ from the two laws listed by falling loss; `missing` is the mass the first may have outside the list."""
    first_sums, second_sums = _sums(first), _sums(second)
    rising = -losses

    def delta(epsilons: Floats) -> Floats:
        at = np.searchsorted(rising, -epsilons, side="left")
        return np.minimum(1.0, np.maximum(0.0, first_sums[at] - np.exp(epsilons) * second_sums[at] + missing))

    return _both(float(losses[0]), delta)


def _poisson_binomial(leaf: events.PoissonBinomial) -> tuple[tuple[HockeyStickCurve, int], ...]:
    high, low = probabilities(leaf)
    if leaf.changed > 1:
        # Showing every changed coin costs at least as much, and exactly as much when all contributors change.
        coin = _table(
            np.array([high, low]), np.array([low, high]), np.log([high / low, low / high]), missing=0.0
        )
        return ((coin, leaf.changed * leaf.trials),)
    return tuple((_largest_of_pairs(m, b, high, low), count) for m, b, count in groups(leaf))


def _largest_of_pairs(contributors: int, trials: int, high: float, low: float) -> HockeyStickCurve:
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


def _sampled(curve: HockeyStickCurve, rate: float) -> HockeyStickCurve:
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

    extent = math.log1p(rate * math.expm1(curve.extent)) if curve.extent < 700 else curve.extent
    return HockeyStickCurve(extent, joined, left, curve.width)


def _sums(masses: Floats) -> Floats:
    return np.concatenate(([0.0], np.cumsum(masses)))


LEAST_DELTA = 1e-12
_GRID = 2.0**15
_MAX_GRID = 2.0**17
_MOST_VALUES = 2.0**23
_MOST_CURVES = 24
_MOST_TIMES = 10**5
_ROOT = 1e-13
_LARGEST_EPSILON = 2.0**13
"""Beyond every loss on a grid: what is left there has no finite loss."""
_LARGEST_EXTENT = 600.0
"""Beyond this e^ε leaves the range of doubles; other routes do as well there."""


@dataclass(frozen=True)
class LossDistribution:
    """The loss in each direction, and how much of δ the arithmetic may have lost."""

    directions: tuple[PLDPmf, ...]
    lost: float
    scale: float
    """Roughly the ε that will be asked about: where to look first."""

    def epsilon(self, delta: float) -> float:
        """The least ε at this δ; infinite if the arithmetic is not fine enough for it."""
        inside = delta - self.lost
        if inside <= 0:
            return math.inf
        with one_thread():
            return max(_least_epsilon(pmf, inside, self.scale) for pmf in self.directions)

    def delta(self, epsilon: float) -> float:
        """The least δ at this ε."""
        with one_thread():
            return max(float(pmf.get_delta_for_epsilon(epsilon)) for pmf in self.directions) + self.lost


def loss_distribution(items: Items, scale: float) -> LossDistribution | None:
    """The loss of all these leaves together, if each has a curve; `scale` is a rough ε, from a quicker route."""
    if any(isinstance(leaf, events.PerStep) and leaf.discrete for leaf, _ in items.leaves):
        return None  # no curve is proved for these, and a long schedule is slow to put in order
    # Scales within a factor of two share a grid, so that nearby questions share an answer.
    return _distribution(items, 2.0 ** math.ceil(math.log2(scale))) if 1e-6 < scale < 1e6 else None


@lru_cache(maxsize=32)
def _distribution(items: Items, scale: float) -> LossDistribution | None:
    curves: list[tuple[HockeyStickCurve, int]] = []
    # Poisson binomials last: their curves take longest, and another leaf may have none.
    for leaf, times in sorted(
        items.leaves, key=lambda item: (isinstance(item[0], events.PoissonBinomial), repr(item))
    ):
        of_leaf = curves_of(leaf)
        if of_leaf is None:
            return None
        curves.extend((curve, times * count) for curve, count in of_leaf)
    curves = [(curve, count) for curve, count in curves if curve.extent > 0]
    count = sum(count for _, count in curves)
    if (
        not 0 < count <= _MOST_TIMES
        or len(curves) > _MOST_CURVES
        or max(c.extent for c, _ in curves) > _LARGEST_EXTENT
    ):
        return None
    interval = max(
        scale / _GRID,
        *(2 * curve.extent / _MAX_GRID for curve, _ in curves),
        *(2 * curve.extent * curve.width / _MOST_VALUES for curve, _ in curves),
    )
    forward = [(_grid(curve, interval, backward=False), count) for curve, count in curves]
    directions = [_convolve(forward)]
    if any(curve.forward is not curve.backward for curve, _ in curves):
        directions.append(
            _convolve([(_grid(curve, interval, backward=True), count) for curve, count in curves])
        )
    length = max(pmf.size for pmf in directions)
    # A transform of length n is off by at most 4u·log₂ n of the 2-norm, a k-th power by k times that, and the
    # 1-norm of the error is at most √n times its 2-norm.
    lost = count * math.sqrt(length) * 4 * 2.0**-53 * math.log2(length + 2)
    return LossDistribution(tuple(directions), lost, scale)


def _least_epsilon(pmf: PLDPmf, delta: float, near: float) -> float:
    """The least ε at this δ, rounded up: a root of the curve, looked for around `near` with few sums over the grid.

    The library's own answer walks over the grid in Python, a hundred times slower.
    """

    @cache
    def above(epsilon: float) -> float:
        # Logarithms of δ lie near a parabola, whose root is soon found.
        return math.log(max(float(pmf.get_delta_for_epsilon(epsilon)), LEAST_DELTA**2) / delta)

    low, high = near / 2, near
    while above(high) > 0:
        low, high = high, 2 * high
        if high > _LARGEST_EPSILON:
            return math.inf
    while low > 0 and above(low) <= 0:
        low, high = (low / 2 if low > near / 64 else 0.0), low
    from scipy.optimize import brentq

    epsilon = low if above(low) <= 0 else float(brentq(above, low, high, xtol=_ROOT, rtol=_ROOT))
    slack = _ROOT
    while float(pmf.get_delta_for_epsilon(epsilon)) > delta:
        epsilon, slack = epsilon + slack, 2 * slack
    return epsilon


def _grid(curve: HockeyStickCurve, interval: float, *, backward: bool) -> PLDPmf:
    from dp_accounting.pld.pld_pmf import create_pmf_pessimistic_connect_dots_fixed_gap

    extent = math.ceil(curve.extent / interval)
    epsilons = np.arange(-extent, extent + 1, dtype=np.float64) * interval
    deltas = np.clip((curve.backward if backward else curve.forward)(epsilons), 0.0, 1.0)
    return create_pmf_pessimistic_connect_dots_fixed_gap(interval, -extent, extent, deltas).to_dense_pmf()


def _convolve(parts: list[tuple[PLDPmf, int]]) -> PLDPmf:
    truncation = 1e-15
    # Where the library looks for the ends of the grid a moment may overflow: that order then bounds nothing.
    with np.errstate(over="ignore"):
        composed = [pmf.self_compose(count, truncation) if count > 1 else pmf for pmf, count in parts]
    total = composed[0]
    for pmf in composed[1:]:
        total = total.compose(pmf, truncation)
    return total
