"""Routes from an event to (ε, δ): the tightest is taken, every one is sound, and distances are paid for."""

import math
from fractions import Fraction

import divergence_oracle as oracle
import mpmath
import mpmath as mp
import numpy as np
import pytest
from dp_accounting import dp_event, rdp
from dp_accounting.pld import privacy_loss_distribution as reference
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_events_laws import additive, events
from typed import there

from colonnade.errors import PrivacyError
from colonnade.privacy import renyi as rules
from colonnade.privacy.distributions import log_sum, scaled_erfc
from colonnade.privacy.events import (
    COARSE_BITS,
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
    Mechanism,
    PerStep,
    PoissonBinomial,
    PoissonSampled,
    Repeated,
    Skellam,
    itemise,
)
from colonnade.privacy.guarantee import account, delta_at, least_delta_of_routes, replaced_from_zeroed
from colonnade.privacy.guarantee import account as account_for
from colonnade.privacy.loss import HockeyStickCurve, curves_of, loss_distribution
from colonnade.privacy.observers import Coalition, Colluding, PartyView, Reader, Server, members_of
from colonnade.testing import check_event


def test_normal_noise_is_accounted_for_exactly_and_sampled_curves_agree_with_dp_accounting() -> None:
    event = Composed((Gaussian(1, 5), Repeated(Gaussian(3, 10), 2), PerStep((1, 2), 100, discrete=False)))
    mu = math.sqrt(1 / 25 + 2 * 9 / 100 + 5 / 100)
    cost = account(event, 1e-5)
    assert cost.method == f"Gaussian (μ = {mu:.3g})"
    assert cost.epsilon == pytest.approx(rules.gaussian_epsilon(mu, 1e-5), rel=1e-11)
    assert delta_at(event, 1.0) == pytest.approx(rules.gaussian_delta(mu, 1.0), rel=1e-11)
    accountant = rdp.RdpAccountant(orders=[float(order) for order in range(2, 200)])
    accountant.compose(dp_event.PoissonSampledDpEvent(0.02, dp_event.GaussianDpEvent(1.5)), 100)
    ours, _ = rules.least_epsilon(itemise(Repeated(PoissonSampled(0.02, Gaussian(1, 1.5)), 100)), 1e-6)
    assert ours == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-9)


def test_each_law_takes_its_own_route() -> None:
    assert "Gaussian" not in account(DiscreteGaussian(1, 25), 1e-5).method
    assert "Gaussian" not in account(Composed((Gaussian(1, 5), PerStep((1,), 25))), 1e-5).method
    cost = account(DiscreteGaussian(10, 40**2, coordinates=1), 1e-5)
    assert cost.method == "privacy loss distribution"
    assert cost.epsilon == pytest.approx(rules.gaussian_epsilon(10 / 40, 1e-5), rel=1e-3)
    items = itemise(Repeated(Laplace(1, 10), times=10))
    by_losses = least_delta_of_routes(items, 0.5)
    assert by_losses.method == "privacy loss distribution"
    assert by_losses.value < rules.least_delta(items, 0.5)[0]


def test_pure_noise_is_pure_at_nought_and_better_above_and_pure_losses_are_rounded_up() -> None:
    event = Repeated(Laplace(1, 10), 10)
    assert account(event, 0).epsilon == 1
    assert account(event, 0).method == "pure"
    assert account(event, 1e-5).epsilon < 1
    assert delta_at(event, 1.0) == 0
    third = account(Repeated(Laplace(1, 30), 10), 0).epsilon
    assert Fraction(1, 3) <= Fraction(third) <= Fraction(1, 3) * (1 + Fraction(1, 2**50))
    assert rules.pure_epsilon(itemise(DiscreteLaplace(Fraction(7, 2), 3))) == 1
    leaf = PoissonBinomial(3, 2, Fraction(1, 4))
    assert rules.pure_epsilon(itemise(Composed((leaf, Laplace(1, 1))))) == pytest.approx(1 + 2 * math.log(3))
    sampled = rules.pure_epsilon(itemise(PoissonSampled(0.1, Laplace(1, 1))))
    assert sampled == pytest.approx(math.log(1 + 0.1 * (math.e - 1)))
    assert rules.pure_epsilon(itemise(PoissonSampled(0.1, Laplace(1000, 1)))) == pytest.approx(1000)


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
        assert account(event, 1e-5).epsilon < rules.least_epsilon(itemise(event), 1e-5)[0]
        assert account(event, 1e-5).method == "privacy loss distribution"
    for one in (Skellam(9, 3, 50), Repeated(Laplace(1, 20), 30), PoissonBinomial(3, 2, 0.1)):
        costs = [account(one, delta).epsilon for delta in (1e-2, 1e-5, 1e-9, 1e-14, 1e-40)]
        assert costs == sorted(costs)


# Distances of samplers from their laws.


def test_the_distance_of_the_draws_is_taken_out_of_delta_and_of_few_million_nobody_can_see_it() -> None:
    event, draws = Skellam(9, 3, 50), 10**24
    distance = draws / 2**COARSE_BITS
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
    epsilon = rules.epsilon_from_renyi(order, divergence, delta)
    back = rules.delta_from_renyi(order, divergence, epsilon)
    assert back <= delta * (1 + 1e-6)
    if epsilon > 0:
        assert back == pytest.approx(delta, rel=1e-6)


def test_conversion_is_sound_for_normal_noise_and_refused_where_it_proves_nothing() -> None:
    for mu in (0.1, 0.5, 2.0):
        for delta in (1e-3, 1e-6, 1e-12):
            for order in (1.5, 4.0, 30.0):
                assert rules.epsilon_from_renyi(order, order * mu * mu / 2, delta) >= rules.gaussian_epsilon(
                    mu, delta
                )
    assert rules.epsilon_from_renyi(2.0, math.nan, 1e-5) == math.inf
    for convert in (rules.epsilon_from_renyi, rules.delta_from_renyi):
        with pytest.raises(ValueError, match="greater than 1"):
            convert(1.0, 1.0, 0.5)


@given(st.floats(2.5, 1e5), st.booleans())
def test_the_search_finds_the_order_of_least_cost(centre: float, integer: bool) -> None:
    order, cost = rules.best_order(lambda order: abs(math.log((order - 1) / (centre - 1))), integer=integer)
    if integer:
        assert order in (math.floor(centre), math.ceil(centre))
    else:
        assert cost <= 1e-4


@given(st.fractions(0, 10**6))
def test_rounding_up_is_upward_and_close(value: Fraction) -> None:
    above = rules.float_above(value)
    assert value <= Fraction(above)
    assert Fraction(math.nextafter(above, -math.inf)) < value or above == 0
    assert rules.round_up(above) >= above


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
        assert exact <= rules.gaussian_delta(mu, epsilon) <= min(mp.mpf(1), exact * (1 + lost))


@given(st.floats(0.01, 50), st.floats(-14, -0.5))
def test_mu_epsilon_and_delta_invert_one_another(epsilon: float, digits: float) -> None:
    delta = 10**digits
    mu = rules.gaussian_mu(epsilon, delta)
    assert rules.gaussian_delta(mu, epsilon) <= delta
    assert rules.gaussian_delta(mu * (1 + 1e-9), epsilon) > delta * (1 - 1e-7)
    assert rules.gaussian_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-6)


def test_the_normal_curve_at_its_edges() -> None:
    assert rules.gaussian_delta(0.0, 1.0) == 0
    assert rules.gaussian_epsilon(0.0, 1e-5) == 0
    for arguments in ((-1.0, 1.0), (1.0, -1.0)):
        with pytest.raises(ValueError, match="negative"):
            rules.gaussian_delta(*arguments)


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
    assert rules.renyi(doubled, 8.0) == pytest.approx(rules.renyi(Repeated(once, 4), 8.0), rel=1e-9)
    assert account_for(doubled, DELTA).epsilon > account_for(Repeated(once, 2), DELTA).epsilon
    assert members_of(Server()) == {"server"} and members_of(PartyView("bank")) == {"bank"}
    assert members_of(Coalition(("bank", "server"))) == {"bank", "server"}
    assert members_of(Reader()) == members_of(Colluding(2)) == frozenset()
    assert Colluding(2).knows_batches


# Hockey-stick curves against sums from the definition, and compositions against dp-accounting.


EPSILONS = (-3.0, -0.6, -0.1, 0.0, 0.05, 0.3, 1.0, 2.5)


def curve_of(leaf: Mechanism | PoissonSampled) -> HockeyStickCurve:
    [(curve, count)] = curves_of(leaf) or ()
    assert count == 1
    return curve


def at(curve: HockeyStickCurve, epsilon: float) -> float:
    return float(curve.forward(np.array([epsilon]))[0])


LAWS = [
    (DiscreteLaplace(3, 5), oracle.discrete_laplace_law(Fraction(5)), 3, 400),
    (DiscreteLaplace(1, Fraction(1, 2)), oracle.discrete_laplace_law(Fraction(1, 2)), 1, 60),
    (DiscreteGaussian(2, 9, 1), oracle.discrete_gaussian_law(Fraction(9)), 2, 60),
    (DiscreteGaussian(1, Fraction(1, 3), 1), oracle.discrete_gaussian_law(Fraction(1, 3)), 1, 40),
    (Skellam(3, 3, 20, 1), oracle.skellam_law(Fraction(20)), 3, 120),
    (Skellam(1.5, 2, 1, 1), oracle.skellam_law(Fraction(1)), 1, 60),
]


@pytest.mark.parametrize(("leaf", "law", "shift", "extent"), LAWS)
def test_curves_on_the_integers_are_the_summed_hockey_stick(
    leaf: Mechanism, law: oracle.Law, shift: int, extent: int
) -> None:
    for epsilon in EPSILONS:
        truth = oracle.hockey_stick_of_laws(
            oracle.shifted(law, shift), law, epsilon, range(-extent, extent + 1)
        )
        assert math.isclose(at(curve_of(leaf), epsilon), truth, rel_tol=1e-9, abs_tol=1e-14)


@pytest.mark.parametrize("rate", [0.02, 0.7])
@pytest.mark.parametrize(("leaf", "law", "shift", "extent"), LAWS)
def test_sampled_curves_are_the_summed_hockey_stick_in_both_directions(
    leaf: Mechanism, law: oracle.Law, shift: int, extent: int, rate: float
) -> None:
    curve = curve_of(PoissonSampled(rate, leaf))  # type: ignore[arg-type]
    mixed, window = oracle.mixture(rate, oracle.shifted(law, shift), law), range(-extent, extent + 1)
    for epsilon in EPSILONS:
        forward = oracle.hockey_stick_of_laws(mixed, law, epsilon, window)
        backward = oracle.hockey_stick_of_laws(law, mixed, epsilon, window)
        assert math.isclose(at(curve, epsilon), forward, rel_tol=1e-8, abs_tol=1e-14)
        assert math.isclose(
            float(curve.backward(np.array([epsilon]))[0]), backward, rel_tol=1e-8, abs_tol=1e-14
        )


def test_the_gaussian_curve_is_the_analytic_one_and_what_does_not_move_costs_nothing() -> None:
    for leaf in (Gaussian(1, 2), PerStep((3, 4), 100, discrete=False)):
        for epsilon in (0.0, 0.3, 1.0, 2.5):
            assert math.isclose(at(curve_of(leaf), epsilon), rules.gaussian_delta(0.5, epsilon), rel_tol=1e-9)
    assert at(curve_of(DiscreteGaussian(0, 1, 1)), 0.0) == 0
    kinds = Composed(tuple(Laplace(1, scale) for scale in range(10, 60)))
    assert loss_distribution(itemise(kinds), 1.0) is None
    assert loss_distribution(itemise(Laplace(1, 1)), 1e9) is None
    assert loss_distribution(itemise(DiscreteLaplace(2000, 1)), 2000.0) is None
    assert loss_distribution(itemise(Repeated(Laplace(1, 10**6), 10**9)), 1.0) is None


@given(st.integers(1, 6), st.integers(1, 6), st.sampled_from([1, 3, 10]), st.floats(-2, 2))
@settings(deadline=None, max_examples=60)
def test_a_laplace_shift_is_worst_on_one_coordinate(one: int, other: int, scale: int, epsilon: float) -> None:
    """Two coordinates, summed over every pair of noise values, against the curve of one coordinate."""
    ratio = math.exp(-1 / scale)
    points = np.arange(-25 * scale, 25 * scale + 1)
    law = (1 - ratio) / (1 + ratio) * ratio ** np.abs(points)
    shift_one = (1 - ratio) / (1 + ratio) * ratio ** np.abs(points - one)
    shift_other = (1 - ratio) / (1 + ratio) * ratio ** np.abs(points - other)
    truth = np.maximum(0, np.outer(shift_one, shift_other) - math.exp(epsilon) * np.outer(law, law)).sum()
    assert truth <= at(curve_of(DiscreteLaplace(one + other, scale)), epsilon) + 1e-9


@pytest.mark.parametrize(
    "leaf", [Laplace(0, 1), DiscreteLaplace(0.9, 1), Gaussian(0, 1), Skellam(0, 1, 1, 1)]
)
def test_what_does_not_move_costs_nothing(leaf: Mechanism) -> None:
    assert at(curve_of(leaf), 0.0) == 0
    assert at(curve_of(leaf), -1.0) == pytest.approx(1 - math.exp(-1))
    assert loss_distribution(itemise(leaf), 1.0) is None


@pytest.mark.parametrize(
    "leaf",
    [
        Skellam(1, 1, 4),
        Skellam(1, 1, 10**12, 1),
        DiscreteGaussian(1, 4, 2),
        DiscreteGaussian(1, 10**12, 1),
        DiscreteLaplace(10**6, 10**6),
        MatrixSkellam(MatrixChange(1, 1, 1, 1), 4),
        PerStep((1,), 4),
        PoissonSampled(0.1, Skellam(1, 1, 4)),
    ],
)
def test_no_curve_is_claimed_where_none_is_proved_or_affordable(leaf: Mechanism) -> None:
    assert curves_of(leaf) is None
    assert loss_distribution(itemise(Composed((leaf, PoissonBinomial(2, 2, 0.1)))), 1.0) is None


def our_epsilon(event: Event, delta: float) -> float:
    items = itemise(event)
    losses = loss_distribution(items, rules.least_epsilon(items, delta)[0])
    assert losses is not None
    return losses.epsilon(delta)


@pytest.mark.parametrize("delta", [1e-8, 1e-2])
@pytest.mark.parametrize(
    ("event", "theirs"),
    [
        (Repeated(Gaussian(1, 5), 10), lambda: reference.from_gaussian_mechanism(5.0).self_compose(10)),
        (Repeated(Laplace(1, 8), 20), lambda: reference.from_laplace_mechanism(8.0).self_compose(20)),
        (
            Repeated(DiscreteLaplace(3, 16), 15),
            lambda: reference.from_discrete_laplace_mechanism(
                1 / 16, sensitivity=3, value_discretization_interval=2.0**-14
            ).self_compose(15),
        ),
        (
            Repeated(DiscreteGaussian(2, 64, 1), 12),
            lambda: reference.from_discrete_gaussian_mechanism(8.0, sensitivity=2).self_compose(12),
        ),
        (
            Repeated(PoissonSampled(0.05, Gaussian(1, 2)), 50),
            lambda: reference.from_gaussian_mechanism(2.0, sampling_prob=0.05).self_compose(50),
        ),
        (
            Composed((Laplace(1, 4), Gaussian(1, 4))),
            lambda: reference.from_laplace_mechanism(4.0).compose(reference.from_gaussian_mechanism(4.0)),
        ),
    ],
)
def test_compositions_agree_with_dp_accounting(event: Event, theirs: object, delta: float) -> None:
    assert our_epsilon(event, delta) == pytest.approx(theirs().get_epsilon_for_delta(delta), rel=1e-3)  # type: ignore[operator]


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_nobody_is_warned_where_a_moment_overflows_and_the_others_bound_the_tail() -> None:
    noise = Repeated(PoissonSampled(Fraction(1, 10), Gaussian(1, Fraction(25, 2))), 100)
    assert our_epsilon(noise, 1e-6) == pytest.approx(0.317791, rel=1e-3)  # dp-accounting's figure


def test_a_composition_of_discrete_laplace_is_the_exact_convolution() -> None:
    """The loss is (3 − 2y)/s with y in 0 … 3, so the exact law of fifteen of them has 46 values."""
    scale, times = 20, 15
    ratio = math.exp(-1 / scale)
    single = np.array([1, (1 - ratio) * ratio, (1 - ratio) * ratio**2, ratio**3]) / (1 + ratio)
    law = np.array([1.0])
    for _ in range(times):
        law = np.convolve(law, single)
    losses = (3 * times - 2 * np.arange(len(law))) / scale
    ours = loss_distribution(itemise(Repeated(DiscreteLaplace(3, scale), times)), 1.0)
    assert ours is not None
    for epsilon in (0.0, 0.35, 1.0, 1.7):
        exact = float(np.maximum(0, law * -np.expm1(epsilon - losses)).sum())
        assert exact <= ours.delta(epsilon) <= exact * 1.001 + 2 * ours.lost


def test_a_loss_distribution_is_above_the_exact_curve_it_composes() -> None:
    """Two Poisson binomials, against the exact product of each pair with itself."""
    leaf = PoissonBinomial(2, 1, Fraction(1, 5))
    items = itemise(Repeated(leaf, 2))
    losses = loss_distribution(items, 1.0)
    assert losses is not None
    levels = (Fraction(3, 10), Fraction(7, 10))
    for first, second in oracle.neighbours_of_coins(1, 1, levels):
        pair = [p * q for p in first for q in first], [p * q for p in second for q in second]
        for epsilon in (0.0, 0.5, 1.0):
            assert oracle.hockey_stick_of_tables(*pair, epsilon) <= losses.delta(epsilon)


def test_neither_a_delta_finer_than_the_arithmetic_nor_an_unbounded_loss_has_a_finite_epsilon() -> None:
    losses = loss_distribution(itemise(Repeated(Laplace(1, 10), 1000)), 10.0)
    assert losses is not None
    assert losses.epsilon(losses.lost / 2) == math.inf
    assert losses.epsilon(1e-5) < losses.epsilon(1e-7)
    losses = loss_distribution(itemise(Repeated(Gaussian(1, 2), times=40)), 16.0)
    unbounded = max(float(pmf.get_delta_for_epsilon(2.0**13)) for pmf in there(losses).directions)
    assert unbounded > 0
    assert there(losses).epsilon(there(losses).lost + unbounded / 2) == math.inf
    assert there(losses).epsilon(there(losses).lost) == math.inf


@pytest.mark.parametrize("event", [Laplace(1, 10), PoissonSampled(0.1, Gaussian(1, 2))])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-3, 0.2])
def test_the_least_epsilon_is_the_librarys_own_and_never_below_its_curve(
    event: Laplace | PoissonSampled, delta: float
) -> None:
    losses = loss_distribution(itemise(Repeated(event, times=40)), 1.0)
    found = there(losses).epsilon(delta)
    inside = delta - there(losses).lost
    own = max(float(pmf.get_epsilon_for_delta(inside)) for pmf in there(losses).directions)
    assert found == pytest.approx(own, abs=1e-9)
    assert there(losses).delta(found) <= delta


# Functions of doubles that accounting rests on, against many digits.


@given(st.floats(0.0, 40.0))
def test_the_scaled_error_function_keeps_the_digits_it_promises(x: float) -> None:
    with mpmath.workprec(300):
        exact = mpmath.exp(mpmath.mpf(x) ** 2) * mpmath.erfc(mpmath.mpf(x))
        assert abs(scaled_erfc(x) / exact - 1) < mpmath.mpf(2) ** -50


@pytest.mark.parametrize("x", [1e3, 1e8, 1e150, 1e300])
def test_far_out_the_scaled_error_function_is_one_over_x(x: float) -> None:
    # The next term of its series is 1/(2x²) of this.
    assert scaled_erfc(x) * x == pytest.approx(np.pi**-0.5, rel=1 / x**2 + 1e-15 if x < 1e100 else 1e-15)


@given(st.lists(st.floats(-800.0, 800.0), min_size=1, max_size=30))
def test_a_sum_of_exponentials_is_that_of_many_digits(logarithms: list[float]) -> None:
    with mpmath.workprec(3000):
        exact = mpmath.log(mpmath.fsum(mpmath.exp(mpmath.mpf(each)) for each in logarithms))
    assert float(log_sum(np.array(logarithms))) == pytest.approx(float(exact), rel=1e-14, abs=1e-14)


def test_sums_of_exponentials_are_over_the_last_axis_and_take_what_has_no_mass() -> None:
    table = np.array([[0.0, -np.inf], [-np.inf, -np.inf], [5.0, 5.0]])
    assert log_sum(table) == pytest.approx([0.0, -np.inf, 5.0 + np.log(2.0)])
