"""Guarantees: what an observer learns at most, about which unit, in one sentence.

`account` tries every sound route from an event to (ε, δ) and reports the tightest, with its name. Whatever is
computed in doubles is rounded up by a margin, and what is printed is rounded up again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache

from colonnade.errors import PrivacyError
from colonnade.privacy.composition import Items, contains_sampling, itemise
from colonnade.privacy.conversion import round_up
from colonnade.privacy.events import Event
from colonnade.privacy.neighbours import ZERO_OUT, Unit
from colonnade.privacy.observers import Observer
from colonnade.privacy.rounded_normal import rounded_normals
from colonnade.privacy.routes import Point, epsilon_routes, least_delta_of_routes


@dataclass(frozen=True)
class Cost:
    """(ε, δ), the route that proved it, and the Rényi order if that was the route."""

    epsilon: float
    delta: float
    method: str
    order: float | None = None


@dataclass(frozen=True)
class View:
    """What one observer gets out of a run: the noise it does not know, against what it may compare."""

    observer: Observer
    unit: Unit
    event: Event
    assumption: str


@dataclass(frozen=True)
class Guarantee:
    """What an observer learns at most about a unit; `str` gives the sentence.

    >>> from colonnade.privacy.observers import Server
    >>> print(Guarantee(Server(), ZERO_OUT, 0.9951, 1e-5, "at least 1 of 2 owners keeps its noise secret", "pure"))
    The server learns at most ε = 1.00 (δ = 1e-05) about any one record (zeroed out or not), provided at least \
1 of 2 owners keeps its noise secret. [pure]
    """

    observer: Observer
    unit: Unit
    epsilon: float
    delta: float
    assumption: str
    method: str

    def __str__(self) -> str:
        provided = f", provided {self.assumption}" if self.assumption else ""
        return (
            f"{self.observer.sentence} learns at most ε = {epsilon_text(self.epsilon)} (δ = {delta_text(self.delta)}) "
            f"about {self.unit.sentence}{provided}. [{self.method}]"
        )


def account(event: Event, delta: float) -> Cost:
    """The least ε that is proved for this event at this δ, over all sound routes.

    Samplers that are only near their law have their distance, times 1 + e^ε, taken out of δ first
    (docs/proofs/total-variation.md). Refuses if nothing is left, or if δ = 0 and the noise has unbounded loss.
    """
    if not 0 <= delta < 1:
        raise ValueError(f"δ must be at least 0 and less than 1, found {delta}")
    return _account(event, delta)


@lru_cache(maxsize=1024, typed=True)
def _account(event: Event, delta: float) -> Cost:
    # The same event is often asked about more than once, for the server and for readers.
    items = itemise(event)
    # Roundings that add less to δ leave less noise: once one is affordable the next is not asked.
    rounded = (point for form in rounded_normals(items) if (point := _least_epsilon(form, delta)) is not None)
    points = [point for point in (_least_epsilon(items, delta), next(rounded, None)) if point is not None]
    if not points:
        raise PrivacyError(
            f"δ = {delta_text(delta)} does not cover that {items.draws} draws of noise are a little off their law, "
            "which counts 1 + e^ε times, and ε is too large here for that. Ask for a smaller ε, that is more noise, or "
            "for a larger δ."
        )
    point = min(points, key=lambda point: point.value)
    return Cost(epsilon=point.value, delta=delta, method=point.method, order=point.order)


def delta_at(event: Event, epsilon: float) -> float:
    """The least δ that is proved for this event at this ε, over all sound routes; at most 1."""
    if not epsilon >= 0:
        raise ValueError(f"ε must not be negative, found {epsilon}")
    items = itemise(event)
    deltas = [
        least_delta_of_routes(form, epsilon).value + _distance_cost(form, epsilon)
        for form in (items, *rounded_normals(items))
    ]
    return min(1.0, round_up(min(deltas)))


def guarantee(
    event: Event, *, observer: Observer, unit: Unit, delta: float, assumption: str = ""
) -> Guarantee:
    """What this observer learns at most about this unit from this event, at this δ."""
    check_claim(event, observer=observer, unit=unit)
    cost = account(event, delta)
    return Guarantee(observer, unit, cost.epsilon, cost.delta, assumption, cost.method)


def check_claim(event: Event, *, observer: Observer, unit: Unit) -> None:
    """Refuses an event that relies on a secret sample for an observer or a unit the sample does not help against."""
    if not contains_sampling(event):
        return
    if observer.knows_batches:
        raise PrivacyError(
            f"this event counts on secret batches, but {observer.name} may know them. "
            "Account for this observer without sampling."
        )
    if unit != ZERO_OUT:
        raise PrivacyError(
            f"this event counts on Poisson sampling, which is proved for the unit {ZERO_OUT.name!r}, not for "
            f"{unit.name!r}. Account for this unit without sampling."
        )


def epsilon_text(epsilon: float) -> str:
    """ε for people, rounded up: two decimals, or two significant digits below 0.1."""
    if epsilon == 0 or math.isinf(epsilon):
        return "0" if epsilon == 0 else "∞"
    exact = Decimal(epsilon)
    places = Decimal(1).scaleb(min(-2, exact.adjusted() - 1))
    return f"{exact.quantize(places, rounding=ROUND_CEILING):f}"


def delta_text(delta: float) -> str:
    """δ for people, rounded up to two significant digits of its shortest decimal form."""
    if delta == 0:
        return "0"
    exact = Decimal(repr(float(delta)))
    return f"{float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - 1), rounding=ROUND_CEILING)):.2g}"


def _least_epsilon(items: Items, delta: float) -> Point | None:
    """The least ε whose curve, with what the samplers' distance costs at that ε, stays within δ, if there is one."""
    # A millionth of δ is mostly enough, and one look then is.
    set_aside = max(_distance_cost(items, 0.0), delta * 1e-6) if items.draws else 0.0
    while (inside := delta - set_aside) > 0 or set_aside == 0:
        point = epsilon_routes(items, inside)
        needed = _distance_cost(items, point.value)
        if needed <= set_aside:
            return point
        set_aside = 2 * needed
    return None


def _distance_cost(items: Items, epsilon: float) -> float:
    """(1 + e^ε) times the total-variation distance of all draws."""
    if not items.draws:
        return 0.0
    if epsilon < 600:
        return float(items.total_variation) * (1 + math.exp(epsilon))
    # Neither factor need be a double where their product is one. A part in a million covers what logarithms lose.
    off = items.total_variation
    logarithm = math.log(off.numerator) - math.log(off.denominator) + epsilon
    return 1.000001 * math.exp(logarithm) + float(off) if logarithm < 0 else math.inf
