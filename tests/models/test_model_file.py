"""A model file is the model, and nothing but a whole one is read."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade import PCA, Federation, LinearRegression, LogisticRegression, Schema, Table
from colonnade.models.files.linear_file import ModelFile, model_file, parts_of

RNG = np.random.default_rng(3)
PEOPLE = {"age": RNG.uniform(0, 90, 300), "spent": RNG.uniform(0, 10, 300)}


def federation(label: str) -> Federation:
    declared = {
        "classes": 'label = {column = "y", kind = "classes", classes = ["no", "yes"]}',
        "real": 'label = {column = "y", kind = "real", low = 0, high = 100}',
    }[label]
    y = np.where(PEOPLE["age"] > 45, "yes", "no") if label == "classes" else PEOPLE["age"] + PEOPLE["spent"]
    columns = 'columns.age = {kind = "numeric", low = 0, high = 90}'
    bank = Table.from_arrays(
        "bank", {"age": PEOPLE["age"], "y": y}, Schema.parse(f'id = "n"\n{columns}\n{declared}')
    )
    shop = Table.from_arrays(
        "shop",
        {"spent": PEOPLE["spent"]},
        Schema.parse('id = "n"\ncolumns.spent = {kind = "numeric", low = 0, high = 10}'),
    )
    return Federation([bank, shop], budget=(100.0, 1e-5))


@pytest.mark.parametrize(
    ("model", "label"),
    [
        (LogisticRegression(epsilon=8.0, threshold=0.3), "classes"),
        (LinearRegression(epsilon=8.0), "real"),
        (PCA(n_components=1, epsilon=8.0), "real"),
    ],
)
def test_a_saved_model_predicts_as_the_fitted_one_and_carries_its_statement(
    model: Any, label: Any, tmp_path: Path
) -> None:
    model.fit(federation(label))
    path = tmp_path / "model.json"
    model_file(model, method="moments", run="5f0c").save(path)
    loaded = ModelFile.load(path).estimator()
    predict = "transform" if isinstance(model, PCA) else "predict"
    assert np.array_equal(getattr(loaded, predict)(PEOPLE), getattr(model, predict)(PEOPLE))
    assert str(loaded.privacy_) == str(model.privacy_)
    assert json.loads(path.read_text())["statement"] == str(model.privacy_)


def test_parts_hold_their_partys_weights_alone_and_add_up_to_the_whole() -> None:
    model = LogisticRegression(epsilon=8.0).fit(federation("classes"))
    parts = parts_of(model_file(model, method="moments", run="r"), active="bank")
    assert {party: part.frame.feature_names for party, part in parts.items()} == {
        "bank": ("age:sin", "age:cos"),
        "shop": ("spent:sin", "spent:cos"),
    }
    assert all(part.weights.shape == (1, 2) for part in parts.values())
    assert parts["shop"].offsets.tolist() == [0.0]
    total = sum(part.frame.features(PEOPLE) @ part.weights[0] + part.offsets[0] for part in parts.values())
    assert np.allclose(total, model.decision_function(PEOPLE), atol=1e-12)
