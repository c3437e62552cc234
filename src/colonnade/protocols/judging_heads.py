"""What a judgement opens characteristic functions of: a score by class, or a residual, a label and a score by label.

Of classes every score is a head: sums by class at odd frequencies, weighed by f^(-½), because what is read from them
divides by f. Where the label is a number there are three. The residual y − s and the label y are each one sum of
everybody, at frequencies that double, so that one of them fits however little of their bounds they fill. The score has
two sums, as of two classes: somebody whose label lies at a share w of its range adds w to one and 1 − w to the other,
so that their difference is the mean label by score (docs/proofs/judging.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.privacy.sensitivity.phases import Kind, Phases

Array = NDArray[np.float64]
FREQUENCIES = 8
NUMBER_FREQUENCIES = 6


@dataclass(frozen=True)
class Head:
    """One angle of a person, at some frequencies: ω(±s + y) of the parts that are in it.

    `reaches` bound what each owner has of it. `score` says with which sign parts of the score are in it, 0 that they
    are not; `column` which score that is; `label` whether the label is; `ends` how many classes, or ends of a range,
    people are told apart by.
    """

    reaches: tuple[float, ...]
    frequencies: tuple[int, ...]
    amplitudes: tuple[int, ...]
    omega: float
    kind: Kind
    score: int = 1
    column: int = 0
    label: bool = False
    ends: int = 2

    @property
    def bound(self) -> float:
        """B: the angle is never larger than ωB."""
        return sum(self.reaches)

    @property
    def sums(self) -> int:
        return 1 if self.kind == "whole" else self.ends

    @property
    def counted(self) -> bool:
        return self.kind != "whole"

    @property
    def opened(self) -> int:
        return int(self.counted) + 2 * len(self.frequencies)

    def phases(self, holder: int, gamma: int) -> Phases:
        """The bounds of one record; `holder` is the place of the owner with the label."""
        turns = [2.0 * self.omega * reach for reach in self.reaches]
        first = turns.pop(holder)
        count = gamma if self.counted else 0
        return Phases(self.frequencies, self.amplitudes, count, gamma, (first, *turns), kind=self.kind)


def class_heads(reaches: tuple[tuple[float, ...], ...], harmonics: int, gamma: int) -> tuple[Head, ...]:
    """One head for every score, with a sum for every class. No two scores are half a period apart: nothing wraps."""
    ends = max(2, len(reaches))
    return tuple(
        _score(parts, harmonics, gamma, "classes", column=column, ends=ends)
        for column, parts in enumerate(reaches)
    )


def number_heads(
    reaches: tuple[float, ...], half: float, holder: int, harmonics: int, gamma: int
) -> tuple[Head, ...]:
    """Residual, label and score of a number that lies within ±`half` of the middle of its range."""
    mine = [half if place == holder else 0.0 for place in range(len(reaches))]
    both = tuple(reach + label for reach, label in zip(reaches, mine, strict=True))
    return (
        _doubling(both, harmonics, gamma, score=-1),
        _doubling(tuple(mine), harmonics, gamma, score=0),
        _score(reaches, harmonics, gamma, "shares"),
    )


def _score(
    reaches: tuple[float, ...], harmonics: int, gamma: int, kind: Kind, *, column: int = 0, ends: int = 2
) -> Head:
    frequencies = tuple(2 * number + 1 for number in range(harmonics))
    amplitudes = tuple(round(gamma / math.sqrt(frequency)) for frequency in frequencies)
    omega = math.pi / (2.0 * sum(reaches))
    return Head(reaches, frequencies, amplitudes, omega, kind, column=column, ends=ends)


def _doubling(reaches: tuple[float, ...], harmonics: int, gamma: int, *, score: int) -> Head:
    frequencies = tuple(1 << number for number in range(harmonics))
    amplitudes = tuple(round(gamma * frequency**-0.25) for frequency in frequencies)
    # Less than a period from end to end, so that the two ends are not taken for each other.
    omega = 3.0 * math.pi / (4.0 * sum(reaches))
    return Head(reaches, frequencies, amplitudes, omega, "whole", score=score, label=True)
