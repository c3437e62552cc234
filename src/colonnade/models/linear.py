"""Regression and generalised linear models, from one release or by any method that trains them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from colonnade.data.documents import check
from colonnade.errors import InputError
from colonnade.federation.federation import Federation
from colonnade.methods.glm.losses import LOSSES
from colonnade.methods.messages.method import METHOD
from colonnade.methods.messages.plan import PrivateMessagesOptions
from colonnade.methods.method import Array, TrainedModel
from colonnade.models.discriminant import Reading
from colonnade.models.estimator import Classifier, Estimator, Regressor, at_least, refuse_labels, refuse_rows
from colonnade.models.files.content import Saved
from colonnade.models.fitting import ReleaseSource, begin, fitted, linear_of, obtain_for
from colonnade.models.inputs import Rows
from colonnade.models.moments import least_squares
from colonnade.models.release import MomentRelease
from colonnade.protocols.plans import TrainingSpec


@dataclass(eq=False, repr=False, kw_only=True)
class LinearRegression(Saved, Regressor):
    """Least squares, or with `ridge` ridge regression, for a label that is a number or a count.

    `coef_` and `intercept_`, which is not penalised, are in the label's own units per unit of feature. Parameters are
    those of `LogisticRegression`; `unbias` takes out the shift of the predictions that noise causes on average.

    >>> from colonnade.models.release import EXAMPLE
    >>> LinearRegression().fit(EXAMPLE).predict({"age": [45, 90]}).round(1).tolist()
    [4.5, 8.7]
    """

    reading = Reading("a linear regression", "prediction")

    epsilon: float = 1.0
    delta: float = 1e-5
    accepted_delta: float | None = None
    floor: float | None = None
    ridge: float = 0.0
    unbias: bool = True
    label: str | None = None
    method: str = "moments"
    options: Mapping[str, Any] | None = None

    def fit(self, source: MomentRelease | TrainedModel | ReleaseSource, y: None = None) -> Self:
        """Learn from a release, or from a federation that makes one for (epsilon, delta), kept in `releases_`."""
        refuse_labels(y)
        at_least("ridge", self.ridge, 0.0)
        if self.floor is not None:
            at_least("floor", self.floor, 0.0)
        result = obtain_for(self, source, "regression", method=self.method)
        begin(self, result)
        if not isinstance(result, MomentRelease):
            self.coef_, self.intercept_ = result.coefficients[0], float(result.intercepts[0])
            return self
        release = result.for_label(self.label)
        line = least_squares(release.value_moments(), floor=self.floor, ridge=self.ridge, unbias=self.unbias)
        low, high = release.label.from_unit([-1.0, 1.0])
        self.coef_ = line.coefficients * ((high - low) / 2.0)
        self.intercept_ = float(release.label.from_unit(line.intercept))
        return self

    def predict(self, X: Rows) -> Array:
        """The label's expected value for each person, in its own units; it can lie outside the bounds."""
        release = fitted(self, "coef_")
        return np.asarray(release.features(X) @ self.coef_ + self.intercept_)


@dataclass(eq=False, repr=False, kw_only=True)
class _ByMessages(Saved, Estimator):
    """A linear model of one loss, by private intermediate results; here, in one process, `coef_` has all weights."""

    loss: ClassVar[str]

    epsilon: float = 1.0
    delta: float | None = None
    accepted_delta: float | None = None
    options: Mapping[str, Any] | None = None

    def fit(self, source: Federation | TrainedModel, y: None = None) -> Self:
        """Train on a federation, every ledger charged for the whole run first; or take what a method trained."""
        refuse_labels(y)
        task, name = LOSSES[self.loss].task, type(self).__name__
        if isinstance(source, Federation):
            at_least("epsilon", self.epsilon, 0.0, strict=True)
            given = dict(self.options or {})
            if "loss" in given:
                raise InputError(f"options: loss = {given['loss']!r}, but {name} has its own loss.")
            form = check(PrivateMessagesOptions, {**given, "loss": self.loss}, name=f"options of {name}")
            spec = TrainingSpec(
                task, self.epsilon, delta=self.delta, accepted_delta=self.accepted_delta, options=form
            )
            trained: object = METHOD.train(source, spec)
        else:
            trained = source
        if not isinstance(trained, TrainedModel):
            # This model is trained by messages between parties: no release has what it needs.
            refuse_rows(trained, "a Federation")
        linear = linear_of(trained, task=task, loss=self.loss)
        begin(self, linear)
        self.coef_ = linear.coefficients[0]
        self.intercept_ = float(linear.intercepts[0])
        self.notes_ = linear.notes
        return self

    def _line(self, rows: Rows) -> Array:
        return np.asarray(fitted(self, "coef_").features(rows) @ self.coef_ + self.intercept_)


class _LogLink(_ByMessages, Regressor):
    def predict(self, X: Rows) -> Array:
        """The expected label of each person, in its own units; it can lie outside the bounds."""
        return np.asarray(np.exp(self._line(X)))


class PoissonRegression(_LogLink):
    """A generalised linear model with mean e^θ, for a label that counts, or another number from 0 up.

    `coef_` and `intercept_` give the logarithm of the mean, as in scikit-learn. Labels are clipped to their declared
    range, from which the noise is computed: declare it as narrow as the world allows. (`epsilon`, `delta`) is the
    price for each party's part of a record, against the others; `accepted_delta` repeats a δ that is not below one
    over the number of rows; `options` are `colonnade.methods.messages.method.PrivateMessagesOptions`.

    >>> from colonnade import Federation, PoissonRegression, Schema, Table
    >>> ages = Schema.parse('''id = "no"
    ... label = {column = "visits", kind = "count", low = 0, high = 5}
    ... columns.age = {kind = "numeric", low = 0, high = 100}''')
    >>> pays = Schema.parse('id = "no"\\ncolumns.pay = {kind = "numeric", low = 0, high = 100}')
    >>> clinic = {"age": list(range(100)), "visits": [0] * 50 + [2] * 50}
    >>> tables = [Table.from_arrays("clinic", clinic, ages), Table.from_arrays("bank", {"pay": clinic["age"]}, pays)]
    >>> model = PoissonRegression(epsilon=30.0).fit(Federation(tables, budget=(40.0, 1e-5), noise_seed=1))
    >>> bool(np.diff(model.predict({"age": [5, 95], "pay": [10, 90]})) > 0)
    True
    """

    reading = Reading("a Poisson regression with log link", "prediction", link="log")

    loss = "poisson"

    def deviance(self, X: Rows, y: ArrayLike) -> float:
        """2(y·ln(y/μ) − y + μ), averaged: 0 where every mean is its label."""
        values, means = np.asarray(y, dtype=np.float64), self.predict(X)
        logs = np.where(values > 0, values * np.log(np.where(values > 0, values, 1.0) / means), 0.0)
        return float(np.mean(2 * (logs - values + means)))


class GammaRegression(_LogLink):
    """A generalised linear model with mean e^θ, for a label whose declared range lies above 0.

    Parameters, `coef_` and `intercept_` are those of `PoissonRegression`.

    >>> from colonnade import Federation, GammaRegression, Schema, Table
    >>> costs = Schema.parse('''id = "no"
    ... label = {column = "cost", kind = "real", low = 1, high = 10}
    ... columns.age = {kind = "numeric", low = 0, high = 100}''')
    >>> pays = Schema.parse('id = "no"\\ncolumns.pay = {kind = "numeric", low = 0, high = 100}')
    >>> clinic = {"age": list(range(100)), "cost": [2.0] * 50 + [5.0] * 50}
    >>> tables = [Table.from_arrays("clinic", clinic, costs), Table.from_arrays("bank", {"pay": clinic["age"]}, pays)]
    >>> model = GammaRegression(epsilon=30.0).fit(Federation(tables, budget=(40.0, 1e-5), noise_seed=1))
    >>> bool(np.diff(model.predict({"age": [5, 95], "pay": [10, 90]})) > 0)
    True
    """

    reading = Reading("a Gamma regression with log link", "prediction", link="log")

    loss = "gamma"

    def deviance(self, X: Rows, y: ArrayLike) -> float:
        """2((y − μ)/μ − ln(y/μ)), averaged: 0 where every mean is its label."""
        values, means = np.asarray(y, dtype=np.float64), self.predict(X)
        return float(np.mean(2 * ((values - means) / means - np.log(values / means))))


class SupportVectorClassifier(_ByMessages, Classifier):
    """A linear classifier with the squared hinge loss, for two classes; it has scores and no probabilities.

    Parameters are those of `PoissonRegression`.

    >>> from colonnade import Federation, Schema, SupportVectorClassifier, Table
    >>> buys = Schema.parse('''id = "no"
    ... label = {column = "buys", kind = "classes", classes = ["no", "yes"]}
    ... columns.age = {kind = "numeric", low = 0, high = 100}''')
    >>> pays = Schema.parse('id = "no"\\ncolumns.pay = {kind = "numeric", low = 0, high = 100}')
    >>> shop = {"age": list(range(100)), "buys": ["no"] * 50 + ["yes"] * 50}
    >>> tables = [Table.from_arrays("shop", shop, buys), Table.from_arrays("bank", {"pay": shop["age"]}, pays)]
    >>> model = SupportVectorClassifier(epsilon=20.0).fit(Federation(tables, budget=(40.0, 1e-5), noise_seed=1))
    >>> model.predict({"age": [5, 95], "pay": [10, 90]}).tolist()
    ['no', 'yes']
    """

    reading = Reading("a linear support vector classifier", "margin")

    loss = "svm"

    def fit(self, source: Federation | TrainedModel, y: None = None) -> Self:
        refuse_labels(y)
        super().fit(source)
        self.classes_ = self.frame_.label.values
        return self

    def _scores(self, rows: Rows) -> Array:
        return self._line(rows)[:, None]
