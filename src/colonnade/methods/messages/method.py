"""Training by private intermediate results, as a method: HDP-VFL made sound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from colonnade.errors import OnlyForPublicData
from colonnade.forecast.pilots import Axis, Pilot, in_rows, kept, product
from colonnade.methods.glm.options import (
    GlmOptions,
    Positive,
    chosen_loss,
    linear_model,
)
from colonnade.methods.messages.plan import IntermediatePlan
from colonnade.methods.messages.protocol import TrainedPart, intermediate_session
from colonnade.methods.messages.request import IntermediateRequest
from colonnade.methods.method import (
    Method,
    Noise,
    TrainedModel,
    TrainingSpec,
    options_of,
    plan_views,
)
from colonnade.models.privacy import Privacy
from colonnade.protocols.alignment import Alignment

SPLIT = (
    "Each party keeps its own weights. The guarantees are about the messages of the training run: publishing the "
    "active party's weights, or predictions made with them, is not covered."
)
PAPER = "HDP-VFL's own noise, without clipping: paper formula, not a guarantee. Public data only."


class IntermediateOptions(GlmOptions):
    """How the descent goes; every default is chosen without data.

    A choice made by looking at private data, such as cross-validation, costs budget that nobody counts here. None
    leaves a number to a rule: all rows in one batch, half the longest step that is proved, the loss's own radius,
    messages clipped to the largest residual.
    """

    epochs: Annotated[int, Field(ge=1)] = 10
    batch: Annotated[int, Field(ge=1)] | None = None
    learning_rate: Positive | None = None
    radius: Positive | None = None
    stretch: Positive = 3.0
    clip: Positive | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    calibration: Literal["sound", "paper"] = "sound"


def request(asked: TrainingSpec, alignment: Alignment, public: tuple[str, ...] = ()) -> IntermediateRequest:
    """What the parties compare. Paper mode is of public data, in one process, and nowhere else."""
    options = options_of(asked, IntermediateOptions)
    if options.calibration != "sound" and not public:
        raise OnlyForPublicData(
            "calibration = 'paper' is HDP-VFL's own formula, which protects nobody: it runs on public data in one "
            "process. Use calibration = 'sound'."
        )
    return IntermediateRequest(
        loss=chosen_loss(asked, options),
        penalty=options.penalties(),
        calibration=options.calibration,
        epochs=options.epochs,
        batch=options.batch,
        learning_rate=options.learning_rate,
        radius=options.radius,
        stretch=options.stretch,
        clip=options.clip,
        seed=options.seed,
        declared_public=public,
        **asked.target(alignment),
    )


def model(_asked: TrainingSpec, results: Mapping[str, TrainedPart]) -> TrainedModel:
    """The weights of those owners who are here; beside each other only a simulation in one process sees them."""
    first = next(iter(results.values()))
    plan = first.plan
    weights = {owner: part.weights for owner, part in results.items() if part.weights is not None}
    notes = (SPLIT,) if plan.calibration == "sound" else (PAPER, SPLIT)
    privacy = Privacy(plan.guarantees, reproducible=first.reproducible)
    trained = linear_model(plan.clipped, plan.loss, plan.label, weights, privacy=privacy, notes=notes)
    return replace(trained, figures=plan.figures)


def pilots(plan: IntermediatePlan) -> tuple[Pilot, ...]:
    """Fewer epochs of fewer batches, or of fewer rows where all are one batch."""
    whole = plan.batch == plan.rows

    def at(epochs: int, number: int) -> IntermediatePlan:
        rows = number if whole else number * plan.batch + plan.rows % plan.batch
        return kept(plan, replace(plan, epochs=epochs, rows=rows, batch=rows if whole else plan.batch))

    cells = sum(encoder.width for encoder in plan.clipped.encoders.values())
    rows = in_rows(plan.rows, cells) if whole else Axis(plan.rows // plan.batch, 2, 8)
    # Epochs are short here: two lines through few of them would magnify whatever disturbs the clock.
    return product([Axis(plan.epochs, 2, 10), rows], at)


def noise(plan: IntermediatePlan) -> Noise:
    """What every message carries."""
    return Noise(
        max(plan.sigma(owner) for owner in plan.senders), "every person's score or residual, each time"
    )


METHOD = Method(
    name="intermediate",
    title="noisy scores and residuals, step by step",
    tasks=("classification", "regression"),
    options=IntermediateOptions,
    request=request,
    session=lambda _asked: intermediate_session,
    model=model,
    views=plan_views,
    checks=(),
    scores=None,
    resumable=True,
    pilots=pilots,
    noise=noise,
    kernel="draws",
)
