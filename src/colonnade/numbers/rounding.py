"""From scaled reals to integers, with what each way does to a row's norm.

A row x = γz of doubles becomes integers v. Sensitivities need a bound on ‖v‖ that holds for every row and
every outcome of the coins, so each function states one, for d columns and ‖x‖ ≤ B:

============== ======================= ============================================
`nearest`      ‖v‖ ≤ B + √d/2          deterministic; |v − x| ≤ 1/2 in every entry
`toward_zero`  ‖v‖ ≤ B                 deterministic, biased toward zero
`stochastic`   ‖v‖ ≤ B + √d            unbiased; |v − x| < 1 in every entry
`retry`        ‖v‖² ≤ the bound given  stochastic, drawn again until the bound holds
============== ======================= ============================================

The bounds are about the doubles that come in: whoever scales and clips answers for B.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colonnade.randomness import Randomness

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: How often `retry` draws a row before it truncates it.
TRIES = 64

# Doubles below this have their fractions exactly, and their integers fit int64 with room to add one.
_LARGEST = float(1 << 52)


def _check(values: Floats) -> None:
    # Written so that NaN fails it too.
    if values.size and not max(float(values.max()), -float(values.min())) < _LARGEST:
        raise ValueError("values to round must be finite and below 2^52 in absolute value")


def nearest(values: Floats) -> Integers:
    """The nearest integer to each value, halves to even: |v − x| ≤ 1/2, so ‖v‖ ≤ ‖x‖ + √d/2."""
    _check(values)
    return np.rint(values).astype(np.int64)


def toward_zero(values: Floats) -> Integers:
    """Each value without its fraction: |v| ≤ |x| in every entry, so ‖v‖ ≤ ‖x‖."""
    _check(values)
    return values.astype(np.int64)


def stochastic(values: Floats, randomness: Randomness) -> Integers:
    """One of the two integers around each value, so that the mean is the value: ‖v‖ ≤ ‖x‖ + √d.

    Up with probability equal to the fraction, to within 2^-53; a value that is an integer stays.
    """
    _check(values)
    below = np.floor(values)
    draws = (randomness.words(values.size) >> np.uint64(11)).reshape(values.shape)
    # 53 random bits against the first 53 bits of the fraction.
    up = draws < ((values - below) * float(1 << 53)).astype(np.uint64)
    out: Integers = below.astype(np.int64) + up
    return out


def retry(values: Floats, bound_squared: int, randomness: Randomness) -> Integers:
    """Rows rounded stochastically until ‖v‖² ≤ bound_squared; truncated after 64 failures.

    Guarantee: every row of the result has ‖v‖² ≤ bound_squared, whatever the coins. The rows given must
    have ‖x‖² ≤ bound_squared themselves; then truncation, the last resort, satisfies it too.

    The usual bound for a row of norm γc in d columns is γ²c² + d. A draw has mean square at most
    γ²c² + d/4, and its deviation is nearly symmetric, so about half of the draws pass even where γ is so
    large that d hardly matters, and truncation is about as rare as 64 tails in a row. A row that was drawn
    again is biased, slightly, toward smaller norms. How many draws a row took depends on the row: it is not
    returned, and must not be sent.

    SPCA/SLR (Skellam noise in BGW) rounds once and uses the same bound, which then fails for some coins.
    """
    if values.ndim != 2:
        raise ValueError(f"rows to round are a matrix, not an array of {values.ndim} dimensions")
    out = stochastic(values, randomness)
    again = _past(out, bound_squared)
    for _ in range(TRIES - 1):
        if not again.size:
            return out
        out[again] = stochastic(values[again], randomness)
        again = again[_past(out[again], bound_squared)]
    out[again] = toward_zero(values[again])
    if _past(out[again], bound_squared).size:
        raise ValueError(
            f"rows past the norm bound were given to rounding: scale them to ‖x‖² ≤ {bound_squared}"
        )
    return out


def _past(rows: Integers, bound_squared: int) -> NDArray[np.intp]:
    """Which rows have a square norm above the bound, in exact integers."""
    largest = max(int(rows.max()), -int(rows.min())) if rows.size else 0
    exact = rows if largest * largest * rows.shape[1] < 1 << 63 else rows.astype(object)
    return np.flatnonzero((exact * exact).sum(axis=1) > bound_squared)
