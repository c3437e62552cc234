"""How long a clipped row can be after it is rounded to integers.

A party scales its part of a row to ‖x‖₂ ≤ c, multiplies by γ and rounds. Every sensitivity of a
second-moment release starts from the norm of the integers that result. Proofs: docs/proofs/rounded-rows.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

Rounding = Literal["nearest", "retry", "toward_zero", "stochastic"]


def rounded_norm_squared(
    gamma: int, cap_squared: Fraction | float, *, columns: int, rounding: Rounding
) -> int:
    """The largest integer that ‖x̃‖² can reach, for x̃ = round(γx) with ‖x‖² ≤ cap_squared.

    Guarantee, for n columns and c² = cap_squared:

    - ``"nearest"``:      ‖x̃‖² ≤ (γc + √n/2)², each entry moves by at most 1/2;
    - ``"stochastic"``:   ‖x̃‖² ≤ (γc + √n)², each entry moves by less than 1;
    - ``"retry"``:        ‖x̃‖² ≤ γ²c² + n, drawn again until it holds (SPCA/SLR's bound, made true);
    - ``"toward_zero"``:  ‖x̃‖² ≤ γ²c², no entry grows.

    ‖x̃‖² is an integer, so the floor of each bound is a bound too; it is computed without floats.
    """
    rational, radicand = _bound(gamma, cap_squared, columns, rounding)
    # ⌊(a + √b)/D⌋ = ⌊(a + ⌊√b⌋)/D⌋ for integers a, b, D.
    denominator = math.lcm(rational.denominator, radicand.denominator)
    return (int(rational * denominator) + math.isqrt(int(radicand * denominator**2))) // denominator


def norm_squared_bound(
    gamma: int, cap_squared: Fraction | float, *, columns: int, rounding: Rounding
) -> float:
    """The bound of `rounded_norm_squared` before its floor is taken, as a float.

    This is the formula itself, for tables and comparisons; a release uses the integer.
    """
    rational, radicand = _bound(gamma, cap_squared, columns, rounding)
    return float(rational) + math.sqrt(radicand)


def grid_sensitivity(sensitivity: float, *, grid: float, coordinates: int) -> float:
    """The L2 sensitivity of an aggregate whose d coordinates are rounded to a grid afterwards: Δ + g√d.

    Each of the two neighbouring aggregates moves by at most g/2 in every coordinate.
    """
    if sensitivity < 0 or grid < 0 or coordinates < 0:
        raise ValueError("a sensitivity, a grid and a number of coordinates cannot be negative")
    return sensitivity + grid * math.sqrt(coordinates)


def _bound(
    gamma: int, cap_squared: Fraction | float, columns: int, rounding: Rounding
) -> tuple[Fraction, Fraction]:
    """The bound as (r, s), meaning r + √s."""
    if gamma < 1:
        raise ValueError(f"gamma must be a positive integer, not {gamma}")
    if columns < 0:
        raise ValueError(f"columns must not be negative, not {columns}")
    scaled = gamma**2 * _cap(cap_squared)
    none = Fraction(0)
    if rounding == "toward_zero":
        return scaled, none
    if rounding == "retry":
        return scaled + columns, none
    if rounding == "nearest":
        return scaled + Fraction(columns, 4), scaled * columns
    if rounding == "stochastic":
        return scaled + columns, 4 * scaled * columns
    raise ValueError(f"no rounding is called {rounding!r}: nearest, retry, toward_zero or stochastic")


def _cap(cap_squared: Fraction | float) -> Fraction:
    if not cap_squared >= 0 or cap_squared == math.inf:
        raise ValueError(f"cap_squared must be finite and not negative, not {cap_squared}")
    return Fraction(cap_squared)
