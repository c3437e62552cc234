"""A linear model in one JSON file: how to read people, the weights, what it cost, and a digest of all that.

A model whose weights stay with their parties has one file for each party, with that party's weights alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import ModelDamaged
from colonnade.learn.frame import Frame
from colonnade.learn.glm import GammaRegression, PoissonRegression, SupportVectorClassifier
from colonnade.learn.linear import LinearRegression
from colonnade.learn.logistic import LogisticRegression
from colonnade.learn.model_document import (
    IMPOSSIBLE,
    UNCOVERED,
    described,
    frame_in,
    privacy_in,
    read_document,
    write_document,
)
from colonnade.learn.pca import PCA
from colonnade.learn.privacy import Privacy
from colonnade.learn.reading import Reading

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
class ModelFile:
    """What a model file holds. `party` is whose weights alone these are, None for a whole model."""

    kind: str
    frame: Frame
    weights: NDArray[np.float64]
    offsets: NDArray[np.float64]
    privacy: Privacy
    method: str
    run: str
    threshold: float = 0.5
    party: str | None = None

    def save(self, path: Path) -> None:
        """Write the file whole or not at all."""
        write_document(path, self._data(), own=self.party is not None)

    @classmethod
    def load(cls, path: Path) -> ModelFile:
        """The model in a file; anything but a whole model of a known version is refused by name."""
        return cls.of(read_document(path), path)

    @classmethod
    def of(cls, data: Mapping[str, Any], path: Path) -> ModelFile:
        """The model that a document describes."""
        try:
            return cls._of(data)
        except IMPOSSIBLE as error:
            raise ModelDamaged(f"{path} describes a model that cannot be: {error}") from None

    @property
    def reading(self) -> Reading:
        """How its scores are read."""
        found: Reading = KINDS[self.kind].reading
        return found

    def scores(self, products: NDArray[np.float64]) -> NDArray[np.float64]:
        """The linear scores of people whose features times the weights these are."""
        return products + self.reading.offsets(self.weights, self.offsets)

    def estimator(self) -> Model:
        """The model as scikit-learn knows it, fitted."""
        model: Any = KINDS[self.kind]()
        model.frame_, model.privacy_ = self.frame, self.privacy
        model.releases_, model.run_, model.split_ = (), None, self.party is not None
        model.n_features_in_ = self.frame.columns
        model.feature_names_in_ = np.array(self.frame.feature_names, dtype=object)
        model.columns_in_ = self.frame.column_names
        if self.reading.classifies:
            model.classes_ = np.array(self.frame.label.classes)
        if isinstance(model, LogisticRegression):
            model.threshold = self.threshold
            model.coef_, model.intercept_ = self.weights, self.offsets
        elif isinstance(model, PCA):
            model.components_, model.mean_ = self.weights, self.offsets
            model.n_components_ = len(self.weights)
        else:
            model.coef_, model.intercept_ = self.weights[0], float(self.offsets[0])
        found: Model = model
        return found

    def _data(self) -> dict[str, Any]:
        data = described(
            self.frame,
            self.privacy,
            kind=self.kind,
            method=self.method,
            run=self.run,
            party=self.party,
            statement=str(self.privacy) if self.party is None else f"{UNCOVERED}\n{self.privacy}",
        )
        return data | {
            "weights": self.weights.tolist(),
            "offsets": self.offsets.tolist(),
            "threshold": self.threshold,
        }

    @classmethod
    def _of(cls, data: Mapping[str, Any]) -> ModelFile:
        frame = frame_in(data)
        if data["kind"] not in KINDS:
            raise ValueError(f"its kind is {data['kind']!r}, and known are {', '.join(KINDS)}")
        weights = np.array(data["weights"], dtype=np.float64)
        offsets = np.array(data["offsets"], dtype=np.float64)
        if weights.ndim != 2 or weights.shape[1] != frame.columns or offsets.ndim != 1:
            raise ValueError(f"weights of shape {weights.shape} for {frame.columns} features")
        if not (np.isfinite(weights).all() and np.isfinite(offsets).all()):
            raise ValueError("weights that are not finite")
        return cls(
            kind=data["kind"],
            frame=frame,
            weights=weights,
            offsets=offsets,
            privacy=privacy_in(data),
            method=str(data["method"]),
            run=str(data["run"]),
            threshold=float(data["threshold"]),
            party=data["party"],
        )


def model_file(model: Model, *, method: str, run: str) -> ModelFile:
    """A fitted model, ready to be saved."""
    if isinstance(model, PCA):
        weights, offsets = model.components_, model.mean_
    else:
        weights, offsets = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    return ModelFile(
        kind=type(model).__name__,
        frame=model.frame_,
        weights=np.asarray(weights, dtype=np.float64),
        offsets=np.asarray(offsets, dtype=np.float64),
        privacy=model.privacy_,
        method=method,
        run=run,
        threshold=model.threshold if isinstance(model, LogisticRegression) else 0.5,
    )


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
            frame=Frame(((party, encoder),), label, whole.frame.attributes),
            weights=mine,
            offsets=whole.offsets if party == active else np.zeros_like(whole.offsets),
            privacy=whole.privacy,
            method=whole.method,
            run=whole.run,
            threshold=whole.threshold,
            party=party,
        )
    return parts
