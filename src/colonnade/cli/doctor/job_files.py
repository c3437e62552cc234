"""What `colonnade doctor JOB` looks at: the job, and of every party that is here its own file, table and ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from colonnade.cli.doctor.findings import Finding
from colonnade.errors import ColonnadeError

if TYPE_CHECKING:
    from colonnade.data.table import Table
    from colonnade.federation.party_file import PartyFile
    from colonnade.ledger import Ledger

_T = TypeVar("_T")


def examine_job(path: Path) -> Iterator[Finding]:
    """The job first; then the files that lie beside it, party by party."""
    from colonnade.federation.job import Job
    from colonnade.federation.party_file import PartyFile

    def read(job: Job) -> str:
        return f"{path}: {job.task} by {job.method}"

    looked = _looked("job", partial(Job.load, path), read)
    finding, job = looked
    yield finding
    ledgers = {} if job is None else _ledgers(path.parent, job.parties)
    for party in job.parties if job is not None else ():
        own = path.parent / f"{party}.toml"
        if not own.exists():
            yield Finding(party, True, f"{own} is not here; it lies with {party}")
            continue
        finding, file = _looked(party, partial(PartyFile.load, own), partial(_in_order, own))
        yield finding
        if file is not None:
            yield from examine_party(file, ledgers)


def _in_order(path: Path, _: object) -> str:
    return f"{path} is in order"


def _ledgers(folder: Path, parties: Iterable[str]) -> dict[str, Ledger]:
    from colonnade.federation.party_file import PartyFile
    from colonnade.ledger import Ledger

    ledgers = {}
    for party in parties:
        with suppress(ColonnadeError):
            ledgers[party] = Ledger.open(PartyFile.load(folder / f"{party}.toml").ledger)
    return ledgers


def examine_party(file: PartyFile, ledgers: Mapping[str, Ledger]) -> Iterator[Finding]:
    """A party's rows against its schema, and its ledger against its chain and the receipts that lie here."""
    from colonnade.federation.witnesses import check_ledger
    from colonnade.ledger import Ledger

    finding, table = _looked(
        f"{file.party} data",
        lambda: file.table().check(),
        partial(_counted, file),
    )
    yield finding
    if table is not None and table.clipping.warning:
        yield Finding(f"{file.party} columns", True, table.clipping.warning, doubtful=True)

    def verified() -> str:
        agreed = check_ledger(file, ledgers)
        if not file.ledger.exists():
            return f"{file.ledger} is made by the first run"
        entries = Ledger.open(file.ledger).verify().entries
        return f"{file.ledger}: {entries} entries, their chain is in order{_receipts(agreed)}"

    finding, _ = _looked(f"{file.party} ledger", verified, str)
    yield replace(finding, doubtful=finding.fine and not file.ledger.exists())


def _receipts(agreed: int) -> str:
    if not agreed:
        return ""
    return f", and {agreed} receipt{'s' if agreed > 1 else ''} that peers here hold agree{'' if agreed > 1 else 's'}"


def _counted(file: PartyFile, table: Table) -> str:
    return f"{file.data}: {table.rows} rows, each with an id of its own"


def _looked(what: str, look: Callable[[], _T], found: Callable[[_T], str]) -> tuple[Finding, _T | None]:
    try:
        seen = look()
    except ColonnadeError as error:
        return Finding(what, False, f"{error.number} {error}", f"colonnade explain {error.number}"), None
    return Finding(what, True, found(seen)), seen
