"""Skellam noise: the difference of two Poisson variables of mean μ. Parts of it sum to the whole.

The probabilities come from their Fourier sum, which is an identity and needs no Bessel function:
Σ_j f(k + jN) = (1/N) Σ_m exp(−4μ sin²(πm/N)) cos(2πkm/N). Aliases are Skellam tails, a Chernoff bound
away, and about 150 terms matter for every μ (docs/proofs/skellam-evaluation.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PlanError
from colonnade.noise import sampler
from colonnade.noise.mechanism import exact_positive, share, unknown_fraction
from colonnade.noise.sampler import LARGEST_DRAW, PRECISION, SLACK, real, scaled_floor, working
from colonnade.privacy.events import Approximated, Event, MatrixChange, MatrixSkellam, Skellam
from colonnade.privacy.sensitivity.matrix import VectorChange
from colonnade.randomness import Randomness

SMALLEST_MU = Fraction(1, 10**9)
LARGEST_MU = Fraction(10**24)
_BITS = PRECISION + 64  # fixed point of the Fourier sum: 64 guard bits
_WORKING = _BITS + 160
_TRUNCATED = -105  # log2 of the mass that the support may leave out
_ALIASED = -320


def log2_tail(mu: Fraction, extent: int) -> float:
    """log2 of a bound on P(|X| ≥ reach): Chernoff, 2·exp(2μ(cosh t − 1) − t·reach) at sinh t = reach/2μ."""
    with working(_WORKING) as context:
        slope = context.mpf(extent) / (2 * real(context, mu))
        twist = context.asinh(slope)
        exponent = 2 * real(context, mu) * (context.sqrt(1 + slope * slope) - 1) - twist * extent
        return float(1 + exponent / context.ln2)


def first_extent(mu: Fraction, log2_mass: int) -> int:
    """The least integer x ≥ 1 whose tail bound is at most 2^log2_mass."""
    high = 1
    while log2_tail(mu, high) > log2_mass:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if log2_tail(mu, middle) <= log2_mass else (middle, high)
    return high


@dataclass(frozen=True)
class SkellamLaw:
    """Sk(μ), variance 2μ, as the machine reads it."""

    mu: Fraction

    @property
    def two_sided(self) -> bool:
        return True

    @property
    def precision(self) -> int:
        return PRECISION

    @cached_property
    def exponent(self) -> int:
        return (first_extent(self.mu, _TRUNCATED) - 1).bit_length()

    @cached_property
    def period(self) -> int:
        """N, even: for |k| ≤ 2^m every alias k + jN lies where the tail is below 2^-320."""
        return ((1 << self.exponent) + first_extent(self.mu, _ALIASED) + 1) // 2 * 2

    @cached_property
    def terms(self) -> tuple[int, ...]:
        """The Fourier coefficients in fixed point; they do not depend on k."""
        half = self.period // 2
        terms = [1 << _BITS]
        with working(_WORKING) as context:
            rate = 4 * real(context, self.mu)
            for j in range(1, half + 1):
                phasor = context.sinpi(context.mpf(j) / self.period)
                value = context.exp(-rate * phasor * phasor)
                if scaled_floor(context, value * self.period, _BITS) == 0:
                    break
                # j and N − j give the same term, except that N/2 has no partner.
                terms.append(scaled_floor(context, value if j == half else 2 * value, _BITS))
        return tuple(terms)

    def mass(self, k: int) -> int:
        with working(_WORKING) as context:
            cosine = scaled_floor(context, context.cospi(2 * context.mpf(k) / self.period), _BITS)
        last, before = 0, 0
        for term in self.terms[:0:-1]:
            last, before = term + (cosine * last >> (_BITS - 1)) - before, last
        total = (self.terms[0] + (cosine * last >> _BITS) - before) >> (_BITS - PRECISION)
        return max(total, 0)  # where f < 2^-192 the rounding may fall below zero

    @cached_property
    def _bend(self) -> int:
        return 2 * (self.mass(0) - self.mass(1)) + 8 * SLACK

    def curvature(self, start: int, mass: int) -> int:
        """f(k+1) − 2f(k) + f(k−1) is largest in modulus at 0, because f has a positive transform."""
        return self._bend

    def tails(self) -> None:
        return None


@dataclass(frozen=True)
class SkellamNoise:
    """Independent Sk(μ) in every coordinate; variance 2μ."""

    mu: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", checked_mu(self.mu))

    @property
    def support(self) -> int:
        """No draw is larger in modulus."""
        return 1 << SkellamLaw(self.mu).exponent

    def part(self, parts: int) -> SkellamNoise:
        """One of `parts` equal shares: that many independent draws of it sum to a draw of the whole."""
        return SkellamNoise(share(self.mu, parts))

    def draw(self, shape: int | Sequence[int], randomness: Randomness) -> NDArray[np.int64]:
        """Independent draws, each within 2^-100 of Sk(μ) in total variation."""
        return sampler.sample(SkellamLaw(self.mu), shape, randomness)

    def event(
        self,
        change: VectorChange,
        *,
        known: int = 0,
        parts: int = 1,
        of: int = 1,
        entries: int = LARGEST_DRAW,
    ) -> Event:
        """What an observer is left with who knows `known` of `parts` parts, each 1/of of this noise.

        `entries` is how many coordinates are released; left out, the most that one draw can have.
        """
        mu = self.mu * unknown_fraction(known=known, parts=parts, of=of)
        leaf = Skellam(change.l1, change.l2, mu, coordinates=1 if entries == 1 else None)
        return Approximated(leaf, draws=(parts - known) * entries)


@dataclass(frozen=True)
class MatrixSkellamNoise:
    """Symmetric noise for a symmetric matrix: Sk(μ) on the diagonal, Sk(μ/2) off it.

    The Frobenius norm counts an off-diagonal entry twice, so half the variance hides it as well.
    """

    mu: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", 2 * checked_mu(exact_positive("μ", self.mu) / 2))
        checked_mu(self.mu)

    @property
    def support(self) -> int:
        """No draw is larger in modulus."""
        return 1 << SkellamLaw(self.mu).exponent

    def part(self, parts: int) -> MatrixSkellamNoise:
        """One of `parts` equal shares: that many independent draws of it sum to a draw of the whole."""
        return MatrixSkellamNoise(share(self.mu, parts))

    def draw_symmetric(self, size: int, randomness: Randomness) -> NDArray[np.int64]:
        """A size × size symmetric integer matrix; each unordered entry is drawn once."""
        return sampler.sample_symmetric(SkellamLaw(self.mu), SkellamLaw(self.mu / 2), size, randomness)

    def draw(self, shape: int | Sequence[int], randomness: Randomness) -> NDArray[np.int64]:
        """As `draw_symmetric`, for callers that know a shape (n, n)."""
        return self.draw_symmetric(sampler.side_of(shape), randomness)

    def event(
        self, change: MatrixChange, *, known: int = 0, parts: int = 1, of: int = 1, size: int | None = None
    ) -> Event:
        """What an observer is left with who knows `known` of `parts` parts, each 1/of of this noise.

        `size` is the side of the matrix; left out, the most entries that one draw can have are counted.
        """
        mu = self.mu * unknown_fraction(known=known, parts=parts, of=of)
        entries = LARGEST_DRAW if size is None else size * (size + 1) // 2
        return Approximated(MatrixSkellam(change, mu), draws=(parts - known) * entries)


def checked_mu(mu: object) -> Fraction:
    """μ as an exact fraction inside the range that the tables are proved for."""
    exact = exact_positive("μ", mu)
    if not SMALLEST_MU <= exact <= LARGEST_MU:
        raise PlanError(
            f"Skellam noise is drawn for μ from 1e-9 to 1e24, not {float(exact):.6g}: change the grid"
        )
    return exact
