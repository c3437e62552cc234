"""Sensitivities of the functional mechanism against brute force: opened integers in box and ball, and closed forms."""

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import functional_brute_force as brute
import functional_formulas as formulas
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from colonnade.privacy.sensitivity import functional as fm
from colonnade.privacy.sensitivity.functional import (
    CoefficientRow,
    FeatureBounds,
    cross_replaced,
    cross_zeroed,
)

CLOSE = 1 + 1e-12


def coefficients(x: Any, label: Any, constant: Any) -> NDArray[np.int64]:
    """What is opened of one row: products of features once, and features with constant and label."""
    upper = np.outer(x, x)[np.triu_indices(len(x))]
    border = [constant * x] if constant else []
    return np.concatenate([upper, label * x, *border, [label * constant]])


def boxes(
    widths: tuple[int, ...], *, side: int, label: int, constant: int, holder: int = 0
) -> CoefficientRow:
    return CoefficientRow(
        tuple(FeatureBounds.box(width, side=side) for width in widths), holder, label, constant
    )


def split(x: NDArray[np.int64], widths: tuple[int, int]) -> list[NDArray[np.int64]]:
    return np.split(x, np.cumsum(widths)[:-1])


def worst(pairs: Iterator[Any], norm: int) -> float:
    return max(float(np.linalg.norm(after - before, norm)) for before, after in pairs)


@pytest.mark.parametrize("widths", [(1, 1), (2, 1), (1, 2), (0, 2)])
@pytest.mark.parametrize(("side", "label", "constant"), [(2, 2, 0), (2, 2, 2), (1, 4, 1), (2, 1, 1)])
def test_no_integer_row_of_a_box_moves_the_coefficients_further(
    widths: tuple[int, int], side: int, label: int, constant: int
) -> None:
    row = boxes(widths, side=side, label=label, constant=constant)
    grid = range(-side, side + 1)
    points = [np.array(x) for x in itertools.product(grid, repeat=sum(widths))]
    labels = (-label, label)
    values = {(tuple(x), v): coefficients(x, v, constant) for x in points for v in labels}
    zero = np.zeros_like(next(iter(values.values())))
    assert worst(((zero, value) for value in values.values()), 1) == row.zeroed().l1
    assert worst(((zero, value) for value in values.values()), 2) == pytest.approx(row.zeroed().l2)
    for parties in ({0}, {1}, {0, 1}):
        moved = row.replaced(parties)
        fixed = [index for index in range(2) if index not in parties]

        def frozen(
            key: tuple[tuple[np.int64, ...], int], fixed: list[int] = fixed
        ) -> tuple[tuple[tuple[np.int64], ...], int | None]:
            parts = split(np.array(key[0]), widths)
            return tuple(tuple(parts[i]) for i in fixed), key[1] if 0 in fixed else None

        groups: dict[Any, Any] = {}
        for key, value in values.items():
            groups.setdefault(frozen(key), []).append(value)
        pairs = [np.array(members) for members in groups.values()]
        l1 = max(float(np.abs(each[:, None] - each[None]).sum(axis=2).max()) for each in pairs)
        l2 = max(float(((each[:, None] - each[None]) ** 2).sum(axis=2).max()) for each in pairs)
        assert l1 <= moved.l1 and l2 <= moved.l2_squared
        assert l1 >= 0.85 * moved.l1 and l2 >= 0.7 * moved.l2_squared


@pytest.mark.parametrize("features", [3, 6, 11])
@pytest.mark.parametrize("own", [0, 1, 2])
def test_the_l1_of_a_part_in_a_box_is_attained_on_a_fine_grid(features: int, own: int) -> None:
    side, label, constant = 10_000, 10_000, 10_000
    widths = (own, features - own)
    row = boxes(widths, side=side, label=label, constant=constant)
    best = 0.0
    for flip in (1, -1):
        for shrink in np.linspace(-1, 1, 801):
            x, other = np.ones(features), np.ones(features)
            other[:own] = shrink
            change = coefficients(x, 1.0, 1.0) - coefficients(other, float(flip), 1.0)
            best = max(best, float(np.abs(change).sum()))
    assert best * side**2 <= row.replaced({0}).l1
    assert best * side**2 >= 0.999 * row.replaced({0}).l1


@given(
    st.lists(st.integers(1, 3), min_size=2, max_size=3),
    st.integers(0, 2**32),
    st.sampled_from([(0, 0.5), (1, 1.0), (2, 4.0)]),
    st.booleans(),
)
def test_no_row_of_the_balls_moves_the_coefficients_further(
    widths: list[int], seed: int, label: tuple[int, float], one_hot: bool
) -> None:
    constant, weight = label
    scale = 1000
    draw = np.random.default_rng(seed)
    squares = tuple(int(draw.integers(1, scale**2)) for _ in widths)
    row = CoefficientRow(
        tuple(FeatureBounds.ball(w, square=s) for w, s in zip(widths, squares, strict=True)),
        0,
        int(weight * scale),
        constant * scale,
    )

    def point() -> tuple[list[NDArray[np.float64]], float]:
        parts = []
        for width, square in zip(widths, squares, strict=True):
            x = np.zeros(width)
            if one_hot:
                x[draw.integers(width)] = draw.choice([-1, 1])
            else:
                x = draw.normal(size=width)
            parts.append(x / np.linalg.norm(x) * math.sqrt(square))
        return parts, float(draw.choice([-1, 1])) * row.label

    for parties in ({0}, {1}, set(range(len(widths)))):
        moved = row.replaced(parties)
        for _ in range(5):
            (x, v), (y, w) = point(), point()
            if draw.random() < 0.3:
                y = [-part for part in x]
            y = [y[i] if i in parties else x[i] for i in range(len(widths))]
            w = w if 0 in parties else v
            change = coefficients(np.concatenate(x), v, row.constant) - coefficients(
                np.concatenate(y), w, row.constant
            )
            assert np.abs(change).sum() <= (float(moved.l1) + 1) * CLOSE
            assert (change**2).sum() <= (float(moved.l2_squared) + 1) * CLOSE
        whole = coefficients(np.concatenate(x), v, row.constant)
        assert np.abs(whole).sum() <= (float(row.zeroed().l1) + 1) * CLOSE
        assert (whole**2).sum() <= (float(row.zeroed().l2_squared) + 1) * CLOSE


@pytest.mark.parametrize(("holder", "flip", "t"), [(1, 1, -(7**2 + 5**2) / 2), (0, -1, (7**2 - 5**2) / 2)])
def test_rows_attain_the_l2_of_the_ball(holder: int, flip: int, t: float) -> None:
    row = CoefficientRow((FeatureBounds.ball(3, square=100), FeatureBounds.ball(0, square=0)), holder, 7, 5)
    assert (coefficients(np.array([10.0, 0, 0]), 7.0, 5.0) ** 2).sum() == row.zeroed().l2_squared
    # Difference and sum lie along (1, 1) and (1, −1), so that the diagonal of the change is full; t = ⟨x, x′⟩.
    difference = math.sqrt(100 - t) * np.array([1.0, 1.0, 0.0])
    whole = math.sqrt(100 + t) * np.array([1.0, -1.0, 0.0])
    x, other = (difference + whole) / 2, (whole - difference) / 2
    assert x @ x == pytest.approx(100) and x @ other == pytest.approx(t)
    change = coefficients(x, 7.0, 5.0) - coefficients(other, 7.0 * flip, 5.0)
    assert (change**2).sum() == pytest.approx(float(row.replaced({0}).l2_squared))


@pytest.mark.parametrize("features", range(1, 9))
def test_without_constant_these_are_the_closed_forms_on_the_unit_grid(features: int) -> None:
    """Logistic coefficients times 8 have a label of 4; linear ones lack the square of the label."""
    for own, mine in itertools.product(range(features + 1), (True, False)):
        if not own and not mine:
            continue
        widths = (own, features - own)
        logistic = boxes(widths, side=1, label=4, constant=0, holder=0 if mine else 1)
        closed = formulas.logistic_part_replaced(features, own=own, holds_label=mine)
        assert logistic.replaced({0}).l1 == math.floor(8 * closed.l1)
        assert logistic.replaced({0}).l2_squared <= 64 * closed.l2_squared
        linear = boxes(widths, side=1, label=1, constant=0, holder=0 if mine else 1)
        closed = formulas.linear_part_replaced(features, own=own, holds_label=mine)
        assert linear.replaced({0}).l1 <= closed.l1
        assert linear.replaced({0}).l2_squared <= closed.l2_squared
    row = boxes((features,), side=1, label=4, constant=0)
    assert row.zeroed().l1 == 8 * fm.logistic_zero_out(features).l1
    assert row.zeroed().l2_squared == 64 * fm.logistic_zero_out(features).l2_squared
    row = boxes((features,), side=1, label=1, constant=0)
    assert row.zeroed().l1 == fm.linear_zero_out(features).l1 - 1


@given(
    st.lists(st.integers(0, 3), min_size=2, max_size=4),
    st.integers(1, 50),
    st.integers(1, 50),
    st.sampled_from([0, 7]),
    st.booleans(),
)
def test_the_blocks_of_a_zeroed_record_add_up_to_the_whole(
    widths: list[int], side: int, label: int, constant: int, ball: bool
) -> None:
    part: Callable[[int], FeatureBounds] = (
        (lambda width: FeatureBounds.ball(width, square=side**2))
        if ball
        else (lambda width: FeatureBounds.box(width, side=side))
    )
    row = CoefficientRow(tuple(part(width) for width in widths), len(widths) - 1, label, constant)
    single = [row.only(k).zeroed() for k in range(len(widths))]
    cross = [cross_zeroed(row, k, j) for k, j in itertools.combinations(range(len(widths)), 2)]
    blocks = [*single, *cross]
    total = row.zeroed()
    assert abs(sum(block.l1 for block in blocks) - total.l1) <= len(blocks)
    assert abs(sum(block.l2_squared for block in blocks) - total.l2_squared) <= len(blocks)


def test_a_sign_attains_twice_the_cross_block_and_more_replaced_never_moves_less() -> None:
    row = boxes((2, 3), side=2, label=3, constant=2)
    p, q = np.array([2, 2, 3]), np.array([2, 2, 2])
    assert np.abs(np.outer(p, q)).sum() == cross_zeroed(row, 0, 1).l1
    assert np.abs(2 * np.outer(p, q)).sum() == cross_replaced(row, 1, 0).l1
    assert (4 * np.outer(p, q) ** 2).sum() == cross_replaced(row, 1, 0).l2_squared
    row = boxes((2, 3, 1), side=5, label=20, constant=5, holder=2)
    assert row.replaced(()).l1 == 0 and row.replaced(()).l2 == 0
    for small, large in (({0}, {0, 1}), ({0, 1}, {0, 1, 2}), ({2}, {1, 2})):
        assert row.replaced(small).l1 <= row.replaced(large).l1
        assert row.replaced(small).l2_squared <= row.replaced(large).l2_squared
    assert row.features == 6 and row.largest == 20
    row = CoefficientRow((FeatureBounds.ball(3, square=101), FeatureBounds.ball(2, square=77)), 0, 9, 4)
    for change in (row.zeroed(), row.replaced({0}), row.replaced({0, 1}), cross_zeroed(row, 0, 1)):
        assert change.l1.denominator == change.l2_squared.denominator == 1
        assert isinstance(change.l1, Fraction)


@pytest.mark.parametrize(
    "make",
    [
        lambda: fm.linear_zero_out(0),
        lambda: FeatureBounds(-1, 4),
        lambda: FeatureBounds.box(1, side=0),
        lambda: FeatureBounds(1, -4),
        lambda: CoefficientRow((FeatureBounds.box(1, side=1),), None, 1),
        lambda: CoefficientRow((FeatureBounds.box(1, side=1),), 0, 0),
        lambda: CoefficientRow((FeatureBounds.box(1, side=1),), 0, 1, -1),
        lambda: CoefficientRow((FeatureBounds.box(1, side=1),), 1, 1),
        lambda: CoefficientRow((FeatureBounds.box(1, side=1), FeatureBounds.ball(1, square=1)), 0, 1),
        lambda: CoefficientRow((FeatureBounds.box(1, side=1), FeatureBounds.box(1, side=2)), 0, 1),
    ],
)
def test_bounds_that_make_no_sense_are_refused(make: Callable[..., Any]) -> None:
    with pytest.raises(ValueError):
        make()


def parts(largest: int) -> list[tuple[int, int, bool]]:
    return [
        (d, own, label)
        for d in range(1, largest + 1)
        for own in range(d + 1)
        for label in (False, True)
        if own or label
    ]


@pytest.mark.parametrize(("features", "own", "label"), parts(4))
def test_no_vertex_moves_a_partys_coefficients_further(features: int, own: int, label: bool) -> None:
    change = formulas.linear_part_replaced(features, own=own, holds_label=label)
    entries, mine = features + 1, own + label
    assert brute.linear_part(entries, 1, own=mine) <= change.l1 * CLOSE
    assert brute.linear_part(entries, 2, own=mine) <= change.l2 * CLOSE
    ordered = formulas.linear_part_ordered_l1(features, own=own, holds_label=label)
    assert brute.linear_part(entries, 1, own=mine, ordered=True) == ordered
    change = formulas.logistic_part_replaced(features, own=own, holds_label=label)
    assert brute.logistic_part(features, 1, own=own, holds_label=label) <= change.l1 * CLOSE
    assert brute.logistic_part(features, 2, own=own, holds_label=label) <= change.l2 * CLOSE
    worst = brute.logistic_part(features, 1, own=own, holds_label=label, ordered=True)
    assert worst <= formulas.logistic_part_ordered_l1(features, own=own, holds_label=label) * CLOSE


@pytest.mark.parametrize("features", range(1, 6))
def test_zeroing_out_a_flat_record_attains_the_box_sensitivities(features: int) -> None:
    x, z = np.ones(features), np.ones(features + 1)
    for change, bound in (
        (brute.linear_coefficients(z, False), fm.linear_zero_out(features)),
        (brute.logistic_coefficients(x, 0, False), fm.logistic_zero_out(features)),
    ):
        assert np.abs(change).sum() == pytest.approx(float(bound.l1), rel=1e-14)
        assert np.linalg.norm(change) == pytest.approx(bound.l2, rel=1e-14)


def test_the_papers_linear_sensitivities_double_and_norms_are_rounded_up() -> None:
    assert [formulas.linear_part_ordered_l1(d, own=d, holds_label=True) for d in (1, 2, 3, 4)] == [
        4,
        9,
        16,
        25,
    ]
    assert formulas.linear_part_ordered_l1(10, own=1, holds_label=False) == 40
    assert formulas.linear_part_ordered_l1(14, own=3, holds_label=False) == 144
    assert formulas.linear_part_ordered_l1(800, own=200, holds_label=False) == 480800
    assert Fraction(fm.CoefficientChange(Fraction(1), Fraction(2)).l2) ** 2 > 2
    assert Fraction(fm.CoefficientChange(Fraction(1), Fraction(3)).l2) ** 2 > 3
