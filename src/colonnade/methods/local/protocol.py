"""Every owner perturbs its own columns once and sends them to the server: what is agreed, and how."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.table import Table
from colonnade.ledger import LedgerLine
from colonnade.methods.moments.plan import MomentsPlan
from colonnade.methods.moments.protocol import arranged, integer_blocks
from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise
from colonnade.numbers.field import FIELD63, GramSum, check_fits
from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.events import COARSE_BITS, Approximated, DiscreteGaussian, Event
from colonnade.privacy.guarantee import View
from colonnade.privacy.observers import REPLACE, ZERO_OUT, OthersPart, PartyView, Reader, Server
from colonnade.privacy.sensitivity.matrix import root_up
from colonnade.protocols.agreement import charge_first
from colonnade.protocols.assumptions import UNCHECKED
from colonnade.protocols.dealt_noise import bits_for, near_enough
from colonnade.protocols.messages import hear, tell
from colonnade.protocols.plans import Options, Schemas, TrainingPlan, TrainingSpec, agreed, lines_about
from colonnade.protocols.session import RowSource, SessionResult, prepare, publish
from colonnade.runtime.party import Group, Party
from colonnade.runtime.wire import Message

_SECRET = f"no owner discloses the noise on its own columns{UNCHECKED}"


@dataclass(frozen=True)
class LocalPlan(TrainingPlan):
    """Noise of parameter σ² on every integer of every row. Made by `LocalOptions`."""

    gamma: int
    sigma_squared: Fraction
    bits: int = COARSE_BITS

    charged_as = "perturbed rows"
    published = True

    @cached_property
    def columns(self) -> MomentsPlan:
        """How rows become integers: as for a moment release, whose own noise is not used."""
        terms = {name: getattr(self, name) for name in ("spec", "group", "rows", "schemas", "delta")}
        return MomentsPlan(self.gamma, mu=Fraction(1), **terms)

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

    @property
    def largest(self) -> int:
        """No entry of a perturbed row is larger: on the grid, rounded, with noise."""
        return self.gamma + 1 + self.noise.support

    def check_drawable(self) -> None:
        what = f"moments of rows perturbed at gamma = {self.gamma}"
        check_fits(FIELD63, rows=self.rows, per_row=self.largest**2, what=what)

    def event(self, norm_squared: int) -> Event:
        """One record's integers move by at most the root of this, in L2: all else that is sent does not change."""
        leaf = DiscreteGaussian(root_up(norm_squared), self.sigma_squared)
        return Approximated(leaf, draws=self.size, bits=self.bits)

    @cached_property
    def views(self) -> tuple[View, ...]:
        whole = self.event(self.bound_of_all_but(None))
        views = [View(observer, ZERO_OUT, whole, _SECRET) for observer in (Server(), Reader())]
        for owner in self.group.owners:
            # A part of norm a that is replaced moves by at most 2a.
            others = self.event(4 * self.bound_of_all_but(owner))
            views.append(View(PartyView(owner), OthersPart(owner), others, _SECRET))
        return tuple(views)

    @property
    def shown_to(self) -> tuple[str, ...]:
        return (self.group.server,)

    def lines_for(self, party: str) -> tuple[LedgerLine, ...]:
        return (*lines_about(party, self.views), LedgerLine(Reader().name, REPLACE.name, self.replaced))

    @property
    def replaced(self) -> Event:
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

    def plan(self, spec: TrainingSpec, group: Group, schemas: Schemas, rows: int) -> LocalPlan:
        terms = agreed(spec, group, schemas, rows)
        blank = LocalPlan(spec.gamma, Fraction(1), bits_for(spec.epsilon), **terms)
        bound = blank.bound_of_all_but(None)
        least = calibrate(
            lambda variance: replace(blank, sigma_squared=variance).event(bound),
            epsilon=spec.epsilon,
            delta=terms["delta"],
        )
        plan = replace(blank, sigma_squared=least)
        # Who replaces a record moves it farthest.
        return near_enough(plan, lambda plan: (plan.replaced,), lambda plan, bits: replace(plan, bits=bits))


Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PerturbedMoments(SessionResult[LocalPlan]):
    """Σ z̃z̃ᵀ and Σ z̃ over perturbed rows, as the server summed them and everybody may read them."""

    matrix: Integers
    sums: Integers


async def local_session(party: Party, table: Table | None, spec: TrainingSpec) -> PerturbedMoments:
    aligned, plan = await prepare(party, table, spec, LocalPlan)
    summed = await perturbed_moments(party, aligned, plan)

    def checked(said: Message) -> Integers:
        read: Integers = said.array("moments", dtype="i8", shape=(plan.size + 1, plan.size))
        if not np.array_equal(read[:-1], read[:-1].T):
            raise said.wrong("the published matrix is not symmetric")
        return read

    both = await publish(party, summed, "release", "moments", checked, np.zeros((1, 0), dtype=np.int64))
    return PerturbedMoments(plan, party.run, party.seeded, aligned, both[:-1], both[-1])


async def perturbed_moments(party: Party, table: RowSource | None, plan: LocalPlan) -> Integers | None:
    columns = plan.columns
    await charge_first(party, plan.release(party.name, run=party.run, reproducible=party.seeded))
    total, sums = GramSum(FIELD63, plan.size), np.zeros(plan.size, dtype=np.int64)
    for number, (rows, mine) in enumerate(integer_blocks(party, table, columns)):
        step = f"rows {number}"
        if mine is not None:
            mine = mine[:, : plan.dealt[party.name]]
            noisy = mine + plan.noise.draw(mine.shape, party.randomness)
            await tell(party, party.group.server, step, Message(arrays={"rows": noisy}))
        if party.is_server:
            parts = []
            for owner, width in plan.dealt.items():
                said = await hear(party, owner, step)
                part: Integers = said.array("rows", dtype="i8", shape=(rows, width))
                if part.size and max(int(part.max()), -int(part.min())) > plan.largest:
                    raise said.wrong("it sent entries that no perturbed row of this plan has")
                parts.append(part)
            total.add(*(FIELD63.encode(part) for part in parts))
            sums += np.concatenate([part.sum(axis=0) for part in parts])
        party.progress("rows", min((number + 1) * columns.block, plan.rows), plan.rows)
    if not party.is_server:
        return None
    matrix = total.value().decode()
    if plan.spec.task != "pca":
        # A diagonal matrix is arranged as its entries are: the label block goes last.
        matrix, sums = arranged(matrix, columns), np.diag(arranged(np.diag(sums), columns))
    return np.concatenate([matrix, sums[None, :]])
