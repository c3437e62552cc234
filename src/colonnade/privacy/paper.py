"""Formulas of five papers, as they stand there: figures with the reason why each is not a guarantee."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from colonnade.privacy.distributions import sampled_renyi
from colonnade.privacy.renyi import best_order, epsilon_from_renyi

LABEL = "paper formula, not a guarantee"


@dataclass(frozen=True)
class PaperFigure:
    """A paper's number, its formula and one sentence on what is wrong with taking it as a guarantee.

    It is not a number on purpose: only `value` can be computed with, and printing it prints the label.
    """

    value: float
    formula: str
    why_not: str

    def __str__(self) -> str:
        return f"{self.formula}: {self.value:.6g} ({LABEL}). {self.why_not}"


_WHY_GLOBAL = (
    "It covers the server only: the parties decrypt exact coefficients of each other's data and add the noise "
    "afterwards."
)
_BLOCK = "Δ of one block of the functional mechanism, {}"
_WHY_BLOCK = "A zeroed record moves the block half as far, and parties hold cross-party blocks without noise."


def linear_sensitivity(features: int) -> PaperFigure:
    """Δ_f = 2(1 + 2d + d²) for linear regression; valid, and twice what is needed."""
    return PaperFigure(
        2 * (1 + 2 * features + features**2), "Δ_f of the functional mechanism, linear", _WHY_GLOBAL
    )


def logistic_sensitivity(features: int) -> PaperFigure:
    """Δ_f = d²/4 + d for logistic regression; valid, where (d + 2)²/8 is needed."""
    return PaperFigure(features**2 / 4 + features, "Δ_f of the functional mechanism, logistic", _WHY_GLOBAL)


def linear_party_sensitivity(features: int, *, own: int, holds_label: bool) -> PaperFigure:
    """Δ_f^1 = 2(1 + 2d + d¹d) for the label party, Δ_f^k = 2(2dᵏ + dᵏd) for the others."""
    first = 1 + 2 * features if holds_label else 2 * own
    return PaperFigure(
        2 * (first + own * features),
        "Δ_f^k of the functional mechanism, linear",
        "Pairs across parties are counted once here and twice in Δ_f, so a party with less than half of the "
        "features moves the coefficients further than this.",
    )


def logistic_party_sensitivity(features: int, *, own: int, holds_label: bool) -> PaperFigure:
    """Δ_f^1 = d + d¹(2d − d¹)/4 for the label party, Δ_f^k = dᵏ + dᵏ(2d − dᵏ)/4 for the others."""
    first = features if holds_label else own
    return PaperFigure(
        first + own * (2 * features - own) / 4,
        "Δ_f^k of the functional mechanism, logistic",
        "Other parties hold exact cross coefficients of this party's data, so no noise stands between them and it.",
    )


def party_epsilon(epsilon: float, *, party_sensitivity: PaperFigure, sensitivity: PaperFigure) -> PaperFigure:
    """Theorem 2: ε^(k) = Δ_f^k/Δ_f·ε."""
    return PaperFigure(
        party_sensitivity.value / sensitivity.value * epsilon,
        "ε^(k) of Theorem 2 of the functional mechanism paper",
        "It fails against other parties, who see exact coefficients, and for linear regression its Δ_f^k is too small.",
    )


def linear_block_sensitivity(own: int, *, other: int = 0, label: int | None = None) -> PaperFigure:
    """Δ_g^k of a single-party block (other = 0) or Δ_h^kl of a cross-party one, linear: 2·Σ‖λ‖₁ over its coefficients.

    `label` is 0 if the first party holds the label, 1 if the second does. A block of one party has (dᵏ)² ordered pairs
    and with the label 1 + 2dᵏ more; one of two parties has 2dᵏdˡ and with the label 2d of the other party. Together
    they make Δ_f.
    """
    if other:
        count = 2 * own * other + (0 if label is None else 2 * (other, own)[label])
    else:
        count = own**2 + (0 if label is None else 1 + 2 * own)
    return PaperFigure(2 * count, _BLOCK.format("linear"), _WHY_BLOCK)


def logistic_block_sensitivity(own: int, *, other: int = 0, label: int | None = None) -> PaperFigure:
    """Δ_g^k or Δ_h^kl, logistic: ½ for each product with the label, ⅛ for each ordered pair of features, doubled."""
    if other:
        pairs, labelled = 2 * own * other, 0 if label is None else (other, own)[label]
    else:
        pairs, labelled = own**2, 0 if label is None else own
    return PaperFigure(pairs / 4 + labelled, _BLOCK.format("logistic"), _WHY_BLOCK)


def bottom_up_epsilon(
    sensitivity: float, *, single: Sequence[tuple[float, float]], cross: Sequence[tuple[float, float]]
) -> PaperFigure:
    """Corollary 1: ε = Σ Δ_f/Δ_g^k·εᵏ + Σ Δ_f/Δ_h^kl·εᵏˡ, over pairs (sensitivity of a block, its ε)."""
    return PaperFigure(
        sum(sensitivity / block * spent for block, spent in (*single, *cross)),
        "ε of Corollary 1 of the functional mechanism paper",
        "Plain composition already gives the sum of the blocks' ε; this returns the number of blocks times as much, "
        "and still covers the server only.",
    )


@dataclass(frozen=True)
class LossConstants:
    """L, β_θ, β_y and k_y as the paper prints them for one loss; only its formulas take them."""

    lipschitz: float
    slope: float
    label_slope: float
    label_bound: float


LOGISTIC = LossConstants(1.0, 0.25, 1.1, 1.0)
LEAST_SQUARES = LossConstants(6.0, 2.0, 2.0, 3.0)
SQUARED_HINGE = LossConstants(2.0, 2.0, 2.0, 1.0)


def poisson_constants(*, radius: float, label_bound: float) -> LossConstants:
    """L = k_y, β_θ = sup e^θ over |θ| ≤ k, β_y = 1. The Gamma family has none: sup 1/θ² is infinite."""
    return LossConstants(label_bound, math.exp(radius), 1.0, label_bound)


def passive_sensitivity(
    *, batch: int, epochs: int, steps: int, radius: float, step_size: float, lipschitz: float
) -> PaperFigure:
    """Lemma 3: √(4L²e²Tη²/b + 8kLe²η/b + 4k²e), the claimed L2 sensitivity of all of B's messages."""
    squares = (
        4 * lipschitz**2 * epochs**2 * steps * step_size**2 / batch
        + 8 * radius * lipschitz * epochs**2 * step_size / batch
        + 4 * radius**2 * epochs
    )
    return PaperFigure(
        math.sqrt(squares),
        "Lemma 3 of HDP-VFL, sensitivity of the passive party's messages",
        "B updates with A's noisy message, which has no bound, so one record can move B's weights further than "
        "the noiseless gradient the lemma follows.",
    )


def active_sensitivity(
    *,
    batch: int,
    epochs: int,
    steps: int,
    radius: float,
    step_size: float,
    lipschitz: float,
    slope: float,
    label_slope: float,
    label_bound: float,
) -> PaperFigure:
    """Lemma 4: √(4β²L²e²Tη²/b + 8(βk + β_y k_y)βLe²η/b + 4(βk + β_y k_y)²e), for A's messages."""
    row = slope * radius + label_slope * label_bound
    squares = (
        4 * slope**2 * lipschitz**2 * epochs**2 * steps * step_size**2 / batch
        + 8 * row * slope * lipschitz * epochs**2 * step_size / batch
        + 4 * row**2 * epochs
    )
    return PaperFigure(
        math.sqrt(squares),
        "Lemma 4 of HDP-VFL, sensitivity of the active party's messages",
        "It is loose for logistic loss, and for least squares, l2-SVM, Poisson and Gamma its constants ignore "
        "scores and labels that have no bound.",
    )


def classical_sigma(epsilon: float, delta: float, *, sensitivity: float = 1.0) -> PaperFigure:
    """Lemma 1: σ = √(2 ln(1.25/δ))·Δ/ε."""
    return PaperFigure(
        math.sqrt(2 * math.log(1.25 / delta)) * sensitivity / epsilon,
        "Lemma 1 of HDP-VFL, classical Gaussian σ",
        "It is proved for ε below 1 only; at large ε it adds too little noise, and one Gaussian bound does not "
        "cover a sequence of messages that depend on each other.",
    )


def feature_epsilon(
    delta: float, *, contributors: int, trials: int, beta: float, coordinates: int, uses: float
) -> PaperFigure:
    """Theorem 6.1, C₀·T·B·P·b·β²·α/(M·N) with `uses` = T·B/N and `coordinates` = P, as ε at the best order."""
    divergence = uses * coordinates * trials * beta**2 / contributors
    _, epsilon = best_order(lambda order: epsilon_from_renyi(order, divergence * order, delta), integer=False)
    return PaperFigure(
        epsilon,
        "Theorem 6.1 of PBM-VFL with C₀ = 1, converted to ε",
        "The exact divergence of the Poisson binomial is 8 to 15 times larger than with C₀ = 1, and the theorem "
        "composes in parallel what adds up.",
    )


def local_variance(*, contributors: int, trials: int, beta: float) -> PaperFigure:
    """σ_G² = 2M/(bβ²), the Gaussian noise of the baseline said to give the same privacy."""
    return PaperFigure(
        2 * contributors / (trials * beta**2),
        "variance of PBM-VFL's local baseline",
        "It matches C₀ = 1; equal privacy needs M(1 − 4β²)/(4bβ²), so the comparison favours the paper's method by "
        "a factor of 8/(1 − 4β²).",
    )


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


def _sigma(
    equation: str,
    less: float,
    epsilon: float,
    delta: float,
    *,
    gradient_bound: float,
    epochs: int,
    steps: int,
    step_size: float,
    batch: int,
) -> PaperFigure:
    """σ = √(2 ln(5/(4δ)))·√(8G²e²Tη²/s + (8G − less)²e)/ε."""
    row = 8 * gradient_bound - less
    squares = 8 * gradient_bound**2 * epochs**2 * steps * step_size**2 / batch + row**2 * epochs
    return PaperFigure(
        math.sqrt(2 * math.log(5 / (4 * delta))) * math.sqrt(squares) / epsilon,
        f"equation {equation} of the vertical logistic regression paper",
        "It follows the noiseless algorithm, while a party's update contains the noise it received, which has no "
        "bound, and the bound on the weights is assumed but not enforced.",
    )


active_sigma = partial(_sigma, "(71)", 0)
passive_sigma = partial(_sigma, "(72)", 4)


def label_attack_steps(step_size: float, *, largest_score: float = 0.0) -> PaperFigure:
    """Corollary 4.5: the sign of a first-order coefficient shows the label for ⌈log_(1+η/4)(4/(2 + ε₀))⌉ steps.

    ε₀ is the largest |θ₀ᵀx| at the start.
    """
    return _steps(step_size, largest_score, 4.0, "Corollary 4.5 of the vertical logistic regression paper")


def label_attack_steps_minimax(step_size: float, *, largest_score: float = 0.0) -> PaperFigure:
    """Theorem E.3: the same for the minimax approximation, ⌈log_(1+η/4)(5.2/(2 + ε₀))⌉."""
    return _steps(step_size, largest_score, 5.2, "Theorem E.3 of the vertical logistic regression paper")


def _steps(step_size: float, largest_score: float, threshold: float, formula: str) -> PaperFigure:
    if not 0 <= largest_score < 2 or step_size <= 0:
        raise ValueError("the statement needs a positive step size and scores below 2 at the start")
    steps = math.ceil(math.log(threshold / (2 + largest_score)) / math.log1p(step_size / 4))
    return PaperFigure(
        steps,
        formula,
        "It says for how long an attack must succeed; that it may fail afterwards protects nobody.",
    )
