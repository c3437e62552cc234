"""SLR: logistic regression trained step by step on noisy gradients over secret batches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from colonnade.federation.federation import Federation
from colonnade.forecast.pilots import Axis, Pilot, in_rows, kept, product
from colonnade.methods.method import LinearModel, Method, Noise, TrainedModel, plan_views
from colonnade.methods.slr.optimiser import Optimiser
from colonnade.methods.slr.paper import paper_slr
from colonnade.methods.slr.plan import GradientPlan, SlrOptions
from colonnade.methods.slr.session import TrainedWeights, gradient_session
from colonnade.models.input_spec import InputSpec
from colonnade.models.privacy import Privacy
from colonnade.protocols.specs import TrainingSpec, check_job_gamma, options_of

_Positive = Annotated[float, Field(gt=0)]


def as_in_the_paper(federation: Federation, asked: TrainingSpec) -> TrainedModel:
    """The paper's three releases, simulated on public data."""
    check_job_gamma(
        asked, "is the grid of a moment release; gradients have their own. Write it under [options]."
    )
    options = options_of(asked, SlrOptions)
    return paper_slr(
        federation,
        asked,
        epochs=options.epochs,
        rate=options.rate,
        weight_cap=options.weight_cap,
        gamma=options.gamma,
        optimiser=Optimiser(options.optimiser, options.learning_rate, options.average),
    )


def model(_asked: TrainingSpec, results: Mapping[str, TrainedWeights]) -> TrainedModel | None:
    trained = next((trained for trained in results.values() if trained.weights.size), None)
    if trained is None:
        return None
    plan = trained.plan
    coefficients, intercept = as_log_odds(trained.weights, plan)
    notes = (
        f"Trained in {plan.schedule.steps} steps on secret batches of about "
        f"{float(plan.rows * plan.schedule.rate):.0f} of {plan.rows} people, dealt as {plan.capacity} rows each.",
        f"Parties know the batches: for them nobody is in more than {plan.uses} of them.",
    )
    return LinearModel(
        coefficients[None, :],
        np.array([intercept]),
        frame=InputSpec(tuple(plan.encoders.items()), plan.label),
        privacy=Privacy(plan.guarantees, reproducible=trained.reproducible),
        notes=notes,
    )


def pilots(plan: GradientPlan) -> tuple[Pilot, ...]:
    def at(steps: int, rows: int) -> GradientPlan:
        fewer = replace(plan, rows=rows)
        shorter = replace(fewer, schedule=replace(plan.schedule, steps=steps))
        # Batches are as large as in the whole run, whose many steps make them so.
        shorter.__dict__.update(capacity=fewer.capacity, uses=fewer.uses)
        return kept(plan, shorter, "field")

    axis = replace(in_rows(plan.rows, plan.size), place=lambda rows: float(replace(plan, rows=rows).capacity))
    return product([Axis(plan.schedule.steps, 4, 24), axis], at)


def noise(plan: GradientPlan) -> Noise:
    """What every step carries."""
    expected = float(plan.rows * plan.schedule.rate)
    deviation = math.sqrt(plan.dealt_noise.total_variance(plan.group)) / (4.0 * plan.gamma**3 * expected)
    return Noise(deviation, "an entry of each step's mean gradient")


def as_log_odds(weights: NDArray[np.float64], plan: GradientPlan) -> tuple[NDArray[np.float64], float]:
    """Coefficients on features of norm at most 1, and the intercept.

    Training rows are divided by √(m + 1), the model's features by √m; the constant is the last of its holder's part.
    """
    coefficients, intercept, start = [], 0.0, 0
    for owner, width in plan.widths.items():
        features = plan.encoders[owner].width
        coefficients.append(weights[start : start + features])
        if width > features:
            intercept = float(weights[start + features]) * plan.constant / plan.gamma
        start += width
    scale = math.sqrt((plan.attributes - 1) / plan.attributes)
    return np.concatenate(coefficients) * scale, intercept


METHOD = Method(
    name="slr",
    title="SLR, noisy gradients",
    tasks=("classification",),
    options=SlrOptions,
    session=lambda _asked: gradient_session,
    model=model,
    views=plan_views,
    checks=("rows",),
    scores="released weights",
    resumable=True,
    pilots=pilots,
    noise=noise,
    kernel="products",
    paper=as_in_the_paper,
)
