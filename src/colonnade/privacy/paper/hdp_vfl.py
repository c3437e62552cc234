"""Formulas of "Hybrid Differentially Private Federated Learning on Vertically Partitioned Data" (HDP-VFL).

What holds instead: `colonnade.privacy.sensitivity.messages` and docs/proofs/message-sensitivity.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from colonnade.privacy.paper.figure import PaperFigure


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
