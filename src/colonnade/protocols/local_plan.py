"""Everything the parties agree on before each of them perturbs its own columns once. It touches no data.

The baseline of SPCA/SLR (Skellam noise in BGW, Algorithm 3): no shares, no keepers, no trust in anybody. Every entry of
every row carries noise that only its owner knows, so the error of a second moment grows with the number of rows; the
guarantee, in return, rests on nobody else.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from colonnade.data.schema import PublicSchema
from colonnade.ledger import Line, Release
from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise
from colonnade.numbers.field import FIELD63, check_fits
from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.events import Approximated, DiscreteGaussian, Event, event_to_data
from colonnade.privacy.guarantee import Guarantee
from colonnade.privacy.neighbours import REPLACE, ZERO_OUT, OthersPart
from colonnade.privacy.observers import PartyView, Reader, Server
from colonnade.privacy.sensitivity.matrix import root_up
from colonnade.protocols.agreement import digest
from colonnade.protocols.moments_plan import DEFAULT_GAMMA, MomentsPlan
from colonnade.protocols.noisy_moments import dealt_widths
from colonnade.protocols.plans import Task, View, check_parties, checked_delta, guarantees_of, lines_about
from colonnade.runtime.group import Group

_SECRET = "no owner discloses the noise on its own columns"


@dataclass(frozen=True)
class LocalPlan:
    """Noise of parameter σ² on every integer of every row.

    `columns` says how rows become integers, as for a moment release; its own noise is not used.
    """

    columns: MomentsPlan
    sigma_squared: Fraction

    @property
    def group(self) -> Group:
        """Who takes part, and in which role."""
        return self.columns.group

    @property
    def rows(self) -> int:
        """The public number of aligned people."""
        return self.columns.rows

    @property
    def delta(self) -> float:
        """The δ at which guarantees are stated."""
        return self.columns.delta

    @property
    def epsilon(self) -> float:
        """The ε that the noise was calibrated to, for the server and for readers."""
        return self.columns.epsilon

    @property
    def dealt(self) -> dict[str, int]:
        """How many integers of a row each owner sends. The constant of a task without label is known and not sent."""
        return self.columns.widths if self.columns.task == "pca" else dealt_widths(self.columns)

    @property
    def size(self) -> int:
        """How many integers a perturbed row has."""
        return sum(self.dealt.values())

    def bound_of_all_but(self, party: str | None) -> int:
        """The largest squared norm of the others' part of an integer row; of the whole row without a party."""
        shape = self.columns.shape_of_all_but(party)
        return shape.norm_squared if self.columns.task == "pca" else shape.bound

    @cached_property
    def noise(self) -> DiscreteGaussianNoise:
        """The noise of one entry, drawn by the owner of its column alone."""
        return DiscreteGaussianNoise(self.sigma_squared)

    def event(self, norm_squared: int) -> Event:
        """One record's integers move by at most the root of this, in L2: all else that is sent does not change."""
        leaf = DiscreteGaussian(root_up(norm_squared), self.sigma_squared)
        return Approximated(leaf, draws=self.size)

    @cached_property
    def views(self) -> tuple[View, ...]:
        """What the perturbed rows are to each observer. A party that saw them all would learn no more than this."""
        whole = self.event(self.bound_of_all_but(None))
        views = [
            View(Server(), ZERO_OUT, whole, _SECRET),
            View(Reader(), ZERO_OUT, whole, _SECRET),
        ]
        for owner in self.group.owners:
            # A part of norm a that is replaced moves by at most 2a.
            others = self.event(4 * self.bound_of_all_but(owner))
            views.append(View(PartyView(owner), OthersPart(owner), others, _SECRET))
        return tuple(views)

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """One statement per observer, for noise that nobody can reproduce."""
        return guarantees_of(self.views, self.delta)

    def release(self, party: str, *, run: str, reproducible: bool) -> Release:
        """What a member charges: the lines about its own columns, none if it owns nothing."""
        lines: tuple[Line, ...] = ()
        if party in self.group.owners:
            replaced = self.event(4 * self.bound_of_all_but(None))
            lines = (*lines_about(party, self.views), Line(Reader().name, REPLACE.name, replaced))
        return Release(
            id=f"{run}/perturbed rows",
            run=run,
            plan=self.hash,
            what=f"{self.rows} perturbed rows of {self.size} columns",
            receiver=self.group.server,
            lines=lines,
            reproducible=reproducible,
        )

    def to_data(self) -> dict[str, Any]:
        """The whole plan as plain values."""
        columns = self.columns
        return {
            "protocol": "local perturbation",
            "format": 1,
            "task": columns.task,
            "owners": list(self.group.owners),
            "active": self.group.active,
            "server": self.group.server,
            "rows": self.rows,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "gamma": columns.gamma,
            "sigma_squared": str(self.sigma_squared),
            "schemas": {schema.party: schema.to_data() for schema in columns.schemas},
            "label": columns.label.to_data(),
            "bounds": {
                party: quantizer.norm_squared_bound for party, quantizer in columns.quantizers.items()
            },
            "block": columns.block,
            "views": {view.observer.name: event_to_data(view.event) for view in self.views},
        }

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the plan."""
        return digest(self.to_data())


def plan_local(
    group: Group,
    schemas: tuple[PublicSchema, ...],
    *,
    task: Task,
    rows: int,
    epsilon: float,
    delta: float | None = None,
    accepted_delta: float | None = None,
    gamma: int = DEFAULT_GAMMA,
) -> LocalPlan:
    """The plan with the least noise that keeps ε for the server and for readers."""
    check_parties(group, schemas, task)
    delta = checked_delta(epsilon, delta, accepted_delta, rows)
    columns = MomentsPlan(task, group, rows, schemas, float(epsilon), delta, gamma, Fraction(1))
    bound = LocalPlan(columns, Fraction(1)).bound_of_all_but(None)
    plan = LocalPlan(
        columns,
        calibrate(lambda variance: LocalPlan(columns, variance).event(bound), epsilon=epsilon, delta=delta),
    )
    reach = columns.gamma + 1 + plan.noise.support
    check_fits(FIELD63, rows=rows, per_row=reach**2, what=f"moments of rows perturbed at gamma = {gamma}")
    return plan
