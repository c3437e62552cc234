"""How far one record moves the gradient of order-two logistic regression, on integers (SLR).

The gradient of a batch at public weights w̄ is computed inside multi-party computation from rounded records
(x̄, ȳ), ȳ ∈ {0, γ}: either as one fused vector Σ x̄(2γ² + ⟨w̄, x̄⟩ − 4γȳ), or as the paper's three sums
Σ x̄, Σ ⟨w̄, x̄⟩x̄ and Σ ȳx̄. Proofs: docs/proofs/gradient-sensitivity.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from colonnade.privacy.sensitivity.matrix import root_up


@dataclass(frozen=True)
class VectorChange:
    """L1 and L2 sensitivities of an integer vector, rounded up: what a `Skellam` event asks for."""

    l1: int
    l2: Fraction

    @classmethod
    def of_square(cls, l2_squared: int, *, entries: int) -> VectorChange:
        """From a bound on the squared L2 norm: an integer vector has L1 ≤ √n·L2 and L1 ≤ L2²."""
        return cls(l1=min(math.isqrt(entries * l2_squared), l2_squared), l2=root_up(l2_squared))


@dataclass(frozen=True)
class GradientShape:
    """A batch gradient on the grid: ‖x̄‖² ≤ `norm_squared` over `columns` entries, ‖w̄‖² ≤ `weight_squared`.

    w̄ is public, so its own squared norm may be given; rounded toward zero it is at most γ²c².
    """

    gamma: int
    columns: int
    norm_squared: int
    weight_squared: int

    def __post_init__(self) -> None:
        if min(self.gamma, self.columns) < 1 or min(self.norm_squared, self.weight_squared) < 0:
            raise ValueError("gamma and columns must be positive, squared norms not negative")


def fused_zero_out(shape: GradientShape) -> VectorChange:
    """One record of the fused gradient becomes zero.

    Guarantee: L2 ≤ √R₂(2γ² + ‖w̄‖√R₂), L1 ≤ √n·L2; 3γ³ for unit rows and weights, where the gradient's scale
    is 4γ³.
    """
    return _fused(shape, 2)


def fused_replace(shape: GradientShape) -> VectorChange:
    """One record of the fused gradient is replaced.

    Guarantee: L2 ≤ √R₂(4γ² + ‖w̄‖√R₂), less than twice the change of zeroing it out.
    """
    return _fused(shape, 4)


def three_part_zero_out(shape: GradientShape) -> tuple[VectorChange, VectorChange, VectorChange]:
    """One record of Σ x̄, Σ ⟨w̄, x̄⟩x̄ and Σ ȳx̄ becomes zero.

    Guarantee: L2 ≤ √R₂, ‖w̄‖R₂ and γ√R₂, each with L1 ≤ √n·L2.
    """
    return _three(shape, (1, 1, 1))


def three_part_replace(shape: GradientShape) -> tuple[VectorChange, VectorChange, VectorChange]:
    """One record of the three sums is replaced: twice the first and third, once the second.

    ‖(x̄x̄ᵀ − x̄′x̄′ᵀ)w̄‖ ≤ R₂‖w̄‖, because the difference of two positive matrices below R₂ lies between ±R₂.
    """
    return _three(shape, (4, 1, 4))


def three_part_formula(gamma: float, *, row_norm: float, weight_norm: float) -> tuple[float, float, float]:
    """B, ‖w̄‖B² and γB for a real bound B on ‖x̄‖: the formula of `three_part_zero_out`, for tables."""
    return row_norm, weight_norm * row_norm**2, gamma * row_norm


def _fused(shape: GradientShape, constant: int) -> VectorChange:
    # √R₂(kγ² + ‖w̄‖√R₂) squared: R₂(k²γ⁴ + ‖w̄‖²R₂) + 2kγ²R₂√(‖w̄‖²R₂), and the square of an integer
    # vector's norm is an integer, so its floor is enough.
    norm, weight, base = shape.norm_squared, shape.weight_squared, constant * shape.gamma**2
    squares = norm * (base**2 + weight * norm)
    cross = math.isqrt(4 * base**2 * norm**2 * weight * norm)
    return VectorChange.of_square(squares + cross, entries=shape.columns)


def _three(
    shape: GradientShape, factors: tuple[int, int, int]
) -> tuple[VectorChange, VectorChange, VectorChange]:
    norm = shape.norm_squared
    first, second, third = (
        VectorChange.of_square(factor * square, entries=shape.columns)
        for factor, square in zip(
            factors, (norm, shape.weight_squared * norm**2, shape.gamma**2 * norm), strict=True
        )
    )
    return first, second, third
