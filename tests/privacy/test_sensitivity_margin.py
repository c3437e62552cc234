"""How far a record moves a gradient of the margin loss: the curve's bounds, rounding, and every small case."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from margin_curve import capped_logistic, fitted_coefficients
from numpy.typing import NDArray

from colonnade.errors import PlanError
from colonnade.methods.margin.curve import ANGLES, HARMONICS, MILLION, PERIOD, Curve, Waves, angle_of, circle
from colonnade.privacy.sensitivity.gradient import (
    RowNorms,
    Slopes,
    TableBounds,
    margin_others_replaced,
    margin_replace,
    margin_zero_out,
    rounded_slopes,
    verified_slopes,
)


@pytest.mark.parametrize("harmonics", HARMONICS)
def test_stored_coefficients_are_the_programs_and_bounds_hold_between_the_angles(harmonics: int) -> None:
    assert Curve.of(harmonics).coefficients == fitted_coefficients(harmonics)
    curve = Curve.of(harmonics)
    low, high = curve.bounds
    seen = value(curve, np.linspace(0, PERIOD, 7 * ANGLES + 1))
    assert float(low) <= seen.min() < float(low) + 1e-6 and float(high) - 1e-6 < seen.max() <= float(high)
    steepest = np.abs(np.gradient(seen, PERIOD / (7 * ANGLES))).max()
    assert curve.slope == pytest.approx(steepest, rel=1e-4)


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


def slopes_by_tables(waves: Waves, angles: list[int], others: int) -> list[tuple[int, int]]:
    """r̃ of every label and every choice of these angles, from what owners deal."""
    harmonics = waves.curve.harmonics
    found = []
    for row in itertools.product((0, 1), *([angles] * (others + 1))):
        sign, own, *rest = row
        real, imaginary = np.ones(harmonics, dtype=object), np.zeros(harmonics, dtype=object)
        for angle in rest:
            cosine, sine = np.split(waves.plain[angle].astype(object), 2)
            real, imaginary = real * cosine - imaginary * sine, real * sine + imaginary * cosine
        p, q = np.split(waves.labelled[own + ANGLES * sign].astype(object), 2)
        constant = (2 * sign - 1) * waves.constant * waves.wave_grid**others
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
    harmonics: int, wave_grid: int, label_grid: int, others: int, start: int
) -> None:
    waves = Waves(Curve.of(harmonics), wave_grid, label_grid)
    bounds, sizes = waves.curve.bounds, waves.curve.amplitudes
    slopes = rounded_slopes(bounds, sizes, label_grid=label_grid, wave_grid=wave_grid, others=others)
    count = 24 if others == 1 else 8
    angles = (start + np.arange(count) * (ANGLES // count)) % ANGLES
    for sign, slope in slopes_by_tables(waves, angles.tolist(), others):
        assert slopes.least <= sign * slope <= slopes.most


def test_between_two_owners_the_bound_is_a_two_hundredth_above_what_occurs() -> None:
    waves = Waves(Curve.of(6), 2048, 2048)
    bounds, sizes = waves.curve.bounds, waves.curve.amplitudes
    slopes = rounded_slopes(bounds, sizes, label_grid=2048, wave_grid=2048, others=1)
    assert 0.5025 > slopes.most / 2048**2 > 0.5
    drawn = np.random.default_rng(1).integers(0, ANGLES, (2, 200_000))
    products = waves.labelled[drawn[0] + ANGLES].astype(np.int64) * waves.plain[drawn[1]]
    seen = products.sum(axis=1) + waves.constant * 2048
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
    assert (slopes.most - constant) ** 2 <= needed, "no further than Cauchy and Schwarz"


# --- the wrong version: harmonics that are taken from the score apart


def apart(scores: NDArray[np.float64], wave_grid: int, harmonics: int) -> NDArray[np.int64]:
    """What an owner would deal that computes every harmonic from the score itself."""
    angles = np.outer(scores, np.arange(1, harmonics + 1)) * (2 * np.pi / PERIOD)
    result: NDArray[np.int64] = np.rint(wave_grid * np.hstack([np.cos(angles), np.sin(angles)])).astype(
        np.int64
    )
    return result


@pytest.mark.parametrize("size", [1e15, 1e16, 1e300])
def test_harmonics_taken_apart_pass_the_bound_for_large_scores_and_one_angle_does_not(size: float) -> None:
    waves = Waves(Curve.of(6), 2048, 2048)
    slopes = rounded_slopes(
        waves.curve.bounds, waves.curve.amplitudes, label_grid=2048, wave_grid=2048, others=1
    )
    drawn = np.random.default_rng(7)
    scores = size * drawn.uniform(1, 2, 200_000)
    own = waves.labelled[ANGLES + drawn.integers(0, ANGLES, len(scores))].astype(np.int64)
    wrong = (own * apart(scores, 2048, 6)).sum(axis=1) + waves.constant * 2048
    right = (own * waves.deal_plain(scores)).sum(axis=1) + waves.constant * 2048
    assert wrong.max() > slopes.most, "such weights would cost more than was charged"
    assert slopes.least <= right.min() and right.max() <= slopes.most


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_any_finite_score_is_one_of_the_angles(scores: list[float]) -> None:
    found = angle_of(np.array(scores))
    assert found.min() >= 0 and found.max() < ANGLES


def test_angles_are_the_nearest_and_cosines_close_the_circle() -> None:
    scores = np.random.default_rng(2).uniform(-50, 50, 1000)
    rotated = np.remainder(scores - angle_of(scores) * (PERIOD / ANGLES) + PERIOD / 2, PERIOD) - PERIOD / 2
    assert np.abs(rotated).max() <= PERIOD / ANGLES / 2 * (1 + 1e-9)
    cosines, sines = circle()
    exact = 2 * np.pi * np.arange(ANGLES) / ANGLES
    assert np.abs(cosines - np.cos(exact) * 2**40).max() < 0.501
    assert np.abs(sines - np.sin(exact) * 2**40).max() < 0.501


def rows_of(columns: int, norm_squared: int) -> list[NDArray[np.int64]]:
    extent = range(-int(norm_squared**0.5), int(norm_squared**0.5) + 1)
    return [
        np.array(row)
        for row in itertools.product(extent, repeat=columns)
        if sum(v * v for v in row) <= norm_squared
    ]


SMALL = [Slopes(0, 3), Slopes(-1, 3), Slopes(-2, 2)]


def records(slopes: Slopes, rows: list[NDArray[np.int64]]) -> dict[int, list[tuple[int, NDArray[np.int64]]]]:
    """Every r̃·x̃ there can be, by label."""
    return {
        sign: [(sign * r, row) for r in range(slopes.least, slopes.most + 1) for row in rows]
        for sign in (-1, 1)
    }


@pytest.mark.parametrize("slopes", SMALL, ids=str)
def test_no_record_zeroed_or_replaced_moves_a_gradient_further(slopes: Slopes) -> None:
    found = records(slopes, rows_of(2, 5))
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
    mine, theirs = rows_of(1, own), rows_of(1, others)
    most = 0
    slopes_there = range(slopes.least, slopes.most + 1)
    for u, v, w in itertools.product(mine, theirs, theirs):
        for r, s in itertools.product(slopes_there, repeat=2):
            change = np.concatenate([(r - s) * u, r * v - s * w])
            most = max(most, int((change**2).sum()))
            assert np.abs(change).sum() <= bound.l1
    assert most <= bound.l2**2


# --- owners that deal any rows of the norm they prove


def largest_turned(norm_squared: int, fixed: tuple[int, ...]) -> int:
    """The largest |Σ_j Re(P_j·E_j)| over all integer rows P of this norm, where E_j is real and its square given."""
    extent = range(-int(norm_squared**0.5), int(norm_squared**0.5) + 1)
    rows = [
        row for row in itertools.product(extent, repeat=len(fixed)) if sum(v * v for v in row) <= norm_squared
    ]
    return max(abs(sum(p * math.isqrt(square) for p, square in zip(row, fixed, strict=True))) for row in rows)


@pytest.mark.parametrize("others", [1, 2, 3])
@pytest.mark.parametrize(
    ("plain", "labelled"),
    [
        (RowNorms(25, (16, 9)), RowNorms(100, (64, 36))),
        (RowNorms(25, (16, 9)), RowNorms(26, (25, 1))),
        (RowNorms(50, (1, 49)), RowNorms(25, (16, 9))),
        (RowNorms(2, (1, 1)), RowNorms(100, (100, 0))),
    ],
    ids=str,
)
def test_whichever_owner_deviates_its_slope_stays_within_the_bound_and_one_of_them_attains_it(
    plain: RowNorms, labelled: RowNorms, others: int
) -> None:
    by_holder = largest_turned(labelled.norm_squared, tuple(square**others for square in plain.squares))
    rest = tuple(
        own * theirs ** (others - 1) for own, theirs in zip(labelled.squares, plain.squares, strict=True)
    )
    by_other = largest_turned(plain.norm_squared, rest)
    bound = verified_slopes(TableBounds(plain, labelled, others), constant=3)
    assert bound.least == -bound.most
    most = max(by_holder, by_other)
    # Rows are integers here, which keeps the longest a little off its direction.
    assert most <= bound.most - 3 <= 1.1 * most + 2


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


@pytest.mark.parametrize("harmonics", HARMONICS)
@pytest.mark.parametrize("others", [1, 2])
def test_of_every_curve_the_larger_of_two_terms_is_taken(harmonics: int, others: int) -> None:
    extent = Waves.levelled(Curve.of(harmonics), 128, 128, others).extent
    holder = extent.labelled.norm_squared * sum(square**others for square in extent.plain.squares)
    other = extent.plain.norm_squared * sum(
        own * theirs ** (others - 1)
        for own, theirs in zip(extent.labelled.squares, extent.plain.squares, strict=True)
    )
    bound = verified_slopes(extent, constant=0).most
    assert bound**2 <= max(holder, other) < (bound + 1) ** 2


@pytest.mark.parametrize(("least", "most"), [(-1, 100), (0, 7), (3, 3)])
def test_slopes_are_as_wide_as_the_two_ends_are_apart(least: int, most: int) -> None:
    assert Slopes(least, most).widest == most - least
