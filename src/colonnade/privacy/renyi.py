"""Rényi curves, pure ε and μ-GDP: one rule for each leaf, and the conversion to (ε, δ) toward safety."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial
from typing import TypeAlias

from colonnade.privacy import distributions, events
from colonnade.privacy.events import Event, Items, Leaf

ROUNDING = 2.0**-40
"""Relative margin added to every ε and δ: far above what double arithmetic can lose, far below what is printed."""

LARGEST_ORDER = 2.0**20
_COARSE_RATIO = 1.3
_GOLDEN = (math.sqrt(5) - 1) / 2


def epsilon_from_renyi(order: float, divergence: float, delta: float) -> float:
    """ε at this δ, from one point (α, τ) of a Rényi curve; never negative."""
    _check_order(order)
    if math.isnan(divergence):
        return math.inf  # what cannot be computed proves nothing; max(0, nan) would be 0
    return max(0.0, divergence - (math.log(order) + math.log(delta)) / (order - 1) + math.log1p(-1 / order))


def delta_from_renyi(order: float, divergence: float, epsilon: float) -> float:
    """δ at this ε, from one point (α, τ) of a Rényi curve; never above 1."""
    _check_order(order)
    exponent = (order - 1) * (divergence - epsilon + math.log1p(-1 / order)) - math.log(order)
    return math.exp(min(0.0, exponent))


def best_order(cost: Callable[[float], float], *, integer: bool) -> tuple[float, float]:
    """The order with the least cost, and that cost. Any order is sound, so the search need only be good."""
    orders = _real_grid()
    if integer:
        orders = sorted({float(math.ceil(order)) for order in orders})
    costs = [cost(order) for order in orders]
    at = min(range(len(orders)), key=costs.__getitem__)
    low, high = orders[max(at - 1, 0)], orders[min(at + 1, len(orders) - 1)]
    refined = _least_integer(cost, int(low), int(high)) if integer else _least_real(cost, low, high)
    return min((costs[at], orders[at]), (cost(refined), refined))[::-1]


def round_up(value: float) -> float:
    """The value, with the margin that covers double arithmetic."""
    return value * (1 + ROUNDING)


def float_above(value: Fraction) -> float:
    """The least double that is not below the fraction."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def _check_order(order: float) -> None:
    if not order > 1:
        raise ValueError(f"a Rényi order must be greater than 1, found {order}")


def _real_grid() -> list[float]:
    steps = math.ceil(math.log(LARGEST_ORDER / 0.01, _COARSE_RATIO))
    return [1 + 0.01 * _COARSE_RATIO**step for step in range(steps)]


def _least_integer(cost: Callable[[float], float], low: int, high: int) -> float:
    while high - low > 2:
        middle = (low + high) // 2
        if cost(float(middle)) <= cost(float(middle + 1)):
            high = middle + 1
        else:
            low = middle
    return float(min(range(low, high + 1), key=lambda order: cost(float(order))))


def _least_real(cost: Callable[[float], float], low: float, high: float) -> float:
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = cost(left), cost(right)
    while high - low > 1e-5 * (high - 1):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = cost(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = cost(right)
    return (low + high) / 2


Curve: TypeAlias = Callable[[float], float]

_LAST_BITS = 2.0**-50


def renyi(event: Event, order: float) -> float:
    """An upper bound on the Rényi divergence of this order between neighbours."""
    _check_order(order)
    return renyi_curve(events.itemise(event))(order)


def renyi_curve(items: Items) -> Curve:
    """The curve of an itemised event; `fsum` makes it independent of the order of the leaves."""
    rules = [(rule_of(leaf), times) for leaf, times in items.leaves]
    return lambda order: math.fsum(times * rule(order) for rule, times in rules)


def least_epsilon(items: Items, delta: float) -> tuple[float, float]:
    """The least ε over all orders at this δ, and the order that gives it."""
    curve = renyi_curve(items)
    order, epsilon = best_order(
        lambda order: epsilon_from_renyi(order, curve(order), delta), integer=_integer(items)
    )
    return epsilon, order


def least_delta(items: Items, epsilon: float) -> tuple[float, float]:
    """The least δ over all orders at this ε, and the order that gives it."""
    curve = renyi_curve(items)
    order, delta = best_order(
        lambda order: delta_from_renyi(order, curve(order), epsilon), integer=_integer(items)
    )
    return delta, order


def rule_of(leaf: Leaf) -> Curve:
    """The curve of one leaf. What is left after the cases is a sample of a leaf; the type checker holds this."""
    match leaf:
        case events.Gaussian():
            return _proportional((float(leaf.sensitivity) / float(leaf.sigma)) ** 2 / 2)
        case events.DiscreteGaussian():
            return _proportional(float(leaf.sensitivity) ** 2 / (2 * float(leaf.sigma_squared)))
        case events.PerStep():
            return _proportional(leaf.sum_of_squares / (2 * float(leaf.sigma_squared)))
        case events.Laplace():
            return partial(laplace_renyi, float(leaf.sensitivity / leaf.scale))
        case events.DiscreteLaplace():
            return partial(discrete_laplace_renyi, math.floor(leaf.sensitivity), float(leaf.scale))
        case events.Skellam():
            return partial(_skellam, leaf)
        case events.MatrixSkellam():
            return partial(
                skellam_bound,
                mu=float(leaf.mu),
                squares=float(leaf.change.frobenius) ** 2,
                absolutes=float(leaf.change.weighted_l1),
                fourth=float(leaf.change.fourth),
                fourth_absolutes=float(leaf.change.fourth_l1),
            )
        case events.PoissonBinomial():
            return partial(distributions.poisson_binomial_renyi, leaf)
    return partial(_sampled, float(leaf.rate), cache(rule_of(leaf.event)))  # type: ignore[arg-type]


def _sampled(rate: float, divergence: Callable[[float], float], order: float) -> float:
    """The formula of whole orders, or the divergence without sampling where the next whole order costs more."""
    sampled = distributions.sampled_renyi(rate, divergence, order)
    return min(sampled, divergence(order)) if math.isfinite(sampled) else sampled


def _proportional(slope: float) -> Curve:
    return lambda order: order * slope


def laplace_renyi(ratio: float, order: float) -> float:
    """D_α of two Laplace laws whose centres are `ratio` scales apart, and of any split of it over coordinates.

    The closed form of Mironov, "Rényi Differential Privacy" (arXiv 1702.07476v3), Table II. It is convex in the
    shift and zero at zero, so a shift spread over coordinates costs less (docs/proofs/laplace-coordinates.md).
    """
    weight = (order - 1) / (2 * order - 1)
    inside = math.log1p(weight * math.expm1(-(2 * order - 1) * ratio))
    return max(0.0, ratio + inside / (order - 1) + _LAST_BITS * ratio)


def discrete_laplace_renyi(shift: int, scale: float, order: float) -> float:
    """D_α of two discrete Laplace laws `shift` apart, and of any split of it over coordinates.

    With q = e^(−1/s) and w = e^(−(2α−1)/s) the sum over the integers is geometric and gives
    e^((α−1)D) = e^((α−1)k/s) · (1 − (1 − (1−q)/(1−w))(1 − w^k)/(1 + q)).
    """
    if shift == 0:
        return 0.0
    ratio = shift / scale
    thinning = math.expm1(-1 / scale) / math.expm1(-(2 * order - 1) / scale)
    loss = (1 - thinning) * math.expm1(-(2 * order - 1) * ratio) / (1 + math.exp(-1 / scale))
    return max(0.0, ratio + math.log1p(loss) / (order - 1) + _LAST_BITS * ratio)


def skellam_bound(
    order: float, *, mu: float, squares: float, absolutes: float, fourth: float, fourth_absolutes: float
) -> float:
    """α S/4μ + min(((2α − 1) Q + 6 R)/16μ², 3 A/4μ), at the next integer order.

    For plain Skellam noise S = Q = Δ₂² and A = R = Δ₁: Agarwal, Kairouz and Liu, "The Skellam Mechanism for
    Differentially Private Federated Learning" (arXiv 2110.04995v2). For the two-variance matrix the
    entries weigh differently in each sum: docs/proofs/matrix-skellam.md.
    """
    whole = math.ceil(order)
    small = ((2 * whole - 1) * fourth + 6 * fourth_absolutes) / (16 * mu * mu)
    return whole * squares / (4 * mu) + min(small, 3 * absolutes / (4 * mu))


def _skellam(leaf: events.Skellam, order: float) -> float:
    l1, l2, mu = float(leaf.l1), float(leaf.l2), float(leaf.mu)
    bound = skellam_bound(order, mu=mu, squares=l2 * l2, absolutes=l1, fourth=l2 * l2, fourth_absolutes=l1)
    if leaf.coordinates == 1:
        shift = math.floor(min(leaf.l1, leaf.l2))
        if order <= distributions.exact_order_limit(shift, mu):
            return min(bound, distributions.exact_skellam_renyi(shift, mu, order))
    return bound


def _integer(items: Items) -> bool:
    return any(
        isinstance(leaf, (events.MatrixSkellam, events.PoissonSampled))
        or (isinstance(leaf, events.Skellam) and leaf.coordinates != 1)
        for leaf, _ in items.leaves
    )


def pure_epsilon(items: Items) -> float:
    """ε at δ = 0, rounded up: losses add up, infinite if any leaf's loss is unbounded."""
    exact = sum((times * _exact_loss(leaf) for leaf, times in items.leaves), Fraction(0))
    inexact = math.fsum(times * _inexact_loss(leaf) for leaf, times in items.leaves)
    return float_above(exact) if inexact == 0 else round_up(float(exact) + inexact)


def _exact_loss(leaf: Leaf) -> Fraction:
    match leaf:
        case events.Laplace():
            return Fraction(leaf.sensitivity) / Fraction(leaf.scale)
        case events.DiscreteLaplace():
            return math.floor(leaf.sensitivity) / Fraction(leaf.scale)
        case _:
            return Fraction(0)


def _inexact_loss(leaf: Leaf) -> float:
    """The part of a leaf's loss that is not; after the cases, a sample of a leaf is left."""
    match leaf:
        case events.Gaussian():
            return math.inf if leaf.sensitivity else 0.0
        # A vector of integers shorter than 1 is zero.
        case events.DiscreteGaussian():
            return math.inf if leaf.sensitivity >= 1 else 0.0
        case events.PerStep():
            least = 1 if leaf.discrete else 0
            return (
                math.inf
                if any(sensitivity and sensitivity >= least for sensitivity in leaf.sensitivities)
                else 0.0
            )
        case events.Skellam():
            return math.inf if min(leaf.l1, leaf.l2) >= 1 else 0.0
        case events.MatrixSkellam():
            return math.inf if leaf.change.frobenius >= 1 else 0.0
        case events.Laplace() | events.DiscreteLaplace():
            return 0.0
        case events.PoissonBinomial():
            return distributions.pure_loss(leaf)
    inner: Leaf = leaf.event  # type: ignore[assignment]
    return _sampled_loss(float(leaf.rate), float(_exact_loss(inner)) + _inexact_loss(inner))


def _sampled_loss(rate: float, loss: float) -> float:
    """log(1 − q + q e^ε): the mixture's likelihood ratio at its largest."""
    return math.log1p(rate * math.expm1(loss)) if loss < 700 else loss


_NORMAL_LAST_BITS = 2.0**-51
_SCALED_BITS = 2.0**-48  # two scaled tails, each within 2⁻⁵⁰, and what their arguments were rounded by
_SMALLEST = 5e-324  # a tail below every double is still not zero


def gaussian_delta(mu: float, epsilon: float) -> float:
    """δ at this ε for a μ-GDP release, not below it: what doubles lose is added.

    `lower` is that of some ε′ within 2⁻⁵²·max(ε, μ²) of ε, and δ falls by at most e^ε Φ(−μ/2 − ε/μ) a unit of ε.
    """
    if mu < 0 or epsilon < 0:
        raise ValueError(f"μ and ε must not be negative, found μ = {mu} and ε = {epsilon}")
    if mu == 0:
        return 0.0
    lower = epsilon / mu - mu / 2
    common = math.exp(-lower * lower / 2)
    # e^ε φ(upper) = φ(lower): with the common factor outside, nothing overflows and the difference keeps its digits.
    second = distributions.scaled_erfc((lower + mu) / math.sqrt(2))
    moved = _NORMAL_LAST_BITS * (epsilon + mu * mu) * second
    if lower < 0:
        rest = math.erfc(lower / math.sqrt(2)) + _SCALED_BITS
        return min(1.0, 0.5 * (rest - common * (second - moved)))
    first = distributions.scaled_erfc(lower / math.sqrt(2))
    common *= 1.0 + _NORMAL_LAST_BITS * (2.0 + lower * lower)
    return 0.5 * common * (first - second + _SCALED_BITS * first + moved) + 2 * _SMALLEST


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The least ε at this δ for a μ-GDP release."""
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    high = 1.0
    while gaussian_delta(mu, high) > delta:
        high *= 2
    return _first_true(lambda epsilon: gaussian_delta(mu, epsilon) <= delta, 0.0, high)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The greatest μ for which a μ-GDP release is (ε, δ)-differentially private."""
    high = 1.0
    while gaussian_delta(high, epsilon) <= delta:
        high *= 2
    return high - _first_true(lambda less: gaussian_delta(high - less, epsilon) <= delta, 0.0, high)


def _first_true(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The least argument at which a monotone condition, true at `high`, holds; to the last bit, from above."""
    while True:
        middle = (low + high) / 2
        if not low < middle < high:
            return high
        if holds(middle):
            high = middle
        else:
            low = middle
