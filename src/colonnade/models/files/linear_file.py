"""A linear model in one JSON file: how to read people, the weights, what it cost, and a digest of all that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import ModelError
from colonnade.models.discriminant import Reading
from colonnade.models.files.content import ModelContent, content_of
from colonnade.models.inputs import InputSpec
from colonnade.models.linear import (
    GammaRegression,
    LinearRegression,
    PoissonRegression,
    SupportVectorClassifier,
)
from colonnade.models.logistic import LogisticRegression
from colonnade.models.pca import PCA

_Regression = LinearRegression | PoissonRegression | GammaRegression
Model = LogisticRegression | SupportVectorClassifier | PCA | _Regression
_KINDS = (
    LogisticRegression,
    LinearRegression,
    PCA,
    SupportVectorClassifier,
    PoissonRegression,
    GammaRegression,
)
KINDS: dict[str, Any] = {kind.__name__: kind for kind in _KINDS}


@dataclass(frozen=True, eq=False)
class ModelFile(ModelContent):
    """What a model file holds, and the estimator that it makes."""

    @property
    def reading(self) -> Reading:
        reading: Reading = KINDS[self.kind].reading
        return reading

    def scores(self, products: NDArray[np.float64]) -> NDArray[np.float64]:
        return products + self.reading.offsets(self.weights, self.offsets)

    def estimator(self) -> Model:
        model: Model = KINDS[self.kind]()
        self.fill(model)
        return model


def model_file(model: Model, *, method: str, run: str) -> ModelFile:
    return ModelFile(**content_of(model, method=method, run=run))


def parts_of(whole: ModelFile, *, active: str | None) -> dict[str, ModelFile]:
    """One file for each party with its own weights alone; the offsets are the active party's."""
    parts: dict[str, ModelFile] = {}
    start = 0
    label = whole.frame.label
    for party, encoder in whole.frame.encoders:
        parts[party] = replace(
            whole,
            frame=InputSpec(((party, encoder),), label, whole.frame.attributes),
            weights=whole.weights[:, start : start + encoder.width],
            offsets=whole.offsets if party == active else np.zeros_like(whole.offsets),
            party=party,
        )
        start += encoder.width
    return parts


SPLIT = (
    "The weights of this model stay with their parties because what was promised covers the messages of the run, not "
    "the weights: put together and shown, they would say more about the people it was trained on. Train with a method "
    "that releases its model, such as 'moments'."
)


def exportable(model: Any) -> ModelFile:
    """A fitted linear model, or its file, as a file; a model in parts is refused, and why."""
    if isinstance(model, ModelFile):
        if model.party is not None:
            raise ModelError(f"this is {model.party}'s part of a model. {SPLIT}")
        return model
    if type(model).__name__ not in KINDS or not hasattr(model, "frame_"):
        fit = " that is not fitted" if type(model).__name__ in KINDS else ""
        raise ModelError(
            f"linear models can be exported: {', '.join(KINDS)}. This is a {type(model).__name__}{fit}."
        )
    if getattr(model, "split_", False):
        raise ModelError(SPLIT)
    run = model.run_.name if model.run_ is not None else ""
    if model.releases_:
        run = model.releases_[0].run
    # A classifier without a named method says which one it took.
    method: str = getattr(model, "method_", "") or getattr(model, "method", "private-messages")
    return model_file(model, method=method, run=run)
