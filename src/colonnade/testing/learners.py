"""What every learner owes: scikit-learn's contract where it applies, and that it is paid for once, and first."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from colonnade.errors import BudgetExceeded, ColonnadeError, DataError
from colonnade.federation.federation import Federation
from colonnade.models.files.linear_file import KINDS, ModelFile, model_file
from colonnade.models.release import MomentRelease
from colonnade.privacy.guarantee import Guarantee
from colonnade.testing.laws import Broken, expect, expect_named, expect_refusal, hold

Source: TypeAlias = Federation | MomentRelease
RoundTrip: TypeAlias = Callable[[Any, Path], Any]
Law: TypeAlias = Callable[["_Case"], None]

_CLOSE = 1e-9
_TOO_LITTLE = (1e-9, 1e-12)


@dataclass(frozen=True, eq=False)
class _Case:
    model: Any
    source: Callable[[], Source]
    people: Mapping[str, NDArray[Any]]
    answer: str
    round_trip: RoundTrip | None

    def fresh(self) -> Any:
        return clone(self.model)

    @cached_property
    def paid(self) -> Source:
        return self.source()

    @cached_property
    def fitted(self) -> Any:
        return self.fresh().fit(self.paid)

    def answers(self, model: Any, people: Any = None) -> NDArray[Any]:
        return np.asarray(getattr(model, self.answer)(self.people if people is None else people))

    @property
    def count(self) -> int:
        return len(next(iter(self.people.values())))


def check_learner(
    model: Any,
    source: Callable[[], Source],
    people: Mapping[str, NDArray[Any]],
    *,
    answer: str = "predict",
    round_trip: RoundTrip | None = None,
) -> None:
    """Hold a learner to scikit-learn's contract as far as it applies, and to paying once and first.

    `model` is an estimator that is not fitted. `source()` is a fresh federation with its own ledgers, or a release;
    called again it must give the same data and, from a seed, the same noise. `people` are raw columns by name, to be
    answered about by the method `answer`. `round_trip(model, folder)` saves a fitted model and loads it again; models
    that have a model file go through that, and others are not asked if it is None.
    """
    if round_trip is None and type(model).__name__ in KINDS:
        round_trip = _through_a_model_file
    case = _Case(
        model, source, {name: np.asarray(values) for name, values in people.items()}, answer, round_trip
    )
    hold(LAWS, case)


def _only_stores(case: _Case) -> None:
    kind = type(case.model)
    odd = {name: object() for name in inspect.signature(kind).parameters}
    model = kind(**odd)
    expect(vars(model) == odd, f"the parameters {sorted(odd)} and nothing else", sorted(vars(model)))
    got = model.get_params()
    kept = all(got[name] is value for name, value in odd.items())
    expect(kept, "each parameter as it was given", "another")


def _parameters(case: _Case) -> None:
    copy = clone(case.fitted)
    expect(copy.get_params() == case.model.get_params(), "a clone with equal parameters", copy.get_params())
    expect(not _fitted_names(copy), "a clone that has learnt nothing", sorted(_fitted_names(copy)))
    name, value = next(iter(copy.get_params().items()))
    expect(copy.set_params(**{name: value}) is copy, "set_params to return the model", "something else")
    expect_refusal(
        lambda: copy.set_params(no_such_parameter=1), ValueError, "a parameter that it does not have"
    )


def _fit_returns(case: _Case) -> None:
    model = case.fresh()
    before = dict(vars(model))
    returned = model.fit(case.source())
    expect(returned is model, "fit to return the model", type(returned).__name__)
    changed = [name for name, value in before.items() if getattr(model, name) is not value]
    expect(not changed, "parameters that fit leaves alone", f"{', '.join(changed)} changed")


def _underscore(case: _Case) -> None:
    case.answers(case.fitted)
    given = inspect.signature(type(case.model)).parameters
    odd = [name for name in vars(case.fitted) if name not in given and not name.endswith("_")]
    expect(not odd, "names that end in an underscore for what was learnt", ", ".join(odd))


def _says_cost(case: _Case) -> None:
    privacy = getattr(case.fitted, "privacy_", None)
    expect(privacy is not None, "privacy_, what it cost", "none")
    items = tuple(privacy or ())
    expect(bool(items) and all(isinstance(item, Guarantee) for item in items), "a guarantee or more", items)
    for item in items:
        expect_named(str(privacy), str(item))
    releases = getattr(case.fitted, "releases_", None)
    valid = isinstance(releases, tuple) and all(isinstance(item, MomentRelease) for item in releases)
    expect(valid, "releases_, a tuple of what it was fitted from", type(releases).__name__)


def _features(case: _Case) -> None:
    count, names = case.fitted.n_features_in_, case.fitted.feature_names_in_
    expect(count == len(names) > 0, f"as many names as features, which are {count}", len(names))


def _forgets(case: _Case) -> None:
    again = case.fresh().fit(case.source()).fit(case.source())
    same = _same(case.answers(case.fitted), case.answers(again))
    expect(same, "a second fit to be like a first", "other answers")


def _one_each(case: _Case) -> None:
    answers = case.answers(case.fitted)
    expect(len(answers) == case.count, f"{case.count} answers for as many people", len(answers))
    if answers.dtype.kind == "f":
        expect(bool(np.isfinite(answers).all()), "finite answers", "one that is not")


def _changes_nothing(case: _Case) -> None:
    rows = {name: values.copy() for name, values in case.people.items()}
    for values in rows.values():
        values.flags.writeable = False
    names, first = set(vars(case.fitted)), case.answers(case.fitted, rows)
    kept = all(np.array_equal(values, case.people[name]) for name, values in rows.items())
    expect(kept, "rows left as they were", "rows that were changed")
    expect(set(vars(case.fitted)) == names, "a model left as it was", sorted(set(vars(case.fitted)) - names))
    expect(_same(first, case.answers(case.fitted, rows)), "the same answers again", "others")


def _row_by_row(case: _Case) -> None:
    answers = case.answers(case.fitted)
    order = np.arange(case.count)[::-1]
    for chosen in (order, order[:3]):
        some = case.answers(case.fitted, {name: values[chosen] for name, values in case.people.items()})
        expect(_same(answers[chosen], some), "answers that depend on nobody else", "answers that do")


def _by_name(case: _Case) -> None:
    answers = case.answers(case.fitted)
    rotated = {"nobody asked": np.zeros(case.count), **dict(reversed(list(case.people.items())))}
    alike = _same(answers, case.answers(case.fitted, rotated))
    expect(alike, "columns found by their names", "other answers")
    for name in case.people:
        less = {other: values for other, values in case.people.items() if other != name}
        message = expect_refusal(partial(case.answers, case.fitted, less), DataError, f"rows without {name}")
        expect_named(message, name)


def _encoded(case: _Case) -> None:
    features = case.fitted.frame_.features(case.people)
    alike = _same(case.answers(case.fitted), case.answers(case.fitted, features))
    expect(alike, "the same answers from encoded features", "others")
    expect_refusal(lambda: case.answers(case.fitted, features[:, 1:]), DataError, "features of another width")


def _not_fitted(case: _Case) -> None:
    message = expect_refusal(lambda: case.answers(case.fresh()), NotFittedError, "an answer before fit")
    expect_named(message, type(case.model).__name__)


def _no_rows(case: _Case) -> None:
    expect_refusal(lambda: case.fresh().fit(np.zeros((5, 3))), TypeError, "rows in fit")


def _saved(case: _Case) -> None:
    if case.round_trip is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        loaded = case.round_trip(case.fitted, Path(folder))
    alike = np.array_equal(case.answers(case.fitted), case.answers(loaded))
    expect(alike, "equal answers when loaded", "others")
    same = str(loaded.privacy_) == str(case.fitted.privacy_)
    expect(same, "the same statement when loaded", loaded.privacy_)


def _charged_once(case: _Case) -> None:
    source = case.source()
    if not isinstance(source, Federation):
        return
    model = case.fresh().fit(source)
    for party in source.tables:
        charged = _charges(source, party)
        expect(len(charged) == 1, f"one charge in {party}'s ledger", len(charged))
    case.answers(model)
    after = sum(len(_charges(source, party)) for party in source.tables)
    expect(after == len(source.tables), "answers that charge nothing", f"{after} charges")


def _pays_first(case: _Case) -> None:
    source = case.source()
    if not isinstance(source, Federation):
        return
    poor = Federation(source.tables.values(), budget=_TOO_LITTLE, noise_seed=1)
    model = case.fresh()
    expect_refusal(lambda: model.fit(poor), BudgetExceeded, "a fit that nobody can pay")
    _expect_unpaid(poor)
    expect(not hasattr(model, "privacy_"), "nothing learnt", "a fitted model")


def _refuses_first(case: _Case) -> None:
    source = case.source()
    if not isinstance(source, Federation) or "epsilon" not in case.model.get_params():
        return
    for bad in (-1.0, 0.0, float("nan"), "much"):
        model = case.fresh().set_params(epsilon=bad)
        try:
            model.fit(source)
        except (ColonnadeError, TypeError) as error:
            expect_named(str(error), "epsilon")
        else:
            raise Broken(f"epsilon = {bad!r} to be refused", "it was taken")
    _expect_unpaid(source)


LAWS: Mapping[str, Law] = {
    "the constructor only stores": _only_stores,
    "an answer before fit is refused": _not_fitted,
    "rows are never given to fit": _no_rows,
    "fit returns the model and changes no parameter": _fit_returns,
    "what was learnt ends in an underscore": _underscore,
    "parameters can be read, set and cloned": _parameters,
    "what it cost is said": _says_cost,
    "features are counted and named": _features,
    "everybody gets an answer": _one_each,
    "answering changes neither model nor rows": _changes_nothing,
    "an answer depends on its own row": _row_by_row,
    "columns are found by name": _by_name,
    "encoded features are answered alike": _encoded,
    "fitting again forgets the last time": _forgets,
    "saved and loaded it answers the same": _saved,
    "every ledger is charged once": _charged_once,
    "who cannot pay learns nothing": _pays_first,
    "nonsense is refused before anything is charged": _refuses_first,
}


def _through_a_model_file(model: Any, folder: Path) -> Any:
    model_file(model, method="conformance", run="conformance").save(folder / "model.json")
    return ModelFile.load(folder / "model.json").estimator()


def _charges(source: Federation, party: str) -> list[Any]:
    return [entry for entry in source.ledgers[party].entries() if entry.kind == "charge"]


def _expect_unpaid(source: Federation) -> None:
    for party in source.tables:
        charged = len(_charges(source, party))
        expect(charged == 0, f"nothing charged in {party}'s ledger", f"{charged} charges")


def _fitted_names(model: Any) -> set[str]:
    return {name for name in vars(model) if name.endswith("_") and not name.endswith("__")}


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    if one.shape != other.shape or one.dtype.kind != other.dtype.kind:
        return False
    if one.dtype.kind != "f":
        return bool(np.array_equal(one, other))
    return bool(np.allclose(one, other, rtol=_CLOSE, atol=_CLOSE))
