"""What a ledger's entries add up to: a fold over the chain, with no file and no clock in it.

A ledger that is opened again, a ledger that another process has written to, and a ledger that is being
verified all read the same entries through `Book.read`, so they come to the same totals.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

from colonnade.errors import ColonnadeError, LedgerAltered, PrivacyError
from colonnade.ledger.budget import Account, Budget, governing
from colonnade.ledger.chain import GENESIS, Entry, canonical
from colonnade.ledger.release import Receipt, Release
from colonnade.privacy.events import Composed, Event, Repeated
from colonnade.privacy.guarantee import account as account_for


@dataclass(frozen=True)
class Total:
    """What one account has lost so far, at its budget's δ, and what is left of the budget.

    `reproducible` means that some of it was released with seeded noise, which protects nobody: for this
    account ε is then no guarantee. `left` is never negative, also after a budget was lowered.

    >>> Total("adult", "record", "server", epsilon=0.25, delta=1e-5, budget_epsilon=1.0, left=0.75,
    ...       entries=1, reproducible=False).left
    0.75
    """

    dataset: str
    unit: str
    observer: str
    epsilon: float
    delta: float
    budget_epsilon: float
    left: float
    entries: int
    reproducible: bool


@dataclass
class Spent:
    """Everything that was charged to one account: how often each event, over how many releases."""

    events: Counter[Event] = field(default_factory=Counter)
    entries: int = 0
    reproducible: bool = False

    def epsilon(self, delta: float, *extra: Event) -> float:
        """ε at δ of all events together with `extra`."""
        events = self.events.copy()
        events.update(extra)
        return _epsilon(tuple(events.items()), delta)


@dataclass
class Book:
    """The state of the ledger at `where` after entry `seq`, whose hash is `head`.

    >>> from colonnade.ledger.chain import write
    >>> book = Book("bank.ledger")
    >>> book.read(write(1, GENESIS, kind="opened", time="2030-01-01", body={"party": "bank", "format": 1}))
    >>> book.party, book.seq, book.totals()
    ('bank', 1, ())
    """

    where: str
    seq: int = 0
    head: str = GENESIS
    party: str = ""
    format: int = 0
    budgets: dict[Account, Budget] = field(default_factory=dict)
    spent: dict[Account, Spent] = field(default_factory=dict)
    # Release id → what was charged under it, as canonical text, and the receipt.
    charged: dict[str, tuple[str, Receipt]] = field(default_factory=dict)
    # Peers' receipts, in the order they came.
    receipts: dict[Receipt, None] = field(default_factory=dict)

    def read(self, entry: Entry) -> None:
        """Take in the entry after the last one; the caller has checked the chain."""
        if (entry.kind == "opened") != (self.seq == 0):
            raise LedgerAltered(
                f"{self.where}: entry {entry.seq} is {entry.kind!r}; a ledger opens at entry 1, once."
            )
        try:
            self._take(entry)
        except (KeyError, TypeError, ValueError, ColonnadeError) as error:
            raise LedgerAltered(
                f"{self.where}: entry {entry.seq} is not one that Colonnade writes ({error})."
            ) from error
        self.seq, self.head = entry.seq, entry.hash

    def _take(self, entry: Entry) -> None:
        body = entry.body
        match entry.kind:
            case "opened":
                self.party, self.format = body["party"], body["format"]
            case "budget":
                budget = budget_from_data(body)
                self.budgets[budget.account] = budget
            case "charge":
                self._charge(body, Receipt(party=self.party, entry=entry.seq, head=entry.hash))
            case "receipt":
                self.receipts[Receipt.from_data(body)] = None
            case _:
                raise ValueError(f"of unknown kind {entry.kind!r}")

    def _charge(self, body: Any, receipt: Receipt) -> None:
        release = Release.from_data(body["release"])
        if release.id in self.charged:
            raise ValueError(f"release {release.id!r} is charged twice")
        for account in accounts(release, body["dataset"]):
            spent = self.spent.setdefault(account, Spent())
            spent.events.update(events_of(release, account))
            spent.entries += 1
            spent.reproducible |= release.reproducible
        self.charged[release.id] = (canonical(body), receipt)

    def governing(self, account: Account) -> tuple[Budget, ...]:
        """The budgets that the account must keep, none if nobody declared one."""
        return governing(self.budgets.values(), account)

    def total(self, account: Account) -> Total | None:
        """The account against the budget that leaves it least; None without a budget."""
        spent = self.spent.get(account, Spent())
        found = [
            Total(
                dataset=account.dataset,
                unit=account.unit,
                observer=account.observer,
                epsilon=(epsilon := spent.epsilon(budget.delta)),
                delta=budget.delta,
                budget_epsilon=budget.epsilon,
                left=left(budget.epsilon, epsilon),
                entries=spent.entries,
                reproducible=spent.reproducible,
            )
            for budget in self.governing(account)
        ]
        return min(found, key=lambda total: total.left, default=None)

    def totals(self) -> tuple[Total, ...]:
        """Every account that was charged, or that a budget names in full, in order of name."""
        named = {account for account, budget in self.budgets.items() if budget.closeness == 2}
        found = (self.total(account) for account in sorted(named | self.spent.keys()))
        return tuple(total for total in found if total is not None)


def accounts(release: Release, dataset: str) -> tuple[Account, ...]:
    """The accounts that a release falls on, each once, in the order of its lines."""
    return tuple(dict.fromkeys(Account(dataset, line.unit, line.observer) for line in release.lines))


def events_of(release: Release, account: Account) -> tuple[Event, ...]:
    """What the release is to one account."""
    return tuple(
        line.event for line in release.lines if (line.unit, line.observer) == (account.unit, account.observer)
    )


def budget_to_data(budget: Budget) -> dict[str, Any]:
    """The body of a budget entry."""
    account = budget.account
    return {
        "dataset": account.dataset,
        "unit": account.unit,
        "observer": account.observer,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
    }


def budget_from_data(data: Any) -> Budget:
    """The budget that `budget_to_data` wrote."""
    account = Account(data["dataset"], data["unit"], data["observer"])
    return Budget(account, epsilon=data["epsilon"], delta=data["delta"])


def left(budget: float, epsilon: float) -> float:
    """What remains of a budget, rounded down, never below 0.

    >>> left(1.0, 0.25), left(1.0, 2.0)
    (0.75, 0.0)
    """
    rest = budget - epsilon
    # ε = ∞ is a lawful cost (a release without noise); Fraction has no infinities.
    if math.isfinite(rest) and Fraction(rest) > Fraction(budget) - Fraction(epsilon):
        rest = math.nextafter(rest, -math.inf)
    return max(0.0, rest)


@lru_cache(maxsize=4096)
def _epsilon(events: tuple[tuple[Event, int], ...], delta: float) -> float:
    # Equal events are grouped, so that a thousand equal releases cost the accountant what one does; a
    # single one is passed bare, so that a plan calibrated to exactly ε is charged exactly that ε.
    grouped = tuple(event if times == 1 else Repeated(event, times) for event, times in events)
    if not grouped:
        return 0.0
    try:
        return account_for(grouped[0] if len(grouped) == 1 else Composed(grouped), delta).epsilon
    except PrivacyError:
        # No ε is proved at this δ, as when it is smaller than the samplers' distance from their law.
        return math.inf
