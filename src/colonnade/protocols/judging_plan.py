"""Everything the parties agree on before a released model is judged on people whom nobody may look at.

What is opened is, for each class, how many people it has and the characteristic function of their scores at a few
frequencies: Σ 1[y = c]·e^{ifωs} for odd f, where s = s₁ + s₂ and each owner knows its part by the released weights. For
two owners that is a sum of products of one number of each. Frequencies are weighed by f^(-½), because what is read from
them divides by f.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

from colonnade.data.label import LabelBlock
from colonnade.data.schema import PublicSchema
from colonnade.errors import PlanError
from colonnade.noise.skellam import SkellamNoise
from colonnade.numbers.field import FIELD63, Field, check_fits
from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.events import Approximated, Event, Skellam
from colonnade.privacy.neighbours import REPLACE, ZERO_OUT, OthersPart
from colonnade.privacy.observers import PartyView, Reader, Server
from colonnade.privacy.sensitivity.phases import PhaseChange, Phases
from colonnade.protocols.assumptions import known_to_party
from colonnade.protocols.plans import Request, check_keepers, check_parties, check_two_classes, checked_delta
from colonnade.protocols.shared import block_rows
from colonnade.protocols.shared_plan import SharedPlan
from colonnade.runtime.group import Group

GRID = 1 << 12
FREQUENCIES = 8
Limit = tuple[str, str, float]
"""An observer, a unit and the most ε that the judgement may be to them."""


@dataclass(frozen=True)
class JudgePlan(SharedPlan):
    """One judgement of one model: who, by which bounds on scores, at what ε, with how much noise.

    `reaches` bound each owner's part of the score, by owner: no person's is larger in modulus.
    """

    model: str
    reaches: tuple[float, ...]
    epsilon: float
    mu: Fraction
    harmonics: int = FREQUENCIES
    gamma: int = GRID

    protocol = "judging"
    charged_as = "judgement"

    @cached_property
    def label(self) -> LabelBlock:
        """The declared label."""
        return LabelBlock(next(schema.label for schema in self.schemas if schema.label is not None))

    @property
    def holder(self) -> str:
        """Who has the label."""
        return str(self.group.active)

    @property
    def other(self) -> str:
        """The owner without the label."""
        return next(owner for owner in self.group.owners if owner != self.holder)

    @property
    def frequencies(self) -> tuple[int, ...]:
        """The odd numbers 1, 3, …"""
        return tuple(2 * number + 1 for number in range(self.harmonics))

    @property
    def amplitudes(self) -> tuple[int, ...]:
        """γ·f^(-½), rounded: the size of the label holder's phases."""
        return tuple(round(self.gamma / math.sqrt(frequency)) for frequency in self.frequencies)

    @property
    def bound(self) -> float:
        """B: no score is larger in modulus, each owner's part taken from the middle of its range."""
        return sum(self.reaches)

    @property
    def omega(self) -> float:
        """π/(2B): two scores are never further apart than half a period, so that nothing wraps around."""
        return math.pi / (2.0 * self.bound)

    def reach_of(self, owner: str) -> float:
        """The bound on one owner's part."""
        return self.reaches[self.group.owners.index(owner)]

    @cached_property
    def phases(self) -> Phases:
        """The bounds of one record."""
        turns = (2.0 * self.omega * self.reach_of(self.holder), 2.0 * self.omega * self.reach_of(self.other))
        return Phases(self.frequencies, self.amplitudes, self.gamma, self.gamma, turns)

    @property
    def dealt(self) -> dict[str, int]:
        """How many integers of a person each owner deals."""
        once = 1 + 2 * self.harmonics
        return {owner: once * (2 if owner == self.holder else 1) for owner in self.group.owners}

    @property
    def coefficients(self) -> int:
        """How many numbers are opened: for each class its count, and two for each frequency."""
        return 2 * (1 + 2 * self.harmonics)

    @property
    def block(self) -> int:
        """Rows dealt at a time."""
        return block_rows(sum(self.dealt.values()))

    @cached_property
    def noise(self) -> SkellamNoise:
        """The whole noise, of which each dealer draws one part."""
        return SkellamNoise(self.mu)

    @property
    def deviation(self) -> float:
        """The standard deviation of an opened number, every dealer's part included, in natural units.

        A count has this one, a coefficient of frequency f one that is √f times as large.
        """
        parts = len(self.group.dealers) / self.group.whole
        return math.sqrt(2.0 * float(self.mu) * parts) / self.gamma**2

    @cached_property
    def field(self) -> Field:
        """The field of the shares, in which nothing can wrap around."""
        check_fits(
            FIELD63,
            rows=self.rows,
            per_row=2 * self.phases.largest,
            noise=len(self.group.dealers) * self.noise.part(self.group.whole).support,
            what="a judgement",
        )
        return FIELD63

    def event(self, change: PhaseChange, known: int) -> Event:
        """What is opened is for such a change, to whoever knows so many parts of the noise."""
        group = self.group
        return self.noise.event(
            change, known=known, parts=len(group.dealers), of=group.whole, entries=self.coefficients
        )

    def zeroed(self, known: int) -> Event:
        """For a record zeroed out."""
        return self.event(self.phases.zeroed(), known)

    def others_replaced(self, owner: str, known: int) -> Event:
        """For the other owner's part of a record, replaced."""
        holds = owner == self.holder
        return self.event(self.phases.other_replaced() if holds else self.phases.holder_replaced(), known)

    def all_replaced(self, known: int) -> Event | None:
        """For a record replaced by any other; None where no noise would be left."""
        return self.event(self.phases.replaced(), known) if known < len(self.group.dealers) else None

    @property
    def what(self) -> str:
        """What is opened."""
        return f"scores by class at {self.harmonics} frequencies"

    def own_data(self) -> dict[str, Any]:
        """The model, the bounds on its scores, the grid and the noise."""
        return {
            "model": self.model,
            "reaches": list(self.reaches),
            "harmonics": self.harmonics,
            "gamma": self.gamma,
            "epsilon": self.epsilon,
            "mu": str(self.mu),
            "label": self.label.to_data(),
            "primes": list(self.field.primes),
            "block": self.block,
        }


@dataclass(frozen=True)
class JudgeRequest(Request[JudgePlan]):
    """Which model is judged, within which bounds on its owners' parts of a score, at what ε.

    `limits` are the most that the judgement may be to some observers about some units, where that is less than what ε
    for a zeroed record would leave them with: what a training cost, so that judging it costs nothing on top.

    >>> JudgeRequest("5f0c", (2.0, 1.0), epsilon=1.0).to_data()["reaches"]
    [2.0, 1.0]
    """

    model: str
    reaches: tuple[float, ...]
    epsilon: float
    limits: tuple[Limit, ...] = ()

    method = "judging"

    def planned(self, group: Group, schemas: tuple[PublicSchema, ...], rows: int) -> JudgePlan:
        """With the least noise that keeps what is asked, and every limit."""
        if len(group.owners) != 2:
            raise PlanError(
                f"{len(group.owners)} parties hold columns of this model, and judging on private people is for two: "
                "with more, what is summed is a product of more numbers than shares can multiply without another "
                "round. Judge it on public rows with --rows."
            )
        check_keepers(group)
        check_parties(group, schemas, "classification")
        if len(self.reaches) != 2 or not all(math.isfinite(reach) and reach > 0 for reach in self.reaches):
            raise PlanError(f"reaches = {self.reaches!r}: each owner's part of a score has a bound above 0.")
        delta = checked_delta(self.epsilon, self.delta, self.accepted_delta, rows)
        blank = JudgePlan(
            self.model,
            self.reaches,
            float(self.epsilon),
            Fraction(1),
            group=group,
            rows=rows,
            schemas=schemas,
            delta=delta,
        )
        check_two_classes(
            blank.label,
            blank.holder,
            why="judging on private people is for",
            remedy="Judge it on public rows with --rows.",
        )
        stated: dict[tuple[str, str], Callable[[JudgePlan], Event]] = {
            (Server().name, ZERO_OUT.name): lambda plan: plan.zeroed(group.tolerated),
            (Reader().name, ZERO_OUT.name): lambda plan: plan.zeroed(group.tolerated),
            (Reader().name, REPLACE.name): lambda plan: plan.replaced,
        }
        for owner in group.owners:
            stated[PartyView(owner).name, OthersPart(owner).name] = partial(_others_replaced, owner)
        wanted = [(stated[Server().name, ZERO_OUT.name], float(self.epsilon))]
        wanted += [
            (stated[observer, unit], most)
            for observer, unit, most in self.limits
            if (observer, unit) in stated
        ]

        def noise(event: Callable[[JudgePlan], Event], most: float) -> Fraction:
            once = event(blank)
            return calibrate(lambda mu: _scaled(once, mu), epsilon=most, delta=delta)

        plan = replace(blank, mu=max(noise(event, most) for event, most in wanted))
        _ = plan.field  # refuses here, before any data is touched, what could wrap around
        return plan


def _others_replaced(owner: str, plan: JudgePlan) -> Event:
    return plan.others_replaced(owner, known_to_party(plan.group))


def _scaled(event: Event, mu: Fraction) -> Event:
    """An event of noise with μ = 1 under so many times as much."""
    if not isinstance(event, Approximated) or not isinstance(event.event, Skellam):
        raise TypeError(f"a judgement has Skellam noise, not {type(event).__name__}")
    return replace(event, event=replace(event.event, mu=event.event.mu * mu))
