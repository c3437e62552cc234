"""The models against scikit-learn on the encoded rows, what they predict from, and what they refuse."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from learn_releases import Shoppers, release_of
from numpy.testing import assert_allclose
from sklearn import decomposition, linear_model
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from typed import untyped

from colonnade.data.encoder import Encoder
from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import ClassLabel, LabelBlock
from colonnade.errors import DataError, InputError, LabelMismatch
from colonnade.models.discriminant import log_odds
from colonnade.models.fitting import NoiseWarning
from colonnade.models.linear import LinearRegression
from colonnade.models.logistic import LogisticRegression
from colonnade.models.pca import PCA
from colonnade.models.release import MomentRelease

PEOPLE = Shoppers(4000)


def named(people: Shoppers) -> np.ndarray:
    result: np.ndarray = np.array(["no", "yes"])[people.buys]
    return result


class Recorder:
    """A source that keeps what it was asked for, and counts how often it was paid."""

    def __init__(self, release: MomentRelease) -> None:
        self.release = release
        self.requested: list[dict[str, Any]] = []

    def moments(self, *, task: str, epsilon: float, delta: float) -> MomentRelease:
        self.requested.append({"task": task, "epsilon": epsilon, "delta": delta})
        return self.release


def test_without_noise_two_classes_are_least_squares_and_its_log_odds() -> None:
    release = PEOPLE.release("two")
    model = LogisticRegression().fit(release)
    x = release.features(PEOPLE.raw)
    line = linear_model.LinearRegression().fit(x, PEOPLE.buys)
    odds = log_odds(PEOPLE.buys.mean(), line.score(x, PEOPLE.buys)).at(line.predict(x))
    assert_allclose(model.decision_function(PEOPLE.raw), odds, atol=0.02)
    sure = np.abs(odds) > 0.02
    names = np.array(["no", "yes"])[(odds > 0).astype(int)]
    assert np.array_equal(model.predict(PEOPLE.raw)[sure], names[sure])
    share = model.predict_proba(PEOPLE.raw)
    assert_allclose(share.sum(axis=1), 1)
    assert_allclose(np.log(share[:, 1] / share[:, 0]), model.decision_function(PEOPLE.raw))


def test_without_noise_three_classes_are_discriminant_analysis() -> None:
    release = PEOPLE.release("three")
    model = LogisticRegression().fit(release)
    x = release.features(PEOPLE.raw)
    other = LinearDiscriminantAnalysis(solver="lsqr").fit(x, PEOPLE.grade)
    assert_allclose(model.predict_proba(x), other.predict_proba(x), atol=2e-3)
    assert model.coef_.shape == (3, release.columns)
    assert list(model.classes_) == ["low", "middle", "high"]


@pytest.mark.parametrize(("kind", "values"), [("real", PEOPLE.spent), ("count", PEOPLE.orders)])
def test_without_noise_regression_is_least_squares_in_the_labels_own_units(
    kind: str, values: np.ndarray
) -> None:
    release = PEOPLE.release(kind, mode="linear")
    model = LinearRegression().fit(release)
    x = release.features(PEOPLE.raw)
    other = linear_model.LinearRegression().fit(x, values)
    assert_allclose(model.coef_, other.coef_, rtol=2e-3, atol=2e-3)
    assert model.intercept_ == pytest.approx(other.intercept_, rel=1e-3, abs=1e-2)
    assert model.score(PEOPLE.raw, values) == pytest.approx(other.score(x, values), abs=1e-4)


@pytest.mark.parametrize("kind", ["none", "two", "real"])
def test_without_noise_components_are_scikit_learns_whatever_the_label(kind: str) -> None:
    release = PEOPLE.release(kind, mode="linear")
    x = release.features(PEOPLE.raw)
    model = PCA(3).fit(release)
    other = decomposition.PCA(3).fit(x)
    assert_allclose(np.abs(np.sum(model.components_ * other.components_, axis=1)), 1, atol=1e-4)
    assert_allclose(model.explained_variance_, other.explained_variance_, rtol=1e-3)
    assert_allclose(model.explained_variance_ratio_, other.explained_variance_ratio_, rtol=1e-3)
    assert_allclose(np.abs(model.transform(PEOPLE.raw)), np.abs(other.transform(x)), atol=1e-2)
    assert_allclose(
        model.inverse_transform(model.transform(x)), other.inverse_transform(other.transform(x)), atol=1e-2
    )
    assert list(model.get_feature_names_out()) == ["pca0", "pca1", "pca2"]


def test_raw_columns_arrow_tables_and_encoded_rows_are_predicted_alike() -> None:
    release = PEOPLE.release("two", noise=3.0)
    model = LogisticRegression().fit(release)
    expected = model.predict_proba(PEOPLE.raw)
    table = pa.table(PEOPLE.raw)
    parts = pa.concat_tables([table.slice(0, 1500), table.slice(1500)])
    coded = parts.set_column(
        parts.column_names.index("region"), "region", parts["region"].dictionary_encode()
    )
    for rows in (
        table,
        parts,
        coded,
        table.to_batches()[0],
        release.features(PEOPLE.raw),
        FrameLike(PEOPLE.raw),
    ):
        assert_allclose(model.predict_proba(rows), expected)
    assert_allclose(model.predict_proba({**PEOPLE.raw, "unrelated": ["?"] * PEOPLE.rows}), expected)
    assert untyped(model).columns_in_ == ("age", "income", "sex", "visits", "region")


class FrameLike:
    """As a data frame does: `columns` are names, and a name gives values."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self.columns = list(columns)
        self._values = columns

    def __getitem__(self, name: str) -> Any:
        return self._values[name]


def test_a_column_that_two_parties_have_is_told_apart_by_its_party() -> None:
    age = (NumericColumn("age", 0, 100),)
    rng = np.random.default_rng(0)
    bank, shop = rng.uniform(0, 100, 200), rng.uniform(0, 100, 200)
    parties = [
        ("bank", Encoder(age, "linear"), {"age": bank}),
        ("shop", Encoder(age, "linear"), {"age": shop}),
    ]
    release = release_of(parties, LabelBlock(ClassLabel("y", ("0", "1"))), (bank > shop).astype(int))
    model = LogisticRegression().fit(release)
    assert list(untyped(model).feature_names_in_) == ["bank.age", "shop.age"]
    assert model.score({"bank.age": bank, "shop.age": shop}, (bank > shop).astype(int)) > 0.95
    with pytest.raises(DataError, match=r"'bank\.age' is missing.*Did you mean"):
        model.predict({"shop.age": shop, "bank_age": bank})


def test_wrong_rows_say_what_is_wrong() -> None:
    model = LogisticRegression().fit(PEOPLE.release("two"))
    raw = PEOPLE.raw
    for rows, message in (
        (
            {**{k: v for k, v in raw.items() if k != "income"}, "incomes": raw["income"]},
            "Did you mean 'incomes'",
        ),
        ({**raw, "sex": np.array(["other"] * PEOPLE.rows)}, "column 'sex'.*not among the declared"),
        ({**raw, "age": np.full(PEOPLE.rows, np.nan)}, "column 'age'.*missing"),
        ({**raw, "age": raw["age"][:5]}, "different lengths"),
        (np.zeros((3, 4)), r"shape \(people, 10\), not \(3, 4\)"),
        (np.zeros(9), r"not \(9,\)"),
        (np.array([["a"] * 10]), "not numbers"),
        (np.full((2, 10), np.nan), "not finite"),
    ):
        with pytest.raises(DataError, match=message):
            model.predict(rows)
    with pytest.raises(DataError, match=r"label 'buys': .*not among the declared"):
        model.score(raw, np.full(PEOPLE.rows, "perhaps"))


@pytest.mark.parametrize(
    ("model", "task"),
    [
        (LogisticRegression(epsilon=0.5, delta=1e-6), "classification"),
        (LinearRegression(epsilon=0.5, delta=1e-6), "regression"),
        (PCA(1, epsilon=0.5, delta=1e-6), "pca"),
    ],
)
def test_a_federation_is_asked_once_at_the_stated_price_and_a_release_never(model: Any, task: str) -> None:
    kind = {"classification": "two", "regression": "real", "pca": "none"}[task]
    source = Recorder(PEOPLE.release(kind))
    model.fit(source)
    assert source.requested == [{"task": task, "epsilon": 0.5, "delta": 1e-6}]
    model.fit(model.releases_[0])
    assert len(source.requested) == 1


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(epsilon=0.0),
        LogisticRegression(epsilon=float("nan")),
        LogisticRegression(delta=0.0),
        LogisticRegression(delta=1.0),
        LogisticRegression(floor=-1.0),
        LogisticRegression(ridge=-1.0),
        LogisticRegression(threshold=1.0),
        LinearRegression(ridge=float("inf")),
        LinearRegression(epsilon=-1),
        PCA(0),
        PCA(True),
        PCA(epsilon="1"),  # type: ignore[arg-type]
    ],
)
def test_a_parameter_that_makes_no_sense_is_refused_before_anything_is_paid(model: Any) -> None:
    source = Recorder(PEOPLE.release("two"))
    with pytest.raises(InputError):
        model.fit(source)
    assert source.requested == []


def test_a_release_that_was_paid_for_is_kept_when_nothing_can_be_learned_from_it() -> None:
    rare = Shoppers(40)
    rare.buys[:] = 0
    source = Recorder(rare.release("two", noise=0.0))
    model = LogisticRegression()
    with pytest.raises(DataError, match=r"class 'yes' has a noisy count of 0\.0"):
        model.fit(source)
    assert model.releases_ == (source.release,)
    with pytest.raises(AttributeError, match="not fitted"):
        model.predict(rare.raw)


def test_asking_for_more_components_than_can_be_learned_warns_and_none_is_an_answer() -> None:
    noisy = PEOPLE.release("none", mode="linear", noise=60.0)
    learnable = PCA().fit(noisy).learnable_rank_
    assert 0 < learnable < noisy.columns
    with pytest.warns(NoiseWarning, match=f"{learnable} of {noisy.columns} directions"):
        model = PCA(noisy.columns).fit(noisy)
    assert (model.explained_variance_[learnable:] == 0).all()
    with pytest.warns(NoiseWarning, match="no component is kept"):
        nothing = PCA().fit(PEOPLE.release("none", mode="linear", noise=1e5))
    assert nothing.transform(PEOPLE.raw).shape == (PEOPLE.rows, 0)
    with pytest.raises(InputError, match="there are 7 features"):
        PCA(8).fit(noisy)


def test_more_noise_never_shows_more_directions_on_average() -> None:
    ranks = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)
        for noise in (0.0, 10.0, 100.0, 1000.0):
            seeds = range(10)
            ranks.append(
                np.mean(
                    [
                        PCA().fit(PEOPLE.release("none", mode="linear", noise=noise, seed=s)).learnable_rank_
                        for s in seeds
                    ]
                )
            )
    assert ranks == sorted(ranks, reverse=True)
    assert ranks[0] == 7
    assert ranks[-1] <= 1


def test_the_uncentred_components_hold_the_mean() -> None:
    release = PEOPLE.release("two", mode="linear", noise=5.0)
    model = PCA(1, centre=False).fit(release)
    x = release.features(PEOPLE.raw)
    direction = np.linalg.svd(x, full_matrices=False)[2][0]
    assert abs(model.components_[0] @ direction) > 0.99
    assert not model.mean_.any()


def test_the_threshold_moves_predictions_and_not_probabilities() -> None:
    release = PEOPLE.release("two")
    plain = LogisticRegression().fit(release)
    careful = LogisticRegression(threshold=0.8).fit(release)
    assert_allclose(plain.predict_proba(PEOPLE.raw), careful.predict_proba(PEOPLE.raw))
    assert np.array_equal(careful.predict(PEOPLE.raw) == "yes", careful.predict_proba(PEOPLE.raw)[:, 1] > 0.8)
    assert np.array_equal(plain.predict(PEOPLE.raw) == "yes", plain.predict_proba(PEOPLE.raw)[:, 1] > 0.5)
    with pytest.raises(LabelMismatch, match="two classes"):
        LogisticRegression(threshold=0.8).fit(PEOPLE.release("three"))


def test_the_fixed_rule_keeps_most_of_the_accuracy_at_a_usual_noise() -> None:
    # s = 5.6 is a release for ε = 1 by two parties. Spread over draws is below .01; the bar is .03 away.
    train, test = Shoppers(8000, seed=1), Shoppers(8000, seed=2)
    exact = LogisticRegression().fit(train.release("two")).score(test.raw, named(test))
    found = [
        LogisticRegression().fit(train.release("two", noise=5.6, seed=s)).score(test.raw, named(test))
        for s in range(10)
    ]
    assert exact > 0.70
    assert np.mean(found) > exact - 0.03


def test_the_floor_is_what_makes_a_noisy_release_usable() -> None:
    # With a floor of almost nothing the inverse of a noisy matrix is arbitrary.
    train, test = Shoppers(1500, seed=1), Shoppers(4000, seed=2)
    scores: dict[float | None, list[float]] = {None: [], 1e-6: []}
    for seed in range(20):
        release = train.release("two", noise=12.0, seed=seed)
        for floor, found in scores.items():
            found.append(LogisticRegression(floor=floor).fit(release).score(test.raw, named(test)))
    assert np.mean(scores[None]) > np.mean(scores[1e-6]) + 0.02


def test_seeded_noise_is_told_in_the_models_privacy() -> None:
    release = replace(PEOPLE.release("two"), reproducible=True)
    assert str(LogisticRegression().fit(release).privacy_).startswith("No privacy")
