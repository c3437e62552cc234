"""Every learner keeps every law of learners, from a federation and from a release."""

import warnings
from pathlib import Path
from typing import Any

import pytest
from learn_releases import Shoppers
from sklearn.base import is_classifier, is_regressor

import colonnade
from colonnade import (
    PCA,
    GammaRegression,
    LinearRegression,
    LogisticRegression,
    NeuralClassifier,
    NeuralRegressor,
    PoissonRegression,
    SupportVectorClassifier,
)
from colonnade.testing import check_learner

PEOPLE = Shoppers(300)
LEARNERS = [
    pytest.param(LogisticRegression(epsilon=20.0), "two", "predict", id="two classes"),
    pytest.param(LogisticRegression(epsilon=20.0), "three", "predict_proba", id="three classes"),
    pytest.param(
        LogisticRegression(epsilon=20.0, method="functional"), "two", "predict_proba", id="functional"
    ),
    pytest.param(LogisticRegression(epsilon=20.0, method="local"), "two", "decision_function", id="local"),
    pytest.param(
        LogisticRegression(epsilon=20.0, method="intermediate", options={"epochs": 2}),
        "two",
        "predict",
        id="messages",
    ),
    pytest.param(LinearRegression(epsilon=20.0), "real", "predict", id="numbers"),
    pytest.param(PCA(2, epsilon=20.0), "none", "transform", id="components"),
    pytest.param(
        SupportVectorClassifier(epsilon=20.0, options={"epochs": 2}), "two", "predict", id="margins"
    ),
    pytest.param(PoissonRegression(epsilon=20.0, options={"epochs": 2}), "count", "predict", id="counts"),
    pytest.param(GammaRegression(epsilon=20.0, options={"epochs": 2}), "cost", "predict", id="costs"),
    pytest.param(NeuralClassifier(epsilon=20.0, embedding=1, epochs=1), "two", "predict", id="network"),
    pytest.param(
        NeuralRegressor(epsilon=20.0, embedding=1, epochs=1), "real", "predict", id="network of numbers"
    ),
]


def through_a_network_file(model: Any, folder: Path) -> Any:
    model.save(folder / "model.json")
    return type(model).load(folder / "model.json")


@pytest.mark.parametrize(("model", "kind", "answer"), LEARNERS)
def test_a_learner_keeps_every_law(model: Any, kind: str, answer: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_learner(
            model,
            lambda: PEOPLE.federation(kind),
            PEOPLE.raw,
            answer=answer,
            round_trip=through_a_network_file if type(model).__name__.startswith("Neural") else None,
        )


@pytest.mark.parametrize(
    ("model", "kind", "answer"),
    [
        (LogisticRegression(), "two", "predict"),
        (LogisticRegression(), "three", "predict_proba"),
        (LinearRegression(), "real", "predict"),
        (PCA(2), "none", "transform"),
    ],
)
def test_a_learner_keeps_them_from_a_release(model: Any, kind: str, answer: str) -> None:
    check_learner(model, lambda: PEOPLE.release(kind, noise=0.5), PEOPLE.raw, answer=answer)


def test_no_learner_is_left_out() -> None:
    exported = {name for name in colonnade.__all__ if hasattr(getattr(colonnade, name), "fit")}
    # Trees need an extra and moments by class: tests/models has laws of their own for them.
    assert exported - {"GradientBoostedTrees"} == {type(case.values[0]).__name__ for case in LEARNERS}


def test_scikit_learn_knows_what_each_is() -> None:
    assert is_classifier(LogisticRegression())
    assert is_regressor(LinearRegression())
