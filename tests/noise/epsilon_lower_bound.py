"""The product's own lower bound on ε, for mechanisms, at the false-alarm rate of the tests."""

from collections.abc import Callable
from typing import Any

from noise_statistics import FALSE_ALARM

from colonnade.lab.experiments import counted_bound, threshold_bound


def audited_epsilon(statistic: Callable[..., Any], *, delta: float = 0.0, draws: int = 1_000_000) -> float:
    """The best of all threshold events, chosen on one half of the draws and judged on the other.

    `statistic(neighbour, count)` gives that many independent values, for neighbour False and True, larger
    where True is likelier.
    """
    values = [statistic(side, draws) for side in (False, True)]
    return threshold_bound(*values, delta=delta, confidence=1 - FALSE_ALARM).epsilon


def lower_bound(hits: int, misses: int, *, count: int) -> float:
    """What so many hits on one side and misses on the other of `count` draws each show."""
    return counted_bound(hits, misses, trials=(count, count), confidence=1 - FALSE_ALARM)
