"""Networks over several parties: as one network where nothing is private, and what users meet otherwise."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from network_federations import REAL, THREE, federation_of, rows_of
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch import nn
from training_specs import planned_on
from typed import there, untyped

from colonnade import Federation, LogisticRegression, PoissonRegression
from colonnade.errors import (
    BudgetExceeded,
    DataError,
    InputError,
    NotInstalled,
    OnlyForPublicData,
    PlanError,
    PrivacyError,
)
from colonnade.evaluation.open_rows import HeldOut
from colonnade.federation.job import Job
from colonnade.federation.train import spec_of
from colonnade.lab.comparison import compare, field_of
from colonnade.methods.method import LinearModel
from colonnade.methods.network.estimators import NeuralClassifier, NeuralRegressor
from colonnade.methods.network.method import METHOD
from colonnade.methods.network.modules import DenseNet, LocalNetwork, from_seed
from colonnade.methods.network.network_file import NetworkModel
from colonnade.methods.network.plan import NetworkOptions
from colonnade.methods.table import METHODS, method_named, train_with
from colonnade.protocols.plans import NoOptions, Task, TrainingSpec

PLAIN: dict[str, Any] = {"regime": "paper", "mechanism": "none", "embedding": 4, "batch": 20, "delta": 1e-5}
# Networks this small are slower on two threads.
torch.set_num_threads(1)
# One small plan for all tests that need a private one: calibrating is what takes time.
PRIVATE: dict[str, Any] = {"epsilon": 6.0, "delta": 1e-5, "embedding": 2, "trials": 2, "batch": 50}


def test_without_noise_the_parts_learn_what_one_network_would() -> None:
    federation = federation_of(80, public=True)
    modules = {f"p{party}": from_seed(party, lambda: DenseNet(2, 4, width=6)) for party in range(3)}
    fusion = from_seed(9, lambda: nn.Linear(4, 1))
    model = NeuralClassifier(
        **PLAIN, networks=modules, fusion=fusion, epochs=2, learning_rate=0.5, momentum=0.5
    ).fit(federation)

    columns, y = rows_of(80)
    inputs = {
        f"p{party}": torch.tensor(
            np.column_stack([columns[f"x{2 * party}"], columns[f"x{2 * party + 1}"]]), dtype=torch.float32
        )
        for party in range(3)
    }
    targets = torch.tensor((y == "yes").astype(np.float32))[:, None]
    whole = nn.ModuleDict({**{party: modules[party] for party in inputs}, "fusion": fusion})
    optimiser = torch.optim.SGD(whole.parameters(), lr=0.5, momentum=0.5)
    for epoch in range(2):
        for batch in there(model.plan_).batches(epoch):
            rows = torch.from_numpy(batch.rows)
            total = sum(torch.tanh(modules[party](inputs[party][rows])) for party in inputs)
            optimiser.zero_grad()
            nn.functional.binary_cross_entropy_with_logits(fusion(total), targets[rows]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    for party in inputs:
        for mine, theirs in zip(
            model.networks_[party].weights.parameters.values(), modules[party].parameters(), strict=True
        ):
            assert torch.allclose(mine, theirs, atol=1e-4)
    assert len(model.history_) == 2
    assert model.history_[1].loss < model.history_[0].loss


def test_a_fit_leaves_the_modules_it_was_given_as_they_were() -> None:
    modules = {f"p{party}": from_seed(party, lambda: DenseNet(2, 4, width=6)) for party in range(3)}
    before = [value.clone() for value in modules["p0"].parameters()]
    NeuralClassifier(**PLAIN, networks=modules, epochs=1, learning_rate=0.5).fit(
        federation_of(40, public=True)
    )
    assert all(torch.equal(*pair) for pair in zip(before, modules["p0"].parameters(), strict=True))


def test_a_frozen_classifier_states_what_it_protects_and_scores_jointly() -> None:
    federation = federation_of(400)
    model = NeuralClassifier(**PRIVATE).fit(federation)
    assert "end to end" in model.statement_ and len(model.history_) == 1
    assert there(model.plan_).guarantees[0].epsilon <= 6.0
    assert there(model.communication_).gradients == 0 and there(model.communication_).sums > 0

    new = federation_of(40, seed=8, first=1000)
    found = model.joint_scores(new)
    columns, _ = rows_of(40, seed=8)
    expected = model.decision_function(columns)
    assert np.allclose(found.sums[:, 0], expected, atol=1e-3 * max(1.0, np.abs(expected).max()))
    assert "disclosed to p0" in found.statement
    with pytest.raises(PrivacyError, match="400 of the 400 people to score were trained on"):
        model.joint_scores(federation)


def test_a_private_local_classifier_is_trained_end_to_end_and_only_paid_for_once(tmp_path: Path) -> None:
    federation = federation_of(200)
    model = NeuralClassifier(
        **PRIVATE, regime="private-local", epochs=2, held_out=0.25, checkpoint=tmp_path
    ).fit(federation)
    assert "randomised labels" in model.statement_
    assert {guarantee.observer.name for guarantee in there(model.plan_).guarantees} == {
        "server",
        "party:p0",
        "party:p1",
        "party:p2",
    }
    assert model.history_[0].held_out_loss is not None
    assert list(tmp_path.iterdir()) == []  # a run that ended leaves no key and no record


def test_a_fit_that_stopped_goes_on_from_its_folder_and_is_charged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {
        **PLAIN,
        "mechanism": "poisson-binomial",
        "beta": 0.2,
        "epochs": 3,
        "checkpoint": tmp_path,
    }
    federation = federation_of(80, public=True)
    embed, calls = LocalNetwork.embed, []

    def failing(self: Any, rows: Any) -> Any:
        calls.append(self.party)
        if len(calls) == 22:  # in the second of three epochs of four batches at three parties
            raise OSError("out of memory")
        return embed(self, rows)

    monkeypatch.setattr(LocalNetwork, "embed", failing)
    with pytest.raises(OSError):
        NeuralClassifier(**settings).fit(federation)
    monkeypatch.setattr(LocalNetwork, "embed", embed)
    kinds = [entry.kind for entry in federation.ledgers["p1"].entries()]
    model = NeuralClassifier(**settings).fit(federation)
    # It is charged once, and ids were compared once.
    assert [entry.kind for entry in federation.ledgers["p1"].entries()] == kinds
    assert [point.epoch for point in model.history_] == [1, 2, 3]


def test_a_fit_that_goes_on_needs_no_budget_for_a_second_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = NeuralClassifier(**PRIVATE).fit(federation_of(60)).plan_
    whole = max(
        guarantee.epsilon for guarantee in there(plan).guarantees if guarantee.unit.name == "others-part"
    )
    federation = federation_of(60, budget=(1.2 * whole, 1e-5))
    embed, calls = LocalNetwork.embed, []

    def failing(self: Any, rows: Any) -> Any:
        calls.append(self.party)
        if len(calls) == 5:
            raise OSError("out of memory")
        return embed(self, rows)

    monkeypatch.setattr(LocalNetwork, "embed", failing)
    with pytest.raises(OSError):
        NeuralClassifier(**PRIVATE, checkpoint=tmp_path).fit(federation)
    with pytest.raises(BudgetExceeded):
        NeuralClassifier(**PRIVATE).fit(federation)
    assert NeuralClassifier(**PRIVATE, checkpoint=tmp_path).fit(federation).n_epochs_ == 1


def test_early_stopping_ends_all_parties_and_keeps_the_curve() -> None:
    federation = federation_of(80, public=True)
    model = NeuralClassifier(
        **{**PLAIN, "learning_rate": 2.0, "momentum": 0.9}, epochs=40, held_out=0.5, patience=1
    ).fit(federation)
    held_out = [point.held_out_loss for point in model.history_]
    assert model.n_epochs_ == len(held_out) < 40
    assert np.argmin(untyped(held_out)) == len(held_out) - 2


def test_three_classes_and_a_number_are_learnt_too() -> None:
    columns, y = rows_of(200, label=THREE)
    model = NeuralClassifier(**PLAIN, epochs=12, learning_rate=0.3).fit(
        federation_of(200, label=THREE, public=True)
    )
    assert model.predict_proba(columns).shape == (200, 3) and model.score(columns, y) > 0.6
    assert np.allclose(model.predict_proba(columns).sum(axis=1), 1)
    columns, y = rows_of(200, label=REAL)
    number = NeuralRegressor(**PLAIN, epochs=12, learning_rate=0.1).fit(
        federation_of(200, label=REAL, public=True)
    )
    assert number.score(columns, y) > 0.9


def test_a_solved_fusion_of_three_classes_and_of_a_number_predicts_within_bounds() -> None:
    columns, _ = rows_of(20, label=THREE)
    model = NeuralClassifier(**PRIVATE).fit(federation_of(200, label=THREE))
    assert set(model.predict(columns)) <= {"a", "b", "c"}
    number = NeuralRegressor(**PRIVATE).fit(federation_of(200, label=REAL))
    assert np.abs(number.predict(columns)).max() <= 1


def test_label_holders_without_columns_listen_and_other_fusion_models_learn_at_home() -> None:
    model = NeuralClassifier(**PLAIN, epochs=1).fit(federation_of(60, holder_has_columns=False, public=True))
    assert there(model.plan_).contributors == ("p0", "p1", "p2") and there(model.plan_).receiver == "h"
    fusion = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    model = NeuralClassifier(**PRIVATE, fusion=fusion, epochs=3).fit(federation_of(400))
    assert len(model.history_) == 3


def test_the_estimators_are_scikit_learn_shaped() -> None:
    model = NeuralClassifier(epsilon=2.0, embedding=8)
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        model.predict({"x0": [1]})


# Networks in the table of methods: jobs name them, plans need no PyTorch, comparisons score them.


torch.set_num_threads(1)
SMALL: dict[str, Any] = {"embedding": 2, "trials": 2, "batch": 50}
JOB = """name = "n"
task = "classification"
method = "network"
parties = ["p0", "p1", "p2"]
epsilon = 6.0
delta = 1e-5
[options]
embedding = 2
trials = 2
batch = 50
"""


def requested(task: Task = "classification", **options: object) -> TrainingSpec:
    return TrainingSpec(task, 6.0, delta=1e-5, options=NetworkOptions(**{**SMALL, **options}))


@pytest.fixture(scope="module")
def found() -> NetworkModel:
    """One network for all tests that need a private one: calibrating is what takes time."""
    learnt = train_with(federation_of(400), "network", requested())
    assert isinstance(learnt, NetworkModel)
    return learnt


def test_the_table_and_a_plan_need_no_pytorch() -> None:
    code = f"""
import sys
from colonnade.federation.job import Job
from colonnade.federation.train import spec_of
spec = spec_of(Job.parse({JOB!r}))
print(spec.options.embedding, 'torch' in sys.modules)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["2", "False"]


def test_without_pytorch_training_names_the_extra_and_comparisons_leave_networks_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    federation = federation_of(60)
    with pytest.raises(NotInstalled, match=r"pip install 'colonnade\[networks\]'"):
        train_with(federation, "network", requested())
    assert not federation.ledgers["p0"].totals()
    field = field_of(METHODS.values(), "classification")
    assert "network" not in [entry.name for entry in field.contenders]
    assert any(name == "network" and "colonnade[networks]" in reason for name, reason in field.left_out)
    with pytest.raises(InputError, match="cannot take part"):
        field_of(METHODS.values(), "classification", named=["network"])


def test_a_method_trains_what_the_estimator_would_and_its_run_is_the_one_that_was_planned(
    found: NetworkModel,
) -> None:
    federation = federation_of(400)
    assert found.split and found.holder is None and found.run is not None
    planned = planned_on(requested(), federation.tables.values())
    assert found.run.plan.hash == planned.hash
    model = NeuralClassifier().fit(found)
    rows, y = rows_of(200, seed=5)
    assert np.array_equal(model.decision_function(rows), found.scores(found.frame.features(rows))[:, 0])
    held_out = HeldOut("classification", tuple(federation_of(200, seed=5, public=True).tables.values()))
    assert held_out.score(found) == pytest.approx(model.score(rows, y))
    with pytest.raises(InputError, match="no network for regression"):
        NeuralRegressor().fit(found)
    with pytest.raises(InputError, match="Fit it with NeuralClassifier"):
        LogisticRegression().fit(found)
    with pytest.raises(InputError, match="NeuralRegressor"):
        PoissonRegression().fit(found)
    linear = LinearModel(np.zeros((1, 6)), np.zeros(1), frame=found.frame, privacy=found.privacy)
    with pytest.raises(InputError, match="no network"):
        NeuralClassifier().fit(linear)


def test_numbers_are_predicted_in_their_own_units_within_their_bounds() -> None:
    federation = federation_of(200, label=REAL, public=True)
    found = train_with(
        federation, "network", requested("regression", regime="paper", mechanism="none", epochs=1)
    )
    predicted = untyped(found).scores(untyped(found).frame.features(rows_of(50, seed=2)[0]))
    assert predicted.shape == (50, 1) and np.abs(predicted).max() <= 1.0


def test_jobs_name_the_options_and_what_they_cannot_be() -> None:
    job = Job.parse(JOB)
    assert untyped(spec_of(job)).epsilon == 6.0 and untyped(job.options).embedding == 2
    for wrong, notify in (
        ("embeding = 3", "Did you mean 'embedding'"),
        ('networks = "dens"', "Did you mean 'dense'"),
        ("image = [1, 2]", "image"),
        ("momentum = 1.0", "momentum"),
    ):
        with pytest.raises(InputError, match=notify):
            Job.parse(JOB.replace("embedding = 2", wrong))
    with pytest.raises(InputError, match="cannot do pca"):
        method_named("network", "pca")
    with pytest.raises(OnlyForPublicData, match="one process"):
        requested(regime="paper").check()
    with pytest.raises(PlanError, match="networks have none"):
        TrainingSpec("classification", 1.0, gamma=64, options=NetworkOptions()).check()
    with pytest.raises(TypeError, match="NetworkOptions"):
        METHOD.train(federation_of(60), TrainingSpec("classification", 1.0, options=NoOptions()))


def test_networks_take_part_in_comparisons() -> None:
    # Four fifths of them are as many as above, so that the plan is known.
    tables = list(federation_of(500).tables.values())
    compared = compare(
        tables,
        task="classification",
        epsilons=[6.0],
        methods=["network"],
        options={"network": SMALL},
        seeds=1,
        delta=1e-5,
    )
    (row,) = compared.rows
    assert row.split and row.mean is not None and row.guarantees and not row.failures


def test_a_loaded_network_does_not_know_whom_it_was_trained_on(found: NetworkModel, tmp_path: Path) -> None:
    model = NeuralClassifier().fit(found)
    model.save(tmp_path / "model.json")
    loaded = NeuralClassifier.load(tmp_path / "model.json")
    strangers = federation_of(40, seed=8, first=1000)
    with pytest.raises(PlanError, match="is not known here"):
        loaded.joint_scores(strangers)
    public = federation_of(40, seed=8, first=1000, public=True)
    expected = model.joint_scores(strangers).sums
    assert np.allclose(
        loaded.joint_scores(public).sums, expected, atol=1e-3 * max(1.0, np.abs(expected).max())
    )
    fewer = Federation(list(federation_of(40).tables.values())[:2], budget=(1.0, 1e-5), public=True)
    with pytest.raises(DataError, match="a part of p2"):
        loaded.joint_scores(fewer)
