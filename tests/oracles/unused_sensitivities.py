"""Sensitivities of releases that no protocol makes: what the papers release, and neighbours no observer is told of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from colonnade.privacy.events import MatrixChange
from colonnade.privacy.sensitivity.gradient import GradientShape, VectorChange
from colonnade.privacy.sensitivity.matrix import (
    RowShape,
    _change,
    _diagonal_share,
    matrix_change_part_replaced,
    matrix_change_zero_out,
    root_up,
)
from colonnade.privacy.sensitivity.rows import _cap


def three_part_zero_out(shape: GradientShape) -> tuple[VectorChange, VectorChange, VectorChange]:
    """One record of Σ x̄, Σ ⟨w̄, x̄⟩x̄ and Σ ȳx̄ becomes zero.

    Guarantee: L2 ≤ √R₂, ‖w̄‖R₂ and γ√R₂, each with L1 ≤ √n·L2.

    >>> shape = GradientShape(gamma=16, columns=4, norm_squared=256, weight_squared=256)
    >>> [float(part.l2) for part in three_part_zero_out(shape)]
    [16.0, 4096.0, 256.0]
    """
    return _three(shape, (1, 1, 1))


def three_part_replace(shape: GradientShape) -> tuple[VectorChange, VectorChange, VectorChange]:
    """One record of the three sums is replaced: twice the first and third, once the second.

    ‖(x̄x̄ᵀ − x̄′x̄′ᵀ)w̄‖ ≤ R₂‖w̄‖, because the difference of two positive matrices below R₂ lies between ±R₂.

    >>> shape = GradientShape(gamma=16, columns=4, norm_squared=256, weight_squared=256)
    >>> [float(part.l2) for part in three_part_replace(shape)]
    [32.0, 4096.0, 512.0]
    """
    return _three(shape, (4, 1, 4))


def three_part_formula(gamma: float, *, row_norm: float, weight_norm: float) -> tuple[float, float, float]:
    """B, ‖w̄‖B² and γB for a real bound B on ‖x̄‖: the formula of `three_part_zero_out`, for tables.

    >>> three_part_formula(16, row_norm=16, weight_norm=16)
    (16, 4096, 256)
    """
    return row_norm, weight_norm * row_norm**2, gamma * row_norm


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


def matrix_change_part_zeroed(part: RowShape, rest: RowShape) -> MatrixChange:
    """One party's part u of one record becomes zero, the rest w stays: D = uuᵀ and the cross terms uwᵀ.

    Guarantee, with a² ≥ ‖u‖², b² ≥ ‖w‖² (label block included where held): F ≤ √(a⁴ + 2a²b²),
    A ≤ ‖u‖₁² + 2‖u‖₁‖w‖₁, Q ≤ (2 − 1/n)a⁴ + 4a²b², R ≤ 2A − a².

    >>> part, rest = RowShape(features=2, norm_squared=9), RowShape(features=1, norm_squared=16)
    >>> float(matrix_change_part_zeroed(part, rest).frobenius) ** 2 >= 9**2 + 2 * 9 * 16
    True
    """
    part.beside(rest)
    a, b = part.bound, rest.bound
    # ‖u‖₁‖w‖₁ sums four square roots; ⌈·⌉ of each keeps the sum an upper bound.
    mine, theirs = _l1_parts(part), _l1_parts(rest)
    own = part.features * part.norm_squared + part.label_support * part.label_norm_squared
    own_cross = 4 * mine[0] * mine[1]
    cross = sum(_ceil_sqrt(4 * x * y) for x in mine for y in theirs)
    frobenius_squared = a * a + 2 * a * b
    return _change(
        frobenius_squared=frobenius_squared,
        weighted_l1=own + math.isqrt(own_cross) + cross,
        fourth=_diagonal_share(2 * frobenius_squared, a, part.support),
        fourth_l1=2 * own - a + math.isqrt(4 * own_cross) + 2 * cross,
    )


def matrix_change_columns_replaced(part: RowShape, rest: RowShape, *, rows: int) -> MatrixChange:
    """One party's columns are replaced in all of `rows` records: so many times the change of one record.

    F, A, √Q and R are norms of D, and D is a sum of `rows` changes of one record each.

    >>> one = RowShape(features=1, norm_squared=1)
    >>> matrix_change_columns_replaced(one, one, rows=10).weighted_l1
    Fraction(40, 1)
    """
    if rows < 1:
        raise ValueError(f"rows must be positive, not {rows}")
    once = matrix_change_part_replaced(part, rest)
    return MatrixChange(
        frobenius=once.frobenius * rows,
        weighted_l1=once.weighted_l1 * rows,
        fourth=once.fourth * rows**2,
        fourth_l1=once.fourth_l1 * rows,
    )


@dataclass(frozen=True)
class TriangleChange:
    """L1 and L2 norms of the upper triangle (diagonal included) of a change of the matrix.

    These are the sensitivities when every released entry carries noise of the same parameter.

    >>> TriangleChange(l1=Fraction(3), l2=Fraction(2)).l2
    Fraction(2, 1)
    """

    l1: Fraction
    l2: Fraction


def triangle_change_zero_out(row: RowShape) -> TriangleChange:
    """The upper triangle of z̃z̃ᵀ: L2 ≤ B (a one-hot row), L1 = (‖z̃‖₁² + ‖z̃‖²)/2 ≤ (n + 1)/2·B.

    Integers satisfy |D_ij| ≤ D_ij², so L1 is also at most B².

    >>> triangle_change_zero_out(RowShape(features=117, norm_squared=117))
    TriangleChange(l1=Fraction(6903, 1), l2=Fraction(117, 1))
    """
    change = matrix_change_zero_out(row)
    # ‖z̃‖₁² + ‖z̃‖² = A + B where both are at their largest.
    l1 = math.floor((change.weighted_l1 + row.bound) / 2)
    return TriangleChange(l1=Fraction(min(l1, row.bound**2)), l2=Fraction(row.bound))


def triangle_change_replace(row: RowShape) -> TriangleChange:
    """The upper triangle of z̃z̃ᵀ − z̃′z̃′ᵀ: L2 ≤ √2·B, L1 ≤ √(n(n + 1))·B.

    >>> triangle_change_replace(RowShape(features=1, norm_squared=5)).l1
    Fraction(7, 1)
    """
    n, bound = row.pair_support, row.bound
    return TriangleChange(
        l1=Fraction(min(math.isqrt(n * (n + 1) * bound**2), 2 * bound**2)), l2=root_up(2 * bound**2)
    )


def _l1_parts(row: RowShape) -> tuple[int, int]:
    """‖u‖₁ ≤ √first + √second."""
    return row.features * row.norm_squared, row.label_support * row.label_norm_squared


def _ceil_sqrt(value: int) -> int:
    return math.isqrt(value - 1) + 1 if value else 0


def label_constant(gamma: int, cap_squared: Fraction | float = Fraction(1, 2)) -> int:
    """The integer ⌊γc⌋ that stands for a label-block entry of size c: it is never rounded again.

    >>> label_constant(4096)
    2896
    """
    if gamma < 1:
        raise ValueError(f"gamma must be a positive integer, not {gamma}")
    return math.isqrt(math.floor(gamma**2 * _cap(cap_squared)))


def grid_sensitivity(sensitivity: float, *, grid: float, coordinates: int) -> float:
    """The L2 sensitivity of an aggregate whose d coordinates are rounded to a grid afterwards: Δ + g√d.

    Each of the two neighbouring aggregates moves by at most g/2 in every coordinate.

    >>> grid_sensitivity(1.0, grid=0.5, coordinates=4)
    2.0
    """
    if sensitivity < 0 or grid < 0 or coordinates < 0:
        raise ValueError("a sensitivity, a grid and a number of coordinates cannot be negative")
    return sensitivity + grid * math.sqrt(coordinates)
