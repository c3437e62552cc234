"""Policy files: what a party ever agrees to, whoever submits the job (docs/two-organisations.md). They never leave it.

Everything that is not named is refused. Where `server`, `computing_parties`, `threshold`, `disclosed_noise`,
`alignment` or an option is not named, a job may have its default and nothing else, and it may not turn checks off with
verify = "none"; where `rows`, `alignments` or `most_ids` is not, there is no such limit. What is learnt, a job's
`task`, is free: ε says what may be told whatever it is.
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from colonnade.data.declaring import nearest_name
from colonnade.data.documents import Document, Form, Listed, check, check_fields, shown
from colonnade.errors import OutOfRange, PolicyRefused, UnknownChoice, UnknownKey, WrongType
from colonnade.federation.job import SCORES, Job, ScoreJob
from colonnade.ledger import Account, Comparison, Ledger, Release
from colonnade.ledger.bounds import bound
from colonnade.methods.table import METHODS
from colonnade.privacy.events import Event
from colonnade.privacy.guarantee import account, epsilon_text
from colonnade.privacy.observers import OthersPart, named_observer, unit_text
from colonnade.protocols.alignment import Alignment, check_alignment
from colonnade.protocols.assumptions import Verify
from colonnade.protocols.plans import DEFAULT_GAMMA, Plan
from colonnade.runtime.party import AskingAccountant, Group

ANY = "*"
ANYTHING = "any"
OBSERVERS = ("server", "reader", "party:*", "coalition:*")
GRID = "gamma"
_KEY = re.compile(r"[0-9A-Fa-f]{64}")


class RangeForm(Form):
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class Accepted:
    option: str
    least: float | None = None
    most: float | None = None
    among: tuple[Any, ...] | None = None

    def takes(self, value: Any) -> bool:
        if self.among is not None:
            return value in self.among
        if self.least is None and self.most is None:
            return True
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        # Written so that what is not a number is refused too.
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def __str__(self) -> str:
        if self.among is not None:
            return f"{self.option}: {', '.join(map(str, self.among))}"
        bounds = [
            f"at {word} {bound:g}"
            for word, bound in (("least", self.least), ("most", self.most))
            if bound is not None
        ]
        return f"{self.option}: {', '.join(bounds) or 'anything'}"


class Alignments(Form):
    """How often ids of one data set may be compared, with whomever: `most` times in any `days` days, or ever."""

    most: int
    days: float | None = None

    def __str__(self) -> str:
        window = "" if self.days is None else f" in {self.days:g} days"
        return f"at most {self.most} time{'' if self.most == 1 else 's'}{window}"

    def check(self, earlier: Sequence[Comparison], dataset: str, *, place: str) -> None:
        since = ""
        if self.days is not None:
            began = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=self.days)
            since = began.isoformat(timespec="microseconds")
        times = sum(one.dataset == dataset and one.time >= since for one in earlier)
        if times >= self.most:
            raise PolicyRefused(
                f"{place}: ids of {dataset!r} were compared {times} time{'' if times == 1 else 's'}, and accepted is "
                f"{self}. Wait, or raise it there if your people may be looked up more often."
            )

    def check_range(self, where: str) -> None:
        if self.most < 0 or (self.days is not None and self.days <= 0):
            raise OutOfRange(
                f"{where}: found most = {self.most}, days = {self.days}; write how many times, and "
                "optionally in how many days (above 0)."
            )


@dataclass(frozen=True)
class Approvers:
    """How many people approve a job before it begins, and, where they have keys of their own, who may."""

    number: int
    keys: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        of = f" of {', '.join(name for name, _ in self.keys)}" if self.keys else ""
        who = {1: "a person" if not of else "one", 2: "two people" if not of else "two"}[self.number]
        verb = "approves" if self.number == 1 else "approve"
        return f"{who}{of} {verb} every job{', each with a key' if of else ''}"


Approving = Literal["ask", "two"]
Submitting = Literal["one", "two"]


def people_of(
    approval: Approving | None, approvers: Mapping[str, str] | None, document: Document
) -> Approvers | None:
    if approval is None:
        if approvers is not None:
            raise OutOfRange(
                f'{document.where(("approvers",))}: people are named and nobody is asked. Write approval = "ask" or '
                '"two".'
            )
        return None
    number = 1 if approval == "ask" else 2
    for name, key in (approvers or {}).items():
        if not _KEY.fullmatch(key):
            raise WrongType(
                f"{document.where(('approvers', name))}: a public key is 64 hexadecimal digits, as `colonnade party "
                "approver FILE` prints it."
            )
    named = tuple((name, key.lower()) for name, key in (approvers or {}).items())
    if len({key for _, key in named}) < len(named):
        raise OutOfRange(
            f"{document.where(('approvers',))}: two people have the same key, and one of them could sign for both. "
            "Give each a key of their own."
        )
    if approvers is not None and len(named) < number:
        raise OutOfRange(
            f"{document.where(('approvers',))}: {number} of them must approve a job, each with a key of their own, and "
            f"there {'is' if len(named) == 1 else 'are'} {len(named)}. Name more people."
        )
    return Approvers(number, named)


def check_limits(epsilons: Mapping[str, float], document: Document) -> None:
    for observer, epsilon in epsilons.items():
        where = document.where(("epsilon", observer))
        if not (math.isfinite(epsilon) and epsilon > 0):
            raise OutOfRange(f"{where}: found {epsilon!r}; it must be greater than 0.")
        if not observer.endswith(ANY):
            try:
                named_observer(observer)
            except ValueError as error:
                raise UnknownChoice(f"{where}: {error}.{nearest_name(observer, OBSERVERS)}") from None
        elif observer not in (ANY, "party:*", "coalition:*"):
            raise UnknownChoice(
                f"{where}: found {observer!r}; patterns are '*', 'party:*' and 'coalition:*'."
                f"{nearest_name(observer, OBSERVERS)}"
            )


def options_of(given: Mapping[str, Mapping[str, Any]], document: Document) -> dict[str, tuple[Accepted, ...]]:
    options = {}
    for method, listed in given.items():
        if method not in METHODS:
            raise UnknownChoice(
                f"{document.where(('options', method))}: no method is called {method!r}; there are "
                f"{', '.join(METHODS)}.{nearest_name(method, METHODS)}"
            )
        known = (*METHODS[method].options.model_fields, GRID)
        rules = []
        for option, value in listed.items():
            place = ("options", method, option)
            if option not in known:
                raise UnknownKey(
                    f"{document.where(place)}: {method!r} has no option {option!r}; known are "
                    f"{', '.join(dict.fromkeys(known))}.{nearest_name(option, known)}"
                )
            rules.append(_accepted(option, value, document, place))
        options[method] = tuple(rules)
    return options


def _accepted(option: str, value: Any, document: Document, place: tuple[str, ...]) -> Accepted:
    if value == ANYTHING:
        return Accepted(option)
    if isinstance(value, list):
        return Accepted(option, among=tuple(value))
    if isinstance(value, Mapping) and value:
        form = check(RangeForm, dict(value), document=document, prefix=place)
        return Accepted(option, form.least, form.most)
    raise WrongType(
        f"{document.where(place)}: found {shown(value)}; write a list of accepted values, {{least = …, most = …}}, or "
        f'"{ANYTHING}".'
    )


def check_options(job: Job, accepted: Sequence[Accepted], *, policy: str) -> None:
    rules = {rule.option: rule for rule in accepted}
    chosen: list[tuple[str, Any, Any]] = [
        (name, getattr(job.options, name), field.get_default(call_default_factory=True))
        for name, field in type(job.options).model_fields.items()
    ]
    chosen.append((GRID, job.gamma, DEFAULT_GAMMA))
    for name, value, default in chosen:
        if value == default or (name in rules and rules[name].takes(value)):
            continue
        said = f"accepted is {rules[name]}" if name in rules else f"accepted is the default, {shown(default)}"
        raise PolicyRefused(
            f"{policy}, options.{job.method}.{name}: the job asks for {shown(value)}, and {said}. To accept it, write "
            f"{_remedy(name, value)} under [options.{job.method}]."
        )


def check_verify(least: Verify | None, level: Verify | None, *, policy: str, planned: bool) -> None:
    """Return if a job or its plan checks as much as a policy asks; where that says nothing, not "none"."""
    order: tuple[Verify, ...] = ("none", "rows", "all")
    if least is None:
        short = level == "none" and not planned
    else:
        short = planned and order.index(level or "none") < order.index(least)
    if short:
        said = "accepted is the default, or more" if least is None else f"the least accepted is {least!r}"
        raise PolicyRefused(
            f"{policy}, verify: of what others deal the job checks {level or 'none'!r}, and {said}. To accept it, "
            f'write verify = "{level or "none"}".'
        )


def _remedy(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f"{name} = [{str(value).lower()}]"
    if isinstance(value, int | float) and math.isfinite(value):
        short = f"{value:g}"
        return f"{name} = {{most = {short if float(short) == value else repr(value)}}}"
    if isinstance(value, str):
        return f'{name} = ["{value}"]'
    return f'{name} = "{ANYTHING}"'


class _PolicyForm(Form):
    methods: Listed[str]
    parties: Listed[str]
    delta: float
    epsilon: dict[str, float]
    server: str = "server"
    computing_parties: Listed[str] | None = None
    threshold: int | None = None
    disclosed_noise: int | None = None
    alignment: Listed[Alignment] = ("auto",)
    alignments: Alignments | None = None
    most_ids: int | None = None
    receivers: Listed[str] = ()
    rows: int | None = None
    verify: Verify | None = None
    approval: Approving | None = None
    approvers: dict[str, str] | None = None
    submission: Submitting | None = None
    options: dict[str, dict[str, Any]] = Field(default_factory=dict)


class Policy(_PolicyForm):
    """What a party ever accepts: methods and their options, other parties, roles, and by observer the ε of one job."""

    name: str
    people: Approvers | None
    options: dict[str, tuple[Accepted, ...]]  # type: ignore[assignment]

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        return cls._of(Document.load(path))

    @classmethod
    def parse(cls, text: str, *, name: str = "policy") -> Policy:
        return cls._of(Document.parse(text, name))

    @classmethod
    def _of(cls, document: Document) -> Policy:
        for number, how in enumerate(
            listed if isinstance(listed := document.data.get("alignment"), list) else ()
        ):
            check_alignment(how, document.where(("alignment", number)))
        form = document.check(_PolicyForm)
        check_fields(
            form,
            document,
            ("delta", 0 < form.delta < 1, "between 0 and 1"),
            ("threshold", form.threshold is None or form.threshold >= 1, "at least 1"),
            ("rows", form.rows is None or form.rows >= 1, "at least 1"),
            ("most_ids", form.most_ids is None or form.most_ids >= 1, "at least 1"),
            ("disclosed_noise", form.disclosed_noise is None or form.disclosed_noise >= 0, "at least 0"),
        )
        check_limits(form.epsilon, document)
        known = (*METHODS, *SCORES)
        for number, method in enumerate(form.methods):
            if method not in known:
                raise UnknownChoice(
                    f"{document.where(('methods', number))}: no method is called {method!r}; there are "
                    f"{', '.join(known)}.{nearest_name(method, known)}"
                )
        if form.alignments is not None:
            form.alignments.check_range(document.where(("alignments",)))
        people = people_of(form.approval, form.approvers, document)
        fields = dict(form) | {"options": options_of(form.options, document)}
        return cls.model_construct(name=document.name, people=people, **fields)

    @property
    def four_eyes(self) -> bool:
        return self.submission == "two"

    def limit(self, observer: str) -> float | None:
        """The most that one job may tell this observer; None if it may tell it nothing."""
        kind = f"{observer.partition(':')[0]}:*" if ":" in observer else observer
        return self.epsilon.get(observer, self.epsilon.get(kind, self.epsilon.get(ANY)))

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
        if job.server != self.server:
            raise PolicyRefused(
                f"{self.name}, server: the job's is {job.server!r}, and accepted is {self.server!r}. To accept it, "
                f'write server = "{job.server}".'
            )
        if isinstance(job, Job):
            self._check_committee(job, party)
            check_verify(self.verify, job.verify, policy=self.name, planned=False)
            check_options(job, self.options.get(job.method, ()), policy=self.name)
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
        most = max(self.epsilon.values(), default=0.0)
        if not job.epsilon <= most:
            raise PolicyRefused(
                f"{self.name}, epsilon: the job asks for ε = {job.epsilon:g}; the most accepted is {most:g}."
            )
        if job.delta is not None:
            self._check_delta(job.delta)

    def _check_committee(self, job: Job, party: str) -> None:
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
                f"and learn nothing, and {said}. To accept it, write threshold = {group.threshold}."
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
        strangers = [name for name in group.computing_parties if name not in named]
        if strangers:
            accepted = (
                (*committee, "the default") if self.computing_parties is None else self.computing_parties
            )
            raise PolicyRefused(
                f"{self.name}, computing parties: the job gives shares to {', '.join(strangers)}, and accepted "
                f"are {', '.join(accepted)}. To accept it, "
                f"write computing_parties = {json.dumps(group.computing_parties)}."
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
        if self.alignments is not None:
            self.alignments.check(earlier, dataset, place=f"{self.name}, alignments")

    @property
    def words(self) -> str:
        if not (self.methods and self.parties and self.epsilon):
            return "nothing is accepted: methods, parties and epsilon are to be named"
        limits = ", ".join(f"{limit:g} for {observer}" for observer, limit in self.epsilon.items())
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
            *(f"{method} with {', '.join(map(str, rules))}" for method, rules in self.options.items()),
        ]
        return "; ".join(said)

    def check_release(self, release: Release) -> None:
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
        # Coalitions receive nothing as such: a limit for them holds where one is named. "coalition:*" limits what a
        # release states of coalitions. A coalition by its name is limited also where nothing bounds what it learns.
        for observer, limit in self.epsilon.items():
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
        self.policy.check_release(release)
        return self.ledger.charge(release, dataset, fresh=fresh)

    def note_comparison(self, dataset: str, partners: Sequence[str], *, run: str, through: str = "") -> None:
        self.ledger.note_comparison(
            dataset,
            partners,
            run=run,
            through=through,
            allowed=lambda earlier: self.policy.check_comparisons(earlier, dataset),
        )
