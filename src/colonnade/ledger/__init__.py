"""Each party's own ledger: budgets, charges before releases, receipts for peers."""

from colonnade.ledger.admission import Verified
from colonnade.ledger.budget import Account, Budget
from colonnade.ledger.chain import Entry
from colonnade.ledger.comparison import Comparison
from colonnade.ledger.decision import Decision
from colonnade.ledger.ledger import Ledger
from colonnade.ledger.opening import Opening
from colonnade.ledger.parts import Cut, Part
from colonnade.ledger.release import CoalitionBound, LedgerLine, Receipt, Release
from colonnade.ledger.state import Total

__all__ = [
    "Account",
    "Budget",
    "CoalitionBound",
    "Comparison",
    "Cut",
    "Decision",
    "Entry",
    "Ledger",
    "LedgerLine",
    "Opening",
    "Part",
    "Receipt",
    "Release",
    "Total",
    "Verified",
]
