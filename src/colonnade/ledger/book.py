"""What a ledger's entries add up to: a fold over the chain, with no file and no clock in it.

A ledger that is opened again, a ledger that another process has written to, and a ledger that is being
verified all read the same entries through `Book.read`, so they come to the same totals.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from colonnade.errors import ColonnadeError, LedgerAltered, PrivacyError
from colonnade.ledger.budget import Account, Budget, governing
from colonnade.ledger.chain import GENESIS, Entry, canonical
from colonnade.ledger.comparison import Comparison
from colonnade.ledger.release import Receipt, Release
from colonnade.privacy.events import Composed, Event, Repeated
from colonnade.privacy.guarantee import account as account_for
from colonnade.privacy.neighbours import REPLACE, ZERO_OUT, ColumnsOf, parse_unit
from colonnade.privacy.observers import Reader

READER = Reader().name


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
    """What releases add up to: how often each event, over how many releases, how many of them seeded."""

    events: Counter[Event] = field(default_factory=Counter)
    entries: int = 0
    seeded: int = 0

    @property
    def reproducible(self) -> bool:
        """Whether any of the releases had noise from a seed."""
        return self.seeded > 0

    def take(self, release: Release, events: tuple[Event, ...]) -> None:
        """Count one more release, which is these events here."""
        self.events.update(events)
        self.entries += 1
        self.seeded += release.reproducible

    def plus(self, other: Spent) -> Spent:
        """Both together."""
        return Spent(self.events + other.events, self.entries + other.entries, self.seeded + other.seeded)

    def without(self, part: Spent) -> Spent:
        """The rest after releases that are counted here are left out."""
        return Spent(self.events - part.events, self.entries - part.entries, self.seeded - part.seeded)

    def epsilon(self, delta: float, *extra: Event) -> float:
        """ε at δ of all events together with `extra`."""
        events = self.events.copy()
        events.update(extra)
        # In one order whichever way they came: what admission computes is then, to the last bit, the next total.
        return _epsilon(tuple(sorted(events.items(), key=lambda item: repr(item[0]))), delta)


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
    origin: str = ""
    party: str = ""
    format: int = 0
    budgets: dict[Account, Budget] = field(default_factory=dict)
    # By account, what the lines that name it add up to. An observer also reads what it took no part in: `lost`.
    spent: dict[Account, Spent] = field(default_factory=dict)
    # By account, the reader's lines for that unit in releases that name the observer, which has its own lines there.
    _took_part: dict[Account, Spent] = field(default_factory=dict)
    # By data set and receiver, of how many people something left exactly, release by release.
    exact: Counter[tuple[str, str]] = field(default_factory=Counter)
    # Release id → what was charged under it, as canonical text, and the receipt.
    charged: dict[str, tuple[str, Receipt]] = field(default_factory=dict)
    # Peers' receipts, in the order they came.
    receipts: dict[Receipt, None] = field(default_factory=dict)
    # When and with whom ids were compared, in order.
    comparisons: list[Comparison] = field(default_factory=list)

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
        self.origin = self.origin or entry.hash

    def _take(self, entry: Entry) -> None:
        body = entry.body
        match entry.kind:
            case "opened":
                self.party, self.format = body["party"], body["format"]
            case "budget":
                budget = budget_from_data(body)
                self.budgets[budget.account] = budget
            case "charge":
                self._charge(body, Receipt(self.party, entry.seq, entry.hash, self.origin))
            case "receipt":
                self.receipts[Receipt.from_data(body)] = None
            case "compared":
                self.comparisons.append(Comparison.from_data(body, time=entry.time))
            case _:
                raise ValueError(f"of unknown kind {entry.kind!r}")

    def _charge(self, body: Any, receipt: Receipt) -> None:
        release = Release.from_data(body["release"])
        if release.id in self.charged:
            raise ValueError(f"release {release.id!r} is charged twice")
        named = accounts(release, body["dataset"])
        for account in named:
            self.spent.setdefault(account, Spent()).take(release, events_of(release, account))
        for observer in dict.fromkeys(account.observer for account in named if account.observer != READER):
            for account in named:
                if account.observer == READER:
                    both = self._took_part.setdefault(replace(account, observer=observer), Spent())
                    both.take(release, events_of(release, account))
        if release.exact:
            self.exact[body["dataset"], release.receiver] += release.exact
        self.charged[release.id] = (canonical(body), receipt)

    def governing(self, account: Account) -> tuple[Budget, ...]:
        """The budgets that the account must keep, none if nobody declared one."""
        return governing(self.budgets.values(), account)

    def lost(self, account: Account) -> Spent:
        """All that the account's observer has seen: where it took part its own lines, elsewhere the reader's."""
        own = self.spent.get(account, Spent())
        if account.observer == READER or (unit := reading(account.unit)) is None:
            return own
        read = self.spent.get(Account(account.dataset, unit, READER), Spent())
        return own.plus(read.without(self._took_part.get(replace(account, unit=unit), Spent())))

    def known(self) -> tuple[Account, ...]:
        """Every account that was charged by name, or that a budget names in full, in order of name."""
        named = {account for account, budget in self.budgets.items() if budget.closeness == 2}
        return tuple(sorted(named | self.spent.keys()))

    def total(self, account: Account) -> Total | None:
        """The account against the budget that leaves it least; None without a budget."""
        spent = self.lost(account)
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
        """The totals of all known accounts, in order of name."""
        found = (self.total(account) for account in self.known())
        return tuple(total for total in found if total is not None)


def reading(unit: str) -> str | None:
    """The reader's unit that bounds what somebody who only reads learns about `unit`; None if none does.

    A part of one record is replaced within a record that is replaced whole. Columns change in every record,
    and no line about one record bounds that.

    >>> reading("record"), reading("others-part"), reading("columns:bank")
    ('record', 'record-replaced', None)
    """
    if isinstance(parse_unit(unit), ColumnsOf):
        return None
    return unit if unit == ZERO_OUT.name else REPLACE.name


def accounts(release: Release, dataset: str) -> tuple[Account, ...]:
    """The accounts that the lines of a release name, each once, in the order of its lines."""
    return tuple(dict.fromkeys(Account(dataset, line.unit, line.observer) for line in release.lines))


def events_of(release: Release, account: Account) -> tuple[Event, ...]:
    """What the release is to one account: its own lines if any names the observer, else what a reader gets."""
    unit: str | None = account.unit
    observer = account.observer
    if all(line.observer != observer for line in release.lines):
        unit, observer = reading(account.unit), READER
    return tuple(line.event for line in release.lines if (line.unit, line.observer) == (unit, observer))


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
