"""Everything the parties agree on before they train a linear model by noisy messages. It touches no data.

The active party holds the label; every other owner is passive. At each step of a public schedule every passive party
sends the scores xᵢw of its own part for the records of the batch, and the active party answers all of them with the
same residuals h(θᵢ, yᵢ), θᵢ the sum of all scores. Everything that is sent carries discrete Gaussian noise on a grid,
everything that is received is clipped by the receiver, and weights are projected to a ball, each party's own.

The rows are those of `colonnade.methods.glm.rows`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

from colonnade.data.labels import Label
from colonnade.methods.glm.interfaces import Loss, Penalty
from colonnade.methods.glm.rows import GAMMA, ClippedPlan
from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise
from colonnade.privacy.events import COARSE_BITS, Approximated, Composed, Event, PerStep
from colonnade.privacy.guarantee import View
from colonnade.privacy.neighbours import OthersPart, PartOf
from colonnade.privacy.observers import Coalition, PartyView
from colonnade.privacy.paper import hdp_vfl
from colonnade.privacy.paper.figure import PaperFigure
from colonnade.privacy.sensitivity.losses import LossBounds
from colonnade.privacy.sensitivity.messages import (
    Schedule,
    StepSensitivities,
    active_messages,
    passive_messages,
)
from colonnade.protocols.session import array_digest
from colonnade.randomness import public_permutation

Calibration = Literal["sound", "paper", "none"]

GRID_BITS = 20
"""Messages are multiples of 2^-GRID_BITS."""
GRID = Fraction(1, 1 << GRID_BITS)
_ULP = 2.0**-53
# Three times the part of Σ Δ² that moved weights may add to records' own entries.
_TENTH = 0.3


@dataclass(frozen=True)
class IntermediatePlan(ClippedPlan):
    """One training run by noisy messages: who, which columns, which steps, with how much noise.

    Made by `IntermediateRequest`, which chooses the noise. `variances` has one σ² a sender, in grid units. Only "sound"
    protects anybody: "paper" has the noise of HDP-VFL's lemmas and no clipping, "none" has no noise at all, and both
    are for public data.
    """

    loss: Loss
    penalty: Penalty
    epsilon: float
    calibration: Calibration
    epochs: int
    batch: int
    learning_rate: float
    radius: float
    clip: float | None
    seed: int
    variances: tuple[Fraction, ...] = ()
    bits: int = COARSE_BITS

    protocol = "intermediate results"
    charged_as = "messages"
    published = False

    @property
    def senders(self) -> tuple[str, ...]:
        """The owners in the order of `variances`: the active one first."""
        return (self.active, *self.passive)

    @property
    def schedule(self) -> Schedule:
        return Schedule(self.rows, self.batch, self.epochs)

    def batches(self) -> Iterator[tuple[int, slice]]:
        """Step numbers and the rows of each step, in the public order that `seed` gives."""
        schedule = self.schedule
        for step in range(schedule.steps):
            start = step % schedule.steps_per_epoch * self.batch
            yield step, slice(start, min(start + self.batch, self.rows))

    @cached_property
    def label(self) -> Label:
        return next(schema.label for schema in self.schemas if schema.label is not None)

    @cached_property
    def caps(self) -> dict[str, float]:
        """c_q of each owner: no row of it is longer."""
        return {owner: self.clipped.cap(owner) for owner in self.group.owners}

    def cap(self, owner: str) -> float:
        """c_q: no row of this owner is longer."""
        return self.caps[owner]

    @property
    def passive_cap(self) -> float:
        return math.fsum(self.cap(owner) for owner in self.passive)

    @cached_property
    def bounds(self) -> LossBounds:
        return self.loss.bounds(
            self.label, radius=self.radius, active_cap=self.cap(self.active), passive_cap=self.passive_cap
        )

    def rate(self, owner: str) -> float:
        """The step size of an owner: for a passive one longer, to make up for what clipping takes off.

        A residual that arrives with noise of deviation σ and is clipped to ±C keeps, on average, erf(C/√2σ) of
        itself. The step is divided by that, unless it then moved weights so far that they would cost more than a
        tenth of what records' own entries cost (docs/private-messages.md). Neither looks at data.
        """
        if owner == self.active or self.calibration != "sound" or self.clip is None:
            return self.learning_rate
        kept = math.erf(self.clip / (math.sqrt(2) * self.sigma(self.active)))
        affordable = (self.radius * self.batch * math.sqrt(_TENTH / self.rows)) / (
            self.clip * self.cap(owner) * self.epochs
        )
        longest = min(self.learning_rate / kept, max(affordable, self.learning_rate))
        # Four digits, so that two machines come to the same number.
        return float(f"{longest:.4g}")

    def charged_grid(self, owner: str) -> float:
        """How far rounding can move two runs apart in one entry: the grid, and what doubles lose over all steps.

        Weights are sums of as many products as records are used, each with its rounding; no step expands what an
        earlier one lost (docs/proofs/message-sensitivity.md).
        """
        pull = self.bounds.size if owner == self.active or self.clip is None else self.clip
        cap, width = self.cap(owner), self.clipped.encoders[owner].width + 1
        stride = self.rate(owner) * pull * cap
        lost = self.rows * self.epochs * stride + self.schedule.steps * (width + 16) * (self.radius + stride)
        reach = self.radius * (cap + self.passive_cap) + self.bounds.size + 1
        steep = max(1.0, self.bounds.slope)
        return float(GRID) + 2 * steep * _ULP * (cap * lost + (width + 16) * reach)

    def sensitivity(self, owner: str) -> StepSensitivities:
        """How far one record of this owner moves each of its messages, given the transcript."""
        shared = {"radius": self.radius, "step_size": self.rate(owner), "grid": self.charged_grid(owner)}
        if owner == self.active:
            return active_messages(self.schedule, self.bounds, cap=self.cap(owner), **shared)
        clip = self.bounds.size if self.clip is None else self.clip
        return passive_messages(self.schedule, cap=self.cap(owner), clip=clip, **shared)

    @cached_property
    def noise(self) -> dict[str, DiscreteGaussianNoise]:
        """The noise of each owner's messages, in grid units; none without protection."""
        return {
            owner: DiscreteGaussianNoise(variance, self.bits)
            for owner, variance in zip(self.senders, self.variances, strict=False)
        }

    def sigma(self, owner: str) -> float:
        """The standard deviation of the noise in each of an owner's messages, in the units of what it sends."""
        return math.sqrt(self.variances[self.senders.index(owner)]) * float(GRID) if self.variances else 0.0

    def weight(self, owner: str) -> float:
        """What the active party multiplies an owner's noisy scores by before it clips them: v/(v + σ²).

        The best linear guess at a score whose variance is v = (kc/3)², a third of its largest size. It looks at no
        data, and what is done to a message after it arrived costs nothing.
        """
        variance = (self.radius * self.cap(owner) / 3) ** 2
        return variance / (variance + self.sigma(owner) ** 2) if self.calibration == "sound" else 1.0

    def event(self, owner: str) -> Event:
        """All messages of one owner, to whoever sees every message of the run and knows all other columns."""
        variance = self.variances[self.senders.index(owner)]
        return run_of_messages(
            self.in_grid_units(owner), variance, draws=self.epochs * self.rows, bits=self.bits
        )

    def in_grid_units(self, owner: str) -> tuple[float, ...]:
        # The grid is a power of two: the quotient is exact.
        return tuple(step * (1 << GRID_BITS) for step in self.sensitivity(owner).per_step)

    @cached_property
    def views(self) -> tuple[View, ...]:
        """What the run is to each party, and to all parties but one together; nothing reaches the server."""
        if self.calibration != "sound":
            return ()
        owners = self.group.owners
        events = {owner: self.event(owner) for owner in owners}
        clips = "the others clip what they receive and keep to the public batches"
        views = []
        for owner in owners:
            others = tuple(events[other] for other in owners if other != owner)
            seen = others[0] if len(others) == 1 else Composed(others)
            views.append(View(PartyView(owner), OthersPart(owner), seen, clips))
        if len(owners) > 2:
            for owner in owners:
                rest = tuple(other for other in owners if other != owner)
                views.append(View(Coalition(rest), PartOf(owner), events[owner], f"{owner} does as agreed"))
        return tuple(views)

    @cached_property
    def figures(self) -> tuple[PaperFigure, ...]:
        """In paper mode, the paper's sensitivities and σ of both directions: formulas, not guarantees."""
        if self.calibration != "paper":
            return ()
        passive, active = paper_sensitivities(self)
        sigmas = (
            hdp_vfl.classical_sigma(self.epsilon, self.delta, sensitivity=figure.value)
            for figure in (passive, active)
        )
        return (passive, active, *sigmas)

    @property
    def what(self) -> str:
        return f"{self.schedule.steps} noisy messages of {self.loss.name} regression"

    @property
    def shown_to(self) -> tuple[str, ...]:
        """Every owner: messages go both ways."""
        return self.group.owners

    def receiver_for(self, party: str) -> str:
        """The active party, whose answers go to the others."""
        return self.active if party != self.active else ", ".join(self.passive)

    def own_data(self) -> dict[str, Any]:
        """The loss, the schedule and the noise of each sender."""
        return {
            "task": self.loss.task,
            "loss": self.loss.name,
            "penalty": self.penalty.to_data(),
            "epsilon": self.epsilon,
            "calibration": self.calibration,
            "epochs": self.epochs,
            "batch": self.batch,
            "learning_rate": self.learning_rate,
            "radius": self.radius,
            "stretch": self.stretch,
            "clip": self.clip,
            "seed": self.seed,
            "order": self._order,
            "grid_bits": GRID_BITS,
            "gamma": GAMMA,
            "caps": {owner: self.clipped.norm_squared(owner) for owner in self.group.owners},
            "rates": {owner: self.rate(owner) for owner in self.group.owners},
            "variances": [str(variance) for variance in self.variances],
        }

    @cached_property
    def _order(self) -> str:
        # A library that shuffles differently would train on other pairs of rows; better it is named here.
        return array_digest(public_permutation(self.rows, self.seed))


def run_of_messages(steps: tuple[float, ...], variance: Fraction, *, draws: int, bits: int) -> Event:
    """So many steps of these sensitivities with noise of this variance, both in grid units."""
    return Approximated(PerStep(steps, variance), draws=draws, bits=bits)


def paper_sensitivities(plan: IntermediatePlan) -> tuple[PaperFigure, PaperFigure]:
    """Lemmas 3 and 4 of HDP-VFL: what it claims of the passive parties' messages, and of the active one's."""
    constants = plan.loss.paper(plan.label, radius=plan.radius)
    shared: dict[str, Any] = {
        "batch": plan.batch,
        "epochs": plan.epochs,
        "steps": plan.schedule.steps,
        "radius": plan.radius,
        "step_size": plan.learning_rate,
        "lipschitz": constants.lipschitz,
    }
    active = hdp_vfl.active_sensitivity(
        **shared,
        slope=constants.slope,
        label_slope=constants.label_slope,
        label_bound=constants.label_bound,
    )
    return hdp_vfl.passive_sensitivity(**shared), active
