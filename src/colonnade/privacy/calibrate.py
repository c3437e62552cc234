"""Calibration: the least noise, or the most steps, that keeps a family of events within a guarantee."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

from colonnade.errors import NoNoiseFits, PrivacyError
from colonnade.privacy.events import COARSE_BITS, Event, PoissonBinomial, Repeated, contains_sampling, itemise
from colonnade.privacy.guarantee import account
from colonnade.privacy.renyi import least_epsilon

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
    return bisect_left(
        range(rows), True, key=lambda size: steps * binomial_tail(rows, rate, size) <= overflow
    )


def most_uses(steps: int, rate: Fraction, *, overflow: float) -> int:
    """How often one record is drawn in `steps` Poisson batches, but for a probability of `overflow`."""
    return bisect_left(range(steps), True, key=lambda uses: binomial_tail(steps, rate, uses) <= overflow)


def as_draws(probability: float, bits: int = COARSE_BITS) -> int:
    """A total-variation distance as that many draws of a sampler within 2^−bits of its law, rounded up."""
    return math.ceil(Fraction(probability) * (1 << bits))


_LEAST_EXPONENT, _GREATEST_EXPONENT = -12, 60
_BETA_DIGITS = 6


def calibrate(
    family: Callable[[Fraction], Event], *, epsilon: float, delta: float, digits: int = 6
) -> Fraction:
    """The least noise parameter, to so many significant digits, whose event costs at most ε at δ.

    `family` makes an event from σ, σ², μ or a scale, and must not cost more when that grows.
    """
    _check_target(epsilon, delta)
    per_decade = 9 * 10 ** (digits - 1)

    def value(rank: int) -> Fraction:
        decade, place = divmod(rank, per_decade)
        exponent = decade - digits + 1
        return Fraction(10 ** (digits - 1) + place) * (
            10**exponent if exponent >= 0 else Fraction(1, 10**-exponent)
        )

    def first_within(cost: Callable[[Event], float], start: int, stride: int) -> int | None:
        return _first_within(
            lambda rank: cost(family(value(rank))),
            epsilon,
            (_LEAST_EXPONENT * per_decade, _GREATEST_EXPONENT * per_decade),
            start,
            stride,
            lambda rank: math.log(value(rank)),
        )

    start, stride = 0, per_decade
    if delta and contains_sampling(family(value(0))):
        # Loss distributions of samples take long: the quick route says where to look.
        guess = first_within(lambda event: least_epsilon(itemise(event), delta)[0], start, stride)
        start, stride = (0, per_decade) if guess is None else (guess, per_decade // 20)
    rank = first_within(lambda event: epsilon_or_infinity(event, delta), start, stride)
    if rank is None:
        raise NoNoiseFits(
            f"no noise up to 1e{_GREATEST_EXPONENT} keeps this release within ε = {epsilon:g} at δ = {delta:g}. "
            "Choose a larger ε or δ, or release less."
        )
    return value(rank)


def calibrate_poisson_binomial(
    contributors: int, *, trials: Sequence[int], times: int, epsilon: float, delta: float, changed: int = 1
) -> PoissonBinomial:
    """The Poisson binomial release, made so many times, that costs at most ε at δ and estimates best.

    For each number of trials b the largest β within the target is found; the estimate of a sum from Bin(b, ½ + βx)
    has variance at most M/(4bβ²), so the pair with the largest bβ² wins. More trials give a slightly better estimate
    and longer messages.
    """
    _check_target(epsilon, delta)
    grid = 10**_BETA_DIGITS
    best: PoissonBinomial | None = None
    for count in trials:

        def event(rank: int, count: int = count) -> PoissonBinomial:
            return PoissonBinomial(contributors, count, Fraction(-rank, grid), changed)

        rank = _first_within(
            lambda rank: epsilon_or_infinity(Repeated(event(rank), times), delta),
            epsilon,
            (1 - grid // 2, -1),
            1 - grid // 2,
            grid // 4,
            lambda rank: -math.log(-rank),
        )
        if rank is None:
            continue
        candidate = event(rank)
        if best is None or count * Fraction(candidate.beta) ** 2 > best.trials * Fraction(best.beta) ** 2:
            best = candidate
    if best is None:
        raise NoNoiseFits(
            f"no β of at least 1e-{_BETA_DIGITS} keeps {times} releases within ε = {epsilon:g} at δ = {delta:g}. "
            "Choose a larger ε or δ, fewer trials or fewer releases."
        )
    return best


def _check_target(epsilon: float, delta: float) -> None:
    if not (0 < epsilon < math.inf and 0 <= delta < 1):
        raise ValueError(f"a target needs ε > 0 and 0 ≤ δ < 1, found ε = {epsilon} and δ = {delta}")


def epsilon_or_infinity(event: Event, delta: float) -> float:
    """ε at δ, infinite where `account` refuses."""
    try:
        return account(event, delta).epsilon
    except PrivacyError:
        return math.inf


def _first_within(
    cost: Callable[[int], float],
    target: float,
    ends: tuple[int, int],
    start: int,
    stride: int,
    position: Callable[[int], float],
) -> int | None:
    """The least rank between the ends whose cost, which does not rise with the rank, is at most the target.

    Strides that double find a bracket; inside it the guess is where log cost, as a straight line over `position`,
    meets the target, and a plain bisection whenever such a guess left most of the bracket standing.
    """
    low, high = ends
    at = cache(cost)

    above, within = start, start  # `above` will cost more than the target, `within` at most the target
    if at(start) <= target:
        while at(above) <= target:
            if above == low:
                return low
            within, above, stride = above, max(low, above - stride), 2 * stride
    else:
        while at(within) > target:
            if within == high:
                return None
            above, within, stride = within, min(high, within + stride), 2 * stride
    bisect = False
    while within - above > 1:
        guess = (above + within) // 2
        if not bisect:
            guess = _interpolated(above, within, at(above), at(within), target, position)
        length = within - above
        if at(guess) <= target:
            within = guess
        else:
            above = guess
        bisect = 2 * (within - above) > length
    return within


def _interpolated(
    above: int,
    within: int,
    above_cost: float,
    within_cost: float,
    target: float,
    position: Callable[[int], float],
) -> int:
    if math.isinf(above_cost) or within_cost <= 0:
        return (above + within) // 2
    share = (math.log(above_cost) - math.log(target)) / (math.log(above_cost) - math.log(within_cost))
    goal = position(above) + share * (position(within) - position(above))
    return above + 1 + bisect_left(range(above + 1, within - 1), goal, key=position)
