"""Models from a noisy quadratic objective: scikit-learn's without noise, what noise does, and what is refused."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from functional_parties import NAMES, tables_of
from margin_runs import Silence
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression as Squares
from sklearn.linear_model import LogisticRegression as Logistic
from training_specs import requested as spec_of
from typed import there, untyped

from colonnade import Federation, LinearRegression, LogisticRegression
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.errors import DataError, InputError, PlanError
from colonnade.methods.functional.blocks import BlockNoise
from colonnade.methods.functional.method import (
    METHOD,
    Minimum,
    Objective,
    minimise,
    notes_on,
    opened_objective,
    paper_objective,
)
from colonnade.methods.functional.plan import FunctionalOptions
from colonnade.methods.functional.protocol import OpenedObjective, functional_session
from colonnade.methods.table import METHODS, train_with
from colonnade.models.inputs import InputSpec
from colonnade.models.moments import floor_of
from colonnade.privacy.paper import LABEL
from colonnade.protocols.plans import NoOptions, Task, TrainingSpec
from colonnade.randomness import SeededRandomness


def opened_without_noise(tables: list[Table], task: Task, **more: Any) -> OpenedObjective:
    federation = Federation(tables, budget=(100.0, 1e-5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BlockNoise, "part", lambda self, group: Silence())
        # An ε that no other test asks for, so that no plan with silent noise is remembered.
        request = spec_of(FunctionalOptions, task, 0.987, delta=1e-5, gamma=2**16, **more)
        run = federation.run(functional_session, request)
    result: OpenedObjective = run.result()
    return result


def rows_of(tables: list[Table], opened: OpenedObjective) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Features as `frame.features` has them, and the label, in the clear."""
    raw = {}
    for table in tables:
        (block,) = table.blocks(table.rows)
        for column in table.schema.columns:
            values = block.columns[column.name]
            raw[column.name] = values if values.dtype == float else np.array(untyped(column).levels)[values]
        if table.schema.label is not None:
            labels = block.label
    return InputSpec(tuple(opened.plan.encoders.items()), opened.plan.label).features(raw), there(labels)


def exact_minimum(opened: OpenedObjective, **more: Any) -> Minimum:
    objective = replace(opened_objective(opened), noise=0.0, border_noise=0.0)
    return minimise(objective, **more)


@pytest.mark.parametrize("domain", ["ball", "box"])
@pytest.mark.parametrize(("parties", "intercept"), [(2, True), (4, True), (3, False)])
def test_without_noise_the_linear_objective_has_its_minimum_at_least_squares(
    domain: str, parties: int, intercept: bool
) -> None:
    tables = tables_of(NAMES[:parties], 400, task="regression", active=NAMES[1])
    opened = opened_without_noise(tables, "regression", domain=domain, intercept=intercept)
    features, labels = rows_of(tables, opened)
    found = exact_minimum(opened, **({} if intercept else {"ridge": 0.0}))
    scale = math.sqrt(opened.plan.attributes) if domain == "box" else 1.0
    model = Squares(fit_intercept=intercept).fit(features, opened.plan.label.to_unit(labels))
    assert found.weights * scale == pytest.approx(model.coef_, abs=2e-3)
    assert found.intercept == pytest.approx(model.intercept_, abs=1e-3 if intercept else 0)


@pytest.mark.parametrize("domain", ["ball", "box"])
def test_without_noise_the_logistic_objective_has_its_minimum_where_its_second_order_has(domain: str) -> None:
    tables = tables_of(NAMES[:2], 500)
    opened = opened_without_noise(tables, "classification", domain=domain)
    features, labels = rows_of(tables, opened)
    found = exact_minimum(opened)
    scale = math.sqrt(opened.plan.attributes) if domain == "box" else 1.0
    # log(1 + e^s) − ys to second order is (s/2 − v)²/2 up to a constant, v = 2y − 1: least squares of s/2 on v.
    model = Squares().fit(features, 2.0 * labels - 1.0)
    assert found.weights * scale == pytest.approx(2 * model.coef_, abs=5e-3)
    assert found.intercept == pytest.approx(2 * model.intercept_, abs=2e-3)
    theirs = Logistic(C=1e6, max_iter=1000).fit(features, labels)
    scores = features @ (found.weights * scale) + found.intercept
    agree = ((scores > 0) == (theirs.decision_function(features) > 0)).mean()
    assert agree > 0.97


def test_for_a_weak_signal_the_log_odds_are_scikit_learns() -> None:
    draw = np.random.default_rng(5)
    rows = 20_000
    x, z = draw.uniform(-1, 1, (2, rows))
    label = np.where(0.3 * x - 0.2 * z + 0.1 + draw.logistic(size=rows) > 0, "yes", "no")
    opened = opened_without_noise(bank_and_shop(x, z, label), "classification", domain="box")
    found = exact_minimum(opened)
    model = Logistic(C=1e6).fit(np.column_stack([x, z]), label)
    assert found.weights == pytest.approx(model.coef_[0], rel=0.03)
    assert found.intercept == pytest.approx(model.intercept_[0], rel=0.03)


@pytest.mark.parametrize("options", [{}, {"domain": "box"}, {"noise": "laplace"}, {"ridge": 2.0}])
def test_the_learners_train_by_this_method(options: dict[str, Any]) -> None:
    tables = tables_of(NAMES[:3], 3000, task="regression")
    federation = Federation(tables, budget=(100.0, 1e-5), noise_seed=1)
    model = LinearRegression(epsilon=20.0, delta=1e-5, method="functional", options=options).fit(federation)
    opened = federation.runs[0].result()
    features, labels = rows_of(tables, opened)
    predicted = features @ model.coef_ + model.intercept_
    assert np.corrcoef(predicted, labels)[0, 1] > 0.9
    assert np.abs(predicted - labels).mean() < 1.0, "in the label's own units"
    server = model.privacy_[0]
    assert 19.0 < server.epsilon <= 20.0


def test_a_classifier_too_and_its_bill_names_every_block() -> None:
    tables = tables_of(NAMES[:2], 4000)
    federation = Federation(tables, budget=(100.0, 1e-5), public=True, noise_seed=2)
    model = LogisticRegression(epsilon=10.0, delta=1e-5, method="functional").fit(federation)
    features, labels = rows_of(tables, federation.runs[0].result())
    scores = features @ model.coef_[0] + model.intercept_[0]
    assert ((scores > 0) == (labels > 0)).mean() > 0.75
    notes = notes_on(federation.runs[0].plan)
    assert [note.split(":")[0] for note in notes[:3]] == [
        "Block bank (single-party)",
        "Block insurer (single-party)",
        "Block bank+insurer (cross-party)",
    ]
    assert notes[3].startswith("bank's part of any one record") and "to the server" in notes[3]


def test_bottom_up_blocks_have_their_own_noise_and_the_sum_is_said() -> None:
    federation = Federation(tables_of(NAMES[:2], 500), budget=(100.0, 1e-5), noise_seed=3)
    options = FunctionalOptions(
        budget="bottom-up", epsilons={"bank": 4.0, "insurer": 1.0, "insurer+bank": 3.0}
    )
    learnt = METHOD.train(federation, TrainingSpec("classification", 8.0, delta=1e-5, options=options))
    assert any("sum to 8" in note for note in untyped(learnt).notes)
    plan = federation.runs[0].plan
    assert len({noise.parameter for noise in plan.noises}) == 3
    assert learnt.privacy[0].epsilon <= 8.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": "bottom-up"}, "needs an ε for every block"),
        ({"epsilons": {"bank": 1.0}}, "epsilons are for budget = 'bottom-up'"),
        ({"budget": "bottom-up", "epsilons": {"bank": 0.1}}, "has none for insurer"),
    ],
)
def test_budgets_that_make_no_sense_are_refused_before_anything_is_charged(
    options: dict[str, Any], message: str
) -> None:
    federation = Federation(tables_of(NAMES[:2], 50), budget=(100.0, 1e-5))
    with pytest.raises(PlanError, match=message):
        METHOD.train(
            federation, TrainingSpec("classification", 1.0, delta=1e-5, options=FunctionalOptions(**options))
        )
    assert not federation.ledgers["bank"].totals() and not federation.runs


def test_options_that_do_not_exist_are_told_apart() -> None:
    federation = Federation(tables_of(NAMES[:2], 50), budget=(100.0, 1e-5))
    for options in ({"domain": "cube"}, {"ridge": -1.0}, {"epsilons": {"bank": 0.0}}, {"trim": 1}):
        with pytest.raises(InputError, match="functional"):
            LogisticRegression(method="functional", options=options).fit(federation)
    with pytest.raises(TypeError, match="FunctionalOptions"):
        METHOD.train(federation, TrainingSpec("classification", 1.0, delta=1e-5, options=NoOptions()))
    assert METHODS["functional"] is METHOD


def bank_and_shop(x: NDArray[np.float64], z: NDArray[np.float64], label: NDArray[Any]) -> list[Table]:
    text = "id='n'\n[columns.{0}]\nkind='numeric'\nlow=-1\nhigh=1\n"
    tail = "[label]\ncolumn='y'\nkind='classes'\nclasses=['no','yes']\n"
    return [
        Table.from_arrays("bank", {"x": x, "y": label}, Schema.parse(text.format("x") + tail)),
        Table.from_arrays("shop", {"z": z}, Schema.parse(text.format("z"))),
    ]


def test_a_single_class_is_told_from_its_noisy_count() -> None:
    draw = np.random.default_rng(3)
    tables = bank_and_shop(draw.uniform(-1, 1, 300), draw.uniform(-1, 1, 300), np.full(300, "no"))
    spec = TrainingSpec("classification", 5.0, delta=1e-5, options=FunctionalOptions())
    found = []
    for seed in range(8):
        try:
            METHOD.train(Federation(tables, budget=(100.0, 1e-5), noise_seed=seed), spec)
        except DataError as error:
            found.append(str(error))
    assert found and all("class 'yes' has a noisy count of" in message for message in found)


def test_paper_mode_is_for_public_data_and_promises_nothing() -> None:
    tables = tables_of(NAMES[:2], 2000)
    options = FunctionalOptions(calibration="paper")
    requested = TrainingSpec("classification", 100.0, delta=1e-5, options=options)
    with pytest.raises(PlanError, match="declared public"):
        METHOD.train(Federation(tables, budget=(1.0, 1e-5)), requested)
    federation = Federation(tables, budget=(1.0, 1e-5), public=True, noise_seed=4)
    learnt = train_with(federation, "functional", requested)
    assert len(learnt.privacy) == 0 and learnt.run is None
    assert all(LABEL in str(figure) for figure in learnt.figures) and any(LABEL in n for n in learnt.notes)
    d = untyped(learnt).coefficients.shape[1]
    assert learnt.figures[0].value == d**2 / 4 + d
    own = [f.value for f in learnt.figures if f.formula.startswith("ε^(k)")]
    assert len(own) == 2 and all(0 < value < 100.0 for value in own)
    assert not federation.ledgers["bank"].totals(), "nothing is released, so nothing is charged"
    raw = rows_of(tables, opened_without_noise(tables, "classification", domain="box"))[0]
    scores = raw @ untyped(learnt).coefficients[0]
    (block,) = tables[0].blocks(2000)
    assert ((scores > 0) == (there(block.label) > 0)).mean() > 0.7


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_papers_noise_has_the_papers_scale(task: Task) -> None:
    x = np.zeros((1, 30))
    objective = paper_objective(x, np.zeros(1), task=task, epsilon=2.0, randomness=SeededRandomness(1))
    delta = 30**2 / 4 + 30 if task == "classification" else 2 * 31**2
    assert objective.noise == delta / 2.0
    diagonal = np.abs(np.diag(objective.quadratic)).mean()
    assert diagonal == pytest.approx(delta / 2.0, rel=0.6)
    off = objective.quadratic[np.triu_indices(30, 1)]
    # The mean of two Laplace draws: standard deviation b, where one draw has √2·b.
    assert off.std() == pytest.approx(delta / 2.0, rel=0.25)
    assert np.array_equal(objective.quadratic, objective.quadratic.T)


def test_an_indefinite_objective_is_trimmed_or_raised_and_never_drawn_again() -> None:
    matrix = np.diag([50.0, -3.0, 0.1])
    objective = Objective(matrix, np.array([-100.0, -6.0, -0.2]), noise=1.0)
    trimmed = minimise(objective, ridge=0.0)
    assert trimmed.weights.tolist() == pytest.approx([1.0, 0.0, 1.0]) and trimmed.dropped == 1
    ridged = minimise(objective, ridge=4.0)
    assert ridged.dropped == 0 and ridged.weights.tolist() == pytest.approx([50 / 54, 3.0, 0.1 / 4.1])
    raised = minimise(objective)
    floor = floor_of(None, 1.0, 3)
    assert raised.weights.tolist() == pytest.approx([1.0, 3 / floor, 0.1 / floor])
    lengths = [np.linalg.norm(minimise(objective, ridge=r).weights) for r in (4.0, 20.0, 100.0)]
    assert lengths == sorted(lengths, reverse=True)


def test_the_intercept_is_not_shifted_by_the_noise_it_shares_with_the_weights() -> None:
    """Thousands of noisy objectives: left in, the shift would be many of the mean's standard errors."""
    draw = np.random.default_rng(7)
    rows, d, s = 2000, 6, 25.0
    x = draw.uniform(-1, 1, (rows, d)) + 0.2
    v = np.clip(x @ np.full(d, 0.1) + 0.6, -1, 1)
    joint = np.column_stack([x, np.ones(rows)])
    matrix, linear = joint.T @ joint, -2 * joint.T @ v
    exact = minimise(Objective(matrix, linear, noise=0.0, intercept=True)).intercept
    used, left = [], []
    for _ in range(3000):
        noisy = matrix.copy()
        row = s * draw.normal(size=d)
        noisy[:-1, -1] += row
        noisy[-1, :-1] += row
        objective = Objective(noisy, linear, noise=0.0, border_noise=s, intercept=True)
        used.append(minimise(objective).intercept)
        left.append(minimise(replace(objective, border_noise=0.0)).intercept)
    error = np.std(left) / math.sqrt(len(left))
    # What is left comes from the scatter matrix, which has the row's noise in it as well.
    assert abs(np.mean(used) - exact) < 0.5 * abs(np.mean(left) - exact)
    assert abs(np.mean(left) - exact) > 6.1 * error, "this test would notice the shift"
