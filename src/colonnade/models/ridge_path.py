"""One release, every ridge: how a model changes as it is held back more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import DataError, InputError
from colonnade.models.linear import LinearRegression
from colonnade.models.logistic import LogisticRegression
from colonnade.models.parameters import at_least
from colonnade.models.release import MomentRelease

Array = NDArray[np.float64]

STEPS = 12


@dataclass(frozen=True, eq=False)
class RidgePath:
    """Fitted models in the order of their ridges, which rise, and their coefficients beside each other.

    `coefficients` has one matrix for each ridge, of as many rows as the model has scores.
    """

    ridges: tuple[float, ...]
    models: tuple[LogisticRegression | LinearRegression, ...]

    @property
    def coefficients(self) -> Array:
        return np.array([np.atleast_2d(model.coef_) for model in self.models])

    @property
    def intercepts(self) -> Array:
        return np.array([np.atleast_1d(model.intercept_) for model in self.models])

    def __str__(self) -> str:
        lines = ["ridge       length of the coefficients"]
        for ridge, coefficients in zip(self.ridges, self.coefficients, strict=True):
            lines.append(f"{ridge:<10.4g}  {float(np.linalg.norm(coefficients)):.4g}")
        return "\n".join(lines)


def default_ridges(release: MomentRelease) -> tuple[float, ...]:
    """No ridge, then from a hundredth of the rows' average sum of squares along a direction to a hundred of it.

    Rows have norm at most 1, so n rows have a sum of squares of at most n/d along an average direction of d.
    """
    average = release.rows / max(release.columns, 1)
    return (0.0, *(float(average * step) for step in np.logspace(-2, 2, STEPS)))


def ridge_path(release: MomentRelease, ridges: Sequence[float] | None = None) -> RidgePath:
    """The model for the label of a release at every ridge, from least to most: post-processing, which spends nothing.

    >>> from fractions import Fraction
    >>> from colonnade.data.kinds import NumericColumn
    >>> from colonnade.data.encoder import Encoder
    >>> from colonnade.data.labels import LabelBlock
    >>> from colonnade.data.labels import RealLabel
    >>> encoder = Encoder((NumericColumn("age", low=0, high=90),), mode="linear")
    >>> release = MomentRelease(
    ...     matrix=np.array([[160000, 0, 75000], [0, 125000, 0], [75000, 0, 50000]]), gamma=100, rows=50,
    ...     encoders=(("bank", encoder),), label=LabelBlock(RealLabel("pays", low=0, high=9)), mu=Fraction(10**6),
    ...     guarantees=(), plan="", run="", reproducible=False,
    ... )
    >>> print(ridge_path(release, [0, 16]))
    ridge       length of the coefficients
    0           4.219
    16          2.109
    """
    if release.label.label is None:
        raise DataError(
            "this release has no label, so there is no model to hold back. Make one for classification or "
            "regression."
        )
    given = default_ridges(release) if ridges is None else tuple(ridges)
    if not given:
        raise InputError("the list of ridges is empty. Give at least one, or none at all for the usual ones.")
    for ridge in given:
        at_least("ridge", ridge, 0.0)
    rising = tuple(sorted({float(ridge) for ridge in given}))
    kind = LogisticRegression if release.label.one_hot else LinearRegression
    return RidgePath(rising, tuple(kind(ridge=ridge).fit(release) for ridge in rising))
