"""SLR: logistic regression trained step by step on noisy gradients over secret batches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from colonnade.data.documents import Form
from colonnade.data.quantizer import Rounding
from colonnade.errors import OnlyForPublicData, PlanError
from colonnade.federation.federation import Federation
from colonnade.forecast.pilots import Axis, Pilot, in_rows, kept, product
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
from colonnade.methods.slr.optimiser import Optimiser, OptimiserName
from colonnade.methods.slr.paper import paper_slr
from colonnade.methods.slr.plan import DEFAULT_GAMMA, GradientPlan, schedule
from colonnade.methods.slr.request import GradientRequest
from colonnade.methods.slr.session import TrainedWeights, gradient_session
from colonnade.models.input_spec import InputSpec
from colonnade.models.privacy import Privacy
from colonnade.protocols.alignment import Alignment

_Positive = Annotated[float, Field(gt=0)]


class SlrOptions(Form):
    """How the training goes: chosen without the data, because a choice made by looking would cost budget.

    `epochs` times every record is used on average, `rate` of the records at a time; batches are padded so that they
    are cut with probability at most `overflow` in all (None: as much as a hundredth of δ pays for). Larger batches
    cost no more work and are far better for the parties, who know the batches. `weight_cap` bounds the weights on
    rows of norm 1; noise grows with ½ + cap/4.
    """

    epochs: _Positive = 10.0
    rate: Annotated[float, Field(gt=0, le=1)] = 0.1
    optimiser: OptimiserName = "momentum"
    learning_rate: _Positive = 16.0
    average: Annotated[float, Field(ge=0, le=1)] = 0.5
    weight_cap: _Positive = 8.0
    overflow: Annotated[float, Field(gt=0, lt=1)] | None = None
    gamma: Annotated[int, Field(ge=4)] = DEFAULT_GAMMA
    rounding: Rounding = "retry"
    calibration: Literal["sound", "paper"] = "sound"

    def request(self, asked: TrainingSpec, alignment: Alignment) -> GradientRequest:
        return GradientRequest(
            schedule=schedule(
                epochs=self.epochs,
                rate=self.rate,
                weight_cap=self.weight_cap,
                overflow=self.overflow,
                optimiser=Optimiser(self.optimiser, self.learning_rate, self.average),
            ),
            gamma=self.gamma,
            rounding=self.rounding,
            verify=asked.verify,
            **asked.target(alignment),
        )


def request(asked: TrainingSpec, alignment: Alignment, _public: tuple[str, ...] = ()) -> GradientRequest:
    """What the parties compare. The paper's own mode is a simulation and asks the parties for nothing."""
    options = _options(asked)
    if options.calibration == "paper":
        raise OnlyForPublicData(
            "calibration = 'paper' simulates the paper's formulas on public data; there is no plan of it."
        )
    return options.request(asked, alignment)


def as_in_the_paper(federation: Federation, asked: TrainingSpec) -> TrainedModel:
    """The paper's three releases, simulated on public data."""
    options = _options(asked)
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


def _options(asked: TrainingSpec) -> SlrOptions:
    options = options_of(asked, SlrOptions)
    if asked.gamma != JOB_GAMMA:
        raise PlanError(
            f"gamma = {asked.gamma} is the grid of a moment release; gradients have their own. Write it under "
            "[options]."
        )
    return options


METHOD = Method(
    name="slr",
    title="SLR, noisy gradients",
    tasks=("classification",),
    options=SlrOptions,
    request=request,
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
