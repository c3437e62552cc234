"""Functional-mechanism sensitivities against brute force over vertices and interior grids."""

import math
from collections.abc import Callable
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

FINE = (-1.0, -0.8, -0.5, 0.0, 0.5, 0.8, 1.0)
HALVES = (-1.0, -0.5, 0.0, 0.5, 1.0)
CLOSE = 1 + 1e-12


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
    ordered = fm.linear_part_ordered_l1(features, own=own, holds_label=label)
    assert brute.linear_part(entries, 1, own=mine, ordered=True) == ordered
    change = formulas.logistic_part_replaced(features, own=own, holds_label=label)
    assert brute.logistic_part(features, 1, own=own, holds_label=label) <= change.l1 * CLOSE
    assert brute.logistic_part(features, 2, own=own, holds_label=label) <= change.l2 * CLOSE
    worst = brute.logistic_part(features, 1, own=own, holds_label=label, ordered=True)
    assert worst <= fm.logistic_part_ordered_l1(features, own=own, holds_label=label) * CLOSE


@pytest.mark.parametrize(("features", "own", "label"), parts(2))
def test_no_interior_record_does_either(features: int, own: int, label: bool) -> None:
    linear = formulas.linear_part_replaced(features, own=own, holds_label=label)
    logistic = formulas.logistic_part_replaced(features, own=own, holds_label=label)
    for norm, first, second in ((1, linear.l1, logistic.l1), (2, linear.l2, logistic.l2)):
        assert brute.linear_part(features + 1, norm, own=own + label, grid=HALVES) <= first * CLOSE
        worst = brute.logistic_part(features, norm, own=own, holds_label=label, grid=FINE)
        assert worst <= second * CLOSE


@pytest.mark.parametrize("features", range(3, 9))
def test_the_logistic_l1_of_a_record_is_attained_inside_the_box_above_every_vertex(features: int) -> None:
    x, other = np.ones(features), np.full(features, -4 / (features + 1))
    change = brute.logistic_coefficients(x, 0, False) - brute.logistic_coefficients(other, 0, False)
    exact = formulas.logistic_replace(features).l1
    assert np.abs(change).sum() == pytest.approx(float(exact), rel=1e-12)
    assert exact == fm.logistic_zero_out(features).l1 + Fraction(features, features + 1)
    if features > 3:
        assert brute.logistic_part(features, 1, own=features, holds_label=False) < exact


@pytest.mark.parametrize("features", [4, 6, 12, 30])
def test_the_linear_l1_of_a_part_is_attained(features: int) -> None:
    for own in range(1, features):
        mine, rest = own, features + 1 - own
        p = min(2 * mine, mine + mine * rest / (mine + 1))
        z, other = np.ones(features + 1), np.ones(features + 1)
        other[:mine] = 1 - p / mine
        change = brute.linear_coefficients(z, False) - brute.linear_coefficients(other, False)
        bound = formulas.linear_part_replaced(features, own=own, holds_label=False).l1
        assert np.abs(change).sum() == pytest.approx(float(bound), rel=1e-12)


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
    assert [fm.linear_part_ordered_l1(d, own=d, holds_label=True) for d in (1, 2, 3, 4)] == [4, 9, 16, 25]
    assert fm.linear_part_ordered_l1(10, own=1, holds_label=False) == 40
    assert fm.linear_part_ordered_l1(14, own=3, holds_label=False) == 144
    assert fm.linear_part_ordered_l1(800, own=200, holds_label=False) == 480800
    assert Fraction(fm.CoefficientChange(Fraction(1), Fraction(2)).l2) ** 2 > 2
    assert Fraction(fm.CoefficientChange(Fraction(1), Fraction(3)).l2) ** 2 > 3


def ball(generator: Any, size: int, radius_squared: float) -> NDArray[np.float64]:
    x = generator.normal(size=size) if size else np.zeros(0)
    sparse = generator.random() < 0.5
    if size and sparse:
        x *= np.arange(size) == generator.integers(size)
    length = np.linalg.norm(x)
    return x * math.sqrt(radius_squared) / length if length else x


@given(
    st.integers(1, 6).flatmap(lambda d: st.tuples(st.just(d), st.integers(0, d))),
    st.booleans(),
    st.fractions(0, 1, max_denominator=16),
    st.integers(0, 2**32 - 1),
)
def test_no_pair_of_records_in_the_ball_moves_the_coefficients_further(
    sizes: tuple[int, int], label: bool, cap: Fraction, seed: int
) -> None:
    features, own = sizes
    if not own and not label:
        return
    generator = np.random.default_rng(seed)
    cap = cap if own else Fraction(0)
    rest = ball(generator, features - own, float(1 - cap))
    mine = ball(generator, own, float(cap))
    other = generator.choice([-1, 1]) * mine if generator.random() < 0.5 else ball(generator, own, float(cap))
    labels = generator.choice([-1.0, 1.0], 2) if label else np.full(2, generator.choice([-1.0, 1.0]))
    rows = [np.concatenate([part, rest]) for part in (mine, other)]
    linear = [brute.linear_coefficients(np.append(x, -y), False) for x, y in zip(rows, labels, strict=True)]
    logistic = [brute.logistic_coefficients(x, y > 0, False) for x, y in zip(rows, labels, strict=True)]
    for (before, after), bound, out in (
        (linear, formulas.linear_part_replaced_in_ball, formulas.linear_zero_out_in_ball),
        (logistic, formulas.logistic_part_replaced_in_ball, formulas.logistic_zero_out_in_ball),
    ):
        change = bound(features, own=own, holds_label=label, cap_squared=cap)
        assert np.abs(before - after).sum() <= change.l1 * CLOSE
        assert np.linalg.norm(before - after) <= change.l2 * CLOSE
        assert np.abs(before).sum() <= out(features).l1 * CLOSE
        assert np.linalg.norm(before) <= out(features).l2 * CLOSE


def test_the_ball_sensitivities_are_attained() -> None:
    d = 4
    flat, corner = np.full(d, 0.5), np.eye(d)[0]
    linear = [brute.linear_coefficients(np.append(x, 1.0), False) for x in (flat, corner)]
    assert np.abs(linear[0]).sum() == float(formulas.linear_zero_out_in_ball(d).l1)
    assert np.linalg.norm(linear[1]) == pytest.approx(formulas.linear_zero_out_in_ball(d).l2, rel=1e-15)
    logistic = [brute.logistic_coefficients(x, 0, False) for x in (flat, corner)]
    assert np.abs(logistic[0]).sum() == float(formulas.logistic_zero_out_in_ball(d).l1)
    assert np.linalg.norm(logistic[1]) == pytest.approx(formulas.logistic_zero_out_in_ball(d).l2, rel=1e-15)
    half = formulas.logistic_part_replaced_in_ball(d, own=1, holds_label=False, cap_squared=Fraction(1, 2))
    before, after = np.array([1, 1, 0, 0]) / math.sqrt(2), np.array([-1, 1, 0, 0]) / math.sqrt(2)
    change = brute.logistic_coefficients(before, 0, False) - brute.logistic_coefficients(after, 0, False)
    assert np.linalg.norm(change) == pytest.approx(half.l2, rel=1e-14)


@given(st.integers(1, 200).flatmap(lambda d: st.tuples(st.just(d), st.integers(1, d))), st.booleans())
def test_a_part_moves_no_more_than_the_record(sizes: tuple[int, int], label: bool) -> None:
    features, own = sizes
    for part, whole in (
        (formulas.linear_part_replaced, formulas.linear_replace),
        (formulas.logistic_part_replaced, formulas.logistic_replace),
    ):
        mine, record = part(features, own=own, holds_label=label), whole(features)
        assert mine.l1 <= record.l1
        assert mine.l2_squared <= record.l2_squared


@pytest.mark.parametrize(
    "call",
    [
        lambda: fm.linear_zero_out(0),
        lambda: formulas.linear_part_replaced(3, own=4, holds_label=False),
        lambda: formulas.logistic_part_replaced(3, own=0, holds_label=False),
        lambda: formulas.linear_part_replaced_in_ball(3, own=1, holds_label=False, cap_squared=Fraction(2)),
    ],
)
def test_parts_that_do_not_exist_are_refused(call: Callable[..., Any]) -> None:
    with pytest.raises(ValueError):
        call()
