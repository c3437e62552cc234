"""For every law of events an event, or an accountant, that breaks it, and the suite names the law.

A leaf cannot be added from outside, so the rules of the leaves that are there are broken instead.
"""

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from colonnade.privacy.events import DiscreteLaplace, Event, Gaussian, Laplace, event_from_data, event_to_data
from colonnade.privacy.guarantee import AccountedCost, account
from colonnade.privacy.renyi import renyi
from colonnade.testing import ConformanceError, check_event
from colonnade.testing import mechanisms as events

LEAF = Laplace(1, 2)
Patch = pytest.MonkeyPatch


@dataclasses.dataclass
class Changeable:
    sensitivity: int = 1


class Unequal(Laplace):
    """Hashes by identity."""

    def __hash__(self) -> int:
        return id(self)


class Lenient(Laplace):
    """Constructs from anything."""

    def __post_init__(self) -> None:
        pass


def rule(change: Callable[[float, float], float]) -> Callable[[Patch], Event]:
    """The leaf with another Rényi rule; what is composed of it is not changed."""

    def broken(patch: Patch) -> Event:
        def changed(event: Event, order: float) -> float:
            true = renyi(event, order)
            return change(true, order) if event == LEAF else true

        patch.setattr(events, "renyi", changed)
        return LEAF

    return broken


def reading(change: Callable[[dict[str, Any]], Event]) -> Callable[[Patch], Event]:
    def broken(patch: Patch) -> Event:
        patch.setattr("colonnade.privacy.events.event_from_data", change)
        return LEAF

    return broken


def accounting(change: Callable[[AccountedCost], AccountedCost]) -> Callable[[Patch], Event]:
    def broken(patch: Patch) -> Event:
        patch.setattr(events, "account", lambda event, delta: change(account(event, delta)))
        return DiscreteLaplace(1, 2)

    return broken


def double_sampled(patch: Patch) -> Event:
    patch.setattr(
        events,
        "renyi",
        lambda event, order: renyi(event, order) * (2 if hasattr(event, "rate") else 1),
    )
    return LEAF


BROKEN: list[tuple[str, Callable[[Patch], Event]]] = [
    ("an event is frozen", lambda patch: Changeable()),  # type: ignore[list-item,return-value]
    ("an event is frozen", lambda patch: "laplace"),  # type: ignore[list-item,return-value]
    ("equal events hash alike", lambda patch: Unequal(1, 2)),
    ("an event comes back from data as it was", reading(lambda data: Laplace(1, 3))),
    ("an event comes back from data as it was", reading(lambda data: Laplace(1.0, 2))),
    ("data that is no event is refused", reading(lambda data: LEAF)),
    ("nonsense cannot be constructed", lambda patch: Lenient(1, 2)),
    ("a divergence is not negative", rule(lambda true, order: true - 1)),
    ("a divergence is not negative", rule(lambda true, order: math.nan)),
    ("a divergence does not fall as its order rises", rule(lambda true, order: true / order**2)),
    ("composition adds", rule(lambda true, order: true / 2)),
    ("sampling never costs more", double_sampled),
    (events.SAFE, accounting(lambda cost: dataclasses.replace(cost, epsilon=cost.epsilon / 2))),
    (events.SAFE, accounting(lambda cost: dataclasses.replace(cost, epsilon=-cost.epsilon))),
    (
        events.SAFE,
        accounting(lambda cost: dataclasses.replace(cost, epsilon=1 if cost.delta < 1e-5 else 2)),
    ),
]


@pytest.mark.parametrize(("law", "broken"), BROKEN)
def test_what_breaks_a_law_is_caught_by_it(law: str, broken: Any, monkeypatch: Patch) -> None:
    event = broken(monkeypatch)
    if isinstance(event, Unequal | Lenient):
        # Classes without a name in data are written and read as what they pretend to be.
        monkeypatch.setattr("colonnade.privacy.events.event_to_data", lambda event: event_to_data(LEAF))
        monkeypatch.setattr(
            "colonnade.privacy.events.event_from_data", lambda data: event_from_data(data) and event
        )
    with pytest.raises(ConformanceError) as caught:
        check_event(event)
    assert caught.value.law == law


def test_every_law_has_something_that_breaks_it() -> None:
    assert {law for law, _ in BROKEN} == {*events.EVENT_LAWS, events.SAFE}


def test_noise_that_costs_more_is_caught() -> None:
    with pytest.raises(ConformanceError) as caught:
        check_event(LEAF, noisier=[Laplace(1, 3), Laplace(1, Fraction(5, 2))])
    assert caught.value.law == events.NOISIER


def test_a_rule_below_the_divergence_is_caught() -> None:
    check_event(Gaussian(1, 2), oracle=lambda order: order / 8)
    with pytest.raises(ConformanceError) as caught:
        check_event(Gaussian(1, 2), oracle=lambda order: order / 8 * (1 + 1e-6))
    assert caught.value.law == events.ORACLE
