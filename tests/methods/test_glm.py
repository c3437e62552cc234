"""Losses, penalties, the exact solver, and models trained by messages."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages_samples import LABELS
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import GammaRegressor, Lasso, PoissonRegressor
from sklearn.linear_model import LogisticRegression as SklearnLogistic
from sklearn.svm import LinearSVC
from typed import untyped

from colonnade import (
    Federation,
    GammaRegression,
    LinearRegression,
    LogisticRegression,
    PoissonRegression,
    Schema,
    SupportVectorClassifier,
    Table,
)
from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import CountLabel, RealLabel
from colonnade.errors import OnlyForPublicData, PlanError
from colonnade.methods.baselines.method import SINGLE, IdealOptions, exactly, ideal_messages
from colonnade.methods.glm.losses import LOSSES, GlmOptions, LeastSquares, Penalty
from colonnade.methods.glm.models import solve
from colonnade.methods.glm.rows import CONSTANT, GAMMA
from colonnade.methods.messages.method import METHOD as MESSAGES
from colonnade.methods.messages.method import SPLIT
from colonnade.methods.method import Baseline, Method
from colonnade.methods.one_shot.method import calibrated
from colonnade.protocols.plans import Task, TrainingSpec, check_parties

small = st.floats(-1, 1)


def values(name: str, generator: np.random.Generator, rows: int) -> NDArray[Any]:
    if LABELS[name].classes:
        return generator.integers(0, 2, rows)
    # Far outside the declared range: targets are clipped to it.
    return generator.normal(0, 100, rows)


@pytest.mark.parametrize("name", LOSSES)
def test_the_residual_is_the_derivative_of_the_value(name: str) -> None:
    loss, generator = LOSSES[name], np.random.default_rng(1)
    targets = loss.targets(LABELS[name], values(name, generator, 200))
    scores, step = generator.uniform(-2, 2, 200), 1e-6
    slope = (loss.value(scores + step, targets) - loss.value(scores - step, targets)) / (2 * step)
    assert np.allclose(loss.residual(scores, targets), slope, atol=1e-5)


def test_residuals_do_not_overflow_means_have_units_and_penalties_names() -> None:
    residuals = LOSSES["logistic"].residual(np.array([-1e4, 1e4, 0.0]), np.array([1.0, 1.0, -1.0]))
    assert residuals.tolist() == [-1.0, -0.0, 0.5]
    for name, score, mean in (
        ("least_squares", -1.0, -2.0),
        ("least_squares", 1.0, 2.0),
        ("gamma", 0.0, 2.0),
        ("poisson", 0.0, 1.0),
        ("logistic", 0.0, 0.5),
        ("svm", 0.5, 0.5),
    ):
        assert LOSSES[name].mean(np.array([score]), LABELS[name]) == pytest.approx([mean])
    assert Penalty.named("none", 3.0) == Penalty()
    assert Penalty.named("l2", 3.0) == Penalty(l2=3.0)
    assert Penalty.named("l1", 3.0) == Penalty(l1=3.0)
    assert Penalty.named("elastic_net", 3.0, mix=0.5) == Penalty(l1=3.0, l2=1.5)
    with pytest.raises(PlanError, match="not l1 = nan"):
        Penalty(l1=float("nan"))


@given(st.lists(small, min_size=6, max_size=6), st.floats(0, 2), st.floats(0, 2), st.floats(0.01, 5))
def test_no_penalty_moves_two_weights_apart(pair: list[float], l1: float, l2: float, step: float) -> None:
    penalty, free = Penalty(l1=l1, l2=l2), int(pair[0] > 0)
    a, b = np.array(pair[:3]), np.array(pair[3:])
    moved = penalty.step(a, step, free=free) - penalty.step(b, step, free=free)
    assert np.linalg.norm(moved) <= np.linalg.norm(a - b) * (1 + 1e-15)


@given(st.floats(-3, 3), st.floats(0, 2), st.floats(0, 2), st.floats(0.01, 5))
def test_a_step_minimises_distance_plus_penalty(weight: float, l1: float, l2: float, step: float) -> None:
    penalty = Penalty(l1=l1, l2=l2)
    (found,) = penalty.step(np.array([weight]), step)
    grid = np.linspace(-3, 3, 601)
    objective = (grid - weight) ** 2 / (2 * step) + l1 * np.abs(grid) + l2 / 2 * grid**2
    best = (found - weight) ** 2 / (2 * step) + penalty.value(np.array([found]))
    assert best <= objective.min() + 1e-12


def test_the_solver_agrees_with_scikit_learn() -> None:
    generator = np.random.default_rng(3)
    features = generator.normal(size=(400, 3)) / 2
    bordered = np.column_stack([features, np.ones(400)])
    scores = features @ [1.0, -2.0, 0.5] + 0.3
    classes = generator.random(400) < 1 / (1 + np.exp(-scores))
    signs = np.where(classes, 1.0, -1.0)
    counts = generator.poisson(np.exp(scores / 2)).astype(float)
    costs = generator.gamma(2.0, np.exp(scores / 2) / 2) + 1e-6
    logistic = SklearnLogistic(C=1 / (400 * 0.01), tol=1e-10, max_iter=1000).fit(features, classes)
    peers = {
        "logistic": (signs, logistic),
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


ROWS = 3000
generator = np.random.default_rng(5)
RAW = {name: generator.uniform(-1, 1, ROWS) for name in ("a", "b", "c", "d")}
SCORE = 1.5 * RAW["a"] - RAW["b"] + 2 * RAW["c"] + 0.3
TARGETS = {
    "classes": (LABELS["logistic"], np.where(SCORE + generator.logistic(size=ROWS) > 0, "yes", "no")),
    "number": (RealLabel("y", low=-5, high=5), SCORE + generator.normal(size=ROWS) / 2),
    "count": (CountLabel("y", low=0, high=9), np.minimum(generator.poisson(np.exp(SCORE / 2 - 0.5)), 9.0)),
    "cost": (RealLabel("y", low=0.1, high=10), np.clip(generator.gamma(3, np.exp(SCORE / 3) / 3), 0.1, 10)),
}


def federation(kind: str, *, owners: Any = ("ab", "cd"), public: bool = False) -> Federation:
    label, y = TARGETS[kind]
    made = []
    for number, names in enumerate(owners):
        columns = tuple(NumericColumn(name, low=-1, high=1) for name in names)
        arrays = {name: RAW[name] for name in names} | ({} if number else {"y": y})
        schema = Schema("row", columns, untyped(None if number else label))
        made.append(Table.from_arrays(f"party{number}", arrays, schema))
    return Federation(made, budget=(60.0, 1e-4), noise_seed=2, public=public)


def requested(method: Baseline | Method, task: Task, epsilon: float = 1.0, **options: Any) -> TrainingSpec:
    return TrainingSpec(task, epsilon, options=method.options(**options))


def scores(learnt: Any) -> Any:
    return (learnt.frame.features(RAW) @ learnt.coefficients.T + learnt.intercepts)[:, 0]


def test_at_a_generous_epsilon_every_model_learns() -> None:
    yes = TARGETS["classes"][1]
    for model in (
        LogisticRegression(method="private-messages", epsilon=20.0, delta=1e-6),
        LogisticRegression(method="one-shot", epsilon=20.0, delta=1e-6),
        SupportVectorClassifier(epsilon=20.0),
    ):
        model.fit(federation("classes"))
        assert model.score(RAW, yes) > 0.68
        assert max(guarantee.epsilon for guarantee in model.privacy_) <= 20.0
    line = LinearRegression(method="private-messages", epsilon=20.0, delta=1e-6).fit(federation("number"))
    assert np.corrcoef(line.predict(RAW), SCORE)[0, 1] > 0.5
    counts = PoissonRegression(epsilon=20.0).fit(federation("count"))
    assert np.corrcoef(counts.predict(RAW), np.exp(SCORE / 2))[0, 1] > 0.6
    costs = GammaRegression(epsilon=30.0, options={"epochs": 20}).fit(federation("cost"))
    assert np.corrcoef(costs.predict(RAW), np.exp(SCORE / 3))[0, 1] > 0.4
    assert costs.deviance(RAW, TARGETS["cost"][1]) > 0


def test_owners_learn_together_and_one_alone_says_nothing() -> None:
    model = LogisticRegression(method="private-messages", epsilon=20.0, delta=1e-6)
    model.fit(federation("classes", owners=("a", "b", "cd")))
    assert model.score(RAW, TARGETS["classes"][1]) > 0.7
    assert len(model.privacy_) == 6
    parties = federation("classes")
    learnt = SINGLE.train(parties, requested(SINGLE, "classification"))
    assert untyped(learnt).coefficients[0, 2:].tolist() == [0.0, 0.0]
    assert untyped(learnt).coefficients[0, 0] > 0 > untyped(learnt).coefficients[0, 1]
    assert not learnt.privacy
    assert all(not ledger.totals() for ledger in parties.ledgers.values())


def test_training_without_noise_is_what_scikit_learn_finds() -> None:
    counts, public = TARGETS["count"][1], federation("count", public=True)
    peer = PoissonRegressor(alpha=0, tol=1e-9, max_iter=2000).fit(np.column_stack(list(RAW.values())), counts)
    wanted = np.log(peer.predict(np.column_stack(list(RAW.values()))))
    spec, free = TrainingSpec("regression", 1.0), GlmOptions(strength=0.0)
    options = IdealOptions(strength=0.0, epochs=400, learning_rate=2.0)
    messages = ideal_messages(public, spec, LOSSES["poisson"], options)
    assert np.abs(scores(messages) - wanted).max() < 0.01
    central = exactly(public, spec, LOSSES["poisson"], free, alone=False)
    assert np.abs(scores(central) - wanted).max() < 1e-3
    # A loss of numbers that is added later has a model in the label's units too.
    known, renamed = LOSSES["least_squares"], type("Renamed", (LeastSquares,), {"name": "renamed"})()
    line = federation("number", public=True)
    one, other = (exactly(line, spec, loss, free, alone=False) for loss in (known, renamed))
    assert np.array_equal(scores(one), scores(other))


def test_what_protects_nobody_has_no_plan_and_the_same_seed_gives_the_same_model() -> None:
    with pytest.raises(PlanError, match="protects nobody"):
        requested(MESSAGES, "classification", calibration="paper").check()
    spec, counts = TrainingSpec("regression", 1.0), federation("count")
    with pytest.raises(OnlyForPublicData, match="protects nobody"):
        exactly(counts, spec, LOSSES["poisson"], GlmOptions(), alone=False)
    schemas = tuple(table.public() for table in counts.tables.values())
    with pytest.raises(PlanError, match="in their order"):
        check_parties(counts.group, schemas[::-1], "regression")
    model = SupportVectorClassifier(epsilon=2.0, options={"epochs": 3})
    first, second = (clone(model).fit(federation("classes")) for _ in range(2))
    assert np.array_equal(first.coef_, second.coef_) and first.notes_ == (SPLIT,)


def test_rows_that_clipping_leaves_as_they_are_have_the_scores_of_training() -> None:
    """And longer rows have longer scores: coefficients follow from the weights and the public plan alone."""
    learnt = MESSAGES.train(federation("classes"), requested(MESSAGES, "classification", epsilon=20.0))
    plan = untyped(learnt.run).plan
    trained, short = np.zeros(ROWS), np.ones(ROWS, dtype=bool)
    for owner in plan.group.owners:
        part = untyped(learnt.run).result(owner)
        rows = np.concatenate([plan.clipped.of(owner, block) for block in part.aligned.blocks()])
        trained += rows @ part.weights[: rows.shape[1]]
        short &= (rows**2).sum(axis=1) < plan.clipped.norm_squared(owner) / GAMMA**2 - 1e-5
    trained += untyped(learnt.run).result(plan.active).weights[-1] * CONSTANT
    assert 30 < short.sum() < ROWS / 2
    assert np.abs(scores(learnt) - trained)[short].max() < 1e-4
    assert np.abs(scores(learnt) - trained)[~short].max() > 0.1


def test_one_shot_guesses_are_nearer_to_the_truth_than_what_arrived() -> None:
    rows = np.random.default_rng(1)
    own = rows.normal(size=(5000, 2))
    truth = own @ [[1.0], [0.5]] + rows.normal(size=(5000, 1)) / 2
    noisy = truth + rows.normal(size=(5000, 1)) * 3
    guess = calibrated(own, noisy, np.array([3.0]), typical=np.array([1.0]))
    assert np.std(guess - truth) < 0.25 * np.std(noisy - truth)
    tied = rows.normal(size=(5000, 2)) @ [[1.0, 0.8], [0.0, 0.6]]
    guess = calibrated(own, tied, np.full(2, 1e-3), typical=np.ones(2))
    assert np.abs(guess - tied).max() < 1e-3, "what came almost without noise is not guessed away"
