"""A run on people who do not exist: the real session, real frames, real noise, and ledgers that end with it."""

from __future__ import annotations

import statistics
import tracemalloc
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from colonnade.data.schema import PublicSchema
from colonnade.data.table import Table
from colonnade.errors import ColonnadeError
from colonnade.learn.federation import Federation, Run
from colonnade.learn.fitting import NoiseWarning
from colonnade.learn.forecasting.abridging import MOST_CELLS, Pilot
from colonnade.learn.forecasting.clock import Clock
from colonnade.learn.forecasting.cost import Cost, weighted
from colonnade.learn.forecasting.invented import Invented
from colonnade.learn.held_out import HeldOut
from colonnade.methods.method import Asked, Found, Learnt, Method
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.plans import Plan, Request
from colonnade.runtime.group import Group
from colonnade.runtime.party import Party
from colonnade.runtime.run import Outcome, Program

TESTED = 4000
DRAWS = TRIES = 3
SHORT = 0.3
# No ledger is asked about anybody here.
_UNLIMITED = (1e9, 0.5)


@dataclass(frozen=True)
class Settled(Request[Any]):
    """A request whose plan is made already. It is compared and carried out like any other."""

    request: Request[Any]
    settled: Any
    alignment: Alignment = "equal"

    def to_data(self) -> dict[str, Any]:
        """The request that it stands for."""
        return self.request.to_data()

    def planned(self, group: Group, schemas: tuple[PublicSchema, ...], rows: int) -> Any:
        """The plan that was settled on."""
        return self.settled

    plan = planned  # nothing to remember


class Stage(Federation):
    """All parties of a group with invented people, where whatever is run goes by a plan that is made already."""

    def __init__(self, plan: Plan, tables: Mapping[str, Table], seed: int | None = None) -> None:
        group = plan.group
        super().__init__(
            [tables[owner] for owner in group.owners],
            budget=_UNLIMITED,
            server=group.server,
            threshold=group.threshold,
            keepers=group.keepers,
            alignment="equal",
            noise_seed=seed,
        )
        self.settled = plan

    def run(self, session: Program, request: Request[Any], **how: Any) -> Run[Any]:
        """Run the session by the settled plan."""
        return super().run(session, Settled(request, self.settled), **how)

    def _run(self, program: Program, *agreed: Any, **how: Any) -> Outcome:
        async def from_here(party: Party, *arguments: Any) -> Any:
            # Before this a run takes address space that it never writes; only what comes after counts as memory.
            if tracemalloc.is_tracing():
                tracemalloc.reset_peak()
            return await program(party, *arguments)

        return super()._run(from_here, *agreed, **how)


@dataclass(frozen=True)
class Rehearsed:
    """What a plan costs, as rehearsed; `whole` if nothing was left out, and then also what was learnt each time.

    `split` says that weights stay with their parties.
    """

    cost: Cost
    whole: bool
    split: bool = False
    found: tuple[Found, ...] = ()


@dataclass(frozen=True, eq=False)
class Rehearsals:
    """Where plans with these columns are rehearsed.

    `effort` is how many seconds the whole of a plan may take; `draws` how often it is then run, for the error and for
    the time; `tries` how often a pilot too short to be timed well; `weighed` says whether memory is measured too, which
    makes one of the runs slow.
    """

    schemas: Mapping[str, PublicSchema]
    effort: float = 2.0
    draws: int = DRAWS
    tries: int = TRIES
    weighed: bool = True
    _people: list[Invented] = field(default_factory=list)

    def people(self, rows: int) -> Invented:
        """At least so many invented people, and some more to test on; made once."""
        if not self._people or self._people[-1].people < rows:
            self._people.append(Invented(self.schemas, rows, tested=TESTED))
        return self._people[-1]

    def rehearse(self, method: Method, asked: Asked, plan: Plan) -> Rehearsed:
        """What the plan costs: all of it where that is quick, otherwise by pilots."""
        listed = sorted(method.pilots(plan), key=lambda pilot: pilot.share)
        # Tables of noise and compiled code are made by whatever comes first, whose seconds count for little else.
        opening, learnt = self.perform(method, asked, listed[0].plan)
        split = isinstance(learnt, Learnt) and learnt.split
        quick = opening.seconds <= self.effort * listed[0].share and plan.rows <= self.most
        if len(listed) == 1 or quick:
            return replace(self._whole(method, asked, plan), split=split)
        cost = self._by_pilots(method, asked, plan, listed)
        if cost.seconds <= self.effort and plan.rows <= self.most:
            return replace(self._whole(method, asked, plan, memory=cost.memory), split=split)
        return Rehearsed(cost, whole=False, split=split)

    def perform(
        self, method: Method, asked: Asked, plan: Plan, *, traced: bool = False, seed: int | None = None
    ) -> tuple[Cost, Found]:
        """One run by this plan; with `traced` the most memory is measured, and seconds are not to be trusted."""
        stage = Stage(plan, self.people(plan.rows).tables(plan.rows), seed)
        if traced:
            tracemalloc.start()
        try:
            with warnings.catch_warnings(), Clock() as clock:
                warnings.simplefilter("ignore", NoiseWarning)
                found = method.train(stage, asked)
            memory = tracemalloc.get_traced_memory()[1] if traced else 0
        finally:
            if traced:
                tracemalloc.stop()
        return Cost.of(stage.runs[-1].outcome, seconds=clock.seconds, memory=memory), found

    @property
    def most(self) -> int:
        """How many people can be invented here."""
        cells = sum(schema.encoder("circle").width + len(schema.columns) for schema in self.schemas.values())
        return max(1, 4 * MOST_CELLS // max(1, cells))

    def score(self, asked: Asked, found: Found, *, components: int | None) -> float | None:
        """How far a model is from perfect on people it has not seen; None if noise left nothing to learn."""
        held_out = HeldOut(asked.task, list(self.people(1).held_out.values()), components=components)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NoiseWarning)
                score = held_out.score(found)
        except ColonnadeError:
            return None
        return score if asked.task == "regression" else 1.0 - score

    def _whole(self, method: Method, asked: Asked, plan: Plan, *, memory: float = 0.0) -> Rehearsed:
        first = self.perform(method, asked, plan)
        runs, seconds = [first], [first[0].seconds]
        if self.weighed and not memory:
            runs.append(self.perform(method, asked, plan, traced=True))
            memory = runs[-1][0].memory
        while len(runs) < self.draws and sum(seconds) < self.effort / 2:
            runs.append(self.perform(method, asked, plan))
            seconds.append(runs[-1][0].seconds)
        cost = replace(first[0], seconds=statistics.median(seconds), memory=memory)
        return Rehearsed(cost, whole=True, found=tuple(found for _, found in runs))

    def _by_pilots(self, method: Method, asked: Asked, whole: Plan, listed: Sequence[Pilot]) -> Cost:
        terms: list[tuple[float, Cost]] = []
        for pilot in listed:
            # The same coins in every pilot: a search for primes takes as long as it takes, and differences of pilots
            # must not show it.
            cost = self.perform(method, asked, pilot.plan, seed=0)[0]
            if cost.seconds < SHORT:
                # The weights magnify what disturbs a short run; the quickest of some is disturbed least.
                more = [self.perform(method, asked, pilot.plan, seed=0)[0] for _ in range(self.tries - 1)]
                cost = replace(cost, seconds=min(each.seconds for each in (cost, *more)))
            terms.append((pilot.weight, cost))
        memory = self._memory(method, asked, listed, whole.rows) if self.weighed else 0.0
        return replace(weighted(terms), memory=memory)

    def _memory(self, method: Method, asked: Asked, listed: Sequence[Pilot], rows: int) -> float:
        """The most memory: a straight line in rows, through the shortest pilots with the fewest and the most."""
        fewest = min(listed, key=lambda pilot: (pilot.plan.rows, pilot.share)).plan
        most = min(listed, key=lambda pilot: (-pilot.plan.rows, pilot.share)).plan
        low = self.perform(method, asked, fewest, traced=True)[0].memory
        if fewest.rows == most.rows:
            return low
        high = self.perform(method, asked, most, traced=True)[0].memory
        stretch = float((rows - fewest.rows) / (most.rows - fewest.rows))
        return max(low, high, low + (high - low) * stretch)
