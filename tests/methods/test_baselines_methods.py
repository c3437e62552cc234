"""Baselines as methods: what they compute without noise, what they promise, and whom they refuse."""

from dataclasses import replace

import numpy as np
import pytest
from ideals import ideal_moments
from sklearn.linear_model import LinearRegression as Squares
from sklearn.linear_model import LogisticRegression as Logistic
from typed import untyped

from colonnade import PCA, Federation, LinearRegression, LogisticRegression, Schema, Table
from colonnade.data.documents import Form
from colonnade.errors import DataError, PlanError
from colonnade.methods.baselines import method as central
from colonnade.methods.baselines.gathering import gather
from colonnade.methods.baselines.method import BASELINES, DescentOptions, LaplaceOptions, WalkOptions
from colonnade.methods.method import TrainedModel
from colonnade.models.release import MomentRelease
from colonnade.privacy.observers import Reader
from colonnade.protocols.plans import Task, TrainingSpec
from colonnade.randomness import SeededRandomness

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


def shops(kind: str, rows: int = 3000, *, public: bool = True) -> tuple[Federation, np.ndarray]:
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
    rows = gather(federation, requested(task))
    score = _score(found, rows.features, labels, kind)
    # One class or the mean everywhere scores at most 0.5, or an R² of 0.
    assert score > (0.3 if kind == "real" else 0.55), score


def _score(found: TrainedModel | MomentRelease, rows: np.ndarray, labels: np.ndarray, kind: str) -> float:
    if isinstance(found, MomentRelease):
        model = LinearRegression() if kind == "real" else LogisticRegression()
        return float(model.fit(found).score(rows, labels))
    scores = rows @ untyped(found).coefficients.T + untyped(found).intercepts
    if kind == "real":
        return float(1 - np.mean((scores[:, 0] - labels) ** 2) / np.var(labels))
    names = np.array(found.frame.label.classes)
    return float(
        np.mean(names[scores.argmax(axis=1) if scores.shape[1] > 1 else (scores[:, 0] > 0) * 1] == labels)
    )


def test_nothing_is_charged() -> None:
    federation, _ = shops("two", rows=200)
    for name, method in METHODS.items():
        method.train(federation, requested("classification", OPTIONS.get(name)))
    assert all(entry.kind != "charge" for ledger in federation.ledgers.values() for entry in ledger.entries())


def test_without_privacy_is_scikit_learns_solution() -> None:
    federation, labels = shops("real")
    rows = gather(federation, requested("regression"))
    exact = Squares().fit(rows.features, labels)
    found = METHODS["non-private"].train(federation, requested("regression"))
    assert isinstance(found, TrainedModel)
    assert np.allclose(untyped(found).coefficients[0], exact.coef_) and np.allclose(
        untyped(found).intercepts, exact.intercept_
    )
    assert "without any privacy" in found.notes[0]
    for kind in ("two", "three"):
        federation, labels = shops(kind)
        rows = gather(federation, requested("classification"))
        found = METHODS["non-private"].train(federation, requested("classification"))
        assert isinstance(found, TrainedModel)
        central_model = Logistic(C=1e3, max_iter=2000).fit(rows.features, labels)
        assert _score(found, rows.features, labels, kind) == pytest.approx(
            central_model.score(rows.features, labels), abs=2e-3
        )
        central_model = Logistic(C=1e3, max_iter=5000, tol=1e-8).fit(rows.features, rows.labels)
        ours, theirs = untyped(found).coefficients, central_model.coef_
        assert np.allclose(ours, theirs, rtol=0, atol=1e-4 * np.abs(theirs).max())


def test_a_class_that_does_not_occur_is_never_predicted() -> None:
    federation, labels = shops("three")
    bank = federation.tables["bank"]
    kept = np.flatnonzero(labels != "middle")
    smaller = Federation(
        [bank.take(kept), federation.tables["shop"].take(kept)], budget=(1.0, 1e-5), public=True
    )
    found = METHODS["non-private"].train(smaller, requested("classification"))
    assert isinstance(found, TrainedModel) and untyped(found).coefficients.shape[0] == 3
    rows = gather(smaller, requested("classification"))
    scores = rows.features @ untyped(found).coefficients.T + untyped(found).intercepts
    assert set(scores.argmax(axis=1)) == {0, 2}
    one = np.flatnonzero(labels == "low")
    alone = Federation([bank.take(one), federation.tables["shop"].take(one)], budget=(1.0, 1e-5), public=True)
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
    for draw in range(400):
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
