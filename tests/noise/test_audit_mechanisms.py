"""Each mechanism audited through the code users run: draws on neighbours never show more than is claimed.

Each audit has a control: the same audit, shown noise that is too small, exceeds the claim.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from noise_statistics import audited_epsilon
from numpy.typing import NDArray

from colonnade.noise import (
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    MatrixSkellamNoise,
    PoissonBinomialNoise,
    SkellamNoise,
    VectorChange,
)
from colonnade.privacy.events import Event, MatrixChange
from colonnade.privacy.guarantee import account
from colonnade.randomness import SystemRandomness

DELTA = 1e-5
SOURCE = SystemRandomness()


def skellam_parts(shrink: int) -> tuple[Event, float, Callable[..., Any]]:
    """Three parties add parts of 1/2; the observer takes the one it knows off again."""
    change = np.array([3, -2, 1, 0])
    noise = SkellamNoise(Fraction(40))
    event = noise.event(VectorChange(l1=6, l2=4), known=1, parts=3, of=2, entries=4)

    def statistic(neighbour: bool, count: int) -> NDArray[np.int64]:
        part = SkellamNoise(Fraction(40, shrink)).part(2)
        parts = [part.draw((count, 4), SOURCE) for _ in range(3)]
        released = neighbour * change + sum(parts)
        result: NDArray[np.int64] = (released - parts[2]) @ change
        return result

    return event, DELTA, statistic


def matrix_skellam(shrink: int) -> tuple[Event, float, Callable[..., Any]]:
    """The row (2, 1) zeroed out of a moment matrix."""
    row = np.array([2, 1])
    event = MatrixSkellamNoise(Fraction(30)).event(
        MatrixChange(frobenius=5, weighted_l1=9, fourth=33, fourth_l1=13), size=2
    )

    def statistic(neighbour: bool, count: int) -> NDArray[np.int64]:
        noise = MatrixSkellamNoise(Fraction(30, shrink))
        # The 2 × 2 blocks along the diagonal of a matrix of noise are independent releases.
        change = neighbour * np.outer(row, row)
        out = []
        for _ in range(-(-count // 24)):
            drawn = noise.draw_symmetric(48, SOURCE)
            diagonal, between = drawn.diagonal(), drawn[0::2, 1::2].diagonal()
            out.append(
                4 * (diagonal[0::2] + change[0, 0])
                + (diagonal[1::2] + change[1, 1])
                + 2 * 2 * (between + change[0, 1])
            )
        return np.concatenate(out)[:count]

    return event, DELTA, statistic


def discrete_gaussian(shrink: Any) -> Any:
    change = np.array([4, 3])
    event = DiscreteGaussianNoise(Fraction(100)).event(5, entries=2)

    def statistic(neighbour: Any, count: int) -> Any:
        noise = DiscreteGaussianNoise(Fraction(100, shrink)).draw((count, 2), SOURCE)
        return (neighbour * change + noise) @ change

    return event, DELTA, statistic


def discrete_laplace(shrink: Any) -> Any:
    event = DiscreteLaplaceNoise(Fraction(4)).event(4)

    def statistic(neighbour: Any, count: int) -> Any:
        return 4 * neighbour + DiscreteLaplaceNoise(Fraction(4, shrink)).draw(count, SOURCE)

    return event, 0.0, statistic


def polya_parts(shrink: Any) -> Any:
    """Shape 1/(K − t) with K = 3, t = 1: what is left after one known part is a whole discrete Laplace."""
    event = DiscreteLaplaceNoise(Fraction(4)).event(4, known=1, parts=3, of=2, entries=1)

    def statistic(neighbour: Any, count: int) -> Any:
        part = DiscreteLaplaceNoise(Fraction(4, shrink)).part(2)
        parts = [part.draw(count, SOURCE) for _ in range(3)]
        return 4 * neighbour + sum(parts) - parts[2]

    return event, 1e-12, statistic


def poisson_binomial(shrink: Any) -> Any:
    """Three parties' counts summed; one value goes from −C to C, the others stand where they hide least."""
    noise = PoissonBinomialNoise(trials=8, beta=Fraction(1, 8), bound=Fraction(1))
    event = noise.event(parties=3)
    wider = PoissonBinomialNoise(trials=8, beta=Fraction(1, 8) * (1 if shrink == 1 else 3), bound=Fraction(1))

    def statistic(neighbour: Any, count: int) -> Any:
        others = wider.draw(np.ones((count, 2)), SOURCE).sum(axis=1)
        return others + wider.draw(np.full(count, 1.0 if neighbour else -1.0), SOURCE)

    return event, DELTA, statistic


MECHANISMS = (
    *(skellam_parts, matrix_skellam, discrete_gaussian),
    *(discrete_laplace, polya_parts, poisson_binomial),
)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_draws_show_no_more_than_is_claimed(mechanism: Callable[..., Any]) -> None:
    event, delta, statistic = mechanism(1)
    claimed = account(event, delta).epsilon
    # Matrices are drawn one by one, so they are fewer.
    draws = 150_000 if mechanism is matrix_skellam else 500_000
    shown = audited_epsilon(statistic, delta=delta, draws=draws)
    assert claimed / 4 < shown <= claimed  # close enough below that the audit means something


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_audit_would_notice_noise_that_is_too_small(mechanism: Callable[..., Any]) -> None:
    event, delta, statistic = mechanism(9)
    assert audited_epsilon(statistic, delta=delta, draws=100_000) > account(event, delta).epsilon
