"""How far one record moves what SPCA/SLR opens: an upper triangle, and three sums of a gradient."""

from __future__ import annotations

import math
from fractions import Fraction

from colonnade.privacy.sensitivity.gradient import GradientShape
from colonnade.privacy.sensitivity.matrix import RowShape, VectorChange, matrix_change_zero_out, root_up

Three = tuple[VectorChange, VectorChange, VectorChange]


def triangle_change_zero_out(row: RowShape) -> VectorChange:
    """The upper triangle of z̃z̃ᵀ: L2 ≤ B (a one-hot row), L1 = (‖z̃‖₁² + ‖z̃‖²)/2 ≤ (n + 1)/2·B.

    Integers satisfy |D_ij| ≤ D_ij², so L1 is also at most B².
    """
    change = matrix_change_zero_out(row)
    # ‖z̃‖₁² + ‖z̃‖² = A + B where both are at their largest.
    l1 = math.floor((change.weighted_l1 + row.bound) / 2)
    return VectorChange(l1=Fraction(min(l1, row.bound**2)), l2=Fraction(row.bound))


def triangle_change_replace(row: RowShape) -> VectorChange:
    """The upper triangle of z̃z̃ᵀ − z̃′z̃′ᵀ: L2 ≤ √2·B, L1 ≤ √(n(n + 1))·B."""
    n, bound = row.pair_support, row.bound
    return VectorChange(
        l1=Fraction(min(math.isqrt(n * (n + 1) * bound**2), 2 * bound**2)), l2=root_up(2 * bound**2)
    )


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
