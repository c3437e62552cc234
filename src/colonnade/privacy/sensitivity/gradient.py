"""How far one record moves a gradient on integers, and sums of rounded phases."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.privacy.sensitivity.matrix import VectorChange, root_up


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


def _fused(shape: GradientShape, constant: int) -> VectorChange:
    # √R₂(kγ² + ‖w̄‖√R₂) squared: R₂(k²γ⁴ + ‖w̄‖²R₂) + 2kγ²R₂√(‖w̄‖²R₂), and the square of an integer
    # vector's norm is an integer, so its floor is enough.
    norm, weight, base = shape.norm_squared, shape.weight_squared, constant * shape.gamma**2
    squares = norm * (base**2 + weight * norm)
    cross = math.isqrt(4 * base**2 * norm**2 * weight * norm)
    return VectorChange.of_square(squares + cross, entries=shape.columns)


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


def rounded_slopes(
    bounds: tuple[Fraction, Fraction],
    amplitudes: tuple[Fraction, ...],
    *,
    label_grid: int,
    phasor_grid: int,
    others: int,
) -> Slopes:
    """What r̃ never leaves, for `others` owners beside the holder of the label.

    Guarantee: |r̃ − G·r| ≤ Σ_j [(γ_l A_j + ρ)(γ_w + ρ)^(K−1) − γ_l A_j γ_w^(K−1)] + γ_w^(K−1)/2 with ρ = √½ up to
    2⁻²⁰, A_j = √(a_j² + b_j²): a product of K factors each moved by at most ρ.
    """
    scale = Fraction(phasor_grid) ** others
    error = scale * _HALF
    for size in amplitudes:
        moved = (label_grid * size + _ROUNDED) * (phasor_grid + _ROUNDED) ** others
        error += moved - label_grid * size * scale
    low, high = (label_grid * scale * bound for bound in bounds)
    return Slopes(least=math.ceil(low - error), most=math.floor(high + error))


@dataclass(frozen=True)
class RowNorms:
    """The longest row of a table of waves: its squared norm, and the square of every harmonic at its largest."""

    norm_squared: int
    squares: tuple[int, ...]


@dataclass(frozen=True)
class TableBounds:
    """The tables of the owners without the label, of its holder, and how many owners are without."""

    plain: RowNorms
    labelled: RowNorms
    others: int


def verified_slopes(extent: TableBounds, constant: int) -> Slopes:
    """What r̃ never leaves if one owner may deal any rows that are no longer than those of its table.

    Guarantee: |Σ_j Re(P̃_j ∏ Ẽ_j)| ≤ ‖row‖·√(Σ_j of the product of the others' squares), by Cauchy and Schwarz, for
    whoever deviates; `constant` bounds what is added. Either sign is possible, whatever the label is.
    """
    plain, labelled, others = extent.plain, extent.labelled, extent.others
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


Kind = Literal["classes", "shares", "whole"]
"""Whether a record adds to the sums of its class, to those of two ends by shares that add up to 1, or to all's."""
_STEPS = 1 << 13
# Floats err by less than this share in everything that is computed here.
_SLACK = 1.0 + 1e-9


@dataclass(frozen=True)
class Phases:
    """The public bounds of one record: A_f for each frequency f, a₀ = `count`, and γ = `grid` of the others.

    `turns` are the largest angles by which each owner's part can turn the first frequency when it is replaced: twice
    its bound, in any head. The label holder's comes first.
    """

    frequencies: tuple[int, ...]
    amplitudes: tuple[int, ...]
    count: int
    grid: int
    turns: tuple[float, ...]
    heads: int = 1
    kind: Kind = "classes"

    @property
    def _others(self) -> int:
        """The modulus of the others' product before rounding: γ^(K − 1)."""
        return int(self.grid ** (len(self.turns) - 1))

    @property
    def _most(self) -> int:
        """|∏ b̃_f| at most: rounding moves a complex number by at most √½, which is less than 1."""
        return int((self.grid + 1) ** (len(self.turns) - 1))

    @property
    def _extent(self) -> tuple[int, ...]:
        """|ã_f·∏ b̃_f| at most."""
        return tuple((amplitude + 1) * self._most for amplitude in self.amplitudes)

    @property
    def largest(self) -> int:
        """No coefficient of one record is larger in modulus."""
        return max(self.count * self._others, *self._extent)

    def zeroed(self) -> VectorChange:
        """A record that is there, or whose row is zero: √(heads·((a₀b₀)² + Σ ((A_f + 1)(γ + 1)^(K − 1))²))."""
        return self._change(self._own_class, self._entries)

    def others_replaced(self) -> VectorChange:
        """All parts without the label are replaced, the class stays.

        |ã_f||∏ b̃_f − ∏ b̃′_f| ≤ (A_f + 1)(b₀·2|sin(fΔ/2)| + 2((γ + 1)^(K − 1) − b₀)), Δ ≤ the sum of their turns.
        """
        if not sum(self.turns[1:]):
            # Nothing of theirs is in it.
            return VectorChange(0, 0)
        chords = self._chords(sum(self.turns[1:]))
        factors = np.array(self.amplitudes, dtype=np.float64) + 1.0
        moved = factors * (float(self._others) * chords + 2.0 * (self._most - self._others))
        return self._change(_from_above(moved), self._phasors)

    def holder_replaced(self, owner: int) -> VectorChange:
        """All parts but those of one owner without the label are replaced, the label with them or not."""
        return self._any(sum(self.turns) - self.turns[owner])

    def replaced(self) -> VectorChange:
        return self._any(sum(self.turns))

    def _any(self, turn: float) -> VectorChange:
        """Another class, or within one class by at most A_f·b₀·2|sin(fΔ/2)| + 2((A_f + 1)(γ + 1)^(K − 1) − A_f·b₀)."""
        sizes = np.array(self.amplitudes, dtype=np.float64) * float(self._others)
        rounding = 2.0 * (np.array(self._extent, dtype=np.float64) - sizes)
        chords = sizes * self._chords(turn)
        if self.kind == "shares":
            # What is not rounded moves furthest between records that are wholly at one end.
            ends = 2.0 * ((self.count * self._others) ** 2 + float((sizes**2).sum()))
            whole = math.sqrt(max(ends, float((chords**2).sum(axis=1).max())))
            return self._change(
                math.ceil((whole + float(np.linalg.norm(rounding))) ** 2 * _SLACK), self._entries
            )
        same = self._change(_from_above(chords + rounding), self._phasors)
        if self.kind == "whole":
            return same
        # A record that changes class leaves the coefficients of one and joins those of the other.
        return _larger(same, self._change(2 * self._own_class, 2 * self._entries))

    @property
    def _phasors(self) -> int:
        return 2 * len(self.frequencies) * (2 if self.kind == "shares" else 1)

    @property
    def _entries(self) -> int:
        return self._phasors + {"classes": 1, "shares": 2, "whole": 0}[self.kind]

    @property
    def _own_class(self) -> int:
        return (self.count * self._others) ** 2 + sum(extent**2 for extent in self._extent)

    def _chords(self, turn: float) -> NDArray[np.float64]:
        return _chords(min(turn, math.pi), np.array(self.frequencies, dtype=np.float64))

    def _change(self, square: int, entries: int) -> VectorChange:
        """Norms from the square of the L2 norm in one head, rounded up; L1 is at most √entries times as large."""
        square, entries = square * self.heads, entries * self.heads
        return VectorChange(l1=math.isqrt(square * entries) + 1, l2=math.isqrt(square) + 1)


@dataclass(frozen=True)
class JointPhases:
    """Several sums of phases of one record, opened beside each other: each moves at most as far as it can alone."""

    blocks: tuple[Phases, ...]

    @property
    def largest(self) -> int:
        """No coefficient of one record is larger in modulus."""
        return max(block.largest for block in self.blocks)

    def zeroed(self) -> VectorChange:
        """A record that is there, or whose row is zero."""
        return _together([block.zeroed() for block in self.blocks])

    def others_replaced(self) -> VectorChange:
        """All parts without the label are replaced."""
        return _together([block.others_replaced() for block in self.blocks])

    def holder_replaced(self, owner: int) -> VectorChange:
        """All parts but those of one owner without the label are replaced."""
        return _together([block.holder_replaced(owner) for block in self.blocks])

    def replaced(self) -> VectorChange:
        return _together([block.replaced() for block in self.blocks])


def _together(changes: list[VectorChange]) -> VectorChange:
    square = sum(int(change.l2) ** 2 for change in changes)
    return VectorChange(sum(int(change.l1) for change in changes), math.isqrt(square) + 1)


def _from_above(moved: NDArray[np.float64]) -> int:
    """The largest sum of squares, rounded up."""
    return math.ceil(float((moved**2).sum(axis=1).max()) * _SLACK)


def _chords(turn: float, frequencies: NDArray[np.float64]) -> NDArray[np.float64]:
    """2|sin(fΔ/2)| from above, for Δ in each of many cells of [0, turn]: its slope in Δ is at most f."""
    step = turn * _SLACK / _STEPS
    middles = (np.arange(_STEPS) + 0.5) * step
    chords = 2.0 * np.abs(np.sin(np.outer(middles, frequencies) / 2.0)) + frequencies * step / 2.0
    return np.minimum(chords * _SLACK, 2.0)


def _larger(first: VectorChange, second: VectorChange) -> VectorChange:
    """Either of two changes: the larger of each norm, which need not be of the same one."""
    return VectorChange(max(first.l1, second.l1), max(first.l2, second.l2))
