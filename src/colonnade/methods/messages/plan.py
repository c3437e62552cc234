"""Everything the parties agree on before they train a linear model by noisy messages. It touches no data.

At each step of a public schedule every passive party sends the scores xᵢw of its own part, and the active party, which
holds the label, answers all of them with the same residuals h(θᵢ, yᵢ). Everything that is sent carries discrete
Gaussian noise on a grid, everything that is received is clipped, and weights are projected to a ball, each party's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Annotated, Any, Literal

from pydantic import Field as Number
from pydantic import field_validator
from pydantic_core import PydanticKnownError

from colonnade.data.labels import Label
from colonnade.errors import OnlyForPublicData, PlanError
from colonnade.methods.glm.losses import GlmOptions, Loss, Penalty, Positive, chosen_loss
from colonnade.methods.glm.rows import GAMMA, ClippedPlan
from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise
from colonnade.privacy import paper as hdp_vfl
from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.events import COARSE_BITS, Approximated, Composed, Event, PerStep
from colonnade.privacy.guarantee import View
from colonnade.privacy.observers import Coalition, OthersPart, PartOf, PartyView
from colonnade.privacy.paper import PaperFigure
from colonnade.privacy.sensitivity import messages
from colonnade.protocols.assumptions import UNCHECKED
from colonnade.protocols.dealt_noise import bits_for, in_views, near_enough
from colonnade.protocols.plans import Options, Schemas, TrainingSpec, agreed, options_of
from colonnade.protocols.session import array_digest
from colonnade.randomness import public_permutation
from colonnade.runtime.party import Group

Calibration = Literal["sound", "paper", "none"]

DEFAULT_STEP = 1.0
"""The step where no bound limits it, on public data."""
MOST_STEPS = 100_000
LARGEST_BATCH = 1 << 20
GRID_BITS = 20
"""Messages are multiples of 2^-GRID_BITS."""
GRID = Fraction(1, 1 << GRID_BITS)
_ULP = 2.0**-53
# Three times the part of Σ Δ² that moved weights may add to records' own entries.
_TENTH = 0.3


class PrivateMessagesOptions(GlmOptions, Options):
    """Every default is chosen without data: a choice made by looking costs budget that nobody counts here.

    None leaves a number to a rule: all rows in one batch, half the longest step that is proved, the loss's own radius,
    messages clipped to the largest residual.
    """

    method = "private-messages"

    epochs: Annotated[int, Number(ge=1)] = 10
    batch: Annotated[int, Number(ge=1)] | None = None
    learning_rate: Positive | None = None
    radius: Positive | None = None
    stretch: Positive = 3.0
    clip: Positive | None = None
    seed: Annotated[int, Number(ge=0)] = 0
    calibration: Calibration = "sound"

    @field_validator("calibration")
    @classmethod
    def _is_offered(cls, value: Calibration) -> Calibration:
        # Without noise it is a baseline, which makes its own options, and nothing that a job may ask for.
        if value == "none":
            raise PydanticKnownError("literal_error", {"expected": "'sound' or 'paper'"})
        return value

    def check(self, spec: TrainingSpec) -> None:
        if self.calibration != "sound" and not spec.public:
            raise OnlyForPublicData(
                f"calibration = {self.calibration!r} protects nobody: it runs on public data in one process. Use "
                "calibration = 'sound'."
            )

    def plan(self, spec: TrainingSpec, group: Group, schemas: Schemas, rows: int) -> PrivateMessagesPlan:
        """Least noise that keeps ε for each owner's part of a record, against all others together."""
        terms = agreed(spec, group, schemas, rows)
        loss = chosen_loss(spec, self)
        _check(spec, self, loss, group, schemas, rows)
        plan = PrivateMessagesPlan(
            **terms,
            batch=min(rows, LARGEST_BATCH) if self.batch is None else self.batch,
            learning_rate=DEFAULT_STEP,
            radius=float(loss.radius if self.radius is None else self.radius),
            clip=None,
            bits=bits_for(spec.epsilon),
        )
        try:
            plan = replace(plan, learning_rate=_step(self, plan))
            if self.calibration == "sound":
                plan = replace(plan, clip=float(self.clip or plan.bounds.size))
        except OverflowError:
            raise PlanError(
                f"radius = {plan.radius:g} lets scores grow so far that the {loss.name} loss has no finite "
                f"bound. Choose a smaller radius; {loss.radius:g} is the default."
            ) from None
        if plan.schedule.steps > MOST_STEPS:
            raise PlanError(
                f"{self.epochs} epochs of {rows} rows in batches of {plan.batch} are {plan.schedule.steps} steps; "
                f"{MOST_STEPS} is the most. Use larger batches, which also cost less noise."
            )
        match self.calibration:
            case "none":
                return plan
            case "paper":
                passive, active = ((Fraction(sigma.value) / GRID) ** 2 for sigma in plan.figures[2:])
                plan = replace(plan, variances=(active, *(passive for _ in plan.passive)))
            case "sound":
                # The active party's noise first: how long passive steps are depends on it.
                for owner in plan.senders:
                    under = partial(plan.event_under, plan.in_grid_units(owner))
                    least = calibrate(under, epsilon=spec.epsilon, delta=plan.delta)
                    plan = replace(plan, variances=(*plan.variances, least))
        return near_enough(plan, in_views, lambda plan, bits: replace(plan, bits=bits))


@dataclass(frozen=True)
class PrivateMessagesPlan(ClippedPlan):
    """Made by `PrivateMessagesOptions`; `variances` has one σ² a sender, in grid units.

    Only "sound" protects anybody: "paper" has the noise of HDP-VFL's lemmas and no clipping, "none" has no noise at
    all, and both are for public data.
    """

    batch: int
    learning_rate: float
    radius: float
    clip: float | None
    variances: tuple[Fraction, ...] = ()
    bits: int = COARSE_BITS

    charged_as = "messages"
    published = False

    @property
    def options(self) -> PrivateMessagesOptions:
        return options_of(self.spec, PrivateMessagesOptions)

    @property
    def stretch(self) -> float:
        return self.options.stretch

    @cached_property
    def loss(self) -> Loss:
        return chosen_loss(self.spec, self.options)

    @property
    def penalty(self) -> Penalty:
        return self.options.penalties()

    @property
    def senders(self) -> tuple[str, ...]:
        """The owners in the order of `variances`: the active one first."""
        return (self.active, *self.passive)

    @property
    def schedule(self) -> messages.Schedule:
        return messages.Schedule(self.rows, self.batch, self.options.epochs)

    def batches(self) -> Iterator[tuple[int, slice]]:
        schedule = self.schedule
        for step in range(schedule.steps):
            start = step % schedule.steps_per_epoch * self.batch
            yield step, slice(start, min(start + self.batch, self.rows))

    @cached_property
    def label(self) -> Label:
        return next(schema.label for schema in self.schemas if schema.label is not None)

    def cap(self, owner: str) -> float:
        return self.clipped.cap(owner)

    @property
    def passive_cap(self) -> float:
        return math.fsum(self.cap(owner) for owner in self.passive)

    @cached_property
    def bounds(self) -> messages.LossBounds:
        return self.loss.bounds(
            self.label, radius=self.radius, active_cap=self.cap(self.active), passive_cap=self.passive_cap
        )

    def rate(self, owner: str) -> float:
        """The step size of an owner: for a passive one longer, to make up for what clipping takes off.

        A residual that arrives with noise of deviation σ and is clipped to ±C keeps, on average, erf(C/√2σ) of
        itself. The step is divided by that, unless it then moved weights so far that they would cost more than a
        tenth of what records' own entries cost (docs/private-messages.md). Neither looks at data.
        """
        if owner == self.active or self.options.calibration != "sound" or self.clip is None:
            return self.learning_rate
        kept = math.erf(self.clip / (math.sqrt(2) * self.sigma(self.active)))
        affordable = (self.radius * self.batch * math.sqrt(_TENTH / self.rows)) / (
            self.clip * self.cap(owner) * self.options.epochs
        )
        most = min(self.learning_rate / kept, max(affordable, self.learning_rate))
        # Four digits, so that two machines come to the same number.
        return float(f"{most:.4g}")

    def charged_grid(self, owner: str) -> float:
        """How far rounding can move two runs apart in one entry: the grid, and what doubles lose over all steps.

        Weights are sums of as many products as records are used, each with its rounding; no step expands what an
        earlier one lost (docs/proofs/message-sensitivity.md).
        """
        pull = self.bounds.size if owner == self.active or self.clip is None else self.clip
        cap, width = self.cap(owner), self.clipped.encoders[owner].width + 1
        stride = self.rate(owner) * pull * cap
        lost = self.rows * self.options.epochs * stride + self.schedule.steps * (width + 16) * (
            self.radius + stride
        )
        extent = self.radius * (cap + self.passive_cap) + self.bounds.size + 1
        steep = max(1.0, self.bounds.slope)
        return float(GRID) + 2 * steep * _ULP * (cap * lost + (width + 16) * extent)

    def sensitivity(self, owner: str) -> messages.StepSensitivities:
        shared = {"radius": self.radius, "step_size": self.rate(owner), "grid": self.charged_grid(owner)}
        if owner == self.active:
            return messages.active_messages(self.schedule, self.bounds, cap=self.cap(owner), **shared)
        clip = self.bounds.size if self.clip is None else self.clip
        return messages.passive_messages(self.schedule, cap=self.cap(owner), clip=clip, **shared)

    @cached_property
    def noise(self) -> dict[str, DiscreteGaussianNoise]:
        return {
            owner: DiscreteGaussianNoise(variance, self.bits)
            for owner, variance in zip(self.senders, self.variances, strict=False)
        }

    def check_drawable(self) -> None:
        _ = self.noise

    def sigma(self, owner: str) -> float:
        """In the units of what the owner sends."""
        return math.sqrt(self.variances[self.senders.index(owner)]) * float(GRID) if self.variances else 0.0

    def weight(self, owner: str) -> float:
        """What the active party multiplies an owner's noisy scores by before it clips them: v/(v + σ²).

        The best linear guess at a score whose variance is v = (kc/3)², a third of its largest size. It looks at no
        data, and what is done to a message after it arrived costs nothing.
        """
        variance = (self.radius * self.cap(owner) / 3) ** 2
        return variance / (variance + self.sigma(owner) ** 2) if self.options.calibration == "sound" else 1.0

    def event(self, owner: str) -> Event:
        """All messages of one owner, to whoever sees every message of the run and knows all other columns."""
        return self.event_under(self.in_grid_units(owner), self.variances[self.senders.index(owner)])

    def event_under(self, steps: tuple[float, ...], variance: Fraction) -> Event:
        """Steps of these sensitivities with noise of this variance, both in grid units."""
        return Approximated(PerStep(steps, variance), draws=self.options.epochs * self.rows, bits=self.bits)

    def in_grid_units(self, owner: str) -> tuple[float, ...]:
        # The grid is a power of two: the quotient is exact.
        return tuple(step * (1 << GRID_BITS) for step in self.sensitivity(owner).per_step)

    @cached_property
    def views(self) -> tuple[View, ...]:
        if self.options.calibration != "sound":
            return ()
        owners = self.group.owners
        events = {owner: self.event(owner) for owner in owners}
        clips = f"the others clip what they receive and keep to the public batches{UNCHECKED}"
        views, coalitions = [], []
        for owner in owners:
            rest = tuple(other for other in owners if other != owner)
            seen = events[rest[0]]
            if len(rest) > 1:
                seen = Composed(tuple(events[other] for other in rest))
                coalitions.append(
                    View(Coalition(rest), PartOf(owner), events[owner], f"{owner} runs the protocol")
                )
            views.append(View(PartyView(owner), OthersPart(owner), seen, clips))
        return (*views, *coalitions)

    @cached_property
    def figures(self) -> tuple[PaperFigure, ...]:
        if self.options.calibration != "paper":
            return ()
        passive, active = paper_sensitivities(self)
        sigmas = (
            hdp_vfl.classical_sigma(self.spec.epsilon, self.delta, sensitivity=figure.value)
            for figure in (passive, active)
        )
        return (passive, active, *sigmas)

    @property
    def what(self) -> str:
        return f"{self.schedule.steps} noisy messages of {self.loss.name} regression"

    @property
    def shown_to(self) -> tuple[str, ...]:
        return self.group.owners

    def receiver_for(self, party: str) -> str:
        return self.active if party != self.active else ", ".join(self.passive)

    def own_data(self) -> dict[str, Any]:
        return {
            "loss": self.loss.name,
            "batch": self.batch,
            "learning_rate": self.learning_rate,
            "radius": self.radius,
            "clip": self.clip,
            # A library that shuffles differently would train on other pairs of rows; better it is named here.
            "order": array_digest(public_permutation(self.rows, self.options.seed)),
            "grid_bits": GRID_BITS,
            "gamma": GAMMA,
            "caps": {owner: self.clipped.norm_squared(owner) for owner in self.group.owners},
            "rates": {owner: self.rate(owner) for owner in self.group.owners},
            "variances": [str(variance) for variance in self.variances],
        }


def paper_sensitivities(plan: PrivateMessagesPlan) -> tuple[PaperFigure, PaperFigure]:
    """Lemmas 3 and 4 of HDP-VFL: what it claims of the passive parties' messages, and of the active one's."""
    constants = plan.loss.paper(plan.label, radius=plan.radius)
    shared: dict[str, Any] = {
        "batch": plan.batch,
        "epochs": plan.options.epochs,
        "steps": plan.schedule.steps,
        "radius": plan.radius,
        "step_size": plan.learning_rate,
        "lipschitz": constants.lipschitz,
    }
    active = hdp_vfl.active_sensitivity(
        **shared, slope=constants.slope, label_slope=constants.label_slope, label_bound=constants.label_bound
    )
    return hdp_vfl.passive_sensitivity(**shared), active


def _step(options: PrivateMessagesOptions, plan: PrivateMessagesPlan) -> float:
    """The step size, which must not let a gradient step spread the active party's weights apart."""
    if options.calibration == "none":
        return DEFAULT_STEP if options.learning_rate is None else float(options.learning_rate)
    largest = messages.largest_step(plan.bounds, cap=plan.cap(plan.active))
    if options.learning_rate is None:
        return float(_four_digits_below(largest / 2))
    if options.calibration == "sound" and options.learning_rate > largest * (1 - 1e-9):
        raise PlanError(
            f"learning_rate = {options.learning_rate:g} lets a gradient step of the {plan.loss.name} loss spread "
            f"weights apart, and no bound is proved for what the active party then sends. "
            f"The largest allowed here is {_four_digits_below(largest)}."
        )
    return float(options.learning_rate)


def _four_digits_below(value: float) -> str:
    """A number as people write it, not above the value, and the same on every machine."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return f"{math.floor(value / unit * (1 - 1e-8)) * unit:.4g}"


def _check(
    spec: TrainingSpec, options: PrivateMessagesOptions, loss: Loss, group: Group, schemas: Schemas, rows: int
) -> None:
    private = [owner for owner in group.owners if owner not in spec.public]
    if options.calibration != "sound" and private:
        raise OnlyForPublicData(
            f"calibration = {options.calibration!r} protects nobody, so it runs only on data that every party declared "
            f"public; {', '.join(private)} did not. Use calibration = 'sound'."
        )
    for schema in schemas:
        if schema.label is not None:
            loss.check(schema.label)
    for name, value in (
        ("radius", options.radius),
        ("stretch", options.stretch),
        ("learning_rate", options.learning_rate),
        ("clip", options.clip),
    ):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise PlanError(f"{name} = {value:g} is not a finite number above 0.")
    if options.epochs < 1:
        raise PlanError(f"epochs = {options.epochs}, but every record is used at least once.")
    if options.batch is not None and not 1 <= options.batch <= min(rows, LARGEST_BATCH):
        raise PlanError(
            f"batch = {options.batch} for {rows} rows: a batch has at least one record and at most "
            f"{min(rows, LARGEST_BATCH)}. Leave it out to take as many as fit."
        )
