"""Organisations that meet in this process: each a separate object with its own table, ledger and randomness."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from colonnade.data.coding import Mode
from colonnade.data.documents import shown
from colonnade.data.table import AlignedTable, Table
from colonnade.errors import CannotWrite, DataError, InputError, PlanError, RemoteProtocolError
from colonnade.federation.holdout import requested_part
from colonnade.ledger import HoldoutSplit, Ledger, Release
from colonnade.ledger.admission import admit
from colonnade.ledger.entry_store import Entry
from colonnade.ledger.release import PartName
from colonnade.ledger.state import LedgerState
from colonnade.methods.moments.plan import MomentsOptions
from colonnade.methods.moments.protocol import OpenedMoments, moments_session
from colonnade.models.estimator import NoRows
from colonnade.models.files.document import Privacy
from colonnade.models.files.membership import remember, remembered
from colonnade.models.release import MomentRelease
from colonnade.protocols.agreement import PartSpec
from colonnade.protocols.alignment import Alignment, alignment_session, check_alignment
from colonnade.protocols.assumptions import Verify
from colonnade.protocols.plans import DEFAULT_GAMMA, Plan, Spec, Task, TrainingSpec
from colonnade.randomness import Randomness, SeededRandomness, SystemRandomness
from colonnade.runtime.journal import Journal, ReplayRandomness, ResumedLedger, journals_in
from colonnade.runtime.party import Group, Party, silent
from colonnade.runtime.run import Outcome, PartyInputs, Program, run_here

PlanT = TypeVar("PlanT", bound=Plan)


def check_plan(spec: Spec, group: Group, tables: Mapping[str, Table]) -> Plan | None:
    """The plan for as many people as there can be; None where ids must be equal and their numbers are not."""
    rows = {table.rows for table in tables.values()}
    if spec.alignment == "equal" and len(rows) != 1:
        return None
    plan: Plan = spec.plan(group, tuple(tables[owner].public() for owner in group.owners), min(rows))
    return plan


def check_budgets(
    plan: Plan,
    ledgers: Mapping[str, Ledger],
    datasets: Mapping[str, str],
    parts: Mapping[str, PartSpec] | None = None,
) -> None:
    """Ask every owner's ledger whether it would admit the release; nothing is written, and `charge` decides again."""
    for owner in plan.group.owners:
        release = release_before(plan, owner, (parts or {}).get(owner))
        admit(ledger_state(ledgers[owner]), release, datasets[owner])


def ledger_state(ledger: Ledger) -> LedgerState:
    state = LedgerState(f"the ledger of {ledger.party}")
    for entry in ledger.entries():
        state.read(entry)
    return state


def release_before(plan: Plan, owner: str, part: PartSpec | None = None) -> Release:
    """What an owner would charge for this plan, under the name of no run."""
    release = plan.release(owner, run="before the run", reproducible=False)
    return release if part is None else replace(release, part=part.before())


def by_party(tables: Iterable[Table]) -> dict[str, Table]:
    parties: dict[str, Table] = {}
    for table in tables if isinstance(tables, Iterable) else (tables,):
        if not isinstance(table, Table):
            raise DataError(
                f"a federation is of tables, one for each party; found {type(table).__name__}. Make them with "
                "Table(party, file, schema) or Table.of."
            )
        if table.party in parties:
            raise DataError(
                f"two tables are of the party {table.party!r}, and each party has one. Join them by id, or give the "
                "other party its own name."
            )
        parties[table.party] = table
    return parties


@dataclass(frozen=True)
class RunFailure:
    """Where a run stopped: its name if it had one, who stopped it and why, and each party's last step."""

    run: str
    party: str | None
    error: BaseException | None
    reached: Mapping[str, str | None]


@dataclass(eq=False)
class RunTracker:
    """The parties of one run, watched from beside: nothing of it goes over the wire."""

    parties: dict[str, Party] = field(default_factory=dict)
    errors: list[tuple[str, BaseException]] = field(default_factory=list)

    def follow(self, program: Program) -> Program:
        async def followed(party: Party, *arguments: Any) -> Any:
            self.parties[party.name] = party
            try:
                return await program(party, *arguments)
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                self.errors.append((party.name, error))
                raise

        return followed

    def failure(self) -> RunFailure:
        """Where the run stood when it ended: the first trouble of a party's own counts before what peers made of it."""
        runs = {party.run for party in self.parties.values() if party.run}
        own = [pair for pair in self.errors if not isinstance(pair[1], RemoteProtocolError)]
        party, error = next(iter((*own, *self.errors)), (None, None))
        return RunFailure(
            run=min(runs, default=""),
            party=party,
            error=error,
            # Kinds of steps come in a fixed order, so the last kind that was begun is where the party stood.
            reached={
                name: next((step for _, step in reversed(party.traffic.sent)), None)
                for name, party in self.parties.items()
            },
        )


def charges_of(run: str, ledgers: Mapping[str, Ledger]) -> dict[str, Entry]:
    """The entries by which these ledgers were charged for a run; a ledger that was not is not named."""
    return {
        party: entry
        for party, ledger in ledgers.items()
        for entry in ledger.entries()
        if run and entry.kind == "charge" and entry.body["release"]["run"] == run
    }


@dataclass(frozen=True, eq=False)
class Run(Generic[PlanT]):
    """One finished run: its plan, what the members who are here came away with, and what went over the wire."""

    plan: PlanT
    outcome: Outcome

    def result(self, member: str | None = None) -> Any:
        """What a member came away with; if none is named the server, or at a site the one that is there."""
        results = self.outcome.results
        if member is None and self.plan.group.server not in results:
            return next(iter(results.values()))
        return results[member or self.plan.group.server]

    @cached_property
    def release(self) -> MomentRelease | None:
        """What was opened, as something to fit models from; None where the protocol opens no moments."""
        opened = self.result()
        return released(opened) if isinstance(opened, OpenedMoments) and opened.matrix.size else None

    def summary_for(self, member: str) -> dict[str, Any]:
        traffic = self.outcome.traffic[member]
        return {
            "run": self.name,
            "reproducible": self.reproducible,
            "plan": self.plan.hash,
            "rows": self.plan.rows,
            "guarantees": [str(guarantee) for guarantee in self.plan.guarantees],
            "bytes_sent": traffic.bytes_sent,
            "rounds": traffic.rounds,
        }

    @property
    def name(self) -> str:
        return str(self.result().run)

    @property
    def reproducible(self) -> bool:
        """Whether its noise came from a seed, so that it protects nobody."""
        return bool(self.result().reproducible)

    @property
    def privacy(self) -> Privacy:
        return Privacy(self.plan.guarantees, reproducible=self.reproducible)

    @property
    def aligned(self) -> dict[str, AlignedTable]:
        results = self.outcome.results
        return {owner: results[owner].aligned for owner in self.plan.group.owners if owner in results}


@dataclass(frozen=True)
class Hooks:
    """What whoever starts runs has to do with them.

    `asks` raises where a plan is not to be paid for: every party asks it before anything is charged. `begins` is told a
    run's name right before its charge, and `opened` of a run as soon as its result is here. `logged` keeps a line for
    each step.
    """

    progress: Callable[[str, int, int], None] = silent
    asks: Callable[[Any, bool], None] | None = None
    begins: Callable[[str], None] = lambda _run: None
    opened: Callable[[Run[Any]], None] = lambda _run: None
    logged: bool = False


class Federation(NoRows):
    """Two or more organisations with columns about the same people, and a server that holds none.

    Parties see only their own table and talk only through their channels. Each charges its own ledger before anything
    leaves; `budget` is the (ε, δ) that every party without a ledger of its own grants to every observer, in a ledger
    that ends with this process. `public` says that every party declared its data public: only then may a study look at
    everybody's rows in one place. `held_out` is the share of people who are kept to evaluate models
    (docs/proofs/parts.md).

    >>> from colonnade import Federation, PCA, Schema, Table
    >>> def declared(column, high):
    ...     return Schema.parse(f'id = "n"\\ncolumns.{column} = {{kind = "numeric", low = 0, high = {high}}}')
    >>> bank = Table.from_arrays("bank", {"age": [30, 50, 70]}, declared("age", 90))
    >>> shop = Table.from_arrays("shop", {"spent": [1, 5, 9]}, declared("spent", 10))
    >>> federation = Federation([bank, shop], budget=(2.0, 1e-5))
    >>> pca = PCA(n_components=1, epsilon=1.0, delta=1e-5).fit(federation)
    >>> pca.components_.shape
    (1, 2)
    >>> all(total.left < 2.0 for total in federation.ledgers["bank"].totals())
    True
    """

    def __init__(
        self,
        tables: Iterable[Table],
        *,
        budget: tuple[float, float] | None = None,
        ledgers: Mapping[str, Ledger] | None = None,
        datasets: Mapping[str, str] | None = None,
        server: str = "server",
        threshold: int | None = None,
        computing_parties: tuple[str, ...] | None = None,
        disclosed_noise: int | None = None,
        alignment: Alignment = "auto",
        shown_ids: Mapping[str, int] | None = None,
        timeout: float = 600.0,
        public: bool = False,
        noise_seed: int | None = None,
        held_out: float | None = None,
        hooks: Hooks = Hooks(),  # noqa: B008 # it is frozen
    ) -> None:
        self.tables = by_party(tables)
        active = [party for party, table in self.tables.items() if table.schema.label is not None]
        self.group = Group.of(
            tuple(self.tables),
            active=active[0] if active else None,
            server=server,
            threshold=threshold,
            computing_parties=computing_parties,
            disclosed_noise=disclosed_noise,
        )
        self.datasets = {party: (datasets or {}).get(party, party) for party in self.tables}
        if budget is not None and not (isinstance(budget, tuple | list) and len(budget) == 2):
            raise InputError(
                f"budget = {shown(budget)} is not a pair. Give (epsilon, delta), such as (4.0, 1e-5)."
            )
        self.ledgers = self._ledgers(dict(ledgers or {}), budget)
        check_alignment(alignment)
        self.alignment = alignment
        self.shown_ids = dict(shown_ids or {})
        self.timeout = timeout
        self.public = public
        if held_out is not None and not 0 < held_out < 1:
            raise PlanError(
                f"held_out = {held_out!r}: the share of people held out is between 0 and 1. Try 0.2."
            )
        self.held_out = held_out
        self._splits: dict[str, dict[str, HoldoutSplit]] = {party: {} for party in self.tables}
        self.hooks = hooks
        self.runs: list[Run[Any]] = []
        self._failures: list[RunFailure] = []
        self._noise_seed = noise_seed

    def with_hooks(self, hooks: Hooks, tables: Mapping[str, Table] | None = None) -> Federation:
        """The same federation, with the same ledgers and runs, for whoever has other things to do with its runs."""
        other = copy.copy(self)
        other.hooks, other.tables = hooks, dict(tables or self.tables)
        return other

    @property
    def failure(self) -> RunFailure | None:
        """Where the last run stopped; None if it reached its end."""
        return self._failures[-1] if self._failures else None

    def _ledgers(self, given: dict[str, Ledger], budget: tuple[float, float] | None) -> dict[str, Ledger]:
        without = [party for party in self.tables if party not in given]
        if without and budget is None:
            raise PlanError(
                f"{', '.join(without)} brought no ledger and no budget was given. Pass budget=(epsilon, delta), the "
                "most that each observer may learn from each party, or ledgers={party: Ledger.open(...)}."
            )
        for member in self.group.members:
            if member not in given:
                given[member] = Ledger.in_memory(member)
                if budget is not None and member in self.tables:
                    given[member].set_budget(
                        self.datasets[member], "*", "*", epsilon=budget[0], delta=budget[1]
                    )
        return given

    def moments(
        self,
        *,
        task: Task,
        epsilon: float,
        delta: float | None = None,
        accepted_delta: float | None = None,
        gamma: int = DEFAULT_GAMMA,
        verify: Verify | None = None,
        conditional: bool = False,
        record: bool = False,
    ) -> MomentRelease:
        """Release one noisy moment matrix at this ε, charged to every party's ledger first.

        `verify` is what is checked of what owners deal; None: the rows of two owners, nothing of more. `conditional`
        releases one matrix for each class instead, at the same noise; nothing of it is checked unless `verify = "all"`.
        """
        spec = TrainingSpec(
            task,
            epsilon,
            gamma=gamma,
            verify=verify,
            options=MomentsOptions(conditional=conditional),
            delta=delta,
            accepted_delta=accepted_delta,
            alignment=self.alignment,
        )
        return released(self.run(moments_session, spec, record=record).result())

    def run(
        self,
        session: Program,
        spec: Spec,
        *,
        record: bool = False,
        trains: bool = True,
        part: PartName = "training",
        checkpoint: Path | None = None,
    ) -> Run[Any]:
        """Run a protocol once between all parties: `session(party, table, spec)`.

        With `record` every member keeps what it saw. The people of a run that `trains` are remembered beside ledgers
        that are files. In a `checkpoint`, a folder, a run that stopped goes on and is charged once; until the run ends
        it is as private as the members' data.
        """
        journals = {} if checkpoint is None else journals_in(checkpoint, self.group.members)
        parts = self.parts(part) if trains else {}
        try:
            # A run that goes on was asked about and charged when it began.
            if not any(journal.resumed for journal in journals.values()):
                self._check(spec, trains=trains, parts=parts)
            outcome = self._run(session, spec, record=record, trains=trains, parts=parts, journals=journals)
        except BaseException:
            for journal in journals.values():
                journal.close()
            raise
        for journal in journals.values():
            journal.forget()
        run = Run(outcome.results[self.group.server].plan, outcome)
        self.runs.append(run)
        self.hooks.opened(run)
        return run

    def parts(self, part: PartName) -> dict[str, PartSpec]:
        """For each member the part of the people that a run is about; nothing where nobody is held out."""
        if self.held_out is None:
            return {}
        requested = dict.fromkeys(self.group.members, PartSpec(self.held_out, part))
        for party, table in self.tables.items():
            requested[party] = requested_part(
                self.held_out,
                part,
                ledger=self.ledgers[party],
                dataset=self.datasets[party],
                schema=table.schema,
                splits=self._splits[party],
            )
        return requested

    def _check(self, spec: Spec, *, trains: bool, parts: Mapping[str, PartSpec]) -> None:
        check_alignment(spec.alignment)
        for party, requested in parts.items():
            requested.check(party)
        plan = check_plan(spec, self.group, self.tables)
        if plan is not None:
            check_budgets(plan, self.ledgers, self.datasets, parts)
        for party in self.tables if trains else ():
            # A list that cannot be read could not be added to when the run is paid for.
            remembered(self.ledgers[party].path, self.datasets[party])

    def features(self, task: Task) -> int:
        """How many features the declared columns of all parties make for a task; no row is read."""
        mode: Mode = "circle" if task == "classification" else "linear"
        return sum(table.schema.encoder(mode).width for table in self.tables.values())

    def align(self, *, in_shares: bool = False) -> Outcome:
        """Find the people that all parties have in common; each owner comes away with its aligned table.

        With `in_shares` as in a run of which the server keeps a share. Nothing is released or charged; every owner's
        ledger says that ids were compared.
        """
        return self._run(alignment_session, self.alignment, in_shares)

    def _run(
        self,
        program: Program,
        *agreed: Any,
        record: bool = False,
        trains: bool = False,
        parts: Mapping[str, PartSpec] | None = None,
        journals: Mapping[str, Journal] | None = None,
    ) -> Outcome:
        journals, hooks = journals or {}, self.hooks
        inputs = {
            member: PartyInputs(
                ledger=ResumedLedger(self.ledgers[member])
                if member in journals and journals[member].resumed
                else self.ledgers[member],
                table=self.tables.get(member),
                dataset=self.datasets.get(member, member),
                shown_ids=self.shown_ids.get(member),
                remembers=remembering(self.ledgers[member], self.datasets[member], then=hooks.begins)
                if trains and member in self.tables
                else None,
                part=(parts or {}).get(member),
                randomness=self.randomness(member, journals.get(member)),
                asks=hooks.asks if member in self.tables else None,
                public=self.public,
            )
            for member in self.group.members
        }
        tracker = RunTracker()
        self._failures.clear()
        try:
            return run_here(
                tracker.follow(program),
                self.group,
                inputs,
                *agreed,
                timeout=self.timeout,
                record=record,
                logged=hooks.logged,
                progress=hooks.progress,
                journals=journals,
            )
        except BaseException:
            self._failures.append(tracker.failure())
            raise

    def randomness(self, member: str, journal: Journal | None = None) -> Randomness:
        """Where one who takes part draws from: the system, its record's key, or for a seeded study its own stream."""
        if self._noise_seed is None:
            return SystemRandomness() if journal is None else ReplayRandomness(journal.key)
        return SeededRandomness(f"{self._noise_seed}/{len(self.runs)}/{member}")


@dataclass(frozen=True, eq=False)
class Site:
    """One party of a run whose peers are elsewhere: its ledger and the name of its data set; a server has neither."""

    ledgers: Mapping[str, Ledger]
    datasets: Mapping[str, str]
    public: bool = False


def remembering(
    ledger: Ledger, dataset: str, *, then: Callable[[str], None] = lambda _run: None
) -> Callable[[AlignedTable, str], None] | None:
    """What lists a run's people beside a ledger, right before the charge, and calls `then`; None without a file."""
    path = ledger.path
    if path is None:
        return None

    def remembers(aligned: AlignedTable, run: str) -> None:
        try:
            remember(path, dataset, aligned.table, run=run)
        except OSError as error:
            raise CannotWrite(
                f"the people of this run cannot be remembered beside {path} ({error.strerror or error}), so that exact "
                "scores of them could not be refused. Nothing was charged. Make room, or give write permission there."
            ) from None
        then(run)

    return remembers


def released(opened: OpenedMoments) -> MomentRelease:
    plan = opened.plan
    return MomentRelease(
        matrix=opened.matrix,
        gamma=plan.gamma,
        rows=plan.rows,
        encoders=tuple(plan.encoders.items()),
        label=plan.label,
        more_labels=plan.labels.blocks[1:],
        mu=plan.total_mu,
        guarantees=plan.guarantees,
        plan=plan.hash,
        run=opened.run,
        reproducible=opened.reproducible,
        conditional=plan.conditional,
    )
