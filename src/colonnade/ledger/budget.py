"""How much one party is willing to lose: per data set, unit and observer."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from colonnade.errors import InputError
from colonnade.privacy.neighbours import parse_unit
from colonnade.privacy.observers import named_observer

ANY = "*"

MOST_EPSILON = 1e300
"""Beyond it a number is no ε, and not every whole number is a float."""


@dataclass(frozen=True, order=True)
class Account:
    """What is kept apart from everything else in a ledger: one data set, one unit, one observer."""

    dataset: str
    unit: str
    observer: str

    def __str__(self) -> str:
        return f"data set '{self.dataset}', unit '{self.unit}', observer '{self.observer}'"


@dataclass(frozen=True)
class Budget:
    """At most ε at this δ, for one account, or with "*" for each account that no closer budget names.

    "*" is a pattern, not a pot: every unit and observer that it matches has its own total.
    """

    account: Account
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        asked = f"the budget for {self.account}"
        if not _is_number(self.epsilon) or not self.epsilon > 0:
            raise InputError(f"{asked} has ε = {self.epsilon}. Give a finite ε greater than 0.")
        if self.epsilon > MOST_EPSILON and self.epsilon != math.inf:
            raise InputError(
                f"{asked} has an ε above {MOST_EPSILON:g}, which bounds nothing. Give one that does."
            )
        if math.isinf(self.epsilon) and not self.account.observer.startswith("coalition:"):
            # A coalition that holds every share learns everything; an owner can accept that, by name.
            raise InputError(
                f"{asked} has ε = {self.epsilon}. Give a finite ε; only a coalition can be accepted with ε = inf."
            )
        if not _is_number(self.delta) or not 0 < self.delta < 1:
            raise InputError(
                f"{asked} has δ = {self.delta}. Give a δ between 0 and 1, well below one over the rows."
            )

    def matches(self, account: Account) -> bool:
        return (
            self.account.dataset == account.dataset
            and self.account.unit in (ANY, account.unit)
            and self.account.observer in (ANY, account.observer)
        )

    @property
    def closeness(self) -> int:
        return (self.account.unit != ANY) + (self.account.observer != ANY)


def governing(budgets: Iterable[Budget], account: Account) -> tuple[Budget, ...]:
    """The budgets that an account must keep: the closest matches, all of them.

    Two can be equally close, (unit, "*") and ("*", observer). Neither is an exception to the other, so
    both hold.
    """
    matching = [budget for budget in budgets if budget.matches(account)]
    closest = max((budget.closeness for budget in matching), default=0)
    return tuple(budget for budget in matching if budget.closeness == closest)


def named_account(dataset: str, unit: str, observer: str) -> Account:
    """The account that a person names, in the one spelling the ledger uses."""
    if not isinstance(dataset, str) or not dataset or dataset == ANY:
        raise InputError(f"an account is for one data set; found {dataset!r}. Give the data set's name.")
    try:
        return Account(dataset, unit=parse_unit(unit).name, observer=named_observer(observer).name)
    except ValueError as error:
        raise InputError(f"data set {dataset!r}: {error}") from error


def named_pattern(dataset: str, unit: str, observer: str) -> Account:
    """Like `named_account`, for a budget: unit and observer may also be "*"."""
    any_unit, any_observer = unit == ANY, observer == ANY
    account = named_account(dataset, "record" if any_unit else unit, "server" if any_observer else observer)
    return replace(
        account,
        unit=ANY if any_unit else account.unit,
        observer=ANY if any_observer else account.observer,
    )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
