"""Margin: a linear classifier by noisy margin descent over everybody, two or more owners."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from colonnade.data.table import Table
from colonnade.methods.margin.plan import MarginOptions, MarginPlan
from colonnade.methods.margin.protocol import MarginTrained, ideal_margin, margin_session
from colonnade.methods.method import Array, LinearModel, Method, NoiseSummary, TrainedModel
from colonnade.models.files.document import Privacy
from colonnade.models.inputs import InputSpec
from colonnade.numbers.threads import one_thread
from colonnade.planning.cost import Axis, Pilot, kept, product
from colonnade.protocols.plans import TrainingSpec
from colonnade.randomness import Randomness


def model(_requested: TrainingSpec, results: Mapping[str, MarginTrained]) -> TrainedModel | None:
    trained = next((trained for trained in results.values() if trained.weights.size), None)
    if trained is None:
        return None
    return linear_model(trained.weights, trained.counts, trained.plan, reproducible=trained.reproducible)


def twin(plan: MarginPlan, tables: Mapping[str, Table], randomness: Randomness) -> TrainedModel:
    with one_thread():
        descent = ideal_margin(plan, tables, randomness)
    return linear_model(descent.model, descent.counts, plan, reproducible=False)


def linear_model(weights: Array, counts: Array, plan: MarginPlan, *, reproducible: bool) -> LinearModel:
    coefficients, intercepts = as_scores(weights, plan)
    notes = (
        f"Trained in {plan.schedule.steps} steps over all {plan.rows} people, each a noisy gradient of a margin loss; "
        f"{float(plan.schedule.moments_share):.0%} of the budget went into second moments, which shape the steps.",
    )
    return LinearModel(
        coefficients,
        intercepts,
        counts=counts if plan.heads > 1 else np.array([plan.rows - counts[0], counts[0]]),
        frame=InputSpec(tuple(plan.encoders.items()), plan.label),
        privacy=Privacy(plan.guarantees, reproducible=reproducible),
        notes=notes,
    )


def as_scores(weights: Array, plan: MarginPlan) -> tuple[Array, Array]:
    """Rows are divided by √(m + 1), features by √m; the constant is the last of its holder's part."""
    coefficients, intercepts, start = [], np.zeros(plan.heads), 0
    for owner, width in plan.widths.items():
        features = plan.encoders[owner].width
        coefficients.append(weights[start : start + features])
        if width > features:
            intercepts = weights[start + features] * (plan.constant / plan.gamma)
        start += width
    scale = math.sqrt((plan.attributes - 1) / plan.attributes)
    return np.concatenate(coefficients).T * scale, intercepts


def pilots(plan: MarginPlan) -> tuple[Pilot, ...]:
    blocks, rest = divmod(plan.rows, plan.block)

    def at(steps: int, count: int) -> MarginPlan:
        schedule = replace(plan.schedule, steps=steps)
        shorter = replace(plan, rows=count * plan.block + rest, schedule=schedule)
        return kept(plan, shorter, "field", "noise", "moments_noise")

    return product([Axis(plan.schedule.steps, 2, 6), Axis(blocks, 2, 6)], at)


METHOD = Method(
    name="margin",
    title="noisy margin descent",
    tasks=("classification",),
    options=MarginOptions,
    session=lambda _requested: margin_session,
    model=model,
    checks=("rows", "products"),
    scores="released weights",
    resumable=True,
    pilots=pilots,
    noise=lambda plan: NoiseSummary(plan.deviation / plan.rows, "an entry of each step's mean gradient"),
    kernel="products",
    twin=twin,
)
