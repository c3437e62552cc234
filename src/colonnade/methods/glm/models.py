"""Generalised linear models solved where somebody may look at all rows, and weights on clipped rows as models."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from colonnade.data.labels import Label, LabelBlock
from colonnade.methods.glm.losses import Gamma, Loss, Penalty
from colonnade.methods.glm.rows import CONSTANT, ClippedRows
from colonnade.methods.method import LOG_LINK, Array, LinearModel, in_label_units
from colonnade.models.files.document import Privacy
from colonnade.models.inputs import InputSpec
from colonnade.numbers.threads import few_threads


def solve(features: Array, targets: Array, *, loss: Loss, penalty: Penalty) -> Array:
    """The last weight is not penalised; positive and negative parts make ‖w‖₁ smooth between bounds (L-BFGS-B)."""
    rows, width = features.shape
    last = width - 1
    parts = 2 if penalty.l1 else 1

    def joined(point: Array) -> Array:
        return point[:width] - point[width:] if parts == 2 else point

    def objective(point: Array) -> tuple[float, Array]:
        weights = joined(point)
        scores = features @ weights
        gradient = loss.residual(scores, targets) @ features / rows
        gradient[:last] += penalty.l2 * weights[:last]
        value = float(loss.value(scores, targets).mean()) + penalty.l2 / 2 * float(
            weights[:last] @ weights[:last]
        )
        if parts == 1:
            return value, gradient
        slope = np.concatenate((np.full(last, penalty.l1), np.zeros(1)))
        value += penalty.l1 * float(np.abs(point[:last]).sum() + np.abs(point[width : width + last]).sum())
        return value, np.concatenate((gradient + slope, slope - gradient))

    from scipy.optimize import minimize

    bounds = None if parts == 1 else [(0.0, None)] * (2 * width)
    with few_threads(features.size):
        solution = minimize(
            objective,
            np.zeros(parts * width),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": 5000, "maxfun": 20000, "ftol": 1e-13, "gtol": 1e-8},
        )
    return joined(np.asarray(solution.x))


def solve_parts(
    parts: Mapping[str, Array], targets: Array, *, active: str, loss: Loss, penalty: Penalty
) -> dict[str, Array]:
    order = [*(owner for owner in parts if owner != active), active]
    constant = np.full((len(targets), 1), CONSTANT)
    features = np.concatenate([*(parts[owner] for owner in order), constant], axis=1)
    ends = np.cumsum([parts[owner].shape[1] for owner in order[:-1]])
    solution = solve(features, targets, loss=loss, penalty=penalty)
    return dict(zip(order, np.split(solution, ends), strict=True))


LOG_NOTE = "Coefficients and intercept give the logarithm of the expected label: the link is log."


def linear_model(
    rows: ClippedRows,
    loss: Loss,
    label: Label,
    weights: Mapping[str, Array],
    *,
    privacy: Privacy,
    notes: tuple[str, ...],
    split: bool = True,
) -> LinearModel:
    """The model of weights on clipped rows, as coefficients on features, from weights and public plan alone.

    A row that clipping leaves as it is has the score that it had in training; a longer one has a longer score, because
    what clipping took is the owner's to know (docs/private-messages.md). The intercept is 0 without the active party.
    """
    here = {owner: encoder for owner, encoder in rows.encoders.items() if owner in weights}
    frame = InputSpec(tuple(here.items()), LabelBlock(label), rows.attributes)
    parts = [weights[owner][: len(weights[owner]) - (owner == rows.active)] for owner in here]
    # Features of a frame are divided by √m, clipped rows are also stretched and divided by √2.
    scale = rows.scale * math.sqrt(rows.attributes)
    coefficients = np.concatenate([np.zeros(0), *parts])[None, :] * scale
    here_too = rows.active in weights
    intercepts = weights[rows.active][-1:] * CONSTANT if here_too else np.zeros(1)
    if loss.task == "regression" and loss.name not in LOG_LINK:
        coefficients, units = in_label_units(frame.label, coefficients, intercepts)
        intercepts = units if here_too else intercepts
    elif isinstance(loss, Gamma) and here_too:
        intercepts = intercepts + math.log(loss.unit(label))
    if loss.name in LOG_LINK:
        notes = (*notes, LOG_NOTE)
    return LinearModel(
        coefficients, intercepts, loss.name, frame=frame, privacy=privacy, split=split, notes=notes
    )
