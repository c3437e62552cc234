"""Files that `colonnade ledger` writes: a table, a picture, an export with its signature."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from colonnade.errors import CannotWrite, InputError, NameTaken
from colonnade.runs.folders import free_name

if TYPE_CHECKING:
    from colonnade.ledger import Ledger
    from colonnade.ledger.chain import Entry


def write_files(
    entries: tuple[Entry, ...],
    ledger: Ledger | None,
    party: str,
    *,
    table: Path | None,
    picture: Path | None,
    export: Path | None,
    key: Path | None,
) -> dict[str, str]:
    """Write what was asked for; returns what each file is and where it lies. No file is written over another."""
    from colonnade.ledger.export import export as exported
    from colonnade.ledger.export import signing_key
    from colonnade.report.curves import check_plot_path
    from colonnade.report.timeline import draw_timeline, history_csv

    for path in (table, picture, export):
        if path is not None and path.exists():
            raise NameTaken(f"{path} exists already. Name another file, or remove it first.")
    if picture is not None:
        check_plot_path(picture)
    if export is not None and ledger is None:
        raise InputError("--export: PARTY is an export already. Give the party's own file or its ledger.")
    written: dict[str, str] = {}
    if table is not None:
        _write(table, history_csv(entries))
        written["Table"] = str(table)
    if picture is not None:
        draw_timeline(picture, entries, party=party)
        written["Picture"] = str(picture)
    if export is not None and ledger is not None:
        signing = None if key is None else signing_key(key)
        _write(export, exported(ledger, signing))
        written["Export"] = str(export)
        if signing is not None:
            written["Signed by"] = signing.public.hex()
    return written


def begin_anew(given: Path, reason: str) -> None:
    """Make the ledger that a party's own file names, with a first entry that says it was begun again on purpose.

    One that is there and holds charges is never set aside; one that holds none is kept under another name.
    """
    from colonnade.federation.party_file import PartyFile
    from colonnade.ledger import Ledger

    if given.suffix != ".toml":
        raise InputError(
            f"--new: {given} is no party file. Give the party's own file (TOML), which names the ledger."
        )
    if not reason.strip():
        raise InputError("--reason: it is empty. Say why the ledger is begun again, or leave it out.")
    file = PartyFile.load(given)
    if file.ledger.exists():
        before = Ledger.open(file.ledger, patience=file.patience)
        if any(entry.kind == "charge" for entry in before.entries()):
            raise NameTaken(
                f"--new: {file.ledger} is there and holds charges. Go on with it; if it must be given up, move it away "
                "yourself, and keep it."
            )
        file.ledger.rename(free_name(file.ledger.with_name(f"{file.ledger.name}.before")))
    Ledger.create(file.ledger, file.party, patience=file.patience, reason=reason)


def _write(path: Path, text: str) -> None:
    from colonnade.federation.whole_files import write_whole

    try:
        write_whole(path, text, own=True)
    except OSError as error:
        raise CannotWrite(f"{path} cannot be written ({error.strerror}).") from None
