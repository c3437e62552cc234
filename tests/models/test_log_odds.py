"""Log-odds from two moments: laws, closed forms they must meet, and probabilities on people with rare classes."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit, log_expit
from scipy.stats import beta as beta_of

from colonnade.models.discriminant import (
    LARGEST_EXPLAINED,
    LogOdds,
    ScoreLaw,
    above_zero,
    beta_law,
    binary_rule,
    binary_score,
    least_cross_entropy,
    log_odds,
    normal_law,
)
from colonnade.models.moments import ClassMoments, deflated, held

Array = NDArray[np.float64]
SHARES = st.floats(0.002, 0.998)
EXPLAINED = st.floats(0.001, LARGEST_EXPLAINED)


def constant(share: float) -> float:
    """The cross-entropy of saying the share of the class about everybody."""
    return -share * math.log(share) - (1 - share) * math.log(1 - share)


def loss_under(law: ScoreLaw, line: LogOdds) -> float:
    """The cross-entropy of a line where scores have this law and classes occur with the line's share."""
    first, second = log_expit(-line.at(law.first)), log_expit(line.at(law.second))
    return float(law.weights @ (-(1.0 - line.share) * first - line.share * second))


@given(SHARES, EXPLAINED)
@settings(max_examples=50, deadline=None)
def test_both_laws_have_the_moments_that_the_release_tells(share: float, explained: float) -> None:
    for law in (normal_law(share, explained), beta_law(share, explained)):
        chances = np.array([1 - share, share])
        means = np.array([law.weights @ law.first, law.weights @ law.second])
        squares = np.array([law.weights @ law.first**2, law.weights @ law.second**2])
        assert chances @ means == pytest.approx(share, rel=1e-3)
        assert means[1] - means[0] == pytest.approx(explained, rel=1e-2)
        spread = share * (1 - share)
        assert chances @ squares - share**2 == pytest.approx(explained * spread, rel=1e-2)


@given(SHARES, EXPLAINED)
@settings(max_examples=50, deadline=None)
def test_classes_that_change_places_turn_the_log_odds_round(share: float, explained: float) -> None:
    one, other = log_odds(share, explained), log_odds(1 - share, explained)
    assert one.slope == pytest.approx(other.slope, rel=1e-6)
    assert one.level == pytest.approx(-other.level, rel=1e-6, abs=1e-9)


@given(SHARES, EXPLAINED)
@settings(max_examples=50, deadline=None)
def test_under_either_law_it_beats_the_share_of_the_class(share: float, explained: float) -> None:
    line = log_odds(share, explained)
    assert line.slope > 0
    for law in (normal_law(share, explained), beta_law(share, explained)):
        assert loss_under(law, line) < constant(share)


@given(SHARES, EXPLAINED)
@settings(max_examples=30, deadline=None)
def test_the_mean_probability_is_the_share_and_no_line_nearby_is_better(
    share: float, explained: float
) -> None:
    laws = (normal_law(share, explained), beta_law(share, explained))
    line = log_odds(share, explained)
    mean = np.mean(
        [
            (1 - share) * law.weights @ expit(line.at(law.first))
            + share * law.weights @ expit(line.at(law.second))
            for law in laws
        ]
    )
    assert mean == pytest.approx(share, rel=1e-6)

    def loss(near: LogOdds) -> float:
        return float(np.mean([loss_under(law, near) for law in laws]))

    for slope, level in ((1.05, 0.0), (0.95, 0.0), (1.0, 0.1), (1.0, -0.1)):
        assert loss(LogOdds(share, line.slope * slope, line.level + level)) > loss(line)


@pytest.mark.parametrize("share", [0.5, 0.2, 0.03])
@pytest.mark.parametrize("explained", [0.01, 0.3, 0.6])
def test_of_normal_classes_alone_it_is_the_closed_form(share: float, explained: float) -> None:
    line = least_cross_entropy(share, (normal_law(share, explained),))
    assert line.slope == pytest.approx(1 / (share * (1 - share) * (1 - explained)), rel=1e-5)
    between = share + (0.5 - share) * explained
    assert line.at(np.array([between]))[0] == pytest.approx(math.log(share / (1 - share)), abs=1e-5)


def test_quantiles_are_scipys() -> None:
    law = beta_law(0.3, 0.25)
    places = expit(np.linspace(-24, 24, len(law.first)))[30:-30]
    np.testing.assert_allclose(law.first[30:-30], beta_of(0.9, 3.1).ppf(places), rtol=1e-7)
    np.testing.assert_allclose(law.second[30:-30], beta_of(1.9, 2.1).ppf(places), rtol=1e-7)


def test_a_score_that_explains_nothing_has_the_slope_of_the_second_order_expansion() -> None:
    for share in (0.5, 0.1):
        line = log_odds(share, 0.0)
        assert (line.slope, line.level) == (1 / (share * (1 - share)), math.log(share / (1 - share)))
        near = log_odds(share, 1.1e-6)
        assert near.slope == pytest.approx(line.slope, rel=1e-3)
        assert near.level == pytest.approx(line.level, rel=1e-3)


def test_a_share_of_nobody_or_everybody_is_refused() -> None:
    for share in (0.0, 1.0, -0.1, math.nan):
        with pytest.raises(ValueError, match="some people have"):
            log_odds(share, 0.5)


@given(st.floats(-30, 30), st.floats(0.01, 10))
def test_what_may_be_true_is_positive_and_close_to_what_was_found(value: float, deviation: float) -> None:
    found = above_zero(value, deviation)
    assert found >= max(value, 0.0)
    assert found <= max(value, 0.0) + deviation


@given(st.lists(st.floats(-50, 500), min_size=1, max_size=40), st.floats(0, 5))
def test_what_rows_hold_adds_up_to_the_trace_unless_noise_made_it_negative(
    values: list[float], noise: float
) -> None:
    seen = np.array(values)
    found = held(seen, noise)
    assert (found >= 0).all()
    inside = seen <= 2 * noise * len(seen) ** 0.5
    np.testing.assert_array_equal(found[~inside], deflated(seen, noise)[~inside])
    if inside.any() and found[inside].max() > 0:
        assert found.sum() == pytest.approx(seen.sum(), abs=1e-6)


# People with a rare class, through the rule: no law above is the one they have.


def people(rows: int, *, level: float, steep: float, seed: int) -> tuple[Array, NDArray[np.int64]]:
    """Twelve columns of ±1, unevenly likely, and a class by a logistic model of their sum."""
    rng = np.random.default_rng(seed)
    x = np.where(rng.random((rows, 12)) < rng.uniform(0.1, 0.5, 12), 1.0, -1.0) / 12**0.5
    y = (rng.random(rows) < expit(level + steep * x.sum(axis=1))).astype(np.int64)
    return x, y


def moments(x: Array, y: NDArray[np.int64], *, noise: float, seed: int) -> ClassMoments:
    rng = np.random.default_rng(seed)
    columns, hot, border = x.shape[1], np.eye(2)[y], 0.5**0.5
    upper = np.triu(rng.normal(size=(columns, columns)), 1) * noise
    gram = x.T @ x + upper + upper.T + np.diag(rng.normal(size=columns)) * noise * 2**0.5
    sums = hot.T @ x + rng.normal(size=(2, columns)) * noise / border
    counts = hot.sum(axis=0) + rng.normal(size=2) * noise * 2**0.5 / border**2
    return ClassMoments(gram, sums, counts, noise=noise, border=border)


def cross_entropy(odds: Array, y: NDArray[np.int64]) -> float:
    return float(-np.mean(np.where(y == 1, log_expit(odds), log_expit(-odds))))


def recalibrated(odds: Array, y: NDArray[np.int64]) -> float:
    """The least cross-entropy of any straight line in these log-odds, found by looking at the labels."""
    rows, line = np.column_stack([odds, np.ones_like(odds)]), np.array([1.0, 0.0])
    for _ in range(30):
        chances = expit(rows @ line)
        bend = (rows.T * (chances * (1 - chances))) @ rows
        line = line - np.linalg.solve(bend, rows.T @ (chances - y))
    return cross_entropy(rows @ line, y)


@pytest.mark.parametrize("noise", [0.0, 6.0])
@pytest.mark.parametrize(
    ("level", "steep", "within"),
    [(1.5, 1.0, 1.02), (-0.5, 1.0, 1.02), (-1.5, 1.0, 1.02), (-2.5, 0.6, 1.02), (2.0, 4.0, 1.12)],
)
def test_on_rare_and_on_common_classes_probabilities_come_close_to_the_best_line_in_hindsight(
    level: float, steep: float, within: float, noise: float
) -> None:
    x, y = people(40_000, level=level, steep=steep, seed=1)
    rule = binary_rule(moments(x[:20_000], y[:20_000], noise=noise, seed=2))
    odds, notify = x[20_000:] @ rule.coefficients[0] + rule.intercepts[0], y[20_000:]
    loss, share = cross_entropy(odds, notify), float(y[:20_000].mean())
    assert loss < cross_entropy(np.full(len(notify), math.log(share / (1 - share))), notify)
    assert loss < within * recalibrated(odds, notify)


def test_noise_that_leaves_nothing_to_say_leaves_the_share_of_the_class_and_keeps_an_order() -> None:
    x, y = people(2_000, level=-1.5, steep=0.0, seed=3)
    exact = float(y.mean())
    for seed in range(5):
        found = moments(x, y, noise=12.0, seed=seed)
        rule, share = binary_rule(found), float(found.counts[1] / found.counts.sum())
        odds = x @ rule.coefficients[0] + rule.intercepts[0]
        assert odds.std() > 0
        assert (
            cross_entropy(odds, y) < cross_entropy(np.full(len(y), math.log(share / (1 - share))), y) + 0.03
        )
        assert abs(binary_score(found).share - exact) < 0.1
