"""Guarantees: what an observer learns at most, about which unit, by the best sound route."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from functools import lru_cache

from colonnade.errors import PrivacyError
from colonnade.privacy import events, renyi
from colonnade.privacy.events import Event, Items, Leaf
from colonnade.privacy.loss import LEAST_DELTA, loss_distribution
from colonnade.privacy.observers import ZERO_OUT, Observer, Unit
from colonnade.privacy.renyi import round_up

_LOSS_NAME = "privacy loss distribution"
_TYPICAL_DELTA = 1e-6


@dataclass(frozen=True)
class Point:
    """An ε or a δ, rounded up, and the route that proved it."""

    value: float
    method: str


def epsilon_routes(items: Items, delta: float) -> Point:
    """The least ε at this δ over all routes."""
    pure = Point(renyi.pure_epsilon(items), "pure")
    if delta == 0:
        if math.isinf(pure.value):
            raise PrivacyError(
                "δ = 0 was asked, but this noise has no largest loss. "
                "Choose δ > 0, for instance 1/(10 n) for n records."
            )
        return pure
    mu = gaussian_mu_of(items)
    if mu is not None:
        return _least([pure, Point(round_up(renyi.gaussian_epsilon(mu, delta)), _gaussian_name(mu))])
    epsilon, order = renyi.least_epsilon(items, delta)
    points = [pure, Point(round_up(epsilon), _renyi_name(order))]
    losses = loss_distribution(items, epsilon) if delta >= LEAST_DELTA else None
    if losses is not None:
        points.append(Point(round_up(losses.epsilon(delta)), _LOSS_NAME))
    return _least(points)


def least_delta_of_routes(items: Items, epsilon: float) -> Point:
    """The least δ at this ε over all routes."""
    if renyi.pure_epsilon(items) <= epsilon:
        return Point(0.0, "pure")
    mu = gaussian_mu_of(items)
    if mu is not None:
        return Point(round_up(renyi.gaussian_delta(mu, epsilon)), _gaussian_name(mu))
    delta, order = renyi.least_delta(items, epsilon)
    points = [Point(round_up(delta), _renyi_name(order))]
    losses = (
        loss_distribution(items, renyi.least_epsilon(items, _TYPICAL_DELTA)[0])
        if delta >= LEAST_DELTA
        else None
    )
    if losses is not None:
        points.append(Point(round_up(losses.delta(epsilon)), _LOSS_NAME))
    return _least(points)


def gaussian_mu_of(items: Items) -> float | None:
    """μ with μ² = Σ (Δ/σ)², if every leaf is normal noise."""
    squares = []
    for leaf, times in items.leaves:
        if isinstance(leaf, events.Gaussian):
            squares.append(times * float(leaf.sensitivity / leaf.sigma) ** 2)
        elif isinstance(leaf, events.PerStep) and not leaf.discrete:
            squares.append(times * leaf.sum_of_squares / float(leaf.sigma_squared))
        else:
            return None
    return math.sqrt(math.fsum(squares))


def _least(points: list[Point]) -> Point:
    return min(points, key=lambda point: point.value)


def _renyi_name(order: float) -> str:
    return f"Rényi, order {order:.4g}"


def _gaussian_name(mu: float) -> str:
    return f"Gaussian (μ = {mu:.3g})"


ROUNDING_VARIANCES = {events.COARSE_BITS: 4, events.FINE_BITS: 36, events.FINEST_BITS: 108}
"""s² by the bits of the samplers that it goes with, or more: 2·exp(−2π²s²) is below 2^−(bits + 12).

The last is for s² = 72: the event of a matrix has 36 less already, and needs twice s² less in all
(docs/proofs/rounded-normal.md).
"""
_SPARE_BITS = 12
_ROOT_BITS = 128


def rounded_normals(items: Items) -> Iterator[Items]:
    """The same releases with normal noise in place of discrete Gaussians, and the distance that this adds.

    One for each rounding, the one that leaves more noise first; none unless all noise is normal or discrete Gaussian
    on a known number of entries, with more variance than the rounding takes.
    """
    for bits, used in ROUNDING_VARIANCES.items():
        rounded = _rounded(items, used, Fraction(1, 2 ** (bits + _SPARE_BITS)))
        if rounded is not None:
            yield rounded


def _rounded(items: Items, used: int, distance: Fraction) -> Items | None:
    leaves: dict[Leaf, int] = {}
    entries = 0
    for leaf, times in items.leaves:
        inner = leaf.event if isinstance(leaf, events.PoissonSampled) else leaf
        if isinstance(inner, events.DiscreteGaussian) and inner.coordinates is not None:
            if inner.sigma_squared <= used:
                return None
            entries += times * inner.coordinates
            inner = events.Gaussian(inner.sensitivity, root_below(Fraction(inner.sigma_squared) - used))
        elif not isinstance(inner, events.Gaussian):
            return None
        # A mixture over secret samples is rounded as each of its parts is.
        replaced: Leaf = (
            events.PoissonSampled(leaf.rate, inner) if isinstance(leaf, events.PoissonSampled) else inner
        )
        leaves[replaced] = leaves.get(replaced, 0) + times
    if not entries:
        return None
    return Items(frozenset(leaves.items()), items.draws + entries, items.total_variation + entries * distance)


def root_below(square: events.Number) -> Fraction:
    """A fraction that is at most the square root, and less than one part in 2¹²⁰ below it."""
    exact = Fraction(square)
    scale = 1 << max(0, _ROOT_BITS - (exact.numerator.bit_length() - exact.denominator.bit_length()) // 2)
    return Fraction(math.isqrt(exact.numerator * scale**2 // exact.denominator), scale)


def replaced_from_zeroed(event: Event) -> Event | None:
    """What an event for "record" is, at most, for "record-replaced"; None where no sensitivity can be doubled.

    A sample that hides a zeroed record is proved for that unit only; without it the bound holds whatever the sample is
    (docs/proofs/ledger.md).
    """
    match event:
        case events.Gaussian() | events.DiscreteGaussian() | events.Laplace() | events.DiscreteLaplace():
            return replace(event, sensitivity=2 * event.sensitivity)
        case events.Skellam():
            return replace(event, l1=2 * event.l1, l2=2 * event.l2)
        case events.MatrixSkellam(change=change):
            return replace(event, change=_doubled(change))
        case events.PerStep():
            return replace(event, sensitivities=tuple(2 * step for step in event.sensitivities))
        case events.PoissonBinomial():
            return None
        case events.PoissonSampled():
            return replaced_from_zeroed(event.event)
        case events.Repeated() | events.Approximated():
            inner = replaced_from_zeroed(event.event)
            return None if inner is None else replace(event, event=inner)
    parts = tuple(replaced_from_zeroed(part) for part in event.events)
    known = tuple(part for part in parts if part is not None)
    return events.Composed(known) if len(known) == len(parts) else None


def _doubled(change: events.MatrixChange) -> events.MatrixChange:
    return events.MatrixChange(
        frobenius=2 * change.frobenius,
        weighted_l1=2 * change.weighted_l1,
        fourth=4 * change.fourth,  # a sum of squares
        fourth_l1=2 * change.fourth_l1,
    )


@dataclass(frozen=True)
class AccountedCost:
    """(ε, δ) and the route that proved it."""

    epsilon: float
    delta: float
    method: str


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


def account(event: Event, delta: float) -> AccountedCost:
    """The least ε that is proved for this event at this δ, over all sound routes.

    Samplers that are only near their law have their distance, times 1 + e^ε, taken out of δ first
    (docs/proofs/total-variation.md). Refuses if nothing is left, or if δ = 0 and the noise has unbounded loss.
    """
    if not 0 <= delta < 1:
        raise ValueError(f"δ must be at least 0 and less than 1, found {delta}")
    return _account(event, delta)


@lru_cache(maxsize=1024, typed=True)
def _account(event: Event, delta: float) -> AccountedCost:
    # The same event is often asked about more than once, for the server and for readers.
    items = events.itemise(event)
    # Roundings that add less to δ leave less noise: once one is affordable the next is not asked.
    rounded = (point for form in rounded_normals(items) if (point := _least_epsilon(form, delta)) is not None)
    points = [point for point in (_least_epsilon(items, delta), next(rounded, None)) if point is not None]
    if not points:
        raise PrivacyError(
            f"δ = {delta_text(delta)} does not cover that {items.draws} draws of noise are a little off their law, "
            "which counts 1 + e^ε times, and ε is too large here for that. Ask for a smaller ε, that is more noise, or "
            "for a larger δ."
        )
    point = _least(points)
    return AccountedCost(epsilon=point.value, delta=delta, method=point.method)


def delta_at(event: Event, epsilon: float) -> float:
    """The least δ that is proved for this event at this ε, over all sound routes; at most 1."""
    if not epsilon >= 0:
        raise ValueError(f"ε must not be negative, found {epsilon}")
    items = events.itemise(event)
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
    if not events.contains_sampling(event):
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
