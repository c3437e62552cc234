"""What `colonnade doctor JOB` looks at: the job, and of every party that is here its own file, table and ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from colonnade.cli.findings import Finding
from colonnade.errors import ColonnadeError

if TYPE_CHECKING:
    from colonnade.data.table import Table
    from colonnade.learn.party_files import PartyFile

_T = TypeVar("_T")


def examine_job(path: Path) -> Iterator[Finding]:
    """The job first; then the files that lie beside it, party by party."""
    from colonnade.learn.jobs import Job
    from colonnade.learn.party_files import PartyFile

    def read(job: Job) -> str:
        return f"{path}: {job.task} by {job.method}"

    looked = _looked("job", partial(Job.load, path), read)
    finding, job = looked
    yield finding
    for party in job.parties if job is not None else ():
        own = path.parent / f"{party}.toml"
        if not own.exists():
            yield Finding(party, True, f"{own} is not here; it lies with {party}")
            continue
        finding, file = _looked(party, partial(PartyFile.load, own), partial(_in_order, own))
        yield finding
        if file is not None:
            yield from _examine_party(file)


def _in_order(path: Path, _: object) -> str:
    return f"{path} is in order"


def _examine_party(file: PartyFile) -> Iterator[Finding]:
    from colonnade.ledger import Ledger

    finding, table = _looked(
        f"{file.party} data",
        lambda: file.table().check(),
        partial(_counted, file),
    )
    yield finding
    if table is not None and table.clipping.warning:
        yield Finding(f"{file.party} columns", True, table.clipping.warning, doubtful=True)
    if file.ledger.exists():
        yield _looked(
            f"{file.party} ledger",
            lambda: Ledger.open(file.ledger).verify().entries,
            lambda entries: f"{file.ledger}: {entries} entries, their chain is in order",
        )[0]
    else:
        yield Finding(f"{file.party} ledger", True, f"{file.ledger} is made by the first run")


def _counted(file: PartyFile, table: Table) -> str:
    return f"{file.data}: {table.rows} rows, each with an id of its own"


def _looked(what: str, look: Callable[[], _T], found: Callable[[_T], str]) -> tuple[Finding, _T | None]:
    try:
        seen = look()
    except ColonnadeError as error:
        return Finding(what, False, f"{error.number} {error}", f"colonnade explain {error.number}"), None
    return Finding(what, True, found(seen)), seen
