"""Discrete Laplace noise: P(k) proportional to e^(−|k|/scale). Pure ε, and parts for several parties.

Past the table's edge the law begins again (it has no memory), so nothing is truncated, and neighbouring
probabilities have the right ratio to a relative 2^-110. The noise is drawn at a scale larger by a factor
1 + 2^-60; the surplus outweighs that error in every loss, so that ε = Δ₁/scale holds with δ = 0
(docs/proofs/strip-rejection.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PlanError
from colonnade.noise.fixed_point import real, scaled_floor, working
from colonnade.noise.mechanism import exact_positive, share, whole_unknown
from colonnade.noise.polya import PolyaNoise
from colonnade.noise.sampler import LARGEST_DRAW, sample
from colonnade.noise.table import PRECISION, SLACK
from colonnade.privacy.events import Approximated, Event
from colonnade.privacy.leaves import DiscreteLaplace, Number
from colonnade.randomness import Randomness

SMALLEST_SCALE = Fraction(1, 100)
LARGEST_SCALE = Fraction(1 << 45)
PURE_SCALE = Fraction(1, 12)  # below this, far masses fall under the table's units and only δ > 0 is claimed
_SURPLUS = 1 + Fraction(1, 1 << 60)
_WORKING = PRECISION + 128


@dataclass(frozen=True)
class DiscreteLaplaceLaw:
    """e^(−λ|k|) as the machine reads it."""

    rate: Fraction

    @property
    def two_sided(self) -> bool:
        return True

    @property
    def precision(self) -> int:
        return PRECISION

    @cached_property
    def exponent(self) -> int:
        """The least m with λ2^m ≥ 12: the tails, always settled slowly, are rare."""
        exponent = 0
        while self.rate * 2**exponent < 12:
            exponent += 1
        return exponent

    def mass(self, k: int) -> int:
        with working(_WORKING) as context:
            return scaled_floor(context, context.exp(-real(context, self.rate * k)), PRECISION)

    @cached_property
    def _squared_step(self) -> int:
        with working(_WORKING) as context:
            return scaled_floor(context, context.expm1(-real(context, self.rate)) ** 2, PRECISION) + 1

    def curvature(self, start: int, mass: int) -> int:
        """q^k (1 − q)² at the first point; later ones are smaller."""
        return ((mass + SLACK) * self._squared_step >> PRECISION) + 1

    def tails(self) -> tuple[int, int]:
        """e^(−λ2^m)/(1 − q) above; one step further below, because −2^m itself is in the support."""
        reach = 1 << self.exponent
        with working(_WORKING) as context:
            step = -context.expm1(-real(context, self.rate))
            above, below = (
                scaled_floor(context, context.exp(-real(context, self.rate * k)) / step, PRECISION)
                for k in (reach, reach + 1)
            )
        return above, below


@dataclass(frozen=True)
class DiscreteLaplaceNoise:
    """Independent discrete Laplace noise of one scale in every coordinate; variance about 2·scale²."""

    scale: Fraction

    def __post_init__(self) -> None:
        exact = exact_positive("the scale", self.scale)
        if not SMALLEST_SCALE <= exact <= LARGEST_SCALE:
            raise PlanError(f"a scale of {float(exact):.6g} is outside 1/100 to 2^45: change the grid")
        object.__setattr__(self, "scale", exact)

    def part(self, parts: int) -> DiscreteLaplaceNoise | PolyaNoise:
        """One of `parts` shares that sum to the whole: Pólya differences of shape 1/parts.

        With K parties of whom t may join the observer, ask for K − t parts: any K − t honest parties then
        supply a whole, and what the others add is post-processing.
        """
        shape = share(Fraction(1), parts)
        return self if parts == 1 else PolyaNoise(self.scale * _SURPLUS, shape)

    def draw(self, shape: int | Sequence[int], randomness: Randomness) -> NDArray[np.int64]:
        return sample(DiscreteLaplaceLaw(1 / (self.scale * _SURPLUS)), shape, randomness)

    def event(
        self, sensitivity: Number, *, known: int = 0, parts: int = 1, of: int = 1, entries: int = LARGEST_DRAW
    ) -> Event:
        """What an observer is left with who knows `known` of `parts` parts, each of shape 1/of.

        `sensitivity` is in L1. The parts left must make up a whole: what a fraction leaves has a peak at 0
        and no ε near Δ₁/scale. δ is 0 only if whole noises are dealt; Pólya parts are truncated.
        """
        whole_unknown("discrete Laplace", known=known, parts=parts, of=of)
        leaf = DiscreteLaplace(sensitivity, self.scale)
        if of == 1:
            return leaf if self.scale >= PURE_SCALE else Approximated(leaf, draws=entries)
        # Any `of` of the unknown parts make the whole; each takes two Pólya draws a coordinate.
        return Approximated(leaf, draws=2 * of * entries)
