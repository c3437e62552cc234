"""Composition, in one place: an event tree becomes its leaves, how often each happens, and the draws made.

Every curve adds up over the leaves, so that counting here once is what makes repetition equal composition
and composition indifferent to order.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from colonnade.privacy.events import (
    TOTAL_VARIATION_PER_DRAW,
    Approximated,
    Composed,
    Event,
    Mechanism,
    PoissonSampled,
    Repeated,
)

Leaf: TypeAlias = Mechanism | PoissonSampled


@dataclass(frozen=True)
class Items:
    """What an event amounts to: leaves with their counts, and draws from truncated samplers.

    >>> from colonnade.privacy.events import Laplace
    >>> itemise(Repeated(Approximated(Laplace(1, 2), draws=3), times=5)).draws
    15
    """

    leaves: frozenset[tuple[Leaf, int]]
    draws: int

    @property
    def total_variation(self) -> Fraction:
        """The distance of all draws together from their laws."""
        return self.draws * TOTAL_VARIATION_PER_DRAW


def itemise(event: Event) -> Items:
    """The leaves of an event with their counts.

    >>> from colonnade.privacy.events import Laplace
    >>> event = Composed((Laplace(1, 2), Repeated(Laplace(1, 2), times=4)))
    >>> itemise(event).leaves
    frozenset({(Laplace(sensitivity=1, scale=2), 5)})
    """
    counts: Counter[Leaf] = Counter()
    draws = _count_into(counts, event, 1)
    return Items(frozenset((leaf, times) for leaf, times in counts.items() if times), draws)


def _count_into(counts: Counter[Leaf], event: Event, times: int) -> int:
    """Adds the leaves of `event`, `times` times, and returns the draws made."""
    if isinstance(event, Composed):
        return sum(_count_into(counts, part, times) for part in event.events)
    if isinstance(event, Repeated):
        return _count_into(counts, event.event, times * event.times)
    if isinstance(event, Approximated):
        return times * event.draws + _count_into(counts, event.event, times)
    if isinstance(event, PoissonSampled):
        if isinstance(event.event, Approximated):
            # A mixture of two laws is no further from its ideal than the laws are from theirs.
            inner = PoissonSampled(rate=event.rate, event=event.event.event)  # type: ignore[arg-type]
            return times * event.event.draws + _count_into(counts, inner, times)
        if event.rate == 0:
            return 0
        if event.rate == 1:
            return _count_into(counts, event.event, times)
    counts[event] += times
    return 0


def contains_sampling(event: Event) -> bool:
    """Whether the cost of this event relies on a secret sample.

    >>> from colonnade.privacy.events import Gaussian
    >>> contains_sampling(PoissonSampled(rate=0.01, event=Gaussian(1, 1)))
    True
    """
    return any(isinstance(leaf, PoissonSampled) for leaf, _ in itemise(event).leaves)
