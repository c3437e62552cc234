"""How a ledger lies in its SQLite database: one table, guards that keep it append-only, a format number."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from colonnade.errors import LedgerAltered, LedgerError, LedgerNewer
from colonnade.ledger.chain import Entry, Row

FORMAT = 5
"""Format 2: a release says who took part, who kept shares, and what coalitions learn; ids compared are an entry.
Format 3: it also says who knows a part of the noise without owning columns, and how fine its draws are.
Format 4: a release may be about a part of the people.
Format 5: what somebody decided about a job before it began is an entry."""
_APPLICATION = int.from_bytes(b"Coln", "big")

# The guards stop a slip of the hand, not an adversary: whoever can write the file can drop them. That is
# what the chain and the peers' receipts are for. `follows` also stops INSERT OR REPLACE, which deletes a
# row without firing a DELETE trigger.
_SCHEMA = (
    "CREATE TABLE entries (seq INTEGER PRIMARY KEY, body TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TRIGGER entries_stay BEFORE UPDATE ON entries "
    "BEGIN SELECT RAISE(ABORT, 'ledger entries are never changed'); END",
    "CREATE TRIGGER entries_remain BEFORE DELETE ON entries "
    "BEGIN SELECT RAISE(ABORT, 'ledger entries are never removed'); END",
    "CREATE TRIGGER entries_follow BEFORE INSERT ON entries "
    "WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM entries) "
    "BEGIN SELECT RAISE(ABORT, 'ledger entries are only added at the end'); END",
)


class Page:
    """The table inside one transaction: read what is there, add at the end."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, first: int) -> Iterator[Row]:
        """Rows from number `first` on, as they lie there, unchecked."""
        query = "SELECT seq, body, hash FROM entries WHERE seq >= ? ORDER BY seq"
        for seq, text, digest in self._connection.execute(query, (first,)):
            yield Row(seq=seq, text=text, hash=digest)

    def check_pages(self, where: str) -> None:
        """Raise `LedgerAltered` unless every page of the file is as SQLite keeps it."""
        answer = self._connection.execute("PRAGMA integrity_check(1)").fetchone()
        if answer != (b"ok",):
            raise LedgerAltered(
                f"{where}: the file is damaged outside its entries. Restore it from a copy, and ask peers for their "
                "receipts."
            )

    def append(self, entry: Entry) -> None:
        """Add an entry; it counts once the transaction has ended."""
        values = (entry.seq, entry.text, entry.hash)
        self._connection.execute("INSERT INTO entries (seq, body, hash) VALUES (?, ?, ?)", values)
        # From here on an earlier version, which would count less than this entry says, refuses the file by its format.
        self._connection.execute(f"PRAGMA user_version = {FORMAT}")


def lay_out(connection: sqlite3.Connection, first: Entry) -> None:
    """Make the table and its guards in an empty database, with the first entry."""
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    Page(connection).append(first)


def check_application(connection: sqlite3.Connection, where: str) -> None:
    """Return if this is a ledger and not some other program's database."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != _APPLICATION:
        raise LedgerError(f"{where}: this is a database, but not a Colonnade ledger. Correct the path.")


def check_layout(connection: sqlite3.Connection, where: str) -> None:
    """Return if the format is one we read and the table is as `lay_out` made it."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > FORMAT:
        raise LedgerNewer(
            f"{where}: written in ledger format {version}; this version of Colonnade reads up to {FORMAT}. "
            "Install a newer Colonnade."
        )
    statements = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master")}
    if statements != {statement.encode() for statement in _SCHEMA}:
        raise LedgerAltered(
            f"{where}: its table or the guards that keep it append-only are not as Colonnade made them. "
            "Restore the file from a copy, and ask peers for their receipts."
        )
