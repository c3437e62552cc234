"""What every noise mechanism owes: exact integers from the source it is given, parts that sum to the whole, and an
event that never credits an observer with noise it knows.

The statistics compare two samples by χ² at a false-alarm rate of 1e-9, with draws from fixed seeds: a mechanism
passes or fails in the same way every time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from colonnade.conformance.events import ORDERS, check_event
from colonnade.conformance.verdict import expect, expect_refusal, judging
from colonnade.errors import PlanError, PrivacyError
from colonnade.noise.mechanism import Noise
from colonnade.privacy.events import Event
from colonnade.privacy.renyi import renyi
from colonnade.randomness import SeededRandomness

Shape: TypeAlias = int | tuple[int, ...]
Law: TypeAlias = Callable[["_Case"], None]

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

    def event(self, **counts: int) -> Event:
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
    for name, law in (LAWS if change is None else {**LAWS, **EVENT_LAWS}).items():
        with judging(name):
            law(case)


@dataclass
class _Counted:
    """A seeded source that counts what is asked of it."""

    seed: str
    asked: int = 0
    inner: SeededRandomness = field(init=False)
    reproducible: bool = True

    def __post_init__(self) -> None:
        self.inner = SeededRandomness(self.seed)

    def bytes(self, count: int) -> bytes:
        self.asked += count
        return self.inner.bytes(count)

    def words(self, count: int) -> NDArray[np.uint64]:
        self.asked += 8 * count
        return self.inner.words(count)


def _integers(case: _Case) -> None:
    for shape in case.shapes:
        drawn = case.noise.draw(shape, SeededRandomness("integers"))
        extent = (shape,) if isinstance(shape, int) else shape
        expect(isinstance(drawn, np.ndarray) and drawn.dtype == np.int64, "an array of int64", _kind(drawn))
        expect(drawn.shape == extent, f"the shape {extent}", drawn.shape)


def _impossible(case: _Case) -> None:
    for shape in case.impossible:
        source = _Counted("impossible")
        expect_refusal(partial(case.noise.draw, shape, source), PlanError, f"the shape {shape}")
        expect(source.asked == 0, f"no draw for the shape {shape}", f"{source.asked} bytes drawn")


def _reproducible(case: _Case) -> None:
    shape = _largest(case.shapes)
    first, second = (case.noise.draw(shape, SeededRandomness("again")) for _ in range(2))
    expect(np.array_equal(first, second), "equal draws from equal seeds", "draws that differ")


def _given_source(case: _Case) -> None:
    source = _Counted("given")
    first = case.noise.draw(case.sample, source)
    expect(source.asked > 0, "draws from the source that was given", "nothing asked of it")
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
        expect_refusal(
            partial(case.event, known=parts, parts=parts),
            PrivacyError,
            f"{parts} of {parts} parts known",
        )


def _no_counts(case: _Case) -> None:
    for known, parts, of in _NO_COUNTS:
        expect_refusal(
            partial(case.event, known=known, parts=parts, of=of),
            PlanError,
            f"{known} known of {parts} parts, each 1/{of}",
        )


def _whole_of_parts(case: _Case) -> None:
    for parts in case.parts:
        dealt, whole = _cost(case, parts=parts, of=parts), _cost(case)
        expect(_at_least(dealt, whole), f"{parts} parts of 1/{parts} to hide no more than the whole", dealt)
        if _refuses_parts(case, parts):
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


LAWS: Mapping[str, Law] = {
    "draws are 64-bit integers of the shape asked": _integers,
    "a shape that cannot be is refused before anything is drawn": _impossible,
    "the same seed gives the same draws": _reproducible,
    "draws come from the source that was given": _given_source,
    "every draw is an array of its own": _untouched,
    "the only part is the whole": _one_part,
    "parts sum to the whole": _parts,
    "no part at all is refused": _no_parts,
}
"""The laws of noise, by name."""

EVENT_LAWS: Mapping[str, Law] = {
    "the event of a release can be accounted for": _sound_event,
    "an observer who knows all of the noise is refused": _knows_all,
    "counts that make no sense are refused": _no_counts,
    "parts hide no more than the whole": _whole_of_parts,
    "an observer who knows more never gets a smaller cost": _knows_more,
    "less than the whole never costs less": _not_enough,
}
"""The laws of what a release costs, by name."""


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


def _refuses_parts(case: _Case, parts: int) -> bool:
    try:
        case.noise.part(parts)
    except PlanError:
        return True
    return False


def _largest(shapes: Sequence[Shape]) -> Shape:
    return max(shapes, key=lambda shape: math.prod((shape,) if isinstance(shape, int) else shape))


def _kind(drawn: object) -> str:
    return f"an array of {drawn.dtype}" if isinstance(drawn, np.ndarray) else type(drawn).__name__
