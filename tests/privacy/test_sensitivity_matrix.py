"""The matrix sensitivities, plain and by class, against every integer row there is; every rounding of small rows."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import matrix_brute_force as brute
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from typed import untyped

from colonnade.privacy.events import MatrixChange
from colonnade.privacy.sensitivity.matrix import (
    Rounding,
    RowShape,
    conditional_change_part_replaced,
    conditional_change_replace,
    conditional_change_zero_out,
    matrix_change_part_replaced,
    matrix_change_replace,
    matrix_change_zero_out,
    norm_squared_bound,
    rounded_norm_squared,
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
    assert matrix_change_zero_out(RowShape(features=3, norm_squared=5)).fourth <= 2 * 25 - Fraction(25, 3)
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


# Moments by class.


def labelled(features: int, norm_squared: int, classes: int = 2, mark: int = 4) -> RowShape:
    return RowShape(features, norm_squared, classes, mark, one_hot=True)


LABELLED = [
    labelled(0, 0, 3),
    labelled(1, 4),
    labelled(1, 9, 3),
    labelled(2, 4),
    labelled(2, 8),
    labelled(2, 9, 3, 9),
    labelled(3, 3, 2, 16),
    labelled(3, 4, 2, 1),
]


def by_class(rows: NDArray[np.int64], features: int, classes: int) -> NDArray[np.int64]:
    """The released matrix of each row: z = (x, g) in the place of its class along the diagonal."""
    mark = rows[:, features:].max(axis=1, keepdims=True)
    alone = np.concatenate([rows[:, :features], mark], axis=1)
    placed = [alone * (rows[:, [features + kind]] > 0) for kind in range(classes)]
    return brute.outer(np.concatenate(placed, axis=1))


@pytest.mark.parametrize("row", LABELLED, ids=str)
def test_no_record_moves_moments_by_class_further_when_it_is_zeroed_out_or_replaced(row: RowShape) -> None:
    exact = brute.measures(by_class(brute.all_rows(row), row.features, row.label_entries)).max(0)
    assert covers(claimed(conditional_change_zero_out(row)), exact)
    products = by_class(brute.all_rows(row), row.features, row.label_entries)
    exact = np.max([brute.measures(products - one).max(0) for one in products], axis=0)
    claim = conditional_change_replace(row)
    assert covers(claimed(claim), exact)
    # A change of class attains it wherever the norm bound is attained.
    reached = int((brute.all_rows(row) ** 2).sum(axis=1).max())
    assert exact[0] >= 2 * reached**2 and (reached < row.bound or round(claim.frobenius**2) == exact[0])


def worst_part(part: RowShape, rest: RowShape) -> NDArray[np.int64]:
    """Over all values of what stays, the largest change by what is replaced; the label is in one of them."""
    label_first = bool(part.label_entries)
    holder, other = (part, rest) if label_first else (rest, part)
    worst: list[Any] = []
    for fixed in brute.all_rows(rest):
        parts = brute.all_rows(part)
        moving = np.concatenate([parts, np.broadcast_to(fixed, (len(parts), len(fixed)))], axis=1)
        # Features of both, then the label: the order in which `by_class` reads a row.
        first, second = (part, rest)
        split = first.features + first.label_entries
        features = [moving[:, : first.features], moving[:, split : split + second.features]]
        label = moving[:, first.features : split] if label_first else moving[:, split + second.features :]
        products = by_class(
            np.concatenate([*features, label], axis=1), holder.features + other.features, holder.label_entries
        )
        worst.extend(brute.measures(products - one).max(0) for one in products)
    result: NDArray[np.int64] = np.max(worst, axis=0)
    return result


PLAIN = [RowShape(1, 4), RowShape(2, 2), RowShape(1, 9)]


@pytest.mark.parametrize("mine", PLAIN, ids=str)
@pytest.mark.parametrize("row", LABELLED[1:5], ids=str)
def test_no_part_of_a_record_moves_moments_by_class_further_when_it_is_replaced(
    mine: RowShape, row: RowShape
) -> None:
    for part, rest in ((mine, row), (row, mine)):
        assert covers(claimed(conditional_change_part_replaced(part, rest)), worst_part(part, rest))


def test_the_plain_bound_would_be_too_small_where_the_label_can_change_and_needs_classes() -> None:
    labels, own = labelled(1, 1, 2, 1), RowShape(2, 9)
    exact = worst_part(labels, own)
    plain = matrix_change_part_replaced(labels, own)
    assert not covers(claimed(plain), exact)
    assert covers(claimed(conditional_change_part_replaced(labels, own)), exact)
    with pytest.raises(ValueError, match="one-hot"):
        conditional_change_zero_out(RowShape(2, 4))


# Rounded rows.


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
