"""What owners deal in a step: a score becomes one angle, and an angle a row of integers from a table.

Whatever a score is, its index is one of the angles, and what is dealt is what the table holds for it. So the bound of
`privacy.sensitivity.margin` holds for every score, however it was computed. Harmonics taken from the score apart would
each be rounded apart, and for large scores they would belong to no common angle (docs/proofs/margin.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from colonnade.methods.margin.curve import ANGLES, MILLION, PERIOD, Curve, circle

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
_BITS = 40


def angle_of(scores: Array) -> Integers:
    """The nearest angle to every score, as a number from 0 to 2¹⁴ − 1.

    >>> angle_of(np.array([0.0, 5.5, -5.5, 22.0])).tolist()
    [0, 4096, 12288, 0]
    """
    turned = np.remainder(scores, PERIOD) * (ANGLES / PERIOD)
    index: Integers = np.rint(turned).astype(np.int64) & (ANGLES - 1)
    return index


@dataclass(frozen=True)
class Waves:
    """The tables of a plan: γ_w·e^{ijθ} for owners without the label, γ_l·(±a_j − i·b_j)·e^{ijθ} for its holder.

    A row of a table has 2M integers, each within half a unit of the value it stands for, up to 2⁻²⁰.

    >>> Waves(Curve.of(3), wave_grid=64, label_grid=256).plain[0].tolist()
    [64, 64, 64, 0, 0, 0]
    """

    curve: Curve
    wave_grid: int
    label_grid: int

    @cached_property
    def plain(self) -> NDArray[np.int32]:
        """(cos θ … cos Mθ, sin θ … sin Mθ) for every angle."""
        parts = [_rounded(self.wave_grid * part, 1) for part in self._turned]
        return np.concatenate(parts).T.astype(np.int32, order="C")

    @cached_property
    def labelled(self) -> NDArray[np.int32]:
        """(p₁ … p_M, q₁ … q_M) for every angle, first of rows labelled −1, then of rows labelled +1.

        p_j = ±a_j cos jθ + b_j sin jθ and q_j = b_j cos jθ ∓ a_j sin jθ, so that Σ p_j cos jφ + q_j sin jφ is what the
        other owners' angle φ makes of it.
        """
        cosines, sines = self._turned
        a, b = (np.array(part, dtype=np.int64)[:, None] for part in (self.curve.cosines, self.curve.sines))
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


def _rounded(scaled: Integers, unit: int) -> Integers:
    half = unit << (_BITS - 1)
    found: Integers = (scaled + half) // (unit << _BITS)
    return found


def _rounded_exactly(grid: int, values: Integers) -> Integers:
    """grid·value/10⁶, rounded to nearest: the product may be past 63 bits, its parts are not."""
    whole, rest = np.divmod(values, MILLION)
    return _rounded(grid * whole + (grid * rest) // MILLION, 1)
