"""Composition, in one place: an event tree becomes its leaves, how often each happens, and the draws made.

Every curve adds up over the leaves, so that counting here once is what makes repetition equal composition
and composition indifferent to order.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from colonnade.privacy.events import Approximated, Composed, Event, PoissonSampled, Repeated
from colonnade.privacy.leaves import Mechanism

Leaf: TypeAlias = Mechanism | PoissonSampled


@dataclass(frozen=True)
class Items:
    """What an event amounts to: leaves with their counts, and draws from truncated samplers."""

    leaves: frozenset[tuple[Leaf, int]]
    draws: int
    total_variation: Fraction
    """The distance of all draws together from their laws."""


def itemise(event: Event) -> Items:
    """The leaves of an event with their counts."""
    counts: Counter[Leaf] = Counter()
    draws: Counter[int] = Counter()
    _count_into(counts, draws, event, 1)
    return Items(
        frozenset((leaf, times) for leaf, times in counts.items() if times),
        draws.total(),
        sum((Fraction(made, 2**bits) for bits, made in draws.items()), Fraction(0)),
    )


def _count_into(counts: Counter[Leaf], draws: Counter[int], event: Event, times: int) -> None:
    """Adds the leaves of `event`, `times` times, and the draws made, by the bits of their distance."""
    if isinstance(event, Composed):
        for part in event.events:
            _count_into(counts, draws, part, times)
    elif isinstance(event, Repeated):
        _count_into(counts, draws, event.event, times * event.times)
    elif isinstance(event, Approximated):
        draws[event.bits] += times * event.draws
        _count_into(counts, draws, event.event, times)
    elif isinstance(event, PoissonSampled) and isinstance(event.event, Approximated):
        # A mixture of two laws is no further from its ideal than the laws are from theirs.
        draws[event.event.bits] += times * event.event.draws
        inner = PoissonSampled(rate=event.rate, event=event.event.event)  # type: ignore[arg-type]
        _count_into(counts, draws, inner, times)
    elif isinstance(event, PoissonSampled) and event.rate in (0, 1):
        if event.rate == 1:
            _count_into(counts, draws, event.event, times)
    else:
        counts[event] += times


def contains_sampling(event: Event) -> bool:
    """Whether the cost of this event relies on a secret sample."""
    return any(isinstance(leaf, PoissonSampled) for leaf, _ in itemise(event).leaves)
