"""What a run costs, and the short runs of which a long one is the weighted sum.

A pilot is a run by the plan itself, with fewer blocks of rows, batches or steps. Cost is a straight line in each of
these numbers, so that the cost of the whole is Σ weight · cost of a pilot; the weights sum to 1.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from colonnade.protocols.plans import Plan
from colonnade.runtime.run import Outcome

K = TypeVar("K")
P = TypeVar("P", bound=Any)
# Numbers of all parties' features that a pilot may hold.
MOST_CELLS = 1 << 20


class Clock:
    """The least of wall and processor time: what it would have taken on a machine with nothing else to do."""

    wall = processor = 0.0

    def __enter__(self) -> Clock:
        self._wall, self._processor = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_error: object) -> None:
        self.wall = time.perf_counter() - self._wall
        self.processor = time.process_time() - self._processor

    @property
    def seconds(self) -> float:
        return min(self.wall, self.processor)


@dataclass(frozen=True)
class Cost:
    """Bytes by sender, receiver and step; rounds by member, since those of a run are of who waits most often."""

    sent: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    waited: Mapping[tuple[str, str], float] = field(default_factory=dict)
    seconds: float = 0.0
    memory: float = 0.0

    @classmethod
    def of(cls, outcome: Outcome, *, seconds: float, memory: float = 0.0) -> Cost:
        sent = {
            (member, to, step): float(size)
            for member, traffic in outcome.traffic.items()
            for (to, step), size in traffic.sent.items()
        }
        waited = {
            (member, step): float(count)
            for member, traffic in outcome.traffic.items()
            for step, count in traffic.rounds_by_step.items()
        }
        return cls(sent, waited, seconds, memory)

    @property
    def bytes_sent(self) -> int:
        return round(sum(self.sent.values()))

    @property
    def rounds(self) -> int:
        by_member = _added((count, {member: 1.0}) for (member, _), count in self.waited.items())
        return round(max(by_member.values(), default=0.0))

    @property
    def through(self) -> dict[str, int]:
        """Bytes through the connection of each member, both ways."""
        sizes = _added((size, {member: 1.0}) for key, size in self.sent.items() for member in key[:2])
        return {member: round(size) for member, size in sizes.items()}

    @property
    def busiest(self) -> int:
        return max(self.through.values(), default=0)

    @property
    def by_step(self) -> dict[str, int]:
        steps = _added((size, {step: 1.0}) for (_, _, step), size in self.sent.items())
        return {step: round(size) for step, size in steps.items()}

    def without(self, steps: Collection[str]) -> Cost:
        sent = {key: size for key, size in self.sent.items() if key[-1] not in steps}
        waited = {key: count for key, count in self.waited.items() if key[-1] not in steps}
        return replace(self, sent=sent, waited=waited)

    def to_data(self) -> dict[str, Any]:
        return {
            "bytes": self.bytes_sent,
            "rounds": self.rounds,
            "steps": self.by_step,
            "busiest": self.busiest,
            "through": self.through,
            "seconds": self.seconds,
            "memory": round(self.memory),
        }


def weighted(terms: Iterable[tuple[float, Cost]]) -> Cost:
    """Σ weight · cost, but for memory, which is a peak: the most that was seen."""
    listed = list(terms)
    # Noise in the timing of short runs must not make a long one quicker than they are.
    least = max((cost.seconds for weight, cost in listed if weight), default=0.0)
    return Cost(
        _added((weight, cost.sent) for weight, cost in listed),
        _added((weight, cost.waited) for weight, cost in listed),
        max(least, sum(weight * cost.seconds for weight, cost in listed)),
        max((cost.memory for _, cost in listed), default=0.0),
    )


def _added(terms: Iterable[tuple[float, Mapping[K, float]]]) -> dict[K, float]:
    total: dict[K, float] = {}
    for weight, counts in terms:
        for key, value in counts.items():
            total[key] = total.get(key, 0.0) + weight * value
    return total


@dataclass(frozen=True)
class Pilot:
    """A shortened plan, its weight in the whole, and its share of the work, roughly: the whole has 1."""

    plan: Any
    weight: float
    share: float


@dataclass(frozen=True)
class Axis:
    """Something that a run does `full` times; cost is a straight line in its `place` from `low` on."""

    full: int
    low: int
    high: int
    place: Callable[[int], float] = float

    def weights(self) -> dict[int, float]:
        """How often the low and the high number count: w_low + w_high = 1."""
        if self.full <= self.high:
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


def in_blocks(plan: Plan, block: int, *names: str) -> tuple[Pilot, ...]:
    """Pilots of a run that takes its rows block by block; they keep what the whole has under these names."""
    blocks, rest = divmod(plan.rows, block)
    return product(
        [Axis(blocks, 2, 6)], lambda count: kept(plan, replace(plan, rows=count * block + rest), *names)
    )


def in_rows(rows: int, cells: int) -> Axis:
    """Rows that need not come in blocks: as many as a pilot may hold, and a quarter of it."""
    most = max(4, MOST_CELLS // max(1, cells))
    return Axis(rows, most // 4, most)


def kept(plan: P, shorter: P, *names: str) -> P:
    """The shorter plan with what the whole has under these names: otherwise another protocol would be rehearsed."""
    for name in ("views", "guarantees", *names):
        shorter.__dict__[name] = getattr(plan, name)
    return shorter


def summed(pilots: Sequence[Pilot], costs: Sequence[Cost]) -> Cost:
    """What the whole costs by the costs of its pilots, in no more seconds than it can take by any of them."""
    cost = weighted([(pilot.weight, part) for pilot, part in zip(pilots, costs, strict=True)])
    return replace(cost, seconds=min(cost.seconds, most(pilots, costs)))


def most(pilots: Sequence[Pilot], costs: Sequence[Cost]) -> float:
    """Nothing takes less than no time, so in proportion to a pilot's share at most."""
    return min(part.seconds / min(1.0, pilot.share) for pilot, part in zip(pilots, costs, strict=True))
