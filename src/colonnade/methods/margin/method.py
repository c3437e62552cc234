"""Margin: a linear classifier by noisy margin descent over everybody, two or more owners."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from colonnade.data.table import Table
from colonnade.errors import PlanError
from colonnade.forecast.pilots import Axis, Pilot, kept, product
from colonnade.methods.margin.curve import HARMONICS
from colonnade.methods.margin.ideal import ideal_margin
from colonnade.methods.margin.plan import MOST_STEPS, MarginPlan, Schedule
from colonnade.methods.margin.request import MarginRequest
from colonnade.methods.margin.session import MarginTrained, margin_session
from colonnade.methods.method import (
    LinearModel,
    Method,
    Noise,
    TrainedModel,
    TrainingSpec,
    options_of,
    plan_views,
)
from colonnade.methods.moments.plan import DEFAULT_GAMMA as JOB_GAMMA
from colonnade.models.class_weights import ClassOptions
from colonnade.models.input_spec import InputSpec
from colonnade.models.privacy import Privacy
from colonnade.numbers.threads import one_thread
from colonnade.protocols.alignment import Alignment
from colonnade.randomness import Randomness

Array = NDArray[np.float64]

CHECKED_HARMONICS = 3
"""Where owners' rows are bounded by their norm, |r| is charged as a₀ + Σ√(a_j² + b_j²): .538 of three harmonics, .613
of six, for about the same accuracy."""


class MarginOptions(ClassOptions):
    """How the training goes: nothing must be chosen, and nothing is by looking at the data.

    `steps` gradients are opened, of a curve of so many `harmonics`; second moments take `moments_share` of the budget.
    Half the steps cost half the time and about a thousandth of accuracy. Left out there are 6 harmonics, and 3 where
    what is dealt is checked: there fewer need less noise and less time. `gamma` is the grid of the rows.
    """

    steps: Annotated[int, Field(ge=1, le=MOST_STEPS)] = 20
    harmonics: Annotated[int, Field(ge=HARMONICS[0], le=HARMONICS[-1])] | None = None
    moments_share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    gamma: Annotated[int, Field(ge=4)] | None = None


def request(asked: TrainingSpec, alignment: Alignment, _public: tuple[str, ...] = ()) -> MarginRequest:
    options = options_of(asked, MarginOptions)
    if asked.gamma != JOB_GAMMA:
        raise PlanError(
            f"gamma = {asked.gamma} is the grid of a moment release; margin has its own. Write it under [options]."
        )
    share = Fraction(options.moments_share).limit_denominator(10**6)
    harmonics = options.harmonics or (CHECKED_HARMONICS if asked.verify == "all" else Schedule().harmonics)
    return MarginRequest(
        epsilon=asked.epsilon,
        schedule=Schedule(options.steps, harmonics, share),
        delta=asked.delta,
        accepted_delta=asked.accepted_delta,
        gamma=options.gamma,
        verify=asked.verify,
        alignment=alignment,
    )


def model(_asked: TrainingSpec, results: Mapping[str, MarginTrained]) -> TrainedModel | None:
    trained = next((trained for trained in results.values() if trained.weights.size), None)
    if trained is None:
        return None
    return linear_model(trained.weights, trained.counts, trained.plan, reproducible=trained.reproducible)


def twin(plan: MarginPlan, tables: Mapping[str, Table], randomness: Randomness) -> TrainedModel:
    """What the protocol would learn, in one place and with the same noise: for forecasts on invented people."""
    with one_thread():
        descent = ideal_margin(plan, tables, randomness)
    return linear_model(descent.model, descent.counts, plan, reproducible=False)


def linear_model(weights: Array, counts: Array, plan: MarginPlan, *, reproducible: bool) -> LinearModel:
    """The model of these weights; `counts` are of each head's class."""
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
    """Coefficients on features of norm at most 1, and the intercepts, one row for each head.

    Training rows are divided by √(m + 1), the model's features by √m; the constant is the last of its holder's part.
    """
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


def noise(plan: MarginPlan) -> Noise:
    """What every step carries."""
    return Noise(plan.deviation / plan.rows, "an entry of each step's mean gradient")


METHOD = Method(
    name="margin",
    title="noisy margin descent",
    tasks=("classification",),
    options=MarginOptions,
    request=request,
    session=lambda _asked: margin_session,
    model=model,
    views=plan_views,
    checks=("rows", "products"),
    scores="released weights",
    resumable=True,
    pilots=pilots,
    noise=noise,
    kernel="products",
    twin=twin,
)
