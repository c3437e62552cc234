"""The matrix sensitivities against every integer row there is."""

import math
from fractions import Fraction
from typing import Any

import matrix_brute_force as brute
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from colonnade.privacy.events import MatrixChange
from colonnade.privacy.sensitivity.matrix import (
    RowShape,
    matrix_change_part_replaced,
    matrix_change_replace,
    matrix_change_zero_out,
    triangle_change_replace,
    triangle_change_zero_out,
)

SHAPES = [
    RowShape(features=1, norm_squared=9),
    RowShape(features=2, norm_squared=8),
    RowShape(features=2, norm_squared=25),
    RowShape(features=3, norm_squared=12),
    RowShape(features=4, norm_squared=4),
    RowShape(features=0, norm_squared=0, label_entries=3, label_norm_squared=4, one_hot=True),
    RowShape(features=1, norm_squared=4, label_entries=2, label_norm_squared=4, one_hot=True),
    RowShape(features=2, norm_squared=8, label_entries=2, label_norm_squared=4, one_hot=True),
    RowShape(features=2, norm_squared=9, label_entries=3, label_norm_squared=9, one_hot=True),
    RowShape(features=3, norm_squared=3, label_entries=2, label_norm_squared=16, one_hot=True),
    RowShape(features=2, norm_squared=2, label_entries=1, label_norm_squared=4, one_hot=True),
    RowShape(features=1, norm_squared=5, label_entries=2, label_norm_squared=8),
    RowShape(features=2, norm_squared=4, label_entries=2, label_norm_squared=2),
]
SMALL = [shape for shape in SHAPES if len(brute.all_rows(shape)) <= 64]
PAIRS = [(a, b) for a in SMALL for b in SMALL if not (a.label_entries and b.label_entries)]


def claimed(change: MatrixChange) -> list[Any]:
    return [change.frobenius**2, change.weighted_l1, change.fourth, change.fourth_l1]


def covers(bounds: Any, exact: NDArray[np.int64] | list[float]) -> bool:
    return all(bound >= int(value) for bound, value in zip(bounds, exact, strict=False))


@pytest.mark.parametrize("row", SHAPES, ids=str)
def test_no_integer_row_moves_the_matrix_further_zeroed_out_or_replaced(row: RowShape) -> None:
    exact = brute.worst_zero_out(row)
    assert covers(claimed(matrix_change_zero_out(row)), exact)
    triangle = triangle_change_zero_out(row)
    assert covers([triangle.l1, triangle.l2**2], exact[4:])
    exact = brute.worst_replace(row)
    assert covers(claimed(matrix_change_replace(row)), exact)
    triangle = triangle_change_replace(row)
    assert covers([triangle.l1, triangle.l2**2], exact[4:])


@pytest.mark.parametrize(("part", "rest"), PAIRS, ids=str)
def test_no_part_of_a_row_moves_the_matrix_further(part: RowShape, rest: RowShape) -> None:
    assert covers(claimed(matrix_change_part_replaced(part, rest)), brute.worst_part_replaced(part, rest))


def test_the_bounds_are_attained_by_a_flat_row_and_by_replacement() -> None:
    row = RowShape(features=4, norm_squared=4)
    assert claimed(matrix_change_zero_out(row)) == list(brute.worst_zero_out(row)[:4])
    flat = RowShape(features=4, norm_squared=4, label_entries=2, label_norm_squared=1, one_hot=True)
    assert claimed(matrix_change_zero_out(flat)) == list(brute.worst_zero_out(flat)[:4])
    row = RowShape(features=2, norm_squared=9)
    assert brute.worst_replace(row)[0] == 2 * row.bound**2
    # b > a: the part flips its sign against a long rest.
    part, rest = RowShape(features=1, norm_squared=4), RowShape(features=1, norm_squared=9)
    assert brute.worst_part_replaced(part, rest)[0] == 8 * 4 * 9
    # b ≤ a: the part turns to an angle with cosine −b²/a².
    part, rest = RowShape(features=2, norm_squared=25), RowShape(features=1, norm_squared=25)
    assert brute.worst_part_replaced(part, rest)[0] == 2 * 50**2


shapes = st.builds(
    lambda d, r, e, g, one: RowShape(
        features=d,
        norm_squared=r if d else 0,
        label_entries=e,
        label_norm_squared=g if e else 0,
        one_hot=one and e > 0,
    ),
    st.integers(0, 60),
    st.integers(0, 10**12),
    st.integers(0, 5),
    st.integers(0, 10**12),
    st.booleans(),
)
plain = st.builds(RowShape, features=st.integers(1, 60), norm_squared=st.integers(1, 10**12))


@given(shapes, st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_random_long_rows_stay_inside_the_zero_out_bounds(row: RowShape, seed: int) -> None:
    generator = np.random.default_rng(seed)
    z = np.zeros(row.features + row.label_entries)
    if row.features:
        x = generator.choice([-1.0, 1.0], row.features) * (
            1 + generator.random() * generator.random(row.features)
        )
        z[: row.features] = x / np.linalg.norm(x) * math.sqrt(row.norm_squared)
    if row.one_hot:
        z[row.features + generator.integers(row.label_entries)] = math.sqrt(row.label_norm_squared)
    elif row.label_entries:
        z[row.features :] = math.sqrt(row.label_norm_squared / row.label_entries)
    whole = np.trunc(z).astype(object)
    d = np.outer(whole, whole)
    diagonal, above = np.diag(d), d[np.triu_indices(len(z), 1)]
    exact = [
        (diagonal**2).sum() + 2 * (above**2).sum(),
        abs(diagonal).sum() + 2 * abs(above).sum(),
        (diagonal**2).sum() + 4 * (above**2).sum(),
        abs(diagonal).sum() + 4 * abs(above).sum(),
    ]
    assert covers(claimed(matrix_change_zero_out(row)), exact)


@given(plain, shapes)
def test_replacing_a_part_moves_no_more_than_replacing_the_record(part: RowShape, rest: RowShape) -> None:
    whole = part.alongside(rest)
    replaced, other = matrix_change_part_replaced(part, rest), matrix_change_replace(whole)
    assert replaced.frobenius <= other.frobenius
    assert replaced.weighted_l1 <= other.weighted_l1
    assert replaced.fourth <= other.fourth
    assert replaced.fourth_l1 <= other.fourth_l1


@given(shapes)
def test_replacing_costs_at_most_twice_zeroing_out(row: RowShape) -> None:
    assert matrix_change_replace(row).frobenius <= 2 * matrix_change_zero_out(row).frobenius


@pytest.mark.parametrize(
    "fields",
    [
        {"features": -1, "norm_squared": 0},
        {"features": 0, "norm_squared": 1},
        {"features": 1, "norm_squared": 1, "label_norm_squared": 1},
        {"features": 1, "norm_squared": 1, "one_hot": True},
    ],
)
def test_an_impossible_row_cannot_be_made(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        RowShape(**fields)


def test_forgotten_roots_and_miscounted_entries_would_be_noticed_and_two_labels_do_not_stand_together() -> (
    None
):
    row = RowShape(features=2, norm_squared=9)
    assert not covers([row.bound**2], brute.worst_replace(row))
    flat = RowShape(features=4, norm_squared=4, label_entries=2, label_norm_squared=1, one_hot=True)
    _, weighted, fourth, fourth_l1 = brute.worst_zero_out(flat)[:4]
    assert fourth > Fraction(2 * flat.features - 1, flat.features) * flat.bound**2
    assert weighted > flat.features * flat.bound
    assert fourth_l1 > 2 * weighted - flat.bound - 1
    labelled = RowShape(features=1, norm_squared=1, label_entries=2, label_norm_squared=1)
    with pytest.raises(ValueError, match="label"):
        labelled.alongside(labelled)
