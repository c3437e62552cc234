"""Formulas of "Differentially Private Principal Component Analysis for Vertically Partitioned Data" (SPCA, SLR).

Skellam noise inside BGW. What holds instead: `colonnade.privacy.sensitivity.rows`, `.matrix`, `.gradient` and the
events `Skellam` and `MatrixSkellam`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.privacy.conversion import epsilon_from_renyi
from colonnade.privacy.paper.figure import PaperFigure
from colonnade.privacy.subsampling import sampled_renyi

Curve = NDArray[np.float64]
ORDERS: Curve = np.arange(2.0, 1000.0)
"""The integer orders that the paper's tables use."""

_WHY_NORM = (
    "Stochastic rounding can lengthen a row past √(γ² + n), so the sensitivity in it is not a bound, and the claimed "
    "Δ₁ counts n of the n(n + 1)/2 released entries."
)
_WHY_SLR = (
    "Stochastic rounding can lengthen rows and weights past the norms it uses, and amplification holds only for an "
    "observer who does not learn the batches."
)


@dataclass(frozen=True)
class Moments:
    """Δ₂ and Δ₁ of the released matrix or vector."""

    l2: float
    l1: float

    def scaled(self, factor: float) -> Moments:
        return Moments(factor * self.l2, factor * self.l1)


def row_norm_squared(columns: int, gamma: int) -> PaperFigure:
    """Equation (13): ‖x̄‖² ≤ γ² + n."""
    return PaperFigure(
        gamma**2 + columns,
        "equation (13) of SPCA, squared norm of a rounded row",
        "A row of 117 equal entries may round to squared norm 468 at γ = 16, where it claims 373.",
    )


def gram_moments(columns: int, gamma: int) -> Moments:
    """Lemma 2: Δ₂ = γ² + n, Δ₁ = min(Δ₂², √n·Δ₂)."""
    l2 = gamma**2 + columns
    return Moments(l2, min(l2**2, math.sqrt(columns) * l2))


def gradient_moments(columns: int, gamma: int, weight_cap: float) -> tuple[Moments, Moments, Moments]:
    """SLR: Δ₂ = √(γ² + n), √(γ²c² + n)(γ² + n) and γ√(γ² + n), each with Δ₁ = min(Δ₂², √n·Δ₂)."""
    square = gamma**2 + columns
    first, second, third = (
        Moments(l2, min(l2**2, math.sqrt(columns) * l2))
        for l2 in (
            math.sqrt(square),
            math.sqrt(gamma**2 * weight_cap**2 + columns) * square,
            gamma * math.sqrt(square),
        )
    )
    return first, second, third


def server_renyi(moments: Moments, mu: float) -> Curve:
    """Equation (8): αΔ₂²/(4μ) + min(((2α − 1)Δ₂² + 6Δ₁)/(16μ²), 3Δ₁/(4μ)), for all of `ORDERS`."""
    squares, absolutes = float(moments.l2) ** 2, float(moments.l1)
    small = ((2 * ORDERS - 1) * squares + 6 * absolutes) / (16 * mu**2)
    return ORDERS * squares / (4 * mu) + np.minimum(small, 3 * absolutes / (4 * mu))


def client_renyi(moments: Moments, mu: float, *, clients: int, columns: int) -> Curve:
    """Equation (9) as printed: N²/(N − 1)² in the leading term, N·n²/(N − 1)² and n in the others."""
    squares, absolutes, fewer = float(moments.l2) ** 2, float(moments.l1), clients - 1
    small = clients * columns**2 / fewer**2 * ((2 * ORDERS - 1) * squares + 3 * absolutes) / (4 * mu**2)
    leading = ORDERS * clients**2 * squares / (fewer**2 * mu)
    return leading + np.minimum(small, 3 * columns * absolutes / (2 * fewer * mu))


def least_epsilon(divergences: Curve, delta: float) -> float:
    """The least ε over `ORDERS`, by the conversion the paper cites."""
    penalties = np.log1p(-1 / ORDERS) - (np.log(ORDERS) + math.log(delta)) / (ORDERS - 1)
    return max(0.0, float(np.min(divergences + penalties)))


def server_epsilon(moments: Moments, mu: float, delta: float) -> PaperFigure:
    """Lemma 2, equation (8), converted to ε."""
    epsilon = least_epsilon(server_renyi(moments, mu), delta)
    return PaperFigure(epsilon, "equation (8) of SPCA, server's ε", _WHY_NORM)


def server_mu(moments: Moments, epsilon: float, delta: float) -> PaperFigure:
    """The least μ at which equation (8) gives this ε."""
    mu = _least_mu(lambda mu: least_epsilon(server_renyi(moments, mu), delta), epsilon)
    return PaperFigure(mu, "μ from equation (8) of SPCA", _WHY_NORM)


def client_epsilon(moments: Moments, mu: float, delta: float, *, clients: int, columns: int) -> PaperFigure:
    """Lemma 2, equation (9) as printed, converted to ε."""
    epsilon = least_epsilon(client_renyi(moments, mu, clients=clients, columns=columns), delta)
    return PaperFigure(
        epsilon,
        "equation (9) of SPCA, a client's ε",
        "It doubles a sensitivity that needs √2 and disagrees with its own proof, which has N where it prints n; its "
        "row norms can be exceeded by rounding.",
    )


def client_epsilon_of_proof(moments: Moments, mu: float, delta: float, *, clients: int) -> PaperFigure:
    """The proof of Lemma 2: sensitivities doubled, μ(N − 1)/N."""
    epsilon = least_epsilon(server_renyi(moments.scaled(2), mu * (clients - 1) / clients), delta)
    return PaperFigure(epsilon, "proof of Lemma 2 of SPCA, a client's ε", _WHY_NORM)


def client_epsilon_of_tables(moments: Moments, mu: float, delta: float) -> PaperFigure:
    """What Tables 1 and 2 print: the proof's formula with two clients, a leading term eight times the server's."""
    epsilon = least_epsilon(server_renyi(moments.scaled(2), mu / 2), delta)
    return PaperFigure(
        epsilon,
        "Tables 1 and 2 of SPCA, a client's ε",
        "The factor of eight is inferred from the printed numbers and follows from neither equation (9) nor its proof.",
    )


def gradient_server_epsilon(
    parts: Sequence[tuple[Moments, float]], delta: float, *, rate: float, steps: int, orders: Curve = ORDERS
) -> PaperFigure:
    """Lemma 13: the three releases (moments, μ) of each step, Poisson-sampled at this rate, converted to ε."""

    curve = _summed([server_renyi(part, mu) for part, mu in parts])
    epsilon = math.inf
    for order in map(float, orders):
        divergence = steps * sampled_renyi(rate, lambda power: float(curve[int(power) - 2]), order)
        epsilon = min(epsilon, epsilon_from_renyi(order, divergence, delta))
    return PaperFigure(epsilon, "Lemma 13 of SLR, server's ε", _WHY_SLR)


def gradient_client_epsilon(
    parts: Sequence[tuple[Moments, float]], delta: float, *, clients: int, uses: float
) -> PaperFigure:
    """Lemma 14: the proof's client formula for each of the three releases, `uses` times, converted to ε."""
    curve = _summed([server_renyi(part.scaled(2), mu * (clients - 1) / clients) for part, mu in parts])
    return PaperFigure(
        least_epsilon(uses * curve, delta),
        "Lemma 14 of SLR, a client's ε",
        "The number of times a record is sampled is random and the paper puts in its expectation; a guarantee needs "
        "the largest, and true row norms.",
    )


def gradient_multiplier(
    parts: tuple[Moments, Moments, Moments],
    gamma: int,
    epsilon: float,
    delta: float,
    *,
    rate: float,
    steps: int,
) -> PaperFigure:
    """The least m at which Lemma 13 gives this ε for μ(h) = γ²m, γ⁶m and γ⁴m, over orders up to 256."""

    def epsilon_at(multiplier: float) -> float:
        scaled = [
            (part, multiplier * float(gamma) ** power) for part, power in zip(parts, (2, 6, 4), strict=True)
        ]
        return gradient_server_epsilon(scaled, delta, rate=rate, steps=steps, orders=ORDERS[:255]).value

    multiplier = _least_mu(epsilon_at, epsilon, precision=1e-6)
    return PaperFigure(multiplier, "noise multiplier from Lemma 13 of SLR", _WHY_SLR)


def _summed(curves: Sequence[Curve]) -> Curve:
    total: Curve = np.sum(curves, axis=0)
    return total


def _least_mu(epsilon_at: Callable[[float], float], epsilon: float, *, precision: float = 1e-13) -> float:
    low = high = 1.0
    while epsilon_at(high) > epsilon:
        low, high = high, 4 * high
    while epsilon_at(low) <= epsilon:
        low, high = low / 4, low
    while high - low > precision * high:
        middle = (low + high) / 2
        low, high = (middle, high) if epsilon_at(middle) > epsilon else (low, middle)
    return high
