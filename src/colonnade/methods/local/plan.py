"""Everything the parties agree on before each of them perturbs its own columns once. It touches no data.

The baseline of SPCA/SLR (Skellam noise in BGW, Algorithm 3): no shares, no keepers, no trust in anybody. Every entry of
every row carries noise that only its owner knows, so the error of a second moment grows with the number of rows; the
guarantee, in return, rests on nobody else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from colonnade.data.schema import PublicSchema
from colonnade.ledger import LedgerLine
from colonnade.methods.moments.plan import MomentsPlan
from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise
from colonnade.numbers.field import FIELD63, check_fits
from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.events import COARSE_BITS, Approximated, Event
from colonnade.privacy.guarantee import View
from colonnade.privacy.leaves import DiscreteGaussian
from colonnade.privacy.neighbours import REPLACE, ZERO_OUT, OthersPart
from colonnade.privacy.observers import PartyView, Reader, Server
from colonnade.privacy.sensitivity.matrix import root_up
from colonnade.protocols.assumptions import UNCHECKED
from colonnade.protocols.plans import TrainingPlan, agreed, lines_about
from colonnade.protocols.precision import bits_for, near_enough
from colonnade.protocols.specs import Options, TrainingSpec
from colonnade.runtime.group import Group

_SECRET = f"no owner discloses the noise on its own columns{UNCHECKED}"


@dataclass(frozen=True)
class LocalPlan(TrainingPlan):
    """Noise of parameter σ² on every integer of every row. Made by `LocalOptions`."""

    gamma: int
    sigma_squared: Fraction
    bits: int = COARSE_BITS

    protocol = "local perturbation"
    charged_as = "perturbed rows"
    published = True

    @cached_property
    def columns(self) -> MomentsPlan:
        """How rows become integers: as for a moment release, whose own noise is not used."""
        unused = Fraction(1)
        return MomentsPlan(
            self.gamma,
            unused,
            spec=self.spec,
            group=self.group,
            rows=self.rows,
            schemas=self.schemas,
            delta=self.delta,
        )

    @property
    def dealt(self) -> dict[str, int]:
        """How many integers of a row each owner sends. The constant of a task without label is known and not sent."""
        return self.columns.widths if self.spec.task == "pca" else self.columns.dealt

    @property
    def size(self) -> int:
        return sum(self.dealt.values())

    def bound_of_all_but(self, party: str | None) -> int:
        """The largest squared norm of the others' part of an integer row; of the whole row without a party."""
        shape = self.columns.shape_of_all_but(party)
        return shape.norm_squared if self.spec.task == "pca" else shape.bound

    @cached_property
    def noise(self) -> DiscreteGaussianNoise:
        return DiscreteGaussianNoise(self.sigma_squared, self.bits)

    def event(self, norm_squared: int) -> Event:
        """One record's integers move by at most the root of this, in L2: all else that is sent does not change."""
        leaf = DiscreteGaussian(root_up(norm_squared), self.sigma_squared)
        return Approximated(leaf, draws=self.size, bits=self.bits)

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

    @property
    def shown_to(self) -> tuple[str, ...]:
        return (self.group.server,)

    def lines_for(self, party: str) -> tuple[LedgerLine, ...]:
        """Beside the views: what a record replaced is to readers."""
        return (*lines_about(party, self.views), LedgerLine(Reader().name, REPLACE.name, self.replaced))

    @property
    def replaced(self) -> Event:
        """What the perturbed rows are for a record replaced by any other."""
        return self.event(4 * self.bound_of_all_but(None))

    @property
    def what(self) -> str:
        return f"{self.rows} perturbed rows of {self.size} columns"

    def own_data(self) -> dict[str, Any]:
        return {
            **self.columns.layout_data(),
            "sigma_squared": str(self.sigma_squared),
            "block": self.columns.block,
        }


class LocalOptions(Options):
    """A method with nothing to choose."""

    method = "local"

    def plan(
        self, spec: TrainingSpec, group: Group, schemas: tuple[PublicSchema, ...], rows: int
    ) -> LocalPlan:
        """The plan with the least noise that keeps ε for the server and for readers."""
        terms = agreed(spec, group, schemas, rows)
        blank = LocalPlan(
            spec.gamma,
            Fraction(1),
            bits_for(spec.epsilon),
            **terms,
        )
        bound = blank.bound_of_all_but(None)
        least = calibrate(
            lambda variance: replace(blank, sigma_squared=variance).event(bound),
            epsilon=spec.epsilon,
            delta=terms["delta"],
        )
        plan = _drawable(replace(blank, sigma_squared=least))
        # Who replaces a record moves it farthest.
        return near_enough(
            plan, lambda plan: (plan.replaced,), lambda plan, bits: _drawable(replace(plan, bits=bits))
        )


def _drawable(plan: LocalPlan) -> LocalPlan:
    """Refuses, before any data is touched, what could wrap around."""
    reach = plan.gamma + 1 + plan.noise.support
    check_fits(
        FIELD63, rows=plan.rows, per_row=reach**2, what=f"moments of rows perturbed at gamma = {plan.gamma}"
    )
    return plan
