"""For every law of learners one that breaks it, and the suite names the law."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typed import untyped

from colonnade import Federation, LinearRegression, Schema, Table
from colonnade.errors import BudgetExceeded, DataError
from colonnade.models.files.document import Privacy
from colonnade.models.files.linear_file import ModelFile, model_file
from colonnade.models.release import MomentRelease
from colonnade.testing import ConformanceError, check_learner, learners

GENERATOR = np.random.default_rng(1)
PEOPLE = {"age": GENERATOR.uniform(0, 9, 80), "pay": GENERATOR.uniform(0, 9, 80)}
DECLARED = 'id = "no"\ncolumns.{} = {{kind = "numeric", low = 0, high = 9}}\n'
LABEL = 'label = {column = "cost", kind = "real", low = 0, high = 18}'


def source() -> Federation:
    clinic = {"age": PEOPLE["age"], "cost": PEOPLE["age"] + PEOPLE["pay"]}
    return Federation(
        [
            Table.from_arrays("clinic", clinic, Schema.parse(DECLARED.format("age") + LABEL)),
            Table.from_arrays("bank", {"pay": PEOPLE["pay"]}, Schema.parse(DECLARED.format("pay"))),
        ],
        budget=(90.0, 1e-4),
        noise_seed=1,
    )


class Sound(LinearRegression):
    """Least squares, to be broken in one way."""

    def __init__(self, *, epsilon: Any = 9.0) -> None:
        super().__init__(epsilon=epsilon)
        # Least squares has more parameters than this; they are no part of the contract here.
        for name in ("delta", "accepted_delta", "floor", "ridge", "unbias", "method", "options", "label"):
            delattr(self, name)

    delta, accepted_delta, floor, ridge, unbias = 1e-5, None, None, 0.0, True
    method, options, label = "moments", None, None


def fitting(after: Callable[[Any], Any]) -> type[Sound]:
    """Least squares that does this after a fit, and returns what that returns."""

    class Broken(Sound):
        def fit(self, source: Any) -> Any:  # type: ignore[override]
            found = after(super().fit(source))
            return self if found is None else found

    return Broken


def answering(change: Callable[[Any, Any, Any], Any]) -> type[Sound]:
    """Least squares whose answers are changed: the model, the rows, the answers."""

    class Broken(Sound):
        def predict(self, X: Any) -> Any:
            return change(self, X, super().predict(X))

    return Broken


class Computes(Sound):
    def __init__(self, *, epsilon: Any = 9.0) -> None:
        super().__init__(epsilon=epsilon)
        self.half = epsilon


class Eager(Sound):
    def predict(self, X: Any) -> Any:
        return super().predict(X) if hasattr(self, "coef_") else np.zeros(len(X["age"]))


class TakesRows(Sound):
    def fit(self, source: Any) -> Any:  # type: ignore[override]
        return self if isinstance(source, np.ndarray) else super().fit(source)


class Stubborn(Sound):
    def set_params(self, **parameters: Any) -> Any:
        return self


class Lax(Sound):
    def predict(self, X: Any) -> Any:
        try:
            return super().predict(X)
        except DataError:
            return np.zeros(len(next(iter(X.values()))))


class Remembers(Sound):
    def fit(self, source: Any) -> Any:  # type: ignore[override]
        before = getattr(self, "coef_", 0.0)
        super().fit(source).coef_ += before
        return self


class PaysTwice(Sound):
    def fit(self, source: Any) -> Any:  # type: ignore[override]
        super().fit(source)
        return super().fit(source)


class Pays(Sound):
    """Charges for answers."""

    def fit(self, source: Any) -> Any:  # type: ignore[override]
        self.source_ = source
        super().fit(source)
        self.source_ = source
        return self

    def predict(self, X: Any) -> Any:
        if isinstance(getattr(self, "source_", None), Federation) and hasattr(self, "coef_"):
            self.source_.moments(task="regression", epsilon=0.1, delta=1e-5)
        return super().predict(X)


class Pretends(Sound):
    """What it could not pay for it makes up."""

    def fit(self, source: Any) -> Any:  # type: ignore[override]
        try:
            return super().fit(source)
        except BudgetExceeded:
            self.coef_, self.privacy_ = np.zeros(2), Privacy(())
            raise


class Afterwards(Sound):
    """Looks at its parameters when it has spent them."""

    def fit(self, source: Any) -> Any:  # type: ignore[override]
        requested = self.epsilon
        self.epsilon = requested if isinstance(requested, float) and requested > 0 else 1.0
        super().fit(source)
        self.epsilon = requested
        if not (isinstance(requested, float) and requested > 0):
            raise DataError(f"epsilon = {requested}")
        return self


def learning(model: Any, X: Any, answers: Any) -> Any:
    model.intercept_ += 1.0
    return answers


def first_column_added(model: Any, X: Any, answers: Any) -> Any:
    return answers if isinstance(X, np.ndarray) else answers + np.asarray(next(iter(X.values())))


BROKEN: list[tuple[str, type[Sound]]] = [
    ("the constructor only stores", Computes),
    ("an answer before fit is refused", Eager),
    ("rows are never given to fit", TakesRows),
    ("fit returns the model and changes no parameter", fitting(lambda model: model.coef_)),
    (
        "fit returns the model and changes no parameter",
        fitting(lambda model: setattr(model, "epsilon", model.epsilon + 0.0)),
    ),
    ("what was learnt ends in an underscore", fitting(lambda model: setattr(model, "weights", model.coef_))),
    ("parameters can be read, set and cloned", Stubborn),
    ("what it cost is said", fitting(lambda model: setattr(model, "privacy_", Privacy(())))),
    ("what it cost is said", fitting(lambda model: delattr(model, "releases_"))),
    ("features are counted and named", fitting(lambda model: setattr(model, "n_features_in_", 9))),
    ("everybody gets an answer", answering(lambda model, X, answers: answers[:-1])),
    ("everybody gets an answer", answering(lambda model, X, answers: answers / 0.0)),
    ("answering changes neither model nor rows", answering(learning)),
    ("an answer depends on its own row", answering(lambda model, X, answers: answers - answers.mean())),
    ("columns are found by name", answering(first_column_added)),
    ("columns are found by name", Lax),
    (
        "encoded features are answered alike",
        answering(lambda model, X, answers: answers + isinstance(X, np.ndarray)),
    ),
    ("fitting again forgets the last time", Remembers),
    ("every ledger is charged once", PaysTwice),
    ("every ledger is charged once", Pays),
    ("who cannot pay learns nothing", Pretends),
    ("nonsense is refused before anything is charged", Afterwards),
]
SAVED = "saved and loaded it answers the same"


@pytest.mark.parametrize(("law", "kind"), BROKEN)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_learner_that_breaks_a_law_is_caught_by_it(law: str, kind: type[Sound]) -> None:
    with pytest.raises(ConformanceError) as caught:
        check_learner(kind(), source, PEOPLE)
    assert caught.value.law == law, caught.value


def test_every_law_has_a_learner_that_breaks_it() -> None:
    assert {SAVED, *(law for law, _ in BROKEN)} == set(learners.LAWS)


def saved(model: Any, folder: Path, *, digits: int) -> Any:
    """Through a file that keeps so many digits of every weight."""
    rounded = json.loads(json.dumps([round(weight, digits) for weight in model.coef_.tolist()]))
    whole = Sound()
    untyped(vars(whole)).update({**vars(model), "coef_": np.array(rounded)})
    return whole


def test_a_file_that_rounds_is_caught() -> None:
    check_learner(Sound(), source, PEOPLE, round_trip=lambda model, folder: saved(model, folder, digits=17))
    with pytest.raises(ConformanceError) as caught:
        check_learner(
            Sound(), source, PEOPLE, round_trip=lambda model, folder: saved(model, folder, digits=6)
        )
    assert caught.value.law == SAVED


def test_a_file_without_the_statement_is_caught() -> None:
    def silent(model: Any, folder: Path) -> Any:
        model_file(model, method="moments", run="run").save(folder / "model.json")
        loaded = ModelFile.load(folder / "model.json").estimator()
        loaded.privacy_ = Privacy(())
        return loaded

    with pytest.raises(ConformanceError) as caught:
        check_learner(LinearRegression(epsilon=9.0), source, PEOPLE, round_trip=silent)
    assert caught.value.law == SAVED


def test_from_a_release_nothing_is_said_of_ledgers() -> None:
    release = source().moments(task="regression", epsilon=9.0, delta=1e-5)
    assert isinstance(release, MomentRelease)
    check_learner(PaysTwice(), lambda: release, PEOPLE)
