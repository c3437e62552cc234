"""Habits from scikit-learn and notebooks: folds, labels, saving, looking; each meets a sentence or a table."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score

from colonnade import (
    PCA,
    Federation,
    GammaRegression,
    LinearRegression,
    LogisticRegression,
    MomentRelease,
    NeuralClassifier,
    PoissonRegression,
    Schema,
    SupportVectorClassifier,
    Table,
)
from colonnade.errors import ColonnadeError, DataError, ModelDamaged, ModelError
from colonnade.models.files.linear_file import model_file, parts_of

POINTS = r"ridge_path.*colonnade evaluate"
MODELS = (
    LogisticRegression(),
    LinearRegression(),
    PCA(),
    PoissonRegression(),
    GammaRegression(),
    SupportVectorClassifier(),
    NeuralClassifier(),
)
X, Y = np.zeros((6, 2)), np.array([0, 1] * 3)


@cache
def federation() -> Federation:
    rng = np.random.default_rng(3)
    age, pay = rng.uniform(0, 9, 300), rng.uniform(0, 9, 300)
    bank = Schema.parse(
        'id = "n"\ncolumns.age = {kind = "numeric", low = 0, high = 9}\n'
        'label = {column = "y", kind = "classes", classes = [0, 1]}'
    )
    shop = Schema.parse('id = "n"\ncolumns."<b>pay" = {kind = "numeric", low = 0, high = 9}')
    return Federation(
        [
            Table.of("bank", {"age": age, "y": (age + pay > 9).astype(int)}, bank),
            Table.of("shop", {"<b>pay": pay}, shop),
        ],
        budget=(60.0, 1e-4),
    )


@cache
def release() -> MomentRelease:
    return federation().moments(task="classification", epsilon=20.0, delta=1e-5)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_rows_and_labels_meet_a_sentence_that_says_what_to_do_instead(model: object) -> None:
    for given in ((X, Y), (X,), (None,)):
        with pytest.raises(ColonnadeError, match=POINTS) as caught:
            model.fit(*given)  # type: ignore[attr-defined]
        assert isinstance(caught.value, TypeError)


def test_a_search_and_cross_validation_meet_it_too() -> None:
    with pytest.raises(ColonnadeError, match=POINTS):
        GridSearchCV(LogisticRegression(), {"ridge": [0.1, 1.0]}).fit(federation())
    with pytest.raises(ColonnadeError, match=POINTS):
        cross_val_score(LogisticRegression(), release())
    # With rows scikit-learn gathers what its fits said into one error of its own.
    with pytest.raises(ValueError, match=POINTS):
        GridSearchCV(LogisticRegression(), {"ridge": [0.1, 1.0]}, cv=2).fit(X, Y)


def test_labels_and_weights_are_one_for_each_person() -> None:
    rows = {"age": [1.0], "<b>pay": [1.0]}
    model = LogisticRegression().fit(release())
    for y, weights in (([0, 1], None), ([0], [1.0, 2.0])):
        with pytest.raises(DataError, match="2 entries for 1 person"):
            model.score(rows, y, weights)
    assert model.score(rows, [0], [2.0]) == 1.0


def test_a_model_saves_itself_and_is_the_same_again(tmp_path: Path) -> None:
    rows = {"age": [1.0, 8.0], "<b>pay": [1.0, 8.0]}
    model = LogisticRegression(threshold=0.4).fit(release())
    model.save(tmp_path / "model.json")
    again = LogisticRegression.load(str(tmp_path / "model.json"))
    assert again.predict(rows).tolist() == model.predict(rows).tolist() == [0, 1]
    assert np.array_equal(again.predict_proba(rows), model.predict_proba(rows)) and again.threshold == 0.4
    assert str(again.privacy_) == str(model.privacy_)
    directions = PCA(n_components=1).fit(release())
    directions.save(tmp_path / "pca.json")
    assert np.array_equal(PCA.load(tmp_path / "pca.json").transform(rows), directions.transform(rows))
    with pytest.raises(ModelError, match="holds a PCA, not a LogisticRegression"):
        LogisticRegression.load(tmp_path / "pca.json")
    with pytest.raises(ModelError, match="not fitted"):
        LinearRegression().save(tmp_path / "none.json")
    (tmp_path / "cut.json").write_text((tmp_path / "pca.json").read_text()[:-9])
    with pytest.raises(ModelDamaged):
        PCA.load(tmp_path / "cut.json")
    with pytest.raises(ColonnadeError, match="a file is named by a path, not by NoneType"):
        PCA.load(None)  # type: ignore[arg-type]


def test_parts_hold_their_partys_weights_alone_and_add_up_to_the_whole() -> None:
    model, rows = LogisticRegression().fit(release()), {"age": [1.0, 8.0], "<b>pay": [1.0, 8.0]}
    parts = parts_of(model_file(model, method="moments", run="r"), active="bank")
    names = {party: part.frame.feature_names for party, part in parts.items()}
    assert names == {"bank": ("age:sin", "age:cos"), "shop": ("<b>pay:sin", "<b>pay:cos")}
    assert all(part.weights.shape == (1, 2) for part in parts.values())
    assert parts["shop"].offsets.tolist() == [0.0]
    total = sum(part.frame.features(rows) @ part.weights[0] + part.offsets[0] for part in parts.values())
    assert np.allclose(total, model.decision_function(rows), atol=1e-12)


def test_a_notebook_shows_tables_and_no_markup_of_others() -> None:
    model = LogisticRegression().fit(release())
    ledger = federation().ledgers["bank"]
    shown = {
        "privacy": model.privacy_._repr_html_(),
        "release": release()._repr_html_(),
        "ledger": ledger._repr_html_(),
        "table": federation().tables["shop"]._repr_html_(),
    }
    for name, text in shown.items():
        assert text.count("<table") == text.count("</table>") == text.count("<caption") == 1, name
        assert "<b>pay" not in text and "<script" not in text, name
        assert all("scope=" in head for head in re.findall(r"<th\b[^>]*>", text)), name
    assert "the server" in shown["privacy"] and "others-part" in shown["privacy"]
    assert "&lt;b&gt;pay" in shown["table"] and "numeric" in shown["table"] and "300" not in shown["table"]
    assert "20.00 of 60" in shown["ledger"] or "of 60" in shown["ledger"]
    assert "&lt;b&gt;pay" in shown["release"]
