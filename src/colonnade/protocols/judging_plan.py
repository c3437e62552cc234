"""Everything the parties agree on before a released model is judged on people whom nobody may look at.

What is opened is, for each class, how many people it has and the characteristic function of their scores at a few
frequencies: Σ 1[y = c]·e^{ifωs} for odd f, where s = Σ s_k and each owner knows its part by the released weights. For
two owners that is a sum of products of one number of each; of more, those without the label are first multiplied in a
tree. Of more than two classes each has a score of its own, a head, whose law is opened for the people of every class.
Where the label is a number, the heads are its residual, itself, and the score by label (`judging_heads`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from colonnade.data.labels import LabelBlock
from colonnade.data.schema import PublicSchema
from colonnade.errors import LabelMismatch, PlanError
from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise
from colonnade.noise.skellam import SkellamNoise
from colonnade.numbers.field import Field, smallest_field
from colonnade.privacy.events import COARSE_BITS, Event
from colonnade.privacy.neighbours import REPLACE, ZERO_OUT, OthersPart
from colonnade.privacy.observers import PartyView, Reader, Server
from colonnade.privacy.sensitivity.phases import JointPhases, PhaseChange, Phases
from colonnade.protocols.assumptions import known_to_party
from colonnade.protocols.dealt_noise import DealtNoise, Law, least_noise
from colonnade.protocols.judging_heads import (
    FREQUENCIES,
    NUMBER_FREQUENCIES,
    Head,
    class_heads,
    number_heads,
)
from colonnade.protocols.plans import check_keepers, check_parties, checked_delta
from colonnade.protocols.precision import bits_for, near_enough
from colonnade.protocols.shared import block_rows
from colonnade.protocols.shared_plan import SharedPlan
from colonnade.protocols.specs import Spec
from colonnade.runtime.group import Group

GRID_BITS = 12
# The scale of an opened number, γ^K, is no finer: noise on it could not be drawn.
SCALE_BITS = 36
COARSEST = 16
# On a scale this fine no other law needs less.
LAW: Law = "gaussian"
Limit = tuple[str, str, float]
"""An observer, a unit and the most ε that the judgement may be to them."""


@dataclass(frozen=True)
class JudgePlan(SharedPlan):
    """One judgement of one model: who, by which bounds on scores, at what ε, with how much noise.

    `reaches` bound each owner's part of every score, by score and owner: no person's is larger in modulus.
    """

    model: str
    reaches: tuple[tuple[float, ...], ...]
    epsilon: float
    variance: Fraction
    harmonics: int = FREQUENCIES
    bits: int = COARSE_BITS

    protocol = "judging"
    charged_as = "judgement"

    @cached_property
    def label(self) -> LabelBlock:
        return LabelBlock(next(schema.label for schema in self.schemas if schema.label is not None))

    @property
    def holder(self) -> str:
        return str(self.group.active)

    @property
    def others(self) -> tuple[str, ...]:
        """The owners without the label."""
        return tuple(owner for owner in self.group.owners if owner != self.holder)

    @property
    def numbers(self) -> bool:
        """Whether the label is a number, not a class."""
        return not self.label.one_hot

    @property
    def scores(self) -> int:
        return len(self.reaches)

    @cached_property
    def heads(self) -> tuple[Head, ...]:
        if not self.numbers:
            return class_heads(self.reaches, self.harmonics, self.gamma)
        low, high = self.label.from_unit([-1.0, 1.0])
        holder = self.group.owners.index(self.holder)
        return number_heads(self.reaches[0], float(high - low) / 2.0, holder, self.harmonics, self.gamma)

    @property
    def gamma(self) -> int:
        """γ: the grid of every owner's phases."""
        return int(1 << min(GRID_BITS, SCALE_BITS // len(self.group.owners)))

    @property
    def scale(self) -> int:
        """What an opened count is to a person: γ^K."""
        return int(self.gamma ** len(self.group.owners))

    def reach_of(self, owner: str, score: int = 0) -> float:
        """The bound on one owner's part of a score."""
        return self.reaches[score][self.group.owners.index(owner)]

    def of_head(self, head: int, coefficients: NDArray[Any]) -> NDArray[Any]:
        """What was opened of one head, a row for each of its sums."""
        start = sum(other.sums * other.opened for other in self.heads[:head])
        one = self.heads[head]
        return coefficients[start : start + one.sums * one.opened].reshape(one.sums, one.opened)

    @cached_property
    def phases(self) -> Phases | JointPhases:
        holder = self.group.owners.index(self.holder)
        phases = [head.phases(holder, self.gamma) for head in self.heads]
        if self.numbers:
            return JointPhases(tuple(phases))
        turns = tuple(max(one.turns[place] for one in phases) for place in range(len(self.group.owners)))
        return replace(phases[0], turns=turns, heads=len(phases))

    @property
    def width(self) -> int:
        """How many integers of a person and a head an owner without the label deals: frequency 0 counts people."""
        return 2 * (1 + self.harmonics)

    @property
    def dealt(self) -> dict[str, int]:
        """How many integers of a person each owner deals; the label holder those of every sum."""
        sums = sum(head.sums for head in self.heads)
        return {
            owner: self.width * (sums if owner == self.holder else len(self.heads))
            for owner in self.group.owners
        }

    @property
    def coefficients(self) -> int:
        return sum(head.sums * head.opened for head in self.heads)

    @property
    def block(self) -> int:
        return block_rows(sum(self.dealt.values()))

    @property
    def _dealt(self) -> DealtNoise:
        return DealtNoise(LAW, self.variance, self.bits)

    @cached_property
    def noise(self) -> DiscreteGaussianNoise | SkellamNoise:
        return self._dealt.vector

    @property
    def opened_noise(self) -> DiscreteGaussianNoise | SkellamNoise:
        """What is in an opened number, every dealer's part included."""
        return replace(self._dealt, variance=self._dealt.total_variance(self.group)).vector

    @property
    def deviation(self) -> float:
        """The standard deviation of an opened number, every dealer's part included, in natural units.

        A count has this one, a coefficient of amplitude A one that is γ/A times as large.
        """
        return math.sqrt(float(self._dealt.total_variance(self.group))) / self.scale

    @cached_property
    def field(self) -> Field:
        return smallest_field(
            rows=self.rows,
            per_row=2 * self.phases.largest,
            noise=len(self.group.dealers) * self.noise.part(self.group.whole).support,
            what="a judgement",
        )

    def event(self, change: PhaseChange, known: int, noise: DealtNoise | None = None) -> Event:
        """What is opened is for such a change, to whoever knows so many parts of the noise."""
        dealt = noise or self._dealt
        return dealt.vector_event(change, self.group, entries=self.coefficients, known=known)

    def zeroed(self, known: int) -> Event:
        return self.event(self.phases.zeroed(), known)

    def others_replaced(self, owner: str, known: int) -> Event:
        """For the other owners' parts of a record, replaced."""
        return self.event(self.replaced_to(owner), known)

    def replaced_to(self, owner: str) -> PhaseChange:
        """How far replacing what others than this owner hold moves what is opened."""
        if self.group.threshold > 1:
            # With t − 1 confederates it knows more columns than its own; the whole record bounds them all.
            return self.phases.replaced()
        if owner == self.holder:
            return self.phases.others_replaced()
        return self.phases.holder_replaced(1 + self.others.index(owner))

    def all_replaced(self, known: int) -> Event | None:
        """For a record replaced by any other; None where no noise would be left."""
        return self.event(self.phases.replaced(), known) if known < len(self.group.dealers) else None

    @property
    def what(self) -> str:
        whose = "residuals, labels and scores by label" if self.numbers else "scores by class"
        return f"{whose} at {self.harmonics} frequencies"

    def own_data(self) -> dict[str, Any]:
        """The model, the bounds on its scores, the grid and the noise."""
        return {
            "model": self.model,
            "reaches": [list(reaches) for reaches in self.reaches],
            "harmonics": self.harmonics,
            "sums": [head.sums for head in self.heads],
            "gamma": self.gamma,
            "epsilon": self.epsilon,
            "noise": self._dealt.to_data(),
            "label": self.label.to_data(),
            "primes": list(self.field.primes),
            "block": self.block,
        }


@dataclass(frozen=True)
class JudgeRequest(Spec):
    """Which model is judged, within which bounds on its owners' parts of a score, at what ε.

    `limits` are the most that the judgement may be to some observers about some units, where that is less than what ε
    for a zeroed record would leave them with: what a training cost, so that judging it costs nothing on top.
    """

    model: str
    reaches: tuple[tuple[float, ...], ...]
    epsilon: float
    limits: tuple[Limit, ...] = ()

    @property
    def method(self) -> str:
        return "judging"

    @property
    def in_shares(self) -> bool:
        return True

    def planned(self, group: Group, schemas: tuple[PublicSchema, ...], rows: int) -> JudgePlan:
        """With the least noise that keeps what is asked, and every limit."""
        check_keepers(group)
        labels = [schema.label for schema in schemas if schema.label is not None]
        numbers = bool(labels) and not LabelBlock(labels[0]).one_hot
        check_parties(group, schemas, "regression" if numbers else "classification")
        bounds = [reach for reaches in self.reaches for reach in reaches]
        if {len(reaches) for reaches in self.reaches} != {len(group.owners)} or not all(
            math.isfinite(reach) and reach > 0 for reach in bounds
        ):
            raise PlanError(f"reaches = {self.reaches!r}: each owner's part of a score has a bound above 0.")
        delta = checked_delta(self.epsilon, self.delta, self.accepted_delta, rows)
        blank = JudgePlan(
            self.model,
            self.reaches,
            float(self.epsilon),
            Fraction(1),
            NUMBER_FREQUENCIES if numbers else FREQUENCIES,
            bits_for(self.epsilon),
            spec=self,
            group=group,
            rows=rows,
            schemas=schemas,
            delta=delta,
        )
        classes = len(blank.label.classes)
        if blank.scores != (classes if classes > 2 else 1):
            raise LabelMismatch(
                f"the label has {f'{classes} classes' if classes else 'one number'}, and the model {blank.scores} "
                f"score{'' if blank.scores == 1 else 's'} for a person. Judge a model of this label."
            )
        if blank.gamma < COARSEST:
            raise PlanError(
                f"{len(group.owners)} owners are too many to judge between: the product of so many numbers would be "
                "rounded too coarsely. Judge on public rows with --rows."
            )
        parties = known_to_party(group)
        stated: dict[tuple[str, str], tuple[PhaseChange, int]] = {
            (Server().name, ZERO_OUT.name): (blank.phases.zeroed(), group.tolerated),
            (Reader().name, ZERO_OUT.name): (blank.phases.zeroed(), group.tolerated),
            (Reader().name, REPLACE.name): (blank.phases.replaced(), group.tolerated),
        }
        for owner in group.owners:
            stated[PartyView(owner).name, OthersPart(owner).name] = (blank.replaced_to(owner), parties)
        wanted = [(stated[Server().name, ZERO_OUT.name], float(self.epsilon))]
        wanted += [
            (stated[observer, unit], most)
            for observer, unit, most in self.limits
            if (observer, unit) in stated
        ]

        def noise(change: PhaseChange, known: int, most: float) -> Fraction:
            return least_noise(
                lambda dealt: blank.event(change, known, dealt),
                epsilon=most,
                delta=delta,
                drawn=lambda dealt: dealt.vector.part(group.whole),
                laws=(LAW,),
                bits=blank.bits,
            ).variance

        plan = _drawable(replace(blank, variance=max(noise(*what, most) for what, most in wanted)))
        return near_enough(plan, JudgePlan.accounted, lambda plan, bits: _drawable(replace(plan, bits=bits)))


def _drawable(plan: JudgePlan) -> JudgePlan:
    """Refuses, before any data is touched, what could wrap around."""
    _ = plan.field
    return plan
