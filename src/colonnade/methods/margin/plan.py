"""Everything the parties agree on before noisy margin descent. It touches no data.

A small share of the budget buys second moments, which only shape the steps; the rest buys T gradients of a margin loss
over everybody, charged for every weights there could be: nothing caps them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field as Number

from colonnade.crypto.product_proof import MOST_ROWS
from colonnade.crypto.row_proofs import RowClaim
from colonnade.data.encoder import LEAST_GAMMA, MOST_GAMMA, Rounding
from colonnade.errors import FieldTooSmall, PlanError, TooMuchMemory
from colonnade.methods.margin.curve import HARMONICS, Curve, Phasors
from colonnade.noise.discrete_gaussian import LARGEST_VARIANCE, DiscreteGaussianNoise, MatrixGaussianNoise
from colonnade.noise.skellam import MatrixSkellamNoise, SkellamNoise
from colonnade.numbers.field import FIELD63, Field, smallest_field
from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.events import COARSE_BITS, Composed, Event, Gaussian, MatrixChange, Repeated
from colonnade.privacy.sensitivity import gradient as sensitivity
from colonnade.privacy.sensitivity.matrix import (
    RowShape,
    VectorChange,
    matrix_change_part_replaced,
    matrix_change_replace,
    matrix_change_zero_out,
)
from colonnade.protocols import plans
from colonnade.protocols.assumptions import Verify
from colonnade.protocols.dealt_noise import DealtNoise, Law, bits_for, least_noise, near_enough
from colonnade.protocols.shared_plan import Layout, SharedPlan
from colonnade.protocols.sharing import block_rows
from colonnade.protocols.verified_rows import chosen_verify
from colonnade.runtime.party import Group

MOST_STEPS = 1000
# The finest grids of a gradient: past this nothing is gained. The coarsest: below it rounding is most of the bound.
_FINEST, _COARSEST = 39, 16
# Tables are within 2⁻²⁰ of what they stand for up to this grid.
_LARGEST_GRID = 1 << 18


@dataclass(frozen=True)
class MarginSchedule:
    steps: int = 20
    harmonics: int = 6
    moments_share: Fraction = Fraction(1, 10)

    def __post_init__(self) -> None:
        if not 1 <= self.steps <= MOST_STEPS:
            raise PlanError(
                f"steps = {self.steps}: there are 1 to {MOST_STEPS} of them. Leave it out for 20."
            )
        if not 0 < self.moments_share < 1:
            raise PlanError(
                f"moments_share = {float(self.moments_share):g}: the moments take a share of the budget between 0 and "
                "1, and the gradients the rest. Leave it out for 0.1."
            )
        Curve.of(self.harmonics)

    def to_data(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "harmonics": self.harmonics,
            "moments_share": str(self.moments_share),
            "coefficients": list(Curve.of(self.harmonics).coefficients),
        }


CHECKED_HARMONICS = 3
"""Where owners' rows are bounded by their norm, |r| is charged as a₀ + Σ√(a_j² + b_j²): .538 of three harmonics, .613
of six, for about the same accuracy."""


class MarginOptions(plans.ClassOptions, plans.Options):
    """Nothing must be chosen, and nothing is by looking at the data.

    Second moments take `moments_share` of the budget. Half the `steps` cost half the time and about a thousandth of
    accuracy. Left out there are 6 `harmonics`, and 3 where what is dealt is checked. `gamma` is the grid of the rows.
    """

    method = "margin"
    in_shares = True

    steps: Annotated[int, Number(ge=1, le=MOST_STEPS)] = 20
    harmonics: Annotated[int, Number(ge=HARMONICS[0], le=HARMONICS[-1])] | None = None
    moments_share: Annotated[float, Number(gt=0, lt=1)] = 0.1
    gamma: Annotated[int, Number(ge=4)] | None = None

    def schedule(self, verify: Verify | None) -> MarginSchedule:
        share = Fraction(self.moments_share).limit_denominator(10**6)
        harmonics = self.harmonics or (CHECKED_HARMONICS if verify == "all" else MarginSchedule().harmonics)
        return MarginSchedule(self.steps, harmonics, share)

    def check(self, spec: plans.TrainingSpec) -> None:
        plans.check_job_gamma(
            spec, "is the grid of a moment release; margin has its own. Write it under [options]."
        )

    def plan(self, spec: plans.TrainingSpec, group: Group, schemas: plans.Schemas, rows: int) -> MarginPlan:
        plans.check_computing_parties(group)
        if spec.verify == "rows":
            raise PlanError(
                "verify = 'rows': margin multiplies what was dealt in every step, and checked rows prove nothing "
                "about unchecked products. Write verify = 'all', or 'none'."
            )
        terms = plans.agreed(spec, group, schemas, rows, task="classification")
        gamma = self.gamma or _grid(group)
        if not LEAST_GAMMA["retry"] <= gamma <= MOST_GAMMA:
            raise PlanError(
                f"gamma = {gamma} is outside {LEAST_GAMMA['retry']} to {MOST_GAMMA}. Leave it out for a grid that fits."
            )
        # By default nothing is checked: checks of every step cost more than two and a half times.
        verify, bits = spec.verify or "none", bits_for(spec.epsilon)
        schedule = self.schedule(spec.verify)
        blank = MarginPlan(schedule, gamma, 1, 1, Fraction(1), verify=verify, bits=bits, **terms)
        _check_size(blank)
        plan = _on_grids(blank, self.gamma)
        for claims in (plan.claims, plan.phasor_claims):
            chosen_verify(plan.verify, group, claims, rows=min(rows, plan.block))

        def drawn(noise: DealtNoise) -> object:
            moments, gradient = plan.noises(noise)
            return moments.matrix.part(group.whole), gradient.vector.part(group.whole)

        least = least_noise(
            lambda noise: plan.released(plan.noises(noise)),
            epsilon=spec.epsilon,
            delta=terms["delta"],
            drawn=drawn,
            bits=plan.bits,
            digits=4,
        )
        plan = replace(plan, variance=least.variance, law=least.law)
        return near_enough(plan, MarginPlan.accounted, lambda plan, bits: replace(plan, bits=bits))


@dataclass(frozen=True)
class MarginPlan(SharedPlan, plans.TrainingPlan, Layout):
    """Made by `MarginOptions`, which choose grids and noise."""

    schedule: MarginSchedule
    gamma: int
    label_grid: int
    phasor_grid: int
    variance: Fraction
    """Of the whole noise on an entry of a gradient: what is calibrated."""
    law: Law = "gaussian"
    verify: Verify = "none"
    bits: int = COARSE_BITS

    charged_as = "margin"
    constants = 1

    @property
    def rows_rounded(self) -> Rounding:
        return "retry"

    @property
    def size(self) -> int:
        return sum(self.widths.values())

    @property
    def constant_place(self) -> int:
        """Where in a row the constant stands."""
        before = self.group.owners[: self.group.owners.index(self.label_holder) + 1]
        return sum(self.widths[owner] for owner in before) - 1

    @property
    def heads(self) -> int:
        return 1 if len(self.label.classes) == 2 else len(self.label.classes)

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(owner for owner in self.group.owners if owner != self.label_holder)

    @property
    def block(self) -> int:
        """Rows dealt at a time; of products that are proved, so many as one proof takes."""
        if self.verify == "none":
            return block_rows(self.size)
        # A proof costs much the same for few rows as for many.
        rotated = self.phasor_width * (len(self.others) // 2)
        return min(4 * block_rows(self.size), MOST_ROWS // max(self.heads, rotated))

    @cached_property
    def phasors(self) -> Phasors:
        curve = Curve.of(self.schedule.harmonics)
        if self.verify == "none":
            return Phasors(curve, self.phasor_grid, self.label_grid)
        return Phasors.levelled(curve, self.phasor_grid, self.label_grid, len(self.others))

    @property
    def phasor_width(self) -> int:
        return 2 * self.schedule.harmonics * self.heads

    @property
    def dealt(self) -> dict[str, int]:
        extra = {self.label_holder: self.heads}
        return {owner: width + extra.get(owner, 0) for owner, width in self.widths.items()}

    @property
    def claims(self) -> dict[str, tuple[RowClaim, ...]]:
        claims = {
            owner: (RowClaim(width, self.shape_of(owner).norm_squared),) if width else ()
            for owner, width in self.widths.items()
        }
        constants = RowClaim(self.heads, self.heads * self.phasors.constant**2)
        return claims | {self.label_holder: (*claims[self.label_holder], constants)}

    @property
    def phasor_claims(self) -> dict[str, tuple[RowClaim, ...]]:
        """What each owner proves about what it deals in a step: a norm no longer than in its table, of all heads."""
        extent = self.phasors.extent
        most = dict.fromkeys(self.others, extent.plain) | {self.label_holder: extent.labelled}
        return {
            owner: (RowClaim(self.phasor_width, self.heads * most[owner].norm_squared),)
            for owner in self.group.owners
        }

    @property
    def scale(self) -> int:
        return int(self.label_grid * self.phasor_grid ** len(self.others))

    @cached_property
    def slopes(self) -> sensitivity.Slopes:
        """What r̃ never leaves, rounding included; where waves are checked, whatever one owner deals."""
        if self.verify != "none":
            constant = self.phasors.constant * self.phasor_grid ** len(self.others)
            return sensitivity.verified_slopes(self.phasors.extent, constant)
        curve, grids = self.phasors.curve, {"label_grid": self.label_grid, "phasor_grid": self.phasor_grid}
        return sensitivity.rounded_slopes(curve.bounds, curve.amplitudes, others=len(self.others), **grids)

    # --- sensitivities

    @cached_property
    def row(self) -> RowShape:
        return self.shape_of_all_but(None)

    @property
    def gradient_zeroed(self) -> VectorChange:
        return sensitivity.margin_zero_out(self.slopes, **self._shape)

    # --- noise

    def noises(self, noise: DealtNoise) -> tuple[DealtNoise, DealtNoise]:
        """Variances are to squared sensitivities as the budget: f to the moments, (1 − f)/T to a gradient."""
        share, steps = self.schedule.moments_share, self.schedule.steps
        of_moments = Fraction(matrix_change_zero_out(self.row).frobenius) ** 2 / share
        of_gradients = Fraction(self.gradient_zeroed.l2) ** 2 * steps / (1 - share)
        return replace(noise, variance=noise.variance * of_moments / of_gradients), noise

    @property
    def _dealt(self) -> tuple[DealtNoise, DealtNoise]:
        return self.noises(DealtNoise(self.law, self.variance, self.bits))

    @property
    def moments_variance(self) -> Fraction:
        return self._dealt[0].variance

    @cached_property
    def moments_noise(self) -> MatrixGaussianNoise | MatrixSkellamNoise:
        return self._dealt[0].matrix

    @cached_property
    def noise(self) -> DiscreteGaussianNoise | SkellamNoise:
        return self._dealt[1].vector

    @property
    def overhead(self) -> float:
        """How many times the variance that ε was computed for is in what is opened."""
        return len(self.group.dealers) / self.group.whole

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on an entry of an opened gradient, in units of rows of norm 1."""
        return math.sqrt(float(self.variance) * self.overhead) / (self.scale * self.gamma)

    @cached_property
    def field(self) -> Field:
        parts, whole = len(self.group.dealers), self.group.whole
        most = max(abs(self.slopes.least), self.slopes.most)
        of_gradients = math.isqrt(most**2 * self.row.norm_squared) + 1
        return smallest_field(
            rows=self.rows,
            per_row=max(of_gradients, self.row.norm_squared),
            noise=parts * max(self.noise.part(whole).support, self.moments_noise.part(whole).support),
            what=f"a gradient at gamma = {self.gamma}",
        )

    def check_drawable(self) -> None:
        field = self.field
        if self.verify != "none" and field != FIELD63:
            raise FieldTooSmall(
                f"verify = {self.verify!r} was asked for; what is dealt is checked in a field of {FIELD63.bits} bits, "
                f"and gradients between {len(self.group.owners)} owners need {field.bits}. "
                "Write verify = 'none', or take the method 'moments'."
            )

    # --- what it is to whom

    def zeroed(self, known: int) -> Event:
        return self.released(self._dealt, known)

    def released(self, dealt: tuple[DealtNoise, DealtNoise], known: int | None = None) -> Event:
        """The same under other noise: w is public, and every gradient may depend on those before it."""
        return self._event(matrix_change_zero_out(self.row), self.gradient_zeroed, dealt, known)

    def all_replaced(self, known: int) -> Event:
        return self._event(matrix_change_replace(self.row), self._gradient_replaced, self._dealt, known)

    def others_replaced(self, owner: str, known: int) -> Event:
        if self.group.threshold > 1:
            # With t − 1 confederates it knows more columns than its own; the whole record bounds them all.
            return self.all_replaced(known)
        own, rest = self.shape_of(owner), self.shape_of_all_but(owner)
        matrix = matrix_change_part_replaced(rest, own)
        if owner != self.label_holder:
            # The label is among what is replaced, so the slope may change its sign.
            return self._event(matrix, self._gradient_replaced, self._dealt, known)
        change = sensitivity.margin_others_replaced(
            self.slopes,
            own_norm_squared=own.norm_squared,
            others_norm_squared=rest.norm_squared,
            columns=self.size,
            heads=self.heads,
        )
        return self._event(matrix, change, self._dealt, known)

    @property
    def _gradient_replaced(self) -> VectorChange:
        return sensitivity.margin_replace(self.slopes, **self._shape)

    @property
    def _shape(self) -> dict[str, int]:
        return {"norm_squared": self.row.norm_squared, "columns": self.size, "heads": self.heads}

    def _event(
        self,
        matrix: MatrixChange,
        gradient: VectorChange,
        dealt: tuple[DealtNoise, DealtNoise],
        known: int | None,
    ) -> Event:
        moments = dealt[0].matrix_event(matrix, self.group, size=self.size, known=known)
        step = dealt[1].vector_event(gradient, self.group, entries=self.size * self.heads, known=known)
        return Composed((moments, Repeated(step, times=self.schedule.steps)))

    @property
    def what(self) -> str:
        return f"second moments of {self.size} columns and {self.schedule.steps} gradients of a margin loss"

    def own_data(self) -> dict[str, Any]:
        return {
            **self.layout_data(),
            "schedule": self.schedule.to_data(),
            "grids": [self.label_grid, self.phasor_grid],
            "slopes": [self.slopes.least, self.slopes.most],
            "noise": [dealt.to_data() for dealt in self._dealt],
            "primes": list(self.field.primes),
            "block": self.block,
            "verify": self.verify,
        }


def refusal(group: Group, *, epsilon: float, delta: float | None = None) -> str:
    """Why no run is planned between these owners at this ε, whatever their columns are; empty where one is."""
    if not (math.isfinite(epsilon) and epsilon > 0 and 0 < (delta or 1e-5) < 1):
        return ""  # whoever plans refuses it by name
    spec = plans.TrainingSpec("classification", epsilon, options=MarginOptions())
    terms = plans.Agreed(spec=spec, group=group, rows=1, schemas=(), delta=delta or 1e-5)
    blank = MarginPlan(MarginSchedule(), _grid(group), 1, 1, Fraction(1), **terms)
    try:
        plans.check_computing_parties(group)
        _on_grids(blank, None)
    except PlanError as error:
        return str(error)
    return ""


def _grid(group: Group) -> int:
    # Rows are rounded finely between two; with more owners the bits are needed by their waves.
    return 1 << 10 if len(group.owners) == 2 else 1 << 8


def _on_grids(plan: MarginPlan, requested: int | None) -> MarginPlan:
    """Rounding errs least where both grids add the same: γ_l is to γ_w as √½·M + ½ is to √½·Σ√(a_j² + b_j²)."""
    sigma = calibrate(lambda noise: Gaussian(1, noise), epsilon=plan.spec.epsilon, delta=plan.delta, digits=3)
    share = plan.schedule.steps / (1 - float(plan.schedule.moments_share))
    # A little more than at sensitivity ½, or what a checked row may reach, for what rounding adds.
    extent = 0.7 if plan.verify == "none" else 0.9
    largest = math.sqrt(float(LARGEST_VARIANCE)) / (
        extent * float(sigma) * math.sqrt(share * max(1, plan.heads))
    )
    bits = min(_FINEST, math.floor(math.log2(largest))) - math.log2(plan.gamma)
    if bits < _COARSEST:
        what, remedy = f"gamma = {plan.gamma}", "Leave gamma out, or take a smaller one."
        if not requested:
            what = f"epsilon = {plan.spec.epsilon:g} over {plan.schedule.steps} steps"
            remedy = "Raise epsilon, or take fewer steps."
        raise PlanError(
            f"{what} leaves no grid for the curve: noise on a grid that fine cannot be drawn. {remedy}"
        )
    curve = Curve.of(plan.schedule.harmonics)
    ratio = 1.0  # harmonics that are levelled are as large on either side
    if plan.verify == "none":
        ratio = (math.sqrt(0.5) * curve.harmonics + 0.5) / (math.sqrt(0.5) * float(sum(curve.amplitudes)))
    owners = len(plan.group.owners)
    phasor = (2.0**bits / ratio) ** (1 / owners)
    phasor_grid, label_grid = (min(max(2, int(grid)), _LARGEST_GRID) for grid in (phasor, phasor * ratio))
    gridded = replace(plan, phasor_grid=phasor_grid, label_grid=label_grid)
    if gridded.slopes.most > gridded.scale:
        raise PlanError(
            f"{owners} owners multiply {owners} rounded factors, and on the grids that noise can be drawn for rounding "
            "would cost more than half of the noise. Use the method 'moments', which takes any number of owners."
        )
    return gridded


def _check_size(plan: MarginPlan) -> None:
    plans.check_memory(plan.size)
    need, memory = 16 * plan.rows * plan.size, plans.physical_memory()
    if memory is not None and need > memory:
        raise TooMuchMemory(
            f"{plan.rows} rows of {plan.size} columns: computing parties hold shares of all rows between steps, "
            f"which takes "
            f"{need / 2**30:.0f} GiB; a machine that takes part has less. Declare fewer columns, or use the method "
            "'moments', which holds no rows."
        )
