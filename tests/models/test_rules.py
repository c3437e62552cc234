"""The solvers against solutions known by construction, and log-odds from two moments."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit, log_expit
from scipy.stats import beta as beta_of
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from typed import untyped

from colonnade.errors import DataError
from colonnade.models import discriminant
from colonnade.models import moments as moment_rules

FALSE_ALARM = 1e-9
Array = NDArray[np.float64]


def rows_of(seed: int, *, rows: int = 400, columns: int = 5) -> Array:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns)) @ rng.normal(size=(columns, columns)) + rng.normal(size=columns)
    return np.asarray(x / np.linalg.norm(x, axis=1).max())


def labels_of(x: Array, seed: int, classes: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    scores = 8 * x @ rng.normal(size=(x.shape[1], classes)) + rng.gumbel(size=(len(x), classes))
    scores[:, 0] += 1.0
    return np.asarray(scores.argmax(axis=1))


def class_moments(
    x: Array, y: NDArray[np.int64], classes: int, *, noise: float = 0.0
) -> moment_rules.ClassMoments:
    hot = np.eye(classes)[y]
    return moment_rules.ClassMoments(x.T @ x, hot.T @ x, hot.sum(axis=0), noise=noise, border=0.5**0.5)


def noisy(moments: moment_rules.ClassMoments, noise: float, seed: int) -> moment_rules.ClassMoments:
    rng = np.random.default_rng(seed)
    gram = moments.gram + symmetric_noise(len(moments.gram), noise, rng)
    sums = moments.sums + rng.normal(size=moments.sums.shape) * noise / moments.border
    counts = moments.counts + rng.normal(size=len(moments.counts)) * noise * 2**0.5 / moments.border**2
    return moment_rules.ClassMoments(gram, sums, counts, noise=noise, border=moments.border)


def value_moments(x: Array, v: Array, *, noise: float = 0.0) -> moment_rules.ValueMoments:
    of_value: Any = {"cross": x.T @ v, "value_total": float(v.sum()), "value_square": float(v @ v)}
    return moment_rules.ValueMoments(
        x.T @ x, float(len(x)), x.sum(axis=0), **of_value, noise=noise, border=0.5
    )


@pytest.mark.parametrize("seed", range(5))
def test_if_classes_are_normal_the_log_odds_are_those_of_discriminant_analysis(seed: int) -> None:
    x = rows_of(seed)
    y = labels_of(x, seed, 2)
    score = discriminant.binary_score(class_moments(x, y, 2))
    line = discriminant.least_cross_entropy(
        score.share, (discriminant.normal_law(score.share, score.explained),)
    )
    other = LinearDiscriminantAnalysis(solver="lsqr").fit(x, y)
    np.testing.assert_allclose(line.slope * score.weights, other.coef_[0], rtol=1e-6)
    np.testing.assert_allclose(line.at(np.array([score.offset])), other.intercept_, rtol=1e-6)


def test_without_noise_dependent_columns_get_the_least_norm_solution() -> None:
    x = rows_of(4)
    x = np.column_stack([x, x[:, 0] - x[:, 1]]) / 2
    v = np.tanh(x[:, 0] + x[:, 2])
    line = moment_rules.least_squares(value_moments(x, v))
    centred = np.linalg.lstsq(x - x.mean(axis=0), v - v.mean(), rcond=None)[0]
    np.testing.assert_allclose(line.coefficients, centred, atol=1e-7)


@given(st.integers(0, 10**6), st.floats(0.1, 10.0))
@settings(max_examples=20, deadline=None)
def test_a_rotation_of_the_features_does_not_change_a_score(seed: int, noise: float) -> None:
    x = rows_of(seed % 7)
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(5, 5)))[0]
    for classes, rule_of in ((2, discriminant.binary_rule), (4, discriminant.multiclass_rule)):
        y = labels_of(x, seed % 11, classes)
        plain = class_moments(x, y, classes, noise=noise)
        rotated = class_moments(x @ turn, y, classes, noise=noise)
        if plain.counts.min() <= 2 * plain.count_noise:
            continue
        first, second = rule_of(plain), rule_of(rotated)
        np.testing.assert_allclose(
            x @ first.coefficients.T + first.intercepts,
            x @ turn @ second.coefficients.T + second.intercepts,
            rtol=1e-6,
            atol=1e-8,
        )


@given(st.integers(0, 10**6), st.floats(0.0, 8.0))
@settings(max_examples=20, deadline=None)
def test_swapping_the_two_classes_turns_every_score_round(seed: int, noise: float) -> None:
    x = rows_of(seed % 7)
    y = labels_of(x, seed % 11, 2)
    first = discriminant.binary_rule(class_moments(x, y, 2, noise=noise))
    second = discriminant.binary_rule(class_moments(x, 1 - y, 2, noise=noise))
    np.testing.assert_allclose(first.coefficients, -second.coefficients, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(first.intercepts, -second.intercepts, rtol=1e-7, atol=1e-10)


@given(st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_permuting_the_classes_permutes_the_scores(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rows_of(seed % 7)
    plain = noisy(class_moments(x, labels_of(x, seed % 5, 4), 4), 0.3, seed)
    order = rng.permutation(4)
    swapped = moment_rules.ClassMoments(
        plain.gram, plain.sums[order], plain.counts[order], noise=0.3, border=plain.border
    )
    first, second = discriminant.multiclass_rule(plain), discriminant.multiclass_rule(swapped)
    np.testing.assert_allclose(first.coefficients[order], second.coefficients, rtol=1e-6)
    np.testing.assert_allclose(first.intercepts[order], second.intercepts, rtol=1e-6)


@given(st.lists(st.floats(-5, 50), min_size=1, max_size=30), st.floats(0.01, 10), st.floats(0, 5))
def test_a_floored_inverse_is_at_most_one_over_the_floor(values: Any, floor: float, ridge: float) -> None:
    spectrum = moment_rules.decompose(np.diag(values), floor=floor, ridge=ridge)
    assert (spectrum.inverse > 0).all()
    assert (spectrum.inverse <= 1 / (floor + ridge)).all()


@given(st.integers(1, 5000))
def test_the_floor_is_at_most_the_edge_of_the_noise(columns: int) -> None:
    assert 1.0 <= moment_rules.default_floor(columns) <= moment_rules.noise_edge(1.0, columns)


@given(st.lists(st.floats(-50, 500), min_size=1, max_size=40), st.floats(0, 5))
def test_deflating_keeps_the_order_and_only_takes_away(values: list[float], noise: float) -> None:
    seen = np.sort(np.array(values))
    true = moment_rules.deflated(seen, noise)
    assert (true <= np.maximum(seen, 0)).all()
    assert (np.diff(true) >= 0).all()
    assert (true >= 0).all()


def symmetric_noise(columns: int, noise: float, seed: int | np.random.Generator) -> Array:
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.normal(size=(columns, columns)), 1) * noise
    return np.asarray(upper + upper.T + np.diag(rng.normal(size=columns)) * noise * 2**0.5)


def test_noise_alone_shows_at_most_one_direction_and_three_real_ones_are_found() -> None:
    # The edge fluctuates by s·d^(-1/6): one eigenvalue of pure noise may pass it, several do not.
    columns, noise = 120, 2.0
    real = np.zeros(columns)
    real[:3] = 6 * noise * columns**0.5
    for seed in range(5):
        pure = symmetric_noise(columns, noise, seed)
        assert moment_rules.learnable_rank(untyped(np.linalg.eigvalsh(pure)), noise) <= 1
        assert 3 <= moment_rules.learnable_rank(untyped(np.linalg.eigvalsh(pure + np.diag(real))), noise) <= 4


def test_deflated_squares_are_those_the_rows_have_along_the_noisy_directions() -> None:
    columns, noise = 150, 2.0
    real = np.zeros(columns)
    real[0] = 2 * noise * columns**0.5
    seen, notify, true = [], [], []
    for seed in range(40):
        values, vectors = np.linalg.eigh(np.diag(real) + symmetric_noise(columns, noise, seed))
        seen.append(values[-1])
        notify.append(moment_rules.deflated(values, noise)[-1])
        true.append(vectors[0, -1] ** 2 * real[0])
    assert np.mean(notify) == pytest.approx(np.mean(true), rel=0.04)
    assert np.mean(seen) > 1.4 * np.mean(true)


def test_the_mean_is_found_by_the_border_where_the_gram_matrix_hides_it() -> None:
    # n‖μ‖² is below s√d, where the leading eigenvector of a Gram matrix tends to pure chance.
    columns, rows, noise = 300, 3000, 60.0
    mean = np.full(columns, 0.5 / columns**0.5)
    direction = mean / np.linalg.norm(mean)
    border, gram_alone = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        gram = rows * np.outer(mean, mean) + symmetric_noise(columns, noise, 100 + seed)
        total = rows * mean + rng.normal(size=columns) * noise * 2**0.5
        scatter = moment_rules.ConstantMoments(
            gram, float(rows), total, noise=noise, border=0.5**0.5
        ).scatter()
        found = moment_rules.principal_directions(scatter, centre=False)
        np.testing.assert_allclose(found.directions @ found.directions.T, np.eye(columns), atol=1e-9)
        border.append((found.directions[0] @ direction) ** 2)
        gram_alone.append((np.linalg.eigh(gram)[1][:, -1] @ direction) ** 2)
    assert np.median(border) > 0.4
    assert np.median(gram_alone) < 0.2


@pytest.mark.parametrize("skew", [0.0, 3.0])
def test_the_bias_correction_centres_the_scores(skew: float) -> None:
    # Mean over draws of the mean score, against the score of the same rule without noise in w and μ.
    # z statistic at FALSE_ALARM; the control is the same statistic without the correction.
    rng = np.random.default_rng(5)
    x = rows_of(9, rows=3000, columns=40) * 0.5
    y = (x[:, 0] * 20 + rng.logistic(size=len(x)) > skew).astype(np.int64)
    exact = class_moments(x, y, 2)
    noise = 6.0
    shifts: dict[bool, list[float]] = {True: [], False: []}
    for seed in range(300):
        moments = noisy(exact, noise, seed)
        for unbias, found in shifts.items():
            score = discriminant.binary_score(moments, unbias=unbias)
            gain = np.linalg.norm(score.weights) / np.linalg.norm(_weights(moments))
            found.append(float((score.weights @ x.mean(axis=0) + score.offset - score.share) / gain))
    z = {unbias: abs(np.mean(f)) / (np.std(f) / len(f) ** 0.5) for unbias, f in shifts.items()}
    assert z[True] < 6.1
    if skew:
        assert z[False] > 6.1


def _weights(moments: moment_rules.ClassMoments) -> Array:
    scatter = moments.scatter()
    floor = moments.noise * moment_rules.default_floor(len(scatter.mean))
    return moment_rules.decompose(scatter.matrix, floor=floor).solve(
        moments.sums[1] - moments.counts[1] * scatter.mean
    )


def test_a_class_with_no_positive_count_is_named() -> None:
    moments = moment_rules.ClassMoments(
        np.eye(2), np.zeros((2, 2)), np.array([50.0, -3.0]), noise=2.0, border=0.7
    )
    with pytest.raises(DataError, match=r"class 'sick' has a noisy count of -3\.0"):
        discriminant.binary_rule(moments, names=("well", "sick"))
    with pytest.raises(DataError, match="number of rows is"):
        moment_rules.ConstantMoments(np.eye(2), -1.0, np.zeros(2), noise=1.0, border=0.7).scatter()
    with pytest.raises(DataError, match="class 'b'"):
        discriminant.multiclass_rule(
            moment_rules.ClassMoments(
                np.eye(2), np.zeros((3, 2)), np.array([50.0, -3.0, 1.0]), noise=2.0, border=0.7
            ),
            names=("a", "b", "c"),
        )


def test_a_class_too_rare_for_the_noise_keeps_finite_scores_and_is_seldom_predicted() -> None:
    x = rows_of(2, rows=900)
    y = labels_of(x, 1, 3)
    moments = class_moments(x, y, 3)
    sums = np.vstack([moments.sums, np.full((1, 5), 7.0)])
    rare = moment_rules.ClassMoments(
        moments.gram, sums, np.append(moments.counts, -2.0), noise=0.5, border=0.7
    )
    rule = discriminant.multiclass_rule(rare)
    assert rule.faint == (3,)
    scores = x @ rule.coefficients.T + rule.intercepts
    assert np.isfinite(scores).all()
    assert (scores.argmax(axis=1) == 3).mean() < 0.01


SHARES = st.floats(0.002, 0.998)
EXPLAINED = st.floats(0.001, discriminant.LARGEST_EXPLAINED)


def constant(share: float) -> float:
    """The cross-entropy of saying the share of the class about everybody."""
    return -share * math.log(share) - (1 - share) * math.log(1 - share)


def loss_under(law: discriminant.ScoreLaw, line: discriminant.LogOdds) -> float:
    """The cross-entropy of a line where scores have this law and classes occur with the line's share."""
    first, second = log_expit(-line.at(law.first)), log_expit(line.at(law.second))
    return float(law.weights @ (-(1.0 - line.share) * first - line.share * second))


@given(SHARES, EXPLAINED)
@settings(max_examples=25, deadline=None)
def test_both_laws_have_the_moments_that_the_release_tells(share: float, explained: float) -> None:
    for law in (discriminant.normal_law(share, explained), discriminant.beta_law(share, explained)):
        chances = np.array([1 - share, share])
        means = np.array([law.weights @ law.first, law.weights @ law.second])
        squares = np.array([law.weights @ law.first**2, law.weights @ law.second**2])
        assert chances @ means == pytest.approx(share, rel=1e-3)
        assert means[1] - means[0] == pytest.approx(explained, rel=1e-2)
        spread = share * (1 - share)
        assert chances @ squares - share**2 == pytest.approx(explained * spread, rel=1e-2)


@given(SHARES, EXPLAINED)
@settings(max_examples=25, deadline=None)
def test_classes_that_change_places_turn_the_log_odds_round(share: float, explained: float) -> None:
    one, other = discriminant.log_odds(share, explained), discriminant.log_odds(1 - share, explained)
    assert one.slope == pytest.approx(other.slope, rel=1e-6)
    assert one.level == pytest.approx(-other.level, rel=1e-6, abs=1e-9)


@given(SHARES, EXPLAINED)
@settings(max_examples=25, deadline=None)
def test_under_either_law_it_beats_the_share_of_the_class(share: float, explained: float) -> None:
    line = discriminant.log_odds(share, explained)
    assert line.slope > 0
    for law in (discriminant.normal_law(share, explained), discriminant.beta_law(share, explained)):
        assert loss_under(law, line) < constant(share)


@given(SHARES, EXPLAINED)
@settings(max_examples=30, deadline=None)
def test_the_mean_probability_is_the_share_and_no_line_near_is_better(share: float, explained: float) -> None:
    laws = (discriminant.normal_law(share, explained), discriminant.beta_law(share, explained))
    line = discriminant.log_odds(share, explained)
    chances = [[law.weights @ expit(line.at(scores)) for scores in (law.first, law.second)] for law in laws]
    assert np.mean(np.array(chances) @ [1 - share, share]) == pytest.approx(share, rel=1e-6)

    def loss(near: discriminant.LogOdds) -> float:
        return float(np.mean([loss_under(law, near) for law in laws]))

    for slope, level in ((1.05, 0.0), (0.95, 0.0), (1.0, 0.1), (1.0, -0.1)):
        assert loss(discriminant.LogOdds(share, line.slope * slope, line.level + level)) > loss(line)


@pytest.mark.parametrize("share", [0.5, 0.2, 0.03])
@pytest.mark.parametrize("explained", [0.01, 0.3, 0.6])
def test_of_normal_classes_alone_it_is_the_closed_form(share: float, explained: float) -> None:
    line = discriminant.least_cross_entropy(share, (discriminant.normal_law(share, explained),))
    assert line.slope == pytest.approx(1 / (share * (1 - share) * (1 - explained)), rel=1e-5)
    between = share + (0.5 - share) * explained
    assert line.at(np.array([between]))[0] == pytest.approx(math.log(share / (1 - share)), abs=1e-5)


def test_quantiles_are_scipys() -> None:
    law = discriminant.beta_law(0.3, 0.25)
    places = expit(np.linspace(-24, 24, len(law.first)))[30:-30]
    np.testing.assert_allclose(law.first[30:-30], beta_of(0.9, 3.1).ppf(places), rtol=1e-7)
    np.testing.assert_allclose(law.second[30:-30], beta_of(1.9, 2.1).ppf(places), rtol=1e-7)


def test_a_score_that_explains_nothing_has_the_slope_of_the_second_order_expansion() -> None:
    for share in (0.5, 0.1):
        line = discriminant.log_odds(share, 0.0)
        assert (line.slope, line.level) == (1 / (share * (1 - share)), math.log(share / (1 - share)))
        near = discriminant.log_odds(share, 1.1e-6)
        assert near.slope == pytest.approx(line.slope, rel=1e-3)
        assert near.level == pytest.approx(line.level, rel=1e-3)


def test_a_share_of_nobody_or_everybody_is_refused() -> None:
    for share in (0.0, 1.0, -0.1, math.nan):
        with pytest.raises(ValueError, match="some people have"):
            discriminant.log_odds(share, 0.5)


@given(st.floats(-30, 30), st.floats(0.01, 10))
def test_what_may_be_true_is_positive_and_close_to_what_was_found(value: float, deviation: float) -> None:
    found = discriminant.above_zero(value, deviation)
    assert found >= max(value, 0.0)
    assert found <= max(value, 0.0) + deviation


@given(st.lists(st.floats(-50, 500), min_size=1, max_size=40), st.floats(0, 5))
def test_what_rows_hold_adds_up_to_the_trace_unless_it_is_negative(values: Any, noise: float) -> None:
    seen = np.array(values)
    found = moment_rules.denoised(seen, noise)
    assert (found >= 0).all()
    inside = seen <= 2 * noise * len(seen) ** 0.5
    np.testing.assert_array_equal(found[~inside], moment_rules.deflated(seen, noise)[~inside])
    if inside.any() and found[inside].max() > 0:
        assert found.sum() == pytest.approx(seen.sum(), abs=1e-6)


# People with a rare class, through the rule: no law above is the one they have.


def people(rows: int, *, level: float, steep: float, seed: int) -> tuple[Array, NDArray[np.int64]]:
    """Twelve columns of ±1, unevenly likely, and a class by a logistic model of their sum."""
    rng = np.random.default_rng(seed)
    x = np.where(rng.random((rows, 12)) < rng.uniform(0.1, 0.5, 12), 1.0, -1.0) / 12**0.5
    y = (rng.random(rows) < expit(level + steep * x.sum(axis=1))).astype(np.int64)
    return x, y


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
def test_probabilities_come_close_to_the_best_line_in_hindsight(
    level: float, steep: float, within: float, noise: float
) -> None:
    x, y = people(40_000, level=level, steep=steep, seed=1)
    rule = discriminant.binary_rule(noisy(class_moments(x[:20_000], y[:20_000], 2), noise, 2))
    odds, notify = x[20_000:] @ rule.coefficients[0] + rule.intercepts[0], y[20_000:]
    loss, share = cross_entropy(odds, notify), float(y[:20_000].mean())
    assert loss < cross_entropy(np.full(len(notify), math.log(share / (1 - share))), notify)
    assert loss < within * recalibrated(odds, notify)


def test_noise_that_leaves_nothing_to_say_leaves_the_share_of_the_class_and_keeps_an_order() -> None:
    x, y = people(2_000, level=-1.5, steep=0.0, seed=3)
    for seed in range(5):
        found = noisy(class_moments(x, y, 2), 12.0, seed)
        rule, share = discriminant.binary_rule(found), float(found.counts[1] / found.counts.sum())
        odds, level = x @ rule.coefficients[0] + rule.intercepts[0], math.log(share / (1 - share))
        assert odds.std() > 0
        assert cross_entropy(odds, y) < cross_entropy(np.full(len(y), level), y) + 0.03
        assert abs(discriminant.binary_score(found).share - float(y.mean())) < 0.1
