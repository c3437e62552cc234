"""Capacities and uses of Poisson batches against the binomial law itself."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from colonnade.privacy.calibrate import as_draws, batch_capacity, binomial_tail, most_uses
from colonnade.privacy.events import TOTAL_VARIATION_PER_DRAW

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
    assert draws * TOTAL_VARIATION_PER_DRAW >= Fraction(probability) > (draws - 1) * TOTAL_VARIATION_PER_DRAW


@pytest.mark.parametrize("wrong", [(-1, Fraction(1, 2), 0), (5, Fraction(3, 2), 0), (5, Fraction(1, 2), -1)])
def test_what_is_no_binomial_is_refused(wrong: tuple[int, Fraction, int]) -> None:
    with pytest.raises(ValueError, match="no tail"):
        binomial_tail(*wrong)
