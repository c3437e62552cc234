"""The file: what it refuses, what it survives, and what it says when it cannot be used."""

import os
import shutil
import sqlite3
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from ledger_samples import DELTA, ledger_with_history, release

from colonnade.errors import LedgerAltered, LedgerError, LedgerLocked
from colonnade.ledger import Ledger, entry_store
from colonnade.ledger.entry_store import Page


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bank.ledger"


def raw(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET body = '{}' WHERE seq = 3",
        "UPDATE entries SET hash = 'x'",
        "DELETE FROM entries",
        "DELETE FROM entries WHERE seq = 6",
        "INSERT OR REPLACE INTO entries VALUES (3, '{}', 'x')",
        "REPLACE INTO entries VALUES (3, '{}', 'x')",
        "INSERT INTO entries VALUES (9, '{}', 'x')",
        "INSERT INTO entries VALUES (NULL, '{}', 'x')",
    ],
)
def test_the_table_can_only_grow_at_its_end(path: Path, statement: str) -> None:
    ledger, receipts = ledger_with_history(path)
    connection = raw(path)
    with pytest.raises(sqlite3.DatabaseError, match="ledger entries are"):
        connection.execute(statement)
    connection.close()
    assert ledger.verify(receipts).entries == 6


def test_writes_are_logged_ahead_and_fully_synchronised(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []
    connect = sqlite3.connect

    def traced(*args: object, **options: object) -> sqlite3.Connection:
        connection = connect(*args, **options)  # type: ignore[call-overload]
        connection.set_trace_callback(statements.append)
        result: sqlite3.Connection = connection
        return result

    ledger, _ = ledger_with_history(path)
    monkeypatch.setattr(sqlite3, "connect", traced)
    ledger.charge(release("later"), "adult")
    order = [
        next(place for place, text in enumerate(statements) if text.startswith(wanted))
        for wanted in (
            "PRAGMA synchronous = FULL",
            "PRAGMA journal_mode = WAL",
            "BEGIN IMMEDIATE",
            "SELECT seq",
            "INSERT INTO entries",
            "COMMIT",
        )
    ]
    assert order == sorted(order)
    assert raw(path).execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_new_ledger_is_its_owners_and_never_created_over_a_file_or_where_there_is_no_directory(
    path: Path,
) -> None:
    ledger, receipts = ledger_with_history(path)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(LedgerError, match="the file exists"):
        Ledger.create(path, "bank")
    assert ledger.verify(receipts).entries == 6
    with pytest.raises(LedgerError, match="Choose a directory that exists"):
        Ledger.create(path.parent / "nowhere" / "bank.ledger", "bank")


def test_an_error_inside_a_charge_leaves_no_trace(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, receipts = ledger_with_history(path)
    append = Page.append

    def interrupted(page: Page, entry: object) -> None:
        append(page, entry)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(Page, "append", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ledger.charge(release("late"), "adult")
    monkeypatch.undo()
    assert ledger.verify(receipts).entries == 6
    assert ledger.charge(release("late"), "adult").entry == 7


def test_a_full_disk_refuses_the_release(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, receipts = ledger_with_history(path)
    configure = entry_store._configure

    def small_disk(connection: sqlite3.Connection) -> None:
        configure(connection)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")

    monkeypatch.setattr(entry_store, "_configure", small_disk)
    with pytest.raises(LedgerError, match="the disk is full"):
        for index in range(100):
            ledger.charge(release(f"late-{index}"), "adult")
    monkeypatch.undo()
    assert ledger.verify(receipts).entries >= 6


def other_database(path: Path) -> None:
    with raw(path) as connection:
        connection.execute("CREATE TABLE entries (seq INTEGER PRIMARY KEY, body TEXT, hash TEXT)")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, "there is no ledger here. Create one with Ledger.create"),
        (Path.touch, "this file is empty, not a ledger"),
        (Path.mkdir, "a ledger is a file"),
        (lambda path: path.write_text("age,income\n" * 500), "this file is not a ledger"),
        (other_database, "not a Colonnade ledger"),
    ],
)
def test_what_is_not_a_ledger_is_named_and_left_alone(
    path: Path, make: Callable[[Path], None], says: str
) -> None:
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(LedgerError) as refused:
        Ledger.open(path)
    assert str(path) in str(refused.value) and says in str(refused.value)
    assert (path.read_bytes() if path.is_file() else None) == before


@pytest.mark.parametrize(
    ("statement", "error", "words"),
    [
        (
            "PRAGMA user_version = 99",
            LedgerError,
            r"format 99; this version of Colonnade reads up to 5\. Install a newer",
        ),
        ("DROP TRIGGER entries_stay", LedgerAltered, "guards"),
    ],
)
def test_a_later_version_is_not_touched_and_guards_that_were_taken_away_are_noticed(
    path: Path, statement: str, error: type[LedgerError], words: str
) -> None:
    ledger, _ = ledger_with_history(path)
    raw(path).execute(statement).connection.close()
    with pytest.raises(error, match=words):
        Ledger.open(path)
    if error is LedgerAltered:
        with pytest.raises(error, match=words):
            ledger.charge(release("late"), "adult")


def test_a_ledger_that_vanishes_does_not_come_back_empty(path: Path) -> None:
    ledger, _ = ledger_with_history(path)
    path.unlink()
    with pytest.raises(LedgerError, match="cannot be read or written"):
        ledger.charge(release("late"), "adult")
    assert not path.exists()


def test_a_locked_ledger_can_be_read_and_is_waited_for_and_then_named(path: Path) -> None:
    _, receipts = ledger_with_history(path)
    holder = raw(path)
    holder.execute("BEGIN IMMEDIATE")
    ledger = Ledger.open(path, patience=0.2)
    assert ledger.verify(receipts).entries == 6
    with pytest.raises(LedgerLocked, match=r"bank\.ledger: another process holds this ledger"):
        ledger.charge(release("late"), "adult")
    holder.execute("ROLLBACK")
    holder.close()
    assert ledger.charge(release("late"), "adult").entry == 7


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs another user to read as")
def test_a_ledger_that_may_not_be_written_says_so() -> None:
    # Root may write anything, so a child that has become nobody does the asking.
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o755)
        path = folder / "bank.ledger"
        ledger_with_history(path)
        path.chmod(0o444)
        child = os.fork()
        if child == 0:
            try:
                if os.geteuid() == 0:
                    os.setuid(65534)
                with pytest.raises(LedgerError, match="may not write to the ledger"):
                    Ledger.open(path)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        shutil.rmtree(folder)


def test_an_in_memory_ledger_behaves_like_a_file(path: Path) -> None:
    def history(ledger: Ledger) -> list[object]:
        ledger.set_budget("adult", "record", "*", epsilon=0.5, delta=DELTA)
        seen: list[object] = []
        for index in range(8):
            try:
                seen.append(ledger.charge(release(f"r{index % 6}"), "adult").entry)
            except Exception as error:
                seen.append(str(error))
        return [*seen, ledger.totals(), ledger.verify([ledger.receipt()]).entries]

    assert history(Ledger.in_memory("bank")) == history(Ledger.create(path, "bank"))
