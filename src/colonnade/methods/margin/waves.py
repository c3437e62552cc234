"""What owners deal in a step: a score becomes one angle, and an angle a row of integers from a table.

Whatever a score is, its index is one of the angles, and what is dealt is what the table holds for it. So the bound of
`privacy.sensitivity.margin` holds for every score, however it was computed. Harmonics taken from the score apart would
each be rounded apart, and for large scores they would belong to no common angle (docs/proofs/margin.md).

Where keepers check what is dealt, they check the norm of a row, and harmonics are levelled: every owner deals harmonic
j at about the K-th root of its amplitude, so that no other row of that norm does more than the table's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from colonnade.methods.margin.curve import ANGLES, MILLION, PERIOD, Curve, circle
from colonnade.privacy.sensitivity.margin import Longest, Reach

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
_BITS = 40


def angle_of(scores: Array) -> Integers:
    """The nearest angle to every score, as a number from 0 to 2¹⁴ − 1."""
    turned = np.remainder(scores, PERIOD) * (ANGLES / PERIOD)
    index: Integers = np.rint(turned).astype(np.int64) & (ANGLES - 1)
    return index


@dataclass(frozen=True)
class Waves:
    """The tables of a plan: γ_w·e^{ijθ} for owners without the label, γ_l·(±a_j − i·b_j)·e^{ijθ} for its holder.

    A row of a table has 2M integers, each within half a unit of the value it stands for, up to 2⁻²⁰.
    """

    curve: Curve
    wave_grid: int
    label_grid: int
    levels: tuple[int, ...] = ()
    """κ_j in millionths: owners without the label deal κ_j·e^{ijθ}, and its holder divides by all of theirs."""
    others: int = 1

    @classmethod
    def levelled(cls, curve: Curve, wave_grid: int, label_grid: int, others: int) -> Waves:
        """With κ_j near the K-th root of the amplitude of harmonic j, for K − 1 owners without the label."""
        levels = tuple(round(MILLION * float(size) ** (1 / (others + 1))) for size in curve.amplitudes)
        return cls(curve, wave_grid, label_grid, levels, others)

    @cached_property
    def plain(self) -> NDArray[np.int32]:
        """(cos θ … cos Mθ, sin θ … sin Mθ) for every angle, times their levels."""
        levels = np.array(self._levels, dtype=np.int64)[:, None]
        parts = [_rounded_exactly(self.wave_grid, levels * part) for part in self._turned]
        return np.concatenate(parts).T.astype(np.int32, order="C")

    @cached_property
    def labelled(self) -> NDArray[np.int32]:
        """(p₁ … p_M, q₁ … q_M) for every angle, first of rows labelled −1, then of rows labelled +1.

        p_j = ±a_j cos jθ + b_j sin jθ and q_j = b_j cos jθ ∓ a_j sin jθ, so that Σ p_j cos jφ + q_j sin jφ is what the
        other owners' angle φ makes of it.
        """
        cosines, sines = self._turned
        back = [Fraction(MILLION, level) ** self.others for level in self._levels]
        a, b = (
            np.array([round(value * by) for value, by in zip(part, back, strict=True)], dtype=np.int64)[
                :, None
            ]
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
    def reach(self) -> Reach:
        """The longest rows of both tables, for `privacy.sensitivity.margin.verified_slopes`."""
        return Reach(_longest(self.plain), _longest(self.labelled), self.others)

    @property
    def _levels(self) -> tuple[int, ...]:
        return self.levels or (MILLION,) * self.curve.harmonics

    @property
    def _turned(self) -> tuple[Integers, Integers]:
        cosines, sines = circle()
        places = np.arange(1, self.curve.harmonics + 1)[:, None] * np.arange(ANGLES) % ANGLES
        return cosines[places], sines[places]

    def deal_plain(self, scores: Array) -> Integers:
        """What an owner without the label deals for these scores."""
        return self.plain.take(angle_of(scores), axis=0).astype(np.int64)

    def deal_labelled(self, scores: Array, positive: NDArray[np.bool_]) -> Integers:
        """What the holder of the label deals for these scores."""
        return self.labelled.take(angle_of(scores) + ANGLES * positive, axis=0).astype(np.int64)


def _longest(table: NDArray[np.int32]) -> Longest:
    real, imaginary = np.split(table.astype(np.int64), 2, axis=1)
    squares = real**2 + imaginary**2
    return Longest(int(squares.sum(axis=1).max()), tuple(int(most) for most in squares.max(axis=0)))


def _rounded_exactly(grid: int, values: Integers) -> Integers:
    """grid·value/(10⁶·2⁴⁰), rounded to nearest: the product may be past 63 bits, its parts are not."""
    whole, rest = np.divmod(values, MILLION)
    scaled = grid * whole + (grid * rest) // MILLION
    rounded: Integers = (scaled + (1 << (_BITS - 1))) >> _BITS
    return rounded
