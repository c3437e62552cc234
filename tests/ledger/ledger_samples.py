"""Small releases and ledgers that the ledger's tests share."""

from pathlib import Path

from colonnade.ledger import Ledger, LedgerLine, Receipt, Release
from colonnade.privacy.events import Event, Gaussian

DELTA = 1e-5
STEP = Gaussian(sensitivity=1, sigma=16)


def release(
    name: str,
    *,
    event: Event = STEP,
    observer: str = "server",
    unit: str = "record",
    reproducible: bool = False,
    what: str = "second moments",
) -> Release:
    return Release(
        id=name,
        run="run-1",
        plan="5f0c",
        what=what,
        receiver="server",
        lines=(LedgerLine(observer, unit, event),),
        reproducible=reproducible,
    )


def ledger_with_history(
    path: Path, *, charges: int = 3, epsilon: float = 100.0
) -> tuple[Ledger, list[Receipt]]:
    """A ledger file with an opening, a budget, charges and a peer's receipt, and the receipts it gave."""
    ledger = Ledger.create(path, "bank")
    ledger.set_budget("adult", "record", "server", epsilon=epsilon, delta=DELTA)
    receipts = [ledger.charge(release(f"r{index}"), "adult") for index in range(charges)]
    ledger.keep_receipt(Receipt("insurer", entry=7, head="ab" * 32))
    return ledger, [*receipts, ledger.receipt()]
