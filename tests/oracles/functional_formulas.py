"""Sensitivities of the functional mechanism on real coefficients, to compare those of integers with."""

from __future__ import annotations

from fractions import Fraction

from colonnade.privacy.sensitivity.functional import CoefficientChange, logistic_zero_out, peak, root_up


def linear_part_replaced(features: int, *, own: int, holds_label: bool) -> CoefficientChange:
    """Linear, box, one party's part of one record is replaced.

    Guarantee, with m₁ own entries of z and m₂ others: L1 ≤ max_p m₂p + (m₁ + 1)/(2m₁)·p(2m₁ − p) over
    0 ≤ p ≤ 2m₁, attained; L2² ≤ (m₁ + m₂)² and L2² ≤ max_s m₂s + s(4m₁ − s)/4 + m₁²/4 + m₁/2 over 0 ≤ s ≤ 4m₁.
    """
    mine, rest = _split(features, own, holds_label)
    tail = Fraction(mine**2, 4) + Fraction(mine, 2)
    return CoefficientChange(
        l1=peak(Fraction(rest), Fraction(mine + 1, 2 * mine), 2 * mine),
        l2_squared=min(Fraction((mine + rest) ** 2), peak(Fraction(rest), Fraction(1, 4), 4 * mine) + tail),
    )


def linear_replace(features: int) -> CoefficientChange:
    """Linear, box, one record is replaced: L1 = (d + 1)(d + 2)/2, L2 ≤ d + 1."""
    return linear_part_replaced(features, own=features, holds_label=True)


def logistic_part_replaced(features: int, *, own: int, holds_label: bool) -> CoefficientChange:
    """Logistic, box, one party's part of one record is replaced; the larger of label kept and label flipped.

    Guarantee, with d₁ own features and d₂ others, over 0 ≤ p ≤ 2d₁ and κ = (d₁ + 1)/(16d₁):
    L1 ≤ max_p (½ + d₂/8)p + κ·p(2d₁ − p), attained; with the label flipped
    L1 ≤ d + max_p (d₂/8 − ½)p + κ·p(2d₁ − p). L2² follows the same pattern in s = ‖x − x′‖², and never
    exceeds four times that of zeroing the record out.
    """
    mine, rest = own, features - own
    quarter, tail = Fraction(1, 256), Fraction(mine**2, 256) + Fraction(mine, 128)
    kept, flipped = Fraction(1, 2), -Fraction(1, 2)
    curve = Fraction(mine + 1, 16 * mine) if mine else Fraction(0)
    l1 = peak(kept + Fraction(rest, 8), curve, 2 * mine)
    l2 = peak(kept / 2 + Fraction(rest, 64), quarter, 4 * mine) + tail
    if holds_label:
        l1 = max(l1, features + peak(flipped + Fraction(rest, 8), curve, 2 * mine))
        l2 = max(l2, features + peak(flipped / 2 + Fraction(rest, 64), quarter, 4 * mine) + tail)
    return CoefficientChange(l1=l1, l2_squared=min(l2, 4 * logistic_zero_out(features).l2_squared))


def logistic_replace(features: int) -> CoefficientChange:
    """Logistic, box, one record is replaced: for d ≥ 3, L1 = d/2 + d(d + 1)/16 + d/(d + 1)."""
    return logistic_part_replaced(features, own=features, holds_label=True)


def linear_zero_out_in_ball(features: int) -> CoefficientChange:
    """Linear, ball, one record becomes zero: L1 ≤ ((1 + √d)² + 2)/2, L2² ≤ 3, both attained."""
    root = 1 + root_up(Fraction(features))
    return CoefficientChange((root**2 + 2) / 2, Fraction(3))


def logistic_zero_out_in_ball(features: int) -> CoefficientChange:
    """Logistic, ball, one record becomes zero: L1 ≤ √d/2 + (d + 1)/16, L2² ≤ 17/64, both attained."""
    root = root_up(Fraction(features))
    return CoefficientChange(root / 2 + Fraction(features + 1, 16), Fraction(17, 64))


def linear_part_ordered_l1(features: int, *, own: int, holds_label: bool) -> int:
    """L1 when every ordered pair is released, as the paper does: (m₁ + m₂)² if m₂ ≤ m₁, else 4m₁m₂; attained."""
    mine, rest = _split(features, own, holds_label)
    return int(peak(Fraction(2 * rest), Fraction(1), 2 * mine))


def logistic_part_ordered_l1(features: int, *, own: int, holds_label: bool) -> Fraction:
    """L1 when every ordered pair is released, as the paper does; (d + 2)²/8 for a whole record with d ≥ 2."""
    mine, rest = own, features - own
    half, eighth = Fraction(1, 2), Fraction(1, 8)
    l1 = peak(half + Fraction(rest, 4), eighth, 2 * mine)
    if holds_label:
        l1 = max(l1, features + peak(Fraction(rest, 4) - half, eighth, 2 * mine))
    return l1


def _split(features: int, own: int, holds_label: bool) -> tuple[int, int]:
    """Own entries of z and others, the label among them."""
    return (own + 1, features - own) if holds_label else (own, features - own + 1)
