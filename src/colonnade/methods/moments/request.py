"""What the parties want of a moment release, and the plan with the least noise that keeps their ε."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from colonnade.data.quantizer import LEAST_GAMMA, Rounding
from colonnade.data.schema import PublicSchema
from colonnade.errors import LabelMismatch, PlanError
from colonnade.methods.moments.plan import DEFAULT_GAMMA, MomentsPlan
from colonnade.protocols.assumptions import Verify
from colonnade.protocols.dealt_noise import Law, least_noise
from colonnade.protocols.limits import check_memory, gamma_advice
from colonnade.protocols.plans import (
    Request,
    Task,
    check_keepers,
    check_one_label,
    check_parties,
    checked_delta,
)
from colonnade.protocols.precision import bits_for, near_enough
from colonnade.protocols.verified_rows import chosen_verify
from colonnade.runtime.group import Group


@dataclass(frozen=True)
class MomentsRequest(Request[MomentsPlan]):
    """What the parties want, before anybody has said how many rows or which columns there are."""

    task: Task
    epsilon: float
    gamma: int = DEFAULT_GAMMA
    rounding: Rounding = "nearest"
    verify: Verify | None = None
    conditional: bool = False

    method = "moments"
    in_shares = True
    takes_labels = True

    def planned(self, group: Group, schemas: tuple[PublicSchema, ...], rows: int) -> MomentsPlan:
        """The plan with the least noise that keeps ε for the server and for readers, whatever of it may be known."""
        check_keepers(group)
        check_parties(group, schemas, self.task)
        epsilon, gamma, verify, conditional = self.epsilon, self.gamma, self.verify, self.conditional
        if conditional and self.task != "classification":
            raise LabelMismatch(
                f"conditional = true tells moments apart by class, and {self.task} has no classes. Leave it out, or "
                'write task = "classification".'
            )
        if conditional:
            check_one_label(schemas, "a release by class", "Leave out conditional = true")
        delta = checked_delta(epsilon, self.delta, self.accepted_delta, rows)

        def plan_with(mu: Fraction, grid: int, law: Law) -> MomentsPlan:
            plan = MomentsPlan(
                self.task,
                float(epsilon),
                grid,
                mu,
                self.rounding,
                law,
                conditional=conditional,
                bits=bits_for(epsilon),
                group=group,
                rows=rows,
                schemas=schemas,
                delta=delta,
            )
            if not conditional:
                return replace(
                    plan, verify=chosen_verify(verify, group, plan.claims, rows=min(rows, plan.block))
                )
            if verify == "rows":
                raise PlanError(
                    "verify = 'rows': moments by class multiply what was dealt, and rows that are checked show nothing "
                    "where products are not. Write verify = 'all', or 'none'."
                )
            # By default nothing: a proof for every product costs more than two and a half times.
            plan = replace(plan, verify=verify or "none")
            chosen_verify(plan.verify, group, plan.claims, rows=min(rows, plan.block))
            return plan

        blank = plan_with(Fraction(1), gamma, "gaussian")
        check_memory(blank.size)
        _ = blank.quantizers  # refuses what is no grid at all

        def calibrated(grid: int) -> MomentsPlan:
            change = plan_with(Fraction(1), grid, "gaussian").zeroed_change
            least = least_noise(
                lambda noise: noise.matrix_event(change, group, size=blank.size),
                epsilon=epsilon,
                delta=delta,
                drawn=lambda noise: noise.matrix.part(group.whole),
                bits=blank.bits,
            )
            plan = _drawable(plan_with(least.variance / 2, grid, least.law))
            return near_enough(
                plan, MomentsPlan.accounted, lambda plan, bits: _drawable(replace(plan, bits=bits))
            )

        try:
            plan = calibrated(gamma)
        except PlanError as error:
            advice = gamma_advice(calibrated, least=LEAST_GAMMA[self.rounding], asked=gamma)
            raise type(error)(f"{str(error).rstrip('.')}. {advice}") from None
        plan.check_stated()
        return plan


def _drawable(plan: MomentsPlan) -> MomentsPlan:
    """Refuses, before any data is touched, what could wrap around."""
    _ = plan.field
    return plan
