"""How far one record moves sums of rounded phases, in L1 and in L2 (docs/proofs/judging.md).

A record of class c adds to the coefficients of its class, and to no other, the integers

    a₀b₀  and, for every frequency f,  ã_f·∏ b̃_f,   ã_f = round(A_f·e^{ifθ}),   b̃_f = round(γ·e^{ifφ}),

where θ and φ are the owners' parts of its score as angles, one φ for each owner without the label, b₀ is γ to the
number of these, and a complex number is rounded in both coordinates. With several heads it does so for each of them.

Where the label is a number, a record is between two ends and adds to both by its share of each, or it adds to one sum
that nobody is counted in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.privacy.leaves import Number

Kind = Literal["classes", "shares", "whole"]
"""Whether a record adds to the sums of its class, to those of two ends by shares that add up to 1, or to all's."""
_STEPS = 1 << 13
# Floats err by less than this share in everything that is computed here.
_SLACK = 1.0 + 1e-9


@dataclass(frozen=True)
class PhaseChange:
    """Norms of a change."""

    l1: Number
    l2: Number


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
    def _reach(self) -> tuple[int, ...]:
        """|ã_f·∏ b̃_f| at most."""
        return tuple((amplitude + 1) * self._most for amplitude in self.amplitudes)

    @property
    def largest(self) -> int:
        """No coefficient of one record is larger in modulus."""
        return max(self.count * self._others, *self._reach)

    def zeroed(self) -> PhaseChange:
        """A record that is there, or whose row is zero: √(heads·((a₀b₀)² + Σ ((A_f + 1)(γ + 1)^(K − 1))²))."""
        return self._change(self._own_class, self._entries)

    def others_replaced(self) -> PhaseChange:
        """All parts without the label are replaced, the class stays.

        |ã_f||∏ b̃_f − ∏ b̃′_f| ≤ (A_f + 1)(b₀·2|sin(fΔ/2)| + 2((γ + 1)^(K − 1) − b₀)), Δ ≤ the sum of their turns.
        """
        if not sum(self.turns[1:]):
            # Nothing of theirs is in it.
            return PhaseChange(0, 0)
        chords = self._chords(sum(self.turns[1:]))
        factors = np.array(self.amplitudes, dtype=np.float64) + 1.0
        moved = factors * (float(self._others) * chords + 2.0 * (self._most - self._others))
        return self._change(_from_above(moved), self._waves)

    def holder_replaced(self, owner: int) -> PhaseChange:
        """All parts but those of one owner without the label are replaced, the label with them or not."""
        return self._any(sum(self.turns) - self.turns[owner])

    def replaced(self) -> PhaseChange:
        return self._any(sum(self.turns))

    def _any(self, turn: float) -> PhaseChange:
        """Another class, or within one class by at most A_f·b₀·2|sin(fΔ/2)| + 2((A_f + 1)(γ + 1)^(K − 1) − A_f·b₀)."""
        sizes = np.array(self.amplitudes, dtype=np.float64) * float(self._others)
        rounding = 2.0 * (np.array(self._reach, dtype=np.float64) - sizes)
        chords = sizes * self._chords(turn)
        if self.kind == "shares":
            # What is not rounded moves furthest between records that are wholly at one end.
            ends = 2.0 * ((self.count * self._others) ** 2 + float((sizes**2).sum()))
            whole = math.sqrt(max(ends, float((chords**2).sum(axis=1).max())))
            return self._change(
                math.ceil((whole + float(np.linalg.norm(rounding))) ** 2 * _SLACK), self._entries
            )
        same = self._change(_from_above(chords + rounding), self._waves)
        if self.kind == "whole":
            return same
        # A record that changes class leaves the coefficients of one and joins those of the other.
        return _larger(same, self._change(2 * self._own_class, 2 * self._entries))

    @property
    def _waves(self) -> int:
        return 2 * len(self.frequencies) * (2 if self.kind == "shares" else 1)

    @property
    def _entries(self) -> int:
        return self._waves + {"classes": 1, "shares": 2, "whole": 0}[self.kind]

    @property
    def _own_class(self) -> int:
        return (self.count * self._others) ** 2 + sum(reach**2 for reach in self._reach)

    def _chords(self, turn: float) -> NDArray[np.float64]:
        return _chords(min(turn, math.pi), np.array(self.frequencies, dtype=np.float64))

    def _change(self, square: int, entries: int) -> PhaseChange:
        """Norms from the square of the L2 norm in one head, rounded up; L1 is at most √entries times as large."""
        square, entries = square * self.heads, entries * self.heads
        return PhaseChange(l1=math.isqrt(square * entries) + 1, l2=math.isqrt(square) + 1)


@dataclass(frozen=True)
class JointPhases:
    """Several sums of phases of one record, opened beside each other: each moves at most as far as it can alone."""

    blocks: tuple[Phases, ...]

    @property
    def largest(self) -> int:
        """No coefficient of one record is larger in modulus."""
        return max(block.largest for block in self.blocks)

    def zeroed(self) -> PhaseChange:
        """A record that is there, or whose row is zero."""
        return _together([block.zeroed() for block in self.blocks])

    def others_replaced(self) -> PhaseChange:
        """All parts without the label are replaced."""
        return _together([block.others_replaced() for block in self.blocks])

    def holder_replaced(self, owner: int) -> PhaseChange:
        """All parts but those of one owner without the label are replaced."""
        return _together([block.holder_replaced(owner) for block in self.blocks])

    def replaced(self) -> PhaseChange:
        return _together([block.replaced() for block in self.blocks])


def _together(changes: list[PhaseChange]) -> PhaseChange:
    square = sum(int(change.l2) ** 2 for change in changes)
    return PhaseChange(sum(int(change.l1) for change in changes), math.isqrt(square) + 1)


def _from_above(moved: NDArray[np.float64]) -> int:
    """The largest sum of squares, rounded up."""
    return math.ceil(float((moved**2).sum(axis=1).max()) * _SLACK)


def _chords(turn: float, frequencies: NDArray[np.float64]) -> NDArray[np.float64]:
    """2|sin(fΔ/2)| from above, for Δ in each of many cells of [0, turn]: its slope in Δ is at most f."""
    step = turn * _SLACK / _STEPS
    middles = (np.arange(_STEPS) + 0.5) * step
    chords = 2.0 * np.abs(np.sin(np.outer(middles, frequencies) / 2.0)) + frequencies * step / 2.0
    return np.minimum(chords * _SLACK, 2.0)


def _larger(first: PhaseChange, second: PhaseChange) -> PhaseChange:
    """Either of two changes: the larger of each norm, which need not be of the same one."""
    return PhaseChange(max(first.l1, second.l1), max(first.l2, second.l2))
