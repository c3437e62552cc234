"""The parts of scikit-learn's estimator contract that apply to models fitted from a release."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import numpy as np
import pytest
from learn_releases import GUARANTEES, Shoppers
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError

from colonnade.learn.linear import LinearRegression
from colonnade.learn.logistic import LogisticRegression
from colonnade.learn.pca import PCA

PEOPLE = Shoppers(600)
CASES = [
    pytest.param(LogisticRegression, "two", "predict", id="two classes"),
    pytest.param(LogisticRegression, "three", "predict_proba", id="three classes"),
    pytest.param(LinearRegression, "real", "predict", id="numbers"),
    pytest.param(PCA, "none", "transform", id="components"),
]
every = pytest.mark.parametrize(("kind_of_model", "kind", "method"), CASES)


def learned(model: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


def assert_same(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert_array_equal(value, second[name], err_msg=name)


@every
def test_the_constructor_only_stores(kind_of_model: Any, kind: str, method: str) -> None:
    signature = inspect.signature(kind_of_model)
    odd = {name: object() for name in signature.parameters}
    model = kind_of_model(**odd)
    assert vars(model) == odd
    assert all(model.get_params()[name] is value for name, value in odd.items())


@every
def test_parameters_can_be_set_cloned_and_read(kind_of_model: Any, kind: str, method: str) -> None:
    model = kind_of_model(epsilon=0.25).fit(PEOPLE.release(kind, noise=0.5))
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not learned(copy)
    assert copy.set_params(epsilon=2.0) is copy
    assert copy.epsilon == 2.0
    assert "epsilon=2.0" in repr(copy)
    with pytest.raises(ValueError, match="Invalid parameter"):
        copy.set_params(epsylon=1.0)


@every
def test_fit_returns_the_model_and_changes_no_parameter(kind_of_model: Any, kind: str, method: str) -> None:
    release = PEOPLE.release(kind, noise=0.5)
    matrix = release.matrix.copy()
    model = kind_of_model()
    before = model.get_params()
    assert model.fit(release) is model
    assert model.get_params() == before
    assert_array_equal(release.matrix, matrix)
    assert model.releases_ == (release,)
    assert tuple(model.privacy_) == GUARANTEES
    assert model.n_features_in_ == len(model.feature_names_in_) == release.columns


@every
def test_fitting_again_forgets_the_last_time(kind_of_model: Any, kind: str, method: str) -> None:
    first, second = (PEOPLE.release(kind, noise=0.5, seed=seed) for seed in (1, 2))
    model = kind_of_model().fit(first)
    once = learned(model)
    assert_same(learned(kind_of_model().fit(second)), learned(model.fit(second)))
    assert_same(once, learned(model.fit(first)))


@every
def test_predicting_changes_neither_model_nor_rows(kind_of_model: Any, kind: str, method: str) -> None:
    model = kind_of_model().fit(PEOPLE.release(kind, noise=0.5))
    before = learned(model)
    rows = model.releases_[0].features(PEOPLE.raw)
    kept = rows.copy()
    rows.flags.writeable = False
    answer = getattr(model, method)(rows)
    assert_array_equal(rows, kept)
    assert_same(before, learned(model))
    assert len(answer) == PEOPLE.rows
    same = assert_array_equal if answer.dtype.kind == "U" else partial(assert_allclose, atol=1e-9)
    same(answer[:7], getattr(model, method)(rows[:7]))
    order = np.random.default_rng(0).permutation(PEOPLE.rows)
    same(answer[order], getattr(model, method)(rows[order]))


@every
def test_an_unfitted_model_says_so(kind_of_model: Any, kind: str, method: str) -> None:
    with pytest.raises(NotFittedError, match=f"this {kind_of_model.__name__} is not fitted"):
        getattr(kind_of_model(), method)(PEOPLE.raw)


def test_scikit_learn_knows_what_each_is() -> None:
    assert is_classifier(LogisticRegression())
    assert is_regressor(LinearRegression())
