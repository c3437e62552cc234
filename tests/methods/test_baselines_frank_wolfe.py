"""Private Frank-Wolfe by a trusted party: what a choice costs, and where the walk ends without noise."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import PlanError
from colonnade.methods.baselines import descents as frank_wolfe
from colonnade.methods.baselines.descents import (
    GRID,
    CentralLoss,
    Walk,
    choice_epsilon,
    entry_sum,
    walk,
    wander,
)
from colonnade.privacy.guarantee import account
from colonnade.randomness import SeededRandomness


@given(st.integers(3, 60))
def test_a_choice_is_never_priced_below_its_own_epsilon(exponent: int) -> None:
    scale = Fraction(2**exponent * 1000)
    own = choice_epsilon(scale)
    if own < 30:
        cost = account(Walk(1, 1.0, scale).event, 0.0).epsilon
        assert own <= cost <= float(own) * (1 + 1e-6) + 1e-13


def chosen_law(scores: list[int], scale: float) -> list[float]:
    """The probability of each choice, summed over the noise: the oracle for small scales."""
    extent = int(40 * scale) + 1
    values = np.arange(-extent, extent + 1)
    mass = np.exp(-np.abs(values) / scale)
    mass /= mass.sum()
    above = np.cumsum(mass[::-1])[::-1]

    def tail(place: int) -> float:
        return float(above[place + extent]) if -extent <= place <= extent else float(place < 0)

    found = []
    for corner, score in enumerate(scores):
        total = 0.0
        for value, weight in zip(values, mass, strict=True):
            here = weight
            for other, rival in enumerate(scores):
                if other != corner:
                    # The first of equals wins.
                    here *= tail(score + int(value) - rival + (1 if other < corner else 0))
            total += here
        found.append(total)
    return found


@given(st.lists(st.integers(-6, 6), min_size=2, max_size=4), st.integers(0, 2**16))
def test_the_least_noisy_score_is_private_as_claimed(scores: list[int], seed: int) -> None:
    """One unit of grid stands for the largest change of a score here: ε = 2/scale."""
    moved = [
        score + int(step)
        for score, step in zip(scores, np.random.default_rng(seed).integers(-1, 2, len(scores)), strict=True)
    ]
    scale = 2.0
    before, after = chosen_law(scores, scale), chosen_law(moved, scale)
    assert sum(before) == pytest.approx(1.0, abs=1e-9)
    for one, other in zip(before, after, strict=True):
        assert max(one, other) <= np.exp(2 / scale) * min(one, other) + 1e-12


def test_the_factor_of_two_is_needed() -> None:
    """With ε = 1/scale the claim would be false, so the test above could fail."""
    before, after = chosen_law([8, 0], 2.0), chosen_law([7, 1], 2.0)
    assert after[0] / before[0] > 1.2 * np.exp(1 / 2.0)


@pytest.mark.parametrize(("epsilon", "steps"), [(0.1, 1), (1.0, 10), (10.0, 60)])
def test_the_walk_stays_within_its_epsilon(epsilon: float, steps: int) -> None:
    made = walk(steps, radius=1.0, epsilon=epsilon, delta=1e-5)
    assert account(made.event, 1e-5).epsilon <= epsilon
    assert account(Walk(steps, 1.0, made.scale * Fraction(99, 100)).event, 1e-5).epsilon > epsilon


@given(st.integers(0, 2**20), st.floats(0.1, 10))
def test_no_record_moves_a_score_by_more_than_the_grid(seed: int, bound: float) -> None:
    rng = np.random.default_rng(seed)
    rows, residuals = rng.normal(size=(5, 3)) * 100, rng.normal(size=(5, 1)) * 100
    for record in range(5):
        here = slice(record, record + 1)
        assert np.abs(entry_sum(rows[here], residuals[here], bound=bound)).max() <= GRID
    everybody = entry_sum(rows, residuals, bound=bound)
    alone = [entry_sum(rows[i : i + 1], residuals[i : i + 1], bound=bound) for i in range(5)]
    assert np.array_equal(everybody, np.sum(alone, axis=0))


class Silent:
    """Noise that is none."""

    def __init__(self, scale: Fraction) -> None:
        pass

    def draw(self, entries: int, randomness: object) -> np.ndarray:
        return np.zeros(entries, dtype=np.int64)


def test_without_noise_it_walks_to_the_least_squares_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frank_wolfe, "DiscreteLaplaceNoise", Silent)
    rng = np.random.default_rng(1)
    features = rng.uniform(-1, 1, (500, 3))
    wanted = np.array([0.3, -0.2, 0.1])
    loss = CentralLoss("numbers", features @ wanted, outputs=1)
    made = Walk(steps=4000, radius=1.0, scale=Fraction(GRID))
    found = wander(features, loss, made, bound=2.0, randomness=SeededRandomness(0))
    assert np.abs(found - wanted).max() < 5e-3
    assert np.abs(found).sum() <= 1.0 + 1e-12


@pytest.mark.parametrize(
    ("steps", "radius", "epsilon", "delta"),
    [(0, 1.0, 1.0, 1e-5), (5, 0.0, 1.0, 1e-5), (5, 1.0, 30.0, 1e-5), (5, 1.0, 1.0, 0.6)],
)
def test_walks_that_cannot_be_accounted_for_are_refused(
    steps: int, radius: float, epsilon: float, delta: float
) -> None:
    with pytest.raises(PlanError):
        walk(steps, radius=radius, epsilon=epsilon, delta=delta)
