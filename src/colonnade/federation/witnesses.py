"""Whether the ledgers of a job are those that its parties here hold receipts of, before any is made or charged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from colonnade.errors import LedgerReplaced
from colonnade.ledger import Ledger


class LedgerOwner(Protocol):
    """What a party's file says of its ledger."""

    @property
    def party(self) -> str: ...

    @property
    def path(self) -> Path: ...

    @property
    def ledger(self) -> Path:
        """Where the ledger lies, or is to lie."""
        ...

    @property
    def patience(self) -> float:
        """How many seconds to wait for other processes."""
        ...


def check_ledgers(files: Iterable[LedgerOwner]) -> None:
    """Compare every ledger with the receipts that the others hold of it; each must be there, whole and the same."""
    files = tuple(files)
    ledgers = {
        file.party: Ledger.open(file.ledger, patience=file.patience) for file in files if file.ledger.exists()
    }
    for file in files:
        check_ledger(file, ledgers)


def check_ledger(file: LedgerOwner, ledgers: Mapping[str, Ledger]) -> int:
    """Compare one party's ledger with the receipts in others' ledgers, and return how many agree.

    Raises `LedgerReplaced` where there is none although a receipt says that there was, or where it is another one,
    and `LedgerAltered` where entries are gone.
    """
    mine, agreed = ledgers.get(file.party), 0
    for peer, ledger in ledgers.items():
        receipts = ledger.receipts(file.party) if ledger.party == peer != file.party else ()
        if not receipts:
            continue
        if mine is None:
            raise LedgerReplaced(
                f"{file.ledger} does not exist, and {peer} holds receipts of a ledger of {file.party}: with a new one, "
                "what it has spent would not be counted. Nothing was charged. Restore the file from a copy; to begin "
                f"again on purpose, `colonnade ledger {file.path} --new`."
            )
        if mine.party == file.party:
            agreed += mine.verify(receipts).receipts
    return agreed
