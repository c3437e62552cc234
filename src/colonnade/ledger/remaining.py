"""What would still fit into a budget: costs do not simply add, so that is more than what is left."""

from __future__ import annotations

import math

from colonnade.ledger.budget import Account
from colonnade.ledger.state import LedgerState
from colonnade.privacy.gdp import gaussian_epsilon
from colonnade.privacy.leaves import Gaussian

# ε is found to this many halvings of the budget.
_HALVINGS = 10


def remaining_epsilon(state: LedgerState, account: Account) -> float:
    """The largest ε, rounded down, of one further release of normal noise that this account's budgets admit.

    A release with other noise composes a little differently; `charge` decides. 0 without a budget.
    """
    budgets = state.governing(account)
    if not budgets:
        return 0.0
    if all(math.isinf(budget.epsilon) for budget in budgets):
        return math.inf

    def admitted(mu: float) -> bool:
        event = Gaussian(sensitivity=1.0, sigma=1.0 / mu)
        return all(
            state.lost(account, budget.delta).epsilon(budget.delta, event) <= budget.epsilon
            for budget in budgets
        )

    def cost(mu: float) -> float:
        return max(gaussian_epsilon(mu, budget.delta) for budget in budgets)

    low, high = 0.0, 1.0
    while cost(high) < min(budget.epsilon for budget in budgets) and high < 1e3:
        high *= 2.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if admitted(middle) else (low, middle)
    return math.floor(100.0 * cost(low)) / 100.0 if low else 0.0
