"""How far a record moves gradients and sums of phases, against every small case: SLR, margin, judging."""

import dataclasses
import itertools
import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from margin_curve import capped_logistic, fitted_coefficients
from matrix_brute_force import integer_rows
from numpy.typing import NDArray

from colonnade.errors import PlanError
from colonnade.methods.margin.curve import (
    _PI_ABOVE,
    ANGLES,
    HARMONICS,
    MILLION,
    PERIOD,
    Curve,
    Phasors,
    angle_of,
    circle,
)
from colonnade.privacy.sensitivity.gradient import (
    _HALF,
    _ROUNDED,
    GradientShape,
    JointPhases,
    Phases,
    RowNorms,
    Slopes,
    TableBounds,
    fused_replace,
    fused_zero_out,
    margin_others_replaced,
    margin_replace,
    margin_zero_out,
    rounded_slopes,
    verified_slopes,
)
from colonnade.privacy.sensitivity.matrix import VectorChange
from reproduction.skellam_changes import three_part_replace, three_part_zero_out

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


def inside(vectors: NDArray[np.int64], change: VectorChange) -> np.bool:
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
def test_replacing_costs_a_gradient_at_most_twice_zeroing_out(
    gamma: int, columns: int, norm: int, weight: int
) -> None:
    shape = GradientShape(gamma=gamma, columns=columns, norm_squared=norm, weight_squared=weight)
    pairs = [(fused_zero_out(shape), fused_replace(shape))]
    pairs += zip(three_part_zero_out(shape), three_part_replace(shape), strict=True)
    for out, swap in pairs:
        assert out.l2 <= swap.l2 <= 2 * out.l2 + 1


def test_formulas_agree_with_the_integers_and_impossible_gradients_are_refused() -> None:
    shape = GradientShape(gamma=64, columns=5, norm_squared=70**2, weight_squared=60**2)
    assert [part.l2 for part in three_part_zero_out(shape)] == [70, 60 * 70**2, 64 * 70]
    assert VectorChange.of_square(3, entries=1000).l1 == 3
    with pytest.raises(ValueError):
        GradientShape(gamma=0, columns=1, norm_squared=1, weight_squared=1)
    with pytest.raises(ValueError):
        GradientShape(gamma=1, columns=1, norm_squared=-1, weight_squared=1)


# Margin: the curve's bounds, rounding, and every small case.


@pytest.mark.parametrize("harmonics", HARMONICS)
def test_stored_coefficients_are_the_programs_and_bounds_hold_between_the_angles(harmonics: int) -> None:
    assert Curve.of(harmonics).coefficients == fitted_coefficients(harmonics)
    curve = Curve.of(harmonics)
    low, high = curve.bounds
    seen = value(curve, np.linspace(0, PERIOD, 7 * ANGLES + 1))
    assert float(low) <= seen.min() < float(low) + 1e-6 and float(high) - 1e-6 < seen.max() <= float(high)
    steepest = np.abs(np.gradient(seen, PERIOD / (7 * ANGLES))).max()
    assert curve.slope == pytest.approx(steepest, rel=1e-4)
    assert math.pi < _PI_ABOVE < math.pi + 1e-6
    assert Curve((MILLION // 2,)).bounds == (Fraction(1, 2), Fraction(1, 2)), (
        "nothing bends, and nothing is added"
    )


def value(curve: Curve, margins: NDArray[np.float64]) -> NDArray[np.float64]:
    angles = np.outer(margins, np.arange(1, curve.harmonics + 1)) * (2 * np.pi / PERIOD)
    a, b = (np.array(part) / MILLION for part in (curve.cosines, curve.sines))
    return float(curve.constant) + np.cos(angles) @ a + np.sin(angles) @ b


def test_the_curve_of_six_harmonics_is_near_the_capped_logistic_and_a_larger_one_would_be_noticed() -> None:
    margins = np.linspace(-4, 14, 5000)
    assert np.abs(value(Curve.of(6), margins) - capped_logistic(margins)).max() < 0.031
    curve = Curve.of(6)
    larger = Curve((curve.coefficients[0] + 100, *curve.coefficients[1:]))
    assert larger.bounds[1] - curve.bounds[1] == Fraction(100, MILLION)
    with pytest.raises(PlanError, match="harmonics = 40"):
        Curve.of(40)


def slopes_by_tables(phasors: Phasors, angles: list[int], others: int) -> list[tuple[int, int]]:
    """r̃ of every label and every choice of these angles, from what owners deal."""
    harmonics = phasors.curve.harmonics
    found = []
    for row in itertools.product((0, 1), *([angles] * (others + 1))):
        sign, own, *rest = row
        real, imaginary = np.ones(harmonics, dtype=object), np.zeros(harmonics, dtype=object)
        for angle in rest:
            cosine, sine = np.split(phasors.plain[angle].astype(object), 2)
            real, imaginary = real * cosine - imaginary * sine, real * sine + imaginary * cosine
        p, q = np.split(phasors.labelled[own + ANGLES * sign].astype(object), 2)
        constant = (2 * sign - 1) * phasors.constant * phasors.phasor_grid**others
        found.append(((2 * sign - 1), int((p * real + q * imaginary).sum() + constant)))
    return found


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(HARMONICS),
    st.integers(2, 40),
    st.integers(2, 300),
    st.sampled_from([1, 2]),
    st.integers(0, ANGLES - 1),
)
def test_no_rounded_slope_leaves_its_bounds(
    harmonics: int, phasor_grid: int, label_grid: int, others: int, start: int
) -> None:
    phasors = Phasors(Curve.of(harmonics), phasor_grid, label_grid)
    bounds, sizes = phasors.curve.bounds, phasors.curve.amplitudes
    slopes = rounded_slopes(bounds, sizes, label_grid=label_grid, phasor_grid=phasor_grid, others=others)
    count = 24 if others == 1 else 8
    angles = (start + np.arange(count) * (ANGLES // count)) % ANGLES
    for sign, slope in slopes_by_tables(phasors, angles.tolist(), others):
        assert slopes.least <= sign * slope <= slopes.most


def test_between_two_owners_the_bound_is_a_two_hundredth_above_what_occurs() -> None:
    phasors = Phasors(Curve.of(6), 2048, 2048)
    bounds, sizes = phasors.curve.bounds, phasors.curve.amplitudes
    slopes = rounded_slopes(bounds, sizes, label_grid=2048, phasor_grid=2048, others=1)
    assert 0.5025 > slopes.most / 2048**2 > 0.5
    drawn = np.random.default_rng(1).integers(0, ANGLES, (2, 200_000))
    products = phasors.labelled[drawn[0] + ANGLES].astype(np.int64) * phasors.plain[drawn[1]]
    seen = products.sum(axis=1) + phasors.constant * 2048
    assert slopes.least <= seen.min() and 0.5 * 2048**2 < seen.max() <= slopes.most


# --- one owner who deals any rows that are no longer than those of its table
def longest_dealt(norm_squared: int, others: list[int]) -> int:
    """What a deviating owner makes of r̃ with integers, if the others' waves multiply to these real numbers."""
    whole = sum(value * value for value in others)
    row = [math.isqrt(norm_squared * value * value // whole) for value in others]
    assert sum(value * value for value in row) <= norm_squared
    return sum(mine * theirs for mine, theirs in zip(row, others, strict=True))


sizes = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=4)


@given(sizes, st.integers(1, 3), st.integers(1, 10**9), st.integers(1, 10**9), st.integers(0, 1000))
def test_neither_the_holder_of_the_label_nor_another_owner_takes_a_slope_further(
    harmonics: list[tuple[int, int]], others: int, plain_norm: int, labelled_norm: int, constant: int
) -> None:
    plain, labelled = ([pair[which] for pair in harmonics] for which in (0, 1))
    extent = TableBounds(
        plain=RowNorms(plain_norm, tuple(value * value for value in plain)),
        labelled=RowNorms(labelled_norm, tuple(value * value for value in labelled)),
        others=others,
    )
    slopes = verified_slopes(extent, constant)
    assert slopes.least == -slopes.most
    to_holder = [value**others for value in plain]
    to_other = [mine * theirs ** (others - 1) for mine, theirs in zip(labelled, plain, strict=True)]
    assert longest_dealt(labelled_norm, to_holder) + constant <= slopes.most
    assert longest_dealt(plain_norm, to_other) + constant <= slopes.most
    needed = max(
        labelled_norm * sum(value * value for value in to_holder),
        plain_norm * sum(value * value for value in to_other),
    )
    # Cauchy and Schwarz, and no integer more.
    assert (slopes.most - constant) ** 2 <= needed < (slopes.most - constant + 1) ** 2


# --- the wrong version: harmonics that are taken from the score apart
def apart(scores: NDArray[np.float64], phasor_grid: int, harmonics: int) -> NDArray[np.int64]:
    """What an owner would deal that computes every harmonic from the score itself."""
    angles = np.outer(scores, np.arange(1, harmonics + 1)) * (2 * np.pi / PERIOD)
    result: NDArray[np.int64] = np.rint(phasor_grid * np.hstack([np.cos(angles), np.sin(angles)])).astype(
        np.int64
    )
    return result


@pytest.mark.parametrize("size", [1e15, 1e16, 1e300])
def test_harmonics_taken_apart_pass_the_bound_for_large_scores_and_one_angle_does_not(size: float) -> None:
    phasors = Phasors(Curve.of(6), 2048, 2048)
    slopes = rounded_slopes(
        phasors.curve.bounds, phasors.curve.amplitudes, label_grid=2048, phasor_grid=2048, others=1
    )
    drawn = np.random.default_rng(7)
    scores = size * drawn.uniform(1, 2, 200_000)
    own = phasors.labelled[ANGLES + drawn.integers(0, ANGLES, len(scores))].astype(np.int64)
    wrong = (own * apart(scores, 2048, 6)).sum(axis=1) + phasors.constant * 2048
    right = (own * phasors.deal_plain(scores)).sum(axis=1) + phasors.constant * 2048
    assert wrong.max() > slopes.most, "such weights would cost more than was charged"
    assert slopes.least <= right.min() and right.max() <= slopes.most


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_any_finite_score_is_one_of_the_angles(scores: list[float]) -> None:
    found = angle_of(np.array(scores))
    assert found.min() >= 0 and found.max() < ANGLES


def test_angles_are_the_nearest_and_cosines_close_the_circle() -> None:
    # What rounding two parts of a phasor, or one, is off by at most, and hardly more.
    assert 0 < _HALF - Fraction(1, 2) < Fraction(1, 2**19) and 0 < _ROUNDED**2 - Fraction(1, 2) < Fraction(
        1, 2**18
    )
    scores = np.random.default_rng(2).uniform(-50, 50, 1000)
    rotated = np.remainder(scores - angle_of(scores) * (PERIOD / ANGLES) + PERIOD / 2, PERIOD) - PERIOD / 2
    assert np.abs(rotated).max() <= PERIOD / ANGLES / 2 * (1 + 1e-9)
    cosines, sines = circle()
    exact = 2 * np.pi * np.arange(ANGLES) / ANGLES
    assert np.abs(cosines - np.cos(exact) * 2**40).max() < 0.501
    assert np.abs(sines - np.sin(exact) * 2**40).max() < 0.501


SMALL = [Slopes(0, 3), Slopes(-1, 3), Slopes(-2, 2)]


def records(slopes: Slopes, rows: NDArray[np.int64]) -> dict[int, list[tuple[int, NDArray[np.int64]]]]:
    """Every r̃·x̃ there can be, by label."""
    return {
        sign: [(sign * r, row) for r in range(slopes.least, slopes.most + 1) for row in rows]
        for sign in (-1, 1)
    }


@pytest.mark.parametrize("slopes", SMALL, ids=str)
def test_no_record_zeroed_or_replaced_moves_a_gradient_further(slopes: Slopes) -> None:
    found = records(slopes, integer_rows(2, 5))
    vectors = np.unique([r * row for label in found.values() for r, row in label], axis=0)
    zeroed, replaced = (rule(slopes, norm_squared=5, columns=2) for rule in (margin_zero_out, margin_replace))
    squares = (vectors**2).sum(axis=1)
    assert squares.max() <= zeroed.l2**2 and np.abs(vectors).sum(axis=1).max() <= zeroed.l1
    between = vectors[:, None, :] - vectors[None, :, :]
    assert (between**2).sum(axis=2).max() <= replaced.l2**2
    assert np.abs(between).sum(axis=2).max() <= replaced.l1
    assert squares.max() == int(zeroed.l2**2), "attained"


@pytest.mark.parametrize("slopes", SMALL, ids=str)
@pytest.mark.parametrize(("own", "others"), [(4, 1), (1, 4), (2, 2)])
def test_no_change_of_the_others_part_shows_the_label_holder_more(
    slopes: Slopes, own: int, others: int
) -> None:
    bound = margin_others_replaced(slopes, own_norm_squared=own, others_norm_squared=others, columns=2)
    mine, theirs = integer_rows(1, own), integer_rows(1, others)
    most = 0
    slopes_there = range(slopes.least, slopes.most + 1)
    for u, v, w in itertools.product(mine, theirs, theirs):
        for r, s in itertools.product(slopes_there, repeat=2):
            change = np.concatenate([(r - s) * u, r * v - s * w])
            most = max(most, int((change**2).sum()))
            assert np.abs(change).sum() <= bound.l1
    assert most <= bound.l2**2


def test_either_owner_can_be_the_one_that_decides_and_heads_add_up_in_squares() -> None:
    """A bound that left one of them out would be too small in one of these."""
    strong, weak = RowNorms(25, (16, 9)), RowNorms(25, (1, 1))
    holder = verified_slopes(TableBounds(plain=strong, labelled=RowNorms(100, (0, 0)), others=1), constant=0)
    other = verified_slopes(TableBounds(plain=RowNorms(100, (0, 0)), labelled=strong, others=1), constant=0)
    assert holder.most == other.most == 50
    assert verified_slopes(TableBounds(weak, weak, others=1), constant=0).most == 7
    one = margin_zero_out(Slopes(0, 3), norm_squared=4, columns=4)
    four = margin_zero_out(Slopes(0, 3), norm_squared=4, columns=4, heads=4)
    assert four.l2 == 2 * one.l2


# Sums of rounded phases.


STEPS = 17


def phases(gamma: int, harmonics: int, *reaches: float) -> Phases:
    """As a plan makes them: owners whose parts reach so far, at a period in which nothing wraps around."""
    frequencies = tuple(2 * number + 1 for number in range(harmonics))
    amplitudes = tuple(round(gamma / math.sqrt(frequency)) for frequency in frequencies)
    omega = math.pi / (2 * sum(reaches))
    return Phases(frequencies, amplitudes, gamma, gamma, tuple(2 * omega * extent for extent in reaches))


def rounded(sizes: Any, angle: Any, frequencies: Any) -> NDArray[np.complex128]:
    rotated = np.array(sizes) * np.exp(1j * angle * np.array(frequencies))
    result: NDArray[np.complex128] = np.rint(rotated.real) + 1j * np.rint(rotated.imag)
    return result


def row(bounds: Phases, label: int, first: Any, *others: float) -> NDArray[np.float64]:
    """What a record adds, both classes beside each other."""
    product, count = rounded(bounds.amplitudes, first, bounds.frequencies), bounds.count
    for angle in others:
        product = product * rounded([bounds.grid] * len(bounds.frequencies), angle, bounds.frequencies)
        count *= bounds.grid
    own = np.concatenate([[count], product.real, product.imag])
    blank = np.zeros_like(own)
    return np.concatenate([own, blank] if label == 0 else [blank, own])


def angles(turn: float) -> NDArray[np.float64]:
    return np.linspace(-turn / 2, turn / 2, STEPS)


CASES = [(4, 1, 1.0, 1.0), (8, 2, 1.0, 1.0), (16, 3, 3.0, 1.0), (64, 2, 0.2, 2.0), (9, 4, 1.0, 5.0)]


def moved(pairs: Iterable[Any]) -> tuple[Any, Any]:
    changes = [after - before for before, after in pairs]
    return max(np.linalg.norm(change) for change in changes), max(np.abs(change).sum() for change in changes)


def holds(found: dict[Any, Any], near: float = math.inf) -> None:
    """Nothing moved further than stated; once rounding is small, what is stated is not much more than what there is."""
    for stated, (l2, l1) in found.items():
        assert l2 <= stated.l2 <= near * l2 and l1 <= stated.l1


@pytest.mark.parametrize("case", CASES)
def test_no_record_moves_the_sums_further_than_is_said(case: tuple[int, int, float, float]) -> None:
    bounds = phases(*case)
    mine, theirs = angles(bounds.turns[0]), angles(bounds.turns[1])
    rows = {key: row(bounds, *key) for key in itertools.product((0, 1), mine, theirs)}
    zero = np.zeros_like(next(iter(rows.values())))
    found = {
        bounds.zeroed(): moved((zero, after) for after in rows.values()),
        bounds.others_replaced(): moved(
            (rows[0, first, old], rows[0, first, new])
            for first in mine[:: STEPS // 4]
            for old, new in itertools.product(theirs, theirs)
        ),
        bounds.holder_replaced(1): moved(
            (rows[0, old, second], rows[label, new, second])
            for second in theirs[:: STEPS // 4]
            for label in (0, 1)
            for old, new in itertools.product(mine, mine)
        ),
    }
    holds(found, near=1.35 if case[0] >= 16 else math.inf)
    some = list(rows.values())[:: max(1, len(rows) // 90)]
    holds({bounds.replaced(): moved(itertools.product(some, some))})


@pytest.mark.parametrize("case", CASES)
def test_no_coefficient_of_a_record_is_larger_than_is_said(case: tuple[int, int, float, float]) -> None:
    bounds = phases(*case)
    theirs = [
        rounded([bounds.grid] * len(bounds.frequencies), angle, bounds.frequencies)
        for angle in angles(bounds.turns[1])
    ]
    mine = [rounded(bounds.amplitudes, angle, bounds.frequencies) for angle in angles(bounds.turns[0])]
    found = max(np.abs(first * second).max() for first, second in itertools.product(mine, theirs))
    assert max(found, bounds.count * bounds.grid) <= bounds.largest
    if case[0] >= 16:
        assert bounds.largest <= 1.15 * found


def test_a_finer_grid_comes_to_the_norms_of_phases_that_are_not_rounded() -> None:
    bounds, gamma = phases(1 << 14, 8, 1.0, 1.0), float(1 << 14)
    weights = np.array([1 / frequency for frequency in bounds.frequencies])
    assert bounds.zeroed().l2 / gamma**2 == pytest.approx(math.sqrt(1 + weights.sum()), rel=1e-3)
    # With odd frequencies everything turns round at once where a score goes from one end to the other.
    assert bounds.replaced().l2 / gamma**2 == pytest.approx(2 * math.sqrt(weights.sum()), rel=1e-3)
    rotated = np.linspace(0, bounds.turns[1], 20001)[:, None] * np.array(bounds.frequencies)
    half = math.sqrt(float((weights * (2 - 2 * np.cos(rotated))).sum(axis=1).max()))
    assert bounds.others_replaced().l2 / gamma**2 == pytest.approx(half, rel=5e-3)


def test_brute_force_would_notice_a_bound_without_the_rounding() -> None:
    """A control: on a coarse grid rounding alone moves more than phases that are not rounded."""
    bounds = phases(4, 1, 1.0, 1.0)
    plain = math.hypot(bounds.count * bounds.grid, bounds.amplitudes[0] * bounds.grid)
    worst = max(
        np.linalg.norm(row(bounds, 0, first, second))
        for first in angles(bounds.turns[0])
        for second in angles(bounds.turns[1])
    )
    assert plain < worst <= bounds.zeroed().l2


@pytest.mark.parametrize("case", [(4, 2, 1.0, 1.0, 1.0), (16, 2, 1.0, 3.0, 0.5), (64, 1, 2.0, 0.3, 0.4)])
def test_no_record_of_three_owners_moves_the_sums_further_than_is_said(
    case: tuple[int, int, float, float, float],
) -> None:
    bounds = phases(*case)
    parts = [np.linspace(-turn / 2, turn / 2, 7) for turn in bounds.turns]
    rows = {key: row(bounds, *key) for key in itertools.product((0, 1), *parts)}
    zero = np.zeros_like(next(iter(rows.values())))
    pairs = list(itertools.product(parts[1], parts[2]))
    one, several = parts[1][3], list(itertools.product(parts[0][::2], parts[2][::2]))
    found = {
        bounds.zeroed(): moved((zero, after) for after in rows.values()),
        bounds.others_replaced(): moved(
            (rows[0, parts[0][2], *old], rows[0, parts[0][2], *new])
            for old, new in itertools.product(pairs[::2], pairs[::3])
        ),
        # Of the first owner without the label the part stays.
        bounds.holder_replaced(1): moved(
            (rows[0, old[0], one, old[1]], rows[label, new[0], one, new[1]])
            for label in (0, 1)
            for old, new in itertools.product(several, several)
        ),
    }
    holds(found, near=1.6 if case[0] >= 16 else math.inf)
    some = list(rows.values())[:: max(1, len(rows) // 90)]
    holds({bounds.replaced(): moved(itertools.product(some, some))})


def test_heads_add_up_in_squares() -> None:
    once = phases(64, 3, 1.0, 2.0)
    thrice = dataclasses.replace(once, heads=3)
    for name in ("zeroed", "others_replaced", "replaced"):
        assert getattr(thrice, name)().l2 == pytest.approx(math.sqrt(3) * getattr(once, name)().l2, rel=1e-3)
        assert getattr(thrice, name)().l1 == pytest.approx(3 * getattr(once, name)().l1, rel=1e-3)
    # Three heads that all move as far as one can: nothing is further.
    alike = np.tile(row(once, 1, once.turns[0] / 2, once.turns[1] / 2), 3)
    assert np.linalg.norm(alike) <= thrice.zeroed().l2 and np.abs(alike).sum() <= thrice.zeroed().l1


# A label that is a number: shares of two ends, and sums of everybody.


def shares(gamma: int, harmonics: int, *reaches: float) -> Phases:
    return dataclasses.replace(phases(gamma, harmonics, *reaches), kind="shares")


def shared_row(bounds: Phases, share: float, first: float, *others: float) -> NDArray[np.float64]:
    """What a record adds that is so near to the second end: both ends beside each other, each rounded by itself."""
    share = round(bounds.count * share) / bounds.count
    found: list[Any] = []
    for weight in (1 - share, share):
        product = rounded([weight * size for size in bounds.amplitudes], first, bounds.frequencies)
        count = round(weight * bounds.count)
        for angle in others:
            product = product * rounded([bounds.grid] * len(bounds.frequencies), angle, bounds.frequencies)
            count *= bounds.grid
        found += [[count], product.real, product.imag]
    return np.concatenate(found)


@pytest.mark.parametrize("case", CASES)
def test_no_record_between_two_ends_moves_the_sums_further_than_is_said(case: Any) -> None:
    bounds = shares(*case)
    mine, theirs = (angles(turn)[:: STEPS // 4] for turn in bounds.turns)
    rows = {
        key: shared_row(bounds, *key) for key in itertools.product((0.0, 0.13, 0.5, 0.9, 1.0), mine, theirs)
    }
    zero = np.zeros_like(next(iter(rows.values())))
    found = {
        bounds.zeroed(): moved((zero, after) for after in rows.values()),
        bounds.others_replaced(): moved(
            (rows[share, mine[2], old], rows[share, mine[2], new])
            for share in (0.0, 0.13, 0.5)
            for old, new in itertools.product(theirs, theirs)
        ),
        bounds.replaced(): moved(itertools.product(list(rows.values())[::3], list(rows.values())[::2])),
    }
    holds(found, near=1.5 if case[0] >= 16 else math.inf)


def test_no_record_moves_sums_of_everybody_further_than_is_said() -> None:
    frequencies, gamma = (1, 2, 4, 8), 16
    amplitudes = tuple(round(gamma * frequency**-0.25) for frequency in frequencies)
    for turns in ((2.0, 1.5), (math.pi * 1.5, 0.0), (3.0, 1.7)):
        bounds = Phases(frequencies, amplitudes, 0, gamma, turns, kind="whole")

        def added(first: float, second: float, bounds: Phases = bounds) -> NDArray[np.float64]:
            both = rounded(amplitudes, first, frequencies) * rounded([gamma] * 4, second, frequencies)
            return np.concatenate([both.real, both.imag])

        mine, theirs = (np.linspace(-turn / 2, turn / 2, 15) for turn in turns)
        rows = {key: added(*key) for key in itertools.product(mine, theirs)}
        found = {
            bounds.zeroed(): moved((np.zeros(8), after) for after in rows.values()),
            bounds.others_replaced(): moved(
                (rows[mine[5], old], rows[mine[5], new]) for old, new in itertools.product(theirs, theirs)
            ),
            bounds.holder_replaced(1): moved(
                (rows[old, theirs[3]], rows[new, theirs[3]]) for old, new in itertools.product(mine, mine)
            ),
            bounds.replaced(): moved(itertools.product(list(rows.values())[::4], list(rows.values())[::5])),
        }
        for stated, (l2, l1) in found.items():
            assert l2 <= stated.l2 <= 1.5 * l2 + 1 and l1 <= stated.l1


def test_sums_beside_each_other_move_at_most_as_far_as_each_alone() -> None:
    blocks = (phases(64, 2, 1.0, 2.0), shares(64, 3, 1.0, 2.0))
    joint = JointPhases(blocks)
    for name in ("zeroed", "others_replaced", "replaced"):
        alone = [getattr(block, name)() for block in blocks]
        together = getattr(joint, name)()
        assert (
            math.hypot(*(one.l2 for one in alone))
            <= together.l2
            <= math.hypot(*(one.l2 for one in alone)) + 1
        )
        assert together.l1 == sum(one.l1 for one in alone)
    of_one = [block.holder_replaced(1).l1 for block in blocks]
    assert joint.holder_replaced(1).l1 == sum(of_one)
    assert joint.largest == max(block.largest for block in blocks)


def test_brute_force_would_notice_that_a_record_between_two_ends_is_rounded_twice() -> None:
    """A control: without the rounding of both ends some record moves further than the bound."""
    bounds = shares(4, 1, 1.0, 1.0)
    plain = math.sqrt(2) * math.hypot(bounds.count * bounds.grid, bounds.amplitudes[0] * bounds.grid)
    rows = [
        shared_row(bounds, share, first, second)
        for share in (0.0, 1.0)
        for first in angles(bounds.turns[0])[::2]
        for second in angles(bounds.turns[1])[::3]
    ]
    assert plain < moved(itertools.product(rows, rows))[0] <= bounds.replaced().l2
