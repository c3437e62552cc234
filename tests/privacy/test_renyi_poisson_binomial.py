"""The Poisson binomial: the worst pair is among those the rule looks at, for every divergence."""

import itertools
import math
from fractions import Fraction

import divergence_oracle as oracle
import numpy as np
import pytest
from homogeneous_loss import homogeneous_renyi
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.privacy.distributions import (
    MAX_SUM,
    groups,
    poisson_binomial_renyi,
    probabilities,
    pure_loss,
    worst_pairs,
)
from colonnade.privacy.events import PoissonBinomial
from colonnade.privacy.loss import curves_of

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
