"""μ-GDP: what a composition of Gaussian releases costs, exactly.

Distinguishing the neighbours of Gaussian releases with sensitivities Δ_t and deviations σ_t is exactly as hard as
distinguishing N(0, 1) from N(μ, 1) with μ² = Σ (Δ_t/σ_t)², also when each release depends on the earlier ones, and
then δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ). Balle and Wang, "Improving the Gaussian Mechanism for Differential
Privacy" (arXiv 1805.06530v2), Theorem 8; Dong, Roth and Su, "Gaussian Differential Privacy" (arXiv 1905.02383v3).

For normal noise only: the discrete Gaussian has its own curve (docs/proofs/discrete-gaussian.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from colonnade.privacy.special import scaled_erfc

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
    second = scaled_erfc((lower + mu) / math.sqrt(2))
    moved = _NORMAL_LAST_BITS * (epsilon + mu * mu) * second
    if lower < 0:
        rest = math.erfc(lower / math.sqrt(2)) + _SCALED_BITS
        return min(1.0, 0.5 * (rest - common * (second - moved)))
    first = scaled_erfc(lower / math.sqrt(2))
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


def gaussian_sigma(epsilon: float, delta: float, *, sensitivity: float = 1.0) -> float:
    """The least σ that makes Gaussian noise (ε, δ)-differentially private: the analytic Gaussian mechanism."""
    return sensitivity / gaussian_mu(epsilon, delta)


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
