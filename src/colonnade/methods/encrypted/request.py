"""From what owners want of an encrypted gradient to a plan that keeps it, or the reason why there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from colonnade.data.schema import PublicSchema
from colonnade.errors import LabelMismatch, OnlyForPublicData, PlanError
from colonnade.methods.encrypted.plan import FLOAT_DRIFT, LARGEST_RADIUS, EncryptedPlan, EncryptedTerms
from colonnade.methods.encrypted.sigmoid import SLOPES
from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.events import Event
from colonnade.protocols.plans import Request, check_parties, checked_delta
from colonnade.runtime.group import Group


@dataclass(frozen=True)
class EncryptedRequest(EncryptedTerms, Request[EncryptedPlan]):
    """What the owners want, before anybody has said how many rows or which columns there are."""

    def planned(self, group: Group, schemas: tuple[PublicSchema, ...], rows: int) -> EncryptedPlan:
        """The plan with the least noise that keeps ε for every owner about the others' part of a record."""
        check_parties(group, schemas, "classification")
        delta = checked_delta(self.epsilon, self.delta, self.accepted_delta, rows)
        plan = EncryptedPlan(self, group=group, rows=rows, schemas=schemas, delta=delta)
        _check(plan)
        if self.defence == "sound":
            plan = _calibrated(plan)
        elif self.defence == "paper":
            one = 1 << plan.fraction_bits
            sigmas = {owner: Fraction(figure.value) for owner, figure in plan.paper_sigmas.items()}
            plan = replace(plan, noise=tuple((owner, (sigma * one) ** 2) for owner, sigma in sigmas.items()))
        for owner in group.owners:
            # Refused here, before any data is touched: what could wrap around, and noise that no sampler draws.
            _ = plan.packing(owner)
            if plan.noise:
                _ = plan.noise_of(owner)
        return plan


def _calibrated(plan: EncryptedPlan) -> EncryptedPlan:
    # Every owner's messages get noise in proportion to how far a record moves them, so that each costs the same.
    totals = {owner: plan.sensitivities(owner).total for owner in plan.group.owners}
    shares = {owner: Fraction(max(1, math.ceil(total**2))) for owner, total in totals.items()}

    def scaled(factor: Fraction) -> EncryptedPlan:
        noisy = replace(plan, noise=tuple((owner, factor * share) for owner, share in shares.items()))
        noisy.__dict__["sensitivities_by_owner"] = plan.sensitivities_by_owner
        return noisy

    def least(owner: str) -> Fraction:
        def seen(factor: Fraction) -> Event:
            return scaled(factor).seen_by(owner)

        return calibrate(seen, epsilon=plan.request.epsilon, delta=plan.delta)

    return scaled(max(least(owner) for owner in plan.group.owners))


def _check(plan: EncryptedPlan) -> None:
    request, rows = plan.request, plan.rows
    classes = len(plan.label.classes)
    if classes != 2:
        raise LabelMismatch(
            f"the encrypted gradient tells two classes apart; this label has {classes}. Use moments."
        )
    if request.defence != "sound":
        private = [owner for owner in plan.group.owners if owner not in request.declared_public]
        if private:
            raise OnlyForPublicData(
                f"defence = {request.defence!r} protects nobody and is for data that every party declared public; "
                f"{', '.join(private)} did not. Use defence = 'sound', or write public = true in each party's file."
            )
    if request.defence != "none" and not plan.splits:
        raise PlanError(
            f"defence = {request.defence!r} is worked out for approximation = 'taylor', not for "
            f"{request.approximation!r}, where no bound on the messages is proved."
        )
    if request.epochs < 1:
        raise PlanError(f"epochs = {request.epochs}, but there must be at least one.")
    if request.batch is not None and not 1 <= request.batch <= rows:
        raise PlanError(f"batch = {request.batch}, but it must be between 1 and the {rows} aligned rows.")
    joint = math.fsum(plan.cap(owner) ** 2 for owner in plan.group.owners)
    most = 1.0 if request.defence == "paper" else 2 / (SLOPES[request.approximation] * joint)
    if not 0 < request.learning_rate <= most:
        raise PlanError(
            f"learning_rate = {request.learning_rate:g}, but it must be above 0 and at most {most:.4g}: beyond it "
            "gradient steps spread weights apart instead of drawing them together."
        )
    if not 0 < request.radius <= LARGEST_RADIUS:
        raise PlanError(f"radius = {request.radius:g}, but it must be above 0 and at most {LARGEST_RADIUS}.")
    _check_drift(plan)


def _check_drift(plan: EncryptedPlan) -> None:
    """Refuse schedules over which the rounding of floats could move a message by more than was counted.

    Per update less than (s + d + 64)·(1 + η)·(k + 2 + ΣC)·2^−52, over all steps of two runs
    (docs/proofs/encrypted-gradient.md, "Floats").
    """
    if plan.request.defence != "sound":
        return
    widest = max(plan.width(owner) for owner in plan.group.owners)
    clips = sum(plan.clips.values()) / (1 << plan.fraction_bits)
    size = plan.request.radius + 2 + clips
    drift = (plan.schedule.batch + widest + 64) * (1 + plan.request.learning_rate) * size * 2.0**-51
    if drift * (plan.schedule.steps + 1) > FLOAT_DRIFT / (1 << plan.fraction_bits):
        raise PlanError(
            f"{plan.schedule.steps} steps of {plan.schedule.batch} rows are more than floating point can follow "
            "closely enough for ε to be exact. Use fewer epochs or larger batches."
        )
