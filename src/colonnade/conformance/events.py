"""What every event owes, so that ledgers, plans and accounts may treat it like any other.

The laws hold an event's Rényi rule to what any divergence obeys. Whether it bounds the divergence of a mechanism is a
theorem that no suite can check; with an `oracle` that computes the divergence from its definition, the rule is held
against that.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

import msgpack

from colonnade.conformance.verdict import expect, expect_refusal, judging
from colonnade.errors import PrivacyError
from colonnade.privacy.composition import itemise
from colonnade.privacy.conversion import ROUNDING
from colonnade.privacy.events import Composed, Event, PoissonSampled, Repeated, event_from_data, event_to_data
from colonnade.privacy.guarantee import account, delta_at, epsilon_text
from colonnade.privacy.leaves import AdditiveNoise, Laplace
from colonnade.privacy.renyi import renyi

Law: TypeAlias = Callable[[Event], None]
Oracle: TypeAlias = Callable[[float], float]

ORDERS = (1.001, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.5, 8.0, 16.0, 33.0, 64.0, 256.0)
DELTAS = (1e-3, 1e-6, 1e-9)
_GRID = 0.05
_ANOTHER = Laplace(sensitivity=1, scale=Fraction(7, 2))
_NONSENSE: tuple[object, ...] = (math.nan, math.inf, -math.inf, -1, Fraction(-1, 3), "1", 1j)


def check_event(
    event: Event,
    *,
    noisier: Sequence[Event] = (),
    oracle: Oracle | None = None,
    deltas: Sequence[float] = DELTAS,
) -> None:
    """Hold an event to every law that accounting relies on.

    `noisier` are the same event with more and more noise, or less and less sensitivity: none may cost more than the
    one before it. `oracle(order)` is the true divergence of this order, computed from its definition. `deltas`, from
    large to small, are where ε is asked for: the one law that can take seconds.
    """
    for name, law in LAWS.items():
        with judging(name):
            law(event)
    with judging(SAFE):
        _safe(event, deltas)
    with judging(NOISIER):
        _noisier((event, *noisier))
    if oracle is not None:
        with judging(ORACLE):
            _above(event, oracle)


def _frozen(event: Event) -> None:
    expect(dataclasses.is_dataclass(event), "a dataclass", type(event).__name__)
    for field in dataclasses.fields(event):
        expect_refusal(
            partial(setattr, event, field.name, getattr(event, field.name)),
            dataclasses.FrozenInstanceError,
            f"setting {field.name}",
        )


def _hashed(event: Event) -> None:
    copy = dataclasses.replace(event)
    expect(copy == event, "an event equal to its copy", copy)
    expect(hash(copy) == hash(event), "the hash of its copy", hash(event))
    expect(len({copy, event}) == 1, "one entry for two equal events", 2)


def _comes_back(event: Event) -> None:
    data = event_to_data(event)
    for carrier, carried in (
        ("JSON", json.loads(json.dumps(data, allow_nan=False))),
        ("MessagePack", msgpack.unpackb(msgpack.packb(data))),
    ):
        back = event_from_data(carried)
        expect(back == event, f"the same event from {carrier}", back)
        again = event_to_data(back)
        # As text, because 1 and 1.0 are equal.
        expect(json.dumps(again) == json.dumps(data), f"numbers of the same kinds from {carrier}", again)


def _unknown_data(event: Event) -> None:
    data = event_to_data(event)
    refused = (TypeError, ValueError)
    expect_refusal(lambda: event_from_data({**data, "surplus": 1}), refused, "a field that it does not have")
    expect_refusal(
        lambda: event_from_data({**data, "kind": "unheard-of"}), refused, "a kind that nobody knows"
    )
    for name in data:
        less = {key: value for key, value in data.items() if key != name}
        expect_refusal(partial(event_from_data, less), refused, f"data without {name!r}")


def _nonsense(event: Event) -> None:
    for whole, change in _changes(event):
        expect_refusal(
            partial(dataclasses.replace, whole, **change),
            (TypeError, ValueError),
            f"{type(whole).__name__} with {change}",
        )


def _changes(whole: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """One field at a time turned into what no release has, in the event and in what it is made of."""
    for field in dataclasses.fields(whole):
        value = getattr(whole, field.name)
        if isinstance(value, bool):
            wrong: tuple[object, ...] = ("1", None, math.nan)
        elif isinstance(value, int | float | Fraction) or value is None:
            wrong = (*_NONSENSE, True, *(() if field.default is None else (None,)))
        elif isinstance(value, tuple):
            wrong = (list(value), *((*value, bad) for bad in _NONSENSE))
        else:
            wrong = (None, "event", 1)
            yield from _changes(value)
        yield from ((whole, {field.name: bad}) for bad in wrong)


def _not_negative(event: Event) -> None:
    for order in ORDERS:
        value = renyi(event, order)
        expect(value >= 0, f"a divergence of at least 0 at order {order:g}", value)


def _rising(event: Event) -> None:
    values = [renyi(event, order) for order in ORDERS]
    for order, (value, after) in zip(ORDERS, pairwise(values), strict=False):
        expect(
            after >= value * (1 - ROUNDING), f"no fall after order {order:g}, where it is {value:g}", after
        )


def _adds(event: Event) -> None:
    for order in ORDERS:
        one, other = renyi(event, order), renyi(_ANOTHER, order)
        both = renyi(Composed((event, _ANOTHER)), order)
        expect(_near(both, one + other), f"{one + other:g} for two releases at order {order:g}", both)
        expect(both == renyi(Composed((_ANOTHER, event)), order), "the same in either order", both)
        for times in (0, 1, 5):
            repeated = renyi(Repeated(event, times), order)
            expect(_near(repeated, times * one), f"{times} times {one:g} at order {order:g}", repeated)
    same = itemise(Repeated(event, 3)) == itemise(Composed((event, Repeated(event, 2))))
    expect(same, "three times to be once and twice more", "another list of leaves")


def _sampling(event: Event) -> None:
    if not isinstance(event, AdditiveNoise):
        return
    for rate in (Fraction(0), Fraction(1, 100), Fraction(1, 2), Fraction(1)):
        for order in ORDERS:
            whole, sampled = renyi(event, order), renyi(PoissonSampled(rate, event), order)
            expect(
                sampled <= whole * (1 + ROUNDING),
                f"at most {whole:g} at rate {rate}, order {order:g}",
                sampled,
            )


def _safe(event: Event, deltas: Sequence[float]) -> None:
    before = 0.0
    for delta in deltas:
        try:
            cost = account(event, delta)
        except PrivacyError:  # draws that are near their law only, beyond what this δ can pay for
            before = math.inf
            continue
        expect(cost.epsilon >= 0, f"ε of at least 0 at δ = {delta:g}", cost.epsilon)
        expect(
            cost.epsilon >= before * (1 - _GRID), f"at least ε = {before:g} at δ = {delta:g}", cost.epsilon
        )
        before = cost.epsilon
        # The two questions put a loss distribution on different grids.
        slack = _GRID if cost.method == "privacy loss distribution" else 1e-5
        back = delta_at(event, cost.epsilon)
        expect(back <= delta * (1 + slack), f"δ of at most {delta:g} at ε = {cost.epsilon:g}", back)
        shown = float(epsilon_text(cost.epsilon).replace("∞", "inf"))
        expect(shown >= cost.epsilon, f"a printed ε of at least {cost.epsilon!r}", shown)


LAWS: Mapping[str, Law] = {
    "an event is frozen": _frozen,
    "equal events hash alike": _hashed,
    "an event comes back from data as it was": _comes_back,
    "data that is no event is refused": _unknown_data,
    "nonsense cannot be constructed": _nonsense,
    "a divergence is not negative": _not_negative,
    "a divergence does not fall as its order rises": _rising,
    "composition adds": _adds,
    "sampling never costs more": _sampling,
}
"""Every law by name, but for those that need more than the event."""

SAFE = "conversion rounds toward safety"
NOISIER = "more noise never costs more"
ORACLE = "the rule is at least the divergence"


def _noisier(events: Sequence[Event]) -> None:
    for order in ORDERS:
        values = [renyi(event, order) for event in events]
        for value, after in pairwise(values):
            expect(after <= value * (1 + ROUNDING), f"at most {value:g} at order {order:g}", after)


def _above(event: Event, oracle: Oracle) -> None:
    for order in ORDERS:
        rule, truth = renyi(event, order), oracle(order)
        expect(rule >= truth * (1 - 1e-9), f"at least {truth:g} at order {order:g}", rule)


def _near(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=ROUNDING, abs_tol=1e-300)
