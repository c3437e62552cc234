"""Party files: where one party's data lies, and what it is willing to lose. They never leave the party."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AllowInfNan

from colonnade import errors
from colonnade.data.declaring import Name, nearest_name
from colonnade.data.documents import Document, Form, check_fields, shown
from colonnade.data.sources import Source, source_from_data
from colonnade.errors import FileMissing, InputError, JobError, PartyMismatch
from colonnade.ledger import Ledger
from colonnade.ledger.bounds import Account, Budget, named_pattern
from colonnade.ledger.ledger import PATIENCE

if TYPE_CHECKING:
    from colonnade.data.table import Table
    from colonnade.federation.federation import Federation
    from colonnade.federation.job import Job


_UNITS = ("record", "record-replaced", "others-part", "own-part:", "columns:", "*")
_EPSILON = "greater than 0, and finite unless it is for a coalition"
_MAX_FILE = 200
RECORD_DAYS = 30.0
_OBSERVERS = ("server", "reader", "party:", "coalition:", "*")


class _BudgetForm(Form):
    # A coalition that no ε can bound is accepted with ε = inf; `_budgets` refuses it elsewhere.
    epsilon: Annotated[float, AllowInfNan(True)]
    delta: float
    unit: str = "*"
    observer: str = "*"


with warnings.catch_warnings():
    # A deprecated method of pydantic's models has the name that people expect of this field.
    warnings.filterwarnings("ignore", message='Field name "schema"')

    class _PartyForm(Form):
        party: str
        data: object
        schema: str  # type: ignore[assignment]
        dataset: Name
        ledger: str
        public: bool = False
        shown_ids: int | None = None
        patience: float = PATIENCE
        record_days: float = RECORD_DAYS
        budget: list[_BudgetForm]


@dataclass(frozen=True)
class PartyFile:
    """What one party keeps to itself: where its data lies, and what it is willing to lose.

    `public` declares the data public, so that figures may be computed from its rows. `shown_ids` is the number of
    ids that peers are shown when people are matched: at least the true one, which it hides. `patience` is how many
    seconds to wait for another process that holds the ledger. `record_days` is for how many days the record of a run
    that failed between machines is kept, to go on with it.
    """

    path: Path
    party: str
    data: Source
    schema: Path
    dataset: str
    ledger: Path
    public: bool
    shown_ids: int | None
    patience: float
    record_days: float
    budgets: tuple[Budget, ...]

    @classmethod
    def load(cls, path: str | Path) -> PartyFile:
        """The party file at this path; paths in it are relative to its folder."""
        path = Path(path)
        document = Document.load(path)
        form = document.check(_PartyForm)
        if form.shown_ids is not None:
            from colonnade.protocols.intersection import MOST_IDS

            limit = f"at least the number of ids and at most {MOST_IDS}"
            check_fields(form, document, ("shown_ids", 0 < form.shown_ids <= MOST_IDS, limit))
        check_fields(
            form,
            document,
            ("patience", form.patience >= 0, "a number of seconds"),
            ("record_days", form.record_days >= 0, "a number of days, 0 or more"),
        )
        folder = path.parent
        fields = {
            **{name: value for name, value in form if name != "budget"},
            "data": source_from_data(form.data, folder, where=document.where(("data",)), document=document),
            "schema": folder / str(form.schema),
            "ledger": _ledger_path(folder, form.ledger, document),
        }
        return cls(path=path, budgets=_budgets(form, document), **fields)

    def table(self) -> Table:
        # Not needed by whoever reads a ledger, and long to load.
        from colonnade.data.schema import Schema
        from colonnade.data.table import Table

        try:
            schema = Schema.load(self.schema)
        except FileMissing as error:
            raise FileMissing(f"{self._where('schema')}: {error}") from None
        try:
            return Table(self.party, self.data, schema)
        except errors.DataMissing as error:
            raise errors.DataMissing(f"{self._where('data')}: {error}") from None

    def _where(self, field: str) -> str:
        return Document.load(self.path).where((field,))

    def open_ledger(self) -> Ledger:
        """This party's ledger, made if there is none, with the budgets of this file in force."""
        if not self.ledger.parent.is_dir():
            raise errors.LedgerMissing(
                f"{self._where('ledger')}: the folder {self.ledger.parent} does not exist, so no ledger can be there. "
                "Make it, or correct the path."
            )
        ledger = None
        if not self.ledger.exists():
            # Another run of this party may make it in between.
            with suppress(errors.LedgerExists):
                ledger = Ledger.create(self.ledger, self.party, patience=self.patience)
        ledger = ledger or Ledger.open(self.ledger, patience=self.patience)
        if ledger.party != self.party:
            raise errors.LedgerError(
                f"{self.path}, ledger: {self.ledger} is the ledger of {ledger.party!r}, not of {self.party!r}. "
                "Name this party's own ledger, or a file that does not exist yet."
            )
        declared = {budget.account for budget in self.budgets}
        for budget in ledger.budgets():
            if budget.account.dataset == self.dataset and budget.account not in declared:
                # A budget that the file dropped would still be in force, and may be the more generous one.
                raise JobError(
                    f"{self.path}, budget: the ledger holds a budget for {budget.account} (ε = {budget.epsilon:g}, "
                    f"δ = {budget.delta:g}) that this file does not name. Add it with its ε: this file must list every "
                    "budget in force."
                )
        for budget in self.budgets:
            account = budget.account
            ledger.set_budget(
                account.dataset, account.unit, account.observer, epsilon=budget.epsilon, delta=budget.delta
            )
        return ledger


def check_ledger(file: PartyFile, ledgers: Mapping[str, Ledger]) -> int:
    """How many receipts of others agree with one party's ledger; raises where it is gone, new or cut."""
    mine, agreed = ledgers.get(file.party), 0
    for peer, ledger in ledgers.items():
        receipts = ledger.receipts(file.party) if ledger.party == peer != file.party else ()
        if not receipts:
            continue
        if mine is None:
            raise errors.LedgerReplaced(
                f"{file.ledger} does not exist, and {peer} holds receipts of a ledger of {file.party}: with a new one, "
                "what it has spent would not be counted. Nothing was charged. Restore the file from a copy; to begin "
                f"again on purpose, `colonnade ledger {file.path} --new`."
            )
        if mine.party == file.party:
            agreed += mine.verify(receipts).receipts
    return agreed


def party_files(
    job: Job, given: Iterable[str | Path] = (), *, among: Sequence[str] | None = None
) -> dict[str, PartyFile]:
    """The file of every party of a job, or of those among them: those given, else NAME.toml beside the job."""
    names = job.parties if among is None else tuple(among)
    files: dict[str, PartyFile] = {}
    for file in map(PartyFile.load, given):
        if file.party not in job.parties:
            raise PartyMismatch(
                f"{file.path}, party: found {file.party!r}, which is not among the parties of {job.path} "
                f"({', '.join(job.parties)}). Give the files of those.{nearest_name(file.party, job.parties)}"
            )
        if file.party in files:
            raise PartyMismatch(
                f"{file.path} and {files[file.party].path} are both of {file.party!r}. Give one of them."
            )
        files[file.party] = file
    for party in names:
        if party not in files:
            files[party] = _alongside(job, party)
    return {party: files[party] for party in names}


def federation_of(job: Job, files: Mapping[str, PartyFile]) -> Federation:
    # Here, because whoever reads a party's file for its ledger runs nothing.
    from colonnade.federation.federation import Federation

    owners: dict[Path, PartyFile] = {}
    for file in files.values():
        other = owners.setdefault(Path(os.path.realpath(file.ledger)), file)
        if other is not file:
            raise PartyMismatch(
                f"{file.path}, ledger: {file.ledger} is also {other.party}'s ledger. Each party keeps its own."
            )
    tables = {party: file.table() for party, file in files.items()}
    _check_label_holder(job, tables, files)
    ledger_files = [file for file in files.values() if file.ledger.exists()]
    ledgers = {file.party: Ledger.open(file.ledger, patience=file.patience) for file in ledger_files}
    for file in files.values():
        check_ledger(file, ledgers)
    return Federation(
        tables.values(),
        ledgers={party: file.open_ledger() for party, file in files.items()},
        datasets={party: file.dataset for party, file in files.items()},
        server=job.server,
        threshold=job.threshold,
        computing_parties=job.computing_parties,
        disclosed_noise=job.disclosed_noise,
        alignment=job.alignment,
        shown_ids={party: file.shown_ids for party, file in files.items() if file.shown_ids is not None},
        timeout=job.timeout,
        public=all(file.public for file in files.values()),
        held_out=job.held_out,
    )


def _ledger_path(folder: Path, name: str, document: Document) -> Path:
    where = document.where(("ledger",))
    path = folder / name
    # With what is added to the name of a ledger for the files beside it.
    if "\0" in name or len(path.name.encode()) > _MAX_FILE:
        letters = f"{len(path.name)} letters, and {_MAX_FILE} are the most"
        why = "a NUL in it" if "\0" in path.name else letters
        raise errors.WrongType(f"{where}: {shown(name)} is not a valid name for a file: it has {why}.")
    if not Path(name).name:
        raise errors.WrongType(
            f"{where}: found {name!r}; name a file, such as bank.ledger. The first run makes it."
        )
    if path.is_symlink() and not path.exists():
        raise FileMissing(f"{where}: {path} is a link to something that is not there. Correct the link.")
    return path


def _budgets(form: _PartyForm, document: Document) -> tuple[Budget, ...]:
    if not form.budget:
        raise JobError(
            f"{document.where(('budget',))}: no budget is declared. Add a [[budget]] with epsilon and delta."
        )
    budgets: dict[object, Budget] = {}
    for number, item in enumerate(form.budget):
        account = _account(form.dataset, item, document=document, number=number)
        finite, coalition = math.isfinite(item.epsilon), account.observer.startswith("coalition:")
        for field, value, fits, limit in (
            ("epsilon", item.epsilon, item.epsilon > 0 and (finite or coalition), _EPSILON),
            ("delta", item.delta, 0 < item.delta < 1, "between 0 and 1, well below one over the rows"),
        ):
            if not fits:
                place = document.where(("budget", number, field))
                raise errors.OutOfRange(f"{place}: found {value!r}; a budget's {field} must be {limit}.")
        budget = Budget(account, epsilon=item.epsilon, delta=item.delta)
        if account in budgets:
            raise JobError(f"{document.where(('budget', number))}: {account} has two budgets. Keep one.")
        budgets[account] = budget
    return tuple(budgets.values())


def _account(dataset: str, item: _BudgetForm, *, document: Document, number: int) -> Account:
    if not dataset:
        raise JobError(
            f"{document.where(('dataset',))}: the data set has no name. Budgets and ledgers are per data set."
        )
    for field, unit, observer, choices in (
        ("unit", item.unit, "*", _UNITS),
        ("observer", item.unit, item.observer, _OBSERVERS),
    ):
        try:
            account = named_pattern(dataset, unit, observer)
        except InputError as error:
            place = document.where(("budget", number, field))
            value = str(getattr(item, field))
            raise errors.UnknownChoice(f"{place}: {error}.{nearest_name(value, choices)}") from None
    return account


def _alongside(job: Job, party: str) -> PartyFile:
    path = job.path.parent / f"{party}.toml"
    if not path.exists():
        raise FileMissing(
            f"{job.path} names the party {party!r}, but {path} does not exist. Write that file, or give "
            f"{party}'s own file with --party."
        )
    file = PartyFile.load(path)
    if file.party != party:
        raise PartyMismatch(
            f"{path}, party: found {file.party!r}, wanted {party!r} as the file's name and the job say."
        )
    return file


def _check_label_holder(job: Job, tables: Mapping[str, Table], files: Mapping[str, PartyFile]) -> None:
    holders = [party for party, table in tables.items() if table.schema.label is not None]
    if job.task == "pca" or job.active is None or job.active in holders:
        return
    declaration = f"{files[holders[0]].schema} declares it" if holders else "no schema declares one"
    remedy = f"Write active = {holders[0]!r}, or" if holders else "Add a [label] there, or"
    raise errors.LabelMismatch(
        f"{job.path}, active: the job says that {job.active!r} holds the label, but {declaration}, and "
        f"{files[job.active].schema} has no [label]. {remedy} correct the schemas."
    )
