"""Each party's own ledger: budgets, charges before releases, receipts for peers."""

from colonnade.ledger.admission import Opening, Verified
from colonnade.ledger.bounds import Account, Budget
from colonnade.ledger.entry_store import Entry
from colonnade.ledger.ledger import Ledger
from colonnade.ledger.release import CoalitionBound, HoldoutSplit, LedgerLine, Part, Receipt, Release
from colonnade.ledger.state import Comparison, Decision, Total

__all__ = [
    "Account",
    "Budget",
    "CoalitionBound",
    "Comparison",
    "Decision",
    "Entry",
    "HoldoutSplit",
    "Ledger",
    "LedgerLine",
    "Opening",
    "Part",
    "Receipt",
    "Release",
    "Total",
    "Verified",
]
