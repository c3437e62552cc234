"""The discrete Gaussian as rounded normal noise: the constants of the proof, and its claims where one can sum."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath.ctx_mp_python import mpf
from typed import untyped

from colonnade.errors import PrivacyError
from colonnade.noise.discrete_gaussian import matrix_gaussian_event, smallest_part
from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.events import (
    COARSE_BITS,
    FINE_BITS,
    FINEST_BITS,
    Approximated,
    Composed,
    DiscreteGaussian,
    Gaussian,
    MatrixChange,
    PoissonSampled,
    Repeated,
    Skellam,
    event_from_data,
    event_to_data,
    itemise,
)
from colonnade.privacy.guarantee import ROUNDING_VARIANCES, account, delta_at, root_below, rounded_normals
from colonnade.privacy.renyi import gaussian_delta, least_epsilon

BITS = 400


def eta(variance: float | mpf) -> mpf:
    """η(s) = 2 Σ exp(−2π²s²m²), summed far past every digit used here."""
    return 2 * mpmath.fsum(mpmath.exp(-2 * mpmath.pi**2 * variance * m * m) for m in range(1, 60))


def discrete(variance: mpf, extent: int) -> list[mpf]:
    weights = [mpmath.exp(-mpmath.mpf(k * k) / (2 * variance)) for k in range(-extent, extent + 1)]
    total = mpmath.fsum(weights)
    return [weight / total for weight in weights]


def distance(one: list[mpf], other: list[mpf]) -> mpf:
    return mpmath.fsum(abs(p - q) for p, q in zip(one, other, strict=True)) / 2


@pytest.mark.parametrize(("bits", "least"), [(COARSE_BITS, 4), (FINE_BITS, 36), (FINEST_BITS, 72)])
def test_the_roundings_are_as_near_as_charged_and_take_what_vectors_and_matrices_need(
    bits: int, least: int
) -> None:
    with mpmath.workprec(3000):
        for variance in (least, 2 * least):
            series = eta(variance)
            assert series * (1 + series) / (1 - series) < mpmath.mpf(2) ** -(bits + 12)
    used = ROUNDING_VARIANCES[bits]
    assert used >= least and smallest_part(bits) >= 2 * least
    # Off the diagonal the variance is half, so that it takes 2s² of the whole; the event has left out some already.
    change = MatrixChange(frobenius=2, weighted_l1=4, fourth=6, fourth_l1=6)
    event = matrix_gaussian_event(change, Fraction(1000), size=3, parts=1, bits=bits)
    assert isinstance(event, Approximated) and isinstance(event.event, DiscreteGaussian)
    assert event.event.sigma_squared - used <= 1000 - 2 * least


@pytest.mark.parametrize(
    ("first", "second"),
    [(Fraction(1, 2), Fraction(1, 2)), (1, 1), (1, 3), (2, 2), (2, 5), (Fraction(1, 3), 2)],
)
def test_the_sum_of_two_discrete_gaussians_is_as_near_to_one_as_is_proved_and_not_much_nearer(
    first: int | Fraction, second: int | Fraction
) -> None:
    with mpmath.workprec(BITS):
        one, other = (mpmath.mpf(part.numerator) / part.denominator for part in (first, second))
        extent = math.ceil(22 * math.sqrt(max(first, second)))
        left, right = discrete(one, extent), discrete(other, extent)
        summed = [
            mpmath.fsum(left[j] * right[k - j] for j in range(max(0, k - 2 * extent), min(2 * extent, k) + 1))
            for k in range(4 * extent + 1)
        ]
        found = distance(summed, discrete(one + other, 2 * extent))
        bound = eta(one * other / (one + other))
        # Truncation of the lists, at 22 deviations, is far below what is compared.
        assert bound / (1 - bound) * (1 + mpmath.mpf(10) ** -20) >= found > bound / 1000


def test_many_small_parts_add_up_to_no_more_than_is_charged() -> None:
    with mpmath.workprec(BITS):
        part, extent = mpmath.mpf(1), 24
        law = summed = discrete(part, extent)
        for number in range(2, 6):
            size = len(summed) + len(law) - 1
            summed = [
                mpmath.fsum(
                    law[j] * summed[k - j]
                    for j in range(max(0, k - len(summed) + 1), min(len(law) - 1, k) + 1)
                )
                for k in range(size)
            ]
            bound = eta(part / 2)
            assert distance(summed, discrete(number * part, number * extent)) <= (number - 1) * bound / (
                1 - bound
            )


@pytest.mark.parametrize(("variance", "rounding"), [(1.0, 0.25), (2.0, 0.5), (1.5, 0.4)])
def test_rounded_normal_noise_is_as_near_to_a_discrete_gaussian_as_is_proved(
    variance: float, rounding: float
) -> None:
    # A sum over a fine grid is the integral of so smooth a function, up to the last bits of a double.
    values, step = np.arange(-16, 16.001, 0.01), 0.01
    density = np.exp(-(values**2) / (2 * (variance - rounding))) / math.sqrt(
        2 * math.pi * (variance - rounding)
    )
    integers = np.arange(-20, 21)
    weights = np.exp(-((integers[:, None] - values) ** 2) / (2 * rounding))
    rounded = (weights / weights.sum(axis=0) * density).sum(axis=1) * step
    law = np.exp(-(integers.astype(float) ** 2) / (2 * variance))
    found = np.abs(rounded - law / law.sum()).sum() / 2
    bound = float(eta(rounding))
    assert bound * (1 + bound) / (1 - bound) >= found > 1e-12


def exact_delta(variance: int, shift: tuple[int, ...], epsilon: float) -> float:
    """Σ max(0, P − e^ε Q) over a box that holds all but 1e-14 of both laws."""
    extent = math.ceil(8 * math.sqrt(variance)) + max(abs(step) for step in shift)
    points = np.arange(-extent, extent + 1)
    law = np.exp(-(points.astype(float) ** 2) / (2 * variance))
    law /= law.sum()
    first = second = np.ones(1)
    for step in shift:
        first = np.multiply.outer(first, law).ravel()
        moved = np.interp(points - step, points, law, left=0.0, right=0.0)
        second = np.multiply.outer(second, moved).ravel()
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())


@pytest.mark.parametrize("variance", [5, 9, 20, 60])
@pytest.mark.parametrize("shift", [(1,), (3,), (2, 1), (3, 4), (1, 1, 1)])
def test_no_vector_of_discrete_gaussians_costs_more_than_the_route_says(
    variance: int, shift: tuple[int, ...]
) -> None:
    if len(shift) == 3 and variance > 9:
        pytest.skip("a box of three sides is long")
    event = DiscreteGaussian(math.hypot(*shift), variance, coordinates=max(2, len(shift)))
    [(leaf, _)] = next(rounded_normals(itemise(event))).leaves
    for epsilon in (0.1, 0.5, 1.0, 2.2, 4.0):
        by_normal = gaussian_delta(float(untyped(leaf).sensitivity / untyped(leaf).sigma), epsilon)
        assert exact_delta(variance, shift, epsilon) <= by_normal + 1e-13
        assert exact_delta(variance, shift, epsilon) <= delta_at(event, epsilon) + 1e-13


def test_without_what_rounding_takes_the_curve_would_be_too_small_and_more_entries_cost_no_less() -> None:
    assert exact_delta(1, (1,), 2.2) > 1.2 * gaussian_delta(1.0, 2.2)
    costs = [account(DiscreteGaussian(50, 10**4, coordinates=n), 1e-6).epsilon for n in (2, 10**3, 10**9)]
    assert all(less <= more for less, more in itertools.pairwise(costs))
    small = DiscreteGaussian(1, 6, coordinates=40)
    assert account(small, 1e-5).epsilon == account(DiscreteGaussian(1, 6), 1e-5).epsilon
    large = DiscreteGaussian(10, 600, coordinates=40)
    assert account(large, 1e-5).epsilon < account(DiscreteGaussian(10, 600), 1e-5).epsilon


def test_the_route_needs_what_central_normal_noise_needs() -> None:
    """3.7306316 deviations for each unit of sensitivity at ε = 1 and δ = 1e-5; the Rényi route needs 4.04."""
    event = lambda variance: Approximated(DiscreteGaussian(10**6, variance, coordinates=500), draws=1000)  # noqa: E731
    deviation = math.sqrt(calibrate(event, epsilon=1.0, delta=1e-5)) / 10**6
    assert 3.7306316 < deviation < 3.73065
    blind = lambda variance: Approximated(DiscreteGaussian(10**6, variance), draws=1000)  # noqa: E731
    assert 4.0 < math.sqrt(calibrate(blind, epsilon=1.0, delta=1e-5)) / 10**6 < 4.1


def test_compositions_and_secret_samples_cost_what_normal_noise_does() -> None:
    events = (DiscreteGaussian(30, 10**4, coordinates=9), Gaussian(3, 10))
    cost = account(Composed(tuple(Repeated(event, 2) for event in events)), 1e-6)
    assert cost.method.startswith("Gaussian")
    [first, *_] = rounded_normals(itemise(Repeated(Composed(events), 3)))
    assert first.draws == 27
    assert first.total_variation == Fraction(27, 2**112)
    leaf = DiscreteGaussian(1000, 10**7, coordinates=20)
    sampled = Repeated(PoissonSampled(Fraction(1, 10), Approximated(leaf, draws=40)), 50)
    normal = Repeated(PoissonSampled(Fraction(1, 10), Gaussian(1000, math.sqrt(10**7))), 50)
    spent, ideal = account(sampled, 1e-6).epsilon, account(normal, 1e-6).epsilon
    assert ideal <= spent <= ideal * (1 + 1e-4)
    assert spent < least_epsilon(itemise(sampled), 1e-6)[0]


def test_what_has_no_normal_reading_has_none() -> None:
    wide = DiscreteGaussian(1, 100, coordinates=3)
    for event in (
        DiscreteGaussian(1, 100),
        DiscreteGaussian(1, 4, coordinates=3),
        Composed((wide, Skellam(1, 1, 50))),
        Gaussian(1, 4),
        Composed(()),
    ):
        assert list(rounded_normals(itemise(event))) == []
    assert len(list(rounded_normals(itemise(wide)))) == 2
    assert len(list(rounded_normals(itemise(DiscreteGaussian(1, 30, coordinates=3))))) == 1


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**30))
def test_roots_are_rounded_down_and_hardly(square: Fraction) -> None:
    root = root_below(square)
    assert root**2 <= square < (root * (1 + Fraction(1, 2**100))) ** 2


def test_fine_draws_reach_where_coarse_ones_cost_more_than_delta_and_past_doubles_nothing_does() -> None:
    leaf = DiscreteGaussian(10**6, Fraction(10**12, 200), coordinates=1000)
    with pytest.raises(PrivacyError, match="e\\^ε"):
        account(Approximated(leaf, draws=2000), 1e-5)
    fine = Approximated(leaf, draws=2000, bits=FINE_BITS)
    cost = account(fine, 1e-5)
    assert 150 < cost.epsilon < 170
    assert delta_at(fine, cost.epsilon) <= 1e-5 * (1 + 1e-6)
    assert delta_at(Approximated(leaf, draws=2000), cost.epsilon) == 1.0
    leaf = DiscreteGaussian(10**6, Fraction(10**12, 2000), coordinates=1000)
    with pytest.raises(PrivacyError, match="e\\^ε"):
        account(Approximated(leaf, draws=2000, bits=FINE_BITS), 1e-5)


def test_events_say_how_fine_their_draws_are_and_those_of_before_are_coarse() -> None:
    leaf = DiscreteGaussian(3, 100, coordinates=4)
    coarse, fine = Approximated(leaf, draws=8), Approximated(leaf, draws=8, bits=FINE_BITS)
    assert "bits" not in event_to_data(coarse)
    for event in (coarse, fine):
        assert event_from_data(event_to_data(event)) == event
    assert fine.total_variation < coarse.total_variation == Fraction(8, 2**100)
    mixed = itemise(Composed((coarse, Repeated(fine, 2))))
    assert mixed.draws == 24
    assert mixed.total_variation == coarse.total_variation + 2 * fine.total_variation
    for wrong in ({**event_to_data(fine), "bit": 3}, {**event_to_data(fine), "bits": 0}):
        with pytest.raises(ValueError, match="bit"):
            event_from_data(wrong)
