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
from colonnade.privacy.guarantee import account, delta_at, least_delta_of_routes, replaced_from_zeroed
from colonnade.privacy.guarantee import account as account_for
from colonnade.privacy.observers import Coalition, Colluding, PartyView, Reader, Server, members_of
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
    renyi,
    round_up,
)
from colonnade.testing import check_event


def test_normal_noise_is_accounted_for_exactly_and_sampled_curves_agree_with_dp_accounting() -> None:
    event = Composed((Gaussian(1, 5), Repeated(Gaussian(3, 10), 2), PerStep((1, 2), 100, discrete=False)))
    mu = math.sqrt(1 / 25 + 2 * 9 / 100 + 5 / 100)
    cost = account(event, 1e-5)
    assert cost.method == f"Gaussian (μ = {mu:.3g})"
    assert cost.order is None
    assert cost.epsilon == pytest.approx(gaussian_epsilon(mu, 1e-5), rel=1e-11)
    assert delta_at(event, 1.0) == pytest.approx(gaussian_delta(mu, 1.0), rel=1e-11)
    accountant = rdp.RdpAccountant(orders=[float(order) for order in range(2, 200)])
    accountant.compose(dp_event.PoissonSampledDpEvent(0.02, dp_event.GaussianDpEvent(1.5)), 100)
    ours, _ = least_epsilon(itemise(Repeated(PoissonSampled(0.02, Gaussian(1, 1.5)), 100)), 1e-6)
    assert ours == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-9)


def test_each_law_takes_its_own_route() -> None:
    assert "Gaussian" not in account(DiscreteGaussian(1, 25), 1e-5).method
    assert "Gaussian" not in account(Composed((Gaussian(1, 5), PerStep((1,), 25))), 1e-5).method
    cost = account(DiscreteGaussian(10, 40**2, coordinates=1), 1e-5)
    assert cost.method == "privacy loss distribution"
    assert cost.epsilon == pytest.approx(gaussian_epsilon(10 / 40, 1e-5), rel=1e-3)
    items = itemise(Repeated(Laplace(1, 10), times=10))
    by_losses = least_delta_of_routes(items, 0.5)
    assert by_losses.method == "privacy loss distribution"
    assert by_losses.value < least_delta(items, 0.5)[0]


def test_pure_noise_is_pure_at_nought_and_better_above_and_pure_losses_are_rounded_up() -> None:
    event = Repeated(Laplace(1, 10), 10)
    assert account(event, 0).epsilon == 1
    assert account(event, 0).method == "pure"
    assert account(event, 1e-5).epsilon < 1
    assert delta_at(event, 1.0) == 0
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


def test_the_route_taken_is_at_most_the_renyi_one_and_a_smaller_delta_never_costs_less() -> None:
    for event in (
        Repeated(Laplace(1, 20), 30),
        Repeated(PoissonBinomial(3, 2, 0.1), 16),
        Skellam(3, 3, 500, 1),
    ):
        assert account(event, 1e-5).epsilon < least_epsilon(itemise(event), 1e-5)[0]
        assert account(event, 1e-5).method == "privacy loss distribution"
    for one in (Skellam(9, 3, 50), Repeated(Laplace(1, 20), 30), PoissonBinomial(3, 2, 0.1)):
        costs = [account(one, delta).epsilon for delta in (1e-2, 1e-5, 1e-9, 1e-14, 1e-40)]
        assert costs == sorted(costs)


# Distances of samplers from their laws.


def test_the_distance_of_the_draws_is_taken_out_of_delta_and_of_few_million_nobody_can_see_it() -> None:
    event, draws = Skellam(9, 3, 50), 10**24
    distance = float(draws * TOTAL_VARIATION_PER_DRAW)
    plain, near = account(event, 1e-5), account(Approximated(event, draws), 1e-5)
    assert near.epsilon > plain.epsilon
    assert delta_at(Approximated(event, draws), 1.0) == pytest.approx(
        delta_at(event, 1.0) + (1 + math.e) * distance, rel=1e-9
    )
    assert delta_at(event, near.epsilon) + (1 + math.exp(near.epsilon)) * distance <= 1e-5
    event = Skellam(9, 3, 50)
    plain, near = account(event, 1e-5), account(Approximated(event, 10**7), 1e-5)
    # A millionth of δ is set aside for them, which moves ε by less than a millionth: no digit that is printed.
    assert plain.epsilon <= near.epsilon == pytest.approx(plain.epsilon, rel=1e-6)
    assert near.epsilon <= account(event, 1e-5 * (1 - 1.01e-6)).epsilon
    # 0 and 0.0 are equal, and what was kept for the one must not answer for the other.
    for delta in (0, 0.0, 0):
        assert repr(account(Laplace(1, 3), delta).delta) == repr(delta)


def test_what_cannot_be_paid_for_or_is_out_of_range_is_refused() -> None:
    for event, delta in (
        (Approximated(Laplace(1, 1), 1), 0.0),
        (Approximated(Skellam(9, 3, 50), 10**26), 1e-5),
        (Approximated(Skellam(900, 300, 1), 1), 1e-5),
    ):
        with pytest.raises(PrivacyError, match="larger δ"):
            account(event, delta)
    assert delta_at(Approximated(Skellam(900, 300, 1), 1), 800.0) == 1
    for delta in (-1e-9, 1.0, math.nan):
        with pytest.raises(ValueError, match="δ must be"):
            account(Laplace(1, 1), delta)
    for epsilon in (-1.0, math.nan):
        with pytest.raises(ValueError, match="ε must not"):
            delta_at(Laplace(1, 1), epsilon)


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


def test_conversion_is_sound_for_normal_noise_and_refused_where_it_proves_nothing() -> None:
    for mu in (0.1, 0.5, 2.0):
        for delta in (1e-3, 1e-6, 1e-12):
            for order in (1.5, 4.0, 30.0):
                assert epsilon_from_renyi(order, order * mu * mu / 2, delta) >= gaussian_epsilon(mu, delta)
    assert epsilon_from_renyi(2.0, math.nan, 1e-5) == math.inf
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


# A replaced record is two zeroed ones, by way of the zero row.


DELTA = 1e-5


@pytest.mark.parametrize(
    ("zeroed", "replaced"),
    [
        (Gaussian(1, 4), Gaussian(2, 4)),
        (Laplace(1, 4), Laplace(2, 4)),
        (Skellam(3, 2, 20), Skellam(6, 4, 20)),
        (PerStep((1, 2), 9), PerStep((2, 4), 9)),
        (MatrixSkellam(MatrixChange(2, 4, 6, 6), 50), MatrixSkellam(MatrixChange(4, 8, 24, 12), 50)),
        (PoissonSampled(0.5, Gaussian(1, 4)), Gaussian(2, 4)),
        (Approximated(Repeated(Gaussian(1, 4), 3), 7), Approximated(Repeated(Gaussian(2, 4), 3), 7)),
        (Composed((Gaussian(1, 4), Laplace(1, 4))), Composed((Gaussian(2, 4), Laplace(2, 4)))),
        (DiscreteGaussian(1, 4), DiscreteGaussian(2, 4)),
        (DiscreteLaplace(1, 4), DiscreteLaplace(2, 4)),
        (Composed((Gaussian(1, 4), PoissonBinomial(3, 4, 0.1))), None),
        (Repeated(PoissonBinomial(3, 4, 0.1), 2), None),
    ],
)
def test_a_replaced_record_is_two_zeroed_ones(zeroed: Event, replaced: Event | None) -> None:
    assert replaced_from_zeroed(zeroed) == replaced


def test_normal_noise_costs_four_times_as_much_for_a_replaced_record_and_who_looks_is_known_by_name() -> None:
    once = Gaussian(1, 8)
    doubled = replaced_from_zeroed(once)
    assert doubled is not None
    assert renyi(doubled, 8.0) == pytest.approx(renyi(Repeated(once, 4), 8.0), rel=1e-9)
    assert account_for(doubled, DELTA).epsilon > account_for(Repeated(once, 2), DELTA).epsilon
    assert members_of(Server()) == {"server"} and members_of(PartyView("bank")) == {"bank"}
    assert members_of(Coalition(("bank", "server"))) == {"bank", "server"}
    assert members_of(Reader()) == members_of(Colluding(2)) == frozenset()
    assert Colluding(2).knows_batches
