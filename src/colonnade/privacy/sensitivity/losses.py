"""What a loss allows the active party's residual h(θ, y) = ∂ℓ/∂θ to do, for weights in a ball and clipped rows.

Everywhere ‖w‖ ≤ k, ‖x‖ ≤ c for the active party's part, and what it received from the passive parties is
clipped to ±k·c′ (c′ the sum of their caps), so θ lies in [−Θ, Θ] with Θ = k(c + c′). Labels are clipped to
their declared range. Proofs: docs/proofs/message-sensitivity.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class LossBounds:
    """Three bounds on the residual h.

    - `size`: |h| ≤ L;
    - `slope`: h is β-Lipschitz and not decreasing in θ;
    - `row`: |h(u + m, y) − h(u′ + m, y′)| for any two records of the active party and the same received m.
    """

    size: float
    slope: float
    row: float


def logistic_bounds(*, radius: float, active_cap: float) -> LossBounds:
    """h = −y·s(−yθ), y = ±1, s the logistic function: row 2·s(k·c), attained when the label flips.

    These hold for any received value, so nothing needs to be clipped.
    """
    _check(radius, active_cap)
    return LossBounds(size=1.0, slope=0.25, row=_up(2 / (1 + math.exp(-radius * active_cap))))


def least_squares_bounds(
    *, radius: float, active_cap: float, passive_cap: float, label_bound: float
) -> LossBounds:
    """h = 2(θ − y), |y| ≤ k_y: L = 2(k_y + Θ), row 4k·c + 4k_y."""
    _check(radius, active_cap, passive_cap, label_bound)
    theta = radius * (active_cap + passive_cap)
    return LossBounds(
        size=_up(2 * (label_bound + theta)), slope=2.0, row=_up(4 * radius * active_cap + 4 * label_bound)
    )


def squared_hinge_bounds(*, radius: float, active_cap: float, passive_cap: float) -> LossBounds:
    """h = −2y·max(0, 1 − yθ), y = ±1 (l2-SVM): L = 2(1 + Θ), row max(4 + 4k·c, 2(1 + Θ))."""
    _check(radius, active_cap, passive_cap)
    size = 2 * (1 + radius * (active_cap + passive_cap))
    return LossBounds(size=_up(size), slope=2.0, row=_up(max(4 + 4 * radius * active_cap, size)))


def poisson_bounds(*, radius: float, active_cap: float, passive_cap: float, label_bound: float) -> LossBounds:
    """h = e^θ − y, 0 ≤ y ≤ k_y: L = max(e^Θ, k_y), β = e^Θ, row 2·e^(k·c′)·sinh(k·c) + k_y."""
    _check(radius, active_cap, passive_cap, label_bound)
    largest = _up(math.exp(radius * (active_cap + passive_cap)))
    spread = 2 * math.exp(radius * passive_cap) * math.sinh(radius * active_cap)
    return LossBounds(size=max(largest, label_bound), slope=largest, row=_up(spread + label_bound))


def gamma_bounds(*, radius: float, active_cap: float, passive_cap: float, label_bound: float) -> LossBounds:
    """h = 1 − y·e^(−θ), 0 ≤ y ≤ k_y (log link): L = max(1, k_y·e^Θ − 1), β = row = k_y·e^Θ."""
    _check(radius, active_cap, passive_cap, label_bound)
    largest = _up(label_bound * math.exp(radius * (active_cap + passive_cap)))
    return LossBounds(size=max(1.0, largest - 1), slope=largest, row=largest)


def _check(*values: float) -> None:
    if not all(math.isfinite(value) and value >= 0 for value in values):
        raise ValueError("a radius, a cap and a label bound must be finite and not negative")


def _up(value: float) -> float:
    return value * (1 + 2.0**-50)
