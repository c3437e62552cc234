"""SLR's gradient sensitivities against every small integer record and weight."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matrix_brute_force import integer_rows
from numpy.typing import NDArray

from colonnade.privacy.sensitivity.gradient import (
    GradientChange,
    GradientShape,
    fused_replace,
    fused_zero_out,
    three_part_replace,
    three_part_zero_out,
)

SHAPES = [(2, 1, 9, 4), (2, 2, 8, 4), (3, 2, 10, 9), (2, 3, 4, 3), (1, 2, 13, 2)]


def contributions(gamma: int, rows: NDArray[np.int64], weight: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """(fused, Σx̄, Σ⟨w̄,x̄⟩x̄, Σȳx̄) of every record, for both labels."""
    scores = rows @ weight
    fused, first, second, third = [], [], [], []
    for label in (0, gamma):
        fused.append(rows * (2 * gamma**2 + scores - 4 * gamma * label)[:, None])
        first.append(rows)
        second.append(rows * scores[:, None])
        third.append(rows * label)
    return [np.concatenate(parts) for parts in (fused, first, second, third)]


def inside(vectors: NDArray[np.int64], change: GradientChange) -> np.bool:
    squares = (vectors.astype(object) ** 2).sum(-1).max()
    result: np.bool = squares <= change.l2**2 and np.abs(vectors).sum(-1).max() <= change.l1
    return result


@pytest.mark.parametrize("numbers", SHAPES)
def test_no_integer_record_moves_the_gradient_further(numbers: tuple[int, int, int, int]) -> None:
    gamma, columns, norm, weight_norm = numbers
    shape = GradientShape(gamma=gamma, columns=columns, norm_squared=norm, weight_squared=weight_norm)
    rows = integer_rows(columns, norm)
    gone = (fused_zero_out(shape), *three_part_zero_out(shape))
    replaced = (fused_replace(shape), *three_part_replace(shape))
    for weight in integer_rows(columns, weight_norm):
        for vectors, out, swap in zip(contributions(gamma, rows, weight), gone, replaced, strict=True):
            assert inside(vectors, out)
            assert inside((vectors[:, None] - vectors[None]).reshape(-1, columns), swap)


def test_the_fused_bound_is_attained_by_a_row_along_the_weights() -> None:
    gamma = 16
    shape = GradientShape(gamma=gamma, columns=3, norm_squared=gamma**2, weight_squared=gamma**2)
    along = np.array([gamma, 0, 0])
    fused = contributions(gamma, along[None], along)[0]
    assert np.linalg.norm(fused, axis=1).max() == fused_zero_out(shape).l2 == 3 * gamma**3


@given(st.integers(1, 10**5), st.integers(1, 900), st.integers(0, 10**10), st.integers(0, 10**10))
def test_replacing_costs_at_most_twice_zeroing_out(gamma: int, columns: int, norm: int, weight: int) -> None:
    shape = GradientShape(gamma=gamma, columns=columns, norm_squared=norm, weight_squared=weight)
    pairs = [(fused_zero_out(shape), fused_replace(shape))]
    pairs += zip(three_part_zero_out(shape), three_part_replace(shape), strict=True)
    for out, swap in pairs:
        assert out.l2 <= swap.l2 <= 2 * out.l2 + 1


def test_formulas_agree_with_the_integers_and_impossible_gradients_are_refused() -> None:
    shape = GradientShape(gamma=64, columns=5, norm_squared=70**2, weight_squared=60**2)
    assert [part.l2 for part in three_part_zero_out(shape)] == [70, 60 * 70**2, 64 * 70]
    assert GradientChange.of_square(3, entries=1000).l1 == 3
    with pytest.raises(ValueError):
        GradientShape(gamma=0, columns=1, norm_squared=1, weight_squared=1)
    with pytest.raises(ValueError):
        GradientShape(gamma=1, columns=1, norm_squared=-1, weight_squared=1)
