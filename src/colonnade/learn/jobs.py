"""Job files, which parties share, and party files, which they do not.

A job says who learns what from whom at what ε. Where a party's data lies and how much it is willing to lose
stands in that party's own file::

    # job.toml                                # bank.toml
    name = "default risk"                     party = "bank"
    task = "classification"                   data = "bank.csv"
    method = "moments"                        schema = "bank.schema.toml"
    parties = ["bank", "insurer"]             dataset = "customers 2026"
    active = "bank"                           ledger = "bank.ledger"
    epsilon = 1.0
                                              [[budget]]
                                              epsilon = 4.0
                                              delta = 1e-5
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from colonnade.data.documents import Document, Form
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.errors import JobError
from colonnade.learn.federation import Federation
from colonnade.ledger import Ledger
from colonnade.protocols.moments_plan import DEFAULT_GAMMA, Task


class _JobForm(Form):
    name: str
    task: Task
    method: Literal["moments"] = "moments"
    parties: list[str]
    active: str | None = None
    server: str = "server"
    keepers: list[str] | None = None
    threshold: int | None = None
    epsilon: float
    delta: float | None = None
    accepted_delta: float | None = None
    gamma: int = DEFAULT_GAMMA
    components: int | None = None
    timeout: float = 600.0


class _BudgetForm(Form):
    epsilon: float
    delta: float
    unit: str = "*"
    observer: str = "*"


with warnings.catch_warnings():
    # A deprecated method of pydantic's models has the name that people expect of this field.
    warnings.filterwarnings("ignore", message='Field name "schema"')

    class _PartyForm(Form):
        party: str
        data: str
        schema: str  # type: ignore[assignment]
        dataset: str
        ledger: str
        public: bool = False
        budget: list[_BudgetForm]


@dataclass(frozen=True)
class Job:
    """What the parties agreed to do.

    >>> Job.parse('''name = "risk"
    ... task = "classification"
    ... parties = ["bank", "insurer"]
    ... epsilon = 1.0''').parties
    ('bank', 'insurer')
    """

    path: Path
    name: str
    task: Task
    method: str
    parties: tuple[str, ...]
    active: str | None
    server: str
    keepers: tuple[str, ...] | None
    threshold: int | None
    epsilon: float
    delta: float | None
    accepted_delta: float | None
    gamma: int
    components: int | None
    timeout: float

    @classmethod
    def load(cls, path: str | Path) -> Job:
        """The job in a TOML file."""
        return cls._of(Document.load(path, error=JobError), Path(path))

    @classmethod
    def parse(cls, text: str, *, name: str = "job") -> Job:
        """The job in a TOML text; `name` is how messages call it."""
        return cls._of(Document.parse(text, name, error=JobError), Path(name))

    @classmethod
    def _of(cls, document: Document, path: Path) -> Job:
        form = document.check(_JobForm, error=JobError)
        for field, value, fits in (
            ("epsilon", form.epsilon, form.epsilon > 0),
            ("delta", form.delta, form.delta is None or 0 < form.delta < 1),
            ("timeout", form.timeout, form.timeout > 0),
            ("components", form.components, form.components is None or form.components > 0),
        ):
            if not fits:
                limit = "between 0 and 1" if field == "delta" else "greater than 0"
                raise JobError(f"{document.where((field,))}: found {value!r}; it must be {limit}.")
        if form.active is not None and form.active not in form.parties:
            raise JobError(
                f"{document.where(('active',))}: {form.active!r} is not among the parties {', '.join(form.parties)}."
            )
        return cls(
            path=path,
            **{
                name: getattr(form, name)
                for name in _JobForm.model_fields
                if name not in ("parties", "keepers")
            },
            parties=tuple(form.parties),
            keepers=None if form.keepers is None else tuple(form.keepers),
        )


@dataclass(frozen=True)
class PartyFile:
    """What one party keeps to itself: where its data lies, and what it is willing to lose."""

    path: Path
    party: str
    data: Path
    schema: Path
    dataset: str
    ledger: Path
    public: bool
    budgets: tuple[_BudgetForm, ...]

    @classmethod
    def load(cls, path: str | Path) -> PartyFile:
        """The party file at this path; paths in it are relative to its folder."""
        path = Path(path)
        document = Document.load(path, error=JobError)
        form = document.check(_PartyForm, error=JobError)
        if not form.budget:
            raise JobError(f"{path}, budget: no budget is declared. Add a [[budget]] with epsilon and delta.")
        folder = path.parent
        return cls(
            path=path,
            party=form.party,
            data=folder / form.data,
            schema=folder / str(form.schema),
            dataset=form.dataset,
            ledger=folder / form.ledger,
            public=form.public,
            budgets=tuple(form.budget),
        )

    def table(self) -> Table:
        """This party's rows under its schema."""
        return Table(self.party, self.data, Schema.load(self.schema))

    def open_ledger(self) -> Ledger:
        """This party's ledger, made if there is none, with the budgets of this file in force."""
        ledger = Ledger.open(self.ledger) if self.ledger.exists() else Ledger.create(self.ledger, self.party)
        if ledger.party != self.party:
            raise JobError(
                f"{self.path}, ledger: {self.ledger} is the ledger of {ledger.party}, not {self.party}."
            )
        for budget in self.budgets:
            ledger.set_budget(
                self.dataset, budget.unit, budget.observer, epsilon=budget.epsilon, delta=budget.delta
            )
        return ledger


def party_files(job: Job, given: list[Path]) -> dict[str, PartyFile]:
    """The file of every party of a job: those given, else NAME.toml beside the job."""
    found = {file.party: file for file in map(PartyFile.load, given)}
    strangers = sorted(set(found) - set(job.parties))
    if strangers:
        raise JobError(
            f"{found[strangers[0]].path} is of {strangers[0]!r}, which the job {job.path} does not name."
        )
    for party in job.parties:
        if party not in found:
            found[party] = PartyFile.load(job.path.parent / f"{party}.toml")
            if found[party].party != party:
                raise JobError(f"{found[party].path}, party: found {found[party].party!r}, wanted {party!r}.")
    return {party: found[party] for party in job.parties}


def federation_of(job: Job, files: dict[str, PartyFile]) -> Federation:
    """All parties of a job in this process, each with its own table and ledger."""
    return Federation(
        [file.table() for file in files.values()],
        ledgers={party: file.open_ledger() for party, file in files.items()},
        datasets={party: file.dataset for party, file in files.items()},
        server=job.server,
        threshold=job.threshold,
        keepers=job.keepers,
        timeout=job.timeout,
    )
