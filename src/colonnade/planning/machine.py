"""How quick this machine is, how wide the lines between parties are, and what finding their common people takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from typing import Literal

import numpy as np

from colonnade.crypto.modular import MontgomeryModulus, usable_cores
from colonnade.data.schema import PublicSchema
from colonnade.noise.skellam import SkellamNoise
from colonnade.numbers.field import FIELD63
from colonnade.numbers.threads import one_thread
from colonnade.planning.cost import Clock, Cost, weighted
from colonnade.planning.pilot import PilotFederation, SyntheticPeople
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.intersection import by_default, list_bytes
from colonnade.protocols.plans import Plan
from colonnade.protocols.shared_plan import SharedPlan
from colonnade.randomness import SystemRandomness
from colonnade.runtime.party import Group

SECONDS = 0.05
Way = Literal["server", "curve"]
# People at the party that holds most: the cost of matching is a straight line in their number.
SIZES: dict[Way, tuple[int, int]] = {"curve": (256, 1024), "server": (16384, 131072)}
_FEW = 8


@cache
def measured_machine() -> dict[str, float]:
    """How many a second here: products in a prime field, draws of noise, products modulo 4096 bits and of floats.

    It takes less than a second, and is the same answer ever after.
    """
    randomness = SystemRandomness()
    side, rows = 64, 4096
    shares = FIELD63.uniform((rows, side), randomness)
    noise = SkellamNoise(Fraction(10**6))
    modulus = MontgomeryModulus((1 << 4095) + 1)
    numbers = modulus.enter([3 + number for number in range(64)])
    floats = np.ones((512, 512))
    # As parties compute: by one thread of BLAS each.
    with one_thread():
        return {
            "cores": usable_cores(),
            "products": _rate(lambda: shares.transpose_times(shares), rows * side * side),
            "draws": _rate(lambda: noise.draw(1 << 16, randomness), 1 << 16),
            "powers": _rate(lambda: modulus.multiply(numbers, numbers), 64),
            "floats": _rate(lambda: floats @ floats, 512**3),
        }


def _rate(work: Callable[[], object], amount: float) -> float:
    work()
    best, spent = math.inf, 0.0
    while spent < SECONDS:
        with Clock() as clock:
            work()
        best, spent = min(best, clock.wall), spent + clock.wall
    return amount / best


@dataclass(frozen=True)
class NetworkLink:
    """The connection of each party: bits a second, both ways together, and seconds from one party to another."""

    bandwidth: float = math.inf
    latency: float = 0.0

    def seconds(self, cost: Cost) -> float:
        """What the connection adds: every round waits once, and the busiest member's bytes pass one by one."""
        return cost.rounds * self.latency + 8 * cost.busiest / self.bandwidth


@dataclass(frozen=True, eq=False)
class Matching:
    """How parties that hold so many people each find the common ones, and what that adds to a run.

    "auto" with as many at every party as they have in common is taken to find them equal.
    """

    group: Group
    schemas: Mapping[str, PublicSchema]
    alignment: Alignment
    rows: int
    counts: Mapping[str, int]
    _costs: dict[str, Cost] = field(default_factory=dict, repr=False)

    def by(self, plan: Plan) -> Way | None:
        """None where their ids are simply equal."""
        alike = all(count == self.rows for count in self.counts.values())
        if self.alignment == "equal" or (self.alignment == "auto" and alike):
            return None
        return "server" if self.alignment == "server" or self._offered(plan) else "curve"

    def cost(self, plan: Plan) -> Cost | None:
        way = self.by(plan)
        if way is None and not self._offered(plan):
            return None
        key = way or "offered"
        if key not in self._costs:
            few = dict.fromkeys(self.counts, _FEW)
            added = (
                self._matched(way) if way else self._aligned("auto", _FEW, few, in_shares=True, moved=False)
            )
            # Comparing digests is part of every other run; here it is replaced.
            replaced = weighted([(1.0, added), (-1.0, self._aligned("equal", _FEW, few))])
            self._costs[key] = replace(replaced, seconds=added.seconds if way else 0.0)
        return self._costs[key]

    def _offered(self, plan: Plan) -> bool:
        return self.alignment == "auto" and by_default(self.group, in_shares=isinstance(plan, SharedPlan))

    def _matched(self, way: Way) -> Cost:
        (few, more), largest, shared = SIZES[way], max(self.counts.values()), way == "server"
        if largest <= more:
            return self._aligned(self.alignment, self.rows, self.counts, in_shares=shared)
        # First, so that no longer one pays for what is loaded once.
        short_counts = dict.fromkeys(self.counts, _FEW + 1)
        short = self._aligned(self.alignment, _FEW, short_counts, in_shares=shared)
        shorter, longer = (
            self._aligned(
                self.alignment,
                max(1, self.rows * size // largest),
                {party: max(1, count * size // largest) for party, count in self.counts.items()},
                in_shares=shared,
            )
            for size in (few, more)
        )
        weight = (largest - few) / (more - few)
        line = weighted([(1.0 - weight, shorter), (weight, longer)])
        if not shared:
            return line
        # Bytes are known: all but the lists are of one length, and what lists take is computed.
        sent = dict(short.sent)
        lists, short_lists = list_bytes(self.group, self.counts), list_bytes(self.group, short_counts)
        for key, size in lists.items():
            sent[key] += size - short_lists[key]
        # More ids never take less time, however unsteady the clock.
        return replace(short, sent=sent, seconds=max(line.seconds, longer.seconds))

    def _aligned(
        self,
        alignment: Alignment,
        rows: int,
        counts: Mapping[str, int],
        *,
        in_shares: bool = False,
        moved: bool = True,
    ) -> Cost:
        """The cost of aligning alone, for parties with `rows` people in common, in different orders if `moved`."""
        tables = {}
        for number, (party, count) in enumerate(counts.items()):
            ids = [f"person {place}" for place in range(rows)]
            ids += [f"{party} {place}" for place in range(count - rows)]
            if alignment != "equal" and moved:
                ids = ids[number % len(ids) :] + ids[: number % len(ids)]
            people = SyntheticPeople({party: self.schemas[party]}, len(ids))
            tables[party] = people.table(party, 0, len(ids), ids)
        with Clock() as clock:
            outcome = PilotFederation(self.group, tables, alignment=alignment).align(in_shares=in_shares)
        return Cost.of(outcome, seconds=clock.seconds)
