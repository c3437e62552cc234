"""The Poisson binomial mechanism: each party sends an exact binomial count instead of a number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colonnade.errors import DataError, PlanError, PrivacyError
from colonnade.noise.mechanism import exact_positive
from colonnade.numbers.compiling import machine_code
from colonnade.privacy.events import Event, PoissonBinomial, Repeated
from colonnade.randomness import Randomness

GRID_BITS = 53
ONE = 1 << GRID_BITS  # the numerator that stands for probability 1
LARGEST_TRIALS = 1 << 20
_WORDS = 1 << 16

_PAIRS = np.uint64(0x5555555555555555)
_NIBBLES = np.uint64(0x3333333333333333)
_BYTES = np.uint64(0x0F0F0F0F0F0F0F0F)
_SUMS = np.uint64(0x0101010101010101)
_1, _2, _4, _56 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)


@machine_code
def popcount(word: np.uint64) -> np.int64:
    """The number of ones; the compiler knows this idiom and emits one instruction."""
    word = word - ((word >> _1) & _PAIRS)
    word = (word & _NIBBLES) + ((word >> _2) & _NIBBLES)
    word = (word + (word >> _4)) & _BYTES
    return np.int64((word * _SUMS) >> _56)


@machine_code
def count_below(
    trials: int,
    numerators: NDArray[np.int64],
    words: NDArray[np.uint64],
    out: NDArray[np.int64],
    state: NDArray[np.int64],
    pool: NDArray[np.uint64],
) -> bool:
    """Goes on where `state` stands until `out` is full (True) or the words run out (False).

    `state` holds the element, p's bit, the undecided uniforms and the successes so far; `pool` the unused
    bits of the last word and their number. An element is never begun again: that would favour elements
    that need few words. p is private, so its bits enter by multiplication, and the number of rounds has
    the same law for every p.
    """
    element, bit, undecided, below = state[0], state[1], state[2], state[3]
    spare, left = pool[0], np.int64(pool[1])
    used = 0
    finished = True
    while element < out.shape[0]:
        numerator = numerators[element]
        while bit >= 0 and undecided > 0:
            full = undecided >> np.int64(6)
            rest = undecided & np.int64(63)
            if used + full + 1 > words.shape[0]:
                finished = False
                break
            ones = np.int64(0)
            for _ in range(full):
                ones += popcount(words[used])
                used += 1
            if rest > left:
                spare = words[used]
                left = np.int64(64)
                used += 1
            ones += popcount(spare & ((_1 << np.uint64(rest)) - _1))
            spare = spare >> np.uint64(rest)
            left -= rest
            on = (numerator >> bit) & np.int64(1)
            below += on * (undecided - ones)
            undecided = on * ones + (np.int64(1) - on) * (undecided - ones)
            bit -= 1
        if not finished:
            break
        certain = numerator >> np.int64(53)
        out[element] = certain * np.int64(trials) + (np.int64(1) - certain) * below
        element += 1
        bit = np.int64(52)
        undecided = np.int64(trials)
        below = np.int64(0)
    state[0], state[1], state[2], state[3] = element, bit, undecided, below
    pool[0], pool[1] = spare, np.uint64(left)
    return finished


def binomial(trials: int, numerators: ArrayLike, randomness: Randomness) -> NDArray[np.int64]:
    """Binomial(trials, k/2^53) for every numerator k of an array, exactly: total variation 0."""
    if not 1 <= trials <= LARGEST_TRIALS:
        raise PlanError(f"a binomial has 1 to 2^20 trials here, not {trials}")
    chances = np.asarray(numerators)
    if chances.dtype.kind not in "iu":
        raise TypeError(f"numerators are integers in units of 2^-53, not {chances.dtype}")
    if chances.size and (int(chances.min()) < 0 or int(chances.max()) > ONE):
        raise ValueError("a numerator lies outside [0, 2^53]")
    flat = np.ascontiguousarray(chances, dtype=np.int64).reshape(-1)
    out = np.empty(flat.shape, dtype=np.int64)
    state = np.array([0, GRID_BITS - 1, trials, 0], dtype=np.int64)
    pool = np.zeros(2, dtype=np.uint64)
    enough = trials // 64 + 1
    while True:
        ahead = (len(flat) - int(state[0])) * trials * 5 // 128
        words = randomness.words(min(_WORDS, ahead + enough))
        if count_below(trials, flat, words, out, state, pool):
            return out.reshape(chances.shape)


SMALLEST_BETA = Fraction(1, 1 << 40)


@dataclass(frozen=True)
class PoissonBinomialNoise:
    """Values in [−bound, bound] as Bin(trials, 1/2 + β·value/bound), drawn exactly."""

    trials: int
    beta: Fraction
    bound: Fraction

    def __post_init__(self) -> None:
        if not 1 <= self.trials <= LARGEST_TRIALS:
            raise PlanError(f"the number of trials is from 1 to 2^20, not {self.trials}")
        beta = exact_positive("β", self.beta)
        if not SMALLEST_BETA <= beta < Fraction(1, 2):
            raise PlanError(
                f"β is from 2^-40 to just below 1/2, not {float(beta):.6g}: at 1/2 a count shows its value"
            )
        object.__setattr__(self, "beta", beta)
        object.__setattr__(self, "bound", exact_positive("the bound", self.bound))

    def numerators(self, values: ArrayLike) -> NDArray[np.int64]:
        """p·2^53 for every value, never outside [1/2 − β, 1/2 + β]; values past the bound are clipped."""
        floats = np.asarray(values, dtype=np.float64)
        if np.isnan(floats).any():
            raise DataError("a value to be quantised is not a number; impute or drop it before training")
        limit = float(self.bound)
        shift = np.rint(np.clip(floats, -limit, limit) / limit * float(self.beta * ONE)).astype(np.int64)
        low = math.ceil((Fraction(1, 2) - self.beta) * ONE)
        # Whatever rounding did, the proof's interval holds.
        return np.clip(shift + ONE // 2, low, ONE - low)

    def draw(self, values: ArrayLike, randomness: Randomness) -> NDArray[np.int64]:
        """One count in [0, trials] for every value."""
        return binomial(self.trials, self.numerators(values), randomness)

    def estimate(self, totals: ArrayLike, *, parties: int) -> NDArray[np.float64]:
        """The sum of the parties' values that a sum of their counts stands for, without bias."""
        centred = np.asarray(totals, dtype=np.float64) - parties * self.trials / 2
        return centred * float(self.bound / (self.beta * self.trials))

    def event(self, *, parties: int, known: int = 0, changed: int = 1, coordinates: int = 1) -> Event:
        """What an observer learns of a record from the sums of `coordinates` counts over `parties`.

        `known` parties' counts are the observer's own; `changed` of the others differ between neighbours.
        The counts are exact, so nothing is added to δ.
        """
        if not 0 <= known < parties:
            raise PrivacyError(
                f"an observer who knows {known} of {parties} parties' counts is hidden nothing"
            )
        leaf = PoissonBinomial(parties - known, self.trials, self.beta, changed)
        return leaf if coordinates == 1 else Repeated(leaf, coordinates)
