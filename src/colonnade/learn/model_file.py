"""A linear model in one JSON file: how to read people, the weights, what it cost, and a digest of all that.

The digest finds damage: a cut file, a flipped bit, an edit by hand. It has no key, so it is no proof of who wrote the
file. A model whose weights stay with their parties has one file for each party, with that party's weights alone.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.encoding import Encoder
from colonnade.data.label import LabelBlock
from colonnade.errors import DataError, SchemaError
from colonnade.learn.frame import Frame
from colonnade.learn.linear import LinearRegression
from colonnade.learn.logistic import LogisticRegression
from colonnade.learn.pca import PCA
from colonnade.learn.privacy import Privacy
from colonnade.learn.statements import guarantees_from_data, guarantees_to_data

FORMAT = "colonnade model"
UNCOVERED = (
    "These weights are for their party alone: what follows is about messages and does not cover showing them."
)
VERSION = 1
Linear = LogisticRegression | LinearRegression
KINDS: dict[str, type[LogisticRegression] | type[LinearRegression] | type[PCA]] = {
    "LogisticRegression": LogisticRegression,
    "LinearRegression": LinearRegression,
    "PCA": PCA,
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
        data = self._data()
        data["digest"] = _digest(data)
        draft = path.with_name(f".{path.name}.draft")
        try:
            draft.write_text(
                json.dumps(data, ensure_ascii=False, indent=1, allow_nan=False), encoding="utf-8"
            )
            draft.replace(path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise DataError(f"cannot write {path}: {error.strerror}.") from None

    @classmethod
    def load(cls, path: Path) -> ModelFile:
        """The model in a file; anything but a whole model of a known version is a `DataError`."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise DataError(f"{path}: there is no such file.") from None
        except OSError as error:
            raise DataError(f"{path} cannot be read ({error.strerror}).") from None
        except ValueError:
            raise DataError(
                f"{path} is not a model, or it is cut off. Copy it again from where it was saved."
            ) from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise DataError(f"{path} is not a model. Give the model.json of a run, or its folder.")
        if data.get("version") != VERSION:
            raise DataError(
                f"{path} is written in version {data.get('version')!r} of the format, and this Colonnade reads "
                f"{VERSION}. Upgrade Colonnade to read it."
            )
        if data.pop("digest", None) != _digest(data):
            raise DataError(
                f"{path} was altered after it was saved: its digest does not match its contents. Copy it again from "
                "where it was saved."
            )
        try:
            return cls._of(data)
        except (KeyError, TypeError, ValueError, SchemaError) as error:
            raise DataError(f"{path} describes a model that cannot be: {error}") from None

    def estimator(self) -> LogisticRegression | LinearRegression | PCA:
        """The model as scikit-learn knows it, fitted."""
        model = KINDS[self.kind]()
        model.frame_, model.privacy_ = self.frame, self.privacy
        model.releases_, model.run_ = (), None
        model.n_features_in_ = self.frame.columns
        model.feature_names_in_ = np.array(self.frame.feature_names, dtype=object)
        model.columns_in_ = self.frame.column_names
        if isinstance(model, LogisticRegression):
            model.threshold = self.threshold
            model.classes_ = np.array(self.frame.label.classes)
            model.coef_, model.intercept_ = self.weights, self.offsets
        elif isinstance(model, LinearRegression):
            model.coef_, model.intercept_ = self.weights[0], float(self.offsets[0])
        else:
            model.components_, model.mean_ = self.weights, self.offsets
            model.n_components_ = len(self.weights)
        return model

    def _data(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "kind": self.kind,
            "method": self.method,
            "run": self.run,
            "party": self.party,
            "encoders": [
                {"party": party, "encoder": encoder.to_data()} for party, encoder in self.frame.encoders
            ],
            "label": self.frame.label.to_data(),
            "attributes": self.frame.attributes,
            "features": list(self.frame.feature_names),
            "weights": self.weights.tolist(),
            "offsets": self.offsets.tolist(),
            "threshold": self.threshold,
            "privacy": guarantees_to_data(self.privacy),
            "statement": str(self.privacy) if self.party is None else f"{UNCOVERED}\n{self.privacy}",
            "reproducible": self.privacy.reproducible,
        }

    @classmethod
    def _of(cls, data: dict[str, Any]) -> ModelFile:
        frame = Frame(
            tuple((item["party"], Encoder.from_data(item["encoder"])) for item in data["encoders"]),
            LabelBlock.from_data(data["label"]),
            data["attributes"],
        )
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
            privacy=Privacy(guarantees_from_data(data["privacy"]), reproducible=bool(data["reproducible"])),
            method=str(data["method"]),
            run=str(data["run"]),
            threshold=float(data["threshold"]),
            party=data["party"],
        )


def model_file(model: LogisticRegression | LinearRegression | PCA, *, method: str, run: str) -> ModelFile:
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


def _digest(data: dict[str, Any]) -> str:
    text = json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
