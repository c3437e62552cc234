"""How far one record moves the coefficients of the functional mechanism.

Linear regression releases the upper triangle of Σ zzᵀ, z = (x, −y). Order-two logistic regression releases
Σ (½ − y)x and the upper triangle of Σ xxᵀ/8, y ∈ {0, 1}. Every unordered entry is released once. In the *box*
|x_a| ≤ 1 and |y| ≤ 1; in the *ball* ‖x‖₂ ≤ 1 and |y| ≤ 1.

A party's part is its own features and, if it holds the label, y; the rest of the record stays as it is. The
whole record is the part that owns every feature and the label. Proofs: docs/proofs/functional-sensitivity.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

_ROOT_BITS = 64


@dataclass(frozen=True)
class CoefficientChange:
    """Upper bounds on the L1 norm and the squared L2 norm of the change, as exact fractions.

    >>> CoefficientChange(l1=Fraction(3), l2_squared=Fraction(4)).l2
    2.0
    """

    l1: Fraction
    l2_squared: Fraction

    @property
    def l2(self) -> float:
        """The L2 norm, rounded up."""
        root = root_up(self.l2_squared)
        return float(root) if float(root) >= root else math.nextafter(float(root), math.inf)


def peak(slope: Fraction, curve: Fraction, limit: int) -> Fraction:
    """max over 0 ≤ p ≤ limit of slope·p + curve·p(limit − p), curve ≥ 0.

    >>> peak(Fraction(0), Fraction(1), 4)
    Fraction(4, 1)
    """
    best = (slope + curve * limit) / (2 * curve) if curve else Fraction(0)
    p = min(max(best, Fraction(0)), Fraction(limit))
    return slope * p + curve * p * (limit - p)


def root_up(value: Fraction) -> Fraction:
    """√value, exact for the square of a fraction, else rounded up on a grid of 2^-64.

    >>> root_up(Fraction(9, 4)), root_up(Fraction(2)) ** 2 > 2
    (Fraction(3, 2), True)
    """
    top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
    if top * top == value.numerator and bottom * bottom == value.denominator:
        return Fraction(top, bottom)
    return Fraction(math.isqrt(math.floor(value * 4**_ROOT_BITS)) + 1, 2**_ROOT_BITS)
