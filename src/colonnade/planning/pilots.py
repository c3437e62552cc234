"""Short runs of which a long one is the weighted sum.

A protocol does the same thing for every block of rows, every batch, every step. A pilot run is by the plan itself, with
its noise, its field and its keys, but with fewer of them. Cost is a straight line in each of these numbers, so that the
cost of the whole is Σ weight · cost of a pilot; the weights are those of interpolation and sum to 1. Each method says
which pilots stand for a plan of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from colonnade.planning.cost import Cost, weighted
from colonnade.protocols.plans import Plan

P = TypeVar("P", bound=Any)
# Numbers of all parties' features that a pilot may hold.
MOST_CELLS = 1 << 20


@dataclass(frozen=True)
class Pilot:
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
        return self.full <= self.high

    def weights(self) -> dict[int, float]:
        """How often the low and the high number count: w_low + w_high = 1."""
        if self.short:
            return {self.full: 1.0}
        low, high, full = self.place(self.low), self.place(self.high), self.place(self.full)
        return {self.low: (high - full) / (high - low), self.high: (full - low) / (high - low)}


def product(axes: Sequence[Axis], at: Callable[..., P]) -> tuple[Pilot, ...]:
    """Every combination of low and high: exact for what is a straight line in each axis if the others stand still."""
    pilots = []
    for chosen in itertools.product(*(axis.weights().items() for axis in axes)):
        numbers = [number for number, _ in chosen]
        share = math.prod(
            max(1, number) / max(1, axis.full) for number, axis in zip(numbers, axes, strict=True)
        )
        pilots.append(Pilot(at(*numbers), math.prod(weight for _, weight in chosen), share))
    return tuple(pilots)


def summed(pilots: Sequence[Pilot], costs: Sequence[Cost]) -> Cost:
    """What the whole costs by the costs of its pilots, in no more seconds than it can take at most."""
    cost = weighted([(pilot.weight, part) for pilot, part in zip(pilots, costs, strict=True)])
    return replace(cost, seconds=min(cost.seconds, most(pilots, costs)))


def most(pilots: Sequence[Pilot], costs: Sequence[Cost], share: float = 1.0) -> float:
    """How many seconds a run with so large a share of the work takes at most, by any of the pilots.

    Nothing that a run does takes less than no time: a longer one takes at most in proportion to its share, a shorter
    one no longer. If one pilot was disturbed, the others say how far it can be right.
    """
    return min(
        cost.seconds * max(1.0, share / pilot.share) for pilot, cost in zip(pilots, costs, strict=True)
    )


def kept(plan: P, shorter: P, *names: str) -> P:
    """The shorter plan with what the whole plan has computed for itself under these names.

    What a run charges and the field it computes in are those of the whole: otherwise another protocol would be
    rehearsed. They are cached properties, so that giving them a value is to have computed them.
    """
    for name in ("views", "guarantees", *names):
        shorter.__dict__[name] = getattr(plan, name)
    return shorter


def in_blocks(plan: Plan, block: int, at: Callable[[int], P]) -> tuple[Pilot, ...]:
    """Pilots of a run that takes its rows block by block; `at` is the plan with fewer rows."""
    blocks, rest = divmod(plan.rows, block)
    return product([Axis(blocks, 2, 6)], lambda count: at(count * block + rest))


def in_rows(rows: int, cells: int) -> Axis:
    """Rows that need not come in blocks: as many as a pilot may hold, and a quarter of it."""
    most = max(4, MOST_CELLS // max(1, cells))
    return Axis(rows, most // 4, most)
