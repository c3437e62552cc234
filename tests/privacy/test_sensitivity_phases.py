"""Sensitivities of sums of rounded phases against brute force."""

import dataclasses
import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from colonnade.privacy.sensitivity.gradient import JointPhases, Phases

STEPS = 17


def phases(gamma: int, harmonics: int, *reaches: float) -> Phases:
    """As a plan makes them: owners whose parts reach so far, at a period in which nothing wraps around."""
    frequencies = tuple(2 * number + 1 for number in range(harmonics))
    amplitudes = tuple(round(gamma / math.sqrt(frequency)) for frequency in frequencies)
    omega = math.pi / (2 * sum(reaches))
    return Phases(frequencies, amplitudes, gamma, gamma, tuple(2 * omega * extent for extent in reaches))


def rounded(sizes: Any, angle: Any, frequencies: Any) -> NDArray[np.complex128]:
    rotated = np.array(sizes) * np.exp(1j * angle * np.array(frequencies))
    result: NDArray[np.complex128] = np.rint(rotated.real) + 1j * np.rint(rotated.imag)
    return result


def row(bounds: Phases, label: int, first: Any, *others: float) -> NDArray[np.float64]:
    """What a record adds, both classes beside each other."""
    product, count = rounded(bounds.amplitudes, first, bounds.frequencies), bounds.count
    for angle in others:
        product = product * rounded([bounds.grid] * len(bounds.frequencies), angle, bounds.frequencies)
        count *= bounds.grid
    own = np.concatenate([[count], product.real, product.imag])
    blank = np.zeros_like(own)
    return np.concatenate([own, blank] if label == 0 else [blank, own])


def angles(turn: float) -> NDArray[np.float64]:
    return np.linspace(-turn / 2, turn / 2, STEPS)


CASES = [(4, 1, 1.0, 1.0), (8, 2, 1.0, 1.0), (16, 3, 3.0, 1.0), (64, 2, 0.2, 2.0), (9, 4, 1.0, 5.0)]


def moved(pairs: Iterable[Any]) -> tuple[Any, Any]:
    changes = [after - before for before, after in pairs]
    return max(np.linalg.norm(change) for change in changes), max(np.abs(change).sum() for change in changes)


def holds(found: dict[Any, Any], near: float = math.inf) -> None:
    """Nothing moved further than stated; once rounding is small, what is stated is not much more than what there is."""
    for stated, (l2, l1) in found.items():
        assert l2 <= stated.l2 <= near * l2 and l1 <= stated.l1


@pytest.mark.parametrize("case", CASES)
def test_no_record_moves_the_sums_further_than_is_said(case: tuple[int, int, float, float]) -> None:
    bounds = phases(*case)
    mine, theirs = angles(bounds.turns[0]), angles(bounds.turns[1])
    rows = {key: row(bounds, *key) for key in itertools.product((0, 1), mine, theirs)}
    zero = np.zeros_like(next(iter(rows.values())))
    found = {
        bounds.zeroed(): moved((zero, after) for after in rows.values()),
        bounds.others_replaced(): moved(
            (rows[0, first, old], rows[0, first, new])
            for first in mine[:: STEPS // 4]
            for old, new in itertools.product(theirs, theirs)
        ),
        bounds.holder_replaced(1): moved(
            (rows[0, old, second], rows[label, new, second])
            for second in theirs[:: STEPS // 4]
            for label in (0, 1)
            for old, new in itertools.product(mine, mine)
        ),
    }
    holds(found, near=1.35 if case[0] >= 16 else math.inf)
    some = list(rows.values())[:: max(1, len(rows) // 90)]
    holds({bounds.replaced(): moved(itertools.product(some, some))})


@pytest.mark.parametrize("case", CASES)
def test_no_coefficient_of_a_record_is_larger_than_is_said(case: tuple[int, int, float, float]) -> None:
    bounds = phases(*case)
    theirs = [
        rounded([bounds.grid] * len(bounds.frequencies), angle, bounds.frequencies)
        for angle in angles(bounds.turns[1])
    ]
    mine = [rounded(bounds.amplitudes, angle, bounds.frequencies) for angle in angles(bounds.turns[0])]
    found = max(np.abs(first * second).max() for first, second in itertools.product(mine, theirs))
    assert max(found, bounds.count * bounds.grid) <= bounds.largest
    if case[0] >= 16:
        assert bounds.largest <= 1.15 * found


def test_a_finer_grid_comes_to_the_norms_of_phases_that_are_not_rounded() -> None:
    bounds, gamma = phases(1 << 14, 8, 1.0, 1.0), float(1 << 14)
    weights = np.array([1 / frequency for frequency in bounds.frequencies])
    assert bounds.zeroed().l2 / gamma**2 == pytest.approx(math.sqrt(1 + weights.sum()), rel=1e-3)
    # With odd frequencies everything turns round at once where a score goes from one end to the other.
    assert bounds.replaced().l2 / gamma**2 == pytest.approx(2 * math.sqrt(weights.sum()), rel=1e-3)
    rotated = np.linspace(0, bounds.turns[1], 20001)[:, None] * np.array(bounds.frequencies)
    half = math.sqrt(float((weights * (2 - 2 * np.cos(rotated))).sum(axis=1).max()))
    assert bounds.others_replaced().l2 / gamma**2 == pytest.approx(half, rel=5e-3)


def test_brute_force_would_notice_a_bound_without_the_rounding() -> None:
    """A control: on a coarse grid rounding alone moves more than phases that are not rounded."""
    bounds = phases(4, 1, 1.0, 1.0)
    plain = math.hypot(bounds.count * bounds.grid, bounds.amplitudes[0] * bounds.grid)
    worst = max(
        np.linalg.norm(row(bounds, 0, first, second))
        for first in angles(bounds.turns[0])
        for second in angles(bounds.turns[1])
    )
    assert plain < worst <= bounds.zeroed().l2


@pytest.mark.parametrize("case", [(4, 2, 1.0, 1.0, 1.0), (16, 2, 1.0, 3.0, 0.5), (64, 1, 2.0, 0.3, 0.4)])
def test_no_record_of_three_owners_moves_the_sums_further_than_is_said(
    case: tuple[int, int, float, float, float],
) -> None:
    bounds = phases(*case)
    parts = [np.linspace(-turn / 2, turn / 2, 7) for turn in bounds.turns]
    rows = {key: row(bounds, *key) for key in itertools.product((0, 1), *parts)}
    zero = np.zeros_like(next(iter(rows.values())))
    pairs = list(itertools.product(parts[1], parts[2]))
    one, several = parts[1][3], list(itertools.product(parts[0][::2], parts[2][::2]))
    found = {
        bounds.zeroed(): moved((zero, after) for after in rows.values()),
        bounds.others_replaced(): moved(
            (rows[0, parts[0][2], *old], rows[0, parts[0][2], *new])
            for old, new in itertools.product(pairs[::2], pairs[::3])
        ),
        # Of the first owner without the label the part stays.
        bounds.holder_replaced(1): moved(
            (rows[0, old[0], one, old[1]], rows[label, new[0], one, new[1]])
            for label in (0, 1)
            for old, new in itertools.product(several, several)
        ),
    }
    holds(found, near=1.6 if case[0] >= 16 else math.inf)
    some = list(rows.values())[:: max(1, len(rows) // 90)]
    holds({bounds.replaced(): moved(itertools.product(some, some))})


def test_heads_add_up_in_squares() -> None:
    once = phases(64, 3, 1.0, 2.0)
    thrice = dataclasses.replace(once, heads=3)
    for name in ("zeroed", "others_replaced", "replaced"):
        assert getattr(thrice, name)().l2 == pytest.approx(math.sqrt(3) * getattr(once, name)().l2, rel=1e-3)
        assert getattr(thrice, name)().l1 == pytest.approx(3 * getattr(once, name)().l1, rel=1e-3)
    # Three heads that all move as far as one can: nothing is further.
    alike = np.tile(row(once, 1, once.turns[0] / 2, once.turns[1] / 2), 3)
    assert np.linalg.norm(alike) <= thrice.zeroed().l2 and np.abs(alike).sum() <= thrice.zeroed().l1


# A label that is a number: shares of two ends, and sums of everybody.


def shares(gamma: int, harmonics: int, *reaches: float) -> Phases:
    return dataclasses.replace(phases(gamma, harmonics, *reaches), kind="shares")


def shared_row(bounds: Phases, share: float, first: float, *others: float) -> NDArray[np.float64]:
    """What a record adds that is so near to the second end: both ends beside each other, each rounded by itself."""
    share = round(bounds.count * share) / bounds.count
    found: list[Any] = []
    for weight in (1 - share, share):
        product = rounded([weight * size for size in bounds.amplitudes], first, bounds.frequencies)
        count = round(weight * bounds.count)
        for angle in others:
            product = product * rounded([bounds.grid] * len(bounds.frequencies), angle, bounds.frequencies)
            count *= bounds.grid
        found += [[count], product.real, product.imag]
    return np.concatenate(found)


@pytest.mark.parametrize("case", CASES)
def test_no_record_between_two_ends_moves_the_sums_further_than_is_said(case: Any) -> None:
    bounds = shares(*case)
    mine, theirs = (angles(turn)[:: STEPS // 4] for turn in bounds.turns)
    rows = {
        key: shared_row(bounds, *key) for key in itertools.product((0.0, 0.13, 0.5, 0.9, 1.0), mine, theirs)
    }
    zero = np.zeros_like(next(iter(rows.values())))
    found = {
        bounds.zeroed(): moved((zero, after) for after in rows.values()),
        bounds.others_replaced(): moved(
            (rows[share, mine[2], old], rows[share, mine[2], new])
            for share in (0.0, 0.13, 0.5)
            for old, new in itertools.product(theirs, theirs)
        ),
        bounds.replaced(): moved(itertools.product(list(rows.values())[::3], list(rows.values())[::2])),
    }
    holds(found, near=1.5 if case[0] >= 16 else math.inf)


def test_no_record_moves_sums_of_everybody_further_than_is_said() -> None:
    frequencies, gamma = (1, 2, 4, 8), 16
    amplitudes = tuple(round(gamma * frequency**-0.25) for frequency in frequencies)
    for turns in ((2.0, 1.5), (math.pi * 1.5, 0.0), (3.0, 1.7)):
        bounds = Phases(frequencies, amplitudes, 0, gamma, turns, kind="whole")

        def added(first: float, second: float, bounds: Phases = bounds) -> NDArray[np.float64]:
            both = rounded(amplitudes, first, frequencies) * rounded([gamma] * 4, second, frequencies)
            return np.concatenate([both.real, both.imag])

        mine, theirs = (np.linspace(-turn / 2, turn / 2, 15) for turn in turns)
        rows = {key: added(*key) for key in itertools.product(mine, theirs)}
        found = {
            bounds.zeroed(): moved((np.zeros(8), after) for after in rows.values()),
            bounds.others_replaced(): moved(
                (rows[mine[5], old], rows[mine[5], new]) for old, new in itertools.product(theirs, theirs)
            ),
            bounds.holder_replaced(1): moved(
                (rows[old, theirs[3]], rows[new, theirs[3]]) for old, new in itertools.product(mine, mine)
            ),
            bounds.replaced(): moved(itertools.product(list(rows.values())[::4], list(rows.values())[::5])),
        }
        for stated, (l2, l1) in found.items():
            assert l2 <= stated.l2 <= 1.5 * l2 + 1 and l1 <= stated.l1


def test_sums_beside_each_other_move_at_most_as_far_as_each_alone() -> None:
    blocks = (phases(64, 2, 1.0, 2.0), shares(64, 3, 1.0, 2.0))
    joint = JointPhases(blocks)
    for name in ("zeroed", "others_replaced", "replaced"):
        alone = [getattr(block, name)() for block in blocks]
        together = getattr(joint, name)()
        assert (
            math.hypot(*(one.l2 for one in alone))
            <= together.l2
            <= math.hypot(*(one.l2 for one in alone)) + 1
        )
        assert together.l1 == sum(one.l1 for one in alone)
    of_one = [block.holder_replaced(1).l1 for block in blocks]
    assert joint.holder_replaced(1).l1 == sum(of_one)
    assert joint.largest == max(block.largest for block in blocks)


def test_brute_force_would_notice_that_a_record_between_two_ends_is_rounded_twice() -> None:
    """A control: without the rounding of both ends some record moves further than the bound."""
    bounds = shares(4, 1, 1.0, 1.0)
    plain = math.sqrt(2) * math.hypot(bounds.count * bounds.grid, bounds.amplitudes[0] * bounds.grid)
    rows = [
        shared_row(bounds, share, first, second)
        for share in (0.0, 1.0)
        for first in angles(bounds.turns[0])[::2]
        for second in angles(bounds.turns[1])[::3]
    ]
    assert plain < moved(itertools.product(rows, rows))[0] <= bounds.replaced().l2
