"""Everything the parties agree on before the coefficients of a quadratic objective are opened. It touches no data.

A row on the grid is (x̃, c, ṽ). In the *box* every encoded feature lies in [−1, 1] and is rounded to |x̃_a| ≤ γ; in the
*ball* party q's features have norm at most γc_q before rounding, Σ c_q² ≤ 1, as in a moment release. Only public
bounds decide how far a record can move what is opened (docs/proofs/functional-coefficients.md).

Top-down, one ε is for the whole record and all coefficients carry the same noise. Bottom-up, the parties choose an ε
for every block of the dissection, each block has noise of its own, and the blocks are composed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from colonnade.crypto.shares import Scheme, make_scheme
from colonnade.data.encoding import Mode
from colonnade.data.schema import PublicSchema
from colonnade.methods.functional.blocks import Block, Dissection
from colonnade.methods.functional.noise import BlockNoise, truncation_delta
from colonnade.numbers.field import FIELD63, Field, check_fits
from colonnade.privacy.events import Composed, Event
from colonnade.privacy.guarantee import Guarantee, View, account, delta_text, epsilon_text
from colonnade.privacy.neighbours import ZERO_OUT, OthersPart, PartOf
from colonnade.privacy.observers import PartyView, Reader, Server
from colonnade.privacy.sensitivity.coefficients import (
    CoefficientRow,
    FeatureBounds,
    cross_replaced,
    cross_zeroed,
)
from colonnade.privacy.sensitivity.functional import CoefficientChange
from colonnade.protocols.assumptions import party_assumption, reader_assumption, server_assumption
from colonnade.protocols.layout import Layout
from colonnade.protocols.plans import SharedPlan, Task, guarantees_of
from colonnade.protocols.shared import block_rows
from colonnade.runtime.group import Group

Domain = Literal["ball", "box"]
Budget = Literal["top-down", "bottom-up"]


@dataclass(frozen=True)
class BlockCost:
    """One line of the bill: whose coefficients, how far a zeroed record moves them, and what that costs."""

    name: str
    kind: str
    coefficients: int
    l1: float
    l2: float
    epsilon: float
    delta: float
    noise: str
    deviation: float

    def __str__(self) -> str:
        return (
            f"{self.name} ({self.kind}): {self.coefficients} coefficients, sensitivity L1 = {self.l1:.4g}, "
            f"L2 = {self.l2:.4g}; ε = {epsilon_text(self.epsilon)} at δ = {delta_text(self.delta)}; {self.noise}, "
            f"standard deviation {self.deviation:.4g}"
        )


@dataclass(frozen=True)
class FunctionalPlan(SharedPlan, Layout):
    """One noisy quadratic objective: who, which columns, which blocks, at what ε, with how much noise.

    Made by `plan_functional`, which chooses `noises`: one for all coefficients, or one for each block.
    """

    task: Task
    group: Group
    rows: int
    schemas: tuple[PublicSchema, ...]
    epsilon: float
    delta: float
    gamma: int
    domain: Domain
    intercept: bool
    epsilons: tuple[tuple[str, float], ...]
    noises: tuple[BlockNoise, ...]

    protocol = "functional mechanism"
    charged_as = "objective"

    @property
    def budget(self) -> Budget:
        """Whether one ε was given or one for each block."""
        return "bottom-up" if self.epsilons else "top-down"

    @property
    def mode(self) -> Mode:
        """A box holds the columns themselves; in the ball a classifier's numbers go on a circle, as in a release."""
        return "circle" if self.domain == "ball" and self.task == "classification" else "linear"

    @property
    def label_size(self) -> int:
        """g: the integer that stands for a label of 1.

        In the box the noise is the same on every coefficient of the objective itself: g = γ for Σ (v − wᵀx)², and 4γ
        for the logistic one, whose first order is ½ and second order ⅛. In the ball features are short and their
        weights long, so that noise in Σxxᵀ is felt more, and the label gets γ/2.
        """
        if self.domain == "ball":
            return self.gamma // 2
        return 4 * self.gamma if self.task == "classification" else self.gamma

    @property
    def constant_size(self) -> int:
        """c: the integer that stands for the intercept's 1; 0 without an intercept."""
        if not self.intercept:
            return 0
        return self.gamma // 2 if self.domain == "ball" else self.gamma

    @cached_property
    def row(self) -> CoefficientRow:
        """The bounds of one integer row."""
        parts = tuple(
            FeatureBounds.box(encoder.width, side=self.gamma)
            if self.domain == "box"
            else FeatureBounds.ball(encoder.width, square=self.quantizers[party].norm_squared_bound)
            for party, encoder in self.encoders.items()
        )
        holder = self.group.owners.index(self.label_holder)
        return CoefficientRow(parts, holder, self.label_size, self.constant_size)

    @property
    def bounds(self) -> dict[str, int]:
        """The integer that the squared norm of each owner's features never exceeds."""
        return {owner: part.square for owner, part in zip(self.group.owners, self.row.parts, strict=True)}

    @cached_property
    def dissection(self) -> Dissection:
        """Which coefficients there are, and whose."""
        widths = tuple(encoder.width for encoder in self.encoders.values())
        return Dissection(self.group.owners, widths, self.label_holder, self.intercept)

    def noise_of(self, block: Block) -> BlockNoise:
        """The noise on the coefficients of a block."""
        return self.noises[self.dissection.blocks.index(block) if len(self.noises) > 1 else 0]

    @property
    def block(self) -> int:
        """Rows dealt at a time."""
        return block_rows(self.dissection.columns)

    @cached_property
    def field(self) -> Field:
        """The field of the shares, in which no sum of rows and noise wraps around."""
        check_fits(
            FIELD63,
            rows=self.rows,
            per_row=self.row.largest**2,
            noise=max(noise.reach(self.group) for noise in self.noises),
            what=f"a quadratic objective at gamma = {self.gamma}",
        )
        return FIELD63

    @cached_property
    def scheme(self) -> Scheme:
        """How shares are dealt and opened."""
        return make_scheme(len(self.group.keepers), self.field)

    def change(
        self, block: Block | None = None, replaced: Collection[str] | None = None
    ) -> CoefficientChange:
        """How far a record moves a block, or all coefficients: zeroed out, or with these parties' parts replaced."""
        parties = [self.group.owners.index(owner) for owner in replaced or ()]
        if block is None:
            return self.row.zeroed() if replaced is None else self.row.replaced(parties)
        owners = [self.group.owners.index(owner) for owner in block.owners]
        if len(owners) == 1:
            mine = self.row.only(owners[0])
            if replaced is None:
                return mine.zeroed()
            return mine.replaced({0} if owners[0] in parties else ())
        if replaced is None:
            return cross_zeroed(self.row, *owners)
        if set(owners) & set(parties):
            return cross_replaced(self.row, *owners)
        return self.row.replaced(())

    def event(self, replaced: Collection[str] | None = None, *, known: int | None = None) -> Event:
        """What is opened, to an observer who knows t owners' noise: a record zeroed out, or these parts replaced.

        `known` is how many owners' noise it knows, if not t.
        """
        if self.budget == "top-down":
            entries = self.dissection.coefficients
            return self.noises[0].event(self.change(None, replaced), self.group, entries=entries, known=known)
        return Composed(
            tuple(
                self.noise_of(block).event(change, self.group, entries=block.size, known=known)
                for block in self.dissection.blocks
                if (change := self.change(block, replaced)).l1
            )
        )

    @cached_property
    def views(self) -> tuple[View, ...]:
        """What the opened objective is to each observer. Whoever reads the model sees what the server opens."""
        group = self.group
        zero_out = self.event()
        views = [
            View(Server(), ZERO_OUT, zero_out, server_assumption(group)),
            View(Reader(), ZERO_OUT, zero_out, reader_assumption(group)),
        ]
        for owner in group.owners:
            # With t − 1 confederates it knows more columns than its own; the whole record bounds them all.
            others = [other for other in group.owners if other != owner or group.threshold > 1]
            views.append(
                View(PartyView(owner), OthersPart(owner), self.event(others), party_assumption(group))
            )
        return (*views, *self.colluding(self._colluding))

    def _colluding(self, known: int) -> Event | None:
        # A fraction of a whole discrete Laplace is another law, of which nothing is proved here.
        if known > self.group.threshold and any(noise.law == "laplace" for noise in self.noises):
            return None
        return self.event(self.group.owners, known=known)

    @property
    def replaced(self) -> Event:
        """What the opened coefficients are for a record replaced."""
        return self.event(self.group.owners)

    @property
    def what(self) -> str:
        """What is opened."""
        return f"a quadratic objective of {self.dissection.coefficients} coefficients"

    @cached_property
    def part_guarantees(self) -> tuple[Guarantee, ...]:
        """ε^(k): what the server learns about each party's own part of a record, replaced by any other."""
        assumption = server_assumption(self.group)
        views = [
            View(Server(), PartOf(owner), self.event([owner]), assumption) for owner in self.group.owners
        ]
        return guarantees_of(views, self.delta)

    @cached_property
    def bill(self) -> tuple[BlockCost, ...]:
        """Block by block: whose, how many, how sensitive in units of γ², at which ε, under which noise.

        Bottom-up the ε is the one that was chosen, at the block's own δ, and all of them add up.
        """
        unit, blocks = float(self.gamma) ** 2, self.dissection.blocks
        lines = []
        for block in blocks:
            change, noise = self.change(block), self.noise_of(block)
            event, delta = noise.event(change, self.group, entries=block.size), self.delta
            if self.budget == "bottom-up":
                pure = noise.law == "laplace"
                delta = truncation_delta((event,), delta) if pure else delta / len(blocks)
            lines.append(
                BlockCost(
                    name=block.name,
                    kind=block.kind,
                    coefficients=block.size,
                    l1=float(change.l1) / unit,
                    l2=change.l2 / unit,
                    epsilon=account(event, delta).epsilon,
                    delta=delta,
                    noise=str(noise),
                    deviation=noise.variance(self.group) ** 0.5 / unit,
                )
            )
        return tuple(lines)

    def own_data(self) -> dict[str, Any]:
        """The blocks, their noise, and how columns become integers."""
        return {
            "task": self.task,
            "epsilon": self.epsilon,
            **self.layout_data(),
            "domain": self.domain,
            "intercept": self.intercept,
            "budget": self.budget,
            "epsilons": dict(self.epsilons),
            "blocks": {block.name: block.size for block in self.dissection.blocks},
            "noises": [noise.to_data() for noise in self.noises],
            "label_size": self.label_size,
            "constant_size": self.constant_size,
            "primes": list(self.field.primes),
            "block": self.block,
        }
