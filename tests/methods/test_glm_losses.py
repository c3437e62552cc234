"""Losses, penalties and the exact solver: derivatives, bounds, distances, and scikit-learn's answers."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.linear_model import GammaRegressor, Lasso, PoissonRegressor
from sklearn.linear_model import LogisticRegression as SklearnLogistic
from sklearn.svm import LinearSVC
from typed import untyped

from colonnade.data.labels import ClassLabel, CountLabel, RealLabel
from colonnade.errors import PlanError
from colonnade.methods.glm.losses import LOSSES, Penalty
from colonnade.methods.glm.models import solve

LABELS = {
    "logistic": ClassLabel("y", ("no", "yes")),
    "svm": ClassLabel("y", ("no", "yes")),
    "least_squares": RealLabel("y", low=-5, high=3),
    "poisson": CountLabel("y", low=0, high=7),
    "gamma": RealLabel("y", low=0.25, high=16),
}
small = st.floats(-1, 1)


def values(name: str, generator: np.random.Generator, rows: int) -> NDArray[Any]:
    if name in ("logistic", "svm"):
        return generator.integers(0, 2, rows)
    # Far outside the declared range: targets are clipped to it.
    return generator.normal(0, 100, rows)


@pytest.mark.parametrize("name", LOSSES)
def test_the_residual_is_the_derivative_of_the_value(name: str) -> None:
    loss, generator = LOSSES[name], np.random.default_rng(1)
    targets = loss.targets(untyped(LABELS[name]), values(name, generator, 200))
    scores, step = generator.uniform(-2, 2, 200), 1e-6
    slope = (loss.value(scores + step, targets) - loss.value(scores - step, targets)) / (2 * step)
    assert np.allclose(loss.residual(scores, targets), slope, atol=1e-5)


@pytest.mark.parametrize("name", LOSSES)
@given(st.floats(0.1, 2), st.floats(0, 1), st.floats(0.1, 2), st.integers(0, 2**32 - 1))
def test_residuals_of_any_data_keep_the_bounds_that_noise_is_computed_from(
    name: str, radius: float, own: float, passive: float, seed: int
) -> None:
    loss, generator = LOSSES[name], np.random.default_rng(seed)
    bounds = loss.bounds(untyped(LABELS[name]), radius=radius, active_cap=own, passive_cap=passive)
    targets = loss.targets(untyped(LABELS[name]), values(name, generator, 64))
    received = generator.uniform(-radius * passive, radius * passive, 64)
    scores = generator.choice([-1, 1], 64) * radius * own + received
    residuals = loss.residual(scores, targets)
    assert np.abs(residuals).max() <= bounds.size
    other = generator.choice([-1, 1], 64) * radius * own + received
    shuffled = targets[generator.permutation(64)]
    assert np.abs(residuals - loss.residual(other, shuffled)).max() <= bounds.row * (1 + 1e-12)
    moved = loss.residual(scores + 1e-4, targets) - residuals
    assert (moved >= -1e-12).all()
    # A step beyond the largest score may be steeper by the factor of that step.
    assert (moved <= bounds.slope * 1e-4 * 1.001).all()


def test_residuals_do_not_overflow_means_have_units_and_penalties_names() -> None:
    residuals = LOSSES["logistic"].residual(np.array([-1e4, 1e4, 0.0]), np.array([1.0, 1.0, -1.0]))
    assert residuals.tolist() == [-1.0, -0.0, 0.5]
    assert LOSSES["least_squares"].mean(np.array([-1.0, 1.0]), untyped(LABELS["least_squares"])).tolist() == [
        -5.0,
        3.0,
    ]
    assert LOSSES["gamma"].mean(np.array([0.0]), untyped(LABELS["gamma"])).tolist() == [2.0]
    assert LOSSES["poisson"].mean(np.array([0.0]), untyped(LABELS["poisson"])).tolist() == [1.0]
    assert LOSSES["logistic"].mean(np.array([0.0]), untyped(LABELS["logistic"])).tolist() == [0.5]
    assert LOSSES["svm"].mean(np.array([0.5]), untyped(LABELS["svm"])).tolist() == [0.5]
    assert Penalty.named("none", 3.0) == Penalty()
    assert Penalty.named("l2", 3.0) == Penalty(l2=3.0)
    assert Penalty.named("l1", 3.0) == Penalty(l1=3.0)
    with pytest.raises(PlanError, match="not l1 = nan"):
        Penalty(l1=float("nan"))


@given(
    st.lists(small, min_size=3, max_size=3),
    st.lists(small, min_size=3, max_size=3),
    st.floats(0, 2),
    st.floats(0, 2),
    st.floats(0.01, 5),
    st.integers(0, 1),
)
def test_no_penalty_moves_two_weights_apart(
    first: list[float], second: list[float], l1: float, l2: float, step: float, free: int
) -> None:
    penalty = Penalty(l1=l1, l2=l2)
    a, b = np.array(first), np.array(second)
    moved = penalty.step(a, step, free=free) - penalty.step(b, step, free=free)
    assert np.linalg.norm(moved) <= np.linalg.norm(a - b) * (1 + 1e-15)


@given(st.floats(-3, 3), st.floats(0, 2), st.floats(0, 2), st.floats(0.01, 5))
def test_the_proximal_step_minimises_distance_plus_penalty(
    weight: float, l1: float, l2: float, step: float
) -> None:
    penalty = Penalty(l1=l1, l2=l2)
    (found,) = penalty.step(np.array([weight]), step)
    grid = np.linspace(-3, 3, 601)
    objective = (grid - weight) ** 2 / (2 * step) + l1 * np.abs(grid) + l2 / 2 * grid**2
    best = (found - weight) ** 2 / (2 * step) + penalty.value(np.array([found]))
    assert best <= objective.min() + 1e-12


@pytest.fixture(scope="module")
def rows() -> tuple[Any, NDArray[np.float64], NDArray[np.float64]]:
    generator = np.random.default_rng(3)
    features = generator.normal(size=(400, 3)) / 2
    return generator, features, np.column_stack([features, np.ones(400)])


def test_the_solver_agrees_with_scikit_learn(
    rows: tuple[Any, NDArray[np.float64], NDArray[np.float64]],
) -> None:
    generator, features, bordered = rows
    scores = features @ [1.0, -2.0, 0.5] + 0.3
    classes = generator.random(400) < 1 / (1 + np.exp(-scores))
    signs = np.where(classes, 1.0, -1.0)
    counts = generator.poisson(np.exp(scores / 2)).astype(float)
    costs = generator.gamma(2.0, np.exp(scores / 2) / 2) + 1e-6
    peers = {
        "logistic": (
            signs,
            SklearnLogistic(C=1 / (400 * 0.01), tol=1e-10, max_iter=1000).fit(features, classes),
        ),
        "poisson": (counts, PoissonRegressor(alpha=0.01, tol=1e-10, max_iter=1000).fit(features, counts)),
        "gamma": (costs, GammaRegressor(alpha=0.01, tol=1e-10, max_iter=1000).fit(features, costs)),
    }
    for name, (targets, peer) in peers.items():
        found = solve(bordered, targets, loss=LOSSES[name], penalty=Penalty(l2=0.01))
        assert np.allclose(found[:3], np.ravel(peer.coef_), atol=2e-4), name
        assert np.allclose(found[3], peer.intercept_, atol=2e-4), name
    # Without a penalty the intercept's penalty in LinearSVC does not matter.
    machine = LinearSVC(
        C=1e6, loss="squared_hinge", tol=1e-8, max_iter=200_000, dual=False, intercept_scaling=100
    )
    found = solve(bordered, signs, loss=LOSSES["svm"], penalty=Penalty())
    machine.fit(features, classes)
    assert np.allclose(found[:3], np.ravel(machine.coef_), atol=1e-3)
    lasso = Lasso(alpha=0.1, tol=1e-10).fit(features, scores)
    found = solve(bordered, scores, loss=LOSSES["least_squares"], penalty=Penalty(l1=0.2))
    assert np.allclose(found[:3], lasso.coef_, atol=1e-5)
    assert np.count_nonzero(np.abs(found[:3]) < 1e-9) == np.count_nonzero(lasso.coef_ == 0)
