"""Routes from an event to (ε, δ): the tightest is taken, every one is sound, and distances are paid for."""

import math
from fractions import Fraction

import mpmath as mp
import pytest
from dp_accounting import dp_event, rdp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from privacy_strategies import additive, events

from colonnade.errors import PrivacyError
from colonnade.privacy.events import (
    TOTAL_VARIATION_PER_DRAW,
    AdditiveNoise,
    Approximated,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    MatrixChange,
    MatrixSkellam,
    PerStep,
    PoissonBinomial,
    PoissonSampled,
    Repeated,
    Skellam,
    itemise,
)
from colonnade.privacy.guarantee import account, delta_at, least_delta_of_routes
from colonnade.privacy.renyi import (
    best_order,
    delta_from_renyi,
    epsilon_from_renyi,
    float_above,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    gaussian_sigma,
    least_delta,
    least_epsilon,
    pure_epsilon,
    round_up,
)
from colonnade.testing import check_event


def test_normal_noise_is_accounted_for_exactly() -> None:
    event = Composed((Gaussian(1, 5), Repeated(Gaussian(3, 10), 2), PerStep((1, 2), 100, discrete=False)))
    mu = math.sqrt(1 / 25 + 2 * 9 / 100 + 5 / 100)
    cost = account(event, 1e-5)
    assert cost.method == f"Gaussian (μ = {mu:.3g})"
    assert cost.order is None
    assert cost.epsilon == pytest.approx(gaussian_epsilon(mu, 1e-5), rel=1e-11)
    assert delta_at(event, 1.0) == pytest.approx(gaussian_delta(mu, 1.0), rel=1e-11)


def test_the_delta_of_a_loss_distribution_is_taken_where_it_is_least() -> None:
    items = itemise(Repeated(Laplace(1, 10), times=10))
    by_losses = least_delta_of_routes(items, 0.5)
    assert by_losses.method == "privacy loss distribution"
    assert by_losses.value < least_delta(items, 0.5)[0]


def test_discrete_gaussian_noise_is_never_accounted_for_as_normal() -> None:
    assert "Gaussian" not in account(DiscreteGaussian(1, 25), 1e-5).method
    assert "Gaussian" not in account(Composed((Gaussian(1, 5), PerStep((1,), 25))), 1e-5).method


def test_the_loss_distribution_of_one_discrete_gaussian_is_near_the_normal_one() -> None:
    cost = account(DiscreteGaussian(10, 40**2, coordinates=1), 1e-5)
    assert cost.method == "privacy loss distribution"
    assert cost.epsilon == pytest.approx(gaussian_epsilon(10 / 40, 1e-5), rel=1e-3)


def test_pure_noise_is_pure_at_nought_and_better_above() -> None:
    event = Repeated(Laplace(1, 10), 10)
    assert account(event, 0).epsilon == 1
    assert account(event, 0).method == "pure"
    assert account(event, 1e-5).epsilon < 1
    assert delta_at(event, 1.0) == 0


def test_pure_losses_are_exact_fractions_rounded_up() -> None:
    third = account(Repeated(Laplace(1, 30), 10), 0).epsilon
    assert Fraction(1, 3) <= Fraction(third) <= Fraction(1, 3) * (1 + Fraction(1, 2**50))
    assert pure_epsilon(itemise(DiscreteLaplace(Fraction(7, 2), 3))) == 1
    leaf = PoissonBinomial(3, 2, Fraction(1, 4))
    assert pure_epsilon(itemise(Composed((leaf, Laplace(1, 1))))) == pytest.approx(1 + 2 * math.log(3))
    sampled = pure_epsilon(itemise(PoissonSampled(0.1, Laplace(1, 1))))
    assert sampled == pytest.approx(math.log(1 + 0.1 * (math.e - 1)))
    assert pure_epsilon(itemise(PoissonSampled(0.1, Laplace(1000, 1)))) == pytest.approx(1000)


@pytest.mark.parametrize(
    "event",
    [
        Gaussian(1, 1),
        DiscreteGaussian(1, 1),
        Skellam(1, 1, 1),
        MatrixSkellam(MatrixChange(1, 1, 1, 1), 1),
        PerStep((0, 1), 1),
        PerStep((0, 0.1), 1, discrete=False),
        Composed((Laplace(1, 1), Gaussian(1, 1))),
        PoissonSampled(0.5, Gaussian(1, 1)),
    ],
)
def test_unbounded_losses_are_refused_at_delta_nought(event: Event) -> None:
    with pytest.raises(PrivacyError, match="no largest loss"):
        account(event, 0)


@pytest.mark.parametrize(
    "event",
    [
        Composed(()),
        Repeated(Gaussian(1, 1), 0),
        Gaussian(0, 1),
        DiscreteGaussian(0, 1),
        DiscreteGaussian(0.99, 1),
        Skellam(0, 1, 1),
        MatrixSkellam(MatrixChange(0, 1, 1, 1), 1),
        PerStep((0, 0), 1, discrete=False),
        PerStep((0, 0.99), 1),
        PoissonSampled(0, Gaussian(1, 1)),
    ],
)
def test_nothing_released_costs_nothing(event: Event) -> None:
    assert account(event, 0).epsilon == 0
    assert account(event, 1e-6).epsilon == 0


@given(events())
@settings(max_examples=12, deadline=None)
def test_what_every_event_costs_is_rounded_toward_safety(event: Event) -> None:
    check_event(event, deltas=(1e-3, 1e-10))


@given(events(), st.integers(1, 4))
@settings(max_examples=15, deadline=None)
def test_repeating_costs_as_much_as_composing(event: Event, times: int) -> None:
    try:
        repeated = account(Repeated(event, times), 1e-6)
    except PrivacyError:
        with pytest.raises(PrivacyError):
            account(Composed((event,) * times), 1e-6)
    else:
        assert repeated == account(Composed((event,) * times), 1e-6)


@given(additive(), st.floats(0.01, 1))
@settings(max_examples=12, deadline=None)
def test_a_sampled_release_never_costs_more(leaf: AdditiveNoise, rate: float) -> None:
    sampled, whole = account(PoissonSampled(rate, leaf), 1e-5).epsilon, account(leaf, 1e-5).epsilon
    # The sampled rule stops at order 1024, where even no divergence at all converts to an ε of 0.0035.
    assert sampled <= whole * (1 + 1e-3) + 0.004


def test_the_route_taken_is_at_most_the_renyi_one() -> None:
    for event in (
        Repeated(Laplace(1, 20), 30),
        Repeated(PoissonBinomial(3, 2, 0.1), 16),
        Skellam(3, 3, 500, 1),
    ):
        assert account(event, 1e-5).epsilon < least_epsilon(itemise(event), 1e-5)[0]
        assert account(event, 1e-5).method == "privacy loss distribution"


def test_a_smaller_delta_never_costs_less() -> None:
    for event in (Skellam(9, 3, 50), Repeated(Laplace(1, 20), 30), PoissonBinomial(3, 2, 0.1)):
        costs = [account(event, delta).epsilon for delta in (1e-2, 1e-5, 1e-9, 1e-14, 1e-40)]
        assert costs == sorted(costs)


def test_sampled_gaussian_curves_agree_with_dp_accounting() -> None:
    accountant = rdp.RdpAccountant(orders=[float(order) for order in range(2, 200)])
    accountant.compose(dp_event.PoissonSampledDpEvent(0.02, dp_event.GaussianDpEvent(1.5)), 100)
    ours, _ = least_epsilon(itemise(Repeated(PoissonSampled(0.02, Gaussian(1, 1.5)), 100)), 1e-6)
    assert ours == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-9)


# Distances of samplers from their laws.


def test_the_distance_of_the_draws_is_taken_out_of_delta() -> None:
    event, draws = Skellam(9, 3, 50), 10**24
    distance = float(draws * TOTAL_VARIATION_PER_DRAW)
    plain, near = account(event, 1e-5), account(Approximated(event, draws), 1e-5)
    assert near.epsilon > plain.epsilon
    assert delta_at(Approximated(event, draws), 1.0) == pytest.approx(
        delta_at(event, 1.0) + (1 + math.e) * distance, rel=1e-9
    )
    assert delta_at(event, near.epsilon) + (1 + math.exp(near.epsilon)) * distance <= 1e-5


def test_a_few_million_draws_cost_nothing_anyone_can_see() -> None:
    event = Skellam(9, 3, 50)
    plain, near = account(event, 1e-5), account(Approximated(event, 10**7), 1e-5)
    # A millionth of δ is set aside for them, which moves ε by less than a millionth: no digit that is printed.
    assert plain.epsilon <= near.epsilon == pytest.approx(plain.epsilon, rel=1e-6)
    assert near.epsilon <= account(event, 1e-5 * (1 - 1.01e-6)).epsilon


def test_a_cost_says_the_delta_that_was_asked_as_it_was_asked() -> None:
    """0 and 0.0 are equal, and what was kept for the one must not answer for the other."""
    for delta in (0, 0.0, 0):
        assert repr(account(Laplace(1, 3), delta).delta) == repr(delta)


def test_a_delta_that_cannot_pay_for_the_draws_is_refused() -> None:
    for event, delta in (
        (Approximated(Laplace(1, 1), 1), 0.0),
        (Approximated(Skellam(9, 3, 50), 10**26), 1e-5),
        (Approximated(Skellam(900, 300, 1), 1), 1e-5),
    ):
        with pytest.raises(PrivacyError, match="larger δ"):
            account(event, delta)
    assert delta_at(Approximated(Skellam(900, 300, 1), 1), 800.0) == 1


def test_a_delta_or_epsilon_out_of_range_is_refused() -> None:
    for delta in (-1e-9, 1.0, math.nan):
        with pytest.raises(ValueError, match="δ must be"):
            account(Laplace(1, 1), delta)
    for epsilon in (-1.0, math.nan):
        with pytest.raises(ValueError, match="ε must not"):
            delta_at(Laplace(1, 1), epsilon)


# Conversions.


@given(st.floats(1.01, 500), st.floats(0, 20), st.floats(-16, -1))
def test_conversion_to_epsilon_and_back_is_the_identity(
    order: float, divergence: float, digits: float
) -> None:
    delta = 10**digits
    epsilon = epsilon_from_renyi(order, divergence, delta)
    back = delta_from_renyi(order, divergence, epsilon)
    assert back <= delta * (1 + 1e-6)
    if epsilon > 0:
        assert back == pytest.approx(delta, rel=1e-6)


def test_conversion_is_sound_for_normal_noise() -> None:
    for mu in (0.1, 0.5, 2.0):
        for delta in (1e-3, 1e-6, 1e-12):
            for order in (1.5, 4.0, 30.0):
                assert epsilon_from_renyi(order, order * mu * mu / 2, delta) >= gaussian_epsilon(mu, delta)


def test_a_divergence_that_is_no_number_proves_nothing() -> None:
    assert epsilon_from_renyi(2.0, math.nan, 1e-5) == math.inf


def test_a_conversion_at_order_one_is_refused() -> None:
    for convert in (epsilon_from_renyi, delta_from_renyi):
        with pytest.raises(ValueError, match="greater than 1"):
            convert(1.0, 1.0, 0.5)


@given(st.floats(2.5, 1e5), st.booleans())
def test_the_search_finds_the_order_of_least_cost(centre: float, integer: bool) -> None:
    order, cost = best_order(lambda order: abs(math.log((order - 1) / (centre - 1))), integer=integer)
    if integer:
        assert order in (math.floor(centre), math.ceil(centre))
    else:
        assert cost <= 1e-4


@given(st.fractions(0, 10**6))
def test_rounding_up_is_upward_and_close(value: Fraction) -> None:
    above = float_above(value)
    assert value <= Fraction(above)
    assert Fraction(math.nextafter(above, -math.inf)) < value or above == 0
    assert round_up(above) >= above


# The normal curve.


@pytest.mark.parametrize("mu", [1e-6, 0.01, 0.27, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 1.0, 30.0, 5000.0])
def test_the_normal_curve_is_the_formula_at_fifty_digits(mu: float, epsilon: float) -> None:
    with mp.workdps(50):
        exact = mp.ncdf(mp.mpf(mu) / 2 - mp.mpf(epsilon) / mu)
        exact -= mp.exp(epsilon) * mp.ncdf(-mp.mpf(mu) / 2 - mp.mpf(epsilon) / mu)
        ours = gaussian_delta(mu, epsilon)
        if exact > mp.mpf("1e-300"):
            assert exact <= ours <= (1 + 1e-8) * exact
        else:
            assert exact < ours < 1e-299


@given(st.floats(-9, 3), st.floats(-1, 37))
@example(-6.0, -1.0)
@example(-9.0, 0.0)
@example(3.0, 37.0)
def test_the_normal_curve_is_nowhere_below_the_formula(digits: float, place: float) -> None:
    mu = 10**digits
    # Below 0 a part of the way to where the first tail is one half, above it so many deviations beyond.
    epsilon = mu * mu / 2 * (1 + place) if place < 0 else mu * mu / 2 + mu * place
    with mp.workprec(300):
        beyond = mp.mpf(epsilon) / mu
        exact = mp.ncdf(mp.mpf(mu) / 2 - beyond) - mp.exp(epsilon) * mp.ncdf(-mp.mpf(mu) / 2 - beyond)
        lost = 1e-10 + 2.0**-40 / mu
        assert exact <= gaussian_delta(mu, epsilon) <= min(mp.mpf(1), exact * (1 + lost))


@given(st.floats(0.01, 50), st.floats(-14, -0.5))
def test_mu_epsilon_and_delta_invert_one_another(epsilon: float, digits: float) -> None:
    delta = 10**digits
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(mu, epsilon) <= delta
    assert gaussian_delta(mu * (1 + 1e-9), epsilon) > delta * (1 - 1e-7)
    assert gaussian_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-6)
    assert gaussian_sigma(epsilon, delta, sensitivity=3.0) == 3.0 / mu


def test_the_normal_curve_at_its_edges() -> None:
    assert gaussian_delta(0.0, 1.0) == 0
    assert gaussian_epsilon(0.0, 1e-5) == 0
    for arguments in ((-1.0, 1.0), (1.0, -1.0)):
        with pytest.raises(ValueError, match="negative"):
            gaussian_delta(*arguments)
