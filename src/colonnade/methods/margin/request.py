"""What is asked of noisy margin descent, and the plan with the finest grids and the least noise that keeps it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from colonnade.data.quantizer import LEAST_GAMMA, MOST_GAMMA
from colonnade.data.schema import PublicSchema
from colonnade.errors import FieldTooSmall, PlanError, TooMuchMemory
from colonnade.methods.margin.curve import Curve
from colonnade.methods.margin.plan import MarginPlan, Schedule
from colonnade.noise.discrete_gaussian import LARGEST_VARIANCE
from colonnade.numbers.field import FIELD63
from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.events import Gaussian
from colonnade.protocols.assumptions import Verify
from colonnade.protocols.dealt_noise import DealtNoise, least_noise
from colonnade.protocols.limits import check_memory, physical_memory
from colonnade.protocols.plans import Request, check_keepers, check_parties, checked_delta
from colonnade.protocols.precision import bits_for, near_enough
from colonnade.protocols.verified_rows import chosen_verify
from colonnade.runtime.group import Group

# The finest grids of a gradient: past this nothing is gained. The coarsest: below it rounding is most of the bound.
_FINEST, _COARSEST = 39, 16
# Tables are within 2⁻²⁰ of what they stand for up to this grid.
_LARGEST_GRID = 1 << 18


_USUAL = Schedule()


@dataclass(frozen=True)
class MarginRequest(Request[MarginPlan]):
    """What the parties want, before anybody has said how many rows or which columns there are."""

    epsilon: float
    schedule: Schedule = _USUAL
    gamma: int | None = None
    verify: Verify | None = None

    method = "margin"
    in_shares = True

    def planned(self, group: Group, schemas: tuple[PublicSchema, ...], rows: int) -> MarginPlan:
        """The plan with the least noise that keeps ε for the server and for readers over moments and all steps."""
        check_keepers(group)
        check_parties(group, schemas, "classification")
        if self.verify == "rows":
            raise PlanError(
                "verify = 'rows': margin multiplies what was dealt in every step, and rows that are checked show "
                "nothing where products are not. Write verify = 'all', or 'none'."
            )
        delta = checked_delta(self.epsilon, self.delta, self.accepted_delta, rows)
        gamma = self.gamma or _grid(group)
        if not LEAST_GAMMA["retry"] <= gamma <= MOST_GAMMA:
            raise PlanError(
                f"gamma = {gamma} is outside {LEAST_GAMMA['retry']} to {MOST_GAMMA}. Leave it out for a grid that fits."
            )
        blank = MarginPlan(
            float(self.epsilon),
            self.schedule,
            gamma,
            1,
            1,
            variance=Fraction(1),
            # By default nothing: checks of every step cost more than two and a half times.
            verify=self.verify or "none",
            bits=bits_for(self.epsilon),
            group=group,
            rows=rows,
            schemas=schemas,
            delta=delta,
        )
        _check_size(blank)
        plan = _on_grids(blank, self.gamma)
        for claims in (plan.claims, plan.wave_claims):
            chosen_verify(plan.verify, group, claims, rows=min(rows, plan.block))

        def drawn(noise: DealtNoise) -> object:
            moments, gradient = plan.noises(noise)
            return moments.matrix.part(group.whole), gradient.vector.part(group.whole)

        least = least_noise(
            lambda noise: plan.released(plan.noises(noise)),
            epsilon=plan.epsilon,
            delta=delta,
            drawn=drawn,
            bits=plan.bits,
            digits=4,
        )
        plan = _drawable(replace(plan, variance=least.variance, law=least.law))
        return near_enough(plan, MarginPlan.accounted, lambda plan, bits: _drawable(replace(plan, bits=bits)))


def _drawable(plan: MarginPlan) -> MarginPlan:
    """Refuses, before any data is touched, what could wrap around."""
    field = plan.field
    if plan.verify != "none" and field != FIELD63:
        raise FieldTooSmall(
            f"verify = {plan.verify!r} was asked for; what is dealt is checked in a field of {FIELD63.bits} bits, "
            f"and gradients between {len(plan.group.owners)} owners need {field.bits}. Write verify = 'none', or "
            "take the method 'moments'."
        )
    return plan


def refusal(group: Group, *, epsilon: float, delta: float | None = None) -> str:
    """Why no run is planned between these owners at this ε, whatever their columns are; empty where one is."""
    if not (math.isfinite(epsilon) and epsilon > 0 and 0 < (delta or 1e-5) < 1):
        return ""  # whoever plans refuses it by name
    blank = MarginPlan(
        float(epsilon),
        _USUAL,
        _grid(group),
        1,
        1,
        Fraction(1),
        group=group,
        rows=1,
        schemas=(),
        delta=delta or 1e-5,
    )
    try:
        check_keepers(group)
        _on_grids(blank, None)
    except PlanError as error:
        return str(error)
    return ""


def _grid(group: Group) -> int:
    # Rows are rounded finely between two; with more owners the bits are needed by their waves.
    return 1 << 10 if len(group.owners) == 2 else 1 << 8


def _on_grids(plan: MarginPlan, asked: int | None) -> MarginPlan:
    """The finest grids for labels and waves whose noise can still be drawn.

    The error of rounding is least where both grids add the same: γ_l is to γ_w as √½·M + ½ is to √½·Σ√(a_j² + b_j²).
    """
    sigma = calibrate(lambda noise: Gaussian(1, noise), epsilon=plan.epsilon, delta=plan.delta, digits=3)
    share = plan.schedule.steps / (1 - float(plan.schedule.moments_share))
    # A little more than at sensitivity ½, or what a checked row may reach, for what rounding adds.
    reach = 0.7 if plan.verify == "none" else 0.9
    largest = math.sqrt(float(LARGEST_VARIANCE)) / (
        reach * float(sigma) * math.sqrt(share * max(1, plan.heads))
    )
    bits = min(_FINEST, math.floor(math.log2(largest))) - math.log2(plan.gamma)
    if bits < _COARSEST:
        what = (
            f"gamma = {plan.gamma}"
            if asked
            else f"epsilon = {plan.epsilon:g} over {plan.schedule.steps} steps"
        )
        raise PlanError(
            f"{what} leaves no grid for the curve: noise on a grid that fine cannot be drawn. "
            + ("Leave gamma out, or take a smaller one." if asked else "Raise epsilon, or take fewer steps.")
        )
    curve = Curve.of(plan.schedule.harmonics)
    ratio = 1.0  # harmonics that are levelled are as large on either side
    if plan.verify == "none":
        ratio = (math.sqrt(0.5) * curve.harmonics + 0.5) / (math.sqrt(0.5) * float(sum(curve.amplitudes)))
    owners = len(plan.group.owners)
    wave = (2.0**bits / ratio) ** (1 / owners)
    wave_grid, label_grid = (min(max(2, int(grid)), _LARGEST_GRID) for grid in (wave, wave * ratio))
    gridded = replace(plan, wave_grid=wave_grid, label_grid=label_grid)
    if gridded.slopes.most > gridded.scale:
        raise PlanError(
            f"{owners} owners multiply {owners} rounded factors, and on the grids that noise can be drawn for rounding "
            "would cost more than half of the noise. Use the method 'moments', which takes any number of owners."
        )
    return gridded


def _check_size(plan: MarginPlan) -> None:
    check_memory(plan.size)
    need, held = 16 * plan.rows * plan.size, physical_memory()
    if held is not None and need > held:
        raise TooMuchMemory(
            f"{plan.rows} rows of {plan.size} columns: keepers hold shares of all rows between steps, which takes "
            f"{need / 2**30:.0f} GiB; a machine that takes part has less. Declare fewer columns, or use the method "
            "'moments', which holds no rows."
        )
