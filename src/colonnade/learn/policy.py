"""Policy files: what a party ever agrees to, whoever submits the job. They never leave the party.

::

    methods = ["moments"]
    parties = ["insurer", "shop"]
    delta = 1e-5

    [epsilon]                 # by observer: the most that one job may tell it
    server = 1.0
    reader = 1.0
    "party:*" = 2.0

Besides methods, `methods` may name "exact-scores" and "noisy-scores", for jobs that score people by a model that was
trained. Everything that is not named is refused. Budgets, which hold over all jobs, stand in the party file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colonnade.data.declaring import nearest
from colonnade.data.documents import Document, Form
from colonnade.errors import OutOfRange, PolicyRefused, UnknownChoice
from colonnade.learn.jobs import Job
from colonnade.learn.methods import METHODS
from colonnade.learn.score_jobs import SCORES, ScoreJob
from colonnade.ledger import Ledger, Release
from colonnade.privacy.guarantee import account, epsilon_text
from colonnade.privacy.observers import parse_observer

ANY = "*"
OBSERVERS = ("server", "reader", "party:*", "coalition:*")


class _PolicyForm(Form):
    methods: list[str]
    parties: list[str]
    delta: float
    epsilon: dict[str, float]


@dataclass(frozen=True)
class Policy:
    """What a party ever accepts: methods, other parties, and by observer the ε of one job.

    >>> policy = Policy.parse('''methods = ["moments"]
    ... parties = ["insurer"]
    ... delta = 1e-5
    ... epsilon = {server = 1.0, "party:*" = 2.0}''')
    >>> policy.limit("party:insurer"), policy.limit("reader")
    (2.0, None)
    """

    name: str
    methods: tuple[str, ...]
    parties: tuple[str, ...]
    delta: float
    epsilon: tuple[tuple[str, float], ...]

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """The policy in a TOML file."""
        return cls._of(Document.load(path))

    @classmethod
    def parse(cls, text: str, *, name: str = "policy") -> Policy:
        """The policy in a TOML text; `name` is how messages call it."""
        return cls._of(Document.parse(text, name))

    @classmethod
    def _of(cls, document: Document) -> Policy:
        form = document.check(_PolicyForm)
        if not 0 < form.delta < 1:
            raise OutOfRange(
                f"{document.where(('delta',))}: found {form.delta!r}; it must be between 0 and 1."
            )
        for observer, epsilon in form.epsilon.items():
            where = document.where(("epsilon", observer))
            if not (math.isfinite(epsilon) and epsilon > 0):
                raise OutOfRange(f"{where}: found {epsilon!r}; it must be greater than 0.")
            if not observer.endswith(ANY):
                try:
                    parse_observer(observer)
                except ValueError as error:
                    raise UnknownChoice(f"{where}: {error}.{nearest(observer, OBSERVERS)}") from None
            elif observer not in (ANY, "party:*", "coalition:*"):
                raise UnknownChoice(
                    f"{where}: found {observer!r}; patterns are '*', 'party:*' and 'coalition:*'."
                    f"{nearest(observer, OBSERVERS)}"
                )
        known = (*METHODS, *SCORES)
        for number, method in enumerate(form.methods):
            if method not in known:
                raise UnknownChoice(
                    f"{document.where(('methods', number))}: no method is called {method!r}; there are "
                    f"{', '.join(known)}.{nearest(method, known)}"
                )
        return cls(
            document.name,
            tuple(form.methods),
            tuple(form.parties),
            form.delta,
            tuple(form.epsilon.items()),
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
        most = max((epsilon for _, epsilon in self.epsilon), default=0.0)
        if not job.epsilon <= most:
            raise PolicyRefused(
                f"{self.name}, epsilon: the job asks for ε = {job.epsilon:g}; the most accepted is {most:g}."
            )

    def check_release(self, release: Release) -> None:
        """Return if every observer of this release may learn as much as it does."""
        for line in release.lines:
            limit = self.limit(line.observer)
            if limit is None:
                raise PolicyRefused(
                    f"{self.name}, epsilon: {release.what} would tell {line.observer} something, and nothing is "
                    "accepted for it. Name it there if it may learn anything."
                )
            cost = account(line.event, self.delta).epsilon
            # Written so that a cost that is not a number is refused too.
            if not cost <= limit:
                raise PolicyRefused(
                    f"{self.name}, epsilon: {release.what} would cost ε = {epsilon_text(cost)} towards "
                    f"{line.observer} (δ = {self.delta:g}); the most accepted is {limit:g}."
                )


@dataclass(frozen=True, eq=False)
class PolicedLedger:
    """A ledger that asks the policy before it charges."""

    ledger: Ledger
    policy: Policy

    def charge(self, release: Release, dataset: str, *, fresh: bool = False) -> Any:
        """Charge the release if policy and budgets accept it."""
        self.policy.check_release(release)
        return self.ledger.charge(release, dataset, fresh=fresh)

    def keep_receipt(self, receipt: Any) -> None:
        """Remember the head of a peer's ledger."""
        self.ledger.keep_receipt(receipt)
