"""Functions of doubles that accounting rests on, against many digits."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.privacy.distributions import log_sum, scaled_erfc


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
