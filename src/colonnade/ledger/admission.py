"""Yes or no: whether a release fits its budgets, and whether a history is the one that peers saw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from colonnade.errors import BudgetExceeded, LedgerAltered, LedgerError
from colonnade.ledger.bounds import bound
from colonnade.ledger.budget import ANY, Account, Budget
from colonnade.ledger.opening import Opening
from colonnade.ledger.release import Receipt, Release
from colonnade.ledger.state import LedgerState, accounts, left
from colonnade.privacy.observers import Coalition, named_observer


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


def check_witness(receipt: Receipt, heads: Sequence[str], *, where: str) -> None:
    """Return if a history is the one a receipt was given for; `heads[n]` is the hash of entry n."""
    last = len(heads) - 1
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


def check_witnesses(
    opening: Opening, receipts: Sequence[Receipt], heads: Sequence[str], *, where: str
) -> int:
    """Return how many receipts a history was given for, if none of them says otherwise.

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
    own = [receipt for receipt in receipts if receipt.origin in ("", opening.origin)]
    for receipt in own:
        check_witness(receipt, heads, where=where)
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
            f"δ = {budget.delta:g}).{why} Raise the budget, or plan again with more noise."
        )


def _remedy(account: Account, budget: Budget) -> str:
    """What to do where no ε helps."""
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
