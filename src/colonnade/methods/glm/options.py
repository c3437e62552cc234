"""What can be chosen about a generalised linear model, whichever method trains it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from colonnade.data.documents import Form
from colonnade.errors import PlanError
from colonnade.methods.glm.interfaces import Loss
from colonnade.methods.glm.losses import DEFAULT_LOSS, LOSSES
from colonnade.methods.glm.penalties import Penalty, PenaltyName
from colonnade.protocols.specs import TrainingSpec

LossName = Literal["logistic", "svm", "least_squares", "poisson", "gamma"]
Positive = Annotated[float, Field(gt=0)]


class GlmOptions(Form):
    """Loss and penalty. `strength` is λ, per record; `mix` is μ of the elastic net λ(‖w‖₁ + (μ/2)‖w‖²)."""

    loss: LossName | None = None
    penalty: PenaltyName = "l2"
    strength: Annotated[float, Field(ge=0)] = 0.001
    mix: Positive = 1.0

    def penalties(self) -> Penalty:
        return Penalty.named(self.penalty, self.strength, mix=self.mix)


def chosen_loss(spec: TrainingSpec, options: GlmOptions) -> Loss:
    """The loss that was named, or the task's own; it must be a loss for that task."""
    if spec.task not in DEFAULT_LOSS:
        raise PlanError(f"messages train models for classification and regression, not {spec.task!r}.")
    loss = LOSSES[options.loss or DEFAULT_LOSS[spec.task]]
    if loss.task != spec.task:
        fitting = ", ".join(name for name, other in LOSSES.items() if other.task == spec.task)
        raise PlanError(f"loss = {loss.name!r} is for {loss.task}; for {spec.task} there are {fitting}.")
    return loss
