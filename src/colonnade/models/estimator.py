"""What estimators share: parameters and their checks, scores, classes."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colonnade.data.coding import code
from colonnade.data.declaring import is_finite
from colonnade.data.documents import shown
from colonnade.errors import BadValues, DataError, InputError, RowsInFit, UnknownParameter
from colonnade.models.discriminant import class_codes
from colonnade.models.inputs import Array, InputSpec, Rows


def at_least(name: str, value: Any, least: float, *, strict: bool = False) -> None:
    """Raise an `InputError` unless a parameter is a finite number from `least` up."""
    if (
        not is_finite(value.item() if isinstance(value, np.number) else value)
        or value < least
        or (strict and value == least)
    ):
        raise InputError(
            f"{name} = {shown(value)} is not a finite number {'above' if strict else 'from'} {least:g}."
        )


def check_lengths(rows: int, y: ArrayLike, *, sample_weight: ArrayLike | None) -> None:
    """Raise a `DataError` unless labels and weights have an entry for each of so many people."""
    for name, values in (("y", y), ("sample_weight", sample_weight)):
        shape = None if values is None else np.shape(values)
        if shape not in (None, (rows,)):
            many = f"{shape[0]} entries" if shape and len(shape) == 1 else f"the shape {shape}"
            people = "1 person" if rows == 1 else f"{rows} people"
            raise DataError(f"{name} has {many} for {people}. Give one for each, in the same order.")


class Estimator:
    """Parameters that the constructor stores under their own names, to be read, set and copied."""

    _mixin: str | None = None
    # What every `fit` leaves (`begin_with`).
    frame_: Any
    privacy_: Any
    releases_: Any
    run_: Any

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        parameters = inspect.signature(cls).parameters
        return {name: parameters[name].default for name in sorted(parameters)}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._defaults()}

    def set_params(self, **params: Any) -> Self:
        """Change parameters; what was learnt stays until the next `fit`."""
        known = self._defaults()
        for name, value in params.items():
            if name not in known:
                raise UnknownParameter(
                    f"{type(self).__name__} has no parameter {name!r}. It has {', '.join(known)}."
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = self._defaults()
        changed = (
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if _differs(value, defaults[name])
        )
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn import base

        mixins = (getattr(base, self._mixin),) if self._mixin else ()
        return type("Tagged", (*mixins, base.BaseEstimator), {})().__sklearn_tags__()


def begin_with(
    model: Any, frame: InputSpec, privacy: Any, *, releases: Any = (), run: Any = None, split: bool = False
) -> None:
    """Forget the last fit, and keep what this one reads people by, what it cost and what it came from."""
    for name in [name for name in vars(model) if name.endswith("_") and not name.endswith("__")]:
        delattr(model, name)
    model.frame_, model.privacy_, model.releases_, model.run_ = frame, privacy, releases, run
    model.split_, model.n_features_in_, model.columns_in_ = split, frame.columns, frame.column_names
    model.feature_names_in_ = np.array(frame.feature_names, dtype=object)


class Classifier(Estimator, ABC):
    """An estimator of classes."""

    _mixin = "ClassifierMixin"
    _estimator_type = "classifier"  # what scikit-learn before 1.6 asks
    threshold = 0.5
    classes_: NDArray[Any]

    @abstractmethod
    def _scores(self, rows: Rows) -> Array: ...

    def decision_function(self, X: Rows) -> Array:
        """Log-odds of the second class; with more classes, one score per class."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Rows) -> NDArray[Any]:
        codes = class_codes(self._scores(X), self.threshold)
        return np.asarray(self.classes_[codes])

    def score(self, X: Rows, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The share of people predicted right: on private people a release, which this does not charge."""
        codes = class_codes(self._scores(X), self.threshold)
        coded = code(y, self.frame_.label.label)
        if coded.problems:
            raise BadValues(
                f"label {self.frame_.label.label.column!r}: {coded.problems.sentence}. {coded.problems.advice}"
            )
        check_lengths(len(codes), coded.values, sample_weight=sample_weight)
        weights = None if sample_weight is None else np.asarray(sample_weight)
        return float(np.average(codes == coded.values, weights=weights))


class Regressor(Estimator):
    """An estimator of a number."""

    _mixin = "RegressorMixin"
    _estimator_type = "regressor"

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """R² on people whose label is known: on private people a release, which this does not charge."""
        from sklearn.metrics import r2_score

        predicted = np.asarray(self.predict(X))  # type: ignore[attr-defined]
        check_lengths(len(predicted), y, sample_weight=sample_weight)
        return float(r2_score(y, predicted, sample_weight=sample_weight))


def _differs(value: Any, default: Any) -> bool:
    try:
        return not (value is default or bool(value == default))
    except ValueError:  # arrays
        return True


INSTEAD = (
    "Rows are never given to a model: they stay with the parties. Instead of a search over parameters, `ridge_path` "
    "fits one release at many strengths at no further cost; instead of cross-validation, `held_out` keeps people aside "
    "and `colonnade evaluate` measures a model, charged once."
)


def refuse_rows(given: object, takes: str) -> NoReturn:
    raise RowsInFit(f"fit takes {takes}, not {type(given).__name__}. {INSTEAD}")


def refuse_labels(y: object) -> None:
    """Refuse labels beside what is fitted on: they are with the party that holds them."""
    if y is not None:
        raise RowsInFit(f"fit takes no labels: they stay with the party that holds them. {INSTEAD}")


class NoRows:
    """What is not an array of rows, and says so to whoever takes it for one, as a search over parameters would."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise RowsInFit(f"a {type(self).__name__} is not an array of rows. {INSTEAD}")
