"""Everything the parties agree on before noisy margin descent. It touches no data.

A small share of the budget buys second moments of the rows, which only shape the steps; the rest buys T gradients of a
margin loss over everybody. Every row has a constant beside its features, the last of the label holder's part; features
and constant share a norm of γ. Gradients are charged for every weights there could be: nothing caps them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from colonnade.crypto.folding import MOST_ROWS
from colonnade.crypto.row_claims import Claim
from colonnade.data.quantizer import Rounding
from colonnade.errors import PlanError
from colonnade.methods.margin.curve import Curve
from colonnade.methods.margin.waves import Waves
from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise, MatrixGaussianNoise
from colonnade.noise.skellam import MatrixSkellamNoise, SkellamNoise
from colonnade.numbers.field import Field, smallest_field
from colonnade.privacy.events import COARSE_BITS, Composed, Event, MatrixChange, Repeated
from colonnade.privacy.sensitivity.gradient import VectorChange
from colonnade.privacy.sensitivity.margin import (
    Slopes,
    margin_others_replaced,
    margin_replace,
    margin_zero_out,
    rounded_slopes,
    verified_slopes,
)
from colonnade.privacy.sensitivity.matrix import (
    RowShape,
    matrix_change_part_replaced,
    matrix_change_replace,
    matrix_change_zero_out,
)
from colonnade.protocols.assumptions import Verify
from colonnade.protocols.dealt_noise import DealtNoise, Law
from colonnade.protocols.layout import Layout
from colonnade.protocols.shared import block_rows
from colonnade.protocols.shared_plan import SharedPlan

MOST_STEPS = 1000


@dataclass(frozen=True)
class Schedule:
    """How many gradients, of how fine a curve, and which share of the budget the moments take."""

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


@dataclass(frozen=True)
class MarginPlan(SharedPlan, Layout):
    """One training run: who, which columns, at what ε, on which grids, with how much noise.

    Made by `MarginRequest`, which chooses grids and noise.
    """

    epsilon: float
    schedule: Schedule
    gamma: int
    label_grid: int
    wave_grid: int
    variance: Fraction
    """Of the whole noise on an entry of a gradient: what is calibrated."""
    law: Law = "gaussian"
    verify: Verify = "none"
    bits: int = COARSE_BITS

    protocol = "noisy margin descent"
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
        """The owners without the label, in the order of the group."""
        return tuple(owner for owner in self.group.owners if owner != self.label_holder)

    @property
    def block(self) -> int:
        """Rows dealt at a time; of products that are proved, so many as one proof takes."""
        if self.verify == "none":
            return block_rows(self.size)
        # A proof costs much the same for few rows as for many.
        turned = self.wave_width * (len(self.others) // 2)
        return min(4 * block_rows(self.size), MOST_ROWS // max(self.heads, turned))

    @cached_property
    def waves(self) -> Waves:
        curve = Curve.of(self.schedule.harmonics)
        if self.verify == "none":
            return Waves(curve, self.wave_grid, self.label_grid)
        return Waves.levelled(curve, self.wave_grid, self.label_grid, len(self.others))

    @property
    def wave_width(self) -> int:
        return 2 * self.schedule.harmonics * self.heads

    @property
    def dealt(self) -> dict[str, int]:
        """How many integers of a row each owner deals at the start: its columns, and ỹ·a₀ where it holds the label."""
        extra = {self.label_holder: self.heads}
        return {owner: width + extra.get(owner, 0) for owner, width in self.widths.items()}

    @property
    def claims(self) -> dict[str, tuple[Claim, ...]]:
        """What each owner proves about every row: the norm of its columns, and of ỹ·a₀ where it holds the label."""
        claims = {
            owner: (Claim(width, self.shape_of(owner).norm_squared),) if width else ()
            for owner, width in self.widths.items()
        }
        constants = Claim(self.heads, self.heads * self.waves.constant**2)
        return claims | {self.label_holder: (*claims[self.label_holder], constants)}

    @property
    def wave_claims(self) -> dict[str, tuple[Claim, ...]]:
        """What each owner proves about what it deals in a step: a norm no longer than in its table, of all heads."""
        reach = self.waves.reach
        longest = dict.fromkeys(self.others, reach.plain) | {self.label_holder: reach.labelled}
        return {
            owner: (Claim(self.wave_width, self.heads * longest[owner].norm_squared),)
            for owner in self.group.owners
        }

    @property
    def scale(self) -> int:
        return int(self.label_grid * self.wave_grid ** len(self.others))

    @cached_property
    def slopes(self) -> Slopes:
        """What r̃ never leaves, rounding included; where waves are checked, whatever one owner deals."""
        if self.verify != "none":
            constant = self.waves.constant * self.wave_grid ** len(self.others)
            return verified_slopes(self.waves.reach, constant)
        curve = self.waves.curve
        return rounded_slopes(
            curve.bounds,
            curve.amplitudes,
            label_grid=self.label_grid,
            wave_grid=self.wave_grid,
            others=len(self.others),
        )

    # --- sensitivities

    def shape_of(self, party: str) -> RowShape:
        """The bound on one party's part of an integer row."""
        own = self.constant**2 if party == self.label_holder else 0
        return RowShape(features=self.widths[party], norm_squared=self.bounds[party] + own)

    def shape_of_all_but(self, party: str | None) -> RowShape:
        """The bound on the rest of an integer row; on the whole row without a party."""
        first, *rest = (self.shape_of(owner) for owner in self.group.owners if owner != party)
        for part in rest:
            first = first.beside(part)
        return first

    @cached_property
    def row(self) -> RowShape:
        """The bound on a whole row."""
        return self.shape_of_all_but(None)

    @property
    def gradient_zeroed(self) -> VectorChange:
        return margin_zero_out(
            self.slopes, norm_squared=self.row.norm_squared, columns=self.size, heads=self.heads
        )

    # --- noise

    def noises(self, noise: DealtNoise) -> tuple[DealtNoise, DealtNoise]:
        """The noise of the moments and of every gradient, where the latter is this.

        Variances are to squared sensitivities as the budget is shared out: f to the moments, (1 − f)/T to a gradient.
        """
        share, steps = self.schedule.moments_share, self.schedule.steps
        of_moments = Fraction(matrix_change_zero_out(self.row).frobenius) ** 2 / share
        of_gradients = self.gradient_zeroed.l2**2 * steps / (1 - share)
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

    # --- what it is to whom

    def zeroed(self, known: int) -> Event:
        """The moments and all gradients, for a record zeroed out."""
        return self.released(self._dealt, known)

    def released(self, dealt: tuple[DealtNoise, DealtNoise], known: int | None = None) -> Event:
        """The same under other noise: w is public, and every gradient may depend on those before it."""
        return self._event(matrix_change_zero_out(self.row), self.gradient_zeroed, dealt, known)

    def all_replaced(self, known: int) -> Event:
        """The moments and all gradients, for a record replaced."""
        return self._event(matrix_change_replace(self.row), self._gradient_replaced, self._dealt, known)

    def others_replaced(self, owner: str, known: int) -> Event:
        """The moments and all gradients, for the others' part of a record replaced."""
        if self.group.threshold > 1:
            # With t − 1 confederates it knows more columns than its own; the whole record bounds them all.
            return self.all_replaced(known)
        own, rest = self.shape_of(owner), self.shape_of_all_but(owner)
        matrix = matrix_change_part_replaced(rest, own)
        if owner != self.label_holder:
            # The label is among what is replaced, so the slope may change its sign.
            return self._event(matrix, self._gradient_replaced, self._dealt, known)
        change = margin_others_replaced(
            self.slopes,
            own_norm_squared=own.norm_squared,
            others_norm_squared=rest.norm_squared,
            columns=self.size,
            heads=self.heads,
        )
        return self._event(matrix, change, self._dealt, known)

    @property
    def _gradient_replaced(self) -> VectorChange:
        return margin_replace(
            self.slopes, norm_squared=self.row.norm_squared, columns=self.size, heads=self.heads
        )

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
        """The schedule, the grids, the noise, and how columns become integers."""
        return {
            "task": "classification",
            "epsilon": self.epsilon,
            **self.layout_data(),
            "schedule": self.schedule.to_data(),
            "grids": [self.label_grid, self.wave_grid],
            "slopes": [self.slopes.least, self.slopes.most],
            "noise": [dealt.to_data() for dealt in self._dealt],
            "primes": list(self.field.primes),
            "block": self.block,
            "verify": self.verify,
        }
