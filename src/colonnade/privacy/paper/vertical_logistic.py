"""Formulas of "Is Vertical Logistic Regression Privacy-Preserving? A Comprehensive Privacy Analysis and Beyond".

What holds instead for its noise: `colonnade.privacy.sensitivity.messages`.
"""

from __future__ import annotations

import math

from colonnade.privacy.paper.figure import PaperFigure

_WHY_SIGMA = (
    "It follows the noiseless algorithm, while a party's update contains the noise it received, which has no bound, "
    "and the bound on the weights is assumed but not enforced."
)


def active_sigma(
    epsilon: float,
    delta: float,
    *,
    gradient_bound: float,
    epochs: int,
    steps: int,
    step_size: float,
    batch: int,
) -> PaperFigure:
    """Equation (71): σ_A = √(2 ln(5/(4δ)))·√(8G²e²Tη²/s + 64G²e)/ε."""
    return _sigma(epsilon, delta, 8 * gradient_bound, "(71)", gradient_bound, epochs, steps, step_size, batch)


def passive_sigma(
    epsilon: float,
    delta: float,
    *,
    gradient_bound: float,
    epochs: int,
    steps: int,
    step_size: float,
    batch: int,
) -> PaperFigure:
    """Equation (72): σ_B = √(2 ln(5/(4δ)))·√(8G²e²Tη²/s + (8G − 4)²e)/ε."""
    return _sigma(
        epsilon, delta, 8 * gradient_bound - 4, "(72)", gradient_bound, epochs, steps, step_size, batch
    )


def label_attack_steps(step_size: float, *, largest_score: float = 0.0) -> PaperFigure:
    """Corollary 4.5: the sign of a first-order coefficient shows the label for ⌈log_(1+η/4)(4/(2 + ε₀))⌉ steps.

    ε₀ is the largest |θ₀ᵀx| at the start.
    """
    return _steps(step_size, largest_score, 4.0, "Corollary 4.5 of the vertical logistic regression paper")


def label_attack_steps_minimax(step_size: float, *, largest_score: float = 0.0) -> PaperFigure:
    """Theorem E.3: the same for the minimax approximation, ⌈log_(1+η/4)(5.2/(2 + ε₀))⌉."""
    return _steps(step_size, largest_score, 5.2, "Theorem E.3 of the vertical logistic regression paper")


def packed_values(key_bits: int, field_bits: int) -> PaperFigure:
    """Equation (37): ⌊(κ − 1)/ι⌋ values in one ciphertext."""
    return PaperFigure(
        (key_bits - 1) // field_bits,
        "equation (37) of the vertical logistic regression paper, values packed in a ciphertext",
        "A field must hold the product of two fixed-point numbers summed over the batch, with its sign, so fewer fit.",
    )


def _sigma(
    epsilon: float,
    delta: float,
    row: float,
    equation: str,
    gradient_bound: float,
    epochs: int,
    steps: int,
    step_size: float,
    batch: int,
) -> PaperFigure:
    squares = 8 * gradient_bound**2 * epochs**2 * steps * step_size**2 / batch + row**2 * epochs
    return PaperFigure(
        math.sqrt(2 * math.log(5 / (4 * delta))) * math.sqrt(squares) / epsilon,
        f"equation {equation} of the vertical logistic regression paper",
        _WHY_SIGMA,
    )


def _steps(step_size: float, largest_score: float, threshold: float, formula: str) -> PaperFigure:
    if not 0 <= largest_score < 2 or step_size <= 0:
        raise ValueError("the statement needs a positive step size and scores below 2 at the start")
    steps = math.ceil(math.log(threshold / (2 + largest_score)) / math.log1p(step_size / 4))
    return PaperFigure(
        steps,
        formula,
        "It says for how long an attack must succeed; that it may fail afterwards protects nobody.",
    )
