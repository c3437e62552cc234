"""Calibration is the inverse of accounting: within the target, and just below it no longer; so are batches' sizes."""

import contextlib
import math
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from colonnade.errors import PlanError, PrivacyError
from colonnade.privacy import events
from colonnade.privacy.calibrate import (
    as_draws,
    batch_capacity,
    binomial_tail,
    calibrate,
    calibrate_poisson_binomial,
    most_uses,
)
from colonnade.privacy.guarantee import account
from colonnade.privacy.renyi import gaussian_mu

FAMILIES: dict[str, Callable[[Fraction], events.Event]] = {
    "gaussian": lambda noise: events.Gaussian(3, noise),
    "discrete gaussian": lambda noise: events.DiscreteGaussian(12, noise),
    "steps": lambda noise: events.PerStep((5, 1, 1), noise),
    "skellam": lambda noise: events.Approximated(events.Skellam(300, 25, noise), 10**6),
    "matrix": lambda noise: events.MatrixSkellam(
        events.MatrixChange(10**6, 10**8, 2 * 10**12, 2 * 10**8), noise
    ),
    "mixture": lambda noise: events.Composed(
        (events.Skellam(30, 5, noise), events.DiscreteGaussian(5, noise))
    ),
}
OTHER_FAMILIES: dict[str, Callable[[Fraction], events.Event]] = {
    "laplace": lambda noise: events.Repeated(events.Laplace(1, noise), 10),
    "discrete laplace": lambda noise: events.Repeated(events.DiscreteLaplace(4, noise), 5),
    "sampled": lambda noise: events.Repeated(
        events.PoissonSampled(Fraction(1, 50), events.Skellam(300, 25, noise)), 40
    ),
    "one integer": lambda noise: events.DiscreteGaussian(3, noise, 1),
}


def is_least(family: Callable[[Fraction], events.Event], epsilon: float, delta: float, digits: int) -> None:
    noise = calibrate(family, epsilon=epsilon, delta=delta, digits=digits)
    assert account(family(noise), delta).epsilon <= epsilon
    exponent = math.floor(math.log10(noise) + 1e-12) - digits + 1
    step = Fraction(10) ** exponent
    assert noise % step == 0
    with contextlib.suppress(PrivacyError):
        assert account(family(noise - step), delta).epsilon > epsilon


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
@settings(max_examples=6, deadline=None)
@given(epsilon=st.floats(0.05, 20), digits=st.integers(2, 8), delta=st.sampled_from([1e-9, 1e-5]))
def test_calibrated_noise_is_within_the_target_and_least(
    family: Callable[[Fraction], events.Event], epsilon: float, delta: float, digits: int
) -> None:
    is_least(family, epsilon, delta, digits)


@pytest.mark.parametrize("family", OTHER_FAMILIES.values(), ids=OTHER_FAMILIES.keys())
def test_noise_calibrated_through_sampling_or_loss_distributions_is_least(
    family: Callable[[Fraction], events.Event],
) -> None:
    is_least(family, 1.0, 1e-5, 3)


def test_known_noise_is_found_and_targets_out_of_reach_are_refused() -> None:
    sigma = calibrate(lambda sigma: events.Gaussian(1, sigma), epsilon=1.0, delta=1e-5, digits=10)
    assert float(sigma) == pytest.approx(1 / gaussian_mu(1.0, 1e-5), rel=1e-9)
    assert sigma >= Fraction(1 / gaussian_mu(1.0, 1e-5))
    assert calibrate(lambda scale: events.Laplace(7, scale), epsilon=0.5, delta=0) == 14
    assert calibrate(lambda sigma: events.Gaussian(0, sigma), epsilon=1.0, delta=1e-5) == Fraction(1, 10**12)
    with pytest.raises(PlanError, match="no noise"):
        calibrate(lambda sigma: events.Gaussian(1, sigma), epsilon=1.0, delta=0)
    with pytest.raises(PlanError, match="no β"):
        calibrate_poisson_binomial(2, trials=(400,), times=10**6, epsilon=1e-3, delta=0)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 1e-5), (-1.0, 1e-5), (math.inf, 1e-5), (math.nan, 0.1), (1.0, 1.0)]
)
def test_a_target_that_is_none_is_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(ValueError, match="target"):
        calibrate(lambda sigma: events.Gaussian(1, sigma), epsilon=epsilon, delta=delta)
    with pytest.raises(ValueError, match="target"):
        calibrate_poisson_binomial(2, trials=(2,), times=1, epsilon=epsilon, delta=delta)


def test_calibrated_coins_are_within_the_target_and_as_bold_as_it_allows() -> None:
    event = calibrate_poisson_binomial(3, trials=(1, 2, 1), times=8, epsilon=3.0, delta=1e-5)
    assert account(events.Repeated(event, 8), 1e-5).epsilon <= 3.0
    bolder = events.PoissonBinomial(3, event.trials, event.beta + Fraction(1, 10**6))
    assert account(events.Repeated(bolder, 8), 1e-5).epsilon > 3.0
    other = calibrate_poisson_binomial(3, trials=(1,), times=8, epsilon=3.0, delta=1e-5)
    assert event.trials * event.beta**2 > other.trials * other.beta**2
    event = calibrate_poisson_binomial(3, trials=(1,), times=1, epsilon=100.0, delta=0)
    assert event.beta == Fraction(1, 2) - Fraction(1, 10**6)


# Capacities and uses of Poisson batches against the binomial law itself.


rates = st.fractions(0, 1, max_denominator=1 << 16)


@given(st.integers(0, 3000), rates, st.integers(0, 3000))
def test_the_tail_bound_is_above_the_tail(trials: int, rate: Fraction, above: int) -> None:
    assert binomial_tail(trials, rate, above) >= float(binom.sf(above, trials, float(rate))) * (1 - 1e-9)


@given(st.integers(1, 3000), rates, st.integers(0, 3000))
def test_a_larger_capacity_overflows_less_often(trials: int, rate: Fraction, above: int) -> None:
    assert binomial_tail(trials, rate, above + 1) <= binomial_tail(trials, rate, above)


def test_the_tail_bound_is_not_idle_and_keeps_its_digits_in_long_sums() -> None:
    for trials, rate, above in ((100_000, Fraction(1, 1000), 180), (1000, Fraction(1, 100), 40)):
        exact = float(binom.sf(above, trials, float(rate)))
        assert exact <= binomial_tail(trials, rate, above) <= 30 * exact
    trials, rate = 10**8, Fraction(1, 10)
    above = 10**7 + 33_000
    exact = float(binom.logsf(above, trials, 0.1))
    assert exact <= math.log(binomial_tail(trials, rate, above)) <= 0.9 * exact
    assert binomial_tail(trials, rate, above) >= float(binom.sf(above, trials, 0.1)) * (1 - 1e-6)
    assert batch_capacity(50, Fraction(1), steps=3, overflow=1e-12) == 50
    assert most_uses(7, Fraction(1), overflow=1e-12) == 7
    assert (
        batch_capacity(50, Fraction(0), steps=3, overflow=1e-12)
        == most_uses(7, Fraction(0), overflow=0.0)
        == 0
    )


@given(st.integers(1, 3000), rates, st.integers(1, 500), st.sampled_from([1e-3, 1e-9, 1e-15]))
def test_a_capacity_is_the_least_that_keeps_its_promise(
    rows: int, rate: Fraction, steps: int, overflow: float
) -> None:
    capacity = batch_capacity(rows, rate, steps=steps, overflow=overflow)
    assert 0 <= capacity <= rows
    assert steps * binomial_tail(rows, rate, capacity) <= overflow
    assert capacity == 0 or steps * binomial_tail(rows, rate, capacity - 1) > overflow


@given(st.integers(1, 500), rates, st.sampled_from([1e-3, 1e-9, 1e-15]))
def test_uses_are_the_least_that_keep_their_promise(steps: int, rate: Fraction, overflow: float) -> None:
    uses = most_uses(steps, rate, overflow=overflow)
    assert 0 <= uses <= steps
    assert float(binom.sf(uses, steps, float(rate))) <= overflow * (1 + 1e-9)
    assert uses == 0 or binomial_tail(steps, rate, uses - 1) > overflow


@given(st.floats(0, 1))
def test_a_distance_in_draws_is_rounded_up(probability: float) -> None:
    draws = as_draws(probability)
    assert draws >= Fraction(probability) * 2**events.COARSE_BITS > draws - 1


@pytest.mark.parametrize("wrong", [(-1, Fraction(1, 2), 0), (5, Fraction(3, 2), 0), (5, Fraction(1, 2), -1)])
def test_what_is_no_binomial_is_refused(wrong: tuple[int, Fraction, int]) -> None:
    with pytest.raises(ValueError, match="no tail"):
        binomial_tail(*wrong)
