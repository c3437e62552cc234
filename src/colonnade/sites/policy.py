"""Policy files: what a party ever agrees to, whoever submits the job. They never leave the party.

::

    methods = ["moments", "slr"]
    parties = ["insurer", "shop"]
    delta = 1e-5              # the largest δ of a job, and the δ at which its ε is taken
    rows = 1000               # the fewest people it may be about
    verify = "rows"           # the least that is checked of what others deal
    alignment = ["auto", "server"]   # the server may match pseudonyms of ids
    alignments = {most = 10, days = 30}
    most_ids = 1000000        # the most ids that another party may show
    approval = "ask"          # a person here approves every job; "two" asks for two
    submission = "two"        # one administrator proposes every job, and another confirms it

    [epsilon]                 # by observer: the most that one job may tell it, of whichever unit
    server = 1.5
    reader = 1.5
    "party:*" = 2.0

    [options.slr]             # what a job may choose; the rest has its default
    epochs = {most = 20}
    optimiser = ["sgd", "adam"]

Besides methods, `methods` may name "exact-scores" and "noisy-scores", for jobs that score people by a model that was
trained; scores are shown to those whom `receivers` names and to this party. Everything that is not named is refused.
Where `server`, `computing_parties`, `threshold`, `disclosed_noise`, `alignment` or an option is not named, a job may
have its
default and nothing else, and it may not turn checks off with verify = "none"; where `rows`, `alignments` or `most_ids`
is not, there is no such limit. Ids are matched through the server only where `alignment` names "server". What is
learnt, a job's `task`, is free: ε says what may be told whatever it is. Budgets, which hold over all jobs, stand in the
party file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from colonnade.data.declaring import nearest_name
from colonnade.data.documents import Document, Form
from colonnade.errors import OutOfRange, PolicyRefused, UnknownChoice
from colonnade.federation.job import SCORES, Job, ScoreJob
from colonnade.ledger import Account, Comparison, Ledger, Release
from colonnade.ledger.bounds import bound
from colonnade.methods.table import METHODS
from colonnade.privacy.events import Event
from colonnade.privacy.guarantee import account, epsilon_text
from colonnade.privacy.observers import OthersPart, unit_text
from colonnade.protocols.alignment import Alignment, check_alignment
from colonnade.protocols.assumptions import Verify
from colonnade.protocols.plans import Plan
from colonnade.runtime.party import AskingAccountant, Group
from colonnade.sites.policy_terms import (
    ANY,
    Accepted,
    Alignments,
    AlignmentsForm,
    Approvers,
    Approving,
    Submitting,
    alignments_of,
    check_limits,
    check_options,
    check_verify,
    options_of,
    people_of,
)


class _PolicyForm(Form):
    methods: list[str]
    parties: list[str]
    delta: float
    epsilon: dict[str, float]
    server: str = "server"
    computing_parties: list[str] | None = None
    threshold: int | None = None
    disclosed_noise: int | None = None
    alignment: list[Alignment] | None = None
    alignments: AlignmentsForm | None = None
    most_ids: int | None = None
    receivers: list[str] | None = None
    rows: int | None = None
    verify: Verify | None = None
    approval: Approving | None = None
    approvers: dict[str, str] | None = None
    submission: Submitting | None = None
    options: dict[str, dict[str, Any]] = Field(default_factory=dict)


@dataclass(frozen=True)
class Policy:
    """What a party ever accepts: methods and their options, other parties, roles, and by observer the ε of one job."""

    name: str
    methods: tuple[str, ...]
    parties: tuple[str, ...]
    delta: float
    epsilon: tuple[tuple[str, float], ...]
    server: str = "server"
    computing_parties: tuple[str, ...] | None = None
    threshold: int | None = None
    disclosed_noise: int | None = None
    alignment: tuple[Alignment, ...] = ("auto",)
    alignments: Alignments | None = None
    most_ids: int | None = None
    receivers: tuple[str, ...] = ()
    rows: int | None = None
    verify: Verify | None = None
    people: Approvers | None = None
    four_eyes: bool = False
    options: tuple[tuple[str, tuple[Accepted, ...]], ...] = ()

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        return cls._of(Document.load(path))

    @classmethod
    def parse(cls, text: str, *, name: str = "policy") -> Policy:
        """The policy in a TOML text; `name` is how messages call it."""
        return cls._of(Document.parse(text, name))

    @classmethod
    def _of(cls, document: Document) -> Policy:
        for number, how in enumerate(
            listed if isinstance(listed := document.data.get("alignment"), list) else ()
        ):
            check_alignment(how, document.where(("alignment", number)))
        form = document.check(_PolicyForm)
        if not 0 < form.delta < 1:
            raise OutOfRange(
                f"{document.where(('delta',))}: found {form.delta!r}; it must be between 0 and 1."
            )
        for key, value, least in (
            ("threshold", form.threshold, 1),
            ("rows", form.rows, 1),
            ("most_ids", form.most_ids, 1),
            ("disclosed_noise", form.disclosed_noise, 0),
        ):
            if value is not None and value < least:
                raise OutOfRange(f"{document.where((key,))}: found {value!r}; it must be at least {least}.")
        check_limits(form.epsilon, document)
        known = (*METHODS, *SCORES)
        for number, method in enumerate(form.methods):
            if method not in known:
                raise UnknownChoice(
                    f"{document.where(('methods', number))}: no method is called {method!r}; there are "
                    f"{', '.join(known)}.{nearest_name(method, known)}"
                )
        return cls(
            document.name,
            tuple(form.methods),
            tuple(form.parties),
            form.delta,
            tuple(form.epsilon.items()),
            server=form.server,
            computing_parties=None if form.computing_parties is None else tuple(form.computing_parties),
            threshold=form.threshold,
            disclosed_noise=form.disclosed_noise,
            alignment=("auto",) if form.alignment is None else tuple(form.alignment),
            alignments=alignments_of(form.alignments, document),
            most_ids=form.most_ids,
            receivers=tuple(form.receivers or ()),
            rows=form.rows,
            verify=form.verify,
            people=people_of(form.approval, form.approvers, document),
            four_eyes=form.submission == "two",
            options=options_of(form.options, document),
        )

    def limit(self, observer: str) -> float | None:
        """The most that one job may tell this observer; None if it may tell it nothing."""
        limits = dict(self.epsilon)
        kind = f"{observer.partition(':')[0]}:*" if ":" in observer else observer
        return limits.get(observer, limits.get(kind, limits.get(ANY)))

    def check_job(self, job: Job | ScoreJob, party: str) -> None:
        """Return if this party takes part in such a job; nothing has been charged or sent by then."""
        if job.method not in self.methods:
            raise PolicyRefused(
                f"{self.name}, methods: the job asks for {job.method!r}, and accepted are "
                f"{', '.join(self.methods) or 'none'}."
            )
        strangers = [name for name in job.parties if name != party and name not in self.parties]
        if strangers:
            raise PolicyRefused(
                f"{self.name}, parties: the job names {', '.join(strangers)}, with whom {party} does not work."
            )
        if party not in job.parties:
            raise PolicyRefused(f"{self.name}: {party} is not among the parties of this job.")
        self._check_server(job.server)
        if isinstance(job, Job):
            self._check_committee(job, party)
            check_verify(self.verify, job.verify, policy=self.name, planned=False)
            check_options(job, dict(self.options).get(job.method, ()), policy=self.name)
        elif job.receiver not in (party, *self.receivers):
            raise PolicyRefused(
                f"{self.name}, receivers: the job shows scores to {job.receiver}, and accepted are "
                f"{', '.join((party, *self.receivers))}. To accept it, write "
                f"receivers = {json.dumps([*self.receivers, job.receiver])}."
            )
        if job.alignment not in self.alignment:
            raise PolicyRefused(
                f"{self.name}, alignment: the job asks for {job.alignment!r}, and accepted is "
                f"{', '.join(self.alignment) or 'none'}. To accept it, write "
                f"alignment = {json.dumps([*self.alignment, job.alignment])}."
            )
        most = max((epsilon for _, epsilon in self.epsilon), default=0.0)
        if not job.epsilon <= most:
            raise PolicyRefused(
                f"{self.name}, epsilon: the job asks for ε = {job.epsilon:g}; the most accepted is {most:g}."
            )
        if job.delta is not None:
            self._check_delta(job.delta)

    def _check_server(self, server: str) -> None:
        if server != self.server:
            raise PolicyRefused(
                f"{self.name}, server: the job's is {server!r}, and accepted is {self.server!r}. To accept it, write "
                f'server = "{server}".'
            )

    def _check_committee(self, job: Job, party: str) -> None:
        """Return if the job's threshold and computing parties are named, or are those that a job has by default."""
        group = job.group()
        usual = Group.of(job.parties, active=job.active, server=job.server).threshold
        least = usual if self.threshold is None else self.threshold
        if group.threshold < least or (self.threshold is None and group.threshold != usual):
            said = (
                f"accepted is the default, {usual}"
                if self.threshold is None
                else f"the least accepted is {least}"
            )
            raise PolicyRefused(
                f"{self.name}, threshold: in the job {group.threshold} computing parties may pool what they have "
                f"and learn "
                f"nothing, and {said}. To accept it, write threshold = {group.threshold}."
            )
        disclosed = group.threshold if self.disclosed_noise is None else self.disclosed_noise
        if group.tolerated < disclosed:
            raise PolicyRefused(
                f"{self.name}, disclosed_noise: the job's ε holds while the noise of at most {group.tolerated} dealers "
                f"becomes known, and the least accepted is {disclosed}. To accept it, write disclosed_noise = "
                f"{group.tolerated}."
            )
        committee = Group.of(
            job.parties, active=job.active, server=job.server, threshold=group.threshold
        ).computing_parties
        named = set(committee if self.computing_parties is None else (*self.computing_parties, party))
        strangers = [
            computing_party for computing_party in group.computing_parties if computing_party not in named
        ]
        if strangers:
            said = (
                f"{', '.join(committee)}, the default"
                if self.computing_parties is None
                else ", ".join(self.computing_parties)
            )
            raise PolicyRefused(
                f"{self.name}, computing parties: the job gives shares to {', '.join(strangers)}, and accepted "
                f"are {said}. To "
                f"accept it, write computing_parties = {json.dumps(group.computing_parties)}."
            )

    def _check_delta(self, delta: float) -> None:
        if not delta <= self.delta:
            raise PolicyRefused(
                f"{self.name}, delta: the job is at δ = {delta:g}, and the largest accepted is {self.delta:g}. Write "
                f"delta = {self.delta:g} into the job, or a larger one there."
            )

    def check_plan(self, plan: Plan, *, counts: bool = True) -> None:
        """Return if a plan is about enough people, where its number of them counts, at a δ that is small enough."""
        self._check_delta(plan.delta)
        check_verify(self.verify, getattr(plan, "verify", None), policy=self.name, planned=True)
        if counts and self.rows is not None and plan.rows < self.rows:
            raise PolicyRefused(
                f"{self.name}, rows: there are at most {plan.rows} people in common, and the fewest accepted are "
                f"{self.rows}. To accept it, write rows = {plan.rows}."
            )

    def check_comparisons(self, earlier: Sequence[Comparison], dataset: str) -> None:
        """Return if ids of a data set may be compared once more, after these comparisons."""
        if self.alignments is not None:
            self.alignments.check(earlier, dataset, place=f"{self.name}, alignments")

    @property
    def words(self) -> str:
        if not (self.methods and self.parties and self.epsilon):
            return "nothing is accepted: methods, parties and epsilon are to be named"
        limits = ", ".join(f"{limit:g} for {observer}" for observer, limit in self.epsilon)
        said = [
            f"{', '.join(self.methods)} with {', '.join(self.parties)}",
            f"ε at most {limits}, δ at most {self.delta:g}",
            f"server {self.server!r}",
            "the default committee"
            if self.computing_parties is None
            else f"computing parties {', '.join(self.computing_parties)}",
            *([] if self.threshold is None else [f"threshold at least {self.threshold}"]),
            *([] if self.disclosed_noise is None else [f"disclosed_noise at least {self.disclosed_noise}"]),
            f"ids by {', '.join(self.alignment)}"
            + ("" if self.alignments is None else f", compared {self.alignments}")
            + ("" if self.most_ids is None else f", with at most {self.most_ids} of another party"),
            *([f"scores shown to {', '.join(self.receivers)}"] if self.receivers else []),
            *([] if self.rows is None else [f"at least {self.rows} people"]),
            *([] if self.verify is None else [f"checked: {self.verify}"]),
            *([] if self.people is None else [str(self.people)]),
            *(["two administrators submit every job"] if self.four_eyes else []),
            *(f"{method} with {', '.join(map(str, rules))}" for method, rules in self.options),
        ]
        return "; ".join(said)

    def check_release(self, release: Release) -> None:
        """Return if every observer of this release may learn as much as it does."""
        for line in release.lines:
            limit = self.limit(line.observer)
            if limit is None:
                raise PolicyRefused(
                    f"{self.name}, epsilon: {release.what} would tell {line.observer} something, and nothing is "
                    "accepted for it. Name it there if it may learn anything."
                )
            self._check_cost(line.event, line.observer, limit, release, unit=line.unit)
        if release.lines and release.is_read and all(line.observer != "reader" for line in release.lines):
            raise PolicyRefused(
                f"{self.name}, epsilon: {release.what} would tell everybody something, such as when training stopped, "
                "and states no ε for readers, so that no limit could hold. Ask for a job without it (held_out = 0)."
            )
        self._check_coalitions(release)

    def _check_coalitions(self, release: Release) -> None:
        """Coalitions receive nothing as such: a limit for them holds where one is named.

        "coalition:*" limits what a release states of coalitions. A coalition by its name is limited also where
        nothing bounds what it learns.
        """
        for observer, limit in self.epsilon:
            if observer == "coalition:*":
                for stated in release.coalitions:
                    self._check_cost(stated.event, f"a coalition of {stated.owners} owners", limit, release)
            elif observer.startswith("coalition:") and release.lines:
                shown = bound(release, Account("", OthersPart().name, observer), self.delta)
                if shown.unbounded:
                    raise PolicyRefused(
                        f"{self.name}, epsilon: what {release.what} would show {observer} is bounded by nothing, "
                        f"because {shown.reason}; the most accepted is {limit:g}."
                    )
                for event in shown.events:
                    self._check_cost(event, observer, limit, release)

    def _check_cost(
        self, event: Event, observer: str, limit: float, release: Release, *, unit: str = ""
    ) -> None:
        cost = account(event, self.delta).epsilon
        # Written so that a cost that is not a number is refused too.
        if not cost <= limit:
            about = f" about {unit_text(unit)} ({unit})" if unit else ""
            raise PolicyRefused(
                f"{self.name}, epsilon: {release.what} would cost ε = {epsilon_text(cost)} towards {observer}{about} "
                f"at δ = {self.delta:g}; the most accepted is {limit:g}, whichever unit it is about."
            )


@dataclass(frozen=True, eq=False)
class PolicedLedger(AskingAccountant):
    """A ledger that asks the policy before it charges, and before ids are compared."""

    ledger: Ledger
    policy: Policy

    def charge(self, release: Release, dataset: str, *, fresh: bool = False) -> Any:
        """Charge the release if policy and budgets accept it."""
        self.policy.check_release(release)
        return self.ledger.charge(release, dataset, fresh=fresh)

    def note_comparison(self, dataset: str, partners: Sequence[str], *, run: str, through: str = "") -> None:
        """Write down with whom ids are compared, if the policy accepts one more time."""
        self.ledger.note_comparison(
            dataset,
            partners,
            run=run,
            through=through,
            allowed=lambda earlier: self.policy.check_comparisons(earlier, dataset),
        )
