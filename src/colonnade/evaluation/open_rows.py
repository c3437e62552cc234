"""People who were not trained on, all in one place: for exact scores on data that everybody declared public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.labels import LabelBlock
from colonnade.data.table import Table
from colonnade.errors import InputError
from colonnade.evaluation.estimates import ScoreDistribution, auc
from colonnade.methods.baselines.gathering import encoded_rows, label_values
from colonnade.methods.method import TrainedModel, frame_of
from colonnade.models.discriminant import class_codes
from colonnade.models.fitting import solve
from colonnade.models.inputs import InputSpec
from colonnade.models.linear import LinearRegression
from colonnade.models.pca import PCA
from colonnade.models.release import MomentRelease
from colonnade.protocols.plans import Task
from colonnade.randomness import public_permutation

Array = NDArray[np.float64]
DEFAULT_COMPONENTS = 2
METRICS: dict[Task, str] = {
    "classification": "accuracy",
    "regression": "mean squared error",
    "pca": "captured variance",
}
"""What a task is evaluated by."""


def split(tables: Sequence[Table], *, seed: int, share: float) -> tuple[list[Table], list[Table]]:
    """The people that all tables have in common, in two parts by a public seed: to train on, and to test on."""
    if not 0 < share < 1:
        raise InputError(f"a test share of {share:g} leaves nobody on one side. Give one between 0 and 1.")
    places = [{name: place for place, name in enumerate(table.ids())} for table in tables]
    common = [name for name in places[0] if all(name in other for other in places[1:])]
    tested = round(share * len(common))
    if not 0 < tested < len(common):
        raise InputError(
            f"{len(common)} people are common to {', '.join(table.party for table in tables)}: too few to split. "
            "Bring more, or see whether all use the same ids."
        )
    order = public_permutation(len(common), seed)
    parts = []
    for chosen in (order[tested:], order[:tested]):
        names = [common[place] for place in chosen]
        parts.append(
            [table.take([place[name] for name in names]) for table, place in zip(tables, places, strict=True)]
        )
    return parts[0], parts[1]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out people of all parties, and the score that a task is evaluated by."""

    task: Task
    tables: Sequence[Table]
    components: int | None = None

    def score(self, trained: TrainedModel | MomentRelease) -> float:
        return next(iter(self.figures(trained).values()))

    def figures(self, trained: TrainedModel | MomentRelease) -> dict[str, float]:
        """AUC, or R² and RMSE, stand beside it; of several classes the AUC is the mean over each against the rest."""
        if self.task == "pca":
            if not isinstance(trained, MomentRelease):
                raise TypeError("components are of a release")
            count = min(self.components or DEFAULT_COMPONENTS, trained.columns)
            directions = PCA(n_components=count).fit(trained).components_
            rows = self.features(frame_of(trained))
            centred = rows - rows.mean(axis=0)
            scatter = centred.T @ centred
            best = np.linalg.eigvalsh(scatter)[-count:].sum()
            captured = float(np.trace(directions @ scatter @ directions.T) / best) if best > 0 else 1.0
            return {METRICS["pca"]: captured}
        rows = self.features(frame_of(trained))
        if isinstance(trained, TrainedModel):
            scores = trained.scores(rows)
        elif self.task == "classification":
            _, solved = solve(trained)
            scores = rows @ solved.coefficients.T + solved.intercepts
        else:
            scores = LinearRegression().fit(trained).predict(rows)
        return self._figures(np.asarray(scores, dtype=np.float64).reshape(len(self.labels), -1))

    def constant_figures(self) -> dict[str, float]:
        """Of whoever always says the commonest class, or the mean."""
        if self.task == "pca":
            return {}
        if self.task == "regression":
            return self._figures(np.full((len(self.labels), 1), self.labels.mean()))
        counts = np.bincount(self.labels.astype(np.int64))
        return {METRICS["classification"]: float(counts.max() / len(self.labels)), "AUC": 0.5}

    def features(self, frame: InputSpec) -> Array:
        return encoded_rows(self.tables, frame.encoders, attributes=frame.attributes)

    @cached_property
    def labels(self) -> NDArray[Any]:
        return label_values(self.tables)

    def _figures(self, scores: Array) -> dict[str, float]:
        if self.task == "regression":
            return self._errors(scores[:, 0])
        figures = {METRICS["classification"]: float(np.mean(class_codes(scores) == self.labels))}
        classes = range(scores.shape[1]) if scores.shape[1] > 1 else (1,)
        present = [number for number in classes if 0 < np.mean(self.labels == number) < 1]
        areas = []
        for number in present:
            own, column = (self.labels == number).astype(np.int64), min(number, scores.shape[1] - 1)
            areas.append(auc(ScoreDistribution.of(scores[:, column], own)))
        return {**figures, "AUC": float(np.mean(areas))} if areas else figures

    def _errors(self, predicted: Array) -> dict[str, float]:
        label = next(table.schema.label for table in self.tables if table.schema.label is not None)
        low, high = LabelBlock(label).from_unit([-1.0, 1.0])
        square, variance = float(np.mean((predicted - self.labels) ** 2)), float(np.var(self.labels))
        errors = {METRICS["regression"]: square * (2.0 / (high - low)) ** 2}
        explained = {"R²": 1.0 - square / variance} if variance > 0 else {}
        return {**errors, **explained, "RMSE": square**0.5}
