"""How far one record moves sums of rounded phases by class, in L1 and in L2 (docs/proofs/judging.md).

A record of class c adds to the coefficients of its class, and to no other, the integers

    a₀b₀  and, for every frequency f,  ã_f·b̃_f,   ã_f = round(A_f·e^{ifθ}),   b̃_f = round(b₀·e^{ifφ}),

where θ and φ are the two owners' parts of its score as angles, and a complex number is rounded in both coordinates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.privacy.events import Number

_STEPS = 1 << 13
# Floats err by less than this share in everything that is computed here.
_SLACK = 1.0 + 1e-9


@dataclass(frozen=True)
class PhaseChange:
    """Norms of a change.

    >>> PhaseChange(3, 2).l2
    2
    """

    l1: Number
    l2: Number


@dataclass(frozen=True)
class Phases:
    """The public bounds of one record: A_f for each odd frequency f, a₀ = `count`, b₀ = `other`.

    `turns` are the largest angles by which each owner's part can turn the first frequency when it is replaced: twice
    its bound. The label holder's comes first.

    >>> phases = Phases(frequencies=(1, 3), amplitudes=(64, 37), count=64, other=64, turns=(1.5, 1.5))
    >>> phases.zeroed().l2
    6382
    """

    frequencies: tuple[int, ...]
    amplitudes: tuple[int, ...]
    count: int
    other: int
    turns: tuple[float, float]

    @property
    def _reach(self) -> tuple[int, ...]:
        """|ã_f·b̃_f| at most: rounding moves a complex number by at most √½, which is less than 1."""
        return tuple((amplitude + 1) * (self.other + 1) for amplitude in self.amplitudes)

    @property
    def largest(self) -> int:
        """No coefficient of one record is larger in modulus."""
        return max(self.count * self.other, *self._reach)

    def zeroed(self) -> PhaseChange:
        """A record that is there, or whose row is zero: √((a₀b₀)² + Σ ((A_f + 1)(b₀ + 1))²)."""
        square = (self.count * self.other) ** 2 + sum(reach**2 for reach in self._reach)
        return _change(square, 1 + 2 * len(self.frequencies))

    def other_replaced(self) -> PhaseChange:
        """The part without the label is replaced: |ã_f||b̃_f − b̃′_f| ≤ (A_f + 1)(b₀·2|sin(fΔ/2)| + 2), Δ ≤ its turn."""
        reach = [amplitude + 1 for amplitude in self.amplitudes]
        square = self._worst(self.turns[1], [float(item) for item in reach], [self.other] * len(reach))
        return _change(square, 2 * len(self.frequencies))

    def holder_replaced(self) -> PhaseChange:
        """The label holder's part is replaced, the label with it or not: the larger of the two."""
        factors = [float(self.other + 1)] * len(self.amplitudes)
        same = self._worst(self.turns[0], factors, self.amplitudes)
        return _larger(_change(same, 2 * len(self.frequencies)), self._other_class())

    def replaced(self) -> PhaseChange:
        """The whole record is replaced: within its class by at most A_f·b₀·2|sin(fΔ/2)| + 2(A_f + b₀ + 1)."""
        frequencies = np.array(self.frequencies, dtype=np.float64)
        sizes = np.array(self.amplitudes, dtype=np.float64) * self.other
        rounding = 2.0 * (np.array(self.amplitudes, dtype=np.float64) + self.other + 1.0)
        chords = _chords(min(math.pi, sum(self.turns)), frequencies)
        same = float(((sizes * chords + rounding) ** 2).sum(axis=1).max())
        found = _change(math.ceil(same * _SLACK), 2 * len(self.frequencies))
        return _larger(found, self._other_class())

    def _other_class(self) -> PhaseChange:
        """A record that changes class leaves the coefficients of one and joins those of the other."""
        square = (self.count * self.other) ** 2 + sum(reach**2 for reach in self._reach)
        return _change(2 * square, 2 * (1 + 2 * len(self.frequencies)))

    def _worst(self, turn: float, factors: list[float], sizes: list[int] | tuple[int, ...]) -> int:
        """max over Δ in [0, turn] of Σ factor²(size·2|sin(fΔ/2)| + 2)², from above."""
        chords = _chords(min(turn, math.pi), np.array(self.frequencies, dtype=np.float64))
        moved = np.array(factors) * (np.array(sizes, dtype=np.float64) * chords + 2.0)
        return math.ceil(float((moved**2).sum(axis=1).max()) * _SLACK)


def _chords(turn: float, frequencies: NDArray[np.float64]) -> NDArray[np.float64]:
    """2|sin(fΔ/2)| from above, for Δ in each of many cells of [0, turn]: its slope in Δ is at most f."""
    step = turn * _SLACK / _STEPS
    middles = (np.arange(_STEPS) + 0.5) * step
    chords = 2.0 * np.abs(np.sin(np.outer(middles, frequencies) / 2.0)) + frequencies * step / 2.0
    return np.minimum(chords * _SLACK, 2.0)


def _change(square: int, entries: int) -> PhaseChange:
    """Norms from the square of the L2 norm, rounded up; L1 is at most √entries times as large."""
    return PhaseChange(l1=math.isqrt(square * entries) + 1, l2=math.isqrt(square) + 1)


def _larger(first: PhaseChange, second: PhaseChange) -> PhaseChange:
    """Either of two changes: the larger of each norm, which need not be of the same one."""
    return PhaseChange(max(first.l1, second.l1), max(first.l2, second.l2))
