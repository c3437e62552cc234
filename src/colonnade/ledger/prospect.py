"""What a release would cost each account and what it would leave, for somebody who is to say yes or no."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal

from colonnade.ledger.bounds import bound
from colonnade.ledger.cost import epsilon_of
from colonnade.ledger.release import Release
from colonnade.ledger.state import LedgerState, accounts, left

_DIGITS = 3


@dataclass(frozen=True)
class Prospect:
    """One account before a release: `epsilon` is the release alone, rounded up; `left` is after it, rounded down.

    `before` is what is left without the release. Costs do not simply add, so they differ by no more than `epsilon`.
    """

    dataset: str
    unit: str
    observer: str
    delta: float
    epsilon: float
    budget: float
    before: float
    left: float


def prospects(state: LedgerState, release: Release, dataset: str) -> tuple[Prospect, ...]:
    """Every account that the release names, against the budget that would leave it least, in the order of its lines.

    An account without a budget has none to leave: `admit` refuses it, and it is not in the answer.
    """
    prospects = []
    for account in accounts(release, dataset):
        seen = []
        for budget in state.governing(account):
            added = bound(release, account, budget.delta)
            alone = math.inf if added.unbounded else epsilon_of(added.events, budget.delta)
            spent, part = state.lost(account, budget.delta), state.added_part(release, account)
            after = math.inf if added.unbounded else spent.epsilon(budget.delta, *added.events, part=part)
            seen.append(
                Prospect(
                    account.dataset,
                    account.unit,
                    account.observer,
                    delta=budget.delta,
                    epsilon=rounded_up(alone),
                    budget=budget.epsilon,
                    before=left(budget.epsilon, spent.epsilon(budget.delta)),
                    left=left(budget.epsilon, after),
                )
            )
        if seen:
            prospects.append(min(seen, key=lambda prospect: prospect.left))
    return tuple(prospects)


def rounded_up(epsilon: float) -> float:
    """ε in three digits, never less than it is."""
    if not math.isfinite(epsilon):
        return math.inf
    context = Context(prec=_DIGITS, rounding=ROUND_CEILING)
    short = float(context.create_decimal(Decimal(epsilon)))
    return short if short >= epsilon else math.nextafter(short, math.inf)
