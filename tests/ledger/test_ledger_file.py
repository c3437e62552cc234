"""The file: what it refuses, what it survives, and what it says when it cannot be used."""

import errno
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from ledger_samples import DELTA, append, ledger_with_history, release
from typed import untyped

from colonnade.errors import LedgerAltered, LedgerError, LedgerLocked, LedgerNewer
from colonnade.ledger import Ledger, Receipt, entry_store
from colonnade.ledger.entry_store import GENESIS, Page, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bank.ledger"


def raw(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


def test_the_table_can_only_grow_at_its_end(path: Path) -> None:
    ledger, receipts = ledger_with_history(path)
    connection = raw(path)
    for statement in (
        "UPDATE entries SET body = '{}' WHERE seq = 3",
        "UPDATE entries SET hash = 'x'",
        "DELETE FROM entries",
        "DELETE FROM entries WHERE seq = 6",
        "INSERT OR REPLACE INTO entries VALUES (3, '{}', 'x')",
        "INSERT INTO entries VALUES (9, '{}', 'x')",
        "INSERT INTO entries VALUES (NULL, '{}', 'x')",
    ):
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


def test_a_new_ledger_is_its_owners_and_never_created_over_a_file_or_nowhere(path: Path) -> None:
    ledger, receipts = ledger_with_history(path)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(LedgerError, match="the file exists"):
        Ledger.create(path, "bank")
    assert ledger.verify(receipts).entries == 6
    with pytest.raises(LedgerError, match="Choose a directory that exists"):
        Ledger.create(path.parent / "nowhere" / "bank.ledger", "bank")


def test_where_files_have_no_second_names_the_first_to_make_a_ledger_has_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.EPERM, "not permitted")

    monkeypatch.setattr(os, "link", none)
    assert Ledger.create(path, "bank").verify().entries == 1
    with pytest.raises(LedgerError, match="the file exists"):
        Ledger.create(path, "bank")


def test_an_error_inside_a_charge_leaves_no_trace(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, receipts = ledger_with_history(path)
    written = Page.append

    def interrupted(page: Page, entry: object) -> None:
        written(page, entry)  # type: ignore[arg-type]
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
    failed = sqlite3.OperationalError("disk I/O error")
    failed.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
    with (
        pytest.raises(LedgerError, match="Its disk is full or fails"),
        entry_store._translated("bank.ledger"),
    ):
        raise failed


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
def test_what_is_no_ledger_is_named_and_kept(path: Path, make: Callable[[Path], None], says: str) -> None:
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(LedgerError) as refused:
        Ledger.open(path)
    assert str(path) in str(refused.value) and says in str(refused.value)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_guards_that_were_taken_away_are_noticed_and_a_later_version_is_not_touched(path: Path) -> None:
    ledger, _ = ledger_with_history(path)
    raw(path).execute("DROP TRIGGER entries_stay").connection.close()
    for use in (lambda: Ledger.open(path), lambda: ledger.charge(release("late"), "adult")):
        with pytest.raises(LedgerAltered, match="guards"):
            use()
    raw(path).execute("PRAGMA user_version = 99").connection.close()
    with pytest.raises(
        LedgerNewer, match=r"format 99; this version of Colonnade reads up to 5\. Install a newer"
    ):
        Ledger.open(path)


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


def test_the_engine_never_waits_for_longer_than_ctrl_c_may_go_unheard(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger_with_history(path)
    waits: list[float] = []
    connect = sqlite3.connect

    def noted(*args: object, **options: float) -> sqlite3.Connection:
        waits.append(options["timeout"])
        found: sqlite3.Connection = connect(*args, **options)  # type: ignore[call-overload]
        return found

    monkeypatch.setattr(sqlite3, "connect", noted)
    Ledger.open(path, patience=60.0)
    Ledger.open(path, patience=0.001)
    assert max(waits) <= 1.0 and min(waits) == 0.001


@pytest.mark.parametrize("closed", ["the file", "its directory"])
def test_a_ledger_that_may_not_be_written_says_so(
    path: Path, monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    ledger_with_history(path)
    # Root may write anything.
    refused = path if closed == "the file" else path.parent
    monkeypatch.setattr(os, "access", lambda place, mode: not (place == refused and mode & os.W_OK))
    with pytest.raises(LedgerError, match="may not write to the ledger"):
        Ledger.open(path)


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


# Hands in the file: what the chain notices, what only receipts notice, and that nothing else rings.


def forge(path: Path, *statements: tuple[str, tuple[object, ...]]) -> None:
    """Change the table as someone would who knows the format: the guards come off and go back on."""
    connection = raw(path)
    guards = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY rowid"
    ).fetchall()
    for name, _ in guards:
        connection.execute(f"DROP TRIGGER {name}")
    for statement, values in statements:
        connection.execute(statement, values)
    for _, sql in guards:
        connection.execute(sql)
    connection.close()


def test_an_untouched_ledger_rings_no_alarm(path: Path) -> None:
    ledger, receipts = ledger_with_history(path, charges=10)
    forge(path)  # the forger's tools by themselves change nothing
    for again in (ledger, Ledger.open(path)):
        found = again.verify(receipts)
        assert (found.entries, found.receipts, found.head) == (13, len(receipts), receipts[-1].head)


def test_a_flipped_byte_in_the_file_is_noticed_or_changes_nothing(path: Path, tmp_path: Path) -> None:
    ledger, receipts = ledger_with_history(path)
    entries, image = ledger.entries(), path.read_bytes()
    rng = np.random.default_rng(20)
    noticed = 0
    for at in [*range(100), *rng.integers(0, len(image), 250)]:
        copy = tmp_path / "copy.ledger"
        changed = bytearray(image)
        changed[at] ^= 1 << int(rng.integers(8))
        copy.write_bytes(changed)
        try:
            opened = Ledger.open(copy, patience=0.1)
            opened.verify(receipts)
        except LedgerError:
            noticed += 1
        else:
            assert opened.entries() == entries
        for leftover in tmp_path.glob("copy.ledger*"):
            leftover.unlink()
    assert noticed > 100


@pytest.mark.parametrize(
    ("gone", "words"), [("WHERE seq = 4", "entry 4 is missing"), ("", "all of its entries are gone")]
)
def test_entries_taken_from_the_middle_or_all_of_them_are_noticed(path: Path, gone: str, words: str) -> None:
    ledger_with_history(path)
    forge(path, (f"DELETE FROM entries {gone}", ()))
    with pytest.raises(LedgerAltered, match=words):
        Ledger.open(path)


def test_entries_cut_off_the_end_are_noticed_against_receipts_and_only_against_them(path: Path) -> None:
    _, receipts = ledger_with_history(path)
    forge(path, ("DELETE FROM entries WHERE seq >= 5", ()))
    cut = Ledger.open(path)
    assert cut.verify(receipts[:2]).entries == 4  # entries 3 and 4 are still there
    with pytest.raises(LedgerAltered, match="ends at entry 4, so entry 5 and what followed were cut off"):
        cut.verify(receipts)


def test_a_history_written_anew_is_noticed_against_receipts(path: Path, tmp_path: Path) -> None:
    ledger, receipts = ledger_with_history(path)
    kept = [entry for entry in ledger.entries() if entry.seq != 4]
    head, statements = GENESIS, [("DELETE FROM entries", ())]
    for seq, entry in enumerate(kept, start=1):
        anew = write(seq, head, kind=entry.kind, time=entry.time, body=entry.body)
        statements.append(untyped(("INSERT INTO entries VALUES (?, ?, ?)", (seq, anew.text, anew.hash))))
        head = anew.hash
    forge(path, *statements)
    forged = Ledger.open(path)
    assert forged.verify().entries == 5  # a chain made with care is whole
    assert forged.verify(receipts[:1]).receipts == 1  # and this far it is the old one
    with pytest.raises(LedgerAltered, match="entry 4 is not the one that a peer holds a receipt for"):
        forged.verify(receipts)


def test_a_ledger_cut_or_swapped_is_noticed_by_whoever_holds_it(path: Path, tmp_path: Path) -> None:
    swapped, (cut, _) = tmp_path / "swapped.ledger", ledger_with_history(path)
    forge(path, ("DELETE FROM entries WHERE seq >= 5", ()))
    for use in (cut.totals, cut.verify, lambda: cut.charge(release("late"), "adult")):
        with pytest.raises(LedgerAltered, match="entry 6 has changed or gone"):
            use()
    ledger, _ = ledger_with_history(swapped)
    ledger_with_history(tmp_path / "other.ledger")
    shutil.copy(tmp_path / "other.ledger", swapped)
    with pytest.raises(LedgerAltered):
        ledger.charge(release("late"), "adult")


def reading(path: Path) -> sqlite3.Connection:
    """A reader in the middle of a transaction, which keeps the log from being folded into the file."""
    reader = raw(path)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM entries").fetchone()
    return reader


def test_a_copy_without_its_log_lacks_entries_and_receipts_show_it(path: Path, tmp_path: Path) -> None:
    ledger, receipts = ledger_with_history(path)
    reader = reading(path)
    late = ledger.charge(release("late"), "adult")
    assert Path(f"{path}-wal").stat().st_size > 0
    shutil.copy(path, tmp_path / "alone.ledger")
    shutil.copy(path, tmp_path / "whole.ledger")
    shutil.copy(f"{path}-wal", tmp_path / "whole.ledger-wal")
    reader.close()

    alone = Ledger.open(tmp_path / "alone.ledger")
    assert alone.verify(receipts).entries == 6
    with pytest.raises(LedgerAltered, match="cut off"):
        alone.verify([late])
    assert Ledger.open(tmp_path / "whole.ledger").verify([late]).entries == 7


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_file_cut_short_is_noticed(path: Path, share: float) -> None:
    _, receipts = ledger_with_history(path, charges=20)
    image = path.read_bytes()
    path.write_bytes(image[: int(len(image) * share)])
    with pytest.raises(LedgerError):
        Ledger.open(path).verify(receipts)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("opened", {"party": "bank", "format": 1}),
        ("refund", {"dataset": "adult"}),
        ("charge", {"dataset": "adult"}),
        ("budget", {"dataset": "adult", "unit": "*", "observer": "*", "epsilon": -1, "delta": DELTA}),
        ("receipt", {"party": "insurer", "entry": 0, "head": ""}),
    ],
)
def test_an_entry_with_a_right_hash_alone_is_noticed(path: Path, kind: str, body: dict[str, object]) -> None:
    ledger, _ = ledger_with_history(path)
    append(path, kind, body)
    for use in (ledger.totals, lambda: Ledger.open(path)):
        with pytest.raises(LedgerAltered, match=r"bank\.ledger: entry 7 "):
            use()


def test_a_charge_repeated_in_the_file_and_a_receipt_of_another_party_are_noticed(path: Path) -> None:
    ledger, _ = ledger_with_history(path)
    with pytest.raises(LedgerError, match="the ledger of bank, and a receipt of insurer"):
        ledger.verify([Receipt("insurer", entry=1, head=ledger.receipt().head)])
    append(path, "charge", ledger.entries()[2].body)
    with pytest.raises(LedgerAltered, match="'r0' is charged twice"):
        Ledger.open(path)


def test_a_log_cut_off_anywhere_leaves_a_whole_beginning_of_the_history(path: Path, tmp_path: Path) -> None:
    # What a power failure leaves of a log that was not yet flushed: some beginning of it.
    ledger, _ = ledger_with_history(path)
    reader = reading(path)
    for index in range(4):
        ledger.charge(release(f"late-{index}"), "adult")
    image, log, entries = path.read_bytes(), Path(f"{path}-wal").read_bytes(), ledger.entries()
    reader.close()

    lengths = set()
    for size in np.linspace(0, len(log), 60, dtype=int):
        copy = tmp_path / "copy.ledger"
        copy.write_bytes(image)
        Path(f"{copy}-wal").write_bytes(log[:size])
        opened = Ledger.open(copy)
        length = len(opened.entries())
        assert opened.entries() == entries[:length]
        assert opened.verify([Receipt("bank", length, entries[length - 1].hash)]).entries == length
        lengths.add(length)
        for leftover in tmp_path.glob("copy.ledger*"):
            leftover.unlink()
    assert lengths == {6, 7, 8, 9, 10}
