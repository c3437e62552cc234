"""Every Rényi rule is at least the divergence that mpmath integrates or sums from the definition."""

import itertools
import math
from fractions import Fraction
from typing import get_args

import divergence_oracle as oracle
import numpy as np
import pytest
from homogeneous_loss import homogeneous_renyi
from hypothesis import given, settings
from hypothesis import strategies as st
from test_events_laws import additive, mechanisms, poisson_binomials
from typed import untyped

from colonnade.privacy.distributions import (
    MAX_SUM,
    exact_order_limit,
    exact_skellam_renyi,
    groups,
    log_skellam,
    poisson_binomial_renyi,
    probabilities,
    pure_loss,
    sampled_renyi,
    worst_pairs,
)
from colonnade.privacy.events import (
    AdditiveNoise,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    MatrixChange,
    MatrixSkellam,
    Mechanism,
    PerStep,
    PoissonBinomial,
    PoissonSampled,
    Skellam,
    itemise,
)
from colonnade.privacy.loss import curves_of
from colonnade.privacy.renyi import least_delta, least_epsilon, renyi, rule_of

ORDERS = (1.25, 2.0, 3.5, 8.0)
NUMERICAL = 1e-9


def claims(rule: float, truth: float, *, tight: float = math.inf) -> None:
    """The rule is at least the truth, and at most `tight` times it."""
    assert truth * (1 - NUMERICAL) <= rule <= truth * tight


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("shift", "sigma"), [(1, 1), (2, 3), (0.5, 4)])
def test_the_gaussian_rule_is_the_integrated_divergence(shift: float, sigma: float, order: float) -> None:
    breaks = [-40 * sigma, 0, shift, order * shift, 40 * sigma + order * shift]
    truth = oracle.renyi_of_densities(
        oracle.gaussian_density(shift, sigma), oracle.gaussian_density(0, sigma), order, sorted(breaks)
    )
    claims(renyi(Gaussian(shift, sigma), order), truth, tight=1 + NUMERICAL)
    claims(renyi(PerStep((shift,), sigma**2, discrete=False), order), truth, tight=1 + NUMERICAL)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("shift", "scale"), [(1, 1), (2, 3), (5, 1)])
def test_the_laplace_rule_is_the_integrated_divergence(shift: float, scale: float, order: float) -> None:
    truth = oracle.renyi_of_densities(
        oracle.laplace_density(shift, scale),
        oracle.laplace_density(0, scale),
        order,
        [-80 * scale, 0, shift, 80 * scale],
    )
    claims(renyi(Laplace(shift, scale), order), truth, tight=1 + NUMERICAL)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("shift", "scale"), [(1, Fraction(1)), (3, Fraction(5, 2)), (7, Fraction(40))])
def test_the_discrete_laplace_rule_is_the_summed_divergence(
    shift: int, scale: Fraction, order: float
) -> None:
    law = oracle.discrete_laplace_law(scale)
    extent = int(60 * scale) + shift
    truth = oracle.renyi_of_laws(oracle.shifted(law, shift), law, order, range(-extent, extent + 1))
    claims(renyi(DiscreteLaplace(shift, scale), order), truth, tight=1 + NUMERICAL)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("shift", "variance"), [(1, Fraction(1, 4)), (1, Fraction(1)), (3, Fraction(25, 2))])
def test_the_discrete_gaussian_rule_is_above_the_summed_divergence(
    shift: int, variance: Fraction, order: float
) -> None:
    law = oracle.discrete_gaussian_law(variance)
    extent = int(order * shift + 12 * math.sqrt(variance)) + 12
    truth = oracle.renyi_of_laws(oracle.shifted(law, shift), law, order, range(-extent, extent + 1))
    claims(renyi(DiscreteGaussian(shift, variance), order), truth)
    claims(renyi(PerStep((shift,), variance), order), truth)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("shift", "mu"), [(1, Fraction(1, 2)), (1, Fraction(5)), (3, Fraction(20)), (4, Fraction(333, 4))]
)
def test_the_skellam_rules_are_above_the_summed_divergence(shift: int, mu: Fraction, order: float) -> None:
    law = oracle.skellam_law(mu)
    extent = int(order * shift + 14 * math.sqrt(2 * mu)) + 40
    truth = oracle.renyi_of_laws(oracle.shifted(law, shift), law, order, range(-extent, extent + 1))
    claims(renyi(Skellam(shift, shift, mu), order), truth)
    claims(exact_skellam_renyi(shift, float(mu), order), truth, tight=1 + NUMERICAL)
    claims(renyi(Skellam(shift, shift, mu, coordinates=1), order), truth, tight=1 + NUMERICAL)


@pytest.mark.parametrize("order", [2, 5, 16])
@pytest.mark.parametrize("row", [(1, 0), (1, 1), (2, -1), (3, 2), (1, 1, 1), (2, 0, -3), (1, 2, 3)])
def test_the_matrix_rule_is_above_the_divergence_entry_by_entry(row: tuple[int, ...], order: int) -> None:
    """Entries are independent, so the truth is a sum of exact divergences, Sk(μ) on the diagonal and Sk(μ/2) off it."""
    change = np.outer(row, row)
    diagonal = [abs(int(change[i, i])) for i in range(len(row))]
    above = [abs(int(change[i, j])) for i, j in itertools.combinations(range(len(row)), 2)]
    norms = MatrixChange(
        frobenius=math.sqrt(sum(d * d for d in diagonal) + 2 * sum(d * d for d in above)),
        weighted_l1=sum(diagonal) + 2 * sum(above),
        fourth=sum(d * d for d in diagonal) + 4 * sum(d * d for d in above),
        fourth_l1=sum(diagonal) + 4 * sum(above),
    )
    for mu, tight in ((Fraction(24), math.inf), (Fraction(10**4), 1.02)):
        truth = sum(exact_skellam_renyi(shift, float(mu), order) for shift in diagonal)
        truth += sum(exact_skellam_renyi(shift, float(mu / 2), order) for shift in above)
        claims(renyi(MatrixSkellam(norms, mu), order), truth, tight=tight)


def test_the_exact_skellam_table_is_the_bessel_function() -> None:
    for mu in (0.5, 5.0, 300.0):
        law = oracle.skellam_law(Fraction(mu))
        table = log_skellam(mu, 64)
        for value in (0, 1, 7, 40, 63):
            assert math.isclose(table[value], float(untyped(oracle).mp.log(law(value))), rel_tol=1e-12)


@pytest.mark.parametrize("rate", [0.01, 0.9])
@pytest.mark.parametrize("order", [2, 7])
@pytest.mark.parametrize(
    ("leaf", "law", "shift", "extent"),
    [
        (Skellam(3, 3, 20), oracle.skellam_law(Fraction(20)), 3, 120),
        (Skellam(1, 1, 1, 1), oracle.skellam_law(Fraction(1)), 1, 60),
        (DiscreteGaussian(2, 9), oracle.discrete_gaussian_law(Fraction(9)), 2, 90),
        (DiscreteLaplace(2, 3), oracle.discrete_laplace_law(Fraction(3)), 2, 300),
    ],
)
def test_the_sampling_rule_is_above_both_directions(
    leaf: AdditiveNoise, law: oracle.Law, shift: int, extent: int, order: int, rate: float
) -> None:
    mixed = oracle.mixture(rate, oracle.shifted(law, shift), law)
    window = range(-extent, extent + 1)
    rule = renyi(PoissonSampled(rate, leaf), order)
    forward = oracle.renyi_of_laws(mixed, law, order, window)
    claims(rule, forward)
    claims(rule, oracle.renyi_of_laws(law, mixed, order, window))
    exact = sampled_renyi(
        rate, lambda power: oracle.renyi_of_laws(oracle.shifted(law, shift), law, power, window), order
    )
    claims(exact, forward, tight=1 + NUMERICAL)


@given(st.floats(0.001, 0.999), st.floats(1.0, 1e6), st.floats(1.0, 200.0))
def test_the_inequality_behind_the_sampling_rule_holds(rate: float, ratio: float, order: float) -> None:
    """s^a − s^(1−a) ≥ r (t^(1−a) − t^a) for s = 1 − q + qr and t = 1 − q + q/r, compared in logarithms."""
    s, t = math.log1p(rate * (ratio - 1)), -math.log1p(rate * (1 / ratio - 1))

    def log_sinh(x: float) -> float:
        return x + math.log(-math.expm1(-2 * x)) if x > 0 else -math.inf

    half = order - 0.5
    assert s / 2 + log_sinh(half * s) >= math.log(ratio) - t / 2 + log_sinh(half * t) - 1e-9


@pytest.mark.parametrize("order", [1.001, 2.5, 3.0])
def test_sampling_costs_no_more_at_an_order_that_is_not_whole(order: float) -> None:
    loud, rate = Gaussian(3, 1), Fraction(1, 2)
    assert renyi(PoissonSampled(rate, loud), order) <= renyi(loud, order)
    if order < 3:
        assert sampled_renyi(0.5, lambda whole: renyi(loud, whole), order) > renyi(loud, order)
    assert renyi(PoissonSampled(rate, Gaussian(1, 4)), 2000.0) == math.inf


def test_sampling_and_orders_at_their_edges_are_known() -> None:
    assert sampled_renyi(1.0, lambda order: order / 4, 2.5) == 0.75
    assert sampled_renyi(0.0, lambda order: order / 4, 2.5) == 0
    assert sampled_renyi(0.5, lambda order: 0.0, 5.0) == 0
    assert sampled_renyi(0.5, lambda order: order / 4, 1025.0) == math.inf
    leaf = Skellam(3, 3, 20)
    assert renyi(leaf, 2.0) < renyi(leaf, 2.1) == renyi(leaf, 3.0)
    for order in (1.0, 0.5, -2.0, math.nan):
        with pytest.raises(ValueError, match="greater than 1"):
            renyi(Gaussian(1, 1), order)


@given(additive(), st.floats(0, 1), st.floats(0, 1), st.integers(2, 40))
def test_sampling_more_never_costs_less(leaf: AdditiveNoise, one: float, other: float, order: int) -> None:
    low, high = sorted((one, other))
    assert (
        renyi(PoissonSampled(low, leaf), order)
        <= renyi(PoissonSampled(high, leaf), order) * (1 + NUMERICAL) + 1e-15
    )


@given(poisson_binomials(), st.floats(1.05, 60))
@settings(deadline=None)
def test_an_observer_who_knows_more_contributors_never_sees_less(leaf: PoissonBinomial, order: float) -> None:
    unaware = PoissonBinomial(leaf.contributors + 1, leaf.trials, leaf.beta, leaf.changed)
    assert renyi(unaware, order) <= renyi(leaf, order) * (1 + NUMERICAL) + 1e-12


@given(st.floats(1.01, 30), st.integers(0, 6), st.integers(0, 6), st.floats(0.5, 50))
def test_a_laplace_shift_costs_most_on_one_coordinate(
    order: float, one: int, other: int, scale: float
) -> None:
    for kind in (Laplace, DiscreteLaplace):
        together, apart = kind(one + other, scale), Composed((kind(one, scale), kind(other, scale)))
        assert renyi(apart, order) <= renyi(together, order) * (1 + NUMERICAL) + 1e-12


def test_tables_that_are_too_long_or_too_short_fall_back_to_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert exact_skellam_renyi(1, 1e12, 2.0) == math.inf
    assert exact_order_limit(0, 1.0) > 2
    assert exact_skellam_renyi(0, 1.0, 2.0) == 0
    assert renyi(Skellam(3, 3, 10**12, coordinates=1), 4.0) == renyi(Skellam(3, 3, 10**12), 4.0)
    assert renyi(Skellam(5, 5, 1, coordinates=1), 10**6) == renyi(Skellam(5, 5, 1), 10**6)
    assert exact_skellam_renyi(1, 1e4, 2.0) < 1
    monkeypatch.setattr("colonnade.privacy.distributions._DEVIATIONS", 0.0)
    assert exact_skellam_renyi(1, 1e4, 2.0) == math.inf


def test_every_leaf_has_a_rule() -> None:
    kinds = {kind for part in get_args(Mechanism) for kind in (get_args(part) or (part,))}
    samples: dict[type, Mechanism] = {
        Gaussian: Gaussian(1, 2),
        DiscreteGaussian: DiscreteGaussian(1, 4),
        Laplace: Laplace(1, 2),
        DiscreteLaplace: DiscreteLaplace(1, 2),
        Skellam: Skellam(1, 1, 4),
        MatrixSkellam: MatrixSkellam(MatrixChange(1, 1, 1, 1), 4),
        PoissonBinomial: PoissonBinomial(3, 2, 0.1),
        PerStep: PerStep((1, 1), 4),
    }
    assert set(samples) == kinds
    assert all(0 < rule_of(leaf)(2.0) < math.inf for leaf in samples.values())


@given(mechanisms(), st.sampled_from([1e-9, 1e-5, 1e-2]))
@settings(deadline=None, max_examples=50)
def test_the_best_order_for_epsilon_is_an_order_for_delta(leaf: Mechanism, delta: float) -> None:
    items = itemise(leaf)
    epsilon, order = least_epsilon(items, delta)
    assert order > 1
    assert least_delta(items, epsilon)[0] <= delta * (1 + 1e-6)


# The Poisson binomial: the worst pair is among those the rule looks at, for every divergence.


BETA = Fraction(1, 5)
LOW, HIGH = Fraction(1, 2) - BETA, Fraction(1, 2) + BETA


@pytest.mark.parametrize(("contributors", "trials"), [(1, 1), (1, 3), (2, 1), (2, 2), (3, 1), (3, 2)])
def test_no_choice_of_coins_costs_more_than_the_rule(contributors: int, trials: int) -> None:
    """Every coin free at ends and middle of [½ − β, ½ + β]; the rule is attained up to rounding."""
    leaf = PoissonBinomial(contributors, trials, BETA)
    [(curve, _)] = curves_of(leaf) or ()
    levels = (LOW, Fraction(1, 2), HIGH)
    pairs = list(oracle.neighbours_of_coins(trials, (contributors - 1) * trials, levels))
    for order in (1.5, 4.0, 16.0):
        worst = max(oracle.renyi_of_tables(first, second, order) for first, second in pairs)
        assert worst <= poisson_binomial_renyi(leaf, order) <= worst * (1 + 1e-9)
    for epsilon in (-0.7, 0.0, 0.4, 1.1):
        worst = max(oracle.hockey_stick_of_tables(first, second, epsilon) for first, second in pairs)
        assert math.isclose(float(curve.forward(np.array([epsilon]))[0]), worst, rel_tol=1e-9, abs_tol=1e-15)


@given(
    st.lists(st.fractions(LOW, HIGH), min_size=4, max_size=4),
    st.fractions(LOW, HIGH),
    st.fractions(LOW, HIGH),
)
@settings(max_examples=60, deadline=None)
def test_no_real_parameters_cost_more_than_the_rule(
    others: list[Fraction], before: Fraction, after: Fraction
) -> None:
    """Three contributors with two coins each: what the mechanism really does, each party one parameter."""
    rest = list(itertools.chain.from_iterable((p, p) for p in others[:2]))
    first, second = oracle.sum_of_coins([*rest, before, before]), oracle.sum_of_coins([*rest, after, after])
    leaf = PoissonBinomial(3, 2, BETA)
    assert oracle.renyi_of_tables(first, second, 3.0) <= poisson_binomial_renyi(leaf, 3.0)


@pytest.mark.parametrize("beta", [0.05, 0.1, 0.25])
@pytest.mark.parametrize(("contributors", "trials"), [(2, 2), (2, 8), (4, 4), (5, 4), (10, 2), (10, 16)])
def test_the_homogeneous_pair_is_the_worst_for_renyi(contributors: int, trials: int, beta: float) -> None:
    leaf = PoissonBinomial(contributors, trials, beta)
    for order in (1.1, 2.0, 8.0, 32.0):
        homogeneous = homogeneous_renyi(contributors, trials, beta, order)
        assert (
            homogeneous * (1 - 1e-9)
            <= poisson_binomial_renyi(leaf, order)
            <= homogeneous * (1 + 1e-6) + 1e-10
        )


def test_the_homogeneous_pair_is_not_the_worst_for_the_hockey_stick_and_two_of_three_are_bounded() -> None:
    """Why the loss distribution takes the pointwise largest curve."""
    high, low = probabilities(PoissonBinomial(2, 4, Fraction(1, 10)))
    firsts, seconds = worst_pairs(2, 4, high, low)
    sticks = np.maximum(0, firsts - math.exp(0.2) * seconds).sum(axis=1)
    assert sticks.max() > 1.05 * sticks[-1]
    leaf = PoissonBinomial(3, 1, BETA, changed=2)
    for first, second in oracle.neighbours_of_coins(2, 1, (LOW, HIGH)):
        assert oracle.renyi_of_tables(first, second, 3.0) <= poisson_binomial_renyi(leaf, 3.0) * (1 + 1e-12)


@pytest.mark.parametrize("order", [1.2, 2.0, 10.0])
def test_all_contributors_changing_costs_every_coin(order: float) -> None:
    leaf = PoissonBinomial(3, 2, BETA, changed=3)
    truth = oracle.renyi_of_tables(oracle.sum_of_coins([HIGH] * 6), oracle.sum_of_coins([LOW] * 6), order)
    assert math.isclose(poisson_binomial_renyi(leaf, order), truth, rel_tol=1e-9)
    [(curve, count)] = curves_of(leaf) or ()
    assert count == 6
    assert math.isclose(float(curve.forward(np.array([0.0]))[0]), float(2 * BETA), rel_tol=1e-12)


def test_long_sums_are_cut_into_groups_and_crowds_and_extremes_stay_within_bounds() -> None:
    leaf = PoissonBinomial(10, 128, Fraction(1, 20))
    cut = groups(leaf)
    assert sum(trials * count for _, trials, count in cut) == 128
    assert all(contributors == 10 and contributors * trials <= MAX_SUM for contributors, trials, _ in cut)
    exact = homogeneous_renyi(10, 128, 0.05, 2.0)
    assert exact <= poisson_binomial_renyi(leaf, 2.0) <= 1.001 * exact
    crowd = PoissonBinomial(MAX_SUM + 50, 1, Fraction(1, 10))
    assert groups(crowd) == [(MAX_SUM, 1, 1)]
    assert poisson_binomial_renyi(crowd, 2.0) >= homogeneous_renyi(MAX_SUM + 50, 1, 0.1, 2.0)
    leaf = PoissonBinomial(50, 7, Fraction(499, 1000))
    assert 0 < poisson_binomial_renyi(leaf, 64.0) <= pure_loss(leaf) * (1 + 1e-9)


@pytest.mark.parametrize(("contributors", "trials"), [(1, 1), (3, 2), (2, 4)])
def test_the_largest_loss_is_the_largest_ratio(contributors: int, trials: int) -> None:
    leaf = PoissonBinomial(contributors, trials, BETA)
    firsts, seconds = worst_pairs(contributors, trials, *probabilities(leaf))
    assert math.isclose(float(np.log(firsts / seconds).max()), pure_loss(leaf), rel_tol=1e-12)
