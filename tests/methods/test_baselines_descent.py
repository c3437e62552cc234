"""DP-SGD by a trusted party: what a record can add to a step, what the run costs, and where it ends without noise."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from typed import untyped

from colonnade.errors import PlanError
from colonnade.methods.baselines import descents as descent
from colonnade.methods.baselines.descents import (
    GRID,
    CentralLoss,
    DescentSchedule,
    Law,
    clipped_sum,
    descend,
    schedule,
)
from colonnade.privacy.events import Approximated
from colonnade.privacy.guarantee import account
from colonnade.randomness import SeededRandomness

LAWS: tuple[Law, ...] = ("gaussian", "laplace")
FALSE_ALARM = 1e-9


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


def test_short_gradients_are_not_clipped() -> None:
    features = np.array([[0.25, -0.5]])
    loss = CentralLoss("numbers", np.array([0.5]), outputs=1)
    found = clipped_sum(features, loss, np.zeros((1, 2)), np.array([0]), clip=1.0, law="gaussian")
    assert found.tolist() == [-GRID // 8, GRID // 4]


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


class Silent:
    """Noise that is none: the ideal."""

    def draw(self, entries: int, randomness: object) -> np.ndarray:
        return np.zeros(entries, dtype=np.int64)


def test_without_noise_and_clipping_it_finds_the_exact_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DescentSchedule, "mechanism", Silent())
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


def test_a_schedule_without_steps_is_refused() -> None:
    with pytest.raises(PlanError, match="at least one epoch"):
        schedule(100, entries=1, law="gaussian", epochs=0, batch=10, epsilon=1.0, delta=1e-5)
