"""Which of two methods has the smaller error, from trials that differ in nothing but the method."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from scipy.special import stdtrit

from colonnade.planning.clock import Clock
from colonnade.planning.forecast import Expected, Forecast

RATE = 0.95
# Of fewer trials chance is not known well enough to say anything.
FEWEST_PAIRS = 3
MOST_TRIALS = 6


@dataclass(frozen=True)
class Difference:
    """How much larger the error of one method is than another's, and the error of that figure.

    Guarantee: where differences of trials are normal, the true one lies within `margin` of `mean` with chance 95 %. A
    single pair has no error of its own, and may be off by anything.
    """

    mean: float
    margin: float
    pairs: int

    @property
    def worse(self) -> bool:
        return self.pairs >= FEWEST_PAIRS and self.mean > self.margin


def difference(one: Expected, other: Expected) -> Difference:
    """The error of one method less another's, over the trials that both have."""
    pairs = [
        mine - theirs
        for mine, theirs in zip(one.errors, other.errors, strict=False)
        if mine is not None and theirs is not None
    ]
    if len(pairs) < 2:
        return Difference(one.error - other.error, math.inf, len(pairs))
    quantile = float(stdtrit(len(pairs) - 1, 0.5 + RATE / 2))
    margin = quantile * statistics.stdev(pairs) / math.sqrt(len(pairs))
    return Difference(statistics.fmean(pairs), margin, len(pairs))


def best_of(expected: Sequence[Expected]) -> int:
    """The place of the least mean; but whoever is told apart from it in pairs, and better, takes its place.

    Means of methods with different numbers of trials are of different people.
    """
    best = min(range(len(expected)), key=lambda place: expected[place].error)
    for _ in expected:
        better = [
            place for place in range(len(expected)) if difference(expected[best], expected[place]).worse
        ]
        if not better:
            break
        best = min(better, key=lambda place: expected[place].error)
    return best


def race(
    entered: Sequence[Forecast], *, seconds: float, notify: Callable[[float], None] = lambda _left: None
) -> tuple[Forecast, ...]:
    """The same forecasts, with more trials of those that cannot be told apart from the best, as far as time allows.

    Whoever is told apart from the best by then runs no further; the rest run the next trial, so that all pairs have the
    same numbers. It ends where one is left, after `MOST_TRIALS`, or when the seconds are used up.
    """
    forecasts, spent = list(entered), 0.0
    while True:
        running = [place for place in _close(forecasts) if _in_time(forecasts[place], seconds - spent)]
        fewest = min((len(_expected(forecasts[place]).errors) for place in running), default=MOST_TRIALS)
        next_up = [place for place in running if len(_expected(forecasts[place]).errors) == fewest]
        if len(running) < 2 or fewest >= MOST_TRIALS or spent >= seconds:
            return tuple(forecasts)
        with Clock() as clock:
            for place in next_up:
                made, expected = forecasts[place], _expected(forecasts[place])
                if made.trial is not None:
                    errors = (*expected.errors, made.trial(fewest))
                    forecasts[place] = replace(made, expected=replace(expected, errors=errors))
        spent += clock.seconds
        notify(max(0.0, min(seconds - spent, (MOST_TRIALS - fewest - 1) * clock.seconds)))


def _in_time(made: Forecast, left: float) -> bool:
    """Whether one more trial ends by then: as long as the run, where that itself is run."""
    return not made.whole or made.cost.seconds <= left


def _close(forecasts: Sequence[Forecast]) -> list[int]:
    """The best, and those that are not told apart from it and can run again."""
    known = [place for place, made in enumerate(forecasts) if made.expected is not None]
    if not known:
        return []
    best = known[best_of([_expected(forecasts[place]) for place in known])]
    return [
        place
        for place in known
        if forecasts[place].trial is not None
        and not difference(_expected(forecasts[place]), _expected(forecasts[best])).worse
    ]


def _expected(made: Forecast) -> Expected:
    if made.expected is None:
        raise ValueError("a forecast without errors runs in no race")
    return made.expected
