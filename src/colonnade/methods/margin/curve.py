"""h: the derivative of the loss as a trigonometric polynomial, and the phases that owners deal for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PlanError
from colonnade.noise.sampler import working
from colonnade.privacy.sensitivity.gradient import RowNorms, TableBounds
from colonnade.privacy.sensitivity.matrix import root_up

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

WINDOW = (-4.0, 14.0)
"""The margins for which the curve is fitted; beyond them it is only bounded."""
PERIOD = 22
MILLION = 10**6
ANGLES = 1 << 14
"""How many angles there are: sums of them are angles again."""
_BITS = 40
# 355/113 is a little more than π.
_PI_ABOVE = Fraction(355, 113)

# a₀, a₁ …, then b₁ … in millionths, as the linear program of `tests/oracles/margin_curve.py` computes them.
_COEFFICIENTS: Mapping[int, tuple[tuple[int, ...], tuple[int, ...]]] = {
    3: ((184794, 182399, 31157, 20495), (-136278, -97372, 10872)),
    4: ((182656, 186513, 17736, 15265, 47705), (-162209, -98021, 4300, 2501)),
    5: ((167071, 197705, 33116, -6580, 32882, 40006), (-144352, -116975, -10552, 20143, -4351)),
    6: ((164082, 196572, 38669, -769, 23050, 24889, 22680), (-139483, -110579, -17854, 9540, 1089, 2833)),
    7: (
        (186222, 192250, -699, 13127, 45586, 8547, 5843, 22770),
        (-184320, -99090, 15272, -6972, -17313, 9727, 5431),
    ),
    8: (
        (174520, 202469, 15295, -7498, 42829, 26625, -4285, 7032, 20245),
        (-165143, -115698, 6680, 15321, -21934, -7873, 12085, 3880),
    ),
}
HARMONICS = tuple(_COEFFICIENTS)


@cache
def circle() -> tuple[Integers, Integers]:
    """cos and sin of every angle times 2⁴⁰, rounded to nearest."""
    quarter = ANGLES // 4
    with working(96) as context:
        first = [
            int(context.nint(context.ldexp(context.cospi(context.mpf(2 * k) / ANGLES), _BITS)))
            for k in range(quarter)
        ]
    rising = np.array([*first, 0], dtype=np.int64)
    cosines = np.concatenate([rising[:-1], -rising[:0:-1], -rising[:-1], rising[:0:-1]])
    return cosines, np.concatenate((cosines[-quarter:], cosines[:-quarter]))


@dataclass(frozen=True)
class Curve:
    """h with its coefficients in millionths, (a₀, a₁ … a_M, b₁ … b_M)."""

    coefficients: tuple[int, ...]

    @classmethod
    def of(cls, harmonics: int) -> Curve:
        if harmonics not in _COEFFICIENTS:
            raise PlanError(
                f"harmonics = {harmonics}: the curve is fitted with {HARMONICS[0]} to {HARMONICS[-1]} of them. "
                "Leave it out for 6."
            )
        cosines, sines = _COEFFICIENTS[harmonics]
        return cls(cosines + sines)

    @property
    def harmonics(self) -> int:
        return len(self.coefficients) // 2

    @property
    def constant(self) -> Fraction:
        return Fraction(self.coefficients[0], MILLION)

    @property
    def cosines(self) -> tuple[int, ...]:
        return self.coefficients[1 : 1 + self.harmonics]

    @property
    def sines(self) -> tuple[int, ...]:
        return self.coefficients[1 + self.harmonics :]

    @cached_property
    def amplitudes(self) -> tuple[Fraction, ...]:
        """√(a_j² + b_j²) of every harmonic, rounded up."""
        return tuple(root_up(a * a + b * b) / MILLION for a, b in zip(self.cosines, self.sines, strict=True))

    @cached_property
    def bounds(self) -> tuple[Fraction, Fraction]:
        """(inf, sup): h lies between them on the whole circle.

        Guarantee: proved, not sampled. Where h is largest its derivative is zero, so the nearest of the angles, at most
        π/N away, falls short by at most (π/N)²/2 · Σ j²√(a_j² + b_j²); at the angles h is computed in integers
        (docs/proofs/margin.md).
        """
        values = self.at_angles
        scale = MILLION << _BITS
        rounding = Fraction(sum(abs(value) for value in self.coefficients[1:]), 2 * scale)
        bend = sum((j * j * size for j, size in enumerate(self.amplitudes, start=1)), Fraction(0))
        slack = rounding + (_PI_ABOVE / ANGLES) ** 2 / 2 * bend
        return Fraction(int(values.min()), scale) - slack, Fraction(int(values.max()), scale) + slack

    @cached_property
    def slope(self) -> float:
        """How steep h is at most, per unit of margin: what steps must be short enough for."""
        # Derivatives are of the same form, with coefficients j·b_j and −j·a_j; the grid is fine enough for a step.
        derivative = Curve(
            (
                0,
                *(j * b for j, b in enumerate(self.sines, start=1)),
                *(-j * a for j, a in enumerate(self.cosines, start=1)),
            )
        )
        return float(np.abs(derivative.at_angles).max()) / (MILLION << _BITS) * (2 * np.pi / PERIOD)

    @property
    def at_angles(self) -> Integers:
        """h at every angle, times 10⁶·2⁴⁰."""
        cosines, sines = circle()
        total = np.full(ANGLES, self.coefficients[0] << _BITS, dtype=np.int64)
        for j, (a, b) in enumerate(zip(self.cosines, self.sines, strict=True), start=1):
            rotated = np.arange(ANGLES) * j % ANGLES
            total += a * cosines[rotated] + b * sines[rotated]
        return total


def angle_of(scores: Array) -> Integers:
    """The nearest angle to every score, as a number from 0 to 2¹⁴ − 1."""
    rotated = np.remainder(scores, PERIOD) * (ANGLES / PERIOD)
    index: Integers = np.rint(rotated).astype(np.int64) & (ANGLES - 1)
    return index


@dataclass(frozen=True)
class Phasors:
    """γ_w·e^{ijθ} for owners without the label, γ_l·(±a_j − i·b_j)·e^{ijθ} for its holder, to half a unit and 2⁻²⁰."""

    curve: Curve
    phasor_grid: int
    label_grid: int
    levels: tuple[int, ...] = ()
    """κ_j in millionths: owners without the label deal κ_j·e^{ijθ}, and its holder divides by all of theirs."""
    others: int = 1

    @classmethod
    def levelled(cls, curve: Curve, phasor_grid: int, label_grid: int, others: int) -> Phasors:
        """With κ_j near the K-th root of the amplitude of harmonic j, for K − 1 owners without the label."""
        levels = tuple(round(MILLION * float(size) ** (1 / (others + 1))) for size in curve.amplitudes)
        return cls(curve, phasor_grid, label_grid, levels, others)

    @cached_property
    def plain(self) -> NDArray[np.int32]:
        """(cos θ … cos Mθ, sin θ … sin Mθ) for every angle, times their levels."""
        levels = np.array(self._levels, dtype=np.int64)[:, None]
        parts = [_rounded_exactly(self.phasor_grid, levels * part) for part in self._rotated]
        return np.concatenate(parts).T.astype(np.int32, order="C")

    @cached_property
    def labelled(self) -> NDArray[np.int32]:
        """(p₁ … p_M, q₁ … q_M) for every angle, first of rows labelled −1, then of rows labelled +1.

        p_j = ±a_j cos jθ + b_j sin jθ and q_j = b_j cos jθ ∓ a_j sin jθ, so that Σ p_j cos jφ + q_j sin jφ is what the
        other owners' angle φ makes of it.
        """
        cosines, sines = self._rotated
        back = [Fraction(MILLION, level) ** self.others for level in self._levels]
        a, b = (
            np.array([[round(value * by)] for value, by in zip(part, back, strict=True)], dtype=np.int64)
            for part in (self.curve.cosines, self.curve.sines)
        )
        tables = []
        for sign in (-1, 1):
            p, q = sign * a * cosines + b * sines, b * cosines - sign * a * sines
            parts = [_rounded_exactly(self.label_grid, part) for part in (p, q)]
            tables.append(np.concatenate(parts).T)
        return np.concatenate(tables).astype(np.int32, order="C")

    @property
    def constant(self) -> int:
        """γ_l·a₀, rounded: dealt once, times ±1."""
        return round(self.label_grid * self.curve.constant)

    @cached_property
    def extent(self) -> TableBounds:
        return TableBounds(_most(self.plain), _most(self.labelled), self.others)

    @property
    def _levels(self) -> tuple[int, ...]:
        return self.levels or (MILLION,) * self.curve.harmonics

    @property
    def _rotated(self) -> tuple[Integers, Integers]:
        cosines, sines = circle()
        places = np.arange(1, self.curve.harmonics + 1)[:, None] * np.arange(ANGLES) % ANGLES
        return cosines[places], sines[places]

    def deal_plain(self, scores: Array) -> Integers:
        return self.plain.take(angle_of(scores), axis=0).astype(np.int64)

    def deal_labelled(self, scores: Array, positive: NDArray[np.bool_]) -> Integers:
        return self.labelled.take(angle_of(scores) + ANGLES * positive, axis=0).astype(np.int64)


def _most(table: NDArray[np.int32]) -> RowNorms:
    real, imaginary = np.split(table.astype(np.int64), 2, axis=1)
    squares = real**2 + imaginary**2
    return RowNorms(int(squares.sum(axis=1).max()), tuple(int(most) for most in squares.max(axis=0)))


def _rounded_exactly(grid: int, values: Integers) -> Integers:
    """grid·value/(10⁶·2⁴⁰), rounded to nearest: the product may be past 63 bits, its parts are not."""
    whole, rest = np.divmod(values, MILLION)
    scaled = grid * whole + (grid * rest) // MILLION
    rounded: Integers = (scaled + (1 << (_BITS - 1))) >> _BITS
    return rounded
