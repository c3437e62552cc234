"""Discrete Gaussian noise: P(k) proportional to exp(−k²/2σ²) on the integers, whole or dealt in parts.

A sum of discrete Gaussians is none, but from a variance of 8 a part on it is so near one that the difference is far
smaller than what truncation costs a draw (docs/proofs/rounded-normal.md). So parts may be dealt, and the observer who
does not know some of them faces a discrete Gaussian of their variance, up to the distance that is taken out of δ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PlanError
from colonnade.noise.mechanism import exact_positive, share, unknown_fraction
from colonnade.noise.sampler import LARGEST_DRAW, PRECISION, sample, sample_symmetric, scaled_decay, side_of
from colonnade.privacy import events
from colonnade.privacy.events import COARSE_BITS, FINE_BITS, FINEST_BITS, Event, MatrixChange, Number
from colonnade.privacy.guarantee import ROUNDING_VARIANCES
from colonnade.randomness import Randomness

SMALLEST_VARIANCE = Fraction(1, 10**9)
LARGEST_VARIANCE = Fraction(1 << 88)
_PRECISIONS = {COARSE_BITS: PRECISION, FINE_BITS: FINE_BITS + 96, FINEST_BITS: FINEST_BITS + 96}
_REACHES = {COARSE_BITS: 150, FINE_BITS: 1400, FINEST_BITS: 2800}
_LOG_LARGEST = {COARSE_BITS: 88, FINE_BITS: 87, FINEST_BITS: 86}
"""c: past √c·σ less than 2^−(bits + 7) of the law is left."""
_GUARD_BITS = 128


def smallest_part(bits: int = COARSE_BITS) -> Fraction:
    """The least variance of parts that sum to the whole, up to the distance that draws are charged for."""
    return Fraction(2 * ROUNDING_VARIANCES[bits])


@dataclass(frozen=True)
class DiscreteGaussianLaw:
    """exp(−k²/2σ²) as the machine reads it."""

    sigma_squared: Fraction
    bits: int = COARSE_BITS

    @property
    def two_sided(self) -> bool:
        return True

    @property
    def precision(self) -> int:
        return _PRECISIONS[self.bits]

    @cached_property
    def exponent(self) -> int:
        """The least m with 4^m ≥ cσ²: both tails together stay below 2e^(−c/2)."""
        exponent = 0
        while 4**exponent < _REACHES[self.bits] * self.sigma_squared:
            exponent += 1
        return exponent

    def mass(self, k: int) -> int:
        return scaled_decay(
            k * k * self.sigma_squared.denominator,
            2 * self.sigma_squared.numerator,
            bits=self.precision,
            working_bits=self.precision + _GUARD_BITS,
        )

    @cached_property
    def _bend(self) -> int:
        return -(-(1 << self.precision) // self.sigma_squared)

    def curvature(self, start: int, mass: int) -> int:
        """A second difference is a mean of second derivatives, which are at most 1/σ²."""
        return self._bend

    def tails(self) -> None:
        return None


@dataclass(frozen=True)
class DiscreteGaussianNoise:
    """Independent discrete Gaussians of parameter σ² in every coordinate, each draw within 2^−bits of its law."""

    sigma_squared: Fraction
    bits: int = COARSE_BITS

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma_squared", checked_variance(self.sigma_squared, self.bits))

    @property
    def support(self) -> int:
        """No draw is larger in modulus."""
        return 1 << DiscreteGaussianLaw(self.sigma_squared, self.bits).exponent

    def part(self, parts: int) -> DiscreteGaussianNoise:
        """One of `parts` equal shares: that many independent draws sum to the whole, up to the charged distance."""
        if parts > 1:
            check_part(share(self.sigma_squared, parts), self.bits)
        return replace(self, sigma_squared=share(self.sigma_squared, parts))

    def draw(self, shape: int | Sequence[int], randomness: Randomness) -> NDArray[np.int64]:
        """Independent draws, each within 2^−bits of the law in total variation."""
        return sample(DiscreteGaussianLaw(self.sigma_squared, self.bits), shape, randomness)

    def event(
        self, sensitivity: Number, *, known: int = 0, parts: int = 1, of: int = 1, entries: int = LARGEST_DRAW
    ) -> Event:
        """What an observer is left with who knows `known` of `parts` parts, each 1/of of this noise.

        `sensitivity` is in L2, `entries` how many coordinates are released; left out, the most that one draw can have.
        Of several wholes too small for a sum one counts, and the others are post-processing.
        """
        left = unknown_fraction(known=known, parts=parts, of=of)
        unknown = parts - known
        part = self.part(of).sigma_squared
        if of == 1 and part < smallest_part(self.bits):
            left, unknown = Fraction(1), 1
        leaf = events.DiscreteGaussian(sensitivity, self.sigma_squared * left, coordinates=entries)
        return events.Approximated(leaf, draws=unknown * entries, bits=self.bits)


@dataclass(frozen=True)
class MatrixGaussianNoise:
    """Symmetric noise for a symmetric matrix: discrete Gaussians of parameter σ² on the diagonal, σ²/2 off it.

    The Frobenius norm counts an off-diagonal entry twice, so half the variance hides it as well.
    """

    sigma_squared: Fraction
    bits: int = COARSE_BITS

    def __post_init__(self) -> None:
        halved = DiscreteGaussianNoise(exact_positive("σ²", self.sigma_squared) / 2, self.bits)
        check_part(halved.sigma_squared, FINE_BITS)
        object.__setattr__(self, "sigma_squared", checked_variance(2 * halved.sigma_squared, self.bits))

    @property
    def support(self) -> int:
        """No draw is larger in modulus."""
        return 1 << DiscreteGaussianLaw(self.sigma_squared, self.bits).exponent

    def part(self, parts: int) -> MatrixGaussianNoise:
        """One of `parts` equal shares: that many independent draws sum to the whole, up to the charged distance."""
        return replace(self, sigma_squared=share(self.sigma_squared, parts))

    def draw_symmetric(self, size: int, randomness: Randomness) -> NDArray[np.int64]:
        """A size × size symmetric integer matrix; each unordered entry is drawn once."""
        diagonal = DiscreteGaussianLaw(self.sigma_squared, self.bits)
        return sample_symmetric(
            diagonal, DiscreteGaussianLaw(self.sigma_squared / 2, self.bits), size, randomness
        )

    def draw(self, shape: int | Sequence[int], randomness: Randomness) -> NDArray[np.int64]:
        """As `draw_symmetric`, for callers that know a shape (n, n)."""
        return self.draw_symmetric(side_of(shape), randomness)

    def event(
        self, change: MatrixChange, *, known: int = 0, parts: int = 1, of: int = 1, size: int | None = None
    ) -> Event:
        """What an observer is left with who knows `known` of `parts` parts, each 1/of of this noise.

        `size` is the side of the matrix; left out, the most entries that one draw can have are counted.
        """
        self.part(of)
        left = self.sigma_squared * unknown_fraction(known=known, parts=parts, of=of)
        return matrix_gaussian_event(change, left, size=size, parts=parts - known, bits=self.bits)


def matrix_gaussian_event(
    change: MatrixChange, variance: Fraction, *, size: int | None, parts: int, bits: int = COARSE_BITS
) -> Event:
    """What a matrix under so many unknown parts of this variance together is, for a change of it.

    In units of its own deviation an entry off the diagonal counts √2 times, so that rounding takes twice as much
    variance there: what the coarsest rounding takes is left out once here, and once more by the route itself
    (docs/proofs/rounded-normal.md). One entry is counted as two, because the law off the diagonal is another.
    """
    entries = LARGEST_DRAW if size is None else size * (size + 1) // 2
    # Calibration also looks where no sampler goes; as good as no noise is no more than there is.
    left = max(variance - ROUNDING_VARIANCES[FINE_BITS], min(variance, SMALLEST_VARIANCE))
    leaf = events.DiscreteGaussian(change.frobenius, left, coordinates=max(2, entries))
    return events.Approximated(leaf, draws=parts * entries, bits=bits)


def checked_variance(variance: object, bits: int = COARSE_BITS) -> Fraction:
    """σ² as an exact fraction inside the range that the tables are proved for."""
    if bits not in _PRECISIONS:
        raise PlanError(
            f"discrete Gaussians are drawn to {', '.join(map(str, _PRECISIONS))} bits, not {bits}"
        )
    exact = exact_positive("σ²", variance)
    # Finer draws reach further, and no table is longer.
    log_largest = _LOG_LARGEST[bits]
    if not SMALLEST_VARIANCE <= exact <= 1 << log_largest:
        raise PlanError(f"σ² = {float(exact):.6g} is outside 1e-9 to 2^{log_largest}: change the grid")
    return exact


def check_part(variance: Fraction, bits: int) -> None:
    """Refuse parts of so little variance that their sum is not a discrete Gaussian."""
    least = smallest_part(bits)
    if variance < least:
        raise PlanError(
            f"parts of variance {float(variance):.3g} do not sum to a discrete Gaussian, which takes {least} or more: "
            "use a finer grid, or deal Skellam noise in parts"
        )
