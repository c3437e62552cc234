"""The programs that a job may ask a federation between machines for, each by the name of its method.

They are part of the installed package: a job names one, and no code travels with it.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.errors import ColonnadeError, JobError
from colonnade.learn.federation import released
from colonnade.learn.fitting import NoiseWarning
from colonnade.learn.jobs import Job
from colonnade.learn.method_slr import as_log_odds
from colonnade.learn.training import learnt_facts, model_for
from colonnade.protocols.encrypted_gradient import Descended, encrypted_session
from colonnade.protocols.gradient_session import TrainedWeights, gradient_session
from colonnade.protocols.intermediate_results import TrainedPart, intermediate_session
from colonnade.protocols.moments_session import OpenedMoments, moments_session
from colonnade.runtime.run import Program


@dataclass(frozen=True)
class Installed:
    """What the members of a job run, and how a member keeps what came of it.

    `keep` writes to the member's own folder and returns facts that the member may show. A run of many steps is kept
    `resumable`; a short one starts again.
    """

    session: Program
    keep: Callable[[Job, Any, str, Path], dict[str, Any]]
    resumable: bool


def _keep_moments(job: Job, opened: OpenedMoments, member: str, folder: Path) -> dict[str, Any]:
    """The release in `release.npz`, which whoever has it may fit models from; the job's own model as facts."""
    if not opened.matrix.size:
        return {}
    release = released(opened)
    release.save(folder / "release.npz")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NoiseWarning)
        try:
            facts = learnt_facts(model_for(job, release).fit(release), release)
        except ColonnadeError as error:
            return {"failure": str(error)}
    return facts | {"notes": [str(warning.message) for warning in caught]}


def _keep_weights(job: Job, trained: TrainedWeights, member: str, folder: Path) -> dict[str, Any]:
    """The published weights."""
    if not trained.weights.size:
        return {}
    coefficients, intercept = as_log_odds(trained.weights, trained.plan)
    names = [name for encoder in trained.plan.encoders.values() for name in encoder.feature_names]
    return _written(folder, {"features": names, "coefficients": coefficients, "intercept": intercept})


def _keep_part(job: Job, trained: TrainedPart, member: str, folder: Path) -> dict[str, Any]:
    """This owner's own weights, which nobody else has."""
    if trained.weights is None:
        return {}
    names = list(trained.plan.clipped.encoders[member].feature_names)
    if member == trained.plan.active:
        names.append("constant")
    return _written(
        folder, {"features": names, "weights": trained.weights, "kept": trained.kept, "split": True}
    )


def _keep_own_weights(job: Job, trained: Descended, member: str, folder: Path) -> dict[str, Any]:
    """This owner's own weights, which nobody else has."""
    if not trained.weights.size:
        return {}
    names = list(trained.plan.encoders[member].feature_names)
    return _written(folder, {"features": names, "weights": trained.weights, "split": True})


def _written(folder: Path, facts: dict[str, Any]) -> dict[str, Any]:
    plain = {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in facts.items()}
    (folder / "weights.json").write_text(json.dumps(plain, indent=1, ensure_ascii=False), encoding="utf-8")
    return plain


PROGRAMS: Mapping[str, Installed] = {
    "moments": Installed(moments_session, _keep_moments, resumable=False),
    "slr": Installed(gradient_session, _keep_weights, resumable=True),
    "intermediate": Installed(intermediate_session, _keep_part, resumable=True),
    "encrypted": Installed(encrypted_session, _keep_own_weights, resumable=False),
}


def program_of(job: Job) -> Installed:
    """The program of a job's method, or `JobError`.

    >>> program_of(Job.parse('name = "n"\\ntask = "pca"\\nparties = ["a", "b"]\\nepsilon = 1.0')).session.__name__
    'moments_session'
    """
    if job.method not in PROGRAMS:
        raise JobError(
            f"{job.path}, method: {job.method!r} does not run between machines; {', '.join(PROGRAMS)} do. "
            "Use `colonnade train` in one process."
        )
    return PROGRAMS[job.method]
