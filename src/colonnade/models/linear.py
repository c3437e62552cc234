"""Regression from one release, or by any method that trains a linear model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from colonnade.federation.no_rows import refuse_labels
from colonnade.methods.method import TrainedModel
from colonnade.models.columns import Rows
from colonnade.models.estimator import Regressor
from colonnade.models.files.content import Saved
from colonnade.models.fitting import ReleaseSource, begin, fitted, obtain
from colonnade.models.least_squares import least_squares
from colonnade.models.parameters import at_least
from colonnade.models.reading import Reading
from colonnade.models.release import MomentRelease

Array = NDArray[np.float64]


class LinearRegression(Saved, Regressor):
    """Least squares, or with `ridge` ridge regression, for a label that is a number or a count.

    `coef_` and `intercept_` are in the label's own units per unit of feature. The intercept is not
    penalised.

    Parameters
    ----------
    epsilon, delta
        The price of a release, for the server and for readers. Used only when fitting from a federation; a
        release that exists is fitted at no further cost.
    accepted_delta
        δ once more, where it is not below one over the number of rows and is meant to be.
    floor
        Eigenvalues of the scatter matrix are raised to this many standard deviations of the noise. None:
        min(2√d, 12) (`default_floor`).
    ridge
        Added to every eigenvalue after that, in units of Σxxᵀ.
    unbias
        Whether the shift of the predictions that noise causes on average is taken out.
    label
        Which label to learn, of a release or a federation with several; None: the first.
    method, options
        How to train on a federation (`colonnade.methods.table`), and what that method lets one choose. `floor`,
        `ridge` and `unbias` are for methods that release moments.

    >>> from fractions import Fraction
    >>> from colonnade.data.kinds import NumericColumn
    >>> from colonnade.data.encoder import Encoder
    >>> from colonnade.data.labels import LabelBlock
    >>> from colonnade.data.quantizer import Quantizer
    >>> from colonnade.data.labels import RealLabel
    >>> encoder = Encoder((NumericColumn("size", low=0, high=100),), mode="linear")
    >>> label = LabelBlock(RealLabel("price", low=0, high=1000))
    >>> features = Quantizer(encoder, attributes_total=1, gamma=4096).quantize({"size": [0, 50, 100]})
    >>> rows = np.column_stack([features, label.quantize([100, 300, 500], 4096)])
    >>> release = MomentRelease(
    ...     matrix=rows.T @ rows, gamma=4096, rows=3, encoders=(("agency", encoder),), label=label,
    ...     mu=Fraction(0), guarantees=(), plan="", run="", reproducible=False,
    ... )
    >>> LinearRegression().fit(release).predict({"size": [75]}).round().tolist()
    [400.0]
    """

    reading = Reading("a linear regression", "prediction")

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        accepted_delta: float | None = None,
        floor: float | None = None,
        ridge: float = 0.0,
        unbias: bool = True,
        label: str | None = None,
        method: str = "moments",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.accepted_delta = accepted_delta
        self.floor = floor
        self.ridge = ridge
        self.unbias = unbias
        self.label = label
        self.method = method
        self.options = options

    def fit(self, source: MomentRelease | TrainedModel | ReleaseSource, y: None = None) -> Self:
        """Learn from a release, or from a federation that makes one for (epsilon, delta).

        If nothing can be learned from a release that was just paid for, it is still in `releases_`.
        """
        refuse_labels(y)
        at_least("ridge", self.ridge, 0.0)
        if self.floor is not None:
            at_least("floor", self.floor, 0.0)
        result = obtain(
            source,
            task="regression",
            epsilon=self.epsilon,
            delta=self.delta,
            accepted_delta=self.accepted_delta,
            method=self.method,
            options=self.options,
            label=self.label,
        )
        begin(self, result)
        if isinstance(result, MomentRelease):
            self._solve(result.for_label(self.label))
        else:
            self.coef_, self.intercept_ = result.coefficients[0], float(result.intercepts[0])
        return self

    def _solve(self, release: MomentRelease) -> None:
        line = least_squares(release.value_moments(), floor=self.floor, ridge=self.ridge, unbias=self.unbias)
        low, high = release.label.from_unit([-1.0, 1.0])
        self.coef_ = line.coefficients * ((high - low) / 2.0)
        self.intercept_ = float(release.label.from_unit(line.intercept))

    def predict(self, X: Rows) -> Array:
        """The label's expected value for each person, in its own units; it can lie outside the bounds."""
        release = fitted(self, "coef_")
        return np.asarray(release.features(X) @ self.coef_ + self.intercept_)
