"""The solvers against solutions known by construction, and the laws their rules keep."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from typed import untyped

from colonnade.errors import DataError
from colonnade.models.discriminant import (
    binary_rule,
    binary_score,
    least_cross_entropy,
    multiclass_rule,
    normal_law,
)
from colonnade.models.moments import (
    ClassMoments,
    ConstantMoments,
    ValueMoments,
    decompose,
    default_floor,
    deflated,
    learnable_rank,
    least_squares,
    noise_edge,
    principal_directions,
)

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


def class_moments(x: Array, y: NDArray[np.int64], classes: int, *, noise: float = 0.0) -> ClassMoments:
    hot = np.eye(classes)[y]
    return ClassMoments(x.T @ x, hot.T @ x, hot.sum(axis=0), noise=noise, border=0.5**0.5)


def noisy(moments: ClassMoments, noise: float, seed: int) -> ClassMoments:
    rng = np.random.default_rng(seed)
    columns = len(moments.gram)
    upper = np.triu(rng.normal(size=(columns, columns)), 1) * noise
    gram = moments.gram + upper + upper.T + np.diag(rng.normal(size=columns)) * noise * 2**0.5
    sums = moments.sums + rng.normal(size=moments.sums.shape) * noise / moments.border
    counts = moments.counts + rng.normal(size=len(moments.counts)) * noise * 2**0.5 / moments.border**2
    return ClassMoments(gram, sums, counts, noise=noise, border=moments.border)


def value_moments(x: Array, v: Array, *, noise: float = 0.0) -> ValueMoments:
    return ValueMoments(
        x.T @ x,
        float(len(x)),
        x.sum(axis=0),
        cross=x.T @ v,
        value_total=float(v.sum()),
        value_square=float(v @ v),
        noise=noise,
        border=0.5,
    )


@pytest.mark.parametrize("seed", range(5))
def test_if_classes_are_normal_the_log_odds_are_those_of_discriminant_analysis(seed: int) -> None:
    x = rows_of(seed)
    y = labels_of(x, seed, 2)
    score = binary_score(class_moments(x, y, 2))
    line = least_cross_entropy(score.share, (normal_law(score.share, score.explained),))
    other = LinearDiscriminantAnalysis(solver="lsqr").fit(x, y)
    np.testing.assert_allclose(line.slope * score.weights, other.coef_[0], rtol=1e-6)
    np.testing.assert_allclose(line.at(np.array([score.offset])), other.intercept_, rtol=1e-6)


def test_without_noise_dependent_columns_get_the_least_norm_solution() -> None:
    x = rows_of(4)
    x = np.column_stack([x, x[:, 0] - x[:, 1]]) / 2
    v = np.tanh(x[:, 0] + x[:, 2])
    line = least_squares(value_moments(x, v))
    centred = np.linalg.lstsq(x - x.mean(axis=0), v - v.mean(), rcond=None)[0]
    np.testing.assert_allclose(line.coefficients, centred, atol=1e-7)


@given(st.integers(0, 10**6), st.floats(0.1, 10.0))
@settings(max_examples=40, deadline=None)
def test_a_rotation_of_the_features_does_not_change_a_score(seed: int, noise: float) -> None:
    x = rows_of(seed % 7)
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(5, 5)))[0]
    for classes, rule_of in ((2, binary_rule), (4, multiclass_rule)):
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
@settings(max_examples=40, deadline=None)
def test_swapping_the_two_classes_turns_every_score_round(seed: int, noise: float) -> None:
    x = rows_of(seed % 7)
    y = labels_of(x, seed % 11, 2)
    first = binary_rule(class_moments(x, y, 2, noise=noise))
    second = binary_rule(class_moments(x, 1 - y, 2, noise=noise))
    np.testing.assert_allclose(first.coefficients, -second.coefficients, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(first.intercepts, -second.intercepts, rtol=1e-7, atol=1e-10)


@given(st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_permuting_the_classes_permutes_the_scores(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rows_of(seed % 7)
    plain = noisy(class_moments(x, labels_of(x, seed % 5, 4), 4), 0.3, seed)
    order = rng.permutation(4)
    swapped = ClassMoments(plain.gram, plain.sums[order], plain.counts[order], noise=0.3, border=plain.border)
    first, second = multiclass_rule(plain), multiclass_rule(swapped)
    np.testing.assert_allclose(first.coefficients[order], second.coefficients, rtol=1e-6)
    np.testing.assert_allclose(first.intercepts[order], second.intercepts, rtol=1e-6)


@given(st.lists(st.floats(-5, 50), min_size=1, max_size=30), st.floats(0.01, 10), st.floats(0, 5))
def test_a_floored_inverse_lies_between_zero_and_one_over_the_floor(
    values: list[float], floor: float, ridge: float
) -> None:
    spectrum = decompose(np.diag(values), floor=floor, ridge=ridge)
    assert (spectrum.inverse > 0).all()
    assert (spectrum.inverse <= 1 / (floor + ridge)).all()


@given(st.integers(1, 5000))
def test_the_floor_is_at_most_the_edge_of_the_noise(columns: int) -> None:
    assert 1.0 <= default_floor(columns) <= noise_edge(1.0, columns)


@given(st.lists(st.floats(-50, 500), min_size=1, max_size=40), st.floats(0, 5))
def test_deflating_keeps_the_order_and_only_takes_away(values: list[float], noise: float) -> None:
    seen = np.sort(np.array(values))
    true = deflated(seen, noise)
    assert (true <= np.maximum(seen, 0)).all()
    assert (np.diff(true) >= 0).all()
    assert (true >= 0).all()


def symmetric_noise(columns: int, noise: float, seed: int) -> Array:
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
        assert learnable_rank(untyped(np.linalg.eigvalsh(pure)), noise) <= 1
        assert 3 <= learnable_rank(untyped(np.linalg.eigvalsh(pure + np.diag(real))), noise) <= 4


def test_deflated_squares_are_those_the_rows_have_along_the_noisy_directions() -> None:
    columns, noise = 150, 2.0
    real = np.zeros(columns)
    real[0] = 2 * noise * columns**0.5
    seen, notify, true = [], [], []
    for seed in range(40):
        values, vectors = np.linalg.eigh(np.diag(real) + symmetric_noise(columns, noise, seed))
        seen.append(values[-1])
        notify.append(deflated(values, noise)[-1])
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
        scatter = ConstantMoments(gram, float(rows), total, noise=noise, border=0.5**0.5).scatter()
        found = principal_directions(scatter, centre=False)
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
            score = binary_score(moments, unbias=unbias)
            gain = np.linalg.norm(score.weights) / np.linalg.norm(_weights(moments))
            found.append(float((score.weights @ x.mean(axis=0) + score.offset - score.share) / gain))
    z = {unbias: abs(np.mean(f)) / (np.std(f) / len(f) ** 0.5) for unbias, f in shifts.items()}
    assert z[True] < 6.1
    if skew:
        assert z[False] > 6.1


def _weights(moments: ClassMoments) -> Array:
    scatter = moments.scatter()
    floor = moments.noise * default_floor(len(scatter.mean))
    return decompose(scatter.matrix, floor=floor).solve(moments.sums[1] - moments.counts[1] * scatter.mean)


def test_a_class_with_no_positive_count_is_named() -> None:
    moments = ClassMoments(np.eye(2), np.zeros((2, 2)), np.array([50.0, -3.0]), noise=2.0, border=0.7)
    with pytest.raises(DataError, match=r"class 'sick' has a noisy count of -3\.0"):
        binary_rule(moments, names=("well", "sick"))
    with pytest.raises(DataError, match="number of rows is"):
        ConstantMoments(np.eye(2), -1.0, np.zeros(2), noise=1.0, border=0.7).scatter()
    with pytest.raises(DataError, match="class 'b'"):
        multiclass_rule(
            ClassMoments(np.eye(2), np.zeros((3, 2)), np.array([50.0, -3.0, 1.0]), noise=2.0, border=0.7),
            names=("a", "b", "c"),
        )


def test_a_class_too_rare_for_the_noise_keeps_finite_scores_and_is_seldom_predicted() -> None:
    x = rows_of(2, rows=900)
    y = labels_of(x, 1, 3)
    moments = class_moments(x, y, 3)
    sums = np.vstack([moments.sums, np.full((1, 5), 7.0)])
    rare = ClassMoments(moments.gram, sums, np.append(moments.counts, -2.0), noise=0.5, border=0.7)
    rule = multiclass_rule(rare)
    assert rule.faint == (3,)
    scores = x @ rule.coefficients.T + rule.intercepts
    assert np.isfinite(scores).all()
    assert (scores.argmax(axis=1) == 3).mean() < 0.01
