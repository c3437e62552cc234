"""DP-SGD by a trusted party: what a record can add to a step, what the run costs, and where it ends without noise."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from margin_runs import Silence
from sklearn.linear_model import LogisticRegression
from typed import untyped

from colonnade.errors import PlanError
from colonnade.methods.baselines import descents as descent
from colonnade.methods.baselines import descents as frank_wolfe
from colonnade.methods.baselines.descents import (
    GRID,
    CentralLoss,
    DescentSchedule,
    Law,
    Walk,
    choice_epsilon,
    clipped_sum,
    descend,
    entry_sum,
    schedule,
    walk,
    wander,
)
from colonnade.privacy.events import Approximated
from colonnade.privacy.guarantee import account
from colonnade.randomness import SeededRandomness

LAWS: tuple[Law, ...] = ("gaussian", "laplace")


def people(rows: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(rows, columns)) * 10.0 ** rng.uniform(-3, 3, size=(rows, 1))
    return features, rng.integers(0, 2, rows)


@pytest.mark.parametrize("law", LAWS)
@given(st.integers(0, 2**20), st.integers(1, 5), st.sampled_from([1, 3]), st.floats(1e-6, 1e6))
def test_no_record_adds_more_than_the_grid_to_a_step(
    law: Law, seed: int, columns: int, outputs: int, clip: float
) -> None:
    features, classes = people(6, columns, seed)
    loss = CentralLoss("classes", classes, outputs=outputs)
    weights = np.random.default_rng(seed).normal(size=(outputs, columns))
    for record in range(6):
        alone = clipped_sum(features, loss, weights, np.array([record]), clip=clip, law=law).astype(object)
        assert (np.dot(alone, alone) if law == "gaussian" else np.abs(alone).sum()) <= GRID ** (
            2 if law == "gaussian" else 1
        )


@pytest.mark.parametrize("law", LAWS)
def test_a_step_adds_up_its_records(law: Law, monkeypatch: pytest.MonkeyPatch) -> None:
    features, classes = people(40, 3, 1)
    loss, weights = CentralLoss("classes", classes, outputs=1), np.ones((1, 3))
    everybody = np.arange(40)
    whole = clipped_sum(features, loss, weights, everybody, clip=1.0, law=law)
    alone = [clipped_sum(features, loss, weights, everybody[i : i + 1], clip=1.0, law=law) for i in range(40)]
    assert np.array_equal(whole, np.sum(alone, axis=0))
    monkeypatch.setattr(descent, "_PIECE", 9)
    assert np.array_equal(whole, clipped_sum(features, loss, weights, everybody, clip=1.0, law=law))


def test_short_gradients_are_not_clipped_and_a_schedule_has_steps() -> None:
    features = np.array([[0.25, -0.5]])
    loss = CentralLoss("numbers", np.array([0.5]), outputs=1)
    found = clipped_sum(features, loss, np.zeros((1, 2)), np.array([0]), clip=1.0, law="gaussian")
    assert found.tolist() == [-GRID // 8, GRID // 4]
    with pytest.raises(PlanError, match="at least one epoch"):
        schedule(100, entries=1, law="gaussian", epochs=0, batch=10, epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize("law", LAWS)
@given(epsilon=st.sampled_from([0.1, 1.0, 10.0]), batch=st.sampled_from([10, 250, 1000]))
def test_the_run_stays_within_its_epsilon(law: Law, epsilon: float, batch: int) -> None:
    made = schedule(1000, entries=4, law=law, epochs=2, batch=batch, epsilon=epsilon, delta=1e-5)
    delta = 1e-5 if law == "gaussian" else 0.0
    assert account(made.event, delta).epsilon <= epsilon
    less = replace(made, noise=made.noise * Fraction(99, 100))
    assert account(less.event, delta).epsilon > epsilon, "and wastes none of it"


@pytest.mark.parametrize("law", LAWS)
def test_the_event_is_the_one_that_the_noise_owes(law: Law) -> None:
    made = schedule(1000, entries=4, law=law, epochs=1, batch=100, epsilon=1.0, delta=1e-5)
    step = made.event.event.event  # type: ignore[union-attr]
    owed = made.mechanism.event(GRID, entries=4)
    if isinstance(step, Approximated) and isinstance(owed, Approximated):
        # Sampled batches are accounted for by their Rényi curve, which asks for no number of coordinates.
        assert (step.draws, step.bits) == (owed.draws, owed.bits)
        owed = replace(owed, event=replace(owed.event, coordinates=untyped(None)))
    assert step == owed
    assert isinstance(step, Approximated) == (law == "gaussian")


def test_a_sample_has_the_rate_that_was_accounted_for() -> None:
    made = DescentSchedule(
        "gaussian", rows=200_000, entries=1, steps=1, rate=Fraction(1, 8), noise=Fraction(1)
    )
    sizes = len(descent._sample(made, SeededRandomness(3)))
    spread = (200_000 * 7 / 64) ** 0.5
    assert abs(sizes - 25_000) < 6.2 * spread  # false alarm 1e-9
    assert not abs(sizes - 200_000 * 0.14) < 6.2 * spread, "this would notice a rate of 0.14"
    assert len(descent._sample(replace(made, rate=Fraction(1)), SeededRandomness(3))) == 200_000


def test_without_noise_and_clipping_it_finds_the_exact_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DescentSchedule, "mechanism", Silence())
    rng = np.random.default_rng(0)
    features = np.column_stack([rng.uniform(-1, 1, (400, 2)), np.ones(400)])
    classes = (features @ [2.0, -1.0, 0.3] + rng.logistic(size=400) > 0).astype(np.int64)
    made = DescentSchedule("gaussian", rows=400, entries=3, steps=600, rate=Fraction(1), noise=Fraction(1))
    loss = CentralLoss("classes", classes, outputs=1)
    found = descend(features, loss, made, clip=10.0, learning_rate=2.0, randomness=SeededRandomness(0))
    exact = LogisticRegression(C=1e9, fit_intercept=False, tol=1e-10).fit(features, classes).coef_
    assert np.abs(found - exact).max() < 1e-3


def test_softmax_residuals_are_the_gradient_of_the_loss() -> None:
    rng = np.random.default_rng(2)
    scores, classes = rng.normal(size=(5, 3)), rng.integers(0, 3, 5)
    residuals = CentralLoss("classes", classes, outputs=3).residuals(scores, np.arange(5))

    def value(at: np.ndarray) -> float:
        return float(np.sum(np.log(np.exp(at).sum(axis=1)) - at[np.arange(5), classes]))

    for place in np.ndindex(5, 3):
        step = np.zeros_like(scores)
        step[place] = 1e-6
        slope = (value(scores + step) - value(scores - step)) / 2e-6
        assert slope == pytest.approx(residuals[place], abs=1e-6)


# Private Frank-Wolfe by a trusted party: what a choice costs, and where the walk ends without noise.


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


def test_without_noise_it_walks_to_the_least_squares_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frank_wolfe, "DiscreteLaplaceNoise", lambda scale: Silence())
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
