"""An evaluation on private people: what is agreed, and how distributions of scores are opened."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.labels import LabelBlock
from colonnade.data.schema import PublicSchema
from colonnade.data.table import AlignedTable, Table
from colonnade.errors import DataError, LabelMismatch, LocalProtocolError, PlanError
from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise
from colonnade.noise.skellam import SkellamNoise
from colonnade.numbers.field import Field, FieldArray, smallest_field
from colonnade.privacy.events import COARSE_BITS, Event
from colonnade.privacy.observers import REPLACE, ZERO_OUT, OthersPart, PartyView, Reader, Server
from colonnade.privacy.sensitivity.gradient import JointPhases, Kind, Phases
from colonnade.privacy.sensitivity.matrix import VectorChange
from colonnade.protocols.agreement import charge_first
from colonnade.protocols.assumptions import known_to_party
from colonnade.protocols.dealt_noise import DealtNoise, Law, bits_for, least_noise, near_enough
from colonnade.protocols.joint_scores import Terms
from colonnade.protocols.plans import Spec, check_computing_parties, check_parties, checked_delta
from colonnade.protocols.session import SessionResult, own_rows, prepare, publish_integers
from colonnade.protocols.shared_plan import SharedPlan
from colonnade.protocols.sharing import Shared, block_rows, open_to, share, share_noise, total
from colonnade.protocols.verified_products import rotated
from colonnade.runtime.party import Group, Party

Array = NDArray[np.float64]
Phasors = NDArray[np.complex128]
FREQUENCIES = 8
NUMBER_FREQUENCIES = 6
GRID_BITS = 12
# The scale of an opened number, γ^K, is no finer: noise on it could not be drawn.
SCALE_BITS = 36
COARSEST = 16
# On a scale this fine no other law needs less.
LAW: Law = "gaussian"
Limit = tuple[str, str, float]
"""An observer, a unit and the most ε that the evaluation may be to them."""


@dataclass(frozen=True)
class Head:
    """One angle of a person, at some frequencies: ω(±s + y) of the parts that are in it.

    `reaches` bound what each owner has of it; `score` is the sign of the score `column` in it, 0 for none; `sums` is
    how many classes, or ends of a range, people are told apart by.
    """

    reaches: tuple[float, ...]
    frequencies: tuple[int, ...]
    amplitudes: tuple[int, ...]
    omega: float
    kind: Kind
    score: int = 1
    column: int = 0
    label: bool = False
    sums: int = 1

    @property
    def bound(self) -> float:
        """B: the angle is never larger than ωB."""
        return sum(self.reaches)

    @property
    def counted(self) -> bool:
        return self.kind != "whole"

    @property
    def opened(self) -> int:
        return int(self.counted) + 2 * len(self.frequencies)

    def phasors(self, values: Array) -> Array:
        """Cosines, then sines, of every frequency at values from the middle of their bounds."""
        angles = np.outer(values, np.array(self.frequencies) * self.omega)
        return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)

    def phases(self, holder: int, gamma: int) -> Phases:
        """The bounds of one record; `holder` is the place of the owner with the label."""
        turns = [2.0 * self.omega * extent for extent in self.reaches]
        first = turns.pop(holder)
        count = gamma if self.counted else 0
        return Phases(self.frequencies, self.amplitudes, count, gamma, (first, *turns), kind=self.kind)


def score_head(
    reaches: tuple[float, ...], harmonics: int, gamma: int, kind: Kind, *, column: int = 0, sums: int = 2
) -> Head:
    """A score by class, or by the ends of a range. No two scores are half a period apart: nothing wraps."""
    frequencies = tuple(2 * number + 1 for number in range(harmonics))
    amplitudes = tuple(round(gamma / math.sqrt(frequency)) for frequency in frequencies)
    omega = math.pi / (2.0 * sum(reaches))
    return Head(reaches, frequencies, amplitudes, omega, kind, column=column, sums=sums)


def number_head(reaches: tuple[float, ...], harmonics: int, gamma: int, *, score: int) -> Head:
    """The label of everybody, with the score or without."""
    frequencies = tuple(1 << number for number in range(harmonics))
    amplitudes = tuple(round(gamma * frequency**-0.25) for frequency in frequencies)
    # Less than a period from end to end, so that the two ends are not taken for each other.
    omega = 3.0 * math.pi / (4.0 * sum(reaches))
    return Head(reaches, frequencies, amplitudes, omega, "whole", score=score, label=True)


@dataclass(frozen=True)
class EvaluationPlan(SharedPlan):
    """One evaluation of one model, with the noise that keeps what was asked."""

    spec: EvaluationSpec = field(kw_only=True)
    variance: Fraction
    harmonics: int = FREQUENCIES
    bits: int = COARSE_BITS

    charged_as = "evaluation"

    @cached_property
    def label(self) -> LabelBlock:
        return LabelBlock(next(schema.label for schema in self.schemas if schema.label is not None))

    @property
    def holder(self) -> str:
        return str(self.group.active)

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(owner for owner in self.group.owners if owner != self.holder)

    @property
    def numbers(self) -> bool:
        return not self.label.one_hot

    @property
    def scores(self) -> int:
        return len(self.spec.reaches)

    @cached_property
    def heads(self) -> tuple[Head, ...]:
        """Every score by class; of a number residual, label and score, the label within ±`half` of its middle."""
        m, gamma = self.harmonics, self.gamma
        if not self.numbers:
            return tuple(
                score_head(parts, m, gamma, "classes", column=column, sums=max(2, self.scores))
                for column, parts in enumerate(self.spec.reaches)
            )
        (reaches,) = self.spec.reaches
        low, high = self.label.from_unit([-1.0, 1.0])
        half = float(high - low) / 2.0
        mine = tuple(half if owner == self.holder else 0.0 for owner in self.group.owners)
        both = tuple(extent + label for extent, label in zip(reaches, mine, strict=True))
        return (
            number_head(both, m, gamma, score=-1),
            number_head(mine, m, gamma, score=0),
            score_head(reaches, m, gamma, "shares"),
        )

    @property
    def gamma(self) -> int:
        """γ: the grid of every owner's phases."""
        return int(1 << min(GRID_BITS, SCALE_BITS // len(self.group.owners)))

    @property
    def scale(self) -> int:
        """What an opened count is to a person: γ^K."""
        return int(self.gamma ** len(self.group.owners))

    def extent_of(self, owner: str, score: int = 0) -> float:
        return self.spec.reaches[score][self.group.owners.index(owner)]

    def of_head(self, head: int, coefficients: NDArray[Any]) -> NDArray[Any]:
        """What was opened of one head, a row for each of its sums."""
        start = sum(other.sums * other.opened for other in self.heads[:head])
        one = self.heads[head]
        return coefficients[start : start + one.sums * one.opened].reshape(one.sums, one.opened)

    def sizes(self, head: int) -> Array:
        """The amplitudes of a head as shares of a person."""
        return np.array(self.heads[head].amplitudes, dtype=np.float64) / self.gamma

    def read_head(self, head: int, coefficients: NDArray[Any]) -> tuple[Array, Phasors]:
        """Of every sum of a head its count, 0 where nobody is counted, and Σ e^{ifωs} over people."""
        rows, m = np.asarray(self.of_head(head, coefficients), dtype=np.float64), self.harmonics
        counts = rows[:, 0] / self.scale if self.heads[head].counted else np.zeros(len(rows))
        phasors = np.asarray(rows[:, -2 * m : -m] + 1j * rows[:, -m:], dtype=np.complex128)
        return counts, phasors / (self.sizes(head) * self.scale)

    def write_head(self, head: int, into: Array, counts: Array, phasors: Array) -> None:
        """What would be opened, without noise, of so many people with these sums of cosines and of sines."""
        sums = phasors * np.tile(self.sizes(head), 2)
        counted = [counts[:, None]] if self.heads[head].counted else []
        self.of_head(head, into)[:] = self.scale * np.concatenate([*counted, sums], axis=1)

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
        """The standard deviation of an opened count; a coefficient of amplitude A has γ/A times that."""
        return math.sqrt(float(self._dealt.total_variance(self.group))) / self.scale

    @cached_property
    def field(self) -> Field:
        return smallest_field(
            rows=self.rows,
            per_row=2 * self.phases.largest,
            noise=len(self.group.dealers) * self.noise.part(self.group.whole).support,
            what="an evaluation",
        )

    def event(self, change: VectorChange, known: int, noise: DealtNoise | None = None) -> Event:
        """What is opened is for such a change, to whoever knows so many parts of the noise."""
        dealt = noise or self._dealt
        return dealt.vector_event(change, self.group, entries=self.coefficients, known=known)

    def zeroed(self, known: int) -> Event:
        return self.event(self.phases.zeroed(), known)

    def others_replaced(self, owner: str, known: int) -> Event:
        return self.event(self.replaced_to(owner), known)

    def replaced_to(self, owner: str) -> VectorChange:
        """How far replacing what others than this owner hold moves what is opened."""
        if self.group.threshold > 1:
            # With t − 1 confederates it knows more columns than its own; the whole record bounds them all.
            return self.phases.replaced()
        if owner == self.holder:
            return self.phases.others_replaced()
        return self.phases.holder_replaced(1 + self.others.index(owner))

    def all_replaced(self, known: int) -> Event | None:
        return self.event(self.phases.replaced(), known) if known < len(self.group.dealers) else None

    @property
    def what(self) -> str:
        whose = "residuals, labels and scores by label" if self.numbers else "scores by class"
        return f"{whose} at {self.harmonics} frequencies"

    def own_data(self) -> dict[str, Any]:
        return {
            "harmonics": self.harmonics,
            "sums": [head.sums for head in self.heads],
            "gamma": self.gamma,
            "noise": self._dealt.to_data(),
            "label": self.label.to_data(),
            "primes": list(self.field.primes),
            "block": self.block,
        }


@dataclass(frozen=True)
class EvaluationSpec(Spec):
    """Which model is evaluated, at what ε; no owner's part of a score is larger in modulus than its entry in `reaches`.

    `limits` are the most that it may be to some observers: what training cost, so that evaluating costs nothing on top.
    """

    model: str
    reaches: tuple[tuple[float, ...], ...]
    epsilon: float
    limits: tuple[Limit, ...] = ()

    method = "evaluation"
    in_shares = True

    def planned(self, group: Group, schemas: tuple[PublicSchema, ...], rows: int) -> EvaluationPlan:
        """With the least noise that keeps what is asked, and every limit."""
        check_computing_parties(group)
        labels = [schema.label for schema in schemas if schema.label is not None]
        numbers = bool(labels) and not LabelBlock(labels[0]).one_hot
        check_parties(group, schemas, "regression" if numbers else "classification")
        bounds = [extent for reaches in self.reaches for extent in reaches]
        if {len(reaches) for reaches in self.reaches} != {len(group.owners)} or not all(
            math.isfinite(extent) and extent > 0 for extent in bounds
        ):
            raise PlanError(f"reaches = {self.reaches!r}: each owner's part of a score has a bound above 0.")
        blank = EvaluationPlan(
            Fraction(1),
            NUMBER_FREQUENCIES if numbers else FREQUENCIES,
            bits_for(self.epsilon),
            spec=self,
            group=group,
            rows=rows,
            schemas=schemas,
            delta=checked_delta(self.epsilon, self.delta, self.accepted_delta, rows),
        )
        classes = len(blank.label.classes)
        if blank.scores != (classes if classes > 2 else 1):
            raise LabelMismatch(
                f"the label has {f'{classes} classes' if classes else 'one number'}, and the model {blank.scores} "
                f"score{'' if blank.scores == 1 else 's'} for a person. Evaluate a model of this label."
            )
        if blank.gamma < COARSEST:
            raise PlanError(
                f"{len(group.owners)} owners are too many to evaluate between: the product of so many numbers would be "
                "rounded too coarsely. Evaluate on public rows with --rows."
            )
        plan = replace(blank, variance=self._variance(blank))
        return near_enough(plan, EvaluationPlan.accounted, lambda plan, bits: replace(plan, bits=bits))

    def _variance(self, blank: EvaluationPlan) -> Fraction:
        """The least noise at which a zeroed record costs at most ε, and no observer learns more than its limit."""
        group, phases = blank.group, blank.phases
        zeroed, replaced = (phases.zeroed(), group.tolerated), (phases.replaced(), group.tolerated)
        stated: dict[tuple[str, str], tuple[VectorChange, int]] = {
            (Server().name, ZERO_OUT.name): zeroed,
            (Reader().name, ZERO_OUT.name): zeroed,
            (Reader().name, REPLACE.name): replaced,
        }
        for owner in group.owners:
            known = known_to_party(group)
            stated[PartyView(owner).name, OthersPart(owner).name] = (blank.replaced_to(owner), known)
        limits = [
            (*stated[observer, unit], most)
            for observer, unit, most in self.limits
            if (observer, unit) in stated
        ]

        def noise(change: VectorChange, known: int, most: float) -> Fraction:
            return least_noise(
                lambda dealt: blank.event(change, known, dealt),
                epsilon=most,
                delta=blank.delta,
                drawn=lambda dealt: dealt.vector.part(group.whole),
                distributions=(LAW,),
                bits=blank.bits,
            ).variance

        return max(noise(*limit) for limit in [(*zeroed, float(self.epsilon)), *limits])


Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Opened(SessionResult[EvaluationPlan]):
    """What was opened, with everything that says what it is; nothing at a mere computing party."""

    coefficients: Integers = field(repr=False)


async def evaluation_session(
    party: Party, table: Table | None, spec: EvaluationSpec, terms: Terms | None
) -> Opened:
    """Prepare, open once, publish. `terms` are this owner's parts of every score, from the middle of their range."""
    aligned, plan = await prepare(party, table, spec, EvaluationPlan)
    mine = None
    if aligned is not None:
        if terms is None:
            raise LocalProtocolError(f"{party.name} owns columns but has no part of the model")
        mine = checked_terms(terms(aligned), party.name, plan)
    opened = await open_sums(party, aligned, mine, plan)
    shape, largest = (plan.coefficients,), plan.field.capacity
    read = await publish_integers(party, opened, name="coefficients", shape=shape, largest=largest)
    return Opened(plan, party.run, party.seeded, aligned, read)


async def open_sums(
    party: Party, aligned: AlignedTable | None, terms: Array | None, plan: EvaluationPlan
) -> Integers | None:
    group, t = party.group, party.group.threshold
    release = plan.release(party.name, run=party.run, reproducible=party.seeded)
    await charge_first(party, release)
    sums = []
    blocks = None if terms is None else own_rows(party.name, aligned, plan.rows).blocks(plan.block)
    for number, start in enumerate(range(0, plan.rows, plan.block)):
        rows, mine = min(plan.block, plan.rows - start), None
        if terms is not None and blocks is not None:
            label = next(blocks).label
            labels = None if label is None else np.asarray(label)
            mine = own_phases(party.name, terms[start : start + rows], labels, plan)
        shapes = {owner: (rows, width) for owner, width in plan.dealt.items()}
        phases = await share(party, mine, shapes, scheme=plan.scheme, degree=t, step=f"phases {number}")
        others = await rotated(
            party,
            [phases[owner] for owner in plan.others],
            scheme=plan.scheme,
            groups=len(plan.heads),
            step=f"turning {number}",
        )
        sums.append(_products(plan, phases[plan.holder], others))
        party.progress("phases", start + rows, plan.rows)
    # Only a reading that has come to its end was found to be of the same values as the others.
    if blocks is not None and next(blocks, None) is not None:
        raise LocalProtocolError(f"{party.name} has more rows than the plan")
    part = plan.noise.part(group.whole)
    noise = await share_noise(
        party,
        lambda: part.draw((1, plan.coefficients), party.randomness),
        plan.coefficients,
        scheme=plan.scheme,
        step="noise",
    )
    noisy = total(sums) + noise
    opened = await open_to(party, group.server, noisy, scheme=plan.scheme, release=release, step="evaluation")
    return None if opened is None else np.asarray(opened[0], dtype=np.int64)


def checked_terms(terms: Array, owner: str, plan: EvaluationPlan) -> Array:
    """An owner's part of every score, none of them past its bound: privacy rests on that."""
    values = np.asarray(terms, dtype=np.float64)
    values = values[:, None] if values.ndim == 1 else values
    if values.shape != (plan.rows, plan.scores) or not np.isfinite(values).all():
        raise DataError(
            f"{owner}: the parts of the scores of {plan.rows} people should be finite numbers, {plan.scores} for each."
        )
    reaches = np.array([plan.extent_of(owner, score) for score in range(plan.scores)])
    return np.clip(values, -reaches, reaches)


def own_phases(owner: str, terms: Array, labels: NDArray[Any] | None, plan: EvaluationPlan) -> Integers:
    """What one owner deals of some people, head by head: real parts, then imaginary parts, frequency 0 first.

    The label holder weighs them for every sum of a head: by class, or by nearness to either end of the label's range.
    """
    mine = labels if owner == plan.holder else None
    if owner == plan.holder and mine is None:
        raise LocalProtocolError(f"{owner} should bring a label, brought none")
    dealt = []
    for head in plan.heads:
        angles = head.score * terms[:, head.column]
        if mine is not None and head.label:
            low, high = plan.label.from_unit([-1.0, 1.0])
            angles = angles + plan.label.to_unit(mine) * (high - low) / 2.0
        turns = np.outer(angles * head.omega, (0, *head.frequencies))
        sizes = np.array([plan.gamma, *([plan.gamma] * plan.harmonics if mine is None else head.amplitudes)])
        for weights in _weights(mine, plan, head):
            dealt += [
                np.rint(weights * sizes * phasor(turns)).astype(np.int64) for phasor in (np.cos, np.sin)
            ]
    return np.concatenate(dealt, axis=1)


def _weights(labels: NDArray[Any] | None, plan: EvaluationPlan, head: Head) -> list[Array | float]:
    if labels is None or head.kind == "whole":
        return [1.0]
    if head.kind == "classes":
        return [(labels == code).astype(np.float64)[:, None] for code in range(head.sums)]
    # On the grid, so that the two counts of somebody add up to one.
    share = np.rint(plan.gamma * (1.0 + plan.label.to_unit(labels)) / 2.0)[:, None] / plan.gamma
    return [1.0 - share, share]


def _products(plan: EvaluationPlan, holder: Shared, others: Shared) -> Shared:
    """Σ over people of the label holder's phases times the others': of every sum its count, if it has one, and waves.

    Each computing party makes them alone. The degree has doubled, and no mask is left.
    """
    shape, degree = (1, plan.coefficients), holder.degree + others.degree
    if holder.share is None or others.share is None:
        return Shared(None, shape, degree)
    width, half, start = plan.width, plan.width // 2, 0
    opened: list[FieldArray] = []

    def paired(words: NDArray[Any], row: int, column: int) -> FieldArray:
        block = words[:, row * half : (row + 1) * half, column * half : (column + 1) * half]
        return FieldArray(plan.field, np.ascontiguousarray(block.diagonal(axis1=1, axis2=2)[:, None]))

    for place, head in enumerate(plan.heads):
        theirs = others.share.columns(place * width, (place + 1) * width)
        for _ in range(head.sums):
            words = holder.share.columns(start, start + width).transpose_times(theirs).words
            real = paired(words, 0, 0) - paired(words, 1, 1)
            imaginary = paired(words, 0, 1) + paired(words, 1, 0)
            opened += [real.columns(0 if head.counted else 1, half), imaginary.columns(1, half)]
            start += width
    return Shared(opened[0].stack_columns(opened[1:]), shape, degree)
