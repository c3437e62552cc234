"""Binomial draws with a probability per element, exact: b uniforms compared with p together, bit by bit.

Write p = k/2^53 in binary and compare b uniforms with it from the top. Of the m uniforms still equal to
p's leading bits, a popcount of m fresh bits says how many have a 1 next. If p's bit is 1, those with a 0
are below p: successes. If it is 0, those with a 1 are above. After 53 bits whoever is left equals p, and
is not below it. Two fresh bits a trial suffice on average, whatever p is (docs/proofs/binomial-by-popcount.md).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colonnade.errors import PlanError
from colonnade.noise.compiled import compiled
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


@compiled
def popcount(word: np.uint64) -> np.int64:
    """The number of ones; the compiler knows this idiom and emits one instruction."""
    word = word - ((word >> _1) & _PAIRS)
    word = (word & _NIBBLES) + ((word >> _2) & _NIBBLES)
    word = (word + (word >> _4)) & _BYTES
    return np.int64((word * _SUMS) >> _56)


@compiled
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
