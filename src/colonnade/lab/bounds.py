"""Lower bounds on ε from counted guesses, each wrong with a probability that is stated.

If a mechanism is (ε, δ)-private, no event is more than e^ε times likelier on one of two neighbouring data sets, δ
aside: ε ≥ ln((p − δ)/q). Counted in independent runs, p is taken from below and q from above (Clopper and Pearson). An
event is chosen on one half of the runs and judged on the other, so that looking for a good one costs nothing.

Where one run holds many canaries, their guesses are not independent, and the bound is that of "Privacy auditing with
one (1) training run" (Steinke, Nasr and Jagielski 2023): with ε and δ = 0 the number of right guesses among r is at
most binomial with probability e^ε/(1 + e^ε).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, betaincinv

Array = NDArray[np.float64]
Bits = NDArray[np.bool_]
Counts = NDArray[np.integer[Any]]

CONFIDENCE = 0.95
# Shares of the guesses for which somebody who may abstain speaks up.
_SHARES = (0.2, 0.1, 0.3, 0.5, 0.05, 0.7, 1.0, 0.02, 0.01)
_THRESHOLDS = 60


@dataclass(frozen=True)
class Bound:
    """ε is at least `epsilon`, except with probability 1 − `confidence`.

    `hits` and `misses` are how often the judged event came where it should and where it should not; `most` is the
    largest bound that so many trials could have given.
    """

    epsilon: float
    confidence: float
    hits: int
    misses: int
    trials: int
    most: float


def counted_bound(
    hits: int, misses: int, *, trials: tuple[int, int], delta: float = 0.0, confidence: float = CONFIDENCE
) -> float:
    """ln((p − δ)/q), with p from below and q from above, both at once with this confidence; never below 0."""
    bounds = _counted(np.array([hits]), np.array([misses]), trials, delta=delta, confidence=confidence)
    return float(bounds[0])


def _counted(
    hits: Counts, misses: Counts, trials: tuple[int, int], *, delta: float, confidence: float
) -> Array:
    """The bounds of many events at once."""
    alarm = (1 - confidence) / 2
    first, second = trials
    # Clopper and Pearson's limits are quantiles of beta laws; where nothing was counted they are 0 and 1.
    p = np.where(hits > 0, betaincinv(np.maximum(hits, 1), first - hits + 1.0, alarm), 0.0)
    q = np.where(misses < second, betaincinv(misses + 1.0, np.maximum(second - misses, 1), 1 - alarm), 1.0)
    above = np.maximum(p - delta, 0.0)
    return np.asarray(np.log(np.maximum(above, q)) - np.log(q))


def threshold_bound(
    without: Array, within: Array, *, delta: float = 0.0, confidence: float = CONFIDENCE
) -> Bound:
    """The bound of the best threshold event, chosen on the first half of each array and judged on the second.

    The arrays hold independent values of a statistic on two neighbouring data sets, larger where the second is
    likelier. Both the event "above" for the second and "below" for the first are tried.
    """
    halves = [(values[: len(values) // 2], values[len(values) // 2 :]) for values in (without, within)]
    (zeros, fresh_zeros), (ones, fresh_ones) = halves
    tails = 1 - np.logspace(-5, -0.05, _THRESHOLDS)
    levels = np.unique(np.concatenate([np.quantile(part, tails) for part in (zeros, ones)]))
    levels = np.concatenate(
        [levels, -np.unique(np.concatenate([np.quantile(-p, tails) for p in (zeros, ones)]))]
    )
    sorted_zeros, sorted_ones = np.sort(zeros), np.sort(ones)
    # Among so many events the best looks better than it is: it is chosen as if all of them had to hold.
    strict = 1 - (1 - confidence) / (2 * len(levels))
    above = [len(part) - np.searchsorted(part, levels) for part in (sorted_zeros, sorted_ones)]
    below = [np.searchsorted(part, levels, side="right") for part in (sorted_zeros, sorted_ones)]
    high = _counted(above[1], above[0], (len(ones), len(zeros)), delta=delta, confidence=strict)
    low = _counted(below[0], below[1], (len(zeros), len(ones)), delta=delta, confidence=strict)
    sign = 1.0 if high.max() >= low.max() else -1.0
    guesses = high if sign > 0 else low
    # Where no event shows anything, the middle one is as good as any.
    level = float(levels[int(np.argmax(guesses))] if guesses.max() > 0 else np.median(levels))
    expected, other = (fresh_ones, fresh_zeros) if sign > 0 else (fresh_zeros, fresh_ones)
    hits, misses = (int(np.count_nonzero(sign * part >= sign * level)) for part in (expected, other))
    trials = (len(expected), len(other))

    def bound(right: int, wrong: int) -> float:
        return counted_bound(right, wrong, trials=trials, delta=delta, confidence=confidence)

    return Bound(bound(hits, misses), confidence, hits, misses, sum(trials), bound(trials[0], 0))


def one_run_bound(
    right: int, guesses: int, *, canaries: int, delta: float = 0.0, confidence: float = CONFIDENCE
) -> float:
    """The largest ε at which so many right guesses would be less likely than 1 − confidence.

    P[right ≥ v] ≤ f(v) + 2mδ·max_i (f(v − i) − f(v))/i for m canaries with fair coins and r guesses, f the upper tail
    of a binomial of r trials with probability e^ε/(1 + e^ε).
    """
    if not 0 < right <= guesses:
        return 0.0
    alarm = 1 - confidence

    def likelihood(epsilon: float) -> float:
        chance = 1 / (1 + math.exp(-epsilon))
        tail = float(bdtrc(right - 1, guesses, chance))
        if not delta:
            return tail
        steps = np.arange(1, right + 1)
        nearer = np.where(steps < right, bdtrc(np.maximum(right - steps - 1, 0), guesses, chance), 1.0)
        return tail + 2 * canaries * delta * float(np.max((nearer - tail) / steps))

    if likelihood(0.0) > alarm:
        return 0.0
    low, high = 0.0, 50.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if likelihood(middle) <= alarm else (low, middle)
    return low


def canary_bound(
    statistics: Array, coins: Bits, *, delta: float = 0.0, confidence: float = CONFIDENCE
) -> Bound:
    """The bound of all canaries of all runs together, a row of `statistics` a run and a column a canary.

    `coins` says which canaries were in. On the first half of the runs each canary's values are brought to one scale
    and it is chosen how many guesses to make; on the second half so many are made, of the largest values that the
    canary was in and of the smallest that it was not.
    """
    half = len(statistics) // 2
    centre, spread = statistics[:half].mean(axis=0), statistics[:half].std(axis=0)
    scaled = (statistics - centre) / np.where(spread > 0, spread, 1.0)
    parts = [(scaled[some].ravel(), coins[some].ravel()) for some in (slice(0, half), slice(half, None))]

    def judged(part: tuple[Array, Bits], share: float, sure: float) -> tuple[float, int, int]:
        values, truth = part
        # No canary is guessed both ways: one of two such guesses would be right for sure.
        each = max(1, min(round(share * len(values) / 2), len(values) // 2))
        order = np.argsort(values, kind="stable")
        right = int(np.count_nonzero(truth[order[-each:]])) + int(np.count_nonzero(~truth[order[:each]]))
        bound = one_run_bound(right, 2 * each, canaries=len(values), delta=delta, confidence=sure)
        return bound, right, 2 * each

    strict = 1 - (1 - confidence) / len(_SHARES)
    share = max(_SHARES, key=lambda share: judged(parts[0], share, strict)[0])
    epsilon, right, guesses = judged(parts[1], share, confidence)
    count = len(parts[1][0])
    most = one_run_bound(guesses, guesses, canaries=count, delta=delta, confidence=confidence)
    return Bound(epsilon, confidence, right, guesses - right, count, most)


def best_of(bounds: Iterable[Bound]) -> Bound:
    """The largest of several bounds; together they are as sure as their alarms add up to."""
    return max(bounds, key=lambda bound: bound.epsilon)
