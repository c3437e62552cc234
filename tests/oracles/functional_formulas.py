"""Sensitivities of the functional mechanism on real coefficients, to compare those of integers with."""

from __future__ import annotations

from fractions import Fraction

from colonnade.privacy.sensitivity.functional import (
    CoefficientChange,
    _features,
    _size,
    _split,
    logistic_zero_out,
    peak,
    root_up,
)


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
    mine, rest = _features(features, own, holds_label)
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
    root = 1 + root_up(Fraction(_size(features)))
    return CoefficientChange((root**2 + 2) / 2, Fraction(3))


def linear_part_replaced_in_ball(
    features: int, *, own: int, holds_label: bool, cap_squared: Fraction
) -> CoefficientChange:
    """Linear, ball, a part with ‖x₁‖² ≤ cap_squared is replaced; the rest has ‖x₂‖² ≤ 1 − cap_squared.

    Guarantee, with a², b² the squared norms of own and other entries of z, label included:
    L2 ≤ √2(a² + b²/2) if b² ≤ 2a², else 2ab; L1 by Cauchy-Schwarz over the entries that can change.
    """
    mine, rest = _split(features, own, holds_label)
    a, b = _caps(cap_squared)
    a, b = (a + 1, b) if holds_label else (a, b + 1)
    square = 2 * (a + b / 2) ** 2 if b <= 2 * a else 4 * a * b
    entries = Fraction(mine * (mine + 1), 2) + mine * rest
    return CoefficientChange(root_up(entries * square), square)


def logistic_zero_out_in_ball(features: int) -> CoefficientChange:
    """Logistic, ball, one record becomes zero: L1 ≤ √d/2 + (d + 1)/16, L2² ≤ 17/64, both attained."""
    root = root_up(Fraction(_size(features)))
    return CoefficientChange(root / 2 + Fraction(features + 1, 16), Fraction(17, 64))


def logistic_part_replaced_in_ball(
    features: int, *, own: int, holds_label: bool, cap_squared: Fraction
) -> CoefficientChange:
    """Logistic, ball, a part with ‖x₁‖² ≤ a² = cap_squared is replaced; the rest has ‖x₂‖² ≤ b² = 1 − a².

    Guarantee: L2² ≤ a²(1 + b²/16), attained; with the label flipped L2² ≤ max(a²(1 + b²/16), a² + b²).
    """
    mine, rest = _features(features, own, holds_label)
    a, b = _caps(cap_squared)
    square = a * (1 + b / 16)
    entries = mine + Fraction(mine * (mine + 1), 2) + mine * rest
    if holds_label:
        square = max(square, a + b)
        entries += rest
    return CoefficientChange(root_up(entries * square), square)


def _caps(cap_squared: Fraction) -> tuple[Fraction, Fraction]:
    if not 0 <= cap_squared <= 1:
        raise ValueError(f"cap_squared must lie between 0 and 1, not {cap_squared}")
    return Fraction(cap_squared), 1 - Fraction(cap_squared)
