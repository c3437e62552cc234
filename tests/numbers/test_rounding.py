"""Rounding keeps the norm bounds it states, for every row and every coin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy import stats

from colonnade.numbers.rounding import nearest, retry, stochastic, toward_zero
from colonnade.randomness import SeededRandomness

FALSE_ALARM = 1e-9

rows = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6),
    elements=st.floats(-1e6, 1e6, allow_nan=False),
)


class _AllOnes:
    """Coins that all say down (the highest value) or all say up (zero)."""

    reproducible = True

    def __init__(self, word: int) -> None:
        self._word = word

    def bytes(self, count: int) -> bytes:
        raise NotImplementedError

    def words(self, count: int) -> np.ndarray:
        return np.full(count, self._word, dtype=np.uint64)


@given(rows)
def test_nearest_moves_by_no_more_than_a_half_and_toward_zero_grows_no_entry(
    values: NDArray[np.float64],
) -> None:
    assert (np.abs(nearest(values) - values) <= 0.5).all()
    rounded = toward_zero(values)
    assert (np.abs(rounded) <= np.abs(values)).all()
    assert (np.abs(values - rounded) < 1).all()


@given(rows, st.sampled_from([0, 2**64 - 1]))
def test_stochastic_moves_no_entry_by_one_whatever_the_coins(values: NDArray[np.float64], word: int) -> None:
    moved = stochastic(values, _AllOnes(word)) - values
    assert (np.abs(moved) <= 1).all()
    whole = values == np.floor(values)
    assert (moved[whole] == 0).all()


def test_stochastic_has_the_value_as_its_mean_and_two_hundredths_would_be_noticed() -> None:
    values = np.repeat([[0.25, -0.25, 7.9, -1e-3]], 100_000, axis=0)
    ups = (stochastic(values, SeededRandomness("mean")) - np.floor(values[0])).sum(axis=0)
    for up, fraction in zip(ups, values[0] - np.floor(values[0]), strict=True):
        assert stats.binomtest(int(up), len(values), fraction).pvalue > FALSE_ALARM
    values = np.full((100_000, 1), 0.27)
    up = int(stochastic(values, SeededRandomness("power")).sum())
    assert stats.binomtest(up, len(values), 0.25).pvalue < FALSE_ALARM


@given(rows, st.integers(0, 2**32))
@settings(deadline=None)
def test_retry_keeps_its_bound_on_every_row(values: NDArray[np.float64], seed: int) -> None:
    bound = int(np.ceil(np.square(values).sum(axis=1).max())) + values.shape[1]
    rounded = retry(values, bound, SeededRandomness(seed))
    assert all(sum(int(v) ** 2 for v in row) <= bound for row in rounded)
    assert (np.abs(rounded - values) <= 1).all()


def test_retry_keeps_a_bound_that_stochastic_rounding_breaks_and_truncates_without_luck() -> None:
    # γ = 16 and n = 117 equal entries: every entry rounds up to 2, and 468 > 16² + 117.
    values = np.full((1, 117), 16 / np.sqrt(117))
    assert int(np.square(stochastic(values, _AllOnes(0))).sum()) == 468
    assert int(np.square(retry(values, 16**2 + 117, _AllOnes(0))).sum()) == 117
    values = np.array([[1.5, -1.5], [0.5, 0.0]])
    assert retry(values, 5, _AllOnes(0)).tolist() == [[2, -1], [1, 0]]
    assert retry(values, 4, _AllOnes(0)).tolist() == [[1, -1], [1, 0]]


def test_retry_refuses_rows_past_the_bound_and_compares_large_rows_exactly() -> None:
    with pytest.raises(ValueError, match="norm bound"):
        retry(np.array([[3.0, 4.0]]), 24, SeededRandomness(1))
    values = np.array([[2.0**40, 2.0**40 + 1]])
    norm = 2**80 + (2**40 + 1) ** 2
    assert retry(values, norm, SeededRandomness(1)).tolist() == [[2**40, 2**40 + 1]]
    with pytest.raises(ValueError, match="norm bound"):
        retry(values, norm - 1, SeededRandomness(1))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 2.0**52])
def test_what_is_not_a_moderate_number_is_refused(value: float) -> None:
    for rounding in (nearest, toward_zero):
        with pytest.raises(ValueError, match="finite"):
            rounding(np.array([0.0, value]))
    with pytest.raises(ValueError, match="finite"):
        stochastic(np.array([0.0, value]), SeededRandomness(1))
