"""Everything the parties agree on before the coefficients of a quadratic objective are opened. It touches no data.

In the *box* every encoded feature lies in [−1, 1] and is rounded to |x̃_a| ≤ γ; in the *ball* party q's features have
norm at most γc_q before rounding, Σ c_q² ≤ 1. Top-down, one ε is for the whole record and all coefficients carry the
same noise; bottom-up, each block has an ε and noise of its own, and the blocks are composed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Any, Literal

from pydantic import Field as Number

from colonnade.crypto.row_proofs import RowClaim
from colonnade.data.coding import Mode
from colonnade.data.encoder import LEAST_GAMMA_NEAREST, MOST_GAMMA
from colonnade.errors import LabelMismatch, PlanError, PrivacyError
from colonnade.methods.functional.blocks import (
    DISTRIBUTIONS,
    BlockNoise,
    CoefficientBlock,
    Dissection,
    Law,
    least_noise,
    truncation_delta,
)
from colonnade.numbers.field import FIELD63, Field, check_fits
from colonnade.privacy.events import Composed, Event
from colonnade.privacy.guarantee import Guarantee, View, account, delta_text, epsilon_text
from colonnade.privacy.observers import PartOf, Server
from colonnade.privacy.sensitivity.functional import (
    CoefficientChange,
    CoefficientRow,
    FeatureBounds,
    cross_replaced,
    cross_zeroed,
)
from colonnade.protocols import plans
from colonnade.protocols.assumptions import Verify, server_assumption
from colonnade.protocols.dealt_noise import bits_for, near_enough
from colonnade.protocols.shared_plan import Layout, SharedPlan
from colonnade.protocols.sharing import block_rows
from colonnade.protocols.verified_rows import checked_block, chosen_verify
from colonnade.runtime.party import Group

Domain = Literal["ball", "box"]
Budget = Literal["top-down", "bottom-up"]
Positive = Annotated[float, Number(gt=0)]
_LEAST_GAMMA = {"ball": LEAST_GAMMA_NEAREST, "box": 2}


@dataclass(frozen=True)
class BlockCost:
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


class FunctionalOptions(plans.Options):
    """What a job may choose. `epsilons` has one ε for each block, "bank" or "bank+shop", and only bottom-up."""

    method = "functional"
    in_shares = True

    domain: Domain = "ball"
    noise: Literal["auto", "laplace", "gaussian", "skellam"] = "auto"
    budget: Budget = "top-down"
    epsilons: dict[str, Positive] = Number(default_factory=dict)
    calibration: Literal["sound", "paper"] = "sound"
    ridge: Annotated[float, Number(ge=0)] | None = None
    intercept: bool = True

    def check(self, spec: plans.TrainingSpec) -> None:
        plans.refuse_paper_plan(self.calibration)
        if self.budget == "bottom-up" and not self.epsilons:
            raise PlanError(
                "budget = 'bottom-up' needs an ε for every block: write them as [options.epsilons], "
                "one for each party and for each pair, such as bank = 0.2 and 'bank+shop' = 0.3."
            )
        if self.budget == "top-down" and self.epsilons:
            raise PlanError(
                "epsilons are for budget = 'bottom-up'; top-down, the job's epsilon is for all blocks."
            )

    def plan(
        self, spec: plans.TrainingSpec, group: Group, schemas: plans.Schemas, rows: int
    ) -> FunctionalPlan:
        """Laplace noise is calibrated to pure ε, at a δ for truncation; other laws at an equal share of δ a block."""
        plans.check_computing_parties(group)
        task, epsilon, gamma, domain = spec.task, spec.epsilon, spec.gamma, self.domain
        if task not in ("classification", "regression"):
            raise PlanError(
                f"the functional mechanism minimises a linear or a logistic objective; {task} has neither. "
                "Choose classification or regression."
            )
        terms = plans.agreed(spec, group, schemas, rows)
        least = _LEAST_GAMMA[domain]
        if not least <= gamma <= MOST_GAMMA:
            raise PlanError(f"gamma = {gamma} is outside {least} to {MOST_GAMMA} for the domain {domain!r}.")
        blank = FunctionalPlan(gamma, (), (), **terms)
        _check_columns(blank)
        # In a box by default nothing: every feature has pads of its own, which takes more than two and a half times.
        verify = spec.verify if domain == "ball" else spec.verify or "none"
        checked = chosen_verify(verify, group, blank.claims, rows=min(rows, blank.block))
        blank = replace(blank, verify=checked)
        noises: tuple[Law, ...] = DISTRIBUTIONS if self.noise == "auto" else (self.noise,)
        if self.epsilons:
            chosen = _chosen(blank.dissection.blocks, self.epsilons, epsilon)
            blank = replace(blank, epsilons=chosen)
        plan = plans.on_grid(lambda grid: _calibrated(replace(blank, gamma=grid), noises), gamma, least=least)
        try:
            _ = plan.guarantees, plan.part_guarantees
        except PrivacyError as error:
            raise PlanError(f"{error} Or lower epsilon, or choose noise = 'gaussian'.") from None
        return plan


@dataclass(frozen=True)
class FunctionalPlan(SharedPlan, plans.TrainingPlan, Layout):
    """Made by `FunctionalOptions`, which choose `noises`: one for all coefficients, or one for each block."""

    gamma: int
    epsilons: tuple[tuple[str, float], ...]
    noises: tuple[BlockNoise, ...]
    verify: Verify = "none"

    charged_as = "objective"

    @property
    def options(self) -> FunctionalOptions:
        return plans.options_of(self.spec, FunctionalOptions)

    @property
    def mode(self) -> Mode:
        return "circle" if self.options.domain == "ball" and self.spec.task == "classification" else "linear"

    @property
    def label_size(self) -> int:
        """g: the integer that stands for a label of 1.

        In the box g = γ for Σ (v − wᵀx)², and 4γ for the logistic objective, whose first order is ½ and second order ⅛:
        the noise is then the same on every coefficient. In the ball noise in Σxxᵀ is felt more, and the label gets γ/2.
        """
        if self.options.domain == "ball":
            return self.gamma // 2
        return 4 * self.gamma if self.spec.task == "classification" else self.gamma

    @property
    def constant_size(self) -> int:
        """c: the integer that stands for the intercept's 1; 0 without an intercept."""
        if not self.options.intercept:
            return 0
        return self.gamma // 2 if self.options.domain == "ball" else self.gamma

    @cached_property
    def row(self) -> CoefficientRow:
        parts = tuple(
            FeatureBounds.box(encoder.width, side=self.gamma)
            if self.options.domain == "box"
            else FeatureBounds.ball(encoder.width, square=self.quantizers[party].norm_squared_bound)
            for party, encoder in self.encoders.items()
        )
        holder = self.group.owners.index(self.label_holder)
        return CoefficientRow(parts, holder, self.label_size, self.constant_size)

    @property
    def bounds(self) -> dict[str, int]:
        return {owner: part.square for owner, part in zip(self.group.owners, self.row.parts, strict=True)}

    @cached_property
    def dissection(self) -> Dissection:
        widths = tuple(encoder.width for encoder in self.encoders.values())
        return Dissection(self.group.owners, widths, self.label_holder, self.options.intercept)

    @property
    def dealt(self) -> dict[str, int]:
        return self.dissection.dealt

    @property
    def claims(self) -> dict[str, tuple[RowClaim, ...]]:
        """In the ball the norm of the features, in the box each of them; apart from them constant and label."""
        claims = {}
        for owner, part in zip(self.group.owners, self.row.parts, strict=True):
            if part.side is None:
                claims[owner] = [RowClaim(part.features, part.square)] if part.features else []
            else:
                claims[owner] = [RowClaim(1, part.side**2)] * part.features
        claims[self.label_holder] += [RowClaim(1, self.constant_size**2)] * int(self.options.intercept)
        claims[self.label_holder].append(RowClaim(1, self.label_size**2))
        return {owner: tuple(listed) for owner, listed in claims.items()}

    def noise_of(self, block: CoefficientBlock) -> BlockNoise:
        return self.noises[self.dissection.blocks.index(block) if len(self.noises) > 1 else 0]

    @property
    def block(self) -> int:
        usual = block_rows(self.dissection.columns)
        return usual if self.verify == "none" else checked_block(self.claims, usual)

    @cached_property
    def field(self) -> Field:
        check_fits(
            FIELD63,
            rows=self.rows,
            per_row=self.row.largest**2,
            noise=max(noise.extent(self.group) for noise in self.noises),
            what=f"a quadratic objective at gamma = {self.gamma}",
        )
        return FIELD63

    def change(
        self, block: CoefficientBlock | None = None, replaced: Collection[str] | None = None
    ) -> CoefficientChange:
        parties = [self.group.owners.index(owner) for owner in replaced or ()]
        if block is None:
            return self.row.zeroed() if replaced is None else self.row.replaced(parties)
        owners = [self.group.owners.index(owner) for owner in block.owners]
        if len(owners) == 1:
            mine, moved = self.row.only(owners[0]), {0} if owners[0] in parties else set()
            return mine.zeroed() if replaced is None else mine.replaced(moved)
        if replaced is None:
            return cross_zeroed(self.row, *owners)
        return cross_replaced(self.row, *owners) if set(owners) & set(parties) else self.row.replaced(())

    def event(self, replaced: Collection[str] | None = None, *, known: int | None = None) -> Event:
        """Of a record zeroed out, or of these parts replaced."""
        known = self.group.tolerated if known is None else known
        if self.options.budget == "top-down":
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
        return plans.guarantees_of(views, self.delta)

    @cached_property
    def bill(self) -> tuple[BlockCost, ...]:
        """Block by block, in units of γ². Bottom-up ε is the one that was chosen, at the block's own δ."""
        unit, blocks = float(self.gamma) ** 2, self.dissection.blocks
        lines = []
        for block in blocks:
            change, noise = self.change(block), self.noise_of(block)
            event = noise.event(change, self.group, entries=block.size, known=self.group.tolerated)
            delta = self.delta
            if self.options.budget == "bottom-up":
                delta = truncation_delta((event,), delta) if noise.is_laplace else delta / len(blocks)
            epsilon, deviation = account(event, delta).epsilon, noise.variance(self.group) ** 0.5 / unit
            moved = float(change.l1) / unit, change.l2 / unit
            lines.append(
                BlockCost(block.name, block.kind, block.size, *moved, epsilon, delta, str(noise), deviation)
            )
        return tuple(lines)

    def own_data(self) -> dict[str, Any]:
        return {
            **self.layout_data(),
            "epsilons": dict(self.epsilons),
            "blocks": {block.name: block.size for block in self.dissection.blocks},
            "noises": [noise.to_data() for noise in self.noises],
            "label_size": self.label_size,
            "constant_size": self.constant_size,
            "primes": list(self.field.primes),
            "block": self.block,
            "verify": self.verify,
        }


def _check_columns(plan: FunctionalPlan) -> None:
    label = plan.label.label
    if plan.spec.task == "classification" and label is not None and len(label.classes) not in (0, 2):
        raise LabelMismatch(
            f"the logistic objective tells two classes apart; {plan.label_holder} declares {len(label.classes)}. "
            "Use method = 'moments', which takes any number of classes, or merge classes."
        )
    mapped = [party for party, encoder in plan.encoders.items() if encoder.map is not None]
    if plan.options.domain == "box" and mapped:
        raise PlanError(
            f"{mapped[0]} maps its columns, and what a map makes has a bounded norm but no bounds of its own. "
            "Choose domain = 'ball', or leave the map out."
        )
    plans.check_memory(plan.dissection.columns, what="an objective")


def _chosen(
    blocks: tuple[CoefficientBlock, ...], epsilons: Mapping[str, float], epsilon: float
) -> tuple[tuple[str, float], ...]:
    """The blocks' ε in the order of the blocks, whichever way round two parties are named."""
    names = {frozenset(block.owners): block.name for block in blocks}
    given: dict[str, float] = {}
    for name, value in epsilons.items():
        block_name = names.get(frozenset(name.replace(" ", "").split("+")))
        if block_name is None:
            raise PlanError(
                f"epsilons names {name!r}, but the blocks of this objective are {', '.join(names.values())}."
            )
        if block_name in given:
            raise PlanError(f"epsilons names the block {block_name} twice.")
        if not 0 < value < float("inf"):
            raise PlanError(
                f"epsilons gives {block_name} an ε of {value:g}; privacy loss is a positive number."
            )
        given[block_name] = float(value)
    missing = [name for name in names.values() if name not in given]
    if missing:
        raise PlanError(
            f"bottom-up, every block needs an ε, and epsilons has none for {', '.join(missing)}. "
            "Give each of them one, or choose budget = 'top-down'."
        )
    total = sum(given.values())
    if total > epsilon * (1 + 1e-9):
        raise PlanError(
            f"the blocks' ε sum to {total:.6g}, above the job's epsilon = {epsilon:g}. Lower them, or raise it."
        )
    return tuple((block.name, given[block.name]) for block in blocks)


def _calibrated(blank: FunctionalPlan, distributions: tuple[Law, ...]) -> FunctionalPlan:
    plan = replace(blank, noises=_noises(blank, distributions))
    if all(noise.is_laplace for noise in plan.noises):
        events = [view.event for view in plan.views]
        events += [plan.event([owner]) for owner in plan.group.owners]
        plan = replace(plan, delta=truncation_delta((*events, plan.event(plan.group.owners)), plan.delta))

    def finer(plan: FunctionalPlan, bits: int) -> FunctionalPlan:
        return replace(plan, noises=tuple(noise.finer(bits) for noise in plan.noises))

    return near_enough(plan, FunctionalPlan.accounted, finer)


def _noises(plan: FunctionalPlan, distributions: tuple[Law, ...]) -> tuple[BlockNoise, ...]:
    blocks: list[tuple[CoefficientBlock | None, int, float]] = [
        (block, block.size, epsilon)
        for block, (_, epsilon) in zip(plan.dissection.blocks, plan.epsilons, strict=bool(plan.epsilons))
    ] or [(None, plan.dissection.coefficients, plan.spec.epsilon)]
    return tuple(
        least_noise(
            distributions,
            plan.change(block),
            plan.group,
            entries=entries,
            epsilon=epsilon,
            delta=plan.delta / len(blocks),
            bits=bits_for(plan.spec.epsilon),
        )
        for block, entries, epsilon in blocks
    )
