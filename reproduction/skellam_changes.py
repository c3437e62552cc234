"""How far one record moves the three sums of a gradient that the paper opens apart."""

from __future__ import annotations

from colonnade.privacy.sensitivity.gradient import GradientShape
from colonnade.privacy.sensitivity.matrix import VectorChange

Three = tuple[VectorChange, VectorChange, VectorChange]


def three_part_zero_out(shape: GradientShape) -> Three:
    """One record of Σ x̄, Σ ⟨w̄, x̄⟩x̄ and Σ ȳx̄ becomes zero.

    Guarantee: L2 ≤ √R₂, ‖w̄‖R₂ and γ√R₂, each with L1 ≤ √n·L2.
    """
    return _three(shape, (1, 1, 1))


def three_part_replace(shape: GradientShape) -> Three:
    """One record of the three sums is replaced: twice the first and third, once the second.

    ‖(x̄x̄ᵀ − x̄′x̄′ᵀ)w̄‖ ≤ R₂‖w̄‖, because the difference of two positive matrices below R₂ lies between ±R₂.
    """
    return _three(shape, (4, 1, 4))


def _three(shape: GradientShape, factors: tuple[int, int, int]) -> Three:
    norm = shape.norm_squared
    first, second, third = (
        VectorChange.of_square(factor * square, entries=shape.columns)
        for factor, square in zip(
            factors, (norm, shape.weight_squared * norm**2, shape.gamma**2 * norm), strict=True
        )
    )
    return first, second, third
