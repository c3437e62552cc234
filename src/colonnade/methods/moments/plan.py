"""Everything the parties agree on before a noisy moment matrix is made. It touches no data.

The row of a person is z = (x₁, …, x_K, label block): party q's features have norm at most γc_q on the
grid before rounding, Σ c_q² ≤ 1, so the joint row is bounded without anyone seeing another's norms. The
matrix Σ zzᵀ is released once per unordered pair with Skellam noise, of which every owner deals one part
of 1/(K − t): whatever t owners know or reveal, the rest adds up to the noise that ε was computed for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from colonnade.crypto.shares import Scheme, make_scheme
from colonnade.data.encoding import Mode
from colonnade.data.label import LabelBlock
from colonnade.data.quantizer import LEAST_GAMMA, Rounding
from colonnade.data.schema import PublicSchema
from colonnade.errors import PlanError
from colonnade.noise.skellam import MatrixSkellamNoise
from colonnade.numbers.field import FIELD63, Field, check_fits
from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.events import Approximated, Event, MatrixChange, MatrixSkellam
from colonnade.privacy.guarantee import View
from colonnade.privacy.neighbours import ZERO_OUT, OthersPart
from colonnade.privacy.observers import PartyView, Reader, Server
from colonnade.privacy.sensitivity.matrix import (
    RowShape,
    matrix_change_part_replaced,
    matrix_change_replace,
    matrix_change_zero_out,
)
from colonnade.protocols.assumptions import party_assumption, reader_assumption, server_assumption
from colonnade.protocols.layout import Layout
from colonnade.protocols.limits import check_memory, gamma_advice
from colonnade.protocols.plans import SharedPlan, Task, check_keepers, check_parties, checked_delta
from colonnade.protocols.shared import block_rows
from colonnade.runtime.group import Group

DEFAULT_GAMMA = 1 << 12


@dataclass(frozen=True)
class MomentsPlan(SharedPlan, Layout):
    """One noisy moment matrix: who, which columns, at what ε, with how much noise.

    Made by `plan_moments`, which chooses `mu`. Equal plans have equal hashes, and parties compare hashes
    before anything leaves.
    """

    task: Task
    group: Group
    rows: int
    schemas: tuple[PublicSchema, ...]
    epsilon: float
    delta: float
    gamma: int
    mu: Fraction
    rounding: Rounding = "nearest"

    protocol = "noisy moments"
    charged_as = "moments"

    @property
    def mode(self) -> Mode:
        """Classification puts numbers on a circle, which lifts every classifier; the rest stays linear."""
        return "circle" if self.task == "classification" else "linear"

    @property
    def rows_rounded(self) -> Rounding:
        """As the plan says."""
        return self.rounding

    @cached_property
    def label(self) -> LabelBlock:
        """The label block; a constant where there is no label to learn."""
        return LabelBlock(None) if self.task == "pca" else super().label

    @property
    def label_holder(self) -> str:
        """Who deals the label block: the active party, or for a constant the first owner."""
        return self.group.active if self.group.active is not None else self.group.owners[0]

    def shape_of(self, party: str) -> RowShape:
        """The bound on one party's part of an integer row."""
        quantizer = self.quantizers[party]
        features = RowShape(features=quantizer.encoder.width, norm_squared=quantizer.norm_squared_bound)
        if party != self.label_holder:
            return features
        label = RowShape(
            features=0,
            norm_squared=0,
            label_entries=self.label.width,
            label_norm_squared=self.label.norm_squared(self.gamma),
            one_hot=self.label.one_hot,
        )
        return features.beside(label)

    def shape_of_all_but(self, party: str | None) -> RowShape:
        """The bound on the rest of an integer row; on the whole row without a party."""
        rest = [self.shape_of(owner) for owner in self.group.owners if owner != party]
        shape = rest[0]
        for part in rest[1:]:
            shape = shape.beside(part)
        return shape

    @property
    def widths(self) -> dict[str, int]:
        """How many integers of a row each owner deals, without the label block."""
        return {party: encoder.width for party, encoder in self.encoders.items()}

    @property
    def size(self) -> int:
        """How many columns the moment matrix has."""
        return sum(self.widths.values()) + self.label.width

    @property
    def coefficients(self) -> int:
        """How many numbers are opened: each unordered pair once."""
        return self.size * (self.size + 1) // 2

    @property
    def block(self) -> int:
        """Rows dealt at a time."""
        return block_rows(self.size)

    @cached_property
    def noise(self) -> MatrixSkellamNoise:
        """The whole noise, of which each owner draws one part of 1/(K − t)."""
        return MatrixSkellamNoise(self.mu)

    @property
    def total_mu(self) -> Fraction:
        """μ of all parts together, K/(K − t) of the whole: what the opened matrix carries."""
        return self.mu * Fraction(len(self.group.owners), self.group.honest_owners)

    @cached_property
    def field(self) -> Field:
        """The field of the shares, in which nothing can wrap around, whatever the rows and the noise are."""
        reach = self.noise.part(self.group.honest_owners).support
        check_fits(
            FIELD63,
            rows=self.rows,
            per_row=self.shape_of_all_but(None).bound,
            noise=len(self.group.owners) * reach,
            what=f"a moment matrix at gamma = {self.gamma}",
        )
        return FIELD63

    @cached_property
    def scheme(self) -> Scheme:
        """How shares are dealt and opened."""
        return make_scheme(len(self.group.keepers), self.field)

    @cached_property
    def views(self) -> tuple[View, ...]:
        """What the release is to each observer. Whoever reads the model sees what the server opens."""
        group = self.group
        zero_out = self.zeroed
        views = [
            View(Server(), ZERO_OUT, zero_out, server_assumption(group)),
            View(Reader(), ZERO_OUT, zero_out, reader_assumption(group)),
        ]
        for owner in group.owners:
            if group.threshold == 1:
                change = matrix_change_part_replaced(self.shape_of_all_but(owner), self.shape_of(owner))
            else:
                # With t − 1 confederates it knows more columns than its own; the whole record bounds them all.
                change = self._replaced_change
            views.append(
                View(PartyView(owner), OthersPart(owner), self._event(change), party_assumption(group))
            )
        return (*views, *self.colluding(lambda known: self._event(self._replaced_change, known)))

    def _event(self, change: MatrixChange, known: int | None = None) -> Event:
        owners, honest = len(self.group.owners), self.group.honest_owners
        known = self.group.threshold if known is None else known
        return self.noise.event(change, known=known, parts=owners, of=honest, size=self.size)

    @cached_property
    def _replaced_change(self) -> MatrixChange:
        return matrix_change_replace(self.shape_of_all_but(None))

    @property
    def zeroed(self) -> Event:
        """What the opened matrix is for a record zeroed out."""
        return self._event(matrix_change_zero_out(self.shape_of_all_but(None)))

    @property
    def replaced(self) -> Event:
        """What the opened matrix is for a record replaced."""
        return self._event(self._replaced_change)

    @property
    def what(self) -> str:
        """What is opened."""
        return f"second moments of {self.size} columns"

    def own_data(self) -> dict[str, Any]:
        """The grid, the noise, and how columns become integers."""
        return {
            "task": self.task,
            "epsilon": self.epsilon,
            "mu": str(self.mu),
            **self.layout_data(),
            "caps": {party: str(quantizer.cap_squared) for party, quantizer in self.quantizers.items()},
            "primes": list(self.field.primes),
            "block": self.block,
        }


def plan_moments(
    group: Group,
    schemas: tuple[PublicSchema, ...],
    *,
    task: Task,
    rows: int,
    epsilon: float,
    delta: float | None = None,
    accepted_delta: float | None = None,
    gamma: int = DEFAULT_GAMMA,
    rounding: Rounding = "nearest",
) -> MomentsPlan:
    """The plan with the least noise that keeps ε for the server and for readers, t owners' noise aside."""
    check_keepers(group)
    check_parties(group, schemas, task)
    delta = checked_delta(epsilon, delta, accepted_delta, rows)

    def plan_with(mu: Fraction, grid: int) -> MomentsPlan:
        return MomentsPlan(task, group, rows, schemas, float(epsilon), delta, grid, mu, rounding)

    blank = plan_with(Fraction(1), gamma)
    check_memory(blank.size)
    _ = blank.quantizers  # refuses what is no grid at all

    def calibrated(grid: int) -> MomentsPlan:
        server = plan_with(Fraction(1), grid).zeroed
        plan = plan_with(calibrate(lambda mu: _scaled(server, mu), epsilon=epsilon, delta=delta), grid)
        _ = plan.field  # refuses here, before any data is touched, what could wrap around
        return plan

    try:
        return calibrated(gamma)
    except PlanError as error:
        advice = gamma_advice(calibrated, least=LEAST_GAMMA[rounding], asked=gamma)
        raise type(error)(f"{str(error).rstrip('.')}. {advice}") from None


def _scaled(event: Event, mu: Fraction) -> Event:
    """The event of a plan with μ = 1 under another μ; calibration also looks where no sampler goes."""
    if not (isinstance(event, Approximated) and isinstance(event.event, MatrixSkellam)):
        raise TypeError(f"a moment release is matrix Skellam noise, not {type(event).__name__}")
    leaf = event.event
    return replace(event, event=replace(leaf, mu=leaf.mu * mu))
