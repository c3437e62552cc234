"""Pólya variables, negative binomials of fractional shape: the parts of discrete Laplace noise.

NB(r, q) has P(k) = Γ(k + r)/(Γ(r) k!) · q^k (1 − q)^r. Shapes add, and the difference of two NB(1, q) is
discrete Laplace, so K parties who each add the difference of two NB(1/K, q) make one discrete Laplace.
An observer who knows some parts then faces a law with a peak at 0, which is why pure privacy deals parts
of shape 1/(K − t) (docs/proofs/polya-parts.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PlanError
from colonnade.noise.fixed_point import real, scaled_floor, working
from colonnade.noise.mechanism import exact_positive, share
from colonnade.noise.sampler import sample
from colonnade.noise.table import PRECISION, SLACK
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
