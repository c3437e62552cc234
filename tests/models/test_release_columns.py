"""Some columns of a release are a release: the same moments, the same models, at no cost."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learn_releases import GUARANTEES, Shoppers, release_of
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LinearRegression as Central

from colonnade.data.encoder import Encoder
from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import ClassLabel, LabelBlock
from colonnade.data.maps import Ball, FeatureMap, RandomRelu
from colonnade.errors import DataError
from colonnade.models.linear import LinearRegression
from colonnade.models.logistic import LogisticRegression
from colonnade.models.pca import PCA
from colonnade.models.release import MomentRelease

PEOPLE = Shoppers(600)
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
    assert_array_equal(
        some.matrix[-release.label.width :, -release.label.width :],
        release.matrix[-release.label.width :, -release.label.width :],
    )
    assert (some.noise, some.rows, some.guarantees, some.plan) == (
        release.noise,
        release.rows,
        GUARANTEES,
        release.plan,
    )


def test_selecting_everything_changes_nothing_and_selecting_twice_is_selecting_once() -> None:
    release = PEOPLE.release("two", noise=1.0)
    assert_array_equal(release.select().matrix, release.matrix)
    once, twice = (
        release.select(["age", "visits"]),
        release.select(["sex", "age", "visits"]).select(["visits", "age"]),
    )
    assert_array_equal(once.matrix, twice.matrix)
    assert once.encoders == twice.encoders
    assert once.attributes == twice.attributes == release.attributes


def test_without_noise_models_of_selected_columns_are_those_of_scikit_learn() -> None:
    some = PEOPLE.release("real", mode="linear").select(["age", "region"])
    ours, x = LinearRegression().fit(some), some.features(PEOPLE.raw)
    central = Central().fit(x, PEOPLE.spent)
    assert_allclose(ours.predict(PEOPLE.raw), central.predict(x), atol=0.02)
    assert (
        LogisticRegression()
        .fit(PEOPLE.release("two").select(parties=["shop"]))
        .score(PEOPLE.raw, np.array(["no", "yes"])[PEOPLE.buys])
        > 0.55
    )
    assert PCA(1).fit(some).components_.shape == (1, 4)


def test_a_party_is_selected_by_its_name_and_a_shared_name_by_both() -> None:
    age = NumericColumn("age", 0, 100)
    raw = {"bank.age": [20, 30, 50], "shop.age": [25, 35, 55]}
    release = release_of(
        [
            ("bank", Encoder((age,), "linear"), {"age": raw["bank.age"]}),
            ("shop", Encoder((age,), "linear"), {"age": raw["shop.age"]}),
        ],
        LabelBlock(None),
        None,
    )
    shop = release.select(["shop.age"])
    assert_array_equal(shop.matrix, release.select(parties=["shop"]).matrix)
    # Alone it needs no party in front of it.
    assert shop.column_names == ("age",)
    with pytest.raises(
        DataError, match=r"more than one party has a column 'age'\. Say which: bank\.age, shop\.age"
    ):
        release.select(["age"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": ["agee"]}, "no column 'agee'. Did you mean 'age'"),
        ({"columns": ["zebra"]}, "It holds age, income"),
        ({"columns": "age"}, r"Give a list of names: columns=\['age'\]"),
        ({"columns": []}, "no columns were selected"),
        (
            {"parties": ["shopp"]},
            "no columns of party 'shopp'; it has those of bank, shop. Did you mean 'shop'",
        ),
        ({"columns": ["age"], "parties": ["shop"]}, "no column 'age'. It holds sex"),
    ],
)
def test_asking_for_columns_that_a_release_does_not_hold_is_answered(
    arguments: dict[str, Any], message: str
) -> None:
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
