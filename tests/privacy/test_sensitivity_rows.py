"""Rounded rows against every rounding of every small row."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typed import untyped

from colonnade.privacy.sensitivity.matrix import Rounding, norm_squared_bound, rounded_norm_squared

ROUNDINGS = ("nearest", "retry", "toward_zero", "stochastic")
NEIGHBOURS = {
    "nearest": lambda v: {math.floor(v + 0.5), math.ceil(v - 0.5)},
    "toward_zero": lambda v: {math.trunc(v)},
    "stochastic": lambda v: {math.floor(v), math.ceil(v)},
}
entries = st.lists(st.floats(-1, 1), min_size=1, max_size=6)


@given(entries, st.integers(1, 50), st.sampled_from(sorted(NEIGHBOURS)))
def test_no_rounding_of_a_clipped_row_is_longer_than_the_bound(
    values: list[float], gamma: int, rounding: Rounding
) -> None:
    length = math.sqrt(sum(v * v for v in values))
    scaled = [gamma * v / max(length, 1.0) * (1 - 1e-12) for v in values]
    most = max(
        sum(e * e for e in row) for row in itertools.product(*(NEIGHBOURS[rounding](v) for v in scaled))
    )
    assert most <= rounded_norm_squared(gamma, 1, columns=len(values), rounding=rounding)


def test_the_stochastic_bound_is_needed_where_the_papers_bound_fails() -> None:
    # 117 equal entries of 16/√117 may all round up to 2.
    assert all(2 in NEIGHBOURS["stochastic"](16 / math.sqrt(117)) for _ in range(117))
    assert rounded_norm_squared(16, 1, columns=117, rounding="retry") < 117 * 2**2
    assert rounded_norm_squared(16, 1, columns=117, rounding="stochastic") >= 117 * 2**2


@given(st.integers(1, 10**9), st.fractions(0, 4), st.integers(0, 500), st.sampled_from(ROUNDINGS))
def test_the_integer_bound_is_the_floor_of_the_formula(
    gamma: int, cap: Fraction, columns: int, rounding: Rounding
) -> None:
    exact = rounded_norm_squared(gamma, cap, columns=columns, rounding=rounding)
    formula = norm_squared_bound(gamma, cap, columns=columns, rounding=rounding)
    assert formula * (1 - 1e-13) - 1 <= exact <= formula * (1 + 1e-13) + 1e-9


@given(st.integers(1, 10**6), st.fractions(0, 1), st.integers(0, 300))
def test_the_roundings_are_ordered_by_how_much_they_can_add(gamma: int, cap: Fraction, columns: int) -> None:
    of = {
        name: rounded_norm_squared(gamma, cap, columns=columns, rounding=untyped(name)) for name in ROUNDINGS
    }
    assert of["toward_zero"] <= of["nearest"] <= of["stochastic"]
    assert of["toward_zero"] <= of["retry"] <= of["stochastic"]


@pytest.mark.parametrize(
    "call",
    [
        lambda: rounded_norm_squared(0, 1, columns=1, rounding="nearest"),
        lambda: rounded_norm_squared(1, -1.0, columns=1, rounding="nearest"),
        lambda: rounded_norm_squared(1, math.nan, columns=1, rounding="nearest"),
        lambda: rounded_norm_squared(1, math.inf, columns=1, rounding="nearest"),
        lambda: rounded_norm_squared(1, 1, columns=-1, rounding="nearest"),
        lambda: rounded_norm_squared(1, 1, columns=1, rounding=untyped("up")),
    ],
)
def test_impossible_rows_are_refused(call: Callable[..., Any]) -> None:
    with pytest.raises(ValueError):
        call()
