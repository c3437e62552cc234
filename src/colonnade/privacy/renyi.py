"""Rényi curves: one rule for each leaf, sums for compositions.

`renyi(event, order)` is an upper bound on the divergence D_α between any two neighbours' outputs, in both
directions, for every real order α > 1. Rules that are proved at integer orders only are taken at the next integer,
because a divergence never falls when its order rises.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import TypeAlias

from colonnade.privacy.composition import Items, Leaf, itemise
from colonnade.privacy.conversion import best_order, delta_from_renyi, epsilon_from_renyi
from colonnade.privacy.events import Event, PoissonSampled
from colonnade.privacy.leaves import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    MatrixSkellam,
    PerStep,
    PoissonBinomial,
    Skellam,
)
from colonnade.privacy.poisson_binomial import poisson_binomial_renyi
from colonnade.privacy.skellam import exact_order_limit, exact_skellam_renyi
from colonnade.privacy.subsampling import sampled_renyi

Curve: TypeAlias = Callable[[float], float]

_LAST_BITS = 2.0**-50


def renyi(event: Event, order: float) -> float:
    """An upper bound on the Rényi divergence of this order between neighbours."""
    if not order > 1:
        raise ValueError(f"a Rényi order must be greater than 1, found {order}")
    return renyi_curve(itemise(event))(order)


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
        case Gaussian():
            return _proportional((float(leaf.sensitivity) / float(leaf.sigma)) ** 2 / 2)
        case DiscreteGaussian():
            return _proportional(float(leaf.sensitivity) ** 2 / (2 * float(leaf.sigma_squared)))
        case PerStep():
            return _proportional(leaf.sum_of_squares / (2 * float(leaf.sigma_squared)))
        case Laplace():
            return partial(laplace_renyi, float(leaf.sensitivity / leaf.scale))
        case DiscreteLaplace():
            return partial(discrete_laplace_renyi, math.floor(leaf.sensitivity), float(leaf.scale))
        case Skellam():
            return partial(_skellam, leaf)
        case MatrixSkellam():
            return partial(
                skellam_bound,
                mu=float(leaf.mu),
                squares=float(leaf.change.frobenius) ** 2,
                absolutes=float(leaf.change.weighted_l1),
                fourth=float(leaf.change.fourth),
                fourth_absolutes=float(leaf.change.fourth_l1),
            )
        case PoissonBinomial():
            return partial(poisson_binomial_renyi, leaf)
    return partial(sampled_renyi, float(leaf.rate), cache(rule_of(leaf.event)))  # type: ignore[arg-type]


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


def _skellam(leaf: Skellam, order: float) -> float:
    l1, l2, mu = float(leaf.l1), float(leaf.l2), float(leaf.mu)
    bound = skellam_bound(order, mu=mu, squares=l2 * l2, absolutes=l1, fourth=l2 * l2, fourth_absolutes=l1)
    if leaf.coordinates == 1:
        shift = math.floor(min(leaf.l1, leaf.l2))
        if order <= exact_order_limit(shift, mu):
            return min(bound, exact_skellam_renyi(shift, mu, order))
    return bound


def _integer(items: Items) -> bool:
    return any(
        isinstance(leaf, (MatrixSkellam, PoissonSampled))
        or (isinstance(leaf, Skellam) and leaf.coordinates != 1)
        for leaf, _ in items.leaves
    )
