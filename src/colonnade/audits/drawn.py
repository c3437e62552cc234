"""Many draws of a plan's own noise instead of whole sessions: quicker, and blind to everything but the noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from colonnade.audits.bounds import CONFIDENCE, Bound, threshold_bound
from colonnade.audits.experiments import Array, Claim
from colonnade.audits.opened import OpenedPlan, direction, noise_of, row_of, told
from colonnade.audits.people import corner, mixed
from colonnade.audits.sessions import alone
from colonnade.privacy.observers import PartyView
from colonnade.randomness import Randomness

_AT_ONCE = 1 << 18


@dataclass(frozen=True, eq=False)
class Drawn:
    """A claim, and independent values of a statistic on either of two neighbouring data sets.

    `draw(neighbour, count, coins)` gives that many, larger where `neighbour` is true.
    """

    claim: Claim
    draw: Callable[[bool, int, Randomness], Array]
    what: str

    def bound(self, count: int, randomness: Randomness, *, confidence: float = CONFIDENCE) -> Bound:
        """What so many draws on either side show."""
        counts = [min(_AT_ONCE, count - start) for start in range(0, count, _AT_ONCE)]
        values = [
            np.concatenate([self.draw(side, some, randomness) for some in counts]) for side in (False, True)
        ]
        return threshold_bound(*values, delta=self.claim.delta, confidence=confidence)


def opened_draws(plan: OpenedPlan) -> list[Drawn]:
    """Every observer of an opened sum, with the noise that each owner's own code draws for it."""
    low, high = corner(plan.schemas, 0.0), corner(plan.schemas, 1.0)
    draws = []
    for stated in plan.guarantees:
        if isinstance(stated.observer, PartyView):
            watching = stated.observer.party
            others = [owner for owner in plan.group.owners if owner != watching]
            change = row_of(plan, mixed(low, high, others)) - row_of(plan, low)
        else:
            others = list(plan.group.owners)
            change = row_of(plan, high)
        draws.append(
            Drawn(
                Claim.of(stated),
                _draws(plan, len(others), change),
                "draws of the noise that is unknown to it",
            )
        )
    return draws


def _draws(plan: OpenedPlan, parts: int, change: Array) -> Callable[[bool, int, Randomness], Array]:
    way = direction(plan, change)

    def draw(neighbour: bool, count: int, randomness: Randomness) -> Array:
        party = alone(plan.group, plan.group.owners[0], randomness)
        values = np.empty(count)
        for number in range(count):
            noise = sum((noise_of(party, plan) for _ in range(parts)), np.zeros(len(change)))
            values[number] = told(plan, noise + change if neighbour else noise, change, way)
        return values

    return draw
