"""What the parties want of a run by noisy messages, and the plan with the least noise that keeps their ε."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from colonnade.data.schema import PublicSchema
from colonnade.errors import OnlyForPublicData, PlanError
from colonnade.methods.glm.interfaces import Loss, Penalty
from colonnade.methods.messages.plan import (
    GRID,
    Calibration,
    IntermediatePlan,
    paper_sensitivities,
    run_of_messages,
)
from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.paper import hdp_vfl
from colonnade.privacy.paper.figure import PaperFigure
from colonnade.privacy.sensitivity.messages import largest_step
from colonnade.protocols.plans import Request, check_parties, checked_delta
from colonnade.protocols.precision import bits_for, in_views, near_enough
from colonnade.runtime.group import Group

DEFAULT_STEP = 1.0
"""The step where no bound limits it, on public data."""
MOST_STEPS = 100_000
LARGEST_BATCH = 1 << 20


@dataclass(frozen=True)
class IntermediateRequest(Request[IntermediatePlan]):
    """What the parties want, before anybody has said how many rows or which columns there are.

    None leaves a number to a rule that looks at no data: all rows in one batch, the loss's own radius, half the longest
    step that is proved, messages clipped to the largest residual. `declared_public` names owners whose data is declared
    public: where the calibration protects nobody, all of them.
    """

    loss: Loss
    penalty: Penalty
    epsilon: float
    calibration: Calibration = "sound"
    epochs: int = 10
    batch: int | None = None
    learning_rate: float | None = None
    radius: float | None = None
    stretch: float = 3.0
    clip: float | None = None
    seed: int = 0
    declared_public: tuple[str, ...] = ()

    method = "intermediate"

    def planned(self, group: Group, schemas: tuple[PublicSchema, ...], rows: int) -> IntermediatePlan:
        """The plan with the least noise that keeps ε for each owner's part of a record, against all others together."""
        delta = checked_delta(self.epsilon, self.delta, self.accepted_delta, rows)
        _check(self, group, schemas, rows)
        plan = IntermediatePlan(
            loss=self.loss,
            penalty=self.penalty,
            group=group,
            rows=rows,
            schemas=schemas,
            epsilon=float(self.epsilon),
            delta=delta,
            calibration=self.calibration,
            epochs=self.epochs,
            batch=min(rows, LARGEST_BATCH) if self.batch is None else self.batch,
            learning_rate=DEFAULT_STEP,
            radius=float(self.loss.radius if self.radius is None else self.radius),
            stretch=float(self.stretch),
            clip=None,
            seed=self.seed,
            bits=bits_for(self.epsilon),
        )
        try:
            plan = replace(plan, learning_rate=_step(self, plan))
            if plan.calibration == "sound":
                plan = replace(plan, clip=float(self.clip or plan.bounds.size))
        except OverflowError:
            raise PlanError(
                f"radius = {plan.radius:g} lets scores grow so far that the {self.loss.name} loss has no finite "
                f"bound. Choose a smaller radius; {self.loss.radius:g} is the default."
            ) from None
        if plan.schedule.steps > MOST_STEPS:
            raise PlanError(
                f"{plan.epochs} epochs of {rows} rows in batches of {plan.batch} are {plan.schedule.steps} steps; "
                f"{MOST_STEPS} is the most. Use larger batches, which also cost less noise."
            )
        match plan.calibration:
            case "none":
                return plan
            case "paper":
                plan = replace(plan, variances=_paper_variances(plan))
            case "sound":
                # The active party's noise first: how long passive steps are depends on it.
                for owner in plan.senders:
                    plan = replace(plan, variances=(*plan.variances, _sound_variance(plan, owner)))
        plan = _drawable(plan)
        return near_enough(plan, in_views, lambda plan, bits: _drawable(replace(plan, bits=bits)))

    def to_data(self) -> dict[str, Any]:
        """The request as plain values, the loss by its name."""
        return {**super().to_data(), "loss": self.loss.name}


def _drawable(plan: IntermediatePlan) -> IntermediatePlan:
    """Refuses, before any data is touched, what cannot be drawn."""
    _ = plan.noise
    return plan


def _sound_variance(plan: IntermediatePlan, owner: str) -> Fraction:
    steps = plan.in_grid_units(owner)
    draws = plan.epochs * plan.rows
    return calibrate(
        lambda variance: run_of_messages(steps, variance, draws=draws, bits=plan.bits),
        epsilon=plan.epsilon,
        delta=plan.delta,
    )


def _paper_variances(plan: IntermediatePlan) -> tuple[Fraction, ...]:
    passive, active = paper_sensitivities(plan)

    def variance(figure: PaperFigure) -> Fraction:
        sigma = hdp_vfl.classical_sigma(plan.epsilon, plan.delta, sensitivity=figure.value).value
        return (Fraction(sigma) / GRID) ** 2

    return tuple(variance(active if owner == plan.active else passive) for owner in plan.senders)


def _step(request: IntermediateRequest, plan: IntermediatePlan) -> float:
    """The step size, which must not let a gradient step spread the active party's weights apart."""
    if request.calibration == "none":
        return DEFAULT_STEP if request.learning_rate is None else float(request.learning_rate)
    largest = largest_step(plan.bounds, cap=plan.cap(plan.active))
    if request.learning_rate is None:
        return float(_four_digits_below(largest / 2))
    if request.calibration == "sound" and request.learning_rate > largest * (1 - 1e-9):
        raise PlanError(
            f"learning_rate = {request.learning_rate:g} lets a gradient step of the {plan.loss.name} loss spread "
            f"weights apart, and no bound is proved for what the active party then sends. "
            f"The largest allowed here is {_four_digits_below(largest)}."
        )
    return float(request.learning_rate)


def _four_digits_below(value: float) -> str:
    """A number as people write it, not above the value, and the same on every machine."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return f"{math.floor(value / unit * (1 - 1e-8)) * unit:.4g}"


def _check(request: IntermediateRequest, group: Group, schemas: tuple[PublicSchema, ...], rows: int) -> None:
    private = [owner for owner in group.owners if owner not in request.declared_public]
    if request.calibration != "sound" and private:
        raise OnlyForPublicData(
            f"calibration = {request.calibration!r} protects nobody, so it runs only on data that every party declared "
            f"public; {', '.join(private)} did not. Use calibration = 'sound'."
        )
    check_parties(group, schemas, request.loss.task)
    for schema in schemas:
        if schema.label is not None:
            request.loss.check(schema.label)
    for name, value in (
        ("radius", request.radius),
        ("stretch", request.stretch),
        ("learning_rate", request.learning_rate),
        ("clip", request.clip),
    ):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise PlanError(f"{name} = {value:g} is not a finite number above 0.")
    if request.epochs < 1:
        raise PlanError(f"epochs = {request.epochs}, but every record is used at least once.")
    if request.batch is not None and not 1 <= request.batch <= min(rows, LARGEST_BATCH):
        raise PlanError(
            f"batch = {request.batch} for {rows} rows: a batch has at least one record and at most "
            f"{min(rows, LARGEST_BATCH)}. Leave it out to take as many as fit."
        )
