"""Everything the parties agree on before a noisy moment matrix is made. It touches no data.

The row of a person is z = (x₁, …, x_K, label block): party q's features have norm at most γc_q before rounding, Σ c_q²
≤ 1, so the joint row is bounded without anyone seeing another's norms. Σ zzᵀ is released once per unordered pair.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from colonnade.crypto.product_proof import MOST_ROWS
from colonnade.crypto.row_proofs import RowClaim
from colonnade.data.coding import Mode
from colonnade.data.encoder import LEAST_GAMMA, Rounding
from colonnade.data.labels import LabelBlock, LabelBlocks
from colonnade.errors import LabelMismatch, PlanError
from colonnade.noise.discrete_gaussian import MatrixGaussianNoise
from colonnade.noise.skellam import MatrixSkellamNoise
from colonnade.numbers.field import FIELD63, Field, check_fits
from colonnade.privacy.events import COARSE_BITS, Event, MatrixChange
from colonnade.privacy.sensitivity import matrix
from colonnade.privacy.sensitivity.matrix import RowShape
from colonnade.protocols import plans
from colonnade.protocols.assumptions import Verify
from colonnade.protocols.dealt_noise import DealtNoise, Law, bits_for, least_noise, near_enough
from colonnade.protocols.shared_plan import Layout, SharedPlan
from colonnade.protocols.sharing import block_rows
from colonnade.protocols.verified_rows import checked_block, chosen_verify
from colonnade.runtime.party import Group


class MomentsOptions(plans.ClassOptions, plans.Options):
    """`conditional` opens the moments of each class apart, at the same noise: trees need it."""

    method = "moments"
    takes_labels = True
    in_shares = True

    conditional: bool = False

    def plan(self, spec: plans.TrainingSpec, group: Group, schemas: plans.Schemas, rows: int) -> MomentsPlan:
        if self.conditional and spec.task != "classification":
            raise LabelMismatch(
                f"conditional = true tells moments apart by class, and {spec.task} has no classes. Leave it out, or "
                'write task = "classification".'
            )
        if self.conditional:
            plans.check_one_label(schemas, "a release by class", "Leave out conditional = true")
        return plan_moments(spec, group, schemas, rows, gamma=spec.gamma)


@dataclass(frozen=True)
class MomentsPlan(SharedPlan, plans.TrainingPlan, Layout):
    """Made by `plan_moments`, which chooses `law` and `mu`, half the variance of the whole noise on the diagonal."""

    gamma: int
    mu: Fraction
    rounding: Rounding = "nearest"
    law: Law = "gaussian"
    verify: Verify = "none"
    bits: int = COARSE_BITS

    charged_as = "moments"

    @property
    def conditional(self) -> bool:
        return isinstance(self.spec.options, MomentsOptions) and self.spec.options.conditional

    @property
    def mode(self) -> Mode:
        """Classification puts numbers on a circle, which lifts every classifier; the rest stays linear."""
        return "circle" if self.spec.task == "classification" else "linear"

    @property
    def rows_rounded(self) -> Rounding:
        return self.rounding

    @cached_property
    def labels(self) -> LabelBlocks:
        declared = [label for schema in self.schemas for label in schema.labels]
        return LabelBlocks.of(() if self.spec.task == "pca" else declared)

    @property
    def label(self) -> LabelBlock:
        return self.labels.first

    @property
    def several(self) -> bool:
        return len(self.labels.blocks) > 1

    @property
    def label_holder(self) -> str:
        return self.group.active if self.group.active is not None else self.group.owners[0]

    def shape_of(self, party: str) -> RowShape:
        quantizer = self.quantizers[party]
        features, bound = quantizer.encoder.width, quantizer.norm_squared_bound
        if party != self.label_holder:
            return RowShape(features, bound)
        whole = RowShape(
            features,
            bound,
            label_entries=self.labels.width,
            label_norm_squared=self.labels.norm_squared(self.gamma),
            one_hot=self.labels.one_hot,
        )
        if self.verify == "none" or self.conditional:
            # By class features and indicators are proved apart, and indicators to be one-hot.
            return whole
        # What is proved is the norm of all that an owner deals, and not that a label in it is one-hot.
        return RowShape(features=whole.features + whole.label_entries, norm_squared=whole.bound)

    @property
    def dealt(self) -> dict[str, int]:
        extra = {self.label_holder: self.labels.width}
        return {owner: width + extra.get(owner, 0) for owner, width in self.widths.items()}

    @property
    def claims(self) -> dict[str, tuple[RowClaim, ...]]:
        """What each owner proves about every row: its squared norm, features and label together.

        By class the label holder proves the norm of its features in all classes, and that of the indicators: of
        integers that add up to 1, as indicators do by construction, a squared norm of 1 leaves one, and it is 1.
        """
        if self.conditional:
            classes, holder = self.label.width, self.label_holder
            claims = {
                owner: (RowClaim(width, self.bounds[owner]),) if width else ()
                for owner, width in self.widths.items()
            }
            own = self.widths[holder]
            features = (RowClaim(classes * own, self.bounds[holder]),) if own else ()
            return claims | {holder: (*features, RowClaim(classes, 1))}
        return {
            owner: (RowClaim(width, self.shape_of(owner).bound),) if width else ()
            for owner, width in self.dealt.items()
        }

    @property
    def size(self) -> int:
        if self.conditional:
            return self.label.width * self.class_size
        return sum(self.widths.values()) + self.labels.width

    @property
    def class_size(self) -> int:
        return sum(self.widths.values()) + 1

    def class_span(self, kind: int) -> slice:
        """Where the matrix of a class lies along the diagonal, if moments are told apart by class."""
        return slice(kind * self.class_size, (kind + 1) * self.class_size)

    @property
    def coefficients(self) -> int:
        """How many numbers are opened: each unordered pair once, of classes that are told apart in each alone."""
        if self.conditional:
            return self.label.width * self.class_size * (self.class_size + 1) // 2
        return self.size * (self.size + 1) // 2

    @property
    def block(self) -> int:
        """Rows dealt at a time; of products that are proved, so many as one proof takes."""
        if self.verify == "none":
            return block_rows(self.size)
        if not self.conditional:
            return checked_block(self.claims, block_rows(self.size))
        others = sum(width for owner, width in self.widths.items() if owner != self.label_holder)
        return max(1, min(block_rows(self.size), MOST_ROWS // max(1, others * (self.label.width - 1))))

    @property
    def dealt_noise(self) -> DealtNoise:
        return DealtNoise(self.law, 2 * self.mu, self.bits)

    @cached_property
    def noise(self) -> MatrixGaussianNoise | MatrixSkellamNoise:
        return self.dealt_noise.matrix

    @property
    def total_mu(self) -> Fraction:
        return self.dealt_noise.total_variance(self.group) / 2

    @cached_property
    def field(self) -> Field:
        extent = self.noise.part(self.group.whole).support
        check_fits(
            FIELD63,
            rows=self.rows,
            per_row=self.shape_of_all_but(None).bound,
            noise=len(self.group.dealers) * extent,
            what=f"a moment matrix at gamma = {self.gamma}",
        )
        return FIELD63

    def zeroed(self, known: int) -> Event:
        return self._event(self.zeroed_change, known)

    def others_replaced(self, owner: str, known: int) -> Event:
        if self.group.threshold > 1:
            # With t − 1 confederates it knows more columns than its own; the whole record bounds them all.
            return self.all_replaced(known)
        change = (
            matrix.conditional_change_part_replaced
            if self.conditional
            else matrix.matrix_change_part_replaced
        )
        return self._event(change(self.shape_of_all_but(owner), self.shape_of(owner)), known)

    def all_replaced(self, known: int) -> Event:
        change = matrix.conditional_change_replace if self.conditional else matrix.matrix_change_replace
        return self._event(change(self.shape_of_all_but(None)), known)

    @cached_property
    def zeroed_change(self) -> MatrixChange:
        change = matrix.conditional_change_zero_out if self.conditional else matrix.matrix_change_zero_out
        return change(self.shape_of_all_but(None))

    def _event(self, change: MatrixChange, known: int) -> Event:
        return self.dealt_noise.matrix_event(change, self.group, size=self.size, known=known)

    @property
    def what(self) -> str:
        if self.conditional:
            return f"second moments of {self.class_size} columns for each of {self.label.width} classes"
        several = f", {len(self.labels.blocks)} labels in them" if self.several else ""
        return f"second moments of {self.size} columns{several}"

    def own_data(self) -> dict[str, Any]:
        return {
            "mu": str(self.mu),
            "noise": self.dealt_noise.to_data(),
            **self.layout_data(),
            "caps": {party: str(quantizer.cap_squared) for party, quantizer in self.quantizers.items()},
            "primes": list(self.field.primes),
            "block": self.block,
            "verify": self.verify,
            **({"labels": [one.to_data() for one in self.labels.blocks]} if self.several else {}),
        }


def plan_moments(
    spec: plans.TrainingSpec,
    group: Group,
    schemas: plans.Schemas,
    rows: int,
    *,
    gamma: int,
    rounding: Rounding = "nearest",
) -> MomentsPlan:
    plans.check_computing_parties(group)
    terms = plans.agreed(spec, group, schemas, rows)
    blank = _with_checks(MomentsPlan(gamma, Fraction(1), rounding, bits=bits_for(spec.epsilon), **terms))
    plans.check_memory(blank.size)
    _ = blank.quantizers  # refuses what is not a grid at all

    def calibrated(grid: int) -> MomentsPlan:
        on_grid = _with_checks(replace(blank, gamma=grid))
        least = least_noise(
            lambda noise: noise.matrix_event(on_grid.zeroed_change, group, size=blank.size),
            epsilon=spec.epsilon,
            delta=terms["delta"],
            drawn=lambda noise: noise.matrix.part(group.whole),
            bits=blank.bits,
        )
        plan = replace(on_grid, mu=least.variance / 2, law=least.law)
        return near_enough(plan, MomentsPlan.accounted, lambda plan, bits: replace(plan, bits=bits))

    plan = plans.on_grid(calibrated, gamma, least=LEAST_GAMMA[rounding])
    plan.check_stated()
    return plan


def _with_checks(plan: MomentsPlan) -> MomentsPlan:
    verify, plan = plan.spec.verify, replace(plan, verify="none")
    rows = min(plan.rows, plan.block)
    if not plan.conditional:
        return replace(plan, verify=chosen_verify(verify, plan.group, plan.claims, rows=rows))
    if verify == "rows":
        raise PlanError(
            "verify = 'rows': moments by class multiply what was dealt, and checked rows prove nothing about "
            "unchecked products. Write verify = 'all', or 'none'."
        )
    # By default nothing: a proof for every product costs more than two and a half times.
    plan = replace(plan, verify=verify or "none")
    chosen_verify(plan.verify, plan.group, plan.claims, rows=min(plan.rows, plan.block))
    return plan
