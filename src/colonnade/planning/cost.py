"""What a run cost, as something that can be added up and stretched."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from colonnade.runtime.run import Outcome

K = TypeVar("K")


@dataclass(frozen=True)
class Cost:
    """Bytes by sender, receiver and kind of step; rounds by member and kind of step; seconds; the most memory.

    Everything but memory is a straight line in how often a protocol does each thing, so that a long run is a weighted
    sum of short ones. Members keep their own counts, because the rounds of a run are those of the member that waits
    most often.
    """

    sent: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    waited: Mapping[tuple[str, str], float] = field(default_factory=dict)
    seconds: float = 0.0
    memory: float = 0.0

    @classmethod
    def of(cls, outcome: Outcome, *, seconds: float, memory: float = 0.0) -> Cost:
        """The cost of a run that has ended."""
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
        by_member: dict[str, float] = {}
        for (member, _), count in self.waited.items():
            by_member[member] = by_member.get(member, 0.0) + count
        return round(max(by_member.values(), default=0.0))

    def without(self, steps: Collection[str]) -> Cost:
        """The same without the bytes and rounds of some kinds of steps."""
        return replace(
            self,
            sent={key: size for key, size in self.sent.items() if key[-1] not in steps},
            waited={key: count for key, count in self.waited.items() if key[-1] not in steps},
        )

    @property
    def through(self) -> dict[str, int]:
        """Bytes through the connection of each member, both ways."""
        sizes: dict[str, float] = {}
        for (sender, to, _), size in self.sent.items():
            for member in (sender, to):
                sizes[member] = sizes.get(member, 0.0) + size
        return {member: round(size) for member, size in sizes.items()}

    @property
    def busiest(self) -> int:
        """Bytes through the connection of the member that sends and receives most."""
        return max(self.through.values(), default=0)

    @property
    def by_step(self) -> dict[str, int]:
        """Bytes by kind of step, the same names as in a finished run."""
        steps: dict[str, float] = {}
        for (_, _, step), size in self.sent.items():
            steps[step] = steps.get(step, 0.0) + size
        return {step: round(size) for step, size in steps.items()}


def weighted(terms: Iterable[tuple[float, Cost]]) -> Cost:
    """Σ weight · cost, but for memory, which is a peak: the most that was seen."""
    listed = list(terms)
    sent = _added((weight, cost.sent) for weight, cost in listed)
    waited = _added((weight, cost.waited) for weight, cost in listed)
    seconds = sum(weight * cost.seconds for weight, cost in listed)
    seen = max((cost.memory for _, cost in listed), default=0.0)
    # Noise in the timing of short runs must not make a long one quicker than they are.
    least = max((cost.seconds for weight, cost in listed if weight), default=0.0)
    return Cost(sent, waited, max(seconds, least), seen)


def _added(terms: Iterable[tuple[float, Mapping[K, float]]]) -> dict[K, float]:
    total: dict[K, float] = {}
    for weight, counts in terms:
        for key, value in counts.items():
            total[key] = total.get(key, 0.0) + weight * value
    return total


def cost_data(cost: Cost) -> dict[str, Any]:
    return {
        "bytes": cost.bytes_sent,
        "rounds": cost.rounds,
        "steps": cost.by_step,
        "busiest": cost.busiest,
        "through": cost.through,
        "seconds": cost.seconds,
        "memory": round(cost.memory),
    }
