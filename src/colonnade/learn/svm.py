"""Classification by an l2 support vector machine, trained by private messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from colonnade.data.coding import code
from colonnade.data.targets import ClassLabel
from colonnade.errors import BadValues, DataError
from colonnade.learn.columns import Rows
from colonnade.learn.federation import Federation
from colonnade.learn.fitting import fitted
from colonnade.learn.glm_fitting import fit_by_messages
from colonnade.learn.method import Learnt

Array = NDArray[np.float64]


class SupportVectorClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A linear classifier with the squared hinge loss, for two classes; it has scores and no probabilities.

    Parameters
    ----------
    epsilon, delta
        The price of the run for each party's part of a record, against the others; None: a δ for the number of rows.
    options
        How the descent goes (`colonnade.learn.method_intermediate.IntermediateOptions`).

    >>> from colonnade import Federation, Schema, SupportVectorClassifier, Table
    >>> ages = Schema.parse('''id = "no"
    ... label = {column = "buys", kind = "classes", classes = ["no", "yes"]}
    ... columns.age = {kind = "numeric", low = 0, high = 100}''')
    >>> pays = Schema.parse('''id = "no"
    ... columns.pay = {kind = "numeric", low = 0, high = 100}''')
    >>> rows = list(range(100))
    >>> federation = Federation([
    ...     Table.from_arrays("shop", {"age": rows, "buys": ["no"] * 50 + ["yes"] * 50}, ages),
    ...     Table.from_arrays("bank", {"pay": rows}, pays)], budget=(40.0, 1e-5), noise_seed=1)
    >>> model = SupportVectorClassifier(epsilon=20.0).fit(federation)
    >>> model.predict({"age": [5, 95], "pay": [10, 90]}).tolist()
    ['no', 'yes']
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.options = options

    def fit(self, source: Federation | Learnt) -> Self:
        """Train on a federation, every ledger charged for the whole run first; or take what a method trained."""
        fit_by_messages(
            self, source, loss="svm", epsilon=self.epsilon, delta=self.delta, options=self.options
        )
        self.classes_ = np.array(self.frame_.label.classes)
        return self

    def decision_function(self, X: Rows) -> Array:
        """The margin of the second class."""
        return np.asarray(fitted(self, "coef_").features(X) @ self.coef_ + self.intercept_)

    def predict(self, X: Rows) -> NDArray[Any]:
        """The class of each person, as declared."""
        margins = self.decision_function(X)
        return np.asarray(self.classes_[(margins > 0).astype(np.int64)])

    def score(self, X: Rows, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The share of people whose class is predicted right.

        Exact accuracy on people who are not public is itself a release, and this does not charge for it.
        """
        label = fitted(self, "coef_").label.label
        if not isinstance(label, ClassLabel):
            raise DataError("this model has no classes to score.")
        coded = code(y, label)
        if coded.problems:
            raise BadValues(f"label {label.column!r}: {coded.problems.sentence}. {coded.problems.advice}")
        right = self.predict(X) == self.classes_[coded.values]
        return float(np.average(right, weights=None if sample_weight is None else np.asarray(sample_weight)))
