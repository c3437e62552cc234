"""Scores of people whose columns lie with several parties: only the one that asks sees them.

Every party turns its part of each person into a few numbers, its term, and a secure sum shows the receiver the totals.
An exact total less the receiver's own term discloses the other parties' term, and the statement says so. What must not
be disclosed on top is what the weights learnt: they are released, public, or trained with privacy. People the weights
were trained on are refused, because a guarantee was given for them; with ε their totals are released with noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.masks import SumRing
from colonnade.data.schema import PublicSchema
from colonnade.data.table import AlignedTable, Table
from colonnade.errors import DataError, PlanError, TrainedOn
from colonnade.ledger import Release
from colonnade.noise.poisson_binomial import PoissonBinomialNoise
from colonnade.privacy.calibrate import calibrate_poisson_binomial
from colonnade.privacy.events import PoissonBinomial, Repeated
from colonnade.privacy.guarantee import View
from colonnade.privacy.observers import OthersPart, PartOf, PartyView
from colonnade.protocols.agreement import charge_first
from colonnade.protocols.assumptions import UNCHECKED
from colonnade.protocols.plans import Plan, Spec, checked_delta
from colonnade.protocols.secure_sum import secure_sum, share_mask_keys
from colonnade.protocols.session import SessionResult, confirm, prepare
from colonnade.runtime.party import Group, Party

Weights = Literal["released", "public", "private"]
Array = NDArray[np.float64]
Terms = Callable[[AlignedTable], Array]
# An exact term is rounded to one of 2^24 steps over its range.
GRID = 1 << 23


@dataclass(frozen=True)
class ScoresSpec(Spec):
    """Who asks for scores, of what width and within which bound; ε asks for noisy ones, charged at δ.

    `weights` are "released", "public" (frozen or random) or "private" (trained with differential privacy).
    """

    receiver: str
    width: int
    bound: float
    weights: Weights
    epsilon: float | None = None
    trials: int = 16

    method = "joint scores"
    takes_labels = True

    def planned(self, group: Group, schemas: tuple[PublicSchema, ...], rows: int) -> ScoresPlan:
        if self.receiver not in group.owners:
            raise PlanError(
                f"{self.receiver!r} should receive the scores but is not among the owners ({', '.join(group.owners)})."
            )
        if self.weights not in get_args(Weights):
            raise PlanError(
                f"weights = {self.weights!r}: joint scores need weights that are released, public or privately "
                "trained. Scores by other weights disclose the people they were trained on."
            )
        if self.width < 1 or self.trials < 1 or not (math.isfinite(self.bound) and self.bound > 0):
            raise PlanError(
                f"width = {self.width}, bound = {self.bound:g}, trials = {self.trials}: all of them are positive."
            )
        target = 1.0 if self.epsilon is None else self.epsilon
        delta = checked_delta(target, self.delta, self.accepted_delta, rows)
        beta = Fraction(0)
        if self.epsilon is not None:
            event = calibrate_poisson_binomial(
                len(group.owners) - 1,
                trials=(self.trials,),
                times=self.width,
                epsilon=self.epsilon,
                delta=delta,
            )
            beta = Fraction(event.beta)
        return ScoresPlan(spec=self, group=group, schemas=schemas, rows=rows, delta=delta, beta=beta)


@dataclass(frozen=True, kw_only=True)
class ScoresPlan(Plan):
    """One sum of `width` numbers per person, each party's within ±bound: exact, or noisy where β is positive."""

    spec: ScoresSpec
    beta: Fraction

    charged_as = "scores"
    published = False

    @property
    def receiver(self) -> str:
        return self.spec.receiver

    @cached_property
    def noise(self) -> PoissonBinomialNoise | None:
        if not self.beta:
            return None
        return PoissonBinomialNoise(self.spec.trials, self.beta, Fraction(str(self.spec.bound)))

    @property
    def deviation(self) -> float:
        """The most that a noisy sum deviates: K parties add Bin(b, ½ + βx/C), each read as C/(bβ)."""
        if not self.beta:
            return 0.0
        return (
            self.spec.bound * math.sqrt(len(self.group.owners) / (4.0 * self.spec.trials)) / float(self.beta)
        )

    @property
    def hiding(self) -> int:
        return len(self.group.owners) - 1

    @cached_property
    def ring(self) -> SumRing:
        return SumRing(
            parties=len(self.group.owners), largest=2 * GRID if self.noise is None else self.spec.trials
        )

    @cached_property
    def views(self) -> tuple[View, ...]:
        if self.noise is None:
            return ()
        part = Repeated(PoissonBinomial(self.hiding, self.spec.trials, self.beta), self.spec.width)
        whole = Repeated(
            PoissonBinomial(self.hiding, self.spec.trials, self.beta, self.hiding), self.spec.width
        )
        alone = f"it colludes with nobody (its own term it knows){UNCHECKED}"
        observer = PartyView(self.receiver)
        others = [owner for owner in self.group.owners if owner != self.receiver]
        return (
            *(View(observer, PartOf(owner), part, alone) for owner in others),
            View(observer, OthersPart(), whole, alone),
        )

    @property
    def statement(self) -> str:
        seen = f"Only {self.receiver} sees the scores."
        if self.noise is not None:
            return (
                f"{seen} They carry noise of a standard deviation of up to {self.deviation:.2g} on each sum, and are "
                "read as what is expected under it; what they disclose is stated and charged."
            )
        numbers, are = ("one number", "is") if self.spec.width == 1 else (f"{self.spec.width} numbers", "are")
        return (
            f"{seen} They are exact: a score less {self.receiver}'s own part is the other parties' part of it, so that "
            f"{numbers} about each of {self.exact} people {are} disclosed to {self.receiver}, and no ε "
            "covers them. People trained on are told by their ids: somebody who has another id than in training is not "
            "recognised."
        )

    @property
    def exact(self) -> int:
        return self.rows if self.noise is None else 0

    @property
    def what(self) -> str:
        return f"{'exact' if self.exact else 'noisy'} joint scores of {self.rows} people"

    @property
    def shown_to(self) -> tuple[str, ...]:
        return (self.receiver,)

    def receiver_for(self, party: str) -> str:
        return self.receiver

    def release(self, party: str, *, run: str, reproducible: bool) -> Release:
        """What an owner records: lines where the scores are noisy, the fact of disclosure where they are exact."""
        release = super().release(party, run=run, reproducible=reproducible)
        discloses = party in self.group.owners and party != self.receiver
        return replace(release, exact=self.exact if discloses else 0)

    def own_data(self) -> dict[str, Any]:
        return {"beta": str(self.beta), "grid": GRID}


@dataclass(frozen=True, eq=False)
class Scored(SessionResult[ScoresPlan]):
    """What a member comes away with: the sums and the people they belong to at the receiver, nothing elsewhere."""

    sums: Array | None


async def scores_session(
    party: Party,
    table: Table | None,
    spec: ScoresSpec,
    terms: Terms | None,
    trained_on: Container[str] = frozenset(),
) -> Scored:
    """Meet, align, agree, record, sum once. `trained_on` are the ids of this party that the weights learnt from."""
    aligned, plan = await prepare(party, table, spec, ScoresPlan)
    mine = None
    if aligned is not None:
        _refuse_trained(party, plan, aligned, trained_on)
        given = np.zeros((plan.rows, plan.spec.width)) if terms is None else terms(aligned)
        mine = _checked(party, plan, given)
    release = plan.release(party.name, run=party.run, reproducible=party.seeded)
    await charge_first(party, release)
    streams = await share_mask_keys(party, party.group.owners)
    total = await secure_sum(
        party,
        # Noise is drawn once it is charged.
        None if mine is None else _counts(party, plan, mine),
        (plan.rows, plan.spec.width),
        streams=streams,
        among=party.group.owners,
        ring=plan.ring,
        receiver=plan.receiver,
        release=release,
        step="scores",
    )
    await confirm(party, "")
    sums, parties = None, len(party.group.owners)
    if total is not None and plan.noise is not None:
        sums = plan.noise.estimate(total, parties=parties)
    elif total is not None:
        sums = (total.astype(np.float64) - parties * GRID) * (plan.spec.bound / GRID)
    return Scored(plan, party.run, party.seeded, aligned, sums)


def _counts(party: Party, plan: ScoresPlan, terms: Array) -> NDArray[np.int64]:
    if plan.noise is not None:
        return plan.noise.draw(terms, party.randomness)
    return np.rint(terms * (GRID / plan.spec.bound)).astype(np.int64) + GRID


def _checked(party: Party, plan: ScoresPlan, terms: Array) -> Array:
    if terms.shape != (plan.rows, plan.spec.width):
        raise DataError(
            f"{party.name}: the terms of {plan.rows} people have shape {terms.shape}; agreed were "
            f"{plan.spec.width} each."
        )
    # Written so that what is not a number fails it too.
    if not (np.abs(terms) <= plan.spec.bound).all():
        raise DataError(
            f"{party.name}: some terms lie outside ±{plan.spec.bound:g} or are not numbers. Agree on a larger bound."
        )
    return terms


def _refuse_trained(
    party: Party, plan: ScoresPlan, aligned: AlignedTable, trained_on: Container[str]
) -> None:
    if plan.noise is not None:
        return
    trained = sum(str(person) in trained_on for person in aligned.table.ids())
    if trained:
        raise TrainedOn(
            f"{party.name}: {trained} of the {plan.rows} people to score were trained on, and exact scores would show "
            "more of them than was promised. Leave them out, or give an ε (--epsilon): scores then carry noise and are "
            "charged."
        )
