"""Hands in the file: what the chain notices, what only receipts notice, and that nothing else rings."""

import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from ledger_samples import DELTA, append, ledger_with_history, release
from typed import untyped

from colonnade.errors import LedgerAltered, LedgerError
from colonnade.ledger import Ledger, Receipt
from colonnade.ledger.entry_store import GENESIS, write


def forge(path: Path, *statements: tuple[str, tuple[object, ...]]) -> None:
    """Change the table as someone would who knows the format: the guards come off and go back on."""
    connection = sqlite3.connect(path, isolation_level=None)
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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bank.ledger"


def test_an_untouched_ledger_rings_no_alarm(path: Path) -> None:
    ledger, receipts = ledger_with_history(path, charges=10)
    forge(path)  # the forger's tools by themselves change nothing
    for again in (ledger, Ledger.open(path)):
        found = again.verify(receipts)
        assert (found.entries, found.receipts, found.head) == (13, len(receipts), receipts[-1].head)


@pytest.mark.parametrize("column", ["body", "hash"])
def test_a_flipped_byte_in_any_entry_is_noticed_and_named(path: Path, tmp_path: Path, column: str) -> None:
    ledger, _ = ledger_with_history(path)
    for entry in ledger.entries():
        original = (entry.text if column == "body" else entry.hash).encode()
        for at in {0, len(original) // 3, len(original) // 2, len(original) - 1}:
            copy = tmp_path / "copy.ledger"
            shutil.copy(path, copy)
            changed = bytearray(original)
            changed[at] ^= 1
            forge(
                copy,
                (f"UPDATE entries SET {column} = CAST(? AS TEXT) WHERE seq = ?", (bytes(changed), entry.seq)),
            )
            with pytest.raises(
                LedgerAltered, match=rf"copy\.ledger: entry {entry.seq} does not match its hash"
            ):
                Ledger.open(copy)


def test_a_flipped_byte_anywhere_in_the_file_is_noticed_or_changes_nothing(
    path: Path, tmp_path: Path
) -> None:
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


def test_a_ledger_cut_short_or_swapped_is_noticed_by_the_process_that_holds_it(
    path: Path, tmp_path: Path
) -> None:
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


def test_a_copy_without_its_write_ahead_log_lacks_entries_and_receipts_show_it(
    path: Path, tmp_path: Path
) -> None:
    ledger, receipts = ledger_with_history(path)
    # A reader in the middle of a transaction keeps the log from being folded into the file.
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM entries").fetchone()
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
def test_an_entry_that_colonnade_would_not_write_is_noticed_though_its_hash_is_right(
    path: Path, kind: str, body: dict[str, object]
) -> None:
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
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM entries").fetchone()
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
