"""What every noise mechanism and every event owes, so that ledgers, plans and accounts may treat it like any other.

Statistics compare two samples by χ² at a false-alarm rate of 1e-9, with draws from fixed seeds. The laws of events hold
a Rényi rule to what any divergence obeys; whether it bounds the divergence of a mechanism is a theorem, and with an
`oracle` that computes the divergence from its definition, the rule is held against that.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

import msgpack
import numpy as np
from numpy.typing import NDArray
from scipy import stats

from colonnade.errors import PlanError, PrivacyError
from colonnade.noise.mechanism import Noise
from colonnade.privacy import events
from colonnade.privacy.guarantee import account, delta_at, epsilon_text
from colonnade.privacy.renyi import ROUNDING, renyi
from colonnade.randomness import SeededRandomness
from colonnade.testing.laws import expect, expect_refusal, hold, law_check

EventLaw: TypeAlias = Callable[[events.Event], None]
Oracle: TypeAlias = Callable[[float], float]

ORDERS = (1.001, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.5, 8.0, 16.0, 33.0, 64.0, 256.0)
DELTAS = (1e-3, 1e-6, 1e-9)
_GRID = 0.05
_ANOTHER = events.Laplace(sensitivity=1, scale=Fraction(7, 2))
_NONSENSE: tuple[object, ...] = (math.nan, math.inf, -math.inf, -1, Fraction(-1, 3), "1", 1j)


def check_event(
    event: events.Event,
    *,
    noisier: Sequence[events.Event] = (),
    oracle: Oracle | None = None,
    deltas: Sequence[float] = DELTAS,
) -> None:
    """Hold an event to every law that accounting relies on.

    `noisier` are the same event with more and more noise, or less and less sensitivity: none may cost more than the
    one before it. `oracle(order)` is the true divergence of this order, computed from its definition. `deltas`, from
    large to small, are where ε is asked for: the one law that can take seconds.
    """
    hold(EVENT_LAWS, event)
    with law_check(SAFE):
        _safe(event, deltas)
    with law_check(NOISIER):
        for order in ORDERS:
            for value, after in pairwise(renyi(each, order) for each in (event, *noisier)):
                expect(after <= value * (1 + ROUNDING), f"at most {value:g} at order {order:g}", after)
    if oracle is not None:
        with law_check(ORACLE):
            for order in ORDERS:
                rule, truth = renyi(event, order), oracle(order)
                expect(rule >= truth * (1 - 1e-9), f"at least {truth:g} at order {order:g}", rule)


def _frozen(event: events.Event) -> None:
    expect(dataclasses.is_dataclass(event), "a dataclass", type(event).__name__)
    for each in dataclasses.fields(event):
        change = partial(setattr, event, each.name, getattr(event, each.name))
        expect_refusal(change, dataclasses.FrozenInstanceError, f"setting {each.name}")


def _hashed(event: events.Event) -> None:
    copy = dataclasses.replace(event)
    expect(copy == event, "an event equal to its copy", copy)
    expect(hash(copy) == hash(event), "the hash of its copy", hash(event))
    expect(len({copy, event}) == 1, "one entry for two equal events", 2)


def _comes_back(event: events.Event) -> None:
    data = events.event_to_data(event)
    for carrier, carried in (
        ("JSON", json.loads(json.dumps(data, allow_nan=False))),
        ("MessagePack", msgpack.unpackb(msgpack.packb(data))),
    ):
        back = events.event_from_data(carried)
        expect(back == event, f"the same event from {carrier}", back)
        again = events.event_to_data(back)
        # As text, because 1 and 1.0 are equal.
        expect(json.dumps(again) == json.dumps(data), f"numbers of the same kinds from {carrier}", again)


def _unknown_data(event: events.Event) -> None:
    data = events.event_to_data(event)
    refused = (TypeError, ValueError)
    expect_refusal(
        lambda: events.event_from_data({**data, "surplus": 1}), refused, "a field that it does not have"
    )
    expect_refusal(
        lambda: events.event_from_data({**data, "kind": "unheard-of"}), refused, "a kind that nobody knows"
    )
    for name in data:
        less = {key: value for key, value in data.items() if key != name}
        expect_refusal(partial(events.event_from_data, less), refused, f"data without {name!r}")


def _nonsense(event: events.Event) -> None:
    for whole, change in _changes(event):
        what = f"{type(whole).__name__} with {change}"
        expect_refusal(partial(dataclasses.replace, whole, **change), (TypeError, ValueError), what)


def _changes(whole: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """One field at a time turned into what no release has, in the event and in what it is made of."""
    for each in dataclasses.fields(whole):
        value = getattr(whole, each.name)
        if isinstance(value, bool):
            wrong: tuple[object, ...] = ("1", None, math.nan)
        elif isinstance(value, int | float | Fraction) or value is None:
            wrong = (*_NONSENSE, True, *(() if each.default is None else (None,)))
        elif isinstance(value, tuple):
            wrong = (list(value), *((*value, bad) for bad in _NONSENSE))
        else:
            wrong = (None, "event", 1)
            yield from _changes(value)
        yield from ((whole, {each.name: bad}) for bad in wrong)


def _not_negative(event: events.Event) -> None:
    for order in ORDERS:
        value = renyi(event, order)
        expect(value >= 0, f"a divergence of at least 0 at order {order:g}", value)


def _rising(event: events.Event) -> None:
    values = [renyi(event, order) for order in ORDERS]
    for order, (value, after) in zip(ORDERS, pairwise(values), strict=False):
        expect(
            after >= value * (1 - ROUNDING), f"no fall after order {order:g}, where it is {value:g}", after
        )


def _adds(event: events.Event) -> None:
    for order in ORDERS:
        one, other = renyi(event, order), renyi(_ANOTHER, order)
        both = renyi(events.Composed((event, _ANOTHER)), order)
        expect(_near(both, one + other), f"{one + other:g} for two releases at order {order:g}", both)
        expect(both == renyi(events.Composed((_ANOTHER, event)), order), "the same in either order", both)
        for times in (0, 1, 5):
            repeated = renyi(events.Repeated(event, times), order)
            expect(_near(repeated, times * one), f"{times} times {one:g} at order {order:g}", repeated)
    same = events.itemise(events.Repeated(event, 3)) == events.itemise(
        events.Composed((event, events.Repeated(event, 2)))
    )
    expect(same, "three times to be once and twice more", "another list of leaves")


def _sampling(event: events.Event) -> None:
    if not isinstance(event, events.AdditiveNoise):
        return
    for rate in (Fraction(0), Fraction(1, 100), Fraction(1, 2), Fraction(1)):
        for order in ORDERS:
            whole, sampled = renyi(event, order), renyi(events.PoissonSampled(rate, event), order)
            what = f"at most {whole:g} at rate {rate}, order {order:g}"
            expect(sampled <= whole * (1 + ROUNDING), what, sampled)


def _safe(event: events.Event, deltas: Sequence[float]) -> None:
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


EVENT_LAWS: Mapping[str, EventLaw] = {
    "an event is frozen": _frozen,
    "equal events hash alike": _hashed,
    "an event comes back from data as it was": _comes_back,
    "data that is not an event is refused": _unknown_data,
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


def _near(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=ROUNDING, abs_tol=1e-300)


Shape: TypeAlias = int | tuple[int, ...]
NoiseLaw: TypeAlias = Callable[["_Case"], None]

SHAPES: tuple[Shape, ...] = (7, (3, 4), (2, 1, 3), 0)
IMPOSSIBLE: tuple[Shape, ...] = (-1, (3, -2), (1 << 20, 1 << 20))
DRAWS = 400_000
FALSE_ALARM = 1e-9
_BINS = 24
_NO_COUNTS = ((0, 0, 1), (0, 1, 0), (-1, 1, 1), (2, 1, 1))


@dataclass(frozen=True)
class _Case:
    noise: Any
    change: Any
    shapes: tuple[Shape, ...]
    impossible: tuple[Shape, ...]
    sample: Shape
    parts: tuple[int, ...]

    def event(self, **counts: int) -> events.Event:
        return self.noise.event(self.change, **counts)  # type: ignore[no-any-return]


def check_mechanism(
    noise: Noise,
    change: object = None,
    *,
    shapes: Iterable[Shape] = SHAPES,
    impossible: Iterable[Shape] = IMPOSSIBLE,
    sample: Shape = DRAWS,
    parts: Iterable[int] = (2, 5),
) -> None:
    """Hold a mechanism to the laws of `colonnade.noise.mechanism.Mechanism`.

    `change` is how far one unit moves what is released, as the mechanism's `event` takes it; None for noise without
    an event of its own, such as a part. `shapes` can be drawn and `impossible` ones cannot; `sample` is a shape with
    enough entries to compare laws by, and `parts` how many the noise is dealt in. Noise that comes whole only refuses
    parts with a `PlanError`.
    """
    case = _Case(noise, change, tuple(shapes), tuple(impossible), sample, tuple(parts))
    hold(NOISE_LAWS if change is None else {**NOISE_LAWS, **COST_LAWS}, case)


class _Counted(SeededRandomness):
    """A seeded source that counts what is asked of it."""

    requested = 0

    def bytes(self, count: int) -> bytes:
        self.requested += count
        return super().bytes(count)

    def words(self, count: int) -> NDArray[np.uint64]:
        self.requested += 8 * count
        return super().words(count)


def _integers(case: _Case) -> None:
    for shape in case.shapes:
        drawn = case.noise.draw(shape, SeededRandomness("integers"))
        extent = (shape,) if isinstance(shape, int) else shape
        kind = f"an array of {drawn.dtype}" if isinstance(drawn, np.ndarray) else type(drawn).__name__
        expect(kind == "an array of int64", "an array of int64", kind)
        expect(drawn.shape == extent, f"the shape {extent}", drawn.shape)


def _impossible(case: _Case) -> None:
    for shape in case.impossible:
        source = _Counted("impossible")
        expect_refusal(partial(case.noise.draw, shape, source), PlanError, f"the shape {shape}")
        expect(source.requested == 0, f"no draw for the shape {shape}", f"{source.requested} bytes drawn")


def _reproducible(case: _Case) -> None:
    shape = _largest(case.shapes)
    first, second = (case.noise.draw(shape, SeededRandomness("again")) for _ in range(2))
    expect(np.array_equal(first, second), "equal draws from equal seeds", "draws that differ")


def _given_source(case: _Case) -> None:
    source = _Counted("given")
    first = case.noise.draw(case.sample, source)
    expect(source.requested > 0, "draws from the source that was given", "nothing asked of it")
    second = case.noise.draw(case.sample, source)
    expect(not np.array_equal(first, second), "fresh draws from a source that went on", "the same again")
    other = case.noise.draw(case.sample, SeededRandomness("another seed"))
    expect(not np.array_equal(first, other), "other draws from another seed", "the same")


def _untouched(case: _Case) -> None:
    kept = case.noise.draw(_largest(case.shapes), SeededRandomness("untouched"))
    copy = kept.copy()
    kept += 1
    again = case.noise.draw(_largest(case.shapes), SeededRandomness("untouched"))
    expect(
        np.array_equal(again, copy), "an array of its own for every draw", "one that was handed out before"
    )


def _parts(case: _Case) -> None:
    whole = case.noise.draw(case.sample, SeededRandomness("the whole"))
    for parts in case.parts:
        try:
            part = case.noise.part(parts)
        except PlanError:
            continue
        total = sum(
            part.draw(case.sample, SeededRandomness(f"part {place} of {parts}")) for place in range(parts)
        )
        p = two_sample(whole.ravel(), np.asarray(total).ravel())
        expect(p > FALSE_ALARM, f"{parts} parts that sum to the whole's law", f"p = {p:.3g} that they do")


def _one_part(case: _Case) -> None:
    part = case.noise.part(1).draw(case.sample, SeededRandomness("one part"))
    whole = case.noise.draw(case.sample, SeededRandomness("one part, whole"))
    p = two_sample(whole.ravel(), part.ravel())
    expect(p > FALSE_ALARM, "the only part to be the whole", f"p = {p:.3g} that it is")


def _no_parts(case: _Case) -> None:
    for parts in (0, -1):
        expect_refusal(partial(case.noise.part, parts), PlanError, f"noise in {parts} parts")


def _sound_event(case: _Case) -> None:
    check_event(case.event())


def _knows_all(case: _Case) -> None:
    for parts in (1, 2, 4):
        what = f"{parts} of {parts} parts known"
        expect_refusal(partial(case.event, known=parts, parts=parts), PrivacyError, what)


def _no_counts(case: _Case) -> None:
    for known, parts, of in _NO_COUNTS:
        what = f"{known} known of {parts} parts, each 1/{of}"
        expect_refusal(partial(case.event, known=known, parts=parts, of=of), PlanError, what)


def _whole_of_parts(case: _Case) -> None:
    for parts in case.parts:
        dealt, whole = _cost(case, parts=parts, of=parts), _cost(case)
        expect(_at_least(dealt, whole), f"{parts} parts of 1/{parts} to hide no more than the whole", dealt)
        try:
            case.noise.part(parts)
        except PlanError:
            expect(dealt is None, f"no claim for {parts} parts, which do not sum to the whole", "a claim")


def _knows_more(case: _Case) -> None:
    for parts, of in ((4, 1), (4, 2), (4, 3), (4, 4), (9, 5)):
        costs = [_cost(case, known=known, parts=parts, of=of) for known in range(parts)]
        for known, (less, more) in enumerate(pairwise(costs)):
            expect(
                _at_least(more, less), f"no less for who knows {known + 1} of {parts} parts of 1/{of}", more
            )


def _not_enough(case: _Case) -> None:
    whole = _cost(case)
    for known, parts, of in ((0, 1, 2), (1, 3, 3), (3, 4, 2)):
        less = _cost(case, known=known, parts=parts, of=of)
        expect(
            _at_least(less, whole), f"{parts - known}/{of} of the noise to cost no less than all of it", less
        )


NOISE_LAWS: Mapping[str, NoiseLaw] = {
    "draws are 64-bit integers of the shape asked": _integers,
    "a shape that cannot be is refused before anything is drawn": _impossible,
    "the same seed gives the same draws": _reproducible,
    "draws come from the source that was given": _given_source,
    "every draw is an array of its own": _untouched,
    "the only part is the whole": _one_part,
    "parts sum to the whole": _parts,
    "no part at all is refused": _no_parts,
}

COST_LAWS: Mapping[str, NoiseLaw] = {
    "the event of a release can be accounted for": _sound_event,
    "an observer who knows all of the noise is refused": _knows_all,
    "counts that make no sense are refused": _no_counts,
    "parts hide no more than the whole": _whole_of_parts,
    "an observer who knows more never gets a smaller cost": _knows_more,
    "less than the whole never costs less": _not_enough,
}


def two_sample(one: NDArray[Any], other: NDArray[Any]) -> float:
    """The p-value of χ² that two samples of integers follow one law, in bins of about equal mass."""
    both = np.concatenate([one, other])
    edges = np.unique(np.quantile(both, np.arange(1, _BINS) / _BINS, method="closest_observation"))
    counts = np.array(
        [np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1) for x in (one, other)]
    )
    counts = counts[:, counts.sum(axis=0) > 0]
    if counts.shape[1] == 1:
        return 1.0
    return float(stats.chi2_contingency(counts, correction=False).pvalue)


def _cost(case: _Case, **counts: int) -> tuple[float, ...] | None:
    """The Rényi curve; None for a refusal, which costs more than any claim."""
    try:
        event = case.event(**counts)
    except (PlanError, PrivacyError):
        return None
    return tuple(renyi(event, order) for order in ORDERS)


def _at_least(more: Sequence[float] | None, less: Sequence[float] | None) -> bool:
    if more is None or less is None:
        return more is None
    return all(
        high >= low or math.isclose(high, low, rel_tol=1e-12) for high, low in zip(more, less, strict=True)
    )


def _largest(shapes: Sequence[Shape]) -> Shape:
    return max(shapes, key=lambda shape: math.prod((shape,) if isinstance(shape, int) else shape))
