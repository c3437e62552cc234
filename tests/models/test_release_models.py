"""What one release gives beyond a classifier: rankings, paths, one class against the rest, and a list of it all."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from learn_releases import Shoppers, release_of
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom
from sklearn.linear_model import LinearRegression as Central
from sklearn.linear_model import Ridge

from colonnade.data.encoder import Encoder
from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import ClassLabel, LabelBlock
from colonnade.data.levels import BinaryColumn
from colonnade.errors import DataError, InputError
from colonnade.models.available import CHANCE, available_models, rank_columns, ridge_path
from colonnade.models.discriminant import binary_score, one_vs_rest_rule
from colonnade.models.fitting import NoiseWarning
from colonnade.models.logistic import LogisticRegression
from colonnade.models.moments import ClassMoments
from colonnade.models.pca import PCA

FALSE_ALARM = 1e-9
PEOPLE = Shoppers(3000)


# One class against the rest


def test_without_noise_one_class_against_the_rest_is_least_squares_on_each_indicator() -> None:
    release = PEOPLE.release("three")
    rule = one_vs_rest_rule(release.class_moments())
    x = release.features(PEOPLE.raw)
    for index in range(3):
        central = Central().fit(x, PEOPLE.grade == index)
        ours = x @ rule.coefficients[index] + rule.intercepts[index]
        # Log-odds are a straight line in the regression.
        assert_allclose(np.corrcoef(ours, central.predict(x))[0, 1], 1.0, atol=1e-6)


def test_one_class_against_the_rest_finds_the_classes_that_lie_at_the_ends() -> None:
    model = LogisticRegression(multiclass="one-vs-rest").fit(PEOPLE.release("three", noise=0.5))
    right = model.predict(PEOPLE.raw) == np.array(["low", "middle", "high"])[PEOPLE.grade]
    assert right[PEOPLE.grade != 1].mean() > 0.55
    assert_allclose(model.predict_proba(PEOPLE.raw).sum(axis=1), 1.0)


def test_of_two_classes_one_against_the_rest_is_the_same_model() -> None:
    release = PEOPLE.release("two", noise=1.0)
    first, second = (
        LogisticRegression(multiclass=choice).fit(release) for choice in ("discriminant", "one-vs-rest")
    )
    assert_array_equal(first.coef_, second.coef_)
    with pytest.raises(InputError, match="Did you mean 'one-vs-rest'"):
        LogisticRegression(multiclass="one-vs-res").fit(release)


def shift(merged: int, assumed: int) -> float:
    """How far scores are off on average, in standard deviations of that average, where `assumed` classes are merged."""
    rng = np.random.default_rng(merged)
    columns, rows, share, noise = 20, 1000.0, 0.3, 20.0
    counts = np.array([(1 - share) * rows, share * rows])
    found = []
    for _ in range(3000):
        sums = rng.normal(size=(2, columns)) * noise * np.array([[merged**0.5], [1.0]])
        # Large against n μμᵀ, whose noise the rule leaves out (docs/proofs/moment-rules.md).
        moments = ClassMoments(1e5 * np.eye(columns), sums, counts, noise=noise / 2, border=0.5)
        score = binary_score(moments, floor=0.0, merged=assumed)
        scatter = moments.scatter()
        weights = np.linalg.solve(scatter.matrix, sums[1] - counts[1] * scatter.mean)
        found.append((score.offset - share) * weights[0] / score.weights[0])
    return float(np.mean(found) / np.std(found) * len(found) ** 0.5)


@pytest.mark.parametrize("merged", [1, 4])
def test_the_shift_that_merged_classes_add_is_taken_out(merged: int) -> None:
    assert abs(shift(merged, merged)) < 6.1


def test_this_average_would_notice_a_shift_taken_out_for_the_wrong_number_of_classes() -> None:
    assert abs(shift(4, 1)) > 6.1


def test_a_class_that_noise_has_swallowed_keeps_its_share_in_every_rule() -> None:
    label = LabelBlock(ClassLabel("grade", ("low", "middle", "high", "never")))
    release = release_of(PEOPLE.parties("circle"), label, PEOPLE.grade, noise=1.0)
    with pytest.warns(NoiseWarning, match="'never'"):
        model = LogisticRegression(multiclass="one-vs-rest").fit(release)
    assert not model.coef_[3].any()
    assert "never" not in model.predict(PEOPLE.raw)


# A single class


def test_a_single_class_in_the_rows_is_said_and_not_learnt() -> None:
    label = LabelBlock(ClassLabel("buys", ("no", "yes")))
    nobody = np.zeros(PEOPLE.rows, dtype=np.int64)
    with pytest.raises(DataError, match=r"class 'yes' has a noisy count of 0\.0 rows"):
        LogisticRegression().fit(release_of(PEOPLE.parties("circle"), label, nobody))
    outcomes = set()
    for seed in range(12):
        release = release_of(PEOPLE.parties("circle"), label, nobody, noise=1.0, seed=seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                LogisticRegression().fit(release)
                outcomes.add("warned" if any("'yes'" in str(one.message) for one in caught) else "silent")
            except DataError:
                outcomes.add("refused")
    # Beyond two standard deviations of the count noise is luck, once in forty.
    assert {"warned", "refused"} <= outcomes


# Columns that do not vary


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_a_column_that_is_the_same_for_everybody_breaks_nothing(noise: float) -> None:
    rng = np.random.default_rng(0)
    columns = (NumericColumn("age", 0, 100), NumericColumn("same", 0, 1), BinaryColumn("all", ("F", "M")))
    raw = {"age": rng.uniform(0, 100, 900), "same": np.full(900, 0.25), "all": np.full(900, "F")}
    buys = (raw["age"] + rng.normal(0, 20, 900) > 50).astype(np.int64)
    label = LabelBlock(ClassLabel("buys", ("no", "yes")))
    for mode in ("circle", "linear"):
        release = release_of([("shop", Encoder(columns, mode), raw)], label, buys, noise=noise)
        model = LogisticRegression().fit(release)
        assert np.isfinite(model.coef_).all()
        assert model.score(raw, np.array(["no", "yes"])[buys]) > 0.7
        assert rank_columns(release).columns[0].column == "age"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoiseWarning)
            assert np.isfinite(PCA(2).fit(release).transform(raw)).all()


# Ranking


def forward_selection(x: dict[str, np.ndarray], y: np.ndarray) -> list[tuple[str, float]]:
    """The same by brute force, on rows in the clear."""
    chosen: list[tuple[str, float]] = []
    explained = 0.0
    while len(chosen) < len(x):
        scores = {}
        for name in x:
            if name not in [one for one, _ in chosen]:
                together = np.column_stack([x[one] for one, _ in chosen] + [x[name]])
                scores[name] = Central().fit(together, y).score(together, y)
        best = max(scores, key=lambda name: scores[name])
        chosen.append((best, scores[best] - explained))
        explained = scores[best]
    return chosen


@pytest.mark.parametrize("kind", ["two", "real"])
def test_without_noise_the_ranking_is_forward_selection_by_explained_variance(kind: str) -> None:
    release = PEOPLE.release(kind, mode="linear")
    features = release.features(PEOPLE.raw)
    spans, start = {}, 0
    for _, encoder in release.encoders:
        for name, span in encoder.spans.items():
            spans[name] = features[:, start + span.start : start + span.stop]
        start += encoder.width
    expected = forward_selection(spans, PEOPLE.buys if kind == "two" else release.label.to_unit(PEOPLE.spent))
    found = rank_columns(release)
    assert [one.column for one in found.columns] == [name for name, _ in expected]
    assert_allclose([one.gain for one in found.columns], [gain for _, gain in expected], atol=1e-3)
    assert [one.owner for one in found.columns if one.column == "age"] == ["bank"]


def balanced() -> Shoppers:
    """Everybody twice, once with each label: no column says anything about it."""
    people = Shoppers(400)
    people.raw = {name: np.concatenate([values, values]) for name, values in people.raw.items()}
    people.rows, people.buys = 800, np.repeat([0, 1], 400)
    return people


def test_columns_that_say_nothing_stand_out_no_more_often_than_stated() -> None:
    people, runs = balanced(), 120
    lucky = sum(
        rank_columns(people.release("two", noise=1.0, seed=seed)).columns[0].stands_out
        for seed in range(runs)
    )
    assert lucky <= binom.isf(FALSE_ALARM, runs, CHANCE)


def test_this_count_would_notice_columns_that_do_say_something() -> None:
    people, runs = Shoppers(800), 30
    found = sum(
        rank_columns(people.release("two", noise=1.0, seed=seed)).columns[0].stands_out
        for seed in range(runs)
    )
    assert found > binom.isf(FALSE_ALARM, runs, CHANCE)


def test_gains_are_right_on_average_over_noise() -> None:
    people = Shoppers(3000)
    exact = {one.column: one.gain for one in rank_columns(people.release("two")).columns}
    first = [rank_columns(people.release("two", noise=2.0, seed=seed)).columns[0] for seed in range(60)]
    assert {one.column for one in first} == {"age"}
    gains = np.array([one.gain for one in first])
    assert abs(gains.mean() - exact["age"]) < 6.1 * gains.std() / 60**0.5 + 0.004


def test_the_best_columns_can_be_selected_and_asked_for_by_number() -> None:
    release = PEOPLE.release("two", noise=0.5)
    ranking = rank_columns(release)
    assert release.select(ranking.best(2)).column_names == ("age", "visits")
    assert ranking.best()[0] == "age"
    with pytest.raises(DataError, match="best 6 columns were asked for, and there are 5"):
        ranking.best(6)
    with pytest.raises(DataError, match="no label that its columns could tell"):
        rank_columns(PEOPLE.release("none"))
    assert str(ranking).splitlines()[0].split() == ["column", "owner", "adds", "by", "chance"]


# Paths


def test_without_noise_a_path_is_scikit_learns_ridge_at_every_ridge() -> None:
    release = PEOPLE.release("real", mode="linear")
    x = release.features(PEOPLE.raw)
    ridges = (30.0, 0.5, 4.0)
    path = ridge_path(release, ridges)
    assert path.ridges == (0.5, 4.0, 30.0)
    for ridge, model in zip(path.ridges, path.models, strict=True):
        central = Ridge(alpha=ridge).fit(x, PEOPLE.spent)
        assert_allclose(model.coef_, central.coef_, rtol=2e-3, atol=0.02)
        assert_allclose(model.intercept_, central.intercept_, rtol=2e-3)


@pytest.mark.parametrize("kind", ["two", "three", "real", "count"])
def test_more_ridge_never_makes_coefficients_longer(kind: str) -> None:
    path = ridge_path(PEOPLE.release(kind, noise=2.0))
    lengths = [float(np.linalg.norm(coefficients)) for coefficients in path.coefficients]
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(lengths))
    assert len(str(path).splitlines()) == len(path.ridges) + 1


def test_a_path_without_ridges_or_label_is_refused() -> None:
    with pytest.raises(InputError, match="list of ridges is empty"):
        ridge_path(PEOPLE.release("two"), [])
    with pytest.raises(InputError, match="ridge = -1"):
        ridge_path(PEOPLE.release("two"), [1.0, -1])
    with pytest.raises(DataError, match="no label"):
        ridge_path(PEOPLE.release("none"))


# The list


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        ("two", {"regression"}),
        ("three", {"regression"}),
        ("real", {"classification", "one class against the rest"}),
        (
            "none",
            {
                "classification",
                "one class against the rest",
                "regression",
                "ridge path",
                "ranking of columns",
            },
        ),
    ],
)
def test_the_list_of_models_says_what_can_be_had_and_why_not(kind: str, missing: set[str]) -> None:
    offers = available_models(PEOPLE.release(kind, noise=1.0))
    assert {offer.model for offer in offers.offers if not offer.available} == missing
    assert all(offer.remark for offer in offers.offers)
    text = str(offers)
    assert text.startswith("From MomentRelease(")
