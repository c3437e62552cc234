"""Local perturbation: every party's columns with noise of their own, and whatever model that still allows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from colonnade.methods.baselines.gathering import release_of
from colonnade.methods.local.protocol import LocalOptions, PerturbedMoments, local_session
from colonnade.methods.method import LinearModel, Method, NoiseSummary, TrainedModel, in_label_units
from colonnade.models.files.document import Privacy
from colonnade.models.inputs import InputSpec
from colonnade.models.release import MomentRelease
from colonnade.planning.cost import in_blocks
from colonnade.protocols.plans import TrainingSpec


def model(spec: TrainingSpec, results: Mapping[str, PerturbedMoments]) -> MomentRelease | TrainedModel | None:
    """Moments of perturbed rows for components; otherwise the linear model that fits the perturbed rows best."""
    perturbed = next((perturbed for perturbed in results.values() if perturbed.matrix.size), None)
    if perturbed is None:
        return None
    return perturbed_release(perturbed) if spec.task == "pca" else perturbed_model(perturbed)


def perturbed_release(perturbed: PerturbedMoments) -> MomentRelease:
    """The published moments without what noise adds to the diagonal on average, nσ²; the constant is known exactly.

    `mu` is such that 2s√d is again the largest eigenvalue that noise alone shows, σ²(√n + √d)² − nσ² here, with at most
    2σ²·n‖z‖²/d more of variance in an entry from noise times rows.
    """
    plan = perturbed.plan
    columns, variance = plan.columns, plan.sigma_squared
    one, edge = columns.label.constant(columns.gamma), plan.size
    matrix = np.zeros((edge + 1, edge + 1), dtype=np.int64)
    matrix[:edge, :edge] = perturbed.matrix - np.diag(np.full(edge, round(plan.rows * variance)))
    matrix[edge, :edge] = matrix[:edge, edge] = one * perturbed.sums
    matrix[edge, edge] = plan.rows * one**2
    bound = plan.bound_of_all_but(None) / plan.size
    entry = math.sqrt(plan.rows * float(variance) * (float(variance) + 2 * bound))
    spread = entry + float(variance) * math.sqrt(plan.size) / 2
    return release_of(
        columns,
        matrix,
        mu=Fraction(spread**2),
        guarantees=plan.guarantees,
        origin=(plan.hash, perturbed.run),
        reproducible=perturbed.reproducible,
    )


def perturbed_model(perturbed: PerturbedMoments) -> LinearModel:
    """Least squares on the perturbed rows as they are: for classes, where the second-order logistic loss is least."""
    columns, rows = perturbed.plan.columns, perturbed.plan.rows
    edge, label = sum(columns.widths.values()), columns.label
    one = float(label.constant(columns.gamma))
    # One target for two classes, one for each of more, and the last column of the block for a number.
    targets = np.eye(label.width)[1:] if label.width == 2 else np.eye(label.width)
    scales = np.concatenate([np.full(edge, columns.gamma), np.full(label.width, one)])
    means = perturbed.sums / scales / rows
    scatter = perturbed.matrix / np.outer(scales, scales) - rows * np.outer(means, means)
    inside = scatter[:edge, :edge]
    slopes = np.linalg.lstsq(inside, scatter[:edge, edge:] @ targets.T, rcond=None)[0].T
    offsets = targets @ means[edge:] - slopes @ means[:edge]
    if label.one_hot:
        # ½ + u/4 is the second-order probability at log-odds u.
        slopes, offsets = 4.0 * slopes, 4.0 * (offsets - 0.5)
    return LinearModel(
        *in_label_units(label, slopes, np.asarray(offsets)),
        frame=InputSpec(tuple(columns.encoders.items()), label),
        privacy=Privacy(perturbed.plan.guarantees, reproducible=perturbed.reproducible),
        notes=("Trained on rows that every party perturbed by itself: the baseline that trusts nobody.",),
    )


METHOD = Method(
    name="local",
    title="local perturbation",
    tasks=("classification", "regression", "pca"),
    options=LocalOptions,
    session=lambda _requested: local_session,
    model=model,
    checks=(),
    scores="released weights",
    resumable=False,
    pilots=lambda plan: in_blocks(plan, plan.columns.block),
    noise=lambda plan: NoiseSummary(
        math.sqrt(plan.sigma_squared) / plan.columns.gamma, "every value of every person"
    ),
    kernel="draws",
)
