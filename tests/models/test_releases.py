"""A release says what the rows say; some of its columns are a release; what else one release gives."""

import io
import json
import warnings
import zipfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learn_releases import GAMMA, GUARANTEES, Shoppers, release_of
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom
from sklearn.linear_model import LinearRegression as Central
from sklearn.linear_model import Ridge

from colonnade import (
    PCA,
    LinearRegression,
    LogisticRegression,
    MomentRelease,
    available_models,
    rank_columns,
    ridge_path,
)
from colonnade.data.encoder import Encoder
from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import ClassLabel, LabelBlock
from colonnade.data.levels import BinaryColumn
from colonnade.data.maps import Ball, FeatureMap, RandomRelu
from colonnade.errors import DataError, InputError
from colonnade.models.available import CHANCE
from colonnade.models.discriminant import binary_score, one_vs_rest_rule
from colonnade.models.files.document import Privacy
from colonnade.models.files.release_file import VERSION
from colonnade.models.fitting import NoiseWarning
from colonnade.models.moments import ClassMoments

# Rounding on the grid moves an entry of a row by at most 1/(2γ), and a sum over n rows by at most n/γ.
PEOPLE = Shoppers(500)
GRID = 500 / GAMMA


def test_without_noise_the_views_are_the_moments_of_the_encoded_rows() -> None:
    release = PEOPLE.release("three")
    x = release.features(PEOPLE.raw)
    moments = release.class_moments()
    assert_allclose(moments.gram, x.T @ x, atol=GRID)
    for index in range(3):
        here = PEOPLE.grade == index
        assert moments.counts[index] == here.sum()
        assert_allclose(moments.sums[index], x[here].sum(axis=0), atol=GRID)
    for one in (release, PEOPLE.release("none", mode="linear")):
        plain = one.plain_moments()
        assert plain.count == 500
        assert_allclose(plain.total, one.features(PEOPLE.raw).sum(axis=0), atol=GRID)


@pytest.mark.parametrize(("kind", "values"), [("real", PEOPLE.spent), ("count", PEOPLE.orders)])
def test_without_noise_a_number_for_a_label_gives_its_own_moments(kind: str, values: np.ndarray) -> None:
    release = PEOPLE.release(kind, mode="linear")
    x, v = release.features(PEOPLE.raw), release.label.to_unit(values)
    moments = release.value_moments()
    assert moments.count == 500
    assert_allclose(moments.total, x.sum(axis=0), atol=2 * GRID)
    assert_allclose(moments.cross, x.T @ v, atol=2 * GRID)
    assert_allclose(moments.value_total, v.sum(), atol=2 * GRID)
    assert_allclose(moments.value_square, v @ v, atol=2 * GRID)


@pytest.mark.parametrize("kind", ["two", "real"])
def test_the_noise_of_every_view_has_the_standard_deviation_it_says(kind: str) -> None:
    # The spread of many differences against the spread stated: a ratio of variances within 6.1 of its own
    # standard deviations (√(2/m) for m differences), which fails by chance about once in 1e9.
    people = Shoppers(50)

    def moments(**how: Any) -> Any:
        release = people.release(kind, **how)
        return release.class_moments() if kind == "two" else release.value_moments()

    exact, noisy = moments(), [moments(noise=3.0, seed=seed) for seed in range(200)]
    off = np.triu_indices(len(exact.gram), 1)
    grams = np.array([item.gram - exact.gram for item in noisy])

    def check(differences: np.ndarray, deviation: float) -> None:
        ratio = float(np.mean(differences**2)) / deviation**2
        assert abs(ratio - 1) < 6.1 * (2 / differences.size) ** 0.5

    check(grams[:, off[0], off[1]], exact_noise := noisy[0].noise)
    assert exact_noise == pytest.approx(3.0)
    check(np.diagonal(grams, axis1=1, axis2=2), 2**0.5 * exact_noise)
    if kind == "two":
        check(np.array([item.sums - exact.sums for item in noisy]), noisy[0].sum_noise)
        check(np.array([item.counts - exact.counts for item in noisy]), noisy[0].count_noise)
    else:
        check(np.array([item.cross - exact.cross for item in noisy]), noisy[0].sum_noise)


def test_a_release_of_another_kind_says_what_it_lacks() -> None:
    with pytest.raises(DataError, match="no label, so it cannot be used to classify"):
        PEOPLE.release("none").class_moments()
    with pytest.raises(DataError, match="'classes', so it cannot be used for regression"):
        PEOPLE.release("two").value_moments()


def test_a_matrix_that_cannot_be_a_release_is_refused() -> None:
    release = PEOPLE.release("two")
    lopsided = release.matrix.copy()
    lopsided[0, 1] += 1
    crossed = release.matrix.copy()
    crossed[-1, -2] = crossed[-2, -1] = 1
    for matrix, message in (
        (release.matrix[:-1, :-1], "int64 matrix"),
        (release.matrix.astype(float), "int64 matrix"),
        (lopsided, "symmetric"),
        (crossed, "two classes"),
    ):
        with pytest.raises(ValueError, match=message):
            replace(release, matrix=matrix)


def test_a_release_cannot_be_changed_through_the_array_it_was_made_from() -> None:
    release = PEOPLE.release("two")
    matrix = release.matrix.copy()
    kept = replace(release, matrix=matrix)
    matrix[:] = 0
    assert np.array_equal(kept.matrix, release.matrix)
    with pytest.raises(ValueError, match="read-only"):
        kept.matrix[0, 0] = 1


@pytest.mark.parametrize("kind", ["two", "three", "real", "count", "none"])
def test_saving_and_loading_gives_the_same_release(kind: str, tmp_path: Path) -> None:
    release = PEOPLE.release(kind, noise=2.0)
    path = tmp_path / "moments.npz"
    release.save(path)
    again = MomentRelease.load(path)
    assert np.array_equal(again.matrix, release.matrix)
    for name in ("gamma", "rows", "encoders", "label", "mu", "guarantees", "plan", "run", "reproducible"):
        assert getattr(again, name) == getattr(release, name), name
    assert str(again.privacy) == str(release.privacy)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("member", "change", "found"),
    [
        ("matrix", lambda matrix: matrix * 2, "altered"),
        ("matrix", lambda matrix: np.array([{"a": 1}], dtype=object), "not a moment release"),
        ("header", lambda header: header["guarantees"][0].update(epsilon=0.1), "altered"),
        ("header", lambda header: header.update(version=VERSION + 1), "Upgrade Colonnade"),
    ],
    ids=["other numbers", "a pickle", "another guarantee", "a later version"],
)
def test_a_file_that_somebody_edited_is_refused(tmp_path: Path, member: str, change: Any, found: str) -> None:
    path = tmp_path / "moments.npz"
    PEOPLE.release("two").save(path)
    with np.load(path, allow_pickle=False) as archive:
        held = {name: archive[name] for name in archive.files}
    if member == "matrix":
        held["matrix"] = change(held["matrix"])
    else:
        header = json.loads(held["header"].tobytes())
        change(header)
        held["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(path, **held)
    with pytest.raises(DataError, match=found):
        MomentRelease.load(path)


def test_a_small_file_that_would_unpack_to_a_large_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "moments.npz"
    inside = io.BytesIO()
    np.lib.format.write_array(inside, np.zeros((3000, 3000), dtype=np.int64))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("header.npy", "matrix.npy", "digest.npy"):
            archive.writestr(name, inside.getvalue())
    with pytest.raises(DataError, match="not a moment release"):
        MomentRelease.load(path)


def test_privacy_prints_one_sentence_a_line_and_says_when_there_is_none() -> None:
    privacy = PEOPLE.release("two").privacy
    assert tuple(privacy) == GUARANTEES and len(str(privacy).splitlines()) == 2
    seeded = str(Privacy(GUARANTEES, reproducible=True)).splitlines()
    assert seeded[0].startswith("No privacy: the noise was drawn from a seed") and len(seeded) == 3


COLUMNS = ("age", "income", "sex", "visits", "region")


@settings(max_examples=30)
@given(st.sets(st.sampled_from(COLUMNS), min_size=1), st.sampled_from(["two", "three", "real", "none"]))
def test_the_moments_of_selected_columns_are_those_of_their_features(chosen: set[str], kind: str) -> None:
    release = PEOPLE.release(kind)
    some = release.select(chosen)
    assert some.column_names == tuple(name for name in COLUMNS if name in chosen)
    x, all_features = some.features(PEOPLE.raw), release.features(PEOPLE.raw)
    places = [list(release.feature_names).index(name) for name in some.feature_names]
    assert_allclose(x, all_features[:, places])
    assert_array_equal(some.gram, release.gram[np.ix_(places, places)])
    width = release.label.width
    assert_array_equal(some.matrix[-width:, -width:], release.matrix[-width:, -width:])
    assert (some.noise, some.rows, some.plan) == (release.noise, release.rows, release.plan)
    assert some.guarantees == GUARANTEES


def test_selecting_everything_changes_nothing_and_selecting_twice_is_selecting_once() -> None:
    release = PEOPLE.release("two", noise=1.0)
    assert_array_equal(release.select().matrix, release.matrix)
    once = release.select(["age", "visits"])
    twice = release.select(["sex", "age", "visits"]).select(["visits", "age"])
    assert_array_equal(once.matrix, twice.matrix)
    assert once.encoders == twice.encoders
    assert once.attributes == twice.attributes == release.attributes


def test_without_noise_models_of_selected_columns_are_those_of_scikit_learn() -> None:
    some = PEOPLE.release("real", mode="linear").select(["age", "region"])
    ours, x = LinearRegression().fit(some), some.features(PEOPLE.raw)
    central = Central().fit(x, PEOPLE.spent)
    assert_allclose(ours.predict(PEOPLE.raw), central.predict(x), atol=0.02)
    of_shop = LogisticRegression().fit(PEOPLE.release("two").select(parties=["shop"]))
    assert of_shop.score(PEOPLE.raw, np.array(["no", "yes"])[PEOPLE.buys]) > 0.55
    assert PCA(1).fit(some).components_.shape == (1, 4)


def test_a_party_is_selected_by_its_name_and_a_shared_name_by_both() -> None:
    age = NumericColumn("age", 0, 100)
    ages = (("bank", [20, 30, 50]), ("shop", [25, 35, 55]))
    parties = [(party, Encoder((age,), "linear"), {"age": own}) for party, own in ages]
    release = release_of(parties, LabelBlock(None), None)
    shop = release.select(["shop.age"])
    assert_array_equal(shop.matrix, release.select(parties=["shop"]).matrix)
    # Alone it needs no party in front of it.
    assert shop.column_names == ("age",)
    with pytest.raises(DataError, match=r"more than one party has a column 'age'.*bank\.age, shop\.age"):
        release.select(["age"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": ["agee"]}, "no column 'agee'. Did you mean 'age'"),
        ({"columns": ["zebra"]}, "It holds age, income"),
        ({"columns": "age"}, r"Give a list of names: columns=\['age'\]"),
        ({"columns": []}, "no columns were selected"),
        ({"parties": ["shopp"]}, "no columns of party 'shopp'.* Did you mean 'shop'"),
        ({"columns": ["age"], "parties": ["shop"]}, "no column 'age'. It holds sex"),
    ],
)
def test_asking_for_columns_that_a_release_does_not_hold_is_answered(arguments: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        PEOPLE.release("two").select(**arguments)


def mapped_release() -> MomentRelease:
    rng = np.random.default_rng(0)
    columns = tuple(NumericColumn(f"x{place}", 0, 1) for place in range(5))
    raw = {column.name: rng.uniform(size=300) for column in columns} | {"age": rng.uniform(0, 90, 300)}
    shop = Encoder(
        (NumericColumn("age", 0, 90), *columns),
        "circle",
        FeatureMap(RandomRelu(features=12, seed=3), tuple(column.name for column in columns)),
    )
    bank = Encoder((NumericColumn("pay", 0, 1),), "circle")
    label = LabelBlock(ClassLabel("buys", ("no", "yes")))
    buys = (raw["x0"] * raw["x1"] > 0.25).astype(np.int64)
    return release_of([("shop", shop, raw), ("bank", bank, {"pay": rng.uniform(size=300)})], label, buys)


def test_columns_that_went_through_a_map_are_selected_together_or_not_at_all() -> None:
    release = mapped_release()
    whole = release.select(["shop.random-relu"])
    assert whole.columns == 12
    assert_array_equal(whole.matrix, release.select([f"x{place}" for place in range(5)]).matrix)
    assert release.select(["age", "pay"]).encoders[0][1].map is None
    with pytest.raises(DataError, match="'x3' went through the map of shop together with 4 others"):
        release.select(["age", "x3"])


def test_a_mapped_and_selected_release_is_the_same_after_a_file(tmp_path: Path) -> None:
    release = mapped_release().select(["shop.random-relu", "pay"])
    release.save(tmp_path / "moments.npz")
    again = MomentRelease.load(tmp_path / "moments.npz")
    assert again.encoders == release.encoders
    assert again.attributes == release.attributes == 7
    rows = {f"x{place}": [0.1, 0.7] for place in range(5)} | {"pay": [0.2, 0.3]}
    assert_array_equal(again.features(rows), release.features(rows))
    assert release.feature_names[:2] == ("relu:0", "relu:1")


def test_features_of_two_parties_with_the_same_map_are_told_apart() -> None:
    columns = (NumericColumn("x", -1, 1),)
    encoders = [(party, Encoder(columns, "linear", FeatureMap(Ball(1.0)))) for party in ("bank", "shop")]
    release = release_of(
        [(party, encoder, {"x": [0.5, -0.2, 0.1]}) for party, encoder in encoders], LabelBlock(None), None
    )
    assert release.feature_names == ("bank.x", "shop.x")


FALSE_ALARM = 1e-9
MANY = Shoppers(3000)


def test_without_noise_one_class_against_the_rest_is_least_squares_on_each_indicator() -> None:
    release = MANY.release("three")
    rule = one_vs_rest_rule(release.class_moments())
    x = release.features(MANY.raw)
    for index in range(3):
        central = Central().fit(x, MANY.grade == index)
        ours = x @ rule.coefficients[index] + rule.intercepts[index]
        # Log-odds are a straight line in the regression.
        assert_allclose(np.corrcoef(ours, central.predict(x))[0, 1], 1.0, atol=1e-6)


def test_of_two_classes_one_against_the_rest_is_the_same_model() -> None:
    release = MANY.release("two", noise=1.0)
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
    for _ in range(2000):
        sums = rng.normal(size=(2, columns)) * noise * np.array([[merged**0.5], [1.0]])
        # Large against n μμᵀ, whose noise the rule leaves out (docs/proofs/moment-rules.md).
        moments = ClassMoments(1e5 * np.eye(columns), sums, counts, noise=noise / 2, border=0.5)
        score = binary_score(moments, floor=0.0, merged=assumed)
        scatter = moments.scatter()
        weights = np.linalg.solve(scatter.matrix, sums[1] - counts[1] * scatter.mean)
        found.append((score.offset - share) * weights[0] / score.weights[0])
    return float(np.mean(found) / np.std(found) * len(found) ** 0.5)


def test_the_shift_that_merged_classes_add_is_taken_out() -> None:
    assert max(abs(shift(1, 1)), abs(shift(4, 4))) < 6.1 < abs(shift(4, 1)), (
        "the wrong number would be noticed"
    )


def test_a_class_that_noise_has_swallowed_keeps_its_share_in_every_rule() -> None:
    label = LabelBlock(ClassLabel("grade", ("low", "middle", "high", "never")))
    release = release_of(MANY.parties("circle"), label, MANY.grade, noise=1.0)
    with pytest.warns(NoiseWarning, match="'never'"):
        model = LogisticRegression(multiclass="one-vs-rest").fit(release)
    assert not model.coef_[3].any()
    assert "never" not in model.predict(MANY.raw)


def test_a_single_class_in_the_rows_is_said_and_not_learnt() -> None:
    label = LabelBlock(ClassLabel("buys", ("no", "yes")))
    nobody = np.zeros(MANY.rows, dtype=np.int64)
    with pytest.raises(DataError, match=r"class 'yes' has a noisy count of 0\.0 rows"):
        LogisticRegression().fit(release_of(MANY.parties("circle"), label, nobody))
    outcomes = set()
    for seed in range(12):
        release = release_of(MANY.parties("circle"), label, nobody, noise=1.0, seed=seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                LogisticRegression().fit(release)
                outcomes.add("warned" if any("'yes'" in str(one.message) for one in caught) else "silent")
            except DataError:
                outcomes.add("refused")
    # Beyond two standard deviations of the count noise is luck, once in forty.
    assert {"warned", "refused"} <= outcomes


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
    release = MANY.release(kind, mode="linear")
    features = release.features(MANY.raw)
    spans, start = {}, 0
    for _, encoder in release.encoders:
        for name, span in encoder.spans.items():
            spans[name] = features[:, start + span.start : start + span.stop]
        start += encoder.width
    expected = forward_selection(spans, MANY.buys if kind == "two" else release.label.to_unit(MANY.spent))
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
    def lucky(people: Shoppers, runs: int) -> int:
        releases = (people.release("two", noise=1.0, seed=seed) for seed in range(runs))
        return sum(rank_columns(release).columns[0].stands_out for release in releases)

    assert lucky(balanced(), 120) <= binom.isf(FALSE_ALARM, 120, CHANCE)
    assert lucky(Shoppers(800), 30) > binom.isf(FALSE_ALARM, 30, CHANCE), (
        "it would notice what does say something"
    )


def test_gains_are_right_on_average_over_noise() -> None:
    people = Shoppers(3000)
    exact = {one.column: one.gain for one in rank_columns(people.release("two")).columns}
    first = [rank_columns(people.release("two", noise=2.0, seed=seed)).columns[0] for seed in range(60)]
    assert {one.column for one in first} == {"age"}
    gains = np.array([one.gain for one in first])
    assert abs(gains.mean() - exact["age"]) < 6.1 * gains.std() / 60**0.5 + 0.004


def test_the_best_columns_can_be_selected_and_asked_for_by_number() -> None:
    release = MANY.release("two", noise=0.5)
    ranking = rank_columns(release)
    assert release.select(ranking.best(2)).column_names == ("age", "visits")
    assert ranking.best()[0] == "age"
    with pytest.raises(DataError, match="best 6 columns were asked for, and there are 5"):
        ranking.best(6)
    with pytest.raises(DataError, match="no label that its columns could tell"):
        rank_columns(MANY.release("none"))


def test_without_noise_a_path_is_scikit_learns_ridge_at_every_ridge() -> None:
    release = MANY.release("real", mode="linear")
    x = release.features(MANY.raw)
    ridges = (30.0, 0.5, 4.0)
    path = ridge_path(release, ridges)
    assert path.ridges == (0.5, 4.0, 30.0)
    for ridge, model in zip(path.ridges, path.models, strict=True):
        central = Ridge(alpha=ridge).fit(x, MANY.spent)
        assert_allclose(model.coef_, central.coef_, rtol=2e-3, atol=0.02)
        assert_allclose(model.intercept_, central.intercept_, rtol=2e-3)


@pytest.mark.parametrize("kind", ["two", "three", "real", "count"])
def test_more_ridge_never_makes_coefficients_longer(kind: str) -> None:
    path = ridge_path(MANY.release(kind, noise=2.0))
    lengths = [float(np.linalg.norm(coefficients)) for coefficients in path.coefficients]
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(lengths))


def test_a_path_without_ridges_or_label_is_refused() -> None:
    with pytest.raises(InputError, match="list of ridges is empty"):
        ridge_path(MANY.release("two"), [])
    with pytest.raises(InputError, match="ridge = -1"):
        ridge_path(MANY.release("two"), [1.0, -1])
    with pytest.raises(DataError, match="no label"):
        ridge_path(MANY.release("none"))


CLASSES = {"classification", "one class against the rest"}


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        ("two", {"regression"}),
        ("three", {"regression"}),
        ("real", CLASSES),
        ("none", CLASSES | {"regression", "ridge path", "ranking of columns"}),
    ],
)
def test_the_list_of_models_says_what_can_be_had_and_why_not(kind: str, missing: set[str]) -> None:
    offers = available_models(MANY.release(kind, noise=1.0))
    assert {offer.model for offer in offers.offers if not offer.available} == missing
    assert all(offer.remark for offer in offers.offers)
