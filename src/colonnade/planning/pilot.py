"""Runs on people who do not exist: what a plan costs by its pilots, and the errors that its twin makes in trials.

A few hidden traits stand behind every column and the label. Nothing comes from anybody's data: bounds and categories
are the declared ones, and the rest is a public seed. Runs are the real session, with real frames and real noise.
"""

from __future__ import annotations

import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from colonnade.data.block import Block
from colonnade.data.schema import PublicSchema
from colonnade.data.table import ArrayRows, Table
from colonnade.errors import ColonnadeError
from colonnade.evaluation.open_rows import HeldOut
from colonnade.federation.federation import Federation, Run
from colonnade.methods.baselines.method import without_privacy
from colonnade.methods.method import Method, TrainedModel, TrainingResult
from colonnade.models.fitting import NoiseWarning
from colonnade.planning.cost import MOST_CELLS, Clock, Cost, most, summed
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.plans import Plan, Task, TrainingSpec
from colonnade.randomness import SeededRandomness
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import Outcome, Program

Array = NDArray[np.float64]
TRAITS = 4
# How much of a column's variance the traits explain, and of the label's.
COLUMN_SHARE, LABEL_SHARE = 0.5, 0.8
TESTED = 4000
# With more ε for each of the people of a trial noise decides nothing.
AMPLE = 20.0
# A pilot that takes less, or little beside what it stands for, is timed again.
TIMED_BY_ONE, LITTLE = 1.0, 1 / 32
# No ledger is asked about anybody here.
UNLIMITED = (1e9, 0.5)


@dataclass(frozen=True, eq=False)
class SyntheticPeople:
    """What columns say of each other and of the label is the seed's; `draw` is who is drawn from that."""

    schemas: Mapping[str, PublicSchema]
    people: int
    tested: int = 0
    seed: str = "synthetic people"
    draw: int = 0
    _blocks: dict[str, Block] = field(default_factory=dict)

    def tables(self, rows: int) -> dict[str, Table]:
        return {party: self.table(party, 0, rows) for party in self.schemas}

    @cached_property
    def held_out(self) -> dict[str, Table]:
        return {party: self.table(party, self.people, self.people + self.tested) for party in self.schemas}

    def table(self, party: str, start: int, stop: int, ids: Sequence[str] = ()) -> Table:
        if party not in self._blocks:
            self._blocks[party] = self._block(party)
        part = slice(start, stop)
        rows = self._blocks[party].each(lambda values: values[part], stop - start)
        names = ids or [f"person {number}" for number in range(start, stop)]
        return Table.of_rows(
            party, ArrayRows("synthetic people", rows, names), self.schemas[party].with_ids()
        )

    def _block(self, party: str) -> Block:
        schema, everybody = self.schemas[party], self.people + self.tested
        # Columns are made by draws that are the same for all people.
        fixed, drawn = SeededRandomness(f"{self.seed}/{party}"), self._drawn(party)

        def places(share: float) -> Array:
            """Where each person stands among all, from 0 to 1: a direction in the traits, and chance."""
            direction = _normal(fixed, TRAITS)
            direction /= np.linalg.norm(direction)
            own = _normal(drawn, everybody)
            return np.asarray(ndtr(np.sqrt(share) * (self._traits @ direction) + np.sqrt(1 - share) * own))

        columns = {column.name: column.at(places(COLUMN_SHARE)) for column in schema.columns}
        return Block.of(columns, [label.drawn(places(LABEL_SHARE)) for label in schema.labels], everybody)

    @cached_property
    def _traits(self) -> Array:
        everybody = self.people + self.tested
        return _normal(self._drawn("traits"), everybody * TRAITS).reshape(everybody, TRAITS)

    def _drawn(self, what: str) -> SeededRandomness:
        return SeededRandomness(f"{self.seed}/{what}/people {self.draw}")


def _normal(randomness: SeededRandomness, count: int) -> Array:
    # The middle of one of 2^52 intervals: neither 0 nor 1, where the normal quantile is infinite.
    uniform = ((randomness.words(count) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return np.asarray(ndtri(uniform))


class PilotFederation(Federation):
    """All parties of a group with synthetic people; where a plan is made already, whatever is run goes by it."""

    def __init__(
        self,
        group: Group,
        tables: Mapping[str, Table],
        *,
        plan: Plan | None = None,
        alignment: Alignment = "equal",
        seed: int | None = None,
    ) -> None:
        super().__init__(
            [tables[owner] for owner in group.owners],
            budget=UNLIMITED,
            server=group.server,
            threshold=group.threshold,
            computing_parties=group.computing_parties,
            disclosed_noise=group.disclosed_noise,
            alignment=alignment,
            noise_seed=seed,
        )
        self.settled = plan

    def run(self, session: Program, spec: Any, **how: Any) -> Run[Any]:
        settled = copy(spec)
        settled.__dict__["plan"] = lambda *_: self.settled
        return super().run(session, settled, **how)

    def _run(self, program: Program, *agreed: Any, **how: Any) -> Outcome:
        async def from_here(party: Party, *arguments: Any) -> Any:
            # Before this a run takes address space that it never writes; only what comes after counts as memory.
            if tracemalloc.is_tracing():
                tracemalloc.reset_peak()
            return await program(party, *arguments)

        return super()._run(from_here, *agreed, **how)


class TrialError(float):
    """The error of a trial, and beside it the area under the ROC curve where classes are told apart."""

    auc: float | None

    def __new__(cls, error: float, auc: float | None = None) -> TrialError:
        instance = super().__new__(cls, error)
        instance.auc = auc
        return instance


Trial = Callable[[int], TrialError | None]


@dataclass(frozen=True, eq=False)
class PilotRuns:
    """Where plans with these columns are rehearsed.

    A trial has its own people and randomness by its number, the same for every method, so that methods are compared on
    pairs of runs that differ in nothing else. `effort` is how many seconds a trial may take; `draws` how many trials
    there are at first, and `most` people in each, 0 for as many as are quick; `tries` how often a short pilot is timed.
    """

    schemas: Mapping[str, PublicSchema]
    effort: float = 2.0
    draws: int = 2
    tries: int = 2
    weighed: bool = True
    most: int = 0
    _people: dict[str, SyntheticPeople] = field(default_factory=dict, repr=False)

    def rehearse(self, method: Method, spec: TrainingSpec, plan: Plan) -> tuple[Cost, bool, bool]:
        """What a plan costs; whether no part of it was left out, and whether weights stay with their parties."""
        listed = sorted(method.pilots(plan), key=lambda pilot: (pilot.plan.rows, pilot.share))
        # Tables of noise and compiled code are made by whatever comes first: its seconds count for nothing. It is not
        # traced, because a compiler under a tracer takes ten times as long.
        _, trained = self.perform(method, spec, listed[0].plan)
        costs = [self.perform(method, spec, pilot.plan)[0] for pilot in listed]
        again = max(TIMED_BY_ONE, min(self.effort, LITTLE * most(listed, costs)))
        for place, pilot in enumerate(listed):
            for _ in range(self.tries - 1 if costs[place].seconds < again else 0):
                more = self.perform(method, spec, pilot.plan)[0].seconds
                costs[place] = replace(costs[place], seconds=min(costs[place].seconds, more))
        memory, low = 0.0, listed[0].plan
        if self.weighed:
            memory = self.perform(method, spec, low, traced=True)[0].memory
            largest = min(listed, key=lambda pilot: (-pilot.plan.rows, pilot.share)).plan
            if largest.rows > low.rows:
                # A straight line in the rows, through the pilots that have fewest and most of them.
                high = self.perform(method, spec, largest, traced=True)[0].memory
                slope = (high - memory) / (largest.rows - low.rows)
                memory = max(memory, high, memory + slope * (plan.rows - low.rows))
        split = isinstance(trained, TrainedModel) and trained.split
        return replace(summed(listed, costs), memory=memory), len(listed) == 1, split

    def perform(
        self, method: Method, spec: TrainingSpec, plan: Plan, *, traced: bool = False
    ) -> tuple[Cost, TrainingResult]:
        """With `traced` the most memory is measured, which takes time of its own."""
        population = self._people.get("pilots")
        if population is None or population.people < plan.rows:
            population = self._people["pilots"] = SyntheticPeople(self.schemas, plan.rows)
        stage = PilotFederation(plan.group, population.tables(plan.rows), plan=plan, seed=0)
        if traced:
            tracemalloc.start()
        try:
            with _without_warnings(), Clock() as clock:
                result = method.train(stage, spec)
            memory = tracemalloc.get_traced_memory()[1] if traced else 0
        finally:
            if traced:
                tracemalloc.stop()
        return Cost.of(stage.runs[-1].outcome, seconds=clock.seconds, memory=memory), result

    def people(self, rows: int) -> int:
        cells = sum(schema.encoder("circle").width + len(schema.columns) for schema in self.schemas.values())
        return min(rows, self.most or max(1, MOST_CELLS // max(1, 2 * cells)))

    def trial_plan(self, method: Method, spec: TrainingSpec, plan: Plan) -> Plan:
        """The plan for the people of a trial, with as much noise for each of them as the whole plan has.

        Noise on sums over everybody counts for as much less as there are fewer people, so that ε is as much larger;
        noise on every person's own values stays as it is. Nothing that is dealt is checked.
        """
        rows = self.people(plan.rows)
        larger = min(spec.epsilon * plan.rows / rows, max(spec.epsilon, AMPLE))
        smaller = replace(
            spec,
            epsilon=larger if spec.in_shares else spec.epsilon,
            verify="none" if method.checks else spec.verify,
            delta=plan.delta,
            accepted_delta=plan.delta,
            alignment="equal",
        )
        trial: Plan = smaller.plan(plan.group, tuple(self.schemas[name] for name in plan.group.owners), rows)
        return trial

    def trials(
        self, method: Method, spec: TrainingSpec, plan: Plan, *, components: int | None = None
    ) -> Trial:
        smaller, rows = self.trial_plan(method, spec, plan), self.people(plan.rows)

        def trial(number: int) -> TrialError | None:
            tables = self._trial_people(rows, number).tables(rows)
            with _without_warnings():
                if method.twin is not None:
                    result = method.twin(smaller, tables, SeededRandomness(f"trial {number}"))
                else:
                    stage = PilotFederation(plan.group, tables, plan=smaller, seed=number)
                    result = method.train(stage, spec)
                return self._score(spec.task, result, rows, number, components)

        return trial

    def error_without_privacy(
        self, spec: TrainingSpec, plan: Plan, components: int | None = None
    ) -> float | None:
        """The error of an exact model of the people of the first trial; None where none can be trained."""
        rows = self.people(plan.rows)
        stage = PilotFederation(plan.group, self._trial_people(rows, 0).tables(rows), plan=plan)
        stage.public = True
        with _without_warnings():
            try:
                return self._score(spec.task, without_privacy(stage, spec), rows, 0, components)
            except ColonnadeError:
                return None

    def _trial_people(self, rows: int, trial: int) -> SyntheticPeople:
        key = f"trial {trial} of {rows}"
        if key not in self._people:
            self._people[key] = SyntheticPeople(self.schemas, rows, tested=TESTED, draw=trial)
        return self._people[key]

    def _score(
        self, task: Task, result: TrainingResult, rows: int, trial: int, components: int | None
    ) -> TrialError | None:
        """None if noise left nothing to learn."""
        tables = list(self._trial_people(rows, trial).held_out.values())
        try:
            figures = HeldOut(task, tables, components=components).figures(result)
        except ColonnadeError:
            return None
        score = next(iter(figures.values()))
        return TrialError(score if task == "regression" else 1.0 - score, figures.get("AUC"))


@contextmanager
def _without_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)
        yield
