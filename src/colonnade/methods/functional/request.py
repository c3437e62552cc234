"""Making the plan of a functional mechanism: what is refused, and the least noise that keeps what was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from colonnade.data.quantizer import LEAST_GAMMA_NEAREST, MOST_GAMMA
from colonnade.data.schema import PublicSchema
from colonnade.errors import LabelMismatch, PlanError, PrivacyError
from colonnade.methods.functional.blocks import Block
from colonnade.methods.functional.noise import LAWS, BlockNoise, Law, least_noise, truncation_delta
from colonnade.methods.functional.plan import Domain, FunctionalPlan
from colonnade.methods.moments.plan import DEFAULT_GAMMA
from colonnade.protocols.assumptions import Verify
from colonnade.protocols.limits import check_memory, gamma_advice
from colonnade.protocols.plans import Request, Task, check_keepers, check_parties, checked_delta
from colonnade.protocols.precision import bits_for, near_enough
from colonnade.protocols.verified_rows import chosen_verify
from colonnade.runtime.group import Group

NoiseChoice = Literal["auto", "laplace", "gaussian", "skellam"]
_LEAST_GAMMA = {"ball": LEAST_GAMMA_NEAREST, "box": 2}


@dataclass(frozen=True)
class FunctionalRequest(Request[FunctionalPlan]):
    """What the parties want, before anybody has said how many rows or which columns there are.

    `epsilons` are the blocks' own, bottom-up, as pairs of a name and an ε; without them `epsilon` is for the record.
    """

    task: Task
    epsilon: float
    gamma: int = DEFAULT_GAMMA
    domain: Domain = "ball"
    noise: NoiseChoice = "auto"
    epsilons: tuple[tuple[str, float], ...] | None = None
    intercept: bool = True
    verify: Verify | None = None

    method = "functional"
    in_shares = True

    def planned(self, group: Group, schemas: tuple[PublicSchema, ...], rows: int) -> FunctionalPlan:
        """The plan with the least noise that keeps ε for the server and for readers, whatever of it may be known.

        With `epsilons`, one for each block by its name ("bank", "bank+shop"), every block gets the noise that its own
        ε needs, and `epsilon` is the most that they may sum to. Discrete Laplace noise is calibrated to pure ε, and
        δ is then what truncation costs, or 0; the others to (ε, δ), in which every block has an equal share of δ.
        """
        check_keepers(group)
        task, epsilon, gamma, domain = self.task, self.epsilon, self.gamma, self.domain
        if task not in ("classification", "regression"):
            raise PlanError(
                f"the functional mechanism minimises a linear or a logistic objective; {task} has neither. "
                "Choose classification or regression."
            )
        check_parties(group, schemas, task)
        delta = checked_delta(epsilon, self.delta, self.accepted_delta, rows)
        least = _LEAST_GAMMA[domain]
        if not least <= gamma <= MOST_GAMMA:
            raise PlanError(f"gamma = {gamma} is outside {least} to {MOST_GAMMA} for the domain {domain!r}.")
        blank = FunctionalPlan(
            task,
            float(epsilon),
            gamma,
            domain,
            self.intercept,
            (),
            (),
            group=group,
            rows=rows,
            schemas=schemas,
            delta=delta,
        )
        _check_columns(blank)
        # In a box by default nothing: every feature has pads of its own, which takes more than two and a half times.
        wanted = self.verify if domain == "ball" else self.verify or "none"
        checked = chosen_verify(wanted, group, blank.claims, rows=min(rows, blank.block))
        blank = replace(blank, verify=checked)
        laws: tuple[Law, ...] = LAWS if self.noise == "auto" else (self.noise,)
        if self.epsilons is not None:
            chosen = _chosen(blank.dissection.blocks, dict(self.epsilons), epsilon)
            blank = replace(blank, epsilons=chosen)
        try:
            plan = _calibrated(blank, laws)
        except PlanError as error:
            advice = gamma_advice(
                lambda grid: _calibrated(replace(blank, gamma=grid), laws), least=least, asked=gamma
            )
            raise type(error)(f"{str(error).rstrip('.')}. {advice}") from None
        try:
            _ = plan.guarantees, plan.part_guarantees
        except PrivacyError as error:
            raise PlanError(f"{error} Or lower epsilon, or choose noise = 'gaussian'.") from None
        return plan

    def to_data(self) -> dict[str, Any]:
        """The request as plain values, the blocks' ε by name."""
        return {**super().to_data(), "epsilons": None if self.epsilons is None else dict(self.epsilons)}


def _check_columns(plan: FunctionalPlan) -> None:
    label = plan.label.label
    if plan.task == "classification" and label is not None and len(label.classes) not in (0, 2):
        raise LabelMismatch(
            f"the logistic objective tells two classes apart; {plan.label_holder} declares {len(label.classes)}. "
            "Use method = 'moments', which takes any number of classes, or merge classes."
        )
    mapped = [party for party, encoder in plan.encoders.items() if encoder.map is not None]
    if plan.domain == "box" and mapped:
        raise PlanError(
            f"{mapped[0]} maps its columns, and what a map makes has a bounded norm but no bounds of its own. "
            "Choose domain = 'ball', or leave the map out."
        )
    check_memory(plan.dissection.columns, what="an objective")


def _chosen(
    blocks: tuple[Block, ...], epsilons: Mapping[str, float], epsilon: float
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


def _calibrated(blank: FunctionalPlan, laws: tuple[Law, ...]) -> FunctionalPlan:
    plan = replace(blank, noises=_noises(blank, laws))
    if all(noise.is_laplace for noise in plan.noises):
        events = [view.event for view in plan.views]
        events += [plan.event([owner]) for owner in plan.group.owners]
        plan = replace(plan, delta=truncation_delta((*events, plan.event(plan.group.owners)), plan.delta))
    plan = _drawable(plan)
    return near_enough(plan, FunctionalPlan.accounted, _finer)


def _finer(plan: FunctionalPlan, bits: int) -> FunctionalPlan:
    """The same noise with finer draws, where it has a law that can be drawn so."""
    return _drawable(replace(plan, noises=tuple(noise.finer(bits) for noise in plan.noises)))


def _drawable(plan: FunctionalPlan) -> FunctionalPlan:
    """Refuses, before any data is touched, what could wrap around."""
    _ = plan.field
    return plan


def _noises(plan: FunctionalPlan, laws: tuple[Law, ...]) -> tuple[BlockNoise, ...]:
    def least(block: Block | None, entries: int, epsilon: float, delta: float) -> BlockNoise:
        return least_noise(
            laws,
            plan.change(block),
            plan.group,
            entries=entries,
            epsilon=epsilon,
            delta=delta,
            bits=bits_for(plan.epsilon),
        )

    if not plan.epsilons:
        return (least(None, plan.dissection.coefficients, plan.epsilon, plan.delta),)
    share = plan.delta / len(plan.epsilons)
    return tuple(
        least(block, block.size, epsilon, share)
        for block, (_, epsilon) in zip(plan.dissection.blocks, plan.epsilons, strict=True)
    )
