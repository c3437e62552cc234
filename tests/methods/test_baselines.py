"""Descents by a trusted party: what a record can add, what a run costs, what they compute without noise."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ideals import ideal_moments
from margin_runs import Silence
from sklearn.linear_model import LinearRegression as Squares
from sklearn.linear_model import LogisticRegression as Logistic
from typed import untyped

from colonnade import PCA, Federation, LinearRegression, LogisticRegression, MomentRelease, Schema, Table
from colonnade.data.documents import Form
from colonnade.errors import DataError, PlanError
from colonnade.methods.baselines import descents as descent
from colonnade.methods.baselines import descents as frank_wolfe
from colonnade.methods.baselines import method as central
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
from colonnade.methods.baselines.gathering import gather
from colonnade.methods.baselines.method import BASELINES, DescentOptions, LaplaceOptions, WalkOptions
from colonnade.privacy.events import Approximated
from colonnade.privacy.guarantee import account
from colonnade.privacy.observers import Reader
from colonnade.protocols.plans import Task, TrainingSpec
from colonnade.randomness import SeededRandomness

LAWS: tuple[Law, ...] = ("gaussian", "laplace")


def people(rows: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(rows, columns)) * 10.0 ** rng.uniform(-3, 3, size=(rows, 1))
    return features, rng.integers(0, 2, rows)


@pytest.mark.parametrize("law", LAWS)
@settings(max_examples=30)
@given(st.integers(0, 2**20), st.sampled_from([1, 3]), st.floats(1e-6, 1e6))
def test_no_record_adds_more_than_the_grid_to_a_step(law: Law, seed: int, outputs: int, clip: float) -> None:
    columns = 1 + seed % 5
    features, classes = people(6, columns, seed)
    loss = CentralLoss("classes", classes, outputs=outputs)
    weights = np.random.default_rng(seed).normal(size=(outputs, columns))
    for record in range(6):
        alone = clipped_sum(features, loss, weights, np.array([record]), clip=clip, law=law).astype(object)
        assert (np.dot(alone, alone) <= GRID**2) if law == "gaussian" else (np.abs(alone).sum() <= GRID)


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
@pytest.mark.parametrize(("epsilon", "batch"), [(0.1, 10), (1.0, 250), (10.0, 1000), (10.0, 10)])
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
    exact = Logistic(C=1e9, fit_intercept=False, tol=1e-10).fit(features, classes).coef_
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
    first = wander(features, loss, replace(made, steps=1), bound=2.0, randomness=SeededRandomness(0))
    assert np.abs(first).tolist() == [1.0, 0.0, 0.0], "to a corner of the ball, the whole way"


def test_walks_that_cannot_be_accounted_for_are_refused() -> None:
    for steps, radius, epsilon, delta in (
        (0, 1.0, 1.0, 1e-5),
        (5, 0.0, 1.0, 1e-5),
        (5, 1.0, 30.0, 1e-5),
        (5, 1.0, 1.0, 0.6),
    ):
        with pytest.raises(PlanError):
            walk(steps, radius=radius, epsilon=epsilon, delta=delta)


METHODS = {method.name: method for method in BASELINES}
BANK = 'id = "n"\ncolumns.age = {kind = "numeric", low = 18, high = 90}\n'
SHOP = (
    'id = "n"\ncolumns.spent = {kind = "numeric", low = 0, high = 100}\n'
    'columns.town = {kind = "categorical", categories = ["north", "south", "west"]}'
)
LABELS = {
    "two": 'label = {column = "y", kind = "classes", classes = ["no", "yes"]}',
    "three": 'label = {column = "y", kind = "classes", classes = ["low", "middle", "high"]}',
    "real": 'label = {column = "y", kind = "real", low = 0, high = 200}',
}


def shops(kind: str, rows: int = 2000, *, public: bool = True) -> tuple[Federation, np.ndarray]:
    """A bank and a shop whose label follows their columns."""
    rng = np.random.default_rng(7)
    age, spent = rng.uniform(18, 90, rows), rng.uniform(0, 100, rows)
    town = rng.choice(["north", "south", "west"], rows)
    value = np.clip(age + spent * 0.6 + 20 * (town == "south") + rng.normal(0, 4, rows), 0, 200)
    labels = {
        "two": np.array(["no", "yes"])[(value > 95).astype(int)],
        "three": np.array(["low", "middle", "high"])[np.digitize(value, [75, 110])],
        "real": value,
    }[kind]
    bank = Table.from_arrays("bank", {"age": age, "y": labels}, Schema.parse(BANK + LABELS[kind]))
    shop = Table.from_arrays("shop", {"spent": spent, "town": town}, Schema.parse(SHOP))
    return Federation([bank, shop], budget=(1.0, 1e-5), public=public, noise_seed=3), labels


def requested(task: Task, options: Form | None = None, epsilon: float = 1.0) -> TrainingSpec:
    made = TrainingSpec(task, epsilon, delta=1e-5)
    return made if options is None else replace(made, options=options)


OPTIONS: dict[str, Form] = {
    "dp-sgd": DescentOptions(),
    "dp-sgd-laplace": LaplaceOptions(),
    "frank-wolfe": WalkOptions(steps=30),
}


@pytest.mark.parametrize("name", METHODS)
def test_data_that_is_not_public_is_refused_before_a_row_is_read(name: str) -> None:
    federation, _ = shops("two", public=False)
    with pytest.raises(PlanError, match="public"):
        METHODS[name].train(federation, requested("classification", OPTIONS.get(name)))
    assert not federation.runs


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", LABELS)
def test_each_learns_at_a_generous_epsilon_and_promises_no_more_than_asked(name: str, kind: str) -> None:
    if name == "frank-wolfe" and kind == "three":
        return
    federation, labels = shops(kind)
    task: Task = "regression" if kind == "real" else "classification"
    found = METHODS[name].train(federation, requested(task, OPTIONS.get(name), epsilon=15.0))
    for item in found.privacy:
        assert item.observer == Reader() and item.epsilon <= 15.0 and "trusted" in item.assumption
        assert (item.delta == 0.0) == (name == "dp-sgd-laplace")
    assert bool(found.privacy) == (name != "non-private")
    assert all(entry.kind != "charge" for ledger in federation.ledgers.values() for entry in ledger.entries())
    rows = gather(federation, requested(task))
    model = LinearRegression() if kind == "real" else LogisticRegression()
    # One class or the mean everywhere scores at most 0.5, or an R² of 0.
    assert model.fit(found).score(rows.features, labels) > (0.3 if kind == "real" else 0.55)


def test_without_privacy_is_scikit_learns_solution() -> None:
    federation, labels = shops("real")
    rows = gather(federation, requested("regression"))
    exact = Squares().fit(rows.features, labels)
    found = untyped(METHODS["non-private"].train(federation, requested("regression")))
    assert np.allclose(found.coefficients[0], exact.coef_) and np.allclose(found.intercepts, exact.intercept_)
    assert "without any privacy" in found.notes[0]
    for kind in ("two", "three"):
        federation, _ = shops(kind)
        rows = gather(federation, requested("classification"))
        found = untyped(METHODS["non-private"].train(federation, requested("classification")))
        theirs = Logistic(C=1e3, max_iter=5000, tol=1e-8).fit(rows.features, rows.labels).coef_
        ours = found.coefficients
        assert np.allclose(ours, theirs, rtol=0, atol=1e-4 * np.abs(theirs).max())


def test_a_class_that_does_not_occur_is_never_predicted() -> None:
    federation, labels = shops("three")
    bank = federation.tables["bank"]
    kept = np.flatnonzero(labels != "middle")
    shop = federation.tables["shop"]
    smaller = Federation([bank.take(kept), shop.take(kept)], budget=(1.0, 1e-5), public=True)
    found = untyped(METHODS["non-private"].train(smaller, requested("classification")))
    rows = gather(smaller, requested("classification"))
    scores = rows.features @ found.coefficients.T + found.intercepts
    assert set(scores.argmax(axis=1)) == {0, 2}
    one = np.flatnonzero(labels == "low")
    alone = Federation([bank.take(one), shop.take(one)], budget=(1.0, 1e-5), public=True)
    with pytest.raises(DataError, match="only one class"):
        METHODS["non-private"].train(alone, requested("classification"))


@pytest.mark.parametrize(
    ("kind", "task"), [("two", "classification"), ("real", "regression"), ("two", "pca")]
)
def test_central_moments_without_noise_are_the_ideal(kind: str, task: Task) -> None:
    federation, _ = shops(kind, rows=150)
    rows = gather(federation, requested(task))
    ideal = ideal_moments({table.party: table for table in rows.tables}, rows.plan)
    assert np.array_equal(rows.moments().astype(object), ideal)


def test_central_noise_has_the_variances_that_mu_says() -> None:
    federation, _ = shops("two", rows=150)
    rows = gather(federation, requested("pca"))
    exact = rows.moments()
    noises = []
    for draw in range(200):
        found = central.gaussian_release(rows, randomness=SeededRandomness(draw))
        noises.append(found.matrix - exact)
    noise, mu = np.array(noises), float(found.mu)
    size = exact.shape[0]
    upper = noise[:, *np.triu_indices(size, 1)]
    diagonal = noise[:, np.arange(size), np.arange(size)]
    for values, wanted in ((upper, mu), (diagonal, 2 * mu)):
        ratio = float(np.mean(values.astype(float) ** 2)) / wanted
        # The mean of k squares of normal numbers is within 6.2√(2/k) of its own; false alarm 1e-9.
        assert abs(ratio - 1) < 6.2 * (2 / values.size) ** 0.5, ratio
    assert abs(float(np.mean(upper.astype(float) ** 2)) / (2 * mu) - 1) > 6.2 * (2 / upper.size) ** 0.5
    assert np.array_equal(noise, noise.transpose(0, 2, 1))
    assert found.reproducible


def test_components_come_from_central_moments_too_and_frank_wolfe_is_for_two_classes() -> None:
    federation, _ = shops("two")
    exact = METHODS["non-private"].train(federation, requested("pca"))
    noisy = METHODS["central"].train(federation, requested("pca", epsilon=10.0))
    assert isinstance(exact, MomentRelease) and isinstance(noisy, MomentRelease)
    one, other = PCA(n_components=1).fit(exact).components_, PCA(n_components=1).fit(noisy).components_
    assert abs(float(one[0] @ other[0])) > 0.9
    federation, _ = shops("three", rows=100)
    with pytest.raises(PlanError, match="two classes"):
        METHODS["frank-wolfe"].train(federation, requested("classification", WalkOptions()))
