"""The one-shot baseline: noisy columns once, then whatever the active party computes from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from colonnade.methods.glm.losses import Loss, chosen_loss
from colonnade.methods.glm.models import linear_model, solve_parts
from colonnade.methods.glm.rows import CONSTANT
from colonnade.methods.method import Array, Method, NoiseSummary, TrainedModel
from colonnade.methods.one_shot.protocol import (
    NoisyColumns,
    NoisyColumnsPlan,
    OneShotOptions,
    block_of,
    noisy_columns_session,
)
from colonnade.models.files.document import Privacy
from colonnade.planning.cost import Pilot, in_blocks, in_rows, kept, product
from colonnade.protocols.plans import TrainingSpec, options_of

_SHIFT = 0.25
KEPT = (
    "The active party has all the weights and has told nobody: they are made with its own exact columns and labels, "
    "which no guarantee here covers."
)


def model(spec: TrainingSpec, results: Mapping[str, NoisyColumns]) -> TrainedModel:
    """All weights, where the active party is here, which made them; elsewhere none."""
    options = options_of(spec, OneShotOptions)
    loss, first = chosen_loss(spec, options), next(iter(results.values()))
    plan = first.plan
    label = next(schema.label for schema in plan.schemas if schema.label is not None)
    weights = fitted_once(results[plan.active], loss, options) if plan.active in results else {}
    privacy = Privacy(plan.guarantees, reproducible=first.reproducible)
    trained = linear_model(plan.clipped, loss, label, weights, privacy=privacy, notes=(KEPT,))
    return replace(trained, holder=plan.active)


def fitted_once(received: NoisyColumns, loss: Loss, options: OneShotOptions) -> dict[str, Array]:
    """What the active party learns from the noisy columns it received and its own: weights by owner."""
    plan, table = received.plan, received.aligned
    if table is None or table.schema.label is None:
        raise ValueError("only the active party can fit")
    blocks = list(table.blocks())
    own = np.concatenate([plan.clipped.of(plan.active, block) for block in blocks])
    labels = np.concatenate([block.label for block in blocks if block.label is not None])
    noisy = np.concatenate([received.columns[owner] for owner in plan.passive], axis=1)
    widths = [plan.clipped.encoders[owner].width for owner in plan.passive]
    deviations = np.repeat([plan.sigma(owner) for owner in plan.passive], widths)
    typical = [
        plan.clipped.cap(owner) ** 2 / width for owner, width in zip(plan.passive, widths, strict=True)
    ]
    guessed = calibrated(own, noisy, deviations, typical=np.repeat(typical, widths))
    pieces = np.split(guessed, np.cumsum(widths)[:-1], axis=1)
    parts = {**dict(zip(plan.passive, pieces, strict=True)), plan.active: own}
    targets = loss.targets(table.schema.label, labels)
    weights = solve_parts(parts, targets, active=plan.active, loss=loss, penalty=options.penalties())
    for owner in plan.passive:
        part = weights[owner]
        # Noise also hides where the columns' means lie; longer weights would shift every score by more than this.
        most = min(options.radius, _SHIFT * math.sqrt(plan.rows) / plan.sigma(owner))
        weights[owner] = part * min(1.0, most / max(float(np.linalg.norm(part)), 1e-300))
        # What is cut off was part of the mean score, which the constant keeps.
        centre = parts[owner].mean(axis=0)
        weights[plan.active][-1] += float(centre @ (part - weights[owner])) / CONSTANT
    return weights


def calibrated(own: Array, noisy: Array, deviations: Array, *, typical: Array) -> Array:
    """The best linear guess at rows that arrived with noise, given one's own (regression calibration).

    In directions whose variance the noise hides the guess takes the `typical` variance of an entry, which is public.
    """
    seen = np.concatenate((own, noisy), axis=1)
    centre = seen.mean(axis=0)
    spread = np.cov(seen - centre, rowvar=False).reshape(seen.shape[1], seen.shape[1])
    start, ratio = own.shape[1], noisy.shape[1] / len(noisy)
    # Scaled so that noise has variance 1 everywhere; Marchenko and Pastur's edge is (1 + √(d/n))².
    scaled = spread[start:, start:] / np.outer(deviations, deviations)
    values, vectors = np.linalg.eigh(scaled)
    usual = np.einsum("ij,i->j", vectors**2, typical / deviations**2)
    true = np.where(values > (1 + np.sqrt(ratio)) ** 2, values - 1.0, usual)
    covariance = (vectors * true) @ vectors.T * np.outer(deviations, deviations)
    with_true = np.concatenate((spread[:start, start:], covariance))
    spread[start:, start:] = covariance + np.diag(deviations**2)
    ridge = 1e-9 * max(float(np.trace(spread)) / len(spread), 1e-12)
    weights = np.linalg.solve(spread + ridge * np.eye(len(spread)), with_true)
    return np.asarray(centre[start:] + (seen - centre) @ weights)


def pilots(plan: NoisyColumnsPlan) -> tuple[Pilot, ...]:
    block = min(block_of(plan, owner) for owner in plan.passive)
    if plan.rows >= 3 * block:
        return in_blocks(plan, block)
    cells = sum(encoder.width for encoder in plan.clipped.encoders.values())
    return product([in_rows(plan.rows, cells)], lambda rows: kept(plan, replace(plan, rows=rows)))


METHOD = Method(
    name="one-shot",
    title="noisy columns, sent once to the active party",
    tasks=("classification", "regression"),
    options=OneShotOptions,
    session=lambda _requested: noisy_columns_session,
    model=model,
    checks=(),
    scores=None,
    resumable=False,
    pilots=pilots,
    noise=lambda plan: NoiseSummary(max(map(plan.sigma, plan.passive)), "every value of every person"),
    kernel="draws",
)
