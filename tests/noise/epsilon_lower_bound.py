"""A lower bound on ε from draws on two neighbouring inputs: Clopper–Pearson, at the false-alarm rate."""

import numpy as np
from noise_statistics import FALSE_ALARM
from scipy import stats


def lower_bound(hits, misses, *, count, delta=0.0):
    """ε is at least ln((p − δ)/q), with p from below and q from above, both at once with probability 1 − 1e-9."""
    alarm = FALSE_ALARM / 2
    p = stats.beta.ppf(alarm, hits, count - hits + 1) if hits else 0.0
    q = stats.beta.ppf(1 - alarm, misses + 1, count - misses) if misses < count else 1.0
    return float(np.log((p - delta) / q)) if p > delta else 0.0


def audited_epsilon(statistic, *, delta=0.0, draws=1_000_000):
    """The best of all threshold events, chosen on one half of the draws and judged on the other.

    `statistic(neighbour, count)` gives that many independent values, for neighbour False and True, larger
    where True is likelier.
    """
    half = draws // 2
    seen = {side: np.sort(statistic(side, half)) for side in (False, True)}
    fresh = {side: statistic(side, half) for side in (False, True)}
    thresholds = np.unique(
        np.concatenate([np.quantile(seen[side], 1 - np.logspace(-5, -0.05, 60)) for side in seen])
    )
    best = 0.0
    for high in (True, False):
        sign = 1 if high else -1
        levels = thresholds if high else -thresholds
        hits, misses = (
            half - np.searchsorted(np.sort(sign * seen[side]), levels) for side in (high, not high)
        )
        guesses = [
            lower_bound(int(h), int(m), count=half, delta=delta) for h, m in zip(hits, misses, strict=True)
        ]
        level = levels[int(np.argmax(guesses))]
        counted = [int(np.count_nonzero(sign * fresh[side] >= level)) for side in (high, not high)]
        best = max(best, lower_bound(counted[0], counted[1], count=half, delta=delta))
    return best
