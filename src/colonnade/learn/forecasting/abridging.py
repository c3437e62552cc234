"""Short runs of which a long one is the weighted sum.

A protocol does the same thing for every block of rows, every batch, every step. A scene is the plan itself, with its
noise, its field and its keys, but with fewer of them. Cost is a straight line in each of these numbers, so that the
cost of the whole is Σ weight · cost of a scene; the weights are those of interpolation and sum to 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, TypeVar

from colonnade.errors import PlanError
from colonnade.protocols.embeddings_plan import EmbeddingsPlan
from colonnade.protocols.encrypted_plan import EncryptedPlan
from colonnade.protocols.functional_plan import FunctionalPlan
from colonnade.protocols.intermediate_plan import IntermediatePlan
from colonnade.protocols.local_plan import LocalPlan
from colonnade.protocols.moments_plan import MomentsPlan
from colonnade.protocols.noisy_columns import NoisyColumnsPlan, block_of
from colonnade.protocols.noisy_gradient_plan import GradientPlan
from colonnade.protocols.plans import Plan

P = TypeVar("P", bound=Any)
# Numbers of all parties' features that a scene may hold.
MOST_CELLS = 1 << 20


@dataclass(frozen=True)
class Scene:
    """A shortened plan, its weight in the whole, and its share of the work, roughly: the whole has 1."""

    plan: Any
    weight: float
    share: float


@dataclass(frozen=True)
class Axis:
    """Something that a run does `full` times; cost is a straight line in it from `low` on.

    `place` turns a number of times into what cost is really a straight line in, where that is something else.
    """

    full: int
    low: int
    high: int
    place: Callable[[int], float] = float

    @property
    def short(self) -> bool:
        """Whether there is nothing to leave out."""
        return self.full <= self.high

    def weights(self) -> dict[int, float]:
        """How often the low and the high number count: w_low + w_high = 1.

        >>> Axis(full=10, low=1, high=3).weights()
        {1: -3.5, 3: 4.5}
        """
        if self.short:
            return {self.full: 1.0}
        low, high, full = self.place(self.low), self.place(self.high), self.place(self.full)
        return {self.low: (high - full) / (high - low), self.high: (full - low) / (high - low)}


def product(axes: Sequence[Axis], at: Callable[..., P]) -> tuple[Scene, ...]:
    """Every combination of low and high: exact for what is a straight line in each axis if the others stand still."""
    scenes = []
    for chosen in itertools.product(*(axis.weights().items() for axis in axes)):
        numbers = [number for number, _ in chosen]
        share = math.prod(
            max(1, number) / max(1, axis.full) for number, axis in zip(numbers, axes, strict=True)
        )
        scenes.append(Scene(at(*numbers), math.prod(weight for _, weight in chosen), share))
    return tuple(scenes)


def kept(plan: P, shorter: P, *names: str) -> P:
    """The shorter plan with what the whole plan has computed for itself under these names.

    What a run charges and the field it computes in are those of the whole: otherwise the scene of another protocol
    would be rehearsed. They are cached properties, so that giving them a value is to have computed them.
    """
    for name in ("views", "guarantees", *names):
        shorter.__dict__[name] = getattr(plan, name)
    return shorter


@singledispatch
def scenes(plan: Plan) -> tuple[Scene, ...]:
    """The scenes of a plan. A protocol takes part in forecasts by saying here what it does again and again."""
    raise PlanError(
        f"nobody has said how to shorten a plan of {type(plan).__name__}, so its cost is not foretold."
    )


@scenes.register
def _moments(plan: MomentsPlan) -> tuple[Scene, ...]:
    return _in_blocks(plan, plan.block, lambda rows: kept(plan, replace(plan, rows=rows), "field"))


@scenes.register
def _functional(plan: FunctionalPlan) -> tuple[Scene, ...]:
    return _in_blocks(plan, plan.block, lambda rows: kept(plan, replace(plan, rows=rows), "field"))


@scenes.register
def _local(plan: LocalPlan) -> tuple[Scene, ...]:
    return _in_blocks(plan, plan.columns.block, lambda rows: kept(plan, replace(plan, rows=rows)))


@scenes.register
def _one_shot(plan: NoisyColumnsPlan) -> tuple[Scene, ...]:
    block = min(block_of(plan, owner) for owner in plan.passive)
    if plan.rows >= 3 * block:
        return _in_blocks(plan, block, lambda rows: kept(plan, replace(plan, rows=rows)))
    cells = sum(encoder.width for encoder in plan.clipped.encoders.values())
    return product([_rows(plan.rows, cells)], lambda rows: kept(plan, replace(plan, rows=rows)))


@scenes.register
def _gradient(plan: GradientPlan) -> tuple[Scene, ...]:
    def at(steps: int, rows: int) -> GradientPlan:
        fewer = replace(plan, rows=rows)
        shorter = replace(fewer, schedule=replace(plan.schedule, steps=steps))
        # Batches are as large as in the whole run, whose many steps make them so.
        shorter.__dict__.update(capacity=fewer.capacity, uses=fewer.uses)
        return kept(plan, shorter, "field")

    axis = replace(_rows(plan.rows, plan.size), place=lambda rows: float(replace(plan, rows=rows).capacity))
    return product([Axis(plan.schedule.steps, 4, 24), axis], at)


@scenes.register
def _intermediate(plan: IntermediatePlan) -> tuple[Scene, ...]:
    whole = plan.batch == plan.rows

    def at(epochs: int, number: int) -> IntermediatePlan:
        rows = number if whole else number * plan.batch + plan.rows % plan.batch
        return kept(plan, replace(plan, epochs=epochs, rows=rows, batch=rows if whole else plan.batch))

    cells = sum(encoder.width for encoder in plan.clipped.encoders.values())
    rows = _rows(plan.rows, cells) if whole else Axis(plan.rows // plan.batch, 2, 8)
    # Epochs are short here: two lines through few of them would magnify whatever disturbs the clock.
    return product([Axis(plan.epochs, 2, 10), rows], at)


@scenes.register
def _encrypted(plan: EncryptedPlan) -> tuple[Scene, ...]:
    batch, epochs = plan.schedule.batch, plan.request.epochs
    batches, rest = divmod(plan.rows, batch)

    def at(epochs: int, batches: int) -> EncryptedPlan:
        request = replace(plan.request, epochs=epochs, batch=batch)
        return kept(plan, replace(plan, request=request, rows=batches * batch + rest))

    if epochs * batches <= 6:
        return (Scene(plan, 1.0, 1.0),)
    # Nothing but batches costs anything here, so three scenes do: cost = F + epochs · (A · batches + R).
    share = 1.0 / (epochs * batches)
    first, listed = 1.0, []
    if epochs > 1:
        passes = min(epochs, 2)
        weight = (epochs - 1) / (passes - 1)
        listed.append(Scene(at(passes, 1), weight, passes * share))
        first -= weight
    if batches > 1:
        some = min(batches, 4)
        weight = epochs * (batches - 1) / (some - 1)
        listed.append(Scene(at(1, some), weight, some * share))
        first -= weight
    return (Scene(at(1, 1), first, share), *listed)


@scenes.register
def _embeddings(plan: EmbeddingsPlan) -> tuple[Scene, ...]:
    batch = plan.batch

    def at(epochs: int, learnt: int, held_out: int) -> EmbeddingsPlan:
        tested = held_out * batch + plan.held_out % batch
        rows = learnt * batch + plan.train_rows % batch + tested
        return kept(plan, replace(plan, epochs=epochs, rows=rows, held_out=tested))

    epochs = Axis(plan.epochs, 1, 2) if plan.learns_locally else Axis(plan.epochs, plan.epochs, plan.epochs)
    return product([epochs, Axis(plan.train_rows // batch, 8, 32), Axis(plan.held_out // batch, 0, 1)], at)


def _in_blocks(plan: Plan, block: int, at: Callable[[int], P]) -> tuple[Scene, ...]:
    blocks, rest = divmod(plan.rows, block)
    return product([Axis(blocks, 2, 6)], lambda count: at(count * block + rest))


def _rows(rows: int, cells: int) -> Axis:
    """Rows that need not come in blocks: as many as a scene may hold, and a quarter of it."""
    most = max(4, MOST_CELLS // max(1, cells))
    return Axis(rows, most // 4, most)
