"""Models trained by messages: what they learn without noise, what they cost, and what they refuse."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import PoissonRegressor
from typed import untyped

from colonnade import (
    Federation,
    GammaRegression,
    LinearRegression,
    LogisticRegression,
    PoissonRegression,
    SupportVectorClassifier,
    Table,
)
from colonnade.data.block import Block
from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import ClassLabel, CountLabel, RealLabel
from colonnade.data.schema import Schema
from colonnade.errors import PlanError
from colonnade.methods.baselines.method import IDEAL, SINGLE, IdealOptions, exactly, ideal_messages
from colonnade.methods.glm.losses import LOSSES, GlmOptions
from colonnade.methods.glm.rows import CONSTANT, GAMMA, ClippedRows
from colonnade.methods.messages.method import METHOD as MESSAGES
from colonnade.methods.messages.method import SPLIT
from colonnade.methods.method import Baseline, Method
from colonnade.methods.one_shot.method import METHOD as ONE_SHOT
from colonnade.methods.one_shot.method import calibrated
from colonnade.protocols.plans import Task, TrainingSpec

ROWS = 3000
generator = np.random.default_rng(5)
RAW = {name: generator.uniform(-1, 1, ROWS) for name in ("a", "b", "c", "d")}
SCORE = 1.5 * RAW["a"] - RAW["b"] + 2 * RAW["c"] + 0.3
LABELS = {
    "classes": (
        ClassLabel("y", ("no", "yes")),
        np.where(SCORE + generator.logistic(size=ROWS) > 0, "yes", "no"),
    ),
    "number": (RealLabel("y", low=-5, high=5), SCORE + generator.normal(size=ROWS) / 2),
    "count": (
        CountLabel("y", low=0, high=9),
        np.minimum(generator.poisson(np.exp(SCORE / 2 - 0.5)), 9).astype(float),
    ),
    "cost": (RealLabel("y", low=0.1, high=10), np.clip(generator.gamma(3, np.exp(SCORE / 3) / 3), 0.1, 10)),
}


def federation(
    kind: str,
    *,
    owners: tuple[tuple[str, ...], ...] = (("a", "b"), ("c", "d")),
    public: bool = False,
    **changes: Any,
) -> Federation:
    label, given = LABELS[kind]
    made = []
    for number, names in enumerate(owners):
        columns = tuple(NumericColumn(name, low=-1, high=1) for name in names)
        arrays = {name: RAW[name] for name in names}
        if number == 0:
            arrays["y"] = given
        made.append(
            Table.from_arrays(
                f"party{number}", arrays, Schema("row", columns, untyped(label if number == 0 else None))
            )
        )
    return Federation(made, **{"budget": (60.0, 1e-4), "noise_seed": 2, "public": public, **changes})


def requested(method: Baseline | Method, task: Task, epsilon: float = 1.0, **options: Any) -> TrainingSpec:
    return TrainingSpec(task, epsilon, options=method.options(**options))


def scores(learnt: Any) -> NDArray[np.float64]:
    result: NDArray[np.float64] = learnt.frame.features(RAW) @ learnt.coefficients.T + learnt.intercepts
    return result[:, 0]


def test_at_a_generous_epsilon_every_model_learns() -> None:
    yes = LABELS["classes"][1]
    for model in (
        LogisticRegression(method="intermediate", epsilon=20.0, delta=1e-6),
        LogisticRegression(method="one-shot", epsilon=20.0, delta=1e-6),
        SupportVectorClassifier(epsilon=20.0),
    ):
        model.fit(federation("classes"))
        assert model.score(RAW, yes) > 0.68
        assert max(guarantee.epsilon for guarantee in model.privacy_) <= 20.0
    line = LinearRegression(method="intermediate", epsilon=20.0, delta=1e-6).fit(federation("number"))
    assert np.corrcoef(line.predict(RAW), SCORE)[0, 1] > 0.5
    counts = PoissonRegression(epsilon=20.0).fit(federation("count"))
    assert np.corrcoef(counts.predict(RAW), np.exp(SCORE / 2))[0, 1] > 0.6
    costs = GammaRegression(epsilon=30.0, options={"epochs": 20}).fit(federation("cost"))
    assert np.corrcoef(costs.predict(RAW), np.exp(SCORE / 3))[0, 1] > 0.4
    assert costs.deviance(RAW, LABELS["cost"][1]) > 0


def test_owners_learn_together_and_one_alone_says_nothing() -> None:
    model = LogisticRegression(method="intermediate", epsilon=20.0, delta=1e-6)
    model.fit(federation("classes", owners=(("a",), ("b",), ("c", "d"))))
    assert model.score(RAW, LABELS["classes"][1]) > 0.7
    assert len(model.privacy_) == 6
    parties = federation("classes")
    learnt = SINGLE.train(parties, requested(SINGLE, "classification"))
    assert untyped(learnt).coefficients[0, 2:].tolist() == [0.0, 0.0]
    assert untyped(learnt).coefficients[0, 0] > 0 > untyped(learnt).coefficients[0, 1]
    assert not learnt.privacy
    assert all(not ledger.totals() for ledger in parties.ledgers.values())


def test_training_without_noise_is_what_scikit_learn_finds() -> None:
    label, counts = LABELS["count"]
    public = federation("count", public=True)
    peer = PoissonRegressor(alpha=0, tol=1e-9, max_iter=2000).fit(np.column_stack(list(RAW.values())), counts)
    wanted = np.log(peer.predict(np.column_stack(list(RAW.values()))))
    options = IdealOptions(strength=0.0, epochs=400, learning_rate=2.0)
    messages = ideal_messages(public, TrainingSpec("regression", 1.0), LOSSES["poisson"], options)
    assert np.abs(scores(messages) - wanted).max() < 0.01
    central = exactly(
        public, TrainingSpec("regression", 1.0), LOSSES["poisson"], GlmOptions(strength=0.0), alone=False
    )
    assert np.abs(scores(central) - wanted).max() < 1e-3
    assert untyped(label).high == 9


def test_plans_need_no_run_and_the_same_seed_gives_the_same_model() -> None:
    parties = federation("classes")
    schemas = tuple(table.public() for table in parties.tables.values())
    for method in (MESSAGES, ONE_SHOT):
        plan = requested(method, "classification").plan(parties.group, schemas, ROWS)
        assert max(guarantee.epsilon for guarantee in plan.guarantees) <= 1.0
    with pytest.raises(PlanError, match="protects nobody"):
        requested(MESSAGES, "classification", calibration="paper").check()
    model = SupportVectorClassifier(epsilon=2.0, options={"epochs": 3})
    first, second = (clone(model).fit(federation("classes")) for _ in range(2))
    assert np.array_equal(first.coef_, second.coef_)
    assert first.get_params()["options"] == {"epochs": 3}


def test_weights_stay_with_their_parties_and_the_model_says_so() -> None:
    model = LogisticRegression(method="intermediate", epsilon=1.0, delta=1e-6).fit(federation("classes"))
    assert model.run_.plan.spec.epsilon == 1.0
    parts = [model.run_.result(owner) for owner in ("party0", "party1")]
    assert [part.weights.shape for part in parts] == [(3,), (2,)]
    assert model.run_.result("server").weights is None
    machine = SupportVectorClassifier(epsilon=1.0).fit(federation("classes"))
    assert machine.notes_ == (SPLIT,)


@pytest.mark.parametrize("method", [MESSAGES, ONE_SHOT], ids=lambda method: method.name)
def test_every_owner_codes_each_of_its_rows_once(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    """What clipping takes off is no part of a model, so nobody reads the rows again for it."""
    coded = dict.fromkeys(("party0", "party1"), 0)
    integers = ClippedRows.integers

    def counted(self: Any, owner: str, block: Block) -> NDArray[np.int64]:
        coded[owner] += block.rows
        return integers(self, owner, block)

    monkeypatch.setattr(ClippedRows, "integers", counted)
    method.train(federation("classes"), requested(method, "classification"))
    assert coded == dict.fromkeys(coded, ROWS)


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


@pytest.mark.parametrize("penalty", ["none", "l1", "l2", "elastic_net"])
def test_stronger_penalties_give_shorter_weights(penalty: str) -> None:
    lengths = [
        np.abs(
            untyped(
                IDEAL.train(
                    federation("classes", public=True),
                    requested(IDEAL, "classification", penalty=penalty, strength=strength, epochs=100),
                )
            ).coefficients
        ).sum()
        for strength in (0.0, 0.1)
    ]
    assert lengths[0] == lengths[1] if penalty == "none" else lengths[0] > 1.2 * lengths[1]


def test_one_shot_guesses_are_nearer_to_the_truth_than_what_arrived() -> None:
    rows = np.random.default_rng(1)
    own = rows.normal(size=(5000, 2))
    truth = own @ [[1.0], [0.5]] + rows.normal(size=(5000, 1)) / 2
    noisy = truth + rows.normal(size=(5000, 1)) * 3
    guess = calibrated(own, noisy, np.array([3.0]), typical=np.array([1.0]))
    assert np.std(guess - truth) < 0.25 * np.std(noisy - truth)
