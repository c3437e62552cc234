"""Hockey-stick curves against sums from the definition, and compositions against dp-accounting."""

import math
from fractions import Fraction

import divergence_oracle as oracle
import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from typed import there

from colonnade.privacy.distributions import log_sum, scaled_erfc
from colonnade.privacy.events import (
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
from colonnade.privacy.loss import HockeyStickCurve, curves_of, loss_distribution
from colonnade.privacy.renyi import gaussian_delta, least_epsilon

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
            assert math.isclose(at(curve_of(leaf), epsilon), gaussian_delta(0.5, epsilon), rel_tol=1e-9)
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
    losses = loss_distribution(items, least_epsilon(items, delta)[0])
    assert losses is not None
    return losses.epsilon(delta)


@pytest.mark.parametrize("delta", [1e-8, 1e-5, 1e-2])
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
