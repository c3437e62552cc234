"""Poisson batches of a public size: how large, and how often one record may be used.

A batch is padded to a capacity that everybody knows, and a record sits out once it was used so many times. Both
limits change the batches only when a binomial variable leaves its usual range; what that costs is a total-variation
distance, which is counted like the distance of a sampler from its law (docs/proofs/batches.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from colonnade.privacy.events import COARSE_BITS

_LAST_BITS = 2.0**-50


def binomial_tail(trials: int, rate: Fraction, above: int) -> float:
    """A bound on P(X > above) for X binomial: exp(−n·KL(a/n ‖ q)) at a = above + 1, by Chernoff."""
    if trials < 0 or above < 0 or not 0 <= rate <= 1:
        raise ValueError(f"no tail above {above} of {trials} trials at rate {rate}")
    least = above + 1
    if least > trials or rate == 0:
        return 0.0
    if least <= trials * rate:
        return 1.0
    share = Fraction(least, trials)
    up = least * math.log(share / rate)
    down = (trials - least) * math.log((1 - share) / (1 - rate)) if least < trials else 0.0
    # What doubles can lose of either term is given away, and no tail that exists is called 0.
    bound = math.exp(min(0.0, _LAST_BITS * (trials + up - down) - up - down))
    return max(bound, math.ulp(0.0))


def batch_capacity(rows: int, rate: Fraction, *, steps: int, overflow: float) -> int:
    """The least size that, but for a probability of `overflow`, none of `steps` Poisson batches exceeds."""
    return _least(rows, lambda size: steps * binomial_tail(rows, rate, size) <= overflow)


def most_uses(steps: int, rate: Fraction, *, overflow: float) -> int:
    """How often one record is drawn in `steps` Poisson batches, but for a probability of `overflow`."""
    return _least(steps, lambda uses: binomial_tail(steps, rate, uses) <= overflow)


def as_draws(probability: float, bits: int = COARSE_BITS) -> int:
    """A total-variation distance as that many draws of a sampler within 2^−bits of its law, rounded up."""
    return math.ceil(Fraction(probability) * (1 << bits))


def _least(high: int, holds: Callable[[int], bool]) -> int:
    """The least number in [0, high] that holds; it holds at `high` and, once it does, from there on."""
    low = -1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
