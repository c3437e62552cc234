"""What it costs the parties to find the people they have in common, by finding some invented ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from colonnade.data.schema import PublicSchema
from colonnade.federation.federation import Federation
from colonnade.planning.clock import Clock
from colonnade.planning.cost import Cost, weighted
from colonnade.planning.synthetic import SyntheticPeople
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.intersection import by_default, list_bytes
from colonnade.protocols.plans import Plan
from colonnade.protocols.shared_plan import SharedPlan
from colonnade.runtime.party import Group

Way = Literal["server", "curve"]

# People at the party that holds most: the cost of matching is a straight line in their number.
SIZES: dict[Way, tuple[int, int]] = {"curve": (256, 1024), "server": (8192, 32768)}
_UNLIMITED = (1e9, 0.5)
_FEW = 8


@dataclass(frozen=True, eq=False)
class Matching:
    """How parties that hold so many people each find the common ones, and what that adds to a run.

    "auto" matches people only where the parties hold different ones, or in another order: with as many at every party
    as they have in common it is taken to find them equal.
    """

    group: Group
    schemas: Mapping[str, PublicSchema]
    alignment: Alignment
    rows: int
    held: Mapping[str, int]

    def by(self, plan: Plan) -> Way | None:
        """In which way, if every party accepts the default; None where their ids are simply equal."""
        if self._equal:
            return None
        through = self.alignment == "server" or (self.alignment == "auto" and self._offered(plan))
        return "server" if through else "curve"

    def cost(self, plan: Plan) -> Cost | None:
        """What it adds to a run by this plan, which was rehearsed with equal ids."""
        way = self.by(plan)
        if way is None:
            return self._requested if self.alignment == "auto" and self._offered(plan) else None
        return self._through_server if way == "server" else self._on_curve

    @property
    def _equal(self) -> bool:
        alike = all(count == self.rows for count in self.held.values())
        return self.alignment == "equal" or (self.alignment == "auto" and alike)

    def _offered(self, plan: Plan) -> bool:
        return by_default(self.group, in_shares=isinstance(plan, SharedPlan))

    @cached_property
    def _compared(self) -> Cost:
        """Comparing digests is part of every other run; here it is replaced."""
        return weighted([(-1.0, self._aligned("equal", _FEW, dict.fromkeys(self.held, _FEW)))])

    @cached_property
    def _requested(self) -> Cost:
        few = dict.fromkeys(self.held, _FEW)
        return self._alongside(self._aligned("auto", _FEW, few, in_shares=True, rotated=False), 0.0)

    @cached_property
    def _on_curve(self) -> Cost:
        few, more = SIZES["curve"]
        if max(self.held.values()) <= more:
            matched = self._aligned(self.alignment, self.rows, self.held)
            return self._alongside(matched, matched.seconds)
        whole = self._line(few, more)
        return self._alongside(whole, whole.seconds)

    @cached_property
    def _through_server(self) -> Cost:
        few, more = SIZES["server"]
        if max(self.held.values()) <= more:
            matched = self._aligned(self.alignment, self.rows, self.held, in_shares=True)
            return self._alongside(matched, matched.seconds)
        seconds = self._line(few, more, in_shares=True).seconds
        # Bytes are known: all but the lists are of one length, and what lists take is computed.
        held = dict.fromkeys(self.held, _FEW + 1)
        short = self._aligned(self.alignment, _FEW, held, in_shares=True)
        sent = dict(short.sent)
        lists, short_lists = list_bytes(self.group, self.held), list_bytes(self.group, held)
        for key, size in lists.items():
            sent[key] += size - short_lists[key]
        return self._alongside(replace(short, sent=sent), seconds)

    def _line(self, few: int, more: int, *, in_shares: bool = False) -> Cost:
        largest = max(self.held.values())
        shorter, longer = (
            self._aligned(
                self.alignment,
                max(1, self.rows * size // largest),
                {party: max(1, count * size // largest) for party, count in self.held.items()},
                in_shares=in_shares,
            )
            for size in (few, more)
        )
        weight = (largest - few) / (more - few)
        return weighted([(1.0 - weight, shorter), (weight, longer)])

    def _alongside(self, matched: Cost, seconds: float) -> Cost:
        return replace(weighted([(1.0, matched), (1.0, self._compared)]), seconds=seconds)

    def _aligned(
        self,
        alignment: Alignment,
        rows: int,
        held: Mapping[str, int],
        *,
        in_shares: bool = False,
        rotated: bool = True,
    ) -> Cost:
        """The cost of aligning alone, for parties with `rows` people in common, in different orders if `turned`."""
        tables = []
        for number, (party, count) in enumerate(held.items()):
            ids = [f"person {place}" for place in range(rows)]
            ids += [f"{party} {place}" for place in range(count - rows)]
            if alignment != "equal" and rotated:
                ids = ids[number % len(ids) :] + ids[: number % len(ids)]
            tables.append(SyntheticPeople({party: self.schemas[party]}, len(ids)).table(party, ids))
        federation = Federation(
            tables,
            budget=_UNLIMITED,
            server=self.group.server,
            threshold=self.group.threshold,
            computing_parties=self.group.computing_parties,
            disclosed_noise=self.group.disclosed_noise,
            alignment=alignment,
        )
        with Clock() as clock:
            outcome = federation.align(in_shares=in_shares)
        return Cost.of(outcome, seconds=clock.seconds)
