"""The sound routes from an itemised event to ε or δ, and the choice of the tightest.

* pure: the largest loss, where it is finite; holds at every δ;
* Gaussian: the exact curve of normal noise, when every leaf is normal;
* Rényi: always;
* privacy loss distribution: where every leaf has one and it is affordable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from colonnade.errors import PrivacyError
from colonnade.privacy.composition import Items
from colonnade.privacy.conversion import round_up
from colonnade.privacy.gdp import gaussian_delta, gaussian_epsilon
from colonnade.privacy.leaves import Gaussian, PerStep
from colonnade.privacy.loss import LEAST_DELTA, loss_distribution
from colonnade.privacy.pure import pure_epsilon
from colonnade.privacy.renyi import least_delta, least_epsilon

_LOSS_NAME = "privacy loss distribution"
_TYPICAL_DELTA = 1e-6


@dataclass(frozen=True)
class Point:
    """An ε or a δ, rounded up, the route that proved it, and the Rényi order if that was the route."""

    value: float
    method: str
    order: float | None = None


def epsilon_routes(items: Items, delta: float) -> Point:
    """The least ε at this δ over all routes."""
    pure = Point(pure_epsilon(items), "pure")
    if delta == 0:
        if math.isinf(pure.value):
            raise PrivacyError(
                "δ = 0 was asked, but this noise has no largest loss. "
                "Choose δ > 0, for instance 1/(10 n) for n records."
            )
        return pure
    mu = gaussian_mu_of(items)
    if mu is not None:
        return _least([pure, Point(round_up(gaussian_epsilon(mu, delta)), _gaussian_name(mu))])
    epsilon, order = least_epsilon(items, delta)
    points = [pure, Point(round_up(epsilon), _renyi_name(order), order)]
    losses = loss_distribution(items, epsilon) if delta >= LEAST_DELTA else None
    if losses is not None:
        points.append(Point(round_up(losses.epsilon(delta)), _LOSS_NAME))
    return _least(points)


def least_delta_of_routes(items: Items, epsilon: float) -> Point:
    """The least δ at this ε over all routes."""
    if pure_epsilon(items) <= epsilon:
        return Point(0.0, "pure")
    mu = gaussian_mu_of(items)
    if mu is not None:
        return Point(round_up(gaussian_delta(mu, epsilon)), _gaussian_name(mu))
    delta, order = least_delta(items, epsilon)
    points = [Point(round_up(delta), _renyi_name(order), order)]
    losses = (
        loss_distribution(items, least_epsilon(items, _TYPICAL_DELTA)[0]) if delta >= LEAST_DELTA else None
    )
    if losses is not None:
        points.append(Point(round_up(losses.delta(epsilon)), _LOSS_NAME))
    return _least(points)


def gaussian_mu_of(items: Items) -> float | None:
    """μ with μ² = Σ (Δ/σ)², if every leaf is normal noise."""
    squares = []
    for leaf, times in items.leaves:
        if isinstance(leaf, Gaussian):
            squares.append(times * float(leaf.sensitivity / leaf.sigma) ** 2)
        elif isinstance(leaf, PerStep) and not leaf.discrete:
            squares.append(times * leaf.sum_of_squares / float(leaf.sigma_squared))
        else:
            return None
    return math.sqrt(math.fsum(squares))


def _least(points: list[Point]) -> Point:
    return min(points, key=lambda point: point.value)


def _renyi_name(order: float) -> str:
    return f"Rényi, order {order:.4g}"


def _gaussian_name(mu: float) -> str:
    return f"Gaussian (μ = {mu:.3g})"
