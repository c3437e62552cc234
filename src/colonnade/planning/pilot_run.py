"""A run on people who do not exist: the real session, real frames, real noise, and ledgers that end with it."""

from __future__ import annotations

import statistics
import tracemalloc
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from colonnade.data.documents import Form
from colonnade.data.schema import PublicSchema
from colonnade.data.table import Table
from colonnade.errors import ColonnadeError
from colonnade.evaluation.open_rows import HeldOut
from colonnade.federation.federation import Federation, Run
from colonnade.methods.method import Method, TrainedModel, TrainingResult
from colonnade.models.fitting import NoiseWarning
from colonnade.planning.clock import Clock
from colonnade.planning.cost import Cost
from colonnade.planning.pilots import MOST_CELLS, Pilot, most, summed
from colonnade.planning.synthetic import SyntheticPeople
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.plans import Plan, Spec, TrainingSpec
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import Outcome, Program

TESTED = 4000
# How often a quick plan is run at first, on other people each time; and a pilot that is too short to be timed well by
# one run, or that stands for so long a run that timing it again is little beside it.
DRAWS = TRIES = 2
SHORT, TIMED_BY_ONE, LITTLE = 0.3, 1.0, 1 / 32
# No ledger is asked about anybody here.
_UNLIMITED = (1e9, 0.5)


@dataclass(frozen=True)
class Settled(Spec):
    """A spec whose plan is made already. It is compared and carried out like any other."""

    spec: TrainingSpec
    settled: Any
    alignment: Alignment = field(default="equal", kw_only=True)

    @property
    def options(self) -> Form:
        return self.spec.options

    @property
    def method(self) -> str:
        return self.spec.method

    @property
    def in_shares(self) -> bool:
        return self.spec.in_shares

    def to_data(self) -> dict[str, Any]:
        return self.spec.to_data()

    def planned(self, group: Group, schemas: tuple[PublicSchema, ...], rows: int) -> Any:
        return self.settled

    plan = planned  # nothing to remember


class PilotFederation(Federation):
    """All parties of a group with invented people, where whatever is run goes by a plan that is made already."""

    def __init__(self, plan: Plan, tables: Mapping[str, Table], seed: int | None = None) -> None:
        group = plan.group
        super().__init__(
            [tables[owner] for owner in group.owners],
            budget=_UNLIMITED,
            server=group.server,
            threshold=group.threshold,
            computing_parties=group.computing_parties,
            disclosed_noise=group.disclosed_noise,
            alignment="equal",
            noise_seed=seed,
        )
        self.settled = plan

    def run(self, session: Program, spec: Any, **how: Any) -> Run[Any]:
        return super().run(session, Settled(spec, self.settled), **how)

    def _run(self, program: Program, *agreed: Any, **how: Any) -> Outcome:
        async def from_here(party: Party, *arguments: Any) -> Any:
            # Before this a run takes address space that it never writes; only what comes after counts as memory.
            if tracemalloc.is_tracing():
                tracemalloc.reset_peak()
            return await program(party, *arguments)

        return super()._run(from_here, *agreed, **how)


@dataclass(frozen=True)
class PilotOutcome:
    """What a plan costs, as rehearsed; `whole` if nothing was left out, and then also what its first trials learnt.

    `split` says that weights stay with their parties.
    """

    cost: Cost
    whole: bool
    split: bool = False
    trained: tuple[TrainingResult, ...] = ()


class TrialError(float):
    """The error of a trial, and beside it the area under the ROC curve where classes are told apart."""

    auc: float | None

    def __new__(cls, error: float, auc: float | None = None) -> TrialError:
        made = super().__new__(cls, error)
        made.auc = auc
        return made


@dataclass(frozen=True, eq=False)
class PilotRuns:
    """Where plans with these columns are rehearsed.

    Trials are numbered. A trial has its own invented people and its own randomness, the same for every method, so that
    methods are compared on pairs of runs that differ in nothing else, and one plan always has one answer.

    `effort` is how many seconds the whole of a plan may take; `draws` how often it is then run at first; `tries` how
    often a pilot that is to be timed well; `weighed` says whether memory is measured too, which makes one of the runs
    slow. `told` hears after each run how many seconds the rest of this plan's may take.
    """

    schemas: Mapping[str, PublicSchema]
    effort: float = 2.0
    draws: int = DRAWS
    tries: int = TRIES
    weighed: bool = True
    notify: Callable[[float], None] = lambda _seconds: None
    _people: dict[int, SyntheticPeople] = field(default_factory=dict, repr=False)

    def people(self, rows: int, trial: int = 0) -> SyntheticPeople:
        """At least so many invented people of a trial, and some more to test on; made once."""
        made = self._people.get(trial)
        if made is None or made.people < rows:
            made = self._people[trial] = SyntheticPeople(self.schemas, rows, tested=TESTED, draw=trial)
        return made

    def rehearse(self, method: Method, spec: TrainingSpec, plan: Plan) -> PilotOutcome:
        """What the plan costs: all of it where that is quick, otherwise by pilots."""
        listed = sorted(method.pilots(plan), key=lambda pilot: pilot.share)
        # Tables of noise and compiled code are made by whatever comes first, whose seconds count for nothing else.
        opening, trained = self.perform(method, spec, listed[0].plan)
        split = isinstance(trained, TrainedModel) and trained.split
        quick = opening.seconds <= self.effort * listed[0].share and plan.rows <= self.most
        if len(listed) == 1 or quick:
            # Tracing slows what it measures, and a pilot holds as much as the whole.
            traced = self._memory(method, spec, listed, plan.rows) if len(listed) > 1 else 0.0
            return replace(self._whole(method, spec, plan, memory=traced), split=split)
        self.notify(self.effort)
        # Weights magnify whatever is in one pilot's seconds and not in another's: what came first, which made tables
        # and compiled code, and what is traced, which tracing slows, are no measure of time.
        costs = [self.perform(method, spec, pilot.plan)[0] for pilot in listed]
        cost = summed(listed, costs)
        memory = self._memory(method, spec, listed, plan.rows)
        if cost.seconds <= self.effort and plan.rows <= self.most:
            return replace(self._whole(method, spec, plan, memory=memory), split=split)
        again = max(TIMED_BY_ONE, min(self.effort, LITTLE * most(listed, costs)))
        timed = [
            self._timed(method, spec, pilot, once) if most(listed, costs, pilot.share) < again else once
            for pilot, once in zip(listed, costs, strict=True)
        ]
        return PilotOutcome(replace(summed(listed, timed), memory=memory), whole=False, split=split)

    def perform(
        self, method: Method, spec: TrainingSpec, plan: Plan, *, traced: bool = False, trial: int = 0
    ) -> tuple[Cost, TrainingResult]:
        """One run by this plan; with `traced` the most memory is measured, which takes time of its own."""
        stage = PilotFederation(plan, self.people(plan.rows, trial).tables(plan.rows), trial)
        if traced:
            tracemalloc.start()
        try:
            with warnings.catch_warnings(), Clock() as clock:
                warnings.simplefilter("ignore", NoiseWarning)
                result = method.train(stage, spec)
            memory = tracemalloc.get_traced_memory()[1] if traced else 0
        finally:
            if traced:
                tracemalloc.stop()
        return Cost.of(stage.runs[-1].outcome, seconds=clock.seconds, memory=memory), result

    @property
    def most(self) -> int:
        cells = sum(schema.encoder("circle").width + len(schema.columns) for schema in self.schemas.values())
        return max(1, 4 * MOST_CELLS // max(1, cells))

    def score(
        self, spec: TrainingSpec, result: TrainingResult, *, components: int | None, trial: int = 0
    ) -> TrialError | None:
        """How far a model is from perfect on people it has not seen; None if noise left nothing to learn."""
        tables = list(self.people(1, trial).held_out.values())
        held_out = HeldOut(spec.task, tables, components=components)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NoiseWarning)
                figures = held_out.figures(result)
        except ColonnadeError:
            return None
        score = next(iter(figures.values()))
        return TrialError(score if spec.task == "regression" else 1.0 - score, figures.get("AUC"))

    def _whole(self, method: Method, spec: TrainingSpec, plan: Plan, *, memory: float = 0.0) -> PilotOutcome:
        first = self.perform(method, spec, plan)
        runs, seconds = [first], [first[0].seconds]
        if self.weighed and not memory:
            long = first[0].seconds >= SHORT
            weighed = self.perform(method, spec, plan, traced=True, trial=1 if long else 0)
            memory = weighed[0].memory
            if long:
                runs.append(weighed)
        while len(runs) < self.draws and sum(seconds) < self.effort / 4:
            self.notify((self.draws - len(runs)) * statistics.fmean(seconds))
            runs.append(self.perform(method, spec, plan, trial=len(runs)))
            seconds.append(runs[-1][0].seconds)
        cost = replace(first[0], seconds=min(seconds), memory=memory)
        return PilotOutcome(cost, whole=True, trained=tuple(result for _, result in runs))

    def _timed(self, method: Method, spec: TrainingSpec, pilot: Pilot, once: Cost) -> Cost:
        more = [self.perform(method, spec, pilot.plan)[0] for _ in range(self.tries - 1)]
        return replace(once, seconds=min(each.seconds for each in (once, *more)))

    def _memory(self, method: Method, spec: TrainingSpec, listed: Sequence[Pilot], rows: int) -> float:
        if not self.weighed:
            return 0.0

        def traced(place: int) -> float:
            return self.perform(method, spec, listed[place].plan, traced=True)[0].memory

        places = range(len(listed))
        fewest = min(places, key=lambda place: (listed[place].plan.rows, listed[place].share))
        most = min(places, key=lambda place: (-listed[place].plan.rows, listed[place].share))
        few, many = listed[fewest].plan.rows, listed[most].plan.rows
        high = traced(most)
        if few == many:
            return high
        low = traced(fewest)
        return max(low, high, low + (high - low) * float((rows - few) / (many - few)))
