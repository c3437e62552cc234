"""The floating-point attack: it breaks textbook noise in doubles and finds nothing in integers.

A double near 0 that was made by adding noise to 0 keeps all its low bits; made by adding noise to 1 it is
a difference of doubles near 1 and a multiple of 2^-53. So {|y| < 1/4, y not a multiple of 2^-53} tells 0
from 1, whatever the noise's law is (the attack of Mironov's "On significance of the least significant
bits for differential privacy").
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from noise_statistics import lower_bound
from numpy.typing import NDArray

from colonnade.noise import DiscreteGaussianNoise, DiscreteLaplaceNoise, SkellamNoise
from colonnade.randomness import SystemRandomness

DRAWS = 400_000
GRID = 1 << 20  # units of our integers in one unit of the value


def textbook_laplace(value: float, source: Any) -> NDArray[np.float64]:
    uniform = source.random(DRAWS) - 0.5
    result: NDArray[np.float64] = value - np.sign(uniform) * np.log1p(-2 * np.abs(uniform))
    return result


def textbook_gaussian(value: float, source: Any) -> NDArray[np.float64]:
    radius = np.sqrt(-2 * np.log(1 - source.random(DRAWS)))
    result: NDArray[np.float64] = value + radius * np.cos(2 * np.pi * source.random(DRAWS))
    return result


def attack(from_zero: NDArray[np.float64], from_one: NDArray[np.float64]) -> float:
    """A lower bound on ε at δ = 0 from the low bits of outputs near 0."""

    def seen(outputs: NDArray[np.float64]) -> int:
        near = outputs[np.abs(outputs) < 0.25]
        return int(np.count_nonzero(near * 2.0**53 % 1 != 0))

    return lower_bound(seen(from_zero), seen(from_one), count=DRAWS)


@pytest.mark.parametrize("textbook", [textbook_laplace, textbook_gaussian])
def test_low_bits_break_textbook_noise(textbook: Callable[..., Any]) -> None:
    """Laplace of scale 1 claims ε = 1 for a change of 1; the outputs show more than 7."""
    source = np.random.default_rng(2012)
    assert attack(textbook(0.0, source), textbook(1.0, source)) > 7


@pytest.mark.parametrize(
    "noise",
    [
        DiscreteLaplaceNoise(Fraction(GRID)),
        DiscreteGaussianNoise(Fraction(GRID) ** 2),
        SkellamNoise(Fraction(GRID) ** 2 / 2),
    ],
    ids=lambda noise: type(noise).__name__,
)
def test_low_bits_of_ours_say_nothing(noise: DiscreteLaplaceNoise | DiscreteGaussianNoise) -> None:
    zero, one = ((value * GRID + noise.draw(DRAWS, SystemRandomness())) / GRID for value in (0, 1))
    assert attack(zero, one) == 0.0
    # Nor does any other grid of low bits: each neighbour reaches every residue of the integers alike.
    for bits in (1, 4, 8):
        tables = [
            np.bincount((y * GRID).astype(np.int64) % (1 << bits), minlength=1 << bits) for y in (zero, one)
        ]
        for residue in range(1 << bits):
            assert lower_bound(int(tables[0][residue]), int(tables[1][residue]), count=DRAWS) <= 1.0
        assert all(np.all(table > 0) for table in tables)


def test_draws_are_integers_and_stay_so() -> None:
    assert SkellamNoise(Fraction(10**18)).draw(10, SystemRandomness()).dtype == np.int64
