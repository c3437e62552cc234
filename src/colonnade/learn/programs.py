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

from colonnade.data.table import Table
from colonnade.errors import ColonnadeError, JobError
from colonnade.learn.federation import released
from colonnade.learn.fitting import NoiseWarning
from colonnade.learn.glm_options import chosen_loss
from colonnade.learn.jobs import Job
from colonnade.learn.method import LearntLinear
from colonnade.learn.method_functional import FunctionalOptions, objective_model
from colonnade.learn.method_local import perturbed_model, perturbed_release
from colonnade.learn.method_one_shot import fitted_once, one_shot_options
from colonnade.learn.method_slr import as_log_odds
from colonnade.learn.networks.extra import need_networks
from colonnade.learn.release import MomentRelease
from colonnade.learn.training import learnt_facts, model_for
from colonnade.protocols.encrypted_gradient import Descended, encrypted_session
from colonnade.protocols.functional_mechanism import OpenedObjective, functional_session
from colonnade.protocols.gradient_session import TrainedWeights, gradient_session
from colonnade.protocols.intermediate_results import TrainedPart, intermediate_session
from colonnade.protocols.local_perturbation import PerturbedMoments, local_session
from colonnade.protocols.moments_session import OpenedMoments, moments_session
from colonnade.protocols.noisy_columns import NoisyColumns, noisy_columns_session
from colonnade.runtime.party import Party
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
    """The release, and the job's own model as facts."""
    return _keep_release(job, released(opened), folder) if opened.matrix.size else {}


def _keep_release(job: Job, release: MomentRelease, folder: Path) -> dict[str, Any]:
    """The release in `release.npz`, which whoever has it may fit models from; the job's own model as facts."""
    release.save(folder / "release.npz")
    return _fitted(job, release)


def _fitted(job: Job, found: MomentRelease | LearntLinear) -> dict[str, Any]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NoiseWarning)
        try:
            facts = learnt_facts(model_for(job, found).fit(found), found)
        except ColonnadeError as error:
            return {"failure": str(error)}
    notes = found.notes if isinstance(found, LearntLinear) else ()
    return facts | {"notes": [*notes, *(str(warning.message) for warning in caught)]}


def _keep_objective(job: Job, opened: OpenedObjective, member: str, folder: Path) -> dict[str, Any]:
    """The model at the minimum of the objective, which every owner and the server have."""
    if not opened.coefficients.size or not isinstance(job.asked.options, FunctionalOptions):
        return {}
    try:
        found = objective_model(opened, job.asked.options)
    except ColonnadeError as error:
        return {"failure": str(error)}
    return _written(folder, _fitted(job, found))


def _keep_perturbed(job: Job, found: PerturbedMoments, member: str, folder: Path) -> dict[str, Any]:
    """What the perturbed rows allow: a release for components, otherwise a model."""
    if not found.matrix.size:
        return {}
    if job.task == "pca":
        return _keep_release(job, perturbed_release(found), folder)
    return _written(folder, _fitted(job, perturbed_model(found)))


def _keep_once(job: Job, received: NoisyColumns, member: str, folder: Path) -> dict[str, Any]:
    """At the active party its weights on everybody's columns, as each owner scales them; nothing elsewhere."""
    if member != received.plan.active:
        return {}
    options = one_shot_options(job.asked)
    weights, _ = fitted_once(received, chosen_loss(job.asked, options), options)
    names = {owner: list(encoder.feature_names) for owner, encoder in received.plan.clipped.encoders.items()}
    names[member].append("constant")
    return _written(
        folder,
        {
            "features": [name for owner in weights for name in names[owner]],
            "weights": np.concatenate(list(weights.values())),
            "split": True,
        },
    )


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
    return _written(folder, {"features": names, "weights": trained.weights, "split": True})


def _keep_own_weights(job: Job, trained: Descended, member: str, folder: Path) -> dict[str, Any]:
    """This owner's own weights, which nobody else has."""
    if not trained.weights.size:
        return {}
    names = list(trained.plan.encoders[member].feature_names)
    return _written(folder, {"features": names, "weights": trained.weights, "split": True})


def _network_session(job: Job) -> Program:
    async def session(party: Party, table: Table | None, request: Any) -> Any:
        # It needs PyTorch, which nothing else does, and whoever submits a job need not have it.
        need_networks()
        from colonnade.learn.program_network import run_network

        return await run_network(job, party, table, request)

    return session


def _keep_network(job: Job, trained: Any, member: str, folder: Path) -> dict[str, Any]:
    from colonnade.learn.program_network import keep_network

    return keep_network(job, trained, member, folder)


def _written(folder: Path, facts: dict[str, Any]) -> dict[str, Any]:
    plain = {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in facts.items()}
    (folder / "weights.json").write_text(json.dumps(plain, indent=1, ensure_ascii=False), encoding="utf-8")
    return plain


PROGRAMS: Mapping[str, Installed] = {
    "moments": Installed(moments_session, _keep_moments, resumable=False),
    "slr": Installed(gradient_session, _keep_weights, resumable=True),
    "intermediate": Installed(intermediate_session, _keep_part, resumable=True),
    "encrypted": Installed(encrypted_session, _keep_own_weights, resumable=True),
    "functional": Installed(functional_session, _keep_objective, resumable=False),
    "spca": Installed(moments_session, _keep_moments, resumable=False),
    "local": Installed(local_session, _keep_perturbed, resumable=False),
    "one-shot": Installed(noisy_columns_session, _keep_once, resumable=False),
}
NETWORK = "network"


def program_of(job: Job) -> Installed:
    """The program of a job's method, or `JobError`.

    >>> program_of(Job.parse('name = "n"\\ntask = "pca"\\nparties = ["a", "b"]\\nepsilon = 1.0')).session.__name__
    'moments_session'
    """
    if job.method == NETWORK:
        return Installed(_network_session(job), _keep_network, resumable=True)
    if job.method not in PROGRAMS:
        raise JobError(
            f"{job.path}, method: {job.method!r} does not run between machines; {', '.join((*PROGRAMS, NETWORK))} do. "
            "Use `colonnade train` in one process."
        )
    return PROGRAMS[job.method]
