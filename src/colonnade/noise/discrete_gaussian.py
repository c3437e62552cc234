"""Discrete Gaussian noise: P(k) proportional to exp(−k²/2σ²) on the integers.

Sums of discrete Gaussians are not discrete Gaussians, so there are no parts: noise that several parties
add together is Skellam.
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
from colonnade.noise.sampler import LARGEST_DRAW, sample
from colonnade.noise.table import PRECISION
from colonnade.privacy.events import Approximated, DiscreteGaussian, Event, Number
from colonnade.randomness import Randomness

SMALLEST_VARIANCE = Fraction(1, 10**9)
LARGEST_VARIANCE = Fraction(1 << 88)
_WORKING = PRECISION + 128


@dataclass(frozen=True)
class DiscreteGaussianLaw:
    """exp(−k²/2σ²) as the machine reads it."""

    sigma_squared: Fraction

    @property
    def two_sided(self) -> bool:
        return True

    @cached_property
    def exponent(self) -> int:
        """The least m with 4^m ≥ 150σ²: both tails together stay below 2e^-75 < 2^-107."""
        exponent = 0
        while 4**exponent < 150 * self.sigma_squared:
            exponent += 1
        return exponent

    def mass(self, k: int) -> int:
        with working(_WORKING) as context:
            power = real(context, k * k / (2 * self.sigma_squared))
            return scaled_floor(context, context.exp(-power), PRECISION)

    @cached_property
    def _bend(self) -> int:
        return -(-(1 << PRECISION) // self.sigma_squared)

    def curvature(self, start: int, mass: int) -> int:
        """A second difference is a mean of second derivatives, which are at most 1/σ²."""
        return self._bend

    def tails(self) -> None:
        return None


@dataclass(frozen=True)
class DiscreteGaussianNoise:
    """Independent discrete Gaussians of parameter σ² in every coordinate.

    >>> from colonnade.randomness import SystemRandomness
    >>> DiscreteGaussianNoise(Fraction(4)).draw(6, SystemRandomness()).shape
    (6,)
    """

    sigma_squared: Fraction

    def __post_init__(self) -> None:
        exact = exact_positive("σ²", self.sigma_squared)
        if not SMALLEST_VARIANCE <= exact <= LARGEST_VARIANCE:
            raise PlanError(f"σ² = {float(exact):.6g} is outside 1e-9 to 2^88: change the grid")
        object.__setattr__(self, "sigma_squared", exact)

    @property
    def support(self) -> int:
        """No draw is larger in modulus."""
        return 1 << DiscreteGaussianLaw(self.sigma_squared).exponent

    def part(self, parts: int) -> DiscreteGaussianNoise:
        """The whole, if it is asked for in one part; there are no smaller parts."""
        share(self.sigma_squared, parts)
        if parts > 1:
            raise PlanError(
                f"{parts} discrete Gaussians do not sum to one; deal Skellam noise in parts instead"
            )
        return self

    def draw(self, shape: int | Sequence[int], randomness: Randomness) -> NDArray[np.int64]:
        """Independent draws, each within 2^-100 of the law in total variation."""
        return sample(DiscreteGaussianLaw(self.sigma_squared), shape, randomness)

    def event(
        self, sensitivity: Number, *, known: int = 0, parts: int = 1, of: int = 1, entries: int = LARGEST_DRAW
    ) -> Event:
        """What an observer is left with who knows all but at least one of several whole noises.

        `sensitivity` is in L2, `entries` how many coordinates are released. Only whole noises are dealt
        (of = 1); those beyond one are post-processing and count for nothing.

        >>> DiscreteGaussianNoise(Fraction(9)).event(2, entries=5).event.sigma_squared
        Fraction(9, 1)
        """
        self.part(of)
        whole_unknown("discrete Gaussian", known=known, parts=parts, of=of)
        leaf = DiscreteGaussian(sensitivity, self.sigma_squared, coordinates=1 if entries == 1 else None)
        return Approximated(leaf, draws=entries)
