"""Training by private intermediate results, as a method: HDP-VFL made sound."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from colonnade.errors import OnlyForPublicData
from colonnade.learn.federation import Federation
from colonnade.learn.glm_options import (
    GlmOptions,
    Positive,
    chosen_loss,
    linear_model,
    link_note,
)
from colonnade.learn.method import Asked, Learnt, LearntLinear, Method
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.intermediate_request import IntermediateRequest
from colonnade.protocols.intermediate_results import intermediate_session
from colonnade.protocols.linear_models import Loss

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


def train(federation: Federation, asked: Asked) -> Learnt:
    """The model of the loss that was named, or of the task's own."""
    return train_by_messages(federation, asked, chosen_loss(asked, intermediate_options(asked)))


def intermediate_options(asked: Asked) -> IntermediateOptions:
    """The options of this method, which other methods' are not."""
    if not isinstance(asked.options, IntermediateOptions):
        raise TypeError(f"training by messages takes IntermediateOptions, not {type(asked.options).__name__}")
    return asked.options


def request(asked: Asked, alignment: Alignment) -> IntermediateRequest:
    """What the parties compare. Paper mode is of public data, in one process, and nowhere else."""
    options = intermediate_options(asked)
    if options.calibration != "sound":
        raise OnlyForPublicData(
            "calibration = 'paper' is HDP-VFL's own formula, which protects nobody: it runs on public data in one "
            "process. Use calibration = 'sound'."
        )
    return _request(asked, chosen_loss(asked, options), alignment, ())


def _request(asked: Asked, loss: Loss, alignment: Alignment, public: tuple[str, ...]) -> IntermediateRequest:
    options = intermediate_options(asked)
    return IntermediateRequest(
        loss=loss,
        penalty=options.penalties(),
        epsilon=asked.epsilon,
        delta=asked.delta,
        accepted_delta=asked.accepted_delta,
        calibration=options.calibration,
        epochs=options.epochs,
        batch=options.batch,
        learning_rate=options.learning_rate,
        radius=options.radius,
        stretch=options.stretch,
        clip=options.clip,
        seed=options.seed,
        declared_public=public,
        alignment=alignment,
    )


def train_by_messages(federation: Federation, asked: Asked, loss: Loss) -> Learnt:
    """The model of any loss, its weights beside each other as only a simulation in one process can see them."""
    public = federation.group.owners if federation.public else ()
    run = federation.run(intermediate_session, _request(asked, loss, federation.alignment, public))
    plan = run.plan
    parts = {owner: run.result(owner) for owner in plan.group.owners}
    frame, coefficients, intercepts = linear_model(
        plan.clipped, loss, plan.label, {owner: part.weights for owner, part in parts.items()}
    )
    notes = (SPLIT,) if plan.calibration == "sound" else (PAPER, SPLIT)
    return LearntLinear(
        coefficients,
        intercepts,
        loss.name,
        frame=frame,
        privacy=run.privacy,
        run=run,
        split=True,
        notes=(*notes, *link_note(loss)),
        figures=plan.figures,
    )


METHOD = Method(
    "intermediate",
    "noisy scores and residuals, step by step",
    ("classification", "regression"),
    IntermediateOptions,
    train,
    request=request,
)
