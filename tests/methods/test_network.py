"""Networks: rows apart and gradients clipped, what is trained and told, and the network on disk."""

import itertools
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from network_federations import CLASSES, REAL, THREE, federation_of, rows_of
from torch import nn
from training_specs import planned_on
from typed import there, untyped

from colonnade import Federation, LogisticRegression, NeuralClassifier, NeuralRegressor, PoissonRegression
from colonnade.errors import (
    BudgetExceeded,
    DataError,
    DataMissing,
    InputError,
    ModelDamaged,
    ModelError,
    ModelVersion,
    NotInstalled,
    OnlyForPublicData,
    PlanError,
    PrivacyError,
)
from colonnade.evaluation.open_rows import HeldOut
from colonnade.evaluation.predict import Stored
from colonnade.federation.job import Job
from colonnade.federation.train import spec_of
from colonnade.lab.comparison import field_of
from colonnade.methods.method import LinearModel
from colonnade.methods.network.method import METHOD
from colonnade.methods.network.modules import (
    ConvolutionalNet,
    DenseNet,
    FusionModel,
    LocalNetwork,
    ResNet18,
    from_seed,
    local_network,
    loss_of,
    solve_on_sums,
    targets_of,
)
from colonnade.methods.network.network import Network
from colonnade.methods.network.network_file import NetworkFile, NetworkModel, weights_path
from colonnade.methods.network.plan import Design, NetworkOptions
from colonnade.methods.table import METHODS, method_named, train_with
from colonnade.models.files.document import read_document, write_document
from colonnade.models.files.membership import TrainingMembership
from colonnade.protocols.plans import NoOptions, Task, TrainingSpec

GRID = 1 << 16
# Networks this small are slower on two threads.
torch.set_num_threads(1)


def network(rows: int = 12, numbers: int = 5, embedding: int = 3, seed: int = 0, module: Any = None) -> Any:
    features = np.random.default_rng(seed).normal(size=(rows, numbers)).astype(np.float32)
    module = module or from_seed(seed, lambda: DenseNet(numbers, embedding, width=8))
    return LocalNetwork("bank", module, features, bound=1, embedding=embedding)


def test_an_embedding_depends_on_its_own_row_only_whatever_the_module() -> None:
    local = network()
    together = local.embed(np.arange(12))
    apart = np.concatenate([local.embed(np.array([row])) for row in range(12)])
    assert np.allclose(together, apart, atol=1e-6) and np.abs(together).max() <= 1
    local = network(module=from_seed(0, Mixing))
    embedded = local.embed(np.arange(12))
    assert np.allclose(embedded, embedded[:1])


class Mixing(nn.Module):
    """A module that looks at the other rows of its batch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, rows: Any) -> Any:
        return self.layer(rows - rows.mean(dim=0, keepdim=True))


def test_batch_normalisation_and_other_inputs_are_refused_in_words() -> None:
    module = nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3))
    with pytest.raises(InputError, match="group instead of batch normalisation"):
        network(module=module)
    with pytest.raises(InputError, match="party 'bank': its network cannot embed rows of 5 numbers"):
        network(module=DenseNet(4, 3))


@settings(max_examples=12, deadline=None)
@given(st.floats(1e-3, 1e6), st.floats(1e-3, 1e3), st.integers(0, 50), st.sampled_from([1, 2, 64, GRID]))
def test_no_row_adds_more_than_the_grid_whatever_it_is(size: Any, clip: Any, seed: int, grid: Any) -> None:
    local = network(seed=seed % 3)
    gradient = np.random.default_rng(seed).normal(size=(12, 3)) * size
    for row in range(2):
        added = local.clipped_sum(np.array([row]), gradient[row : row + 1], clip=clip, grid=grid)
        assert sum(int(value) ** 2 for value in added) <= grid**2


def test_integer_sums_are_the_gradient_and_what_is_not_finite_adds_nothing() -> None:
    local = network()
    gradient = np.random.default_rng(1).normal(size=(12, 3)) * 1e-3
    integers = local.clipped_sum(np.arange(12), gradient, clip=1.0, grid=1 << 30)
    assert np.allclose(integers / (1 << 30), local.plain_sum(np.arange(12), gradient), atol=1e-6)
    local = network()
    gradient = np.full((12, 3), np.inf)
    assert not local.clipped_sum(np.arange(12), gradient, clip=1.0, grid=GRID).any()


def test_one_row_moves_the_sum_by_at_most_twice_the_grid() -> None:
    local, other = network(), network()
    other.features[4] = torch.full((5,), 40.0)
    gradient = np.random.default_rng(2).normal(size=(12, 3)) * 100
    sums = [each.clipped_sum(np.arange(12), gradient, clip=0.5, grid=GRID) for each in (local, other)]
    difference = [int(a) - int(b) for a, b in zip(*sums, strict=True)]
    assert 0 < sum(value**2 for value in difference) <= (2 * GRID) ** 2


def test_a_step_moves_against_the_gradient_with_momentum() -> None:
    local = network()
    start = torch.cat([value.reshape(-1).clone() for value in local.weights.parameters.values()])
    direction = np.ones(local.parameters)
    local.weights._momentum = 0.5
    local.step(direction)
    local.step(direction)
    end = torch.cat([value.reshape(-1) for value in local.weights.parameters.values()])
    assert torch.allclose(end, start - 0.01 * (1 + 1.5), atol=1e-6)


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_a_loss_of_an_unbiased_target_is_unbiased(classes: Any) -> None:
    width = classes if classes > 2 else 1
    scores = torch.randn(5, width, generator=torch.Generator().manual_seed(0))
    first, second = torch.zeros(5, width), torch.ones(5, width)
    loss = loss_of(classes)
    between = loss(scores, 0.25 * first + 0.75 * second)
    assert torch.allclose(between, 0.25 * loss(scores, first) + 0.75 * loss(scores, second), atol=1e-6)


def test_the_losses_have_the_gradients_of_torchs_own() -> None:
    scores = torch.randn(6, 3, requires_grad=True, generator=torch.Generator().manual_seed(0))
    codes = np.array([0, 1, 2, 0, 1, 2])
    mine = torch.autograd.grad(loss_of(3)(scores, torch.tensor(targets_of(codes, 3))).sum(), scores)[0]
    theirs = torch.autograd.grad(
        nn.functional.cross_entropy(scores, torch.tensor(codes), reduction="sum"), scores
    )[0]
    assert torch.allclose(mine.float(), theirs, atol=1e-6)


def test_a_fusion_models_gradient_is_that_of_each_rows_loss_by_its_sum() -> None:
    labels = targets_of(np.array([0, 1, 1, 0]), 2)
    model = FusionModel(from_seed(0, lambda: nn.Linear(3, 1)), labels, classes=2)
    weight = model.weights.parameters["weight"].clone()
    bias = model.weights.parameters["bias"].clone()
    sums = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    gradient = model.learn(np.arange(4), sums, labels)
    scores = sums @ weight.numpy().T + bias.numpy()
    expected = (1 / (1 + np.exp(-scores)) - (labels + 1) / 2) * weight.numpy()
    assert np.allclose(gradient, expected, atol=1e-5)


def test_solving_takes_the_noise_of_the_sums_out() -> None:
    generator = np.random.default_rng(0)
    exact = generator.normal(size=(20000, 2))
    labels = (exact @ np.array([0.5, -0.2]))[:, None]
    noisy = exact + generator.normal(size=exact.shape) * 2.0
    model = FusionModel(nn.Linear(2, 1), labels, classes=0)
    solve_on_sums(model, noisy, train=np.arange(20000), held_out=np.arange(0), variance=4.0)
    assert np.allclose(model.weights.parameters["weight"].numpy(), [[0.5, -0.2]], atol=0.1)
    solve_on_sums(model, noisy, train=np.arange(20000), held_out=np.arange(0), variance=0.0)
    # A control: left in, the noise shrinks it.
    assert abs(float(model.weights.parameters["weight"][0, 0])) < 0.2


@pytest.mark.parametrize("make", [ConvolutionalNet, ResNet18])
def test_networks_for_images_embed_rows_apart(make: Any) -> None:
    module = from_seed(0, lambda: make((1, 8, 8), 4, **({} if make is ConvolutionalNet else {"width": 8})))
    features = np.random.default_rng(0).normal(size=(3, 64)).astype(np.float32)
    local = LocalNetwork("bank", module, features, bound=1, embedding=4)
    apart = np.concatenate([local.embed(np.array([row])) for row in range(3)])
    assert np.allclose(local.embed(np.arange(3)), apart, atol=1e-5)
    assert local.clipped_sum(np.arange(3), np.ones((3, 4)), clip=1.0, grid=64).any()


@pytest.mark.parametrize(
    ("kind", "image", "says"),
    [
        ("convolutional", None, "needs image"),
        ("convolutional", (1, 7, 7), "declares 64 pixels, but image = (1, 7, 7) has 49"),
        ("resnet18", (64, 1, 1), "at least 8 pixels"),
        ("resnet18", (1, 32, 2), "at least 8 pixels"),
        ("transformer", None, "not one of random, dense, convolutional, resnet18"),
    ],
)
def test_images_of_another_size_are_refused(kind: Any, image: Any, says: Any) -> None:
    with pytest.raises(InputError) as refused:
        local_network(kind, party="bank", numbers=64, attributes=64, embedding=4, image=image, seed=0)
    assert says in str(refused.value)


PLAIN: dict[str, Any] = {"regime": "paper", "mechanism": "none", "embedding": 4, "batch": 20, "delta": 1e-5}
# One small plan for all tests that need a private one: calibrating is what takes time.
PRIVATE: dict[str, Any] = {"epsilon": 6.0, "delta": 1e-5, "embedding": 2, "trials": 2, "batch": 50}


def test_without_noise_the_parts_learn_what_one_network_would() -> None:
    federation = federation_of(80, public=True)
    modules = {f"p{party}": from_seed(party, lambda: DenseNet(2, 4, width=6)) for party in range(3)}
    fusion = from_seed(9, lambda: nn.Linear(4, 1))
    before = [value.clone() for value in modules["p0"].parameters()]
    chosen: dict[str, Any] = {"epochs": 2, "learning_rate": 0.5, "momentum": 0.5}
    model = NeuralClassifier(**PLAIN, networks=modules, fusion=fusion, **chosen).fit(federation)
    assert all(torch.equal(*pair) for pair in zip(before, modules["p0"].parameters(), strict=True)), (
        "a fit leaves the modules it was given as they were"
    )
    columns, y = rows_of(80)
    together = torch.tensor(np.column_stack(list(columns.values())), dtype=torch.float32)
    inputs = {f"p{party}": together[:, 2 * party : 2 * party + 2] for party in range(3)}
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
        learnt = model.networks_[party].weights.parameters.values()
        for mine, theirs in zip(learnt, modules[party].parameters(), strict=True):
            assert torch.allclose(mine, theirs, atol=1e-4)
    assert len(model.history_) == 2 and model.history_[1].loss < model.history_[0].loss


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
    chosen: dict[str, Any] = {"regime": "private-local", "epochs": 2, "held_out": 0.25}
    model = NeuralClassifier(**PRIVATE, **chosen, checkpoint=tmp_path).fit(federation)
    assert "randomised labels" in model.statement_
    observers = {guarantee.observer.name for guarantee in there(model.plan_).guarantees}
    assert observers == {"server", "party:p0", "party:p1", "party:p2"}
    assert model.history_[0].held_out_loss is not None
    assert list(tmp_path.iterdir()) == []  # a run that ended leaves no key and no record


def fails_at(call: int, model: NeuralClassifier, federation: Federation) -> None:
    """A fit whose process ends at this call of a network."""
    embed, calls = LocalNetwork.embed, itertools.count(1)

    def failing(self: Any, rows: Any) -> Any:
        if next(calls) == call:
            raise OSError("out of memory")
        return embed(self, rows)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(OSError):
        patch.setattr(LocalNetwork, "embed", failing)
        model.fit(federation)


def test_a_fit_that_stopped_goes_on_from_its_folder_and_is_charged_once(tmp_path: Path) -> None:
    noise: dict[str, Any] = {"mechanism": "poisson-binomial", "beta": 0.2, "epochs": 3}
    settings: dict[str, Any] = {**PLAIN, **noise, "checkpoint": tmp_path}
    federation = federation_of(80, public=True)
    # In the second of three epochs of four batches at three parties.
    fails_at(22, NeuralClassifier(**settings), federation)
    kinds = [entry.kind for entry in federation.ledgers["p1"].entries()]
    model = NeuralClassifier(**settings).fit(federation)
    # It is charged once, and ids were compared once.
    assert [entry.kind for entry in federation.ledgers["p1"].entries()] == kinds
    assert [point.epoch for point in model.history_] == [1, 2, 3]


def test_a_fit_that_goes_on_needs_no_budget_for_a_second_run(tmp_path: Path) -> None:
    stated = there(NeuralClassifier(**PRIVATE).fit(federation_of(60)).plan_).guarantees
    whole = max(guarantee.epsilon for guarantee in stated if guarantee.unit.name == "others-part")
    federation = federation_of(60, budget=(1.2 * whole, 1e-5))
    fails_at(5, NeuralClassifier(**PRIVATE, checkpoint=tmp_path), federation)
    with pytest.raises(BudgetExceeded):
        NeuralClassifier(**PRIVATE).fit(federation)
    assert NeuralClassifier(**PRIVATE, checkpoint=tmp_path).fit(federation).n_epochs_ == 1


def test_early_stopping_ends_all_parties_and_keeps_the_curve() -> None:
    federation = federation_of(80, public=True)
    chosen: dict[str, Any] = {"learning_rate": 2.0, "momentum": 0.9, "held_out": 0.5, "patience": 1}
    model = NeuralClassifier(**PLAIN, **chosen, epochs=40).fit(federation)
    held_out = [point.held_out_loss for point in model.history_]
    assert model.n_epochs_ == len(held_out) < 40
    assert np.argmin(untyped(held_out)) == len(held_out) - 2


def test_three_classes_and_a_number_are_learnt_too() -> None:
    columns, y = rows_of(200, label=THREE)
    public = federation_of(200, label=THREE, public=True)
    model = NeuralClassifier(**PLAIN, epochs=12, learning_rate=0.3).fit(public)
    assert model.predict_proba(columns).shape == (200, 3) and model.score(columns, y) > 0.6
    assert np.allclose(model.predict_proba(columns).sum(axis=1), 1)
    columns, y = rows_of(200, label=REAL)
    public = federation_of(200, label=REAL, public=True)
    number = NeuralRegressor(**PLAIN, epochs=12, learning_rate=0.1).fit(public)
    assert number.score(columns, y) > 0.9


def test_a_solved_fusion_of_three_classes_and_of_a_number_predicts_within_bounds() -> None:
    columns, _ = rows_of(20, label=THREE)
    model = NeuralClassifier(**PRIVATE).fit(federation_of(200, label=THREE))
    assert set(model.predict(columns)) <= {"a", "b", "c"}
    number = NeuralRegressor(**PRIVATE).fit(federation_of(200, label=REAL))
    assert np.abs(number.predict(columns)).max() <= 1
    far = untyped(number).network_.read(np.full((1, number.network_.design.embedding), 1e6))
    assert abs(far[0]) <= 1


def test_label_holders_without_columns_listen_and_other_fusion_models_learn_at_home() -> None:
    model = NeuralClassifier(**PLAIN, epochs=1).fit(federation_of(60, holder_has_columns=False, public=True))
    assert there(model.plan_).contributors == ("p0", "p1", "p2") and there(model.plan_).receiver == "h"
    fusion = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    model = NeuralClassifier(**PRIVATE, fusion=fusion, epochs=3).fit(federation_of(400))
    assert len(model.history_) == 3


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


def test_without_pytorch_the_extra_is_named_and_comparisons_leave_networks_out(monkeypatch: Any) -> None:
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


def test_a_method_trains_what_the_estimator_would_and_as_it_was_planned(found: NetworkModel) -> None:
    federation = federation_of(400)
    assert found.split and found.holder is None and found.run is not None
    planned = planned_on(requested(), federation.tables.values())
    assert found.run.plan.hash == planned.hash
    model = NeuralClassifier().fit(found)
    rows, y = rows_of(200, seed=5)
    assert np.array_equal(model.decision_function(rows), found.scores(found.frame.features(rows))[:, 0])
    held_out = HeldOut("classification", tuple(federation_of(200, seed=5, public=True).tables.values()))
    assert held_out.score(found) == pytest.approx(model.score(rows, y))
    with pytest.raises(InputError, match="not a network for regression"):
        NeuralRegressor().fit(found)
    with pytest.raises(InputError, match="Fit it with NeuralClassifier"):
        LogisticRegression().fit(found)
    with pytest.raises(InputError, match="NeuralRegressor"):
        PoissonRegression().fit(found)
    linear = LinearModel(np.zeros((1, 6)), np.zeros(1), frame=found.frame, privacy=found.privacy)
    with pytest.raises(InputError, match="not a network"):
        NeuralClassifier().fit(linear)


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


def test_a_loaded_network_does_not_know_whom_it_was_trained_on(found: NetworkModel, tmp_path: Path) -> None:
    model = NeuralClassifier().fit(found)
    model.save(tmp_path / "model.json")
    loaded = NeuralClassifier.load(tmp_path / "model.json")
    strangers = federation_of(40, seed=8, first=1000)
    with pytest.raises(PlanError, match="is not known here"):
        loaded.joint_scores(strangers)
    public = federation_of(40, seed=8, first=1000, public=True)
    expected = model.joint_scores(strangers).sums
    close = 1e-3 * max(1.0, np.abs(expected).max())
    assert np.allclose(loaded.joint_scores(public).sums, expected, atol=close)
    fewer = Federation(list(federation_of(40).tables.values())[:2], budget=(1.0, 1e-5), public=True)
    with pytest.raises(DataError, match="a part of p2"):
        loaded.joint_scores(fewer)


ONCE: dict[str, Any] = {**PLAIN, "epochs": 1}


def fitted(label: str = CLASSES, **changes: object) -> Any:
    kind: Any = NeuralRegressor if label == REAL else NeuralClassifier
    return kind(**ONCE, **changes).fit(federation_of(60, public=True, label=label))


@pytest.fixture(scope="module")
def model() -> NeuralClassifier:
    """One network for all tests of files."""
    found: NeuralClassifier = fitted()
    return found


@pytest.fixture(scope="module")
def kept(model: NeuralClassifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("network") / "model.json"
    model.save(path)
    return path


@pytest.mark.parametrize("label", [CLASSES, THREE, REAL])
def test_a_saved_network_predicts_as_before_and_carries_its_statement(label: str, tmp_path: Path) -> None:
    model = fitted(label)
    path = tmp_path / "model.json"
    model.save(path)
    loaded = type(model).load(path)
    rows, _ = rows_of(30, seed=4)
    assert np.array_equal(loaded.predict(rows), model.predict(rows))
    if label != REAL:
        assert np.array_equal(loaded.predict_proba(rows), model.predict_proba(rows))
    assert str(loaded.privacy_) == str(model.privacy_) and loaded.statement_ == model.statement_
    said = json.loads(path.read_text())["statement"]
    assert model.statement_ in said and "does not cover showing it" in said
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.json", "model.safetensors"]


def test_the_other_kind_of_network_is_told_and_so_is_a_part(model: NeuralClassifier, tmp_path: Path) -> None:
    model.save(tmp_path / "model.json")
    with pytest.raises(ModelError, match="holds a NeuralClassifier, not a NeuralRegressor"):
        NeuralRegressor.load(tmp_path / "model.json")
    model.save_parts(tmp_path)
    own = tmp_path / "a party's own folder"
    own.mkdir()
    whole = NetworkFile.load(tmp_path / "model.json")
    replace(whole, party="p1", tensors=whole.network().part("p1").tensors()).save(own / "model.json")
    with pytest.raises(ModelError, match="p1's part of a model, and a part alone scores nobody"):
        Stored.load(own)
    with pytest.raises(ModelError, match="p1's part of a network"):
        NeuralClassifier.load(tmp_path / "parties" / "p1.model.json")
    with pytest.raises(ModelError, match=r"end in \.json"):
        model.save(tmp_path / "model.safetensors")


def test_a_part_holds_its_partys_network_alone_and_one_the_last_layer(model: Any, tmp_path: Path) -> None:
    model.save_parts(tmp_path)
    parts = {}
    for party in ("p0", "p1", "p2"):
        found = NetworkFile.load(tmp_path / "parties" / f"{party}.model.json")
        assert [owner for owner, _ in found.frame.encoders] == [party] and found.party == party
        owners = {name.split("/")[1] for name in found.tensors if name.startswith("network/")}
        assert owners == {party}
        assert any(name.startswith("fusion/") for name in found.tensors) == (party == "p0")
        people = TrainingMembership.load(tmp_path / "parties" / f"{party}.people.npz")
        assert "0" in people and "60" not in people
        parts[party] = found.network()
    with pytest.raises(ModelError, match="p0 has its last layer"):
        parts["p1"].read(np.zeros((1, 4)))
    rows = model.frame_.features(rows_of(20, seed=3)[0])
    assert np.array_equal(Network.joined(untyped(parts)).scores(rows), model.network_.scores(rows))
    with pytest.raises(ModelError, match="a party's part is missing"):
        Network.joined({"p0": parts["p0"]})


def test_a_label_holder_without_columns_has_the_last_layer_alone(tmp_path: Path) -> None:
    model = NeuralClassifier(**ONCE).fit(federation_of(60, public=True, holder_has_columns=False))
    model.save_parts(tmp_path)
    held = NetworkFile.load(tmp_path / "parties" / "h.model.json")
    assert held.frame.encoders == () and all(name.startswith("fusion/") for name in held.tensors)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_one_changed_byte_of_the_weights_is_found(kept: Path, place: int, change: int) -> None:
    weights = weights_path(kept)
    whole = weights.read_bytes()
    altered = bytearray(whole)
    altered[place % len(whole)] ^= change
    try:
        weights.write_bytes(bytes(altered))
        with pytest.raises(ModelDamaged, match="cut off or was altered"):
            NetworkFile.load(kept)
    finally:
        weights.write_bytes(whole)
    assert NetworkFile.load(kept).kind == "NeuralClassifier"


def test_files_that_are_cut_altered_newer_or_missing_are_refused_by_name(kept: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    for name in (kept.name, weights_path(kept).name):
        (tmp_path / name).write_bytes((kept.parent / name).read_bytes())
    text = path.read_text()
    for changed, error, said in (
        (text[:-40], ModelDamaged, "cut off"),
        (text.replace('"bound": 1', '"bound": 2'), ModelDamaged, "was altered after it was saved"),
        (text.replace('"version": 2', '"version": 3'), ModelVersion, "Upgrade Colonnade"),
    ):
        path.write_text(changed)
        with pytest.raises(error, match=said):
            NetworkFile.load(path)
    path.write_text(text)
    weights = weights_path(path)
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-10])
    with pytest.raises(ModelDamaged, match=r"model\.safetensors is cut off"):
        NetworkFile.load(path)
    weights.unlink()
    with pytest.raises(DataMissing, match="Copy both files"):
        NetworkFile.load(path)


@pytest.mark.parametrize(
    ("change", "notify"),
    [
        ({"kind": "PCA"}, "is not a network"),
        ({"kind": "NeuralRegressor"}, "a NeuralRegressor for classification"),
        ({"design": {}}, "cannot be"),
        ({"design": "networks"}, "networks of kind"),
        ({"design": "regime"}, "a network of regime"),
    ],
)
def test_a_document_of_another_network_is_refused(
    kept: Path, change: dict[str, Any], notify: str, tmp_path: Path
) -> None:
    data = read_document(kept)
    if isinstance(change.get("design"), str):
        change = {"design": data["design"] | {str(change["design"]): "another"}}
    write_document(tmp_path / "model.json", data | change)
    with pytest.raises(ModelError, match=notify):
        NetworkFile.load(tmp_path / "model.json")


def test_modules_of_ones_own_are_brought_by_whoever_loads_them(tmp_path: Path) -> None:
    modules = {f"p{party}": nn.Linear(2, 4) for party in range(3)}
    model = fitted(networks=modules, fusion=nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)))
    path = tmp_path / "model.json"
    model.save(path)
    with pytest.raises(InputError, match="networks="):
        NeuralClassifier.load(path)
    with pytest.raises(InputError, match="fusion=module"):
        NeuralClassifier.load(path, networks=modules)
    again = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    loaded = NeuralClassifier.load(path, networks=modules, fusion=again)
    rows, _ = rows_of(20, seed=6)
    assert np.array_equal(loaded.predict_proba(rows), model.predict_proba(rows))


def test_designs_are_read_back_and_weights_of_another_shape_are_refused(kept: Path) -> None:
    design = Design("regression", "private-local", "h", "convolutional", image=(1, 4, 4), scale=2.5)
    assert Design.from_data(json.loads(json.dumps(design.to_data()))) == design
    found = NetworkFile.load(kept)
    wider = replace(found, design=replace(found.design, embedding=5))
    with pytest.raises(ModelError, match="another network"):
        wider.network()
