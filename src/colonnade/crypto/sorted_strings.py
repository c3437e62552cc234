"""Lists of strings of sixteen bytes, sorted as bytes are and looked up in each other, in linear time."""

from __future__ import annotations

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from colonnade.numbers.compiling import machine_code

_DIGIT = 11
_DIGITS = 1 << _DIGIT


def sort_strings(strings: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Sort strings where they stand, and return the place that each had.

    They are taken to be spread evenly, as keyed digests are: two passes put each where its first bits say, and few are
    then out of order. Others are sorted too, only slowly.
    """
    words, order = strings.view(np.uint64), np.arange(len(strings), dtype=np.int32)
    spare, places = np.empty_like(words), np.empty_like(order)
    _deal(words, order, spare, places, 64 - 2 * _DIGIT)
    _deal(spare, places, words, order, 64 - _DIGIT)
    _insert(words, order)
    return order


def strings_within(some: NDArray[np.uint8], others: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which of some sorted strings are among others that are sorted too."""
    found = np.empty(len(some), dtype=np.bool_)
    _merge(some.view(np.uint64), others.view(np.uint64), found)
    return found


@machine_code
def _number(word: np.uint64) -> np.uint64:
    """A word's bytes as a number of which the first byte is the highest."""
    word = ((word & uint64(0x00FF00FF00FF00FF)) << uint64(8)) | (
        (word >> uint64(8)) & uint64(0x00FF00FF00FF00FF)
    )
    word = ((word & uint64(0x0000FFFF0000FFFF)) << uint64(16)) | (
        (word >> uint64(16)) & uint64(0x0000FFFF0000FFFF)
    )
    return (word << uint64(32)) | (word >> uint64(32))


@machine_code
def _less(first: np.uint64, second: np.uint64, other_first: np.uint64, other_second: np.uint64) -> np.bool:
    if first == other_first:
        return _number(second) < _number(other_second)
    return _number(first) < _number(other_first)


@machine_code
def _deal(
    words: NDArray[np.uint64],
    order: NDArray[np.int32],
    dealt: NDArray[np.uint64],
    places: NDArray[np.int32],
    shift: int,
) -> None:
    """Sort by one digit of the first word; strings of equal digits stay in their order."""
    ends = np.zeros(_DIGITS + 1, dtype=np.int64)
    for at in range(order.size):
        ends[(_number(words[at, 0]) >> uint64(shift)) % uint64(_DIGITS) + uint64(1)] += 1
    for before in range(_DIGITS):
        ends[before + 1] += ends[before]
    for at in range(order.size):
        digit = (_number(words[at, 0]) >> uint64(shift)) % uint64(_DIGITS)
        to = ends[digit]
        ends[digit] += 1
        dealt[to, 0], dealt[to, 1], places[to] = words[at, 0], words[at, 1], order[at]


@machine_code
def _insert(words: NDArray[np.uint64], order: NDArray[np.int32]) -> None:
    """Put every string behind the last one that is not greater."""
    for at in range(1, order.size):
        first, second, place = words[at, 0], words[at, 1], order[at]
        to = at
        while to > 0 and _less(first, second, words[to - 1, 0], words[to - 1, 1]):
            words[to, 0], words[to, 1], order[to] = words[to - 1, 0], words[to - 1, 1], order[to - 1]
            to -= 1
        words[to, 0], words[to, 1], order[to] = first, second, place


@machine_code
def _merge(some: NDArray[np.uint64], others: NDArray[np.uint64], found: NDArray[np.bool_]) -> None:
    at = 0
    for number in range(found.size):
        first, second = some[number, 0], some[number, 1]
        while at < len(others) and _less(others[at, 0], others[at, 1], first, second):
            at += 1
        found[number] = at < len(others) and others[at, 0] == first and others[at, 1] == second
