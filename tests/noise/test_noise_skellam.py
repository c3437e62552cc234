"""Skellam noise: its probabilities against Bessel functions, its draws against its probabilities."""

from fractions import Fraction

import mpmath
import pytest

from colonnade.noise.sampler import PRECISION
from colonnade.noise.skellam import SkellamLaw


def bessel_mass(mu: Fraction, k: int, period: int) -> mpmath.mpf:
    """2^192·N·f(k) with f(k) = e^(−2μ) I_k(2μ): an independent formula."""
    with mpmath.workprec(700):
        z = 2 * mpmath.mpf(mu.numerator) / mu.denominator
        return mpmath.ldexp(period * mpmath.exp(-z) * mpmath.besseli(k, z), PRECISION)


def hankel_mass(mu: Fraction, k: int, period: int) -> mpmath.mpf:
    """The same for large μ, where Hankel's series for I_k converges to full precision before it diverges."""
    with mpmath.workprec(1400):
        z = 2 * mpmath.mpf(mu.numerator) / mu.denominator
        term, total, j = mpmath.mpf(1), mpmath.mpf(1), 0
        while abs(term) > mpmath.ldexp(1, -600):
            j += 1
            term = -term * (4 * mpmath.mpf(k) ** 2 - (2 * j - 1) ** 2) / (j * 8 * z)
            total += term
        return mpmath.ldexp(period * total / mpmath.sqrt(2 * mpmath.pi * z), PRECISION)


@pytest.mark.parametrize(
    "mu", [Fraction(1, 10**9), Fraction(1, 7), Fraction(1), Fraction(123, 10), Fraction(10**4)]
)
def test_the_masses_are_bessel_functions_to_within_two_units(mu: Fraction) -> None:
    law = SkellamLaw(mu)
    extent = 1 << law.exponent
    for k in {*range(min(extent, 40)), *range(0, extent + 1, max(1, extent // 20)), extent}:
        assert abs(law.mass(k) - bessel_mass(mu, k, law.period)) <= 2


@pytest.mark.parametrize(
    "mu", [Fraction(10**6), Fraction(10**10, 3), Fraction(10**15), Fraction(10**18), Fraction(10**24)]
)
def test_the_masses_follow_hankels_series_to_within_two_units_at_large_mu(mu: Fraction) -> None:
    law = SkellamLaw(mu)
    extent = 1 << law.exponent
    for k in {0, 1, 2, 3, *range(0, extent + 1, extent // 40), extent - 1, extent}:
        assert abs(law.mass(k) - hankel_mass(mu, k, law.period)) <= 2


@pytest.mark.parametrize("decade", range(-9, 19))
def test_fewer_than_four_hundred_terms_matter_for_every_mu(decade: int) -> None:
    """The error bound of the recurrence is proved for that many."""
    law = SkellamLaw(Fraction(10) ** decade)
    assert len(law.terms) < 400
    assert law.period < 1 << 40
