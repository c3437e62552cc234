"""How far one record moves a gradient of the margin loss, on integers.

A record adds r̃·x̃ to the gradient, for every public w: x̃ are integers with ‖x̃‖² ≤ N, and r̃ = Σ_j Re(P̃_j ∏ Ẽ_j) + c̃
stands for G·ỹh(ỹ⟨w, x⟩), where the holder of the label rounds P_j on the grid γ_l, each of the others e^{ijθ} on the
grid γ_w, and G = γ_l·γ_w^(K − 1). h lies in [inf, sup] whatever w is. Proofs: docs/proofs/margin.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from colonnade.privacy.sensitivity.gradient import VectorChange
from colonnade.privacy.sensitivity.matrix import root_up

# √½ for a complex number whose two parts are each within ½ + 2⁻²⁰ of it.
_ROUNDED = root_up(2) * (Fraction(1, 2) + Fraction(1, 1 << 20))
_HALF = Fraction(1, 2) + Fraction(1, 1 << 20)


@dataclass(frozen=True)
class Slopes:
    """The integer r̃ of a record: between −most and −least, or between least and most, by its label.

    `least` is what rounding leaves of inf h, which may be below zero.
    """

    least: int
    most: int

    @property
    def widest(self) -> int:
        return self.most - self.least


def rounded_slopes(
    bounds: tuple[Fraction, Fraction],
    amplitudes: tuple[Fraction, ...],
    *,
    label_grid: int,
    wave_grid: int,
    others: int,
) -> Slopes:
    """What r̃ never leaves, for `others` owners beside the holder of the label.

    Guarantee: |r̃ − G·r| ≤ Σ_j [(γ_l A_j + ρ)(γ_w + ρ)^(K−1) − γ_l A_j γ_w^(K−1)] + γ_w^(K−1)/2 with ρ = √½ up to
    2⁻²⁰, A_j = √(a_j² + b_j²): a product of K factors each moved by at most ρ.
    """
    scale = Fraction(wave_grid) ** others
    error = scale * _HALF
    for size in amplitudes:
        moved = (label_grid * size + _ROUNDED) * (wave_grid + _ROUNDED) ** others
        error += moved - label_grid * size * scale
    low, high = (label_grid * scale * bound for bound in bounds)
    return Slopes(least=math.ceil(low - error), most=math.floor(high + error))


@dataclass(frozen=True)
class Longest:
    """The longest row of a table of waves: its squared norm, and the square of every harmonic at its largest."""

    norm_squared: int
    squares: tuple[int, ...]


@dataclass(frozen=True)
class Reach:
    """The tables of the owners without the label, of its holder, and how many owners are without."""

    plain: Longest
    labelled: Longest
    others: int


def verified_slopes(reach: Reach, constant: int) -> Slopes:
    """What r̃ never leaves if one owner may deal any rows that are no longer than those of its table.

    Guarantee: |Σ_j Re(P̃_j ∏ Ẽ_j)| ≤ ‖row‖·√(Σ_j of the product of the others' squares), by Cauchy and Schwarz, for
    whoever deviates; `constant` bounds what is added. Either sign is possible, whatever the label is.
    """
    plain, labelled, others = reach.plain, reach.labelled, reach.others
    by_holder = sum(square**others for square in plain.squares)
    by_other = sum(
        mine * theirs ** (others - 1) for mine, theirs in zip(labelled.squares, plain.squares, strict=True)
    )
    most = math.isqrt(max(labelled.norm_squared * by_holder, plain.norm_squared * by_other)) + constant
    return Slopes(least=-most, most=most)


def margin_zero_out(slopes: Slopes, *, norm_squared: int, columns: int, heads: int = 1) -> VectorChange:
    """One record becomes zero: L2 ≤ √(heads·N)·max |r̃|."""
    return _change(slopes, norm_squared, columns, heads, times=1)


def margin_replace(slopes: Slopes, *, norm_squared: int, columns: int, heads: int = 1) -> VectorChange:
    """One record is replaced by any other: at most twice the change of zeroing it out."""
    return _change(slopes, norm_squared, columns, heads, times=2)


def margin_others_replaced(
    slopes: Slopes, *, own_norm_squared: int, others_norm_squared: int, columns: int, heads: int = 1
) -> VectorChange:
    """The others' part of a record is replaced, to the holder of the label: its features and label stay.

    Guarantee, with ‖u‖² ≤ a² of its own part and ‖v‖², ‖v′‖² ≤ b² of the others': the change is
    (r̃ − r̃′)u beside r̃v − r̃′v′, so L2² ≤ (r̃ − r̃′)²a² + (|r̃| + |r̃′|)²b², a convex function of (r̃, r̃′) that is largest
    at a corner of [least, most]².
    """
    ends = (slopes.least, slopes.most)
    square = max(
        (x - y) ** 2 * own_norm_squared + (abs(x) + abs(y)) ** 2 * others_norm_squared
        for x in ends
        for y in ends
    )
    return VectorChange.of_square(heads * square, entries=columns * heads)


def _change(slopes: Slopes, norm_squared: int, columns: int, heads: int, *, times: int) -> VectorChange:
    square = heads * (times * max(abs(slopes.least), abs(slopes.most))) ** 2 * norm_squared
    return VectorChange.of_square(square, entries=columns * heads)
