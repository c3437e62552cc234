"""Yes or no: whether a release fits its budgets, and whether a ledger is the one that peers know."""

from __future__ import annotations

import hmac
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from colonnade.errors import BudgetExceeded, InputError, LedgerAltered, LedgerError, LedgerReplaced
from colonnade.ledger.bounds import ANY, Account, Budget, bound
from colonnade.ledger.entry_store import FORMAT, GENESIS, Entry, canonical, now, write
from colonnade.ledger.release import Receipt, Release
from colonnade.ledger.state import LedgerState, accounts, left
from colonnade.privacy.observers import Coalition, named_observer

TAG_BYTES = 32
NOTHING = bytes(TAG_BYTES)
"""The tag of whoever knows no entry, or cannot prove the one that was named."""


@dataclass(frozen=True)
class Claim:
    """In a run, `holder` knows the entry with this number, 0 for none; the tag shows that it knows the head there."""

    holder: str
    run: str
    entry: int = 0
    tag: bytes = NOTHING

    @classmethod
    def of(cls, receipt: Receipt | None, *, holder: str, run: str) -> Claim:
        if receipt is None:
            return cls(holder, run)
        return cls(holder, run, receipt.entry, _tag(receipt, "knows", holder, run))

    def answer(self, own: Receipt | None, *, where: str) -> bytes:
        """The proof by a ledger whose own receipt for this entry is `own`, None if it has no such entry.

        Whoever does not know the head at the entry that it names gets no tag under it, but `LedgerAltered`.
        """
        if own is not None and hmac.compare_digest(self.tag, _tag(own, "knows", self.holder, self.run)):
            return _tag(own, "proves", self.holder, self.run)
        fault = "this ledger ends before it" if own is None else "this ledger has another one in its place"
        raise LedgerAltered(
            f"{where}: {self.holder} says that it holds a receipt for entry {self.entry}, and {fault}: an old copy was "
            "put back, or entries were cut off or written anew, and what they counted is not counted here. Nothing was "
            "charged. "
            f"Restore the newest copy, and compare it with `colonnade ledger PARTY --witness` and an export of "
            f"{self.holder}'s ledger; where no copy has the entry, nothing counts it by itself: lower the budgets by "
            "what is missing, as `colonnade explain E601` says."
        )

    def is_proved_by(self, answer: bytes, receipt: Receipt) -> bool:
        return hmac.compare_digest(answer, _tag(receipt, "proves", self.holder, self.run))


def check_announced(receipt: Receipt, kept: Sequence[Receipt], *, after: int | None, where: str) -> None:
    """Return if a peer's receipt may follow those that are kept of the same ledger; else `LedgerAltered`.

    `after` is the entry that the peer proved before it wrote this one; None: the highest that is kept.
    """
    same = [earlier for earlier in kept if receipt.origin and receipt.same_ledger(earlier)]
    remedy = (
        f"so entries of that ledger were cut off. Both receipts are kept here as evidence; ask {receipt.party} to "
        "restore its ledger from a copy."
    )
    if any(receipt.contradicts(earlier) for earlier in same):
        raise LedgerAltered(
            f"{where}: {receipt.party} gives another head for entry {receipt.entry} of its ledger than it gave "
            f"before, {remedy}"
        )
    highest = max((earlier.entry for earlier in same), default=0) if after is None else after
    if receipt not in same and receipt.entry <= highest:
        raise LedgerAltered(
            f"{where}: {receipt.party} gives a receipt for entry {receipt.entry} of its ledger after one for entry "
            f"{highest}, {remedy}"
        )


def _tag(receipt: Receipt, *said: str) -> bytes:
    text = canonical([receipt.party, receipt.origin, receipt.entry, *said])
    return hmac.digest(bytes.fromhex(receipt.head), text.encode(), "sha256")


@dataclass(frozen=True)
class Opening:
    """Whose ledger it is, the hash of its first entry, and whether that entry says that it was begun anew."""

    party: str
    origin: str
    anew: bool

    def highest(self, receipts: Iterable[Receipt]) -> Receipt | None:
        """The receipt of this very ledger for its highest entry, of two for one entry the first; None without any."""
        own = [kept for kept in receipts if (kept.party, kept.origin) == (self.party, self.origin)]
        return max(own, key=lambda kept: kept.entry, default=None)

    def check(self, receipts: Iterable[Receipt], *, where: str, holder: str) -> None:
        """Return if the ledger is one that the holder of these receipts knows, or was begun anew on purpose.

        A party may keep several ledgers, each for data of its own, and a receipt without an origin says nothing.
        """
        origins = {receipt.origin for receipt in receipts if receipt.party == self.party and receipt.origin}
        if self.anew or not origins or self.origin in origins:
            return
        raise LedgerReplaced(
            f"{where} is not the ledger of {self.party} that {holder} holds receipts of, and does not say that it was "
            f"begun anew: what {self.party} has spent would not be counted. Nothing was charged. Restore that ledger "
            f"from a copy; to begin again on purpose, {self.party} runs `colonnade ledger PARTY --new`."
        )


def first_entry(party: str, reason: str) -> Entry:
    """The entry that a ledger begins with; `reason` says why it is begun although there was one before."""
    if not isinstance(party, str) or not party:
        raise InputError(f"a ledger belongs to a party; found {party!r}. Give the party's name.")
    body = {"party": party, "format": FORMAT, **({"reason": reason} if reason else {})}
    return write(1, GENESIS, kind="opened", time=now(), body=body)


@dataclass(frozen=True)
class Verified:
    """What `Ledger.verify` found in order: so many entries up to this head, and so many receipts."""

    party: str
    entries: int
    head: str
    receipts: int


def admit(state: LedgerState, release: Release, dataset: str) -> None:
    """Return if every account that the release adds to stays within every budget that governs it.

    Those are the accounts that it names, and the known accounts of the data set that one of its lines bounds, or that
    none does: these count ε = ∞. Raises `BudgetExceeded` for the first that would not stay within, or that the release
    names and that has no budget.
    """
    named = accounts(release, dataset)
    for account in dict.fromkeys((*named, *(other for other in state.known() if other.dataset == dataset))):
        budgets = state.governing(account)
        if not budgets:
            raise BudgetExceeded(
                f"{state.party} has declared no budget for {account}, so it does not release {release.what} to "
                f"{release.receiver}. Add a [[budget]] for it to the party's file, or in Python call "
                f"set_budget('{account.dataset}', '{account.unit}', '{account.observer}', epsilon=…, delta=…)."
            )
        for budget in budgets:
            _admit(state, release, account, budget)


def charged_before(state: LedgerState, release: Release, text: str, *, fresh: bool) -> Receipt | None:
    """The receipt of a release whose id was charged already; None if it was not.

    `text` is what would be written. Raises `LedgerError` if the id was charged for something else, where the
    second release would leave uncounted, and with `fresh` if it was charged at all.
    """
    if release.id not in state.charged:
        return None
    before, receipt = state.charged[release.id]
    if before != text:
        raise LedgerError(
            f"{state.where}: release id '{release.id}' was charged at entry {receipt.entry} for something else. "
            "Give every release an id of its own; a run that starts again takes a new run id."
        )
    if fresh:
        raise LedgerError(
            f"{state.party}: release {release.id!r} was charged before, at entry {receipt.entry}; a second draw of its "
            "noise would be a second release. Start a new run."
        )
    return receipt


def check_witnesses(
    opening: Opening, receipts: Sequence[Receipt], heads: Sequence[str], *, where: str
) -> int:
    """Return how many receipts a history was given for, if none of them says otherwise; `heads[n]` is entry n's hash.

    Receipts of another ledger of the party, before this one or beside it, say nothing about this history, but one of
    them must be of it, or it says that it was begun anew.
    """
    for receipt in receipts:
        if receipt.party != opening.party:
            raise LedgerError(
                f"{where}: this is the ledger of {opening.party}, and a receipt of {receipt.party} says nothing about "
                "it. Pass only receipts of this party."
            )
    opening.check(receipts, where=where, holder="a peer")
    own, last = [receipt for receipt in receipts if receipt.origin in ("", opening.origin)], len(heads) - 1
    for receipt in own:
        if receipt.entry > last:
            raise LedgerAltered(
                f"{where}: a peer holds a receipt for entry {receipt.entry}, and the ledger ends at entry {last}, so "
                f"entry {last + 1} and what followed were cut off. Restore the file from a copy; until then its "
                "totals are too small."
            )
        if receipt.head != heads[receipt.entry]:
            raise LedgerAltered(
                f"{where}: entry {receipt.entry} is not the one that a peer holds a receipt for, so it or an entry "
                "before it was written anew. Restore the file from a copy; until then its totals may be too small."
            )
    return len(own)


def _admit(state: LedgerState, release: Release, account: Account, budget: Budget) -> None:
    added = bound(release, account, budget.delta)
    if added.unbounded:
        if math.isinf(budget.epsilon):
            return
        raise BudgetExceeded(
            f"{state.party}: what {release.what} would show {account.observer} is bounded by nothing, because "
            f"{added.reason}. That counts as ε = ∞, and {account} has a budget of {_down(budget.epsilon)} "
            f"at δ = {budget.delta:g}. {_remedy(account, budget)}"
        )
    # An account to which the release adds nothing is no reason to refuse it, also if it is overdrawn.
    if not added.events:
        return
    spent = state.lost(account, budget.delta)
    after = spent.epsilon(budget.delta, *added.events, part=state.added_part(release, account))
    # Written so that a cost that is not a number is refused too.
    if not after <= budget.epsilon:
        before = spent.epsilon(budget.delta)
        if spent.because:
            raise BudgetExceeded(
                f"{state.party}: {account} stands at ε = ∞ already, because of {spent.because}. It has a budget of "
                f"{_down(budget.epsilon)} at δ = {budget.delta:g}. {_remedy(account, budget)}"
            )
        why = f" {account.observer} takes no part in this and reads what is published." if added.reads else ""
        raise BudgetExceeded(
            f"{state.party}: releasing {release.what} to {release.receiver} costs ε = {_up(after - before)}; "
            f"{_down(left(budget.epsilon, before))} is left of {_down(budget.epsilon)} ({account}, "
            f"δ = {budget.delta:g}).{why} Raise the budget, or lower epsilon in the job."
        )


def _remedy(account: Account, budget: Budget) -> str:
    if isinstance(named_observer(account.observer), Coalition):
        return (
            "Choose members of which fewer collude, or accept it by name: a budget of ε = inf for that unit and "
            "observer."
        )
    if ANY in (budget.account.unit, budget.account.observer):
        return "Use a method that says what it is to that observer, or a data set of its own for this one."
    return "Use a method that says what it is to that observer."


# A cost is printed rounded up and a remainder rounded down, so that no refusal reads "costs 1; 1 is left".
def _up(value: float) -> str:
    if not math.isfinite(value):
        return "∞"
    return f"{Context(prec=3, rounding=ROUND_CEILING).create_decimal(Decimal(value)):g}"


def _down(value: float) -> str:
    return f"{Context(prec=3, rounding=ROUND_FLOOR).create_decimal(Decimal(value)):g}"
