"""Small releases and ledgers that the ledger's tests share."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from colonnade.ledger import Decision, Ledger, LedgerLine, Receipt, Release
from colonnade.ledger.entry_store import write
from colonnade.privacy.events import Event, Gaussian

DELTA = 1e-5

STEP = Gaussian(sensitivity=1, sigma=16)
DECISION = Decision(
    "j1", "ab" * 32, "a count", (("server", "record", 0.5),), by="Ada", approved=True, party="bank"
)


def release(
    name: str,
    *lines: LedgerLine,
    event: Event = STEP,
    observer: str = "server",
    unit: str = "record",
    what: str = "second moments",
    reproducible: bool = False,
    **more: Any,
) -> Release:
    """A release with these lines, or with one of this event."""
    lines = lines or (LedgerLine(observer, unit, event),)
    return Release(name, "run-1", "5f0c", what, "server", lines, reproducible, **more)


def book(party: str = "bank", dataset: str = "adult", epsilon: float = 1.0) -> Ledger:
    """A ledger with one budget for everybody."""
    ledger = Ledger.in_memory(party)
    ledger.set_budget(dataset, "*", "*", epsilon=epsilon, delta=DELTA)
    return ledger


def epsilons(ledger: Ledger) -> dict[tuple[str, str], float]:
    return {(total.unit, total.observer): total.epsilon for total in ledger.totals()}


def format_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def append(path: Path, kind: str, body: Any) -> int:
    """Write an entry as somebody would who knows the format: its hash is right. Its number comes back."""
    last = Ledger.open(path).receipt()
    entry = write(last.entry + 1, last.head, kind=kind, time="2030-01-01", body=body)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO entries VALUES (?, ?, ?)", (entry.seq, entry.text, entry.hash))
    return entry.seq


def ledger_with_history(
    path: Path, *, charges: int = 3, epsilon: float = 100.0
) -> tuple[Ledger, list[Receipt]]:
    """A ledger file with an opening, a budget, charges and a peer's receipt, and the receipts it gave."""
    ledger = Ledger.create(path, "bank")
    ledger.set_budget("adult", "record", "server", epsilon=epsilon, delta=DELTA)
    receipts = [ledger.charge(release(f"r{index}"), "adult") for index in range(charges)]
    ledger.keep_receipt(Receipt("insurer", entry=7, head="ab" * 32))
    return ledger, [*receipts, ledger.receipt()]
