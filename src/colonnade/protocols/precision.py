"""How near their law noise is drawn: as near as the largest ε of any observer asks for.

What all draws are off their law is paid out of δ, 1 + e^ε times, at the ε of whoever is told it
(docs/proofs/total-variation.md). Parties know parts of the noise, and of secret batches who is in them, so that their ε
is larger than the one that was asked for, by slr twenty times and more. Whatever the bits, what is stated has paid for
them; more bits only leave more of δ, and take as long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from colonnade.errors import PlanError, PrivacyError
from colonnade.privacy.events import COARSE_BITS, FINE_BITS, FINEST_BITS, Event
from colonnade.privacy.guarantee import account
from colonnade.protocols.plans import Plan

LARGEST_COARSE_EPSILON = 8.0
"""Above it draws are fine, so that a ledger can add up many such runs before e^ε times their distance is felt in δ."""
LARGEST_FINE_EPSILON = 600.0
"""Above it they are finer still."""

PlanT = TypeVar("PlanT", bound=Plan)


def bits_for(epsilon: float) -> int:
    """How near their law draws must be where nobody's ε is larger: within 2 to the minus so many."""
    if epsilon <= LARGEST_COARSE_EPSILON:
        return COARSE_BITS
    return FINE_BITS if epsilon <= LARGEST_FINE_EPSILON else FINEST_BITS


def near_enough(
    plan: PlanT, accounted: Callable[[PlanT], Iterable[Event]], finer: Callable[[PlanT, int], PlanT]
) -> PlanT:
    """The plan, or, where something costs so much that it asks for them, the same with finer draws.

    `accounted` are all events that are stated to anybody; `finer` draws the same noise to so many bits and refuses what
    cannot be drawn so, as noise of very small or very large variance. A plan that states everything without is then
    left as it is. No ε grows: less of δ is paid for the draws, and all else stays.
    """
    for bits in (FINE_BITS, FINEST_BITS):
        largest = max((_epsilon(event, plan.delta) for event in accounted(plan)), default=0.0)
        # Of what cannot be stated yet nobody knows how large it is: it takes one after the other.
        if bits_for(largest) < bits:
            break
        try:
            plan = finer(plan, bits)
        except PlanError:
            if math.isinf(largest):
                raise
            break
    return plan


def in_views(plan: Plan) -> Iterator[Event]:
    """What the plan is to its observers, where ledgers hold nothing beside that."""
    return (view.event for view in plan.views)


def _epsilon(event: Event, delta: float) -> float:
    """ε at δ; ∞ where the draws are too coarse for any."""
    try:
        return account(event, delta).epsilon
    except PrivacyError:
        return math.inf
