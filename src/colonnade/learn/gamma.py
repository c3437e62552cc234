"""Gamma regression of positive numbers with log link, trained by private messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin

from colonnade.learn.columns import Rows
from colonnade.learn.federation import Federation
from colonnade.learn.fitting import fitted
from colonnade.learn.glm_fitting import fit_by_messages
from colonnade.learn.method import Learnt

Array = NDArray[np.float64]


class GammaRegression(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A generalised linear model with mean e^θ, for a label whose declared range lies above 0.

    `coef_` and `intercept_` give the logarithm of the mean, as in scikit-learn. Labels are clipped to their declared
    range, from which the noise is computed: declare it as narrow as the world allows.

    Parameters
    ----------
    epsilon, delta
        The price of the run for each party's part of a record, against the others; None: a δ for the number of rows.
    options
        How the descent goes (`colonnade.learn.method_intermediate.IntermediateOptions`).

    >>> from colonnade import Federation, GammaRegression, Schema, Table
    >>> ages = Schema.parse('''id = "no"
    ... label = {column = "cost", kind = "real", low = 1, high = 10}
    ... columns.age = {kind = "numeric", low = 0, high = 100}''')
    >>> pays = Schema.parse('''id = "no"
    ... columns.pay = {kind = "numeric", low = 0, high = 100}''')
    >>> rows = list(range(100))
    >>> federation = Federation([
    ...     Table.from_arrays("clinic", {"age": rows, "cost": [2.0] * 50 + [5.0] * 50}, ages),
    ...     Table.from_arrays("bank", {"pay": rows}, pays)], budget=(40.0, 1e-5), noise_seed=1)
    >>> model = GammaRegression(epsilon=30.0).fit(federation)
    >>> low, high = model.predict({"age": [5, 95], "pay": [10, 90]})
    >>> bool(low < high)
    True
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
            self, source, loss="gamma", epsilon=self.epsilon, delta=self.delta, options=self.options
        )
        return self

    def predict(self, X: Rows) -> Array:
        """The expected label of each person, in its own units; it can lie outside the bounds."""
        return np.asarray(np.exp(fitted(self, "coef_").features(X) @ self.coef_ + self.intercept_))

    def deviance(self, X: Rows, y: ArrayLike) -> float:
        """2((y − μ)/μ − ln(y/μ)), averaged: 0 where every mean is its label."""
        values, means = np.asarray(y, dtype=np.float64), self.predict(X)
        return float(np.mean(2 * ((values - means) / means - np.log(values / means))))
