"""ε of many events at once, remembered: what a total costs, and which of two lines is the smaller."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

from colonnade.errors import PrivacyError
from colonnade.privacy.events import Composed, Event, Repeated
from colonnade.privacy.guarantee import account as account_for


def epsilon_of(events: Iterable[Event] | Iterable[tuple[Event, int]], delta: float) -> float:
    """ε at δ of these events together, each once or, in pairs, so many times; ∞ where none is proved."""
    counts: dict[Event, int] = {}
    for item in events:
        event, times = item if isinstance(item, tuple) else (item, 1)
        counts[event] = counts.get(event, 0) + times
    # In one order whichever way they came: what admission computes is then, to the last bit, the next total.
    return _epsilon(tuple(sorted(counts.items(), key=lambda item: repr(item[0]))), delta)


@lru_cache(maxsize=4096)
def _epsilon(events: tuple[tuple[Event, int], ...], delta: float) -> float:
    # Equal events are grouped, so that a thousand equal releases cost the accountant what one does; a
    # single one is passed bare, so that a plan calibrated to exactly ε is charged exactly that ε.
    grouped = tuple(event if times == 1 else Repeated(event, times) for event, times in events)
    if not grouped:
        return 0.0
    try:
        return account_for(grouped[0] if len(grouped) == 1 else Composed(grouped), delta).epsilon
    except PrivacyError:
        # No ε is proved at this δ, as when it is smaller than the samplers' distance from their law.
        return math.inf
