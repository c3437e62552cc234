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
from functools import cached_property, partial
from typing import Any, Literal

from colonnade.crypto.row_claims import Claim
from colonnade.data.number_codes import Mode
from colonnade.methods.functional.blocks import Block, Dissection
from colonnade.methods.functional.noise import BlockNoise, truncation_delta
from colonnade.numbers.field import FIELD63, Field, check_fits
from colonnade.privacy.events import Composed, Event
from colonnade.privacy.guarantee import Guarantee, View, account, delta_text, epsilon_text
from colonnade.privacy.neighbours import PartOf
from colonnade.privacy.observers import Server
from colonnade.privacy.sensitivity.coefficients import (
    CoefficientRow,
    FeatureBounds,
    cross_replaced,
    cross_zeroed,
)
from colonnade.privacy.sensitivity.functional import CoefficientChange
from colonnade.protocols.assumptions import Verify, server_assumption
from colonnade.protocols.layout import Layout
from colonnade.protocols.plans import Task, guarantees_of
from colonnade.protocols.shared import block_rows
from colonnade.protocols.shared_plan import SharedPlan
from colonnade.protocols.verified_rows import checked_block

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

    Made by `FunctionalRequest`, which chooses `noises`: one for all coefficients, or one for each block.
    """

    task: Task
    epsilon: float
    gamma: int
    domain: Domain
    intercept: bool
    epsilons: tuple[tuple[str, float], ...]
    noises: tuple[BlockNoise, ...]
    verify: Verify = "none"

    protocol = "functional mechanism"
    charged_as = "objective"

    @property
    def budget(self) -> Budget:
        """Whether one ε was given or one for each block."""
        return "bottom-up" if self.epsilons else "top-down"

    @property
    def mode(self) -> Mode:
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
        widths = tuple(encoder.width for encoder in self.encoders.values())
        return Dissection(self.group.owners, widths, self.label_holder, self.intercept)

    @property
    def dealt(self) -> dict[str, int]:
        return self.dissection.dealt

    @property
    def claims(self) -> dict[str, tuple[Claim, ...]]:
        """What each owner proves about every row: its features, and apart from them the constant and the label.

        In the ball the norm of the features, in the box each of them: what the sensitivity of coefficients rests on.
        """
        claims = {}
        for owner, part in zip(self.group.owners, self.row.parts, strict=True):
            if part.side is None:
                listed = [Claim(part.features, part.square)] if part.features else []
            else:
                listed = [Claim(1, part.side**2)] * part.features
            if owner == self.label_holder:
                listed += [Claim(1, self.constant_size**2)] * int(self.intercept)
                listed.append(Claim(1, self.label_size**2))
            claims[owner] = tuple(listed)
        return claims

    def noise_of(self, block: Block) -> BlockNoise:
        """The noise on the coefficients of a block."""
        return self.noises[self.dissection.blocks.index(block) if len(self.noises) > 1 else 0]

    @property
    def block(self) -> int:
        usual = block_rows(self.dissection.columns)
        return usual if self.verify == "none" else checked_block(self.claims, usual)

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
        """What is opened, to an observer who knows so many parts of the noise, or as many as may be known.

        Of a record zeroed out, or of these parts replaced.
        """
        known = self.group.tolerated if known is None else known
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

    @property
    def party_verify(self) -> Verify:
        """Of less than a whole discrete Laplace nothing is proved: there a party's sentence needs every other part."""
        laplace = any(noise.is_laplace for noise in self.noises)
        return "none" if laplace and len(self.group.owners) > 2 else self.verify

    @property
    def server_adds(self) -> bool:
        return super().server_adds and not all(noise.is_laplace for noise in self.noises)

    def zeroed(self, known: int) -> Event:
        return self.event(known=known)

    def others_replaced(self, owner: str, known: int) -> Event:
        """For the others' part of a record, replaced."""
        # With t − 1 confederates it knows more columns than its own; the whole record bounds them all.
        others = [other for other in self.group.owners if other != owner or self.group.threshold > 1]
        return self.event(others, known=known)

    def all_replaced(self, known: int) -> Event | None:
        # A fraction of a whole discrete Laplace is another law, of which nothing is proved here.
        if known > self.group.threshold and any(noise.is_laplace for noise in self.noises):
            return None
        return self.event(self.group.owners, known=known)

    @property
    def what(self) -> str:
        return f"a quadratic objective of {self.dissection.coefficients} coefficients"

    @cached_property
    def part_guarantees(self) -> tuple[Guarantee, ...]:
        """ε^(k): what the server learns about each party's own part of a record, replaced by any other."""
        group, views = self.group, []
        for owner in group.owners:
            more = self.stated(partial(self.event, [owner], known=group.tolerated + 1))
            assumption = server_assumption(group, more, self.verify, deals=self.server_adds)
            views.append(View(Server(), PartOf(owner), self.event([owner]), assumption))
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
            event = noise.event(change, self.group, entries=block.size, known=self.group.tolerated)
            delta = self.delta
            if self.budget == "bottom-up":
                pure = noise.is_laplace
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
            "verify": self.verify,
        }
