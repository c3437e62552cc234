"""What the parties want of a run by noisy gradients, and the plan with the least noise that keeps their ε."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from colonnade.data.quantizer import LEAST_GAMMA, Rounding
from colonnade.data.schema import PublicSchema
from colonnade.errors import FieldTooSmall, PlanError, PrivacyError
from colonnade.methods.slr.plan import DEFAULT_GAMMA, GradientPlan, Schedule, all_steps
from colonnade.numbers.field import FIELD63
from colonnade.privacy.batches import as_draws
from colonnade.privacy.events import FINE_BITS
from colonnade.privacy.rounded_normal import ROUNDING_VARIANCES
from colonnade.privacy.sensitivity.gradient import VectorChange, fused_zero_out
from colonnade.protocols.assumptions import Verify
from colonnade.protocols.dealt_noise import DealtNoise, least_noise
from colonnade.protocols.limits import gamma_advice
from colonnade.protocols.plans import Request, check_keepers, check_parties, check_two_classes, checked_delta
from colonnade.protocols.precision import bits_for, near_enough
from colonnade.protocols.verified_rows import chosen_verify
from colonnade.runtime.group import Group

_FINE = 1 << 20


@dataclass(frozen=True)
class GradientRequest(Request[GradientPlan]):
    """What the parties want, before anybody has said how many rows or which columns there are."""

    epsilon: float
    schedule: Schedule
    gamma: int = DEFAULT_GAMMA
    rounding: Rounding = "retry"
    verify: Verify | None = None

    method = "slr"
    in_shares = True

    def planned(self, group: Group, schemas: tuple[PublicSchema, ...], rows: int) -> GradientPlan:
        """The plan with the least noise that keeps ε for the server and for readers over all steps."""
        check_keepers(group)
        check_parties(group, schemas, "classification")
        delta = checked_delta(self.epsilon, self.delta, self.accepted_delta, rows)
        plan = GradientPlan(
            float(self.epsilon),
            self.gamma,
            self.rounding,
            self.schedule,
            mu=Fraction(1),
            bits=bits_for(self.epsilon),
            group=group,
            rows=rows,
            schemas=schemas,
            delta=delta,
        )
        check_two_classes(
            plan.label,
            plan.label_holder,
            why="this trains on",
            remedy="Use the method 'moments' for more.",
        )
        # By default nothing: checks of every batch take more than two and a half times.
        plan = replace(
            plan, verify=chosen_verify(self.verify or "none", group, plan.claims, rows=min(rows, plan.block))
        )
        try:
            plan = _calibrated(plan)
        except PlanError as error:
            advice = gamma_advice(
                lambda finer: _calibrated(replace(plan, gamma=finer)),
                least=LEAST_GAMMA[self.rounding],
                asked=self.gamma,
            )
            raise PlanError(f"{str(error).rstrip('.')}. {advice}") from None
        try:
            _ = plan.guarantees
        except PrivacyError:
            raise PlanError(
                f"parties know the batches, and {plan.uses} uses of a record at this noise cost them more than can be "
                f"stated at δ = {delta:g}. Take a rate above {float(self.schedule.rate):.3g}, fewer epochs or a "
                "smaller ε: larger batches need no more rows and are far better for the parties."
            ) from None
        return plan


def _calibrated(plan: GradientPlan) -> GradientPlan:
    """With the least noise that keeps ε; refuses, before any data is touched, what could wrap around."""
    noise = _least_noise(plan)
    plan = _drawable(replace(plan, mu=noise.variance / 2, law=noise.law))
    return near_enough(plan, GradientPlan.accounted, lambda plan, bits: _drawable(replace(plan, bits=bits)))


def _drawable(plan: GradientPlan) -> GradientPlan:
    """Refuses what no table can draw, and rows that cannot be checked in the field of what is opened."""
    plan.noise.part(plan.group.whole)
    if plan.verify != "none" and plan.field != FIELD63:
        raise FieldTooSmall(
            f"verify = {plan.verify!r} was asked for; rows are checked in a field of {FIELD63.bits} bits, and a "
            f"gradient at gamma = {plan.gamma} needs {plan.field.bits}. Write verify = 'none', or take a smaller gamma."
        )
    return plan


def _least_noise(plan: GradientPlan) -> DealtNoise:
    change, limits = fused_zero_out(plan.shape), as_draws(plan.limits_cost, plan.bits)
    fine = _on_fine_grid(plan.schedule, plan.size, plan.group, limits, plan.epsilon, plan.delta, plan.bits)
    scaled = fine.variance * Fraction(change.l2) ** 2 / _FINE**2 + 2 * ROUNDING_VARIANCES[FINE_BITS]
    if scaled >= _FINE:
        return replace(fine, variance=Fraction(math.ceil(scaled)))
    return least_noise(
        plan.sampled,
        epsilon=plan.epsilon,
        delta=plan.delta,
        drawn=lambda noise: noise.vector.part(plan.group.whole),
        bits=plan.bits,
        digits=4,
    )


@lru_cache(maxsize=256)
def _on_fine_grid(
    schedule: Schedule, size: int, group: Group, limits: int, epsilon: float, delta: float, bits: int
) -> DealtNoise:
    # Plans are made again and again, on many grids in search of one that fits; this part takes long and is the same.
    change = VectorChange(_FINE, Fraction(_FINE))
    return least_noise(
        lambda noise: all_steps(schedule, noise.vector_event(change, group, entries=size), limits),
        epsilon=epsilon,
        delta=delta,
        drawn=lambda _noise: None,
        laws=("gaussian",),
        bits=bits,
        digits=4,
    )
