"""Generalised linear models: their losses, penalties as proximal steps, and what can be chosen about them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from colonnade.data.documents import Form
from colonnade.data.labels import Label, LabelBlock
from colonnade.errors import LabelMismatch, PlanError
from colonnade.privacy import paper as hdp_vfl
from colonnade.privacy.sensitivity import messages as sensitivity
from colonnade.privacy.sensitivity.messages import LossBounds
from colonnade.protocols.plans import Task, TrainingSpec

Array = NDArray[np.float64]


class Loss(Protocol):
    """What the protocol needs of a loss; `LOSSES` has them. `estimator` is the class of `colonnade` for its models."""

    @property
    def name(self) -> str: ...

    @property
    def estimator(self) -> str: ...

    @property
    def task(self) -> Task: ...

    @property
    def radius(self) -> float:
        """How long weights may be where nobody says, chosen without data."""

    def check(self, label: Label) -> None:
        """Raise a `PlanError` unless the declared label fits."""

    def targets(self, label: Label, values: ArrayLike) -> Array:
        """Coded labels as the loss takes them, within its bounds for any values."""

    def value(self, scores: Array, targets: Array) -> Array: ...

    def residual(self, scores: Array, targets: Array) -> Array:
        """h = ∂ℓ/∂θ for each row."""

    def mean(self, scores: Array, label: Label) -> Array: ...

    def bounds(self, label: Label, *, radius: float, active_cap: float, passive_cap: float) -> LossBounds:
        """How large, how steep and how far from another record's a residual can be."""

    def paper(self, label: Label, *, radius: float) -> hdp_vfl.LossConstants:
        """The constants that HDP-VFL prints, or a `PlanError` where it has none."""


def _logistic(scores: Array) -> Array:
    # Each half is computed where its exponential cannot overflow.
    grown = np.exp(-np.abs(scores))
    return np.where(scores >= 0, 1.0, grown) / (1.0 + grown)


class _TwoClasses:
    """y = ±1 for the second and the first class."""

    name = ""

    def check(self, label: Label) -> None:
        if len(label.classes) != 2:
            kind = f"{len(label.classes)} classes" if label.classes else f"kind {label.kind!r}"
            raise LabelMismatch(
                f"the {self.name} loss needs a label of two classes; {label.column!r} has {kind}. "
                "Declare two classes, or train by second moments, which take any number."
            )

    def targets(self, label: Label, values: ArrayLike) -> Array:
        return np.where(np.asarray(values) > 0, 1.0, -1.0)


def _range(label: Label, loss: str) -> tuple[float, float]:
    if label.bounds is None:
        raise LabelMismatch(
            f"the {loss} loss needs a label that is a number; {label.column!r} is of kind {label.kind!r}. "
            "Change the loss, or the label's declaration."
        )
    return label.bounds


@dataclass(frozen=True)
class Logistic(_TwoClasses):
    """ln(1 + e^(−yθ)); h = −y·s(−yθ)."""

    name = "logistic"
    estimator = "LogisticRegression"
    task: Task = "classification"
    radius: float = 3.0

    def value(self, scores: Array, targets: Array) -> Array:
        return np.asarray(np.logaddexp(0.0, -targets * scores))

    def residual(self, scores: Array, targets: Array) -> Array:
        return np.asarray(-targets * _logistic(-targets * scores))

    def mean(self, scores: Array, label: Label) -> Array:
        return _logistic(scores)

    def bounds(self, label: Label, *, radius: float, active_cap: float, passive_cap: float) -> LossBounds:
        """|h| ≤ 1, β = ¼, row 2s(kc), for any received value."""
        return sensitivity.logistic_bounds(radius=radius, active_cap=active_cap)

    def paper(self, label: Label, *, radius: float) -> hdp_vfl.LossConstants:
        """L = 1, β_θ = 0.25, β_y = 1.1, k_y = 1."""
        return hdp_vfl.LOGISTIC


@dataclass(frozen=True)
class SquaredHinge(_TwoClasses):
    """max(0, 1 − yθ)²: the l2-SVM; h = −2y·max(0, 1 − yθ)."""

    name = "svm"
    estimator = "SupportVectorClassifier"
    task: Task = "classification"
    radius: float = 2.0

    def value(self, scores: Array, targets: Array) -> Array:
        return np.asarray(np.maximum(0.0, 1.0 - targets * scores) ** 2)

    def residual(self, scores: Array, targets: Array) -> Array:
        return np.asarray(-2.0 * targets * np.maximum(0.0, 1.0 - targets * scores))

    def mean(self, scores: Array, label: Label) -> Array:
        """The score: an SVM has no probabilities."""
        return scores

    def bounds(self, label: Label, *, radius: float, active_cap: float, passive_cap: float) -> LossBounds:
        """L = 2(1 + Θ), β = 2, row max(4 + 4kc, L)."""
        return sensitivity.squared_hinge_bounds(radius=radius, active_cap=active_cap, passive_cap=passive_cap)

    def paper(self, label: Label, *, radius: float) -> hdp_vfl.LossConstants:
        """L = 2, β_θ = 2, β_y = 2, k_y = 1."""
        return hdp_vfl.SQUARED_HINGE


@dataclass(frozen=True)
class LeastSquares:
    """(y − θ)² for a label scaled to [−1, 1]; h = 2(θ − y)."""

    name = "least_squares"
    estimator = "LinearRegression"
    task: Task = "regression"
    radius: float = 2.0

    def check(self, label: Label) -> None:
        _range(label, self.name)

    def targets(self, label: Label, values: ArrayLike) -> Array:
        return LabelBlock(label).to_unit(values)

    def value(self, scores: Array, targets: Array) -> Array:
        return np.asarray((scores - targets) ** 2)

    def residual(self, scores: Array, targets: Array) -> Array:
        return np.asarray(2.0 * (scores - targets))

    def mean(self, scores: Array, label: Label) -> Array:
        return LabelBlock(label).from_unit(scores)

    def bounds(self, label: Label, *, radius: float, active_cap: float, passive_cap: float) -> LossBounds:
        """L = 2(1 + Θ), β = 2, row 4kc + 4."""
        return sensitivity.least_squares_bounds(
            radius=radius, active_cap=active_cap, passive_cap=passive_cap, label_bound=1.0
        )

    def paper(self, label: Label, *, radius: float) -> hdp_vfl.LossConstants:
        """L = 6, β_θ = 2, β_y = 2, k_y = 3."""
        return hdp_vfl.LEAST_SQUARES


@dataclass(frozen=True)
class Poisson:
    """e^θ − yθ for a count, or another number from 0 up, in its own units; h = e^θ − y."""

    name = "poisson"
    estimator = "PoissonRegression"
    task: Task = "regression"
    radius: float = 1.0

    def check(self, label: Label) -> None:
        low, _ = _range(label, self.name)
        if low < 0:
            raise LabelMismatch(
                f"the Poisson loss needs a label from 0 up; {label.column!r} is declared from {low:g}. "
                "Use least squares, or declare a label that counts."
            )

    def targets(self, label: Label, values: ArrayLike) -> Array:
        low, high = _range(label, self.name)
        return np.clip(np.asarray(values, dtype=np.float64), low, high)

    def value(self, scores: Array, targets: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(scores) - targets * scores)

    def residual(self, scores: Array, targets: Array) -> Array:
        # Only scores that nobody clipped, in paper mode, are this large; the protocol then stops by itself.
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(scores) - targets)

    def mean(self, scores: Array, label: Label) -> Array:
        return np.asarray(np.exp(scores))

    def bounds(self, label: Label, *, radius: float, active_cap: float, passive_cap: float) -> LossBounds:
        """L = max(e^Θ, k_y), β = e^Θ, row 2e^(kc′)sinh(kc) + k_y, with k_y the label's upper bound."""
        return sensitivity.poisson_bounds(
            radius=radius,
            active_cap=active_cap,
            passive_cap=passive_cap,
            label_bound=_range(label, self.name)[1],
        )

    def paper(self, label: Label, *, radius: float) -> hdp_vfl.LossConstants:
        """L = k_y, β_θ = e^k, β_y = 1."""
        return hdp_vfl.poisson_constants(radius=radius, label_bound=_range(label, self.name)[1])


@dataclass(frozen=True)
class Gamma:
    """θ + (y/s)·e^(−θ) for a label above 0, with log link; h = 1 − (y/s)e^(−θ).

    s = √(low·high) of the declared range, so that θ = 0 is its middle on the logarithmic scale.
    """

    name = "gamma"
    estimator = "GammaRegression"
    task: Task = "regression"
    radius: float = 1.0

    def check(self, label: Label) -> None:
        low, high = _range(label, self.name)
        if low <= 0:
            raise LabelMismatch(
                f"the Gamma loss needs a label above 0; {label.column!r} is declared from {low:g} to {high:g}. "
                "Declare the smallest value that occurs in the world, or use the Poisson loss."
            )

    def unit(self, label: Label) -> float:
        low, high = _range(label, self.name)
        return math.sqrt(low) * math.sqrt(high)

    def targets(self, label: Label, values: ArrayLike) -> Array:
        low, high = _range(label, self.name)
        return np.asarray(np.clip(np.asarray(values, dtype=np.float64), low, high) / self.unit(label))

    def value(self, scores: Array, targets: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(scores + targets * np.exp(-scores))

    def residual(self, scores: Array, targets: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(1.0 - targets * np.exp(-scores))

    def mean(self, scores: Array, label: Label) -> Array:
        return np.asarray(self.unit(label) * np.exp(scores))

    def bounds(self, label: Label, *, radius: float, active_cap: float, passive_cap: float) -> LossBounds:
        """β = row = k_y·e^Θ and L = max(1, k_y·e^Θ − 1), with k_y = high/s = √(high/low)."""
        _, high = _range(label, self.name)
        # Upward: the division that makes targets may round the other way.
        largest = high / self.unit(label) * (1 + 2.0**-50)
        return sensitivity.gamma_bounds(
            radius=radius, active_cap=active_cap, passive_cap=passive_cap, label_bound=largest
        )

    def paper(self, label: Label, *, radius: float) -> hdp_vfl.LossConstants:
        """Refused: with the paper's canonical link β_θ = sup 1/θ² is infinite on the ball of weights."""
        raise PlanError(
            "HDP-VFL has no noise for Gamma regression: with its canonical link the slope 1/θ² has no bound "
            "where weights may be 0. Use calibration = 'sound', which has the log link."
        )


LOSSES: dict[str, Loss] = {
    loss.name: loss for loss in (Logistic(), SquaredHinge(), LeastSquares(), Poisson(), Gamma())
}
"""Every loss by the name that jobs use."""

DEFAULT_LOSS: dict[Any, str] = {"classification": "logistic", "regression": "least_squares"}
"""What a task means where no loss is named."""


PenaltyName = Literal["none", "l2", "l1", "elastic_net"]


@dataclass(frozen=True)
class Penalty:
    """`l1`·‖w‖₁ + (`l2`/2)·‖w‖², applied after each gradient step by its proximal operator.

    Guarantee: `step` does not expand distances, coordinate by coordinate (docs/proofs/message-sensitivity.md).
    """

    l1: float = 0.0
    l2: float = 0.0

    def __post_init__(self) -> None:
        if not all(math.isfinite(value) and value >= 0 for value in (self.l1, self.l2)):
            raise PlanError(
                f"penalties are finite and not negative, not l1 = {self.l1:g} and l2 = {self.l2:g}. Try 0.001."
            )

    @classmethod
    def named(cls, name: PenaltyName, strength: float, *, mix: float = 1.0) -> Penalty:
        """λ‖w‖²/2, λ‖w‖₁ or λ(‖w‖₁ + (μ/2)‖w‖²) with λ the strength and μ the mix."""
        l1 = strength if name in ("l1", "elastic_net") else 0.0
        return cls(l1, {"l2": strength, "elastic_net": strength * mix}.get(name, 0.0))

    def step(self, weights: Array, step_size: float, *, free: int = 0) -> Array:
        """The proximal step for this step size; the last `free` weights, an intercept, are left alone."""
        if self.l1 == 0.0 and self.l2 == 0.0:
            return weights
        slopes = weights[: len(weights) - free]
        if self.l1:
            slopes = np.sign(slopes) * np.maximum(np.abs(slopes) - step_size * self.l1, 0.0)
        slopes = slopes / (1.0 + step_size * self.l2)
        return np.concatenate((slopes, weights[len(weights) - free :]))

    def value(self, weights: Array) -> float:
        return float(self.l1 * np.abs(weights).sum() + self.l2 / 2 * (weights @ weights))


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
