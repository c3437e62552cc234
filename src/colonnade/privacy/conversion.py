"""From a Rényi curve to (ε, δ), rounding toward safety.

If D_α(P‖Q) ≤ τ for both orders of every pair of neighbours then, for every δ in (0, 1), the release is
(ε, δ)-differentially private with ε = τ + log(1/(αδ))/(α − 1) + log(1 − 1/α). Canonne, Kamath and Steinke,
"The Discrete Gaussian for Differential Privacy" (arXiv 2004.00010v5), Proposition 12; docs/proofs/conversion.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

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
    orders = _integer_grid() if integer else _real_grid()
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


def _integer_grid() -> list[float]:
    return sorted({float(math.ceil(order)) for order in _real_grid()})


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
