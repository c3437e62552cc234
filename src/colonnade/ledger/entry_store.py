"""Where a ledger's entries live: a hash chain in an append-only SQLite table, one file per party."""

from __future__ import annotations

import datetime
import errno
import hashlib
import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colonnade import errors

GENESIS = "0" * 64


@dataclass(frozen=True)
class Entry:
    """One line of a ledger: its place, its kind, when it was written (UTC), what it says, its hash."""

    seq: int
    kind: str
    time: str
    body: Mapping[str, Any]
    hash: str

    @property
    def text(self) -> str:
        return canonical({"kind": self.kind, "time": self.time, "body": self.body})

    def to_data(self) -> dict[str, Any]:
        return {**vars(self), "body": dict(self.body)}


@dataclass(frozen=True)
class Row:
    """An entry as it lies in the store, before anyone has vouched for it: bytes, or what an edit left."""

    seq: object
    text: object
    hash: object


def canonical(data: object) -> str:
    """The one JSON text of a value: keys sorted, no spaces, no NaN."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def link(previous: str, text: bytes) -> str:
    return hashlib.sha256(bytes.fromhex(previous) + text).hexdigest()


def write(seq: int, previous: str, *, kind: str, time: str, body: Mapping[str, Any]) -> Entry:
    """The entry number `seq`, chained to the hash of the one before it."""
    text = canonical({"kind": kind, "time": time, "body": body})
    # Through the text and back, so that a written entry equals the entry that a reader will find.
    return _parse(seq, text, link(previous, text.encode()))


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")


def follow(rows: Iterable[Row], *, seq: int, head: str, where: str) -> Iterator[Entry]:
    """The entries after number `seq` with hash `head`, each checked against the chain before it is given.

    Raises `LedgerAltered` at the first row whose number does not follow, or whose hash is not that of
    its text after its predecessor. `where` names the ledger in the message.
    """
    for row in rows:
        if row.seq != seq + 1:
            raise errors.LedgerAltered(
                f"{where}: entry {seq + 1} is missing (entry {row.seq} is in its place), so entries were "
                "removed. Restore the file from a copy, and ask peers for their receipts."
            )
        seq += 1
        text, digest = row.text, row.hash
        if not isinstance(text, bytes) or digest != (head := link(head, text)).encode():
            raise errors.LedgerAltered(
                f"{where}: entry {seq} does not match its hash, so it or an entry before it was altered. "
                "Restore the file from a copy, and ask peers for their receipts."
            )
        try:
            entry = _parse(seq, text.decode(), head)
        except (ValueError, KeyError, TypeError) as error:
            # The hash is right, so whoever wrote this knew the chain but not the format.
            raise errors.LedgerAltered(
                f"{where}: entry {seq} is not written as ledger entries are."
            ) from error
        yield entry


def _parse(seq: int, text: str, digest: str) -> Entry:
    data = json.loads(text)
    kind, time, body = data["kind"], data["time"], data["body"]
    if not (isinstance(kind, str) and isinstance(time, str) and isinstance(body, dict)):
        raise TypeError("an entry has a kind, a time and a body")
    return Entry(seq=seq, kind=kind, time=time, body=body, hash=digest)


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
            raise errors.LedgerAltered(
                f"{where}: the file is damaged outside its entries. Restore it from a copy, and ask peers for their "
                "receipts."
            )

    def append(self, entry: Entry) -> None:
        values = (entry.seq, entry.text, entry.hash)
        self._connection.execute("INSERT INTO entries (seq, body, hash) VALUES (?, ?, ?)", values)
        # From here on an earlier version, which would count less than this entry says, refuses the file by its format.
        self._connection.execute(f"PRAGMA user_version = {FORMAT}")


def lay_out(connection: sqlite3.Connection, first: Entry) -> None:
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    Page(connection).append(first)


def check_format(version: int, where: str) -> None:
    if version > FORMAT:
        raise errors.LedgerNewer(
            f"{where}: written in ledger format {version}; this version of Colonnade reads up to {FORMAT}. "
            "Install a newer Colonnade."
        )


def check_layout(connection: sqlite3.Connection, where: str) -> None:
    """Return if the format is one we read and the table is as `lay_out` made it."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    check_format(version, where)
    statements = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master")}
    if statements != {statement.encode() for statement in _SCHEMA}:
        raise errors.LedgerAltered(
            f"{where}: its table or the guards that keep it append-only are not as Colonnade made them. "
            "Restore the file from a copy, and ask peers for their receipts."
        )


_LOCKED = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FORMAT})
_RETRY_SECONDS = 0.01
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})


class FileEntryStore:
    """A journal in a file, shared by threads and processes; after `patience` seconds of waiting: `LedgerLocked`."""

    def __init__(self, path: Path, *, patience: float) -> None:
        self.path, self.where, self._patience = path, str(path), patience

    @classmethod
    def create(cls, path: Path, first: Entry, *, patience: float) -> FileEntryStore:
        """A new file that holds one entry. Never touches a file that exists.

        The ledger is made beside its place and takes its name whole: whoever looks there, and whatever ends this
        process, finds all of it or nothing.
        """
        making = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.new")
        try:
            with _removed(making):
                # Only the owner may read: a ledger tells what a party does with its data.
                os.close(os.open(making, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
                journal = cls(making, patience=patience)
                with journal._connected() as connection, _translated(str(path)):
                    _configure(connection)
                    with _transaction(connection, "BEGIN EXCLUSIVE"):
                        lay_out(connection, first)
                _take_name(making, path)
            _sync_directory(path.parent)
        except FileExistsError:
            raise errors.LedgerExists(
                f"{path}: cannot create a ledger here, because the file exists. Open it with Ledger.open, or "
                "choose another name; never delete a ledger whose data are still in use."
            ) from None
        except OSError as error:
            raise errors.LedgerError(
                f"{path}: cannot create a ledger here ({error.strerror}). Choose a directory that exists and "
                "that this user may write to."
            ) from error
        return cls(path, patience=patience)

    @classmethod
    def open(cls, path: Path, *, patience: float) -> FileEntryStore:
        if not path.exists():
            raise errors.LedgerMissing(
                f"{path}: there is no ledger here. Create one with Ledger.create, or correct the path."
            )
        if not path.is_file():
            raise errors.LedgerError(
                f"{path}: a ledger is a file, and this is a directory or a device. Correct the path."
            )
        if not os.access(path, os.R_OK | os.W_OK) or not os.access(path.parent, os.W_OK):
            raise errors.LedgerError(
                f"{path}: this user may not write to the ledger or its directory. Give it write permission; to "
                "read only, copy the file elsewhere and open the copy."
            )
        if path.stat().st_size == 0:
            raise errors.LedgerError(
                f"{path}: this file is empty, not a ledger; perhaps its creation was interrupted. If no ledger "
                "was ever there, delete it and create one; otherwise restore the file from a copy."
            )
        journal = cls(path, patience=patience)
        with journal.reading() as page:
            # Damage outside entries, to which the chain of hashes is blind, would be found by the next write.
            page.check_pages(str(path))
            return journal

    def reading(self) -> AbstractContextManager[Page]:
        return self._checked("BEGIN")

    def writing(self) -> AbstractContextManager[Page]:
        """The table to oneself; what is appended is durable when the block has ended without an error."""
        return self._checked("BEGIN IMMEDIATE")

    @contextmanager
    def _checked(self, begin: str) -> Iterator[Page]:
        with self._connected() as connection:
            self._begin(connection, begin)
            with _transaction(connection, None):
                check_layout(connection, self.where)
                yield Page(connection)

    def _begin(self, connection: sqlite3.Connection, begin: str) -> None:
        # SQLite's own waiting does not cover every case: a peer process that recovers the WAL after a kill,
        # or cleans it up as the last to close, answers "busy" at once.
        deadline = time.monotonic() + self._patience
        while True:
            try:
                _configure(connection)
                # Before what would change another program's database.
                if connection.execute("PRAGMA application_id").fetchone() != (_APPLICATION,):
                    raise errors.LedgerError(
                        f"{self.where}: this is a database, but not a Colonnade ledger. Correct the path."
                    )
                mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
                connection.execute(begin)
                # A plain BEGIN takes no lock; the first read does.
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            except sqlite3.OperationalError as error:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if _primary(error) not in _LOCKED or time.monotonic() >= deadline:
                    raise
                time.sleep(_RETRY_SECONDS)
            else:
                break
        if mode != b"wal":
            connection.execute("ROLLBACK")
            raise errors.LedgerError(
                f"{self.where}: this file system cannot hold a write-ahead log. Move the ledger to a local disk."
            )

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with _translated(self.where):
            # mode=rw: a path that vanished must not come back as an empty ledger.
            connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode=rw",
                uri=True,
                # SQLite waits deaf to Ctrl-C, so it waits a little and `_begin` asks again.
                timeout=min(self._patience, _RETRY_SECONDS),
                isolation_level=None,
            )
            try:
                yield connection
            finally:
                connection.close()


class MemoryEntryStore:
    """The same table in memory, for simulation and tests: it ends with the process."""

    def __init__(self, first: Entry, *, name: str) -> None:
        self.where = f"the in-memory ledger of {name}"
        self.path = None
        self._lock = threading.Lock()
        # Threads take turns under the lock, so the connection may pass between them.
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._connection.close)
        _configure(self._connection)
        with _transaction(self._connection, "BEGIN"):
            lay_out(self._connection, first)

    def reading(self) -> AbstractContextManager[Page]:
        return self.writing()

    @contextmanager
    def writing(self) -> Iterator[Page]:
        with self._lock, _translated(self.where), _transaction(self._connection, "BEGIN IMMEDIATE"):
            yield Page(self._connection)


EntryStore = FileEntryStore | MemoryEntryStore


def _configure(connection: sqlite3.Connection) -> None:
    # Bytes, because an altered text need not be valid UTF-8, and the chain must see it as it is.
    connection.text_factory = bytes
    connection.execute("PRAGMA synchronous = FULL")
    # On macOS a plain fsync leaves the data in the drive's cache; elsewhere this changes nothing.
    connection.execute("PRAGMA fullfsync = ON")
    connection.execute("PRAGMA checkpoint_fullfsync = ON")
    connection.execute("PRAGMA trusted_schema = OFF")


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str | None) -> Iterator[None]:
    """Commit at the end of the block, roll back if it raises; `begin` None: it has begun already."""
    if begin is not None:
        connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # The first error is the one to report, and closing the connection rolls back as well.
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


@contextmanager
def _translated(where: str) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        # SQLite quotes the damaged text in its message, and the message then cannot be read as text.
        raise errors.LedgerAltered(_damaged(where, "text that cannot be read")) from error
    except sqlite3.Error as error:
        code = _primary(error)
        if code in _LOCKED:
            raise errors.LedgerLocked(
                f"{where}: another process holds this ledger. Wait for it or end it, then run again; nothing "
                "was written."
            ) from error
        if code == sqlite3.SQLITE_NOTADB:
            raise errors.LedgerError(f"{where}: this file is not a ledger. Correct the path.") from error
        if code in _DAMAGED:
            raise errors.LedgerAltered(_damaged(where, str(error))) from error
        if code == sqlite3.SQLITE_FULL:
            raise errors.LedgerError(f"{where}: the disk is full. Make room, then run again.") from error
        if code == sqlite3.SQLITE_IOERR:
            # So SQLite calls a disk that has no room for its log, too.
            raise errors.LedgerError(
                f"{where}: the ledger cannot be read or written ({error}). Its disk is full or fails: make room, or "
                "move the ledger with what lies beside it to another disk, then run again."
            ) from error
        raise errors.LedgerError(f"{where}: the ledger cannot be read or written ({error}).") from error


@contextmanager
def _removed(making: Path) -> Iterator[None]:
    drafts = (making, making.with_name(f"{making.name}-journal"))
    for draft in drafts:
        # What a killed process of this number left.
        draft.unlink(missing_ok=True)
    try:
        yield
    finally:
        for draft in drafts:
            draft.unlink(missing_ok=True)


def _take_name(making: Path, path: Path) -> None:
    """Give a file its name unless something has it, in which case `FileExistsError` is raised."""
    try:
        os.link(making, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # A file system without second names: the first to make an empty file of that name has it.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        making.replace(path)


def _damaged(where: str, how: str) -> str:
    return f"{where}: the file is damaged ({how}). Restore it from a copy, and ask peers for their receipts."


def _primary(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
