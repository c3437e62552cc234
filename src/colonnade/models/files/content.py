"""A linear model as a file holds it, one for each party if weights stay there, and estimators that save and load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import ModelDamaged, ModelError, path_of
from colonnade.models.estimator import begin_with
from colonnade.models.files import document
from colonnade.models.inputs import InputSpec

NAMES = (
    *("LogisticRegression", "LinearRegression", "PCA"),
    *("SupportVectorClassifier", "PoissonRegression", "GammaRegression"),
)


@dataclass(frozen=True, eq=False)
class ModelContent:
    """What a model file holds. `party` is whose weights alone these are, None for a whole model."""

    kind: str
    frame: InputSpec
    weights: NDArray[np.float64]
    offsets: NDArray[np.float64]
    privacy: document.Privacy
    method: str
    run: str
    threshold: float = 0.5
    party: str | None = None

    def save(self, path: Path) -> None:
        data = document.described(
            self.frame,
            self.privacy,
            kind=self.kind,
            method=self.method,
            run=self.run,
            party=self.party,
            statement=str(self.privacy) if self.party is None else f"{document.UNCOVERED}\n{self.privacy}",
        )
        learnt = {"weights": self.weights.tolist(), "offsets": self.offsets.tolist()}
        document.write_document(
            path, {**data, **learnt, "threshold": self.threshold}, own=self.party is not None
        )

    @classmethod
    def load(cls, path: Path) -> Self:
        """The model in a file; anything but a whole model of a known version is refused by name."""
        return cls.of(document.read_document(path), path)

    @classmethod
    def of(cls, data: Mapping[str, Any], path: Path) -> Self:
        try:
            return cls._of(data)
        except document.IMPOSSIBLE as error:
            raise ModelDamaged(f"{path} describes a model that cannot be: {error}") from None

    def fill(self, model: Any) -> None:
        """Make a fresh estimator of this kind the model that was saved."""
        begin_with(model, self.frame, self.privacy, split=self.party is not None)
        if type(model).reading.classifies:
            model.classes_ = self.frame.label.values
        if self.kind == "LogisticRegression":
            model.threshold = self.threshold
            model.coef_, model.intercept_ = self.weights, self.offsets
        elif self.kind == "PCA":
            model.components_, model.mean_ = self.weights, self.offsets
            model.n_components_ = len(self.weights)
        else:
            model.coef_, model.intercept_ = self.weights[0], float(self.offsets[0])

    @classmethod
    def _of(cls, data: Mapping[str, Any]) -> Self:
        frame = document.frame_in(data)
        if data["kind"] not in NAMES:
            raise ValueError(f"its kind is {data['kind']!r}, and known are {', '.join(NAMES)}")
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
            privacy=document.privacy_in(data),
            method=str(data["method"]),
            run=str(data["run"]),
            threshold=float(data["threshold"]),
            party=data["party"],
        )


def content_of(model: Any, *, method: str, run: str) -> dict[str, Any]:
    if type(model).__name__ == "PCA":
        weights, offsets = model.components_, model.mean_
    else:
        weights, offsets = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    return {
        "kind": type(model).__name__,
        "frame": model.frame_,
        "weights": np.asarray(weights, dtype=np.float64),
        "offsets": np.asarray(offsets, dtype=np.float64),
        "privacy": model.privacy_,
        "method": method,
        "run": run,
        "threshold": getattr(model, "threshold", 0.5),
    }


class Saved:
    """A linear estimator that can be kept in a file: `save`, and `load` of its class."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model as JSON, as `colonnade train` writes model.json; every verb reads it."""
        model: Any = self
        if not hasattr(model, "frame_"):
            raise ModelError(
                f"this {type(self).__name__} is not fitted, so there is nothing to save. Call fit first."
            )
        if model.split_:
            raise ModelError(
                "the weights of this model stay with their parties, and no guarantee covers showing them together. "
                "`colonnade train` writes each party's own file."
            )
        run = "".join(release.run for release in model.releases_)
        run = model.run_.name if model.run_ is not None else run
        method = getattr(model, "method_", None) or ("moments" if model.releases_ else "")
        ModelContent(**content_of(model, method=method, run=run)).save(path_of(path))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """The model that `save`, or a run, wrote; a damaged or newer file, or another kind of model, is refused."""
        where = path_of(path)
        content = ModelContent.load(where)
        if content.kind != cls.__name__:
            raise ModelError(f"{where} holds a {content.kind}, not a {cls.__name__}.")
        if content.party is not None:
            raise ModelError(f"{where} is {content.party}'s part of a model, and a part alone scores nobody.")
        model = cls()
        content.fill(model)
        return model
