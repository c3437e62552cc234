"""The baseline in which every party perturbs its own columns: its true guarantee, and how little is left."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from margin_runs import Silence
from numpy.typing import NDArray
from training_specs import planned_on, requested
from typed import untyped

from colonnade import PCA, Federation, LinearRegression, LogisticRegression, Schema, Table
from colonnade.errors import PlanError, RemoteProtocolError
from colonnade.federation.federation import Run
from colonnade.methods.local import protocol as local_perturbation
from colonnade.methods.local.method import perturbed_release
from colonnade.methods.local.protocol import LocalOptions, LocalPlan, local_session
from colonnade.privacy.guarantee import account
from colonnade.protocols import session
from colonnade.protocols.assumptions import UNCHECKED
from colonnade.protocols.plans import Task
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

LABELS = {
    "classification": "[label]\ncolumn='y'\nkind='classes'\nclasses=['no','yes']\n",
    "three": "[label]\ncolumn='y'\nkind='classes'\nclasses=['a','b','c']\n",
    "regression": "[label]\ncolumn='y'\nkind='real'\nlow=-2\nhigh=2\n",
    "pca": "",
}


def tables_of(
    rows: int, task: str, seed: int = 0
) -> tuple[list[Table], dict[str, NDArray[np.float64]], NDArray[Any] | None]:
    rng = np.random.default_rng(seed)
    values = rng.uniform(-1, 1, (rows, 4))
    values[:, 1] = 0.9 * values[:, 0] + 0.1 * values[:, 1]
    score = values[:, 0] + values[:, 2]
    labels = {
        "classification": np.where(score > 0.1, "yes", "no"),
        "three": np.array(list("abc"))[np.digitize(score, [-0.5, 0.5])],
        "regression": score,
    }
    tables = []
    for party, columns in (("bank", (0, 1)), ("shop", (2, 3))):
        text = "id='n'\n" + "".join(f"[columns.c{i}]\nkind='numeric'\nlow=-1\nhigh=1\n" for i in columns)
        arrays = {f"c{i}": values[:, i] for i in columns}
        if party == "shop" and task != "pca":
            text += LABELS[task]
            arrays["y"] = labels[task]
        tables.append(Table.from_arrays(party, arrays, Schema.parse(text)))
    return tables, {f"c{i}": values[:, i] for i in range(4)}, labels.get(task)


def federation(tables: list[Table]) -> Federation:
    return Federation(tables, budget=(5000.0, 1e-5), noise_seed=4)


def run_without_noise(
    monkeypatch: pytest.MonkeyPatch, task: str, rows: int = 200
) -> tuple[Run[Any], dict[str, NDArray[np.float64]], NDArray[Any] | None]:
    tables, people, labels = tables_of(rows, task)
    kind = "classification" if task == "three" else task
    monkeypatch.setattr(LocalPlan, "noise", Silence())
    run = federation(tables).run(local_session, requested(LocalOptions, untyped(kind), 1.0, delta=1e-5))
    return run, people, labels


def test_without_noise_the_sums_are_those_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    run, _, _ = run_without_noise(monkeypatch, "classification")
    found, plan = run.result(), run.result().plan
    columns = []
    label = None
    for owner in plan.group.owners:
        (block,) = run.aligned[owner].blocks(plan.rows)
        columns.append(plan.columns.quantizers[owner].quantize(block))
        if block.label is not None:
            label = plan.columns.label.quantize(block.label, plan.columns.gamma)
    joint = np.concatenate([*columns, label], axis=1)
    assert found.matrix.tolist() == (joint.T @ joint).tolist()
    assert found.sums.tolist() == joint.sum(axis=0).tolist()
    assert run.result("bank").matrix.tolist() == found.matrix.tolist()


def test_for_components_the_constant_is_known_and_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    run, people, _ = run_without_noise(monkeypatch, "pca")
    plan = run.plan
    assert plan.size == 4 and plan.bound_of_all_but(None) == plan.columns.shape_of_all_but(None).norm_squared
    release = perturbed_release(run.result())
    assert release.matrix[-1, -1] == 200 * release.label.constant(4096) ** 2
    means = np.column_stack(list(people.values())).mean(axis=0) / 2
    np.testing.assert_allclose(release.plain_moments().scatter().mean, means, atol=1e-3)


@pytest.mark.parametrize("task", ["pca", "classification"])
def test_the_guarantee_is_its_own_and_rests_on_nobody_else(task: Task) -> None:
    tables, _, _ = tables_of(100, task)
    source = federation(tables)
    run = source.run(local_session, requested(LocalOptions, task, 1.0, delta=1e-5))
    by_name = {one.observer.name: one for one in run.plan.guarantees}
    assert 0.99 < by_name["server"].epsilon <= 1.0
    assert all(
        one.assumption == f"no owner discloses the noise on its own columns{UNCHECKED}"
        for one in by_name.values()
    )
    # Against a party the others' part is replaced: at most twice its norm.
    assert by_name["party:bank"].epsilon < 2.2
    plan = run.plan
    less = replace(plan, sigma_squared=plan.sigma_squared * Fraction(99, 100))
    assert account(less.event(plan.bound_of_all_but(None)), 1e-5).epsilon > 1.0


def test_a_large_enough_epsilon_lets_something_through() -> None:
    tables, people, labels = tables_of(20_000, "classification")
    model = LogisticRegression(epsilon=16.0, method="local").fit(federation(tables))
    assert model.score(people, untyped(labels)) > 0.85
    numbers, rows, values = tables_of(20_000, "regression")
    line = LinearRegression(epsilon=16.0, method="local").fit(federation(numbers))
    assert line.score(rows, untyped(values)) > 0.4
    three, rows, names = tables_of(20_000, "three")
    assert (
        LogisticRegression(epsilon=16.0, method="local").fit(federation(three)).score(rows, untyped(names))
        > 0.6
    )


def test_noise_alone_shows_no_direction_and_perturbed_rows_less_than_a_release() -> None:
    tables, people, _ = tables_of(3000, "pca")
    shared = PCA(1, epsilon=1.0, method="spca").fit(federation(tables)).captured_variance(people)
    with pytest.warns(UserWarning, match="directions stand out of the noise"):
        alone = PCA(1, epsilon=1.0, method="local").fit(federation(tables)).captured_variance(people)
    assert shared > 0.45 > alone + 0.05
    # Thirty rows of four columns at ε = 1: the spectrum of noise is wide, and none of it is believed.
    tables, _, _ = tables_of(30, "pca")
    with pytest.warns(UserWarning, match="0 of 4 directions"):
        assert PCA(epsilon=1.0, method="local").fit(federation(tables)).learnable_rank_ == 0


def test_rows_past_what_noise_can_reach_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    tables, _, _ = tables_of(50, "pca")
    original = untyped(local_perturbation).tell

    async def swollen(party: Party, to: str, step: str, message: Message) -> None:
        if step.startswith("rows") and party.name == "bank":
            message = type(message)(arrays={"rows": message.arrays["rows"] + (1 << 50)})
        await original(party, to, step, message)

    monkeypatch.setattr(local_perturbation, "tell", swollen)
    with pytest.raises(RemoteProtocolError, match="no perturbed row of this plan has"):
        federation(tables).run(local_session, requested(LocalOptions, "pca", 1.0, delta=1e-5))


def test_a_matrix_that_is_not_symmetric_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    tables, _, _ = tables_of(50, "pca")
    original = untyped(session).tell

    async def bent(party: Party, to: str, step: str, message: Message) -> None:
        if step == "release":
            changed = message.arrays["moments"].copy()
            changed[0, 1] += 1
            message = type(message)(arrays={"moments": changed})
        await original(party, to, step, message)

    monkeypatch.setattr(session, "tell", bent)
    with pytest.raises(RemoteProtocolError, match="not symmetric"):
        federation(tables).run(local_session, requested(LocalOptions, "pca", 1.0, delta=1e-5))


def test_a_missing_label_is_refused_and_so_little_privacy_needs_no_computing_parties() -> None:
    tables, _, _ = tables_of(50, "pca")
    source = federation(tables)
    with pytest.raises(PlanError, match="needs a label"):
        LogisticRegression(method="local").fit(source)
    assert source.runs == []
    tables, _, _ = tables_of(50, "pca")
    roles: dict[str, Any] = {"active": None, "computing_parties": ("server", "bank", "shop")}
    plan = planned_on(requested(LocalOptions, task="pca", epsilon=1.0, delta=1e-5), tables, **roles)
    release = plan.release("bank", run="r", reproducible=False)
    assert release.share_holders == () and release.shown_to == ("server",)
