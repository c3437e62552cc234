"""A linear model in one JSON file: how to read people, the weights, what it cost, and a digest of all that.

A model whose weights stay with their parties has one file for each party, with that party's weights alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.models.files.content import ModelContent, content_of
from colonnade.models.glm import GammaRegression, PoissonRegression, SupportVectorClassifier
from colonnade.models.input_spec import InputSpec
from colonnade.models.linear import LinearRegression
from colonnade.models.logistic import LogisticRegression
from colonnade.models.pca import PCA
from colonnade.models.reading import Reading

Model = (
    LogisticRegression
    | LinearRegression
    | PCA
    | SupportVectorClassifier
    | PoissonRegression
    | GammaRegression
)
KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        LogisticRegression,
        LinearRegression,
        PCA,
        SupportVectorClassifier,
        PoissonRegression,
        GammaRegression,
    )
}


@dataclass(frozen=True, eq=False)
class ModelFile(ModelContent):
    """What a model file holds, and the estimator that it makes."""

    @property
    def reading(self) -> Reading:
        reading: Reading = KINDS[self.kind].reading
        return reading

    def scores(self, products: NDArray[np.float64]) -> NDArray[np.float64]:
        """The linear scores of people whose features times the weights these are."""
        return products + self.reading.offsets(self.weights, self.offsets)

    def estimator(self) -> Model:
        model: Model = KINDS[self.kind]()
        self.fill(model)
        return model


def model_file(model: Model, *, method: str, run: str) -> ModelFile:
    return ModelFile(**content_of(model, method=method, run=run))


def parts_of(whole: ModelFile, *, active: str | None) -> dict[str, ModelFile]:
    """One file for each party with its own weights alone; the offsets are the active party's.

    Only whoever simulates all parties has the whole to take apart.
    """
    parts, start = {}, 0
    label = whole.frame.label
    for party, encoder in whole.frame.encoders:
        mine = whole.weights[:, start : start + encoder.width]
        start += encoder.width
        parts[party] = ModelFile(
            kind=whole.kind,
            frame=InputSpec(((party, encoder),), label, whole.frame.attributes),
            weights=mine,
            offsets=whole.offsets if party == active else np.zeros_like(whole.offsets),
            privacy=whole.privacy,
            method=whole.method,
            run=whole.run,
            threshold=whole.threshold,
            party=party,
        )
    return parts
