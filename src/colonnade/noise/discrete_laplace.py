"""Discrete Laplace noise: P(k) proportional to e^(−|k|/scale), and Pólya variables, its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PlanError
from colonnade.noise.mechanism import exact_positive, share, whole_unknown
from colonnade.noise.sampler import LARGEST_DRAW, PRECISION, SLACK, real, sample, scaled_floor, working
from colonnade.privacy.events import Approximated, DiscreteLaplace, Event, Number
from colonnade.randomness import Randomness

SMALLEST_SCALE = Fraction(1, 100)
LARGEST_POLYA_SCALE = Fraction(1 << 40)
_POLYA_WORKING = 448
_RECURRED = 512  # masses up to here by their recurrence, beyond by Stirling's series
_STIRLING_TERMS = 24
_STIRLING_BITS = 360


@dataclass(frozen=True)
class PolyaLaw:
    """NB(r, e^−λ) for 0 < r ≤ 1 as the machine reads it: f(0) = 1."""

    shape: Fraction
    rate: Fraction

    @property
    def two_sided(self) -> bool:
        return False

    @property
    def precision(self) -> int:
        return PRECISION

    @cached_property
    def exponent(self) -> int:
        """The least m with λ2^m ≥ 75: the mass beyond is below e^-75 < 2^-108."""
        exponent = 0
        while self.rate * 2**exponent < 75:
            exponent += 1
        return exponent

    @cached_property
    def _decay(self) -> Any:
        with working(_POLYA_WORKING) as context:
            return context.exp(-real(context, self.rate))

    def _ratio(self, context: Any, k: int) -> Any:
        """f(k + 1)/f(k)."""
        return self._decay * real(context, (k + self.shape) / (k + 1))

    @cached_property
    def _near(self) -> tuple[Any, ...]:
        values = []
        with working(_POLYA_WORKING) as context:
            value = context.mpf(1)
            for k in range(min(_RECURRED, 1 << self.exponent) + 1):
                values.append(value)
                value = value * self._ratio(context, k)
        return tuple(values)

    @cached_property
    def _anchor(self) -> Any:
        """ln f − L at the last recurred value; L is the logarithm without its constants."""
        with working(_POLYA_WORKING) as context:
            return context.log(self._near[_RECURRED]) - self._log_shape(context, _RECURRED)

    def _log_shape(self, context: Any, k: int) -> Any:
        """ln Γ(k + r) − ln Γ(k + 1) − λk."""
        above = log_gamma(context, real(context, k + self.shape))
        return above - log_gamma(context, context.mpf(k + 1)) - real(context, self.rate * k)

    def mass(self, k: int) -> int:
        with working(_POLYA_WORKING) as context:
            if k < len(self._near):
                return scaled_floor(context, self._near[k], PRECISION)
            return scaled_floor(context, context.exp(self._anchor + self._log_shape(context, k)), PRECISION)

    def curvature(self, start: int, mass: int) -> int:
        """f is a moment sequence: its second differences are positive and fall, so the first is largest."""
        with working(_POLYA_WORKING) as context:
            first, second = self._ratio(context, start), self._ratio(context, start + 1)
            bend = (1 - 2 * first + first * second) * (mass + SLACK)
            return int(context.ceil(bend)) + 1

    def tails(self) -> None:
        return None


@lru_cache(maxsize=1)
def stirling_coefficients() -> tuple[tuple[Any, int], ...]:
    """B_2i / (2i(2i − 1)) for i = 1, 2, …, each with an upper bound on its log2."""
    with working(_POLYA_WORKING) as context:
        values = [context.bernoulli(2 * i) / (2 * i * (2 * i - 1)) for i in range(1, _STIRLING_TERMS + 2)]
        return tuple((value, int(context.ceil(context.log(abs(value), 2)))) for value in values)


def log_gamma(context: Any, z: Any) -> Any:
    """ln Γ(z) − ln √(2π) by Stirling's series, for z ≥ 512 and with a remainder below 2^-360.

    The remainder for real z > 0 is smaller than the first term left out, so that term decides how many
    are taken; at z = 512 it is 24.
    """
    coefficients = stirling_coefficients()
    doublings = int(z).bit_length() - 1
    terms = 1
    while coefficients[terms][1] - (2 * terms + 1) * doublings > -_STIRLING_BITS:
        terms += 1
    inverse = 1 / (z * z)
    total = context.mpf(0)
    for coefficient, _ in reversed(coefficients[:terms]):
        total = total * inverse + coefficient
    return (z - context.mpf(1) / 2) * context.log(z) - z + total / z


@dataclass(frozen=True)
class PolyaNoise:
    """The difference of two NB(shape, e^(−1/scale)): a part of discrete Laplace noise.

    No event belongs to a part: `DiscreteLaplaceNoise.event` speaks for all of them.
    """

    scale: Fraction
    shape: Fraction

    def __post_init__(self) -> None:
        scale, shape = exact_positive("the scale", self.scale), exact_positive("the shape", self.shape)
        if not SMALLEST_SCALE <= scale <= LARGEST_POLYA_SCALE:
            raise PlanError(f"a scale of {float(scale):.6g} is outside 1/100 to 2^40: change the grid")
        if shape > 1:
            raise PlanError(f"a part of discrete Laplace noise has a shape of at most 1, not {shape}")
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "shape", shape)

    @property
    def support(self) -> int:
        """No draw is larger in modulus."""
        return 1 << PolyaLaw(self.shape, 1 / self.scale).exponent

    def part(self, parts: int) -> PolyaNoise:
        """One of `parts` equal shares: that many independent draws of it sum to a draw of the whole."""
        return PolyaNoise(self.scale, share(self.shape, parts))

    def draw(self, shape: int | Sequence[int], randomness: Randomness) -> NDArray[np.int64]:
        """Independent draws, each within 2^-99 of the law in total variation: it takes two Pólya draws."""
        law = PolyaLaw(self.shape, 1 / self.scale)
        return sample(law, shape, randomness) - sample(law, shape, randomness)


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
        extent = 1 << self.exponent
        with working(_WORKING) as context:
            step = -context.expm1(-real(context, self.rate))
            above, below = (
                scaled_floor(context, context.exp(-real(context, self.rate * k)) / step, PRECISION)
                for k in (extent, extent + 1)
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
