"""From a job and its federation to a fitted model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.encoding import Encoder
from colonnade.data.table import Table
from colonnade.learn.federation import Federation
from colonnade.learn.jobs import Job
from colonnade.learn.linear import LinearRegression
from colonnade.learn.logistic import LogisticRegression
from colonnade.learn.pca import PCA
from colonnade.learn.release import MomentRelease


@dataclass(frozen=True, eq=False)
class Trained:
    """A model, what to show of it, and, on public data only, how good it is."""

    model: Any
    release: MomentRelease
    learnt: dict[str, Any]
    measured: dict[str, float] | None


def fit_job(job: Job, federation: Federation, *, public: bool) -> Trained:
    """Release the moments that a job asks for and fit its model.

    `public` says that every party declared its data public: then figures may be computed from rows.
    """
    release = federation.moments(
        task=job.task,
        epsilon=job.epsilon,
        delta=job.delta,
        accepted_delta=job.accepted_delta,
        gamma=job.gamma,
    )
    model = model_for(job, release).fit(release)
    measured = None
    if public and job.task != "pca":
        name = "accuracy on the training rows" if job.task == "classification" else "R² on the training rows"
        rows, labels = joined_rows(federation, release)
        measured = {name: float(model.score(rows, labels))}
    return Trained(model, release, learnt_facts(model, release), measured)


def model_for(job: Job, release: MomentRelease) -> LogisticRegression | LinearRegression | PCA:
    """The model that a job's task asks for, not fitted yet."""
    if job.task == "classification":
        return LogisticRegression()
    if job.task == "regression":
        return LinearRegression()
    return PCA(n_components=job.components or min(2, release.columns))


def learnt_facts(model: Any, release: MomentRelease) -> dict[str, Any]:
    """Coefficients or directions by feature, ready to be shown."""
    rows = np.atleast_2d(model.components_ if isinstance(model, PCA) else model.coef_)
    learnt: dict[str, Any] = {
        "features": list(release.feature_names),
        "coefficients": [[float(value) for value in row] for row in rows],
    }
    if isinstance(model, PCA):
        learnt["explained_variance"] = [float(value) for value in model.explained_variance_]
        learnt["learnable_rank"] = int(model.learnable_rank_)
    else:
        learnt["intercept"] = [float(value) for value in np.atleast_1d(model.intercept_)]
    if isinstance(model, LogisticRegression):
        moments = release.class_moments()
        learnt["classes"] = {
            name: float(count) for name, count in zip(release.label.classes, moments.counts, strict=True)
        }
    return learnt


def joined_rows(federation: Federation, release: MomentRelease) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """All parties' rows as features, and the labels: only for data that everybody declared public."""
    features = [_features(federation.tables[party], encoder) for party, encoder in release.encoders]
    scale = math.sqrt(sum(encoder.attributes for _, encoder in release.encoders))
    holder = federation.tables[str(federation.group.active)]
    values = np.concatenate([block.label for block in holder.blocks() if block.label is not None])
    return np.concatenate(features, axis=1) / scale, release.label.names(
        values
    ) if release.label.one_hot else values


def _features(table: Table, encoder: Encoder) -> NDArray[np.float64]:
    return np.concatenate([encoder.encode(block) for block in table.blocks()])
