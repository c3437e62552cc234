"""Networks in the table of methods: jobs name them, plans need no PyTorch, comparisons score them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from network_federations import REAL, federation_of, rows_of
from typed import untyped

from colonnade import Federation, LogisticRegression, PoissonRegression
from colonnade.errors import DataError, InputError, NotInstalled, OnlyForPublicData, PlanError
from colonnade.evaluation.open_rows import HeldOut
from colonnade.federation.job import Job
from colonnade.federation.train import spec_of
from colonnade.lab.comparison import compare, field_of
from colonnade.methods.method import LinearModel
from colonnade.methods.network.estimators import NeuralClassifier, NeuralRegressor
from colonnade.methods.network.method import METHOD
from colonnade.methods.network.network_file import NetworkModel
from colonnade.methods.network.plan import NetworkOptions
from colonnade.methods.table import METHODS, method_named, train_with
from colonnade.protocols.plans import NoOptions, Task, TrainingSpec

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
    planned = requested().plan(
        federation.group,
        tuple(table.public() for table in federation.tables.values()),
        400,
    )
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
