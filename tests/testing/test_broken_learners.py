"""For every law of learners one that breaks it, and the suite names the law."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from broken import broken_law
from typed import untyped

from colonnade import Federation, LinearRegression, Schema, Table
from colonnade.errors import BudgetExceeded, DataError
from colonnade.models.files.document import Privacy
from colonnade.models.files.linear_file import ModelFile, model_file
from colonnade.models.release import MomentRelease
from colonnade.testing import check_learner, learners

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


def broken(**methods: Callable[..., Any]) -> type[Sound]:
    """Least squares with some of its methods replaced."""
    return type("Broken", (Sound,), methods)


def fitting(after: Callable[[Any], Any]) -> type[Sound]:
    """Least squares that does this after a fit, and returns what that returns."""

    def fit(model: Sound, source: Any) -> Any:
        found = after(Sound.fit(model, source))
        return model if found is None else found

    return broken(fit=fit)


def answering(change: Callable[[Any, Any, Any], Any]) -> type[Sound]:
    """Least squares whose answers are changed: the model, the rows, the answers."""
    return broken(predict=lambda model, X: change(model, X, Sound.predict(model, X)))


def computes(model: Sound, *, epsilon: Any = 9.0) -> None:
    Sound.__init__(model, epsilon=epsilon)
    untyped(model).half = epsilon


def eager(model: Sound, X: Any) -> Any:
    return Sound.predict(model, X) if hasattr(model, "coef_") else np.zeros(len(X["age"]))


def lax(model: Sound, X: Any) -> Any:
    try:
        return Sound.predict(model, X)
    except DataError:
        return np.zeros(len(next(iter(X.values()))))


def takes_rows(model: Sound, source: Any) -> Any:
    return model if isinstance(source, np.ndarray) else Sound.fit(model, source)


def remembers(model: Sound, source: Any) -> Any:
    before = getattr(model, "coef_", 0.0)
    Sound.fit(model, source).coef_ += before
    return model


def pays_twice(model: Sound, source: Any) -> Any:
    Sound.fit(model, source)
    return Sound.fit(model, source)


def keeps_its_source(model: Sound, source: Any) -> Any:
    untyped(Sound.fit(model, source)).source_ = source
    return model


def charges_for_answers(model: Sound, X: Any) -> Any:
    source = getattr(model, "source_", None)
    if isinstance(source, Federation):
        source.moments(task="regression", epsilon=0.1, delta=1e-5)
    return Sound.predict(model, X)


def makes_up_what_it_cannot_pay(model: Sound, source: Any) -> Any:
    try:
        return Sound.fit(model, source)
    except BudgetExceeded:
        model.coef_, model.privacy_ = np.zeros(2), Privacy(())
        raise


def looks_when_it_has_spent(model: Sound, source: Any) -> Any:
    requested = model.epsilon
    sound = isinstance(requested, float) and requested > 0
    model.epsilon = requested if sound else 1.0
    Sound.fit(model, source).epsilon = requested
    if not sound:
        raise DataError(f"epsilon = {requested}")
    return model


def learning(model: Any, X: Any, answers: Any) -> Any:
    model.intercept_ += 1.0
    return answers


def first_column_added(model: Any, X: Any, answers: Any) -> Any:
    return answers if isinstance(X, np.ndarray) else answers + np.asarray(next(iter(X.values())))


BROKEN: list[tuple[str, type[Sound]]] = [
    ("the constructor only stores", broken(__init__=computes)),
    ("an answer before fit is refused", broken(predict=eager)),
    ("rows are never given to fit", broken(fit=takes_rows)),
    ("fit returns the model and changes no parameter", fitting(lambda model: model.coef_)),
    (
        "fit returns the model and changes no parameter",
        fitting(lambda model: setattr(model, "epsilon", model.epsilon + 0.0)),
    ),
    ("what was learnt ends in an underscore", fitting(lambda model: setattr(model, "weights", model.coef_))),
    ("parameters can be read, set and cloned", broken(set_params=lambda model, **parameters: model)),
    ("what it cost is said", fitting(lambda model: setattr(model, "privacy_", Privacy(())))),
    ("what it cost is said", fitting(lambda model: delattr(model, "releases_"))),
    ("features are counted and named", fitting(lambda model: setattr(model, "n_features_in_", 9))),
    ("everybody gets an answer", answering(lambda model, X, answers: answers[:-1])),
    ("everybody gets an answer", answering(lambda model, X, answers: answers / 0.0)),
    ("answering changes neither model nor rows", answering(learning)),
    ("an answer depends on its own row", answering(lambda model, X, answers: answers - answers.mean())),
    ("columns are found by name", answering(first_column_added)),
    ("columns are found by name", broken(predict=lax)),
    (
        "encoded features are answered alike",
        answering(lambda model, X, answers: answers + isinstance(X, np.ndarray)),
    ),
    ("fitting again forgets the last time", broken(fit=remembers)),
    ("every ledger is charged once", broken(fit=pays_twice)),
    ("every ledger is charged once", broken(fit=keeps_its_source, predict=charges_for_answers)),
    ("who cannot pay learns nothing", broken(fit=makes_up_what_it_cannot_pay)),
    ("nonsense is refused before anything is charged", broken(fit=looks_when_it_has_spent)),
]
SAVED = "saved and loaded it answers the same"


@pytest.mark.parametrize(("law", "kind"), BROKEN)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_learner_that_breaks_a_law_is_caught_by_it(law: str, kind: type[Sound]) -> None:
    assert broken_law(check_learner, kind(), source, PEOPLE) == law


def test_every_law_has_a_learner_that_breaks_it() -> None:
    assert {SAVED, *(law for law, _ in BROKEN)} == set(learners.LAWS)


def keeping(digits: int) -> Callable[[Any, Path], Any]:
    """A file that keeps so many digits of every weight."""

    def loaded(model: Any, folder: Path) -> Any:
        whole = Sound()
        untyped(vars(whole)).update({**vars(model), "coef_": model.coef_.round(digits)})
        return whole

    return loaded


def test_a_file_that_rounds_is_caught() -> None:
    check_learner(Sound(), source, PEOPLE, round_trip=keeping(17))
    assert broken_law(check_learner, Sound(), source, PEOPLE, round_trip=keeping(6)) == SAVED


def test_a_file_without_the_statement_is_caught() -> None:
    def silent(model: Any, folder: Path) -> Any:
        model_file(model, method="moments", run="run").save(folder / "model.json")
        loaded = ModelFile.load(folder / "model.json").estimator()
        loaded.privacy_ = Privacy(())
        return loaded

    whole = LinearRegression(epsilon=9.0)
    assert broken_law(check_learner, whole, source, PEOPLE, round_trip=silent) == SAVED


def test_from_a_release_nothing_is_said_of_ledgers() -> None:
    release = source().moments(task="regression", epsilon=9.0, delta=1e-5)
    assert isinstance(release, MomentRelease)
    check_learner(broken(fit=pays_twice)(), lambda: release, PEOPLE)
