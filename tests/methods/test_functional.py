"""The functional mechanism: what plans claim and refuse, the protocol against its ideal twin, and models of it."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from functional_parties import LABELS, NAMES, group_of, plan_for, run_plan, tables_of, with_noise
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ideals import ideal_objective
from margin_runs import Silence
from numpy.typing import NDArray
from plan_runs import inputs_for
from scipy import stats
from sklearn.linear_model import LinearRegression as Squares
from sklearn.linear_model import LogisticRegression as Logistic
from training_specs import requested
from training_specs import requested as spec_of
from typed import there, untyped

from colonnade import Federation, LinearRegression, LogisticRegression, Schema, Table
from colonnade.data.kinds import NumericColumn
from colonnade.data.maps import Ball, FeatureMap
from colonnade.errors import (
    DataError,
    FieldTooSmall,
    InputError,
    LocalProtocolError,
    PlanError,
    RemoteProtocolError,
)
from colonnade.methods.functional import protocol as module
from colonnade.methods.functional.blocks import BlockNoise
from colonnade.methods.functional.method import (
    METHOD,
    Minimum,
    Objective,
    minimise,
    opened_objective,
    paper_objective,
)
from colonnade.methods.functional.plan import FunctionalOptions, FunctionalPlan
from colonnade.methods.functional.protocol import OpenedObjective, functional_session, integer_rows
from colonnade.methods.table import METHODS, train_with
from colonnade.models.inputs import InputSpec
from colonnade.models.moments import floor_of
from colonnade.noise.discrete_laplace import DiscreteLaplaceNoise, PolyaNoise
from colonnade.privacy.events import itemise
from colonnade.privacy.guarantee import account
from colonnade.privacy.paper import LABEL
from colonnade.protocols.plans import NoOptions, Task, TrainingSpec
from colonnade.randomness import SeededRandomness
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import run_here


def epsilon_to(plan: FunctionalPlan, observer: str) -> float:
    return next(each.epsilon for each in plan.guarantees if each.observer.name == observer)


@settings(max_examples=10, deadline=None)
@given(
    st.sampled_from(["classification", "regression"]),
    st.sampled_from(["ball", "box"]),
    st.sampled_from(["auto", "laplace", "skellam"]),
    st.integers(2, 5),
    st.sampled_from([0.05, 0.5, 1.0, 3.0]),
)
def test_what_was_calibrated_is_within_what_was_asked(
    task: Task, domain: str, noise: str, parties: int, epsilon: float
) -> None:
    tables = tables_of(NAMES[:parties], 10, task=task, width=1)
    gamma = 4096 if domain == "ball" else 128
    plan = plan_for(tables, task=task, domain=domain, noise=noise, epsilon=epsilon, gamma=gamma, rows=10_000)
    for observer in ("server", "reader"):
        assert 0.99 * epsilon < epsilon_to(plan, observer) <= epsilon
    for owner in plan.group.owners:
        assert epsilon_to(plan, f"party:{owner}") <= 2 * epsilon * (1 + 1e-6) or plan.delta > 0
    assert all(part.epsilon > 0 for part in plan.part_guarantees)


@settings(max_examples=8, deadline=None)
@given(
    st.sampled_from(["auto", "laplace", "skellam"]),
    st.integers(2, 4),
    st.sampled_from([0.02, 0.2]),
    st.sampled_from(["ball", "box"]),
)
def test_bottom_up_costs_no_more_than_the_blocks(noise: str, parties: int, each: float, domain: str) -> None:
    tables = tables_of(NAMES[:parties], 10, width=1)
    names = [block.name for block in plan_for(tables).dissection.blocks]
    chosen = {name: each * (1 + place) for place, name in enumerate(names)}
    total = sum(chosen.values())
    gamma = 4096 if domain == "ball" else 128
    plan = plan_for(
        tables, epsilon=total, epsilons=chosen, noise=noise, domain=domain, gamma=gamma, rows=10_000
    )
    assert plan.options.budget == "bottom-up" and len(plan.noises) == len(names)
    assert epsilon_to(plan, "server") <= total * (1 + 1e-9)
    for line, name in zip(plan.bill, names, strict=True):
        assert line.name == name and 0.99 * chosen[name] < line.epsilon <= chosen[name] * (1 + 1e-9)
    assert sum(line.delta for line in plan.bill) <= max(plan.delta, 1e-5) * (1 + 1e-9)
    if noise == "laplace":
        assert epsilon_to(plan, "server") > 0.999 * total, "pure losses add up"
    for owner, stated in zip(plan.group.owners, plan.part_guarantees, strict=True):
        touched = sum(value for name, value in chosen.items() if owner in name.split("+"))
        assert stated.epsilon <= 2 * touched * (1 + 1e-6), "replacing a part is two zeroings of its blocks"


def test_top_down_laplace_blocks_share_the_epsilon_and_own_parts_grow_with_what_is_held() -> None:
    tables = tables_of(NAMES[:3], 10)
    plan = plan_for(tables, noise="laplace", domain="box", gamma=128, rows=10_000)
    assert sum(line.epsilon for line in plan.bill) == pytest.approx(1.0, rel=1e-5)
    whole = sum(line.l1 for line in plan.bill)
    assert [line.epsilon for line in plan.bill] == pytest.approx(
        [line.l1 / whole for line in plan.bill], rel=1e-5
    )
    assert [line.kind for line in plan.bill] == ["single-party"] * 3 + ["cross-party"] * 3

    tables = tables_of(("bank", "insurer"), 10)
    plan = plan_for(tables, noise="laplace", domain="box", gamma=128, rows=10_000)
    bank, insurer = plan.part_guarantees
    assert bank.epsilon > insurer.epsilon, "the label is the bank's"
    assert bank.unit.name == "own-part:bank"


def test_delta_is_zero_only_where_whole_untruncated_noise_is_dealt() -> None:
    two = plan_for(tables_of(NAMES[:2], 10), noise="laplace", rows=10_000)
    assert two.delta == 0.0 and all(each.delta == 0 for each in two.guarantees)
    assert isinstance(two.noises[0].part(two.group), DiscreteLaplaceNoise)
    three = plan_for(tables_of(NAMES[:3], 10), noise="laplace", rows=10_000, domain="box", gamma=128)
    assert isinstance(three.noises[0].part(three.group), PolyaNoise)
    draws = itemise(three.views[0].event).draws
    assert draws == 2 * 2 * three.dissection.coefficients
    least = draws * 2.0**-100
    assert 2 * least < three.delta < 1e-20, "the truncation, and nothing of the δ of the job"
    assert all(each.delta == three.delta and each.method == "pure" for each in three.guarantees)
    skellam = plan_for(tables_of(NAMES[:2], 10), noise="skellam", rows=10_000)
    assert skellam.delta == 1e-5


def test_no_owner_s_part_of_the_noise_helps_it_and_others_are_dealt_enough() -> None:
    """A part is one over the parts of a whole, so that what one dealer knows leaves a whole."""
    for parties in (2, 3, 4, 5):
        plan = plan_for(tables_of(NAMES[:parties], 10), noise="skellam", rows=10_000)
        assert untyped(plan.noises[0].part(plan.group)).mu * plan.group.whole == plan.noises[0].parameter
        ratio = plan.noises[0].variance(plan.group) / (2 * float(plan.noises[0].parameter))
        dealers = len(plan.group.dealers)
        assert dealers == (3 if parties == 2 else parties)
        assert ratio == pytest.approx(dealers / (dealers - plan.group.threshold))


@pytest.mark.parametrize(("width", "delta", "less"), [(1, 1e-25, "laplace"), (20, 1e-5, "gaussian")])
def test_auto_takes_whichever_adds_less(width: int, delta: float, less: str) -> None:
    tables = tables_of(NAMES[:2], 10, width=width)
    more: dict[str, Any] = {"domain": "box", "rows": 10_000, "delta": delta, "epsilon": 0.5}
    plans = [plan_for(tables, noise=law, **more) for law in ("laplace", "gaussian", "skellam")]
    least = min(plans, key=lambda plan: plan.noises[0].variance(plan.group)).noises[0]
    assert plan_for(tables, **more).noises[0].law == less == least.law


def test_more_epsilon_never_needs_more_noise_and_an_observer_who_knows_more_never_less() -> None:
    tables = tables_of(NAMES[:3], 10)
    for noise in ("laplace", "skellam"):
        found = [
            plan_for(tables, noise=noise, epsilon=e, rows=10_000, domain="box", gamma=64) for e in (0.1, 1, 5)
        ]
        variances = [plan.noises[0].variance(plan.group) for plan in found]
        assert variances == sorted(variances, reverse=True)
        for plan in found:
            replaced = account(plan.event(plan.group.owners), plan.delta).epsilon
            assert all(part.epsilon <= replaced * (1 + 1e-9) for part in plan.part_guarantees)
            assert all(epsilon_to(plan, f"party:{o}") <= replaced * (1 + 1e-9) for o in plan.group.owners)


def test_ledger_lines_are_the_views_and_every_choice_changes_the_hash() -> None:
    plan = plan_for(tables_of(NAMES[:3], 10), rows=10_000)
    release = plan.release("bank", run="r", reproducible=False)
    parts = ["party:insurer others-part", "party:shop others-part"]
    observers = [f"{line.observer} {line.unit}" for line in release.lines]
    assert observers == ["server record", "reader record", *parts, "reader record-replaced"]
    assert plan.release("server", run="r", reproducible=False).lines == ()
    tables = tables_of(NAMES[:2], 10)
    plan = plan_for(tables)
    assert plan.hash == plan_for(tables).hash
    others = [
        plan_for(tables, epsilon=2.0),
        plan_for(tables, domain="box"),
        plan_for(tables, noise="laplace"),
        plan_for(tables, intercept=False),
        plan_for(tables, gamma=8192),
        plan_for(tables, epsilons={"bank": 0.3, "insurer": 0.3, "bank+insurer": 0.3}),
    ]
    assert len({plan.hash, *(other.hash for other in others)}) == 7


@pytest.mark.parametrize(
    ("parties", "more", "checked"),
    [
        (2, {}, "rows"),
        (2, {"domain": "box"}, "none"),
        (2, {"domain": "box", "verify": "rows"}, "rows"),
        (3, {}, "none"),
    ],
)
def test_two_owners_check_rows_in_the_ball_by_default(parties: int, more: Any, checked: str) -> None:
    assert plan_for(tables_of(NAMES[:parties], 10), **more).verify == checked


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"epsilon": 0.0}, "privacy loss is a positive number"),
        ({"epsilon": math.inf}, "privacy loss is a positive number"),
        ({"delta": 0.5}, "not below 1/n"),
        ({"delta": 0.0}, "probability between 0 and 1"),
        ({"gamma": 1, "domain": "box"}, "outside 2 to"),
        ({"gamma": 512, "domain": "ball"}, "outside 4096 to"),
        ({"gamma": 2**29}, "outside 4096 to"),
        ({"epsilons": {"bank": 0.1}}, "has none for insurer, bank\\+insurer"),
        ({"epsilons": {"bank": 0.1, "baker": 0.1}}, "names 'baker', but the blocks .* are bank, insurer"),
        ({"epsilons": {"bank": 0.4, "insurer": 0.4, "bank+insurer": 0.4}}, "sum to 1.2, above"),
        ({"epsilons": {"bank": 0.0, "insurer": 0.4, "bank+insurer": 0.4}}, "an ε of 0"),
        ({"epsilons": {"bank+insurer": 0.1, "insurer+bank": 0.1}}, "names the block bank\\+insurer twice"),
        ({"task": "pca"}, "linear or a logistic objective"),
        ({"task": "regression"}, "needs a label of kind real or count"),
    ],
)
def test_what_cannot_be_planned_is_refused(more: dict[str, Any], message: str) -> None:
    tables = tables_of(("bank", "insurer"), 30)
    with pytest.raises(PlanError, match=message):
        plan_for(tables, **more)


def schema_with(text: str) -> Schema:
    return Schema.parse("id='n'\n[columns.x]\nkind='numeric'\nlow=0\nhigh=1\n" + text)


def plan_of_schemas(bank: Schema, insurer: Schema, active: str | None = "bank", **more: Any) -> Any:
    group = Group.of(("bank", "insurer"), active=active)
    schemas = (bank.public("bank"), insurer.public("insurer"))
    return spec_of(FunctionalOptions, "classification", 1.0, delta=1e-5, **more).plan(group, schemas, 100)


def test_labels_that_are_missing_double_misplaced_or_of_three_classes_are_refused() -> None:
    label = LABELS["classification"]
    three = label.replace("['no','yes']", "['no','maybe','yes']")
    for texts, active, said in (
        (["", ""], None, "no party declares one"),
        ([label, label], "bank", "bank, insurer all declare one"),
        (["", label], "bank", "insurer declares one"),
        ([three, ""], "bank", "tells two classes apart; bank declares 3"),
    ):
        with pytest.raises(PlanError, match=said):
            plan_of_schemas(schema_with(texts[0]), schema_with(texts[1]), active)


def test_columns_that_fill_the_memory_or_are_mapped_in_a_box_are_refused() -> None:
    label = LABELS["classification"]
    names = ", ".join(f"'{i}'" for i in range(40_000))
    wide = Schema.parse(f"id='n'\n[columns.c]\nkind='categorical'\ncategories=[{names}]\n{label}")
    with pytest.raises(PlanError, match="an objective of 40003 columns, which takes"):
        plan_of_schemas(wide, schema_with(""))
    columns = (NumericColumn("x", low=-1, high=1),)
    mapped = Schema("n", columns, schema_with(label).label, map=FeatureMap(Ball(bound=1.0)))
    assert plan_of_schemas(mapped, schema_with(""), domain="ball").options.domain == "ball"
    with pytest.raises(PlanError, match=r"bank maps its columns.*domain = 'ball'"):
        plan_of_schemas(mapped, schema_with(""), domain="box")


def test_a_grid_that_overflows_the_field_is_refused_with_the_largest_that_fits() -> None:
    tables = tables_of(("bank", "insurer"), 30)
    more: dict[str, Any] = {"domain": "box", "rows": 2**32, "delta": 1e-11, "noise": "skellam"}
    with pytest.raises(FieldTooSmall, match="The largest gamma that fits is") as refused:
        plan_for(tables, gamma=15_000, **more)
    largest = int(str(refused.value).rstrip(".").split()[-1])
    assert plan_for(tables, gamma=largest, **more).gamma == largest
    with pytest.raises(FieldTooSmall):
        plan_for(tables, gamma=largest + 1, **more)


def test_what_no_grid_or_draw_can_hold_says_so() -> None:
    tables = tables_of(("bank", "insurer"), 30)
    with pytest.raises(FieldTooSmall, match="No gamma from 4096 up fits"):
        plan_for(tables, rows=10**13, delta=1e-14)
    tables = tables_of(NAMES[:3], 30)
    more: dict[str, Any] = {"domain": "box", "gamma": 2**14, "epsilon": 0.01}
    with pytest.raises(PlanError, match="The largest gamma that fits is"):
        plan_for(tables, noise="laplace", **more)
    assert plan_for(tables, **more).noises[0].law == "gaussian"
    tables = tables_of(NAMES[:3], 10)
    with pytest.raises(PlanError, match="lower epsilon, or choose noise = 'gaussian'"):
        plan_for(tables, noise="laplace", domain="box", gamma=64, epsilon=60.0, rows=10_000)
    tables = tables_of(("bank", "insurer"), 30)
    with pytest.raises(PlanError, match="have no computing parties"):
        plan_for(tables, group=Group.pair("bank", "insurer", active="bank"))


def test_the_sensitivity_in_the_bill_is_what_rows_of_this_plan_attain() -> None:
    tables = tables_of(("bank", "insurer"), 4, width=1)
    extreme = []
    for table in tables:
        (block,) = table.blocks(4)
        columns = {
            name: np.ones(4) if values.dtype == float else values for name, values in block.columns.items()
        }
        extreme.append(replace(block, columns=columns))
    from colonnade.methods.functional.protocol import integer_rows

    plan = plan_for(tables, domain="box", gamma=100)
    dealt = np.concatenate(
        [integer_rows(plan, t.party, b) for t, b in zip(tables, extreme, strict=True)], axis=1
    )
    for row in dealt:
        product = np.outer(row, row)
        for opened, line in zip(plan.dissection.blocks, plan.bill, strict=True):
            moved = np.abs(product[opened.left, opened.right]).sum() / 100**2
            assert moved <= line.l1 * (1 + 1e-12)


def opened_without_noise(tables: list[Table], task: Task, **more: Any) -> Any:
    federation = Federation(tables, budget=(100.0, 1e-5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BlockNoise, "part", lambda self, group: Silence())
        # An ε that no other test asks for, so that no plan with silent noise is remembered.
        request = spec_of(FunctionalOptions, task, 0.987, delta=1e-5, gamma=2**16, **more)
        run = federation.run(functional_session, request)
    return run.result()


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


@pytest.mark.parametrize("options", [{}, {"domain": "box", "noise": "laplace", "ridge": 2.0}])
def test_the_learners_train_by_this_method(options: dict[str, Any]) -> None:
    tables = tables_of(NAMES[:3], 2000, task="regression")
    federation = Federation(tables, budget=(100.0, 1e-5), noise_seed=1)
    model = LinearRegression(epsilon=20.0, delta=1e-5, method="functional", options=options).fit(federation)
    opened = federation.runs[0].result()
    features, labels = rows_of(tables, opened)
    predicted = features @ model.coef_ + model.intercept_
    assert np.corrcoef(predicted, labels)[0, 1] > 0.9
    assert np.abs(predicted - labels).mean() < 1.0, "in the label's own units"
    server = model.privacy_[0]
    assert 19.0 < server.epsilon <= 20.0


def test_bottom_up_blocks_have_their_own_noise_and_the_sum_is_said() -> None:
    federation = Federation(tables_of(NAMES[:2], 500), budget=(100.0, 1e-5), noise_seed=3)
    options = FunctionalOptions(
        budget="bottom-up", epsilons={"bank": 4.0, "insurer": 1.0, "insurer+bank": 3.0}
    )
    learnt = METHOD.train(federation, TrainingSpec("classification", 8.0, delta=1e-5, options=options))
    notes = untyped(learnt).notes
    assert any("sum to 8" in note for note in notes) and "Block bank+insurer (cross-party)" in notes[2]
    assert notes[3].startswith("bank's part of any one record") and "to the server" in notes[3]
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
def test_budgets_that_make_no_sense_are_refused_before_a_charge(options: Any, message: str) -> None:
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


FALSE_ALARM = 1e-9


@settings(max_examples=9, deadline=None)
@given(
    st.sampled_from(["classification", "regression"]),
    st.sampled_from(["ball", "box"]),
    st.integers(2, 5),
    st.integers(1, 200),
    st.integers(0, 4),
    st.booleans(),
    st.booleans(),
    st.just({}),
)
@example("classification", "ball", 2, 40, 0, True, False, {"computing_parties": ("one", "two", "three")})
def test_without_noise_the_protocol_is_the_ideal(
    task: Task, domain: str, count: int, rows: int, active: int, intercept: bool, bare: bool, roles: Any
) -> None:
    parties = NAMES[:count]
    holder = parties[active % count]
    tables = tables_of(parties, rows, task=task, active=holder, empty=(holder,) if bare else ())
    group = group_of(tables, **roles)
    plan = plan_for(tables, group=group, task=task, domain=domain, intercept=intercept, delta=1e-6)
    plan = with_noise(plan, silent=True)
    outcome = run_plan(plan, tables)
    opened, _ = outcome.results["server"]
    aligned = {name: outcome.results[name][1] for name in parties}
    assert opened.tolist() == ideal_objective(aligned, plan).tolist()
    assert all(outcome.results[name][0] is None for name in parties), "only the server opens"


@pytest.mark.parametrize("noise", ["laplace", "skellam"])
@pytest.mark.parametrize("bottom_up", [False, True])
def test_what_is_opened_is_the_ideal_plus_every_owners_noise(noise: str, bottom_up: bool) -> None:
    parties = NAMES[: 2 if bottom_up else 3]
    tables = tables_of(parties, 60)
    plan = plan_for(tables, noise=noise, domain="box", gamma=64)
    if bottom_up:
        epsilons = {block.name: 0.1 for block in plan.dissection.blocks}
        plan = plan_for(tables, noise=noise, domain="box", gamma=64, epsilons=epsilons)
    plan = with_noise(plan, silent=False)
    outcome = run_plan(plan, tables)
    ideal = ideal_objective({name: outcome.results[name][1] for name in plan.group.owners}, plan)
    noises = [plan.noise_of(block) for block in plan.dissection.blocks]
    if bottom_up:
        drawn = np.concatenate([sum(untyped(each).drawn) for each in noises])
        assert all(len(untyped(each).drawn) == (2 if noise == "laplace" else 3) for each in noises)
    else:
        parts, size = untyped(plan.noises[0]).drawn, len(noises)
        # Owners draw in turn, block by block.
        drawn = untyped(sum)(
            np.concatenate(parts[start : start + size]) for start in range(0, len(parts), size)
        )
        assert len(parts) == 3 * size
    assert (outcome.results["server"][0] - ideal.astype(np.int64)).tolist() == drawn.tolist()
    assert np.count_nonzero(drawn) > len(drawn) // 2


def test_the_blocks_have_every_product_once_and_no_square_of_label_or_constant() -> None:
    tables = tables_of(NAMES[:4], 10, active="shop")
    plan = plan_for(tables, domain="box")
    found = plan.dissection
    seen = [(int(i), int(j)) for b in found.blocks for i, j in zip(b.left, b.right, strict=True)]
    assert len(seen) == len(set(seen)) == found.coefficients
    everything = {(i, j) for i in range(found.columns) for j in range(i, found.columns)}
    assert everything - set(seen) == {(found.label, found.label), (found.constant, found.constant)}
    owner = {int(place): name for name, places in found.features_of.items() for place in places}
    owner[found.label] = "shop"
    for block in found.blocks:
        for i, j in zip(block.left.tolist(), block.right.tolist(), strict=True):
            involved = {owner[place] for place in (i, j) if place != found.constant}
            assert involved == set(block.owners), "a block needs the columns of its owners and of nobody else"
    matrix = found.matrix(np.arange(1, found.coefficients + 1))
    assert np.array_equal(matrix, matrix.T) and matrix[found.label, found.label] == 0
    assert matrix[np.triu_indices(found.columns)][found.opened].tolist() == list(
        range(1, found.coefficients + 1)
    )


@given(
    st.sampled_from(["ball", "box"]), st.sampled_from(["classification", "regression"]), st.integers(0, 99)
)
@settings(max_examples=20, deadline=None)
def test_no_row_passes_the_bounds_that_noise_was_calibrated_to(domain: str, task: Task, seed: int) -> None:
    tables = tables_of(("bank", "insurer"), 50, task=task, seed=seed)
    plan = plan_for(tables, task=task, domain=domain)
    for table, bounds in zip(tables, plan.row.parts, strict=True):
        (rows,) = table.blocks(50)
        dealt = integer_rows(plan, table.party, rows)
        features = dealt[:, : bounds.features]
        assert (np.square(features).sum(axis=1) <= bounds.square).all()
        assert np.abs(features).max() <= bounds.largest
        if table.party == plan.label_holder:
            assert np.abs(dealt[:, -1]).max() <= plan.label_size
            assert set(dealt[:, -2]) == {plan.constant_size}


def drawn_noise(plan: FunctionalPlan, owners: tuple[str, ...], seed: int) -> NDArray[np.int64]:
    """All owners' parts of a plan's noise, from seeded coins."""
    total = np.zeros(plan.dissection.coefficients, dtype=np.int64)
    for owner in owners:
        randomness = SeededRandomness(f"{seed}/{owner}")
        total = total + np.concatenate(
            [plan.noise_of(b).part(plan.group).draw(b.size, randomness) for b in plan.dissection.blocks]
        )
    return total


def chi_square(values: NDArray[np.int64], law: Any) -> Any:
    """p of the law's fit over twenty bins of equal probability."""
    edges = law.ppf(np.linspace(0, 1, 21)[1:-1])
    counts = np.bincount(np.searchsorted(edges, values, side="left"), minlength=20)
    # Probabilities of the bins as the discrete law has them.
    cumulative = np.concatenate([[0.0], law.cdf(edges), [1.0]])
    return stats.chisquare(counts, np.diff(cumulative) * len(values)).pvalue


@pytest.mark.parametrize(
    ("noise", "parties"), [("laplace", 2), ("laplace", 3), ("skellam", 3), ("gaussian", 3), ("gaussian", 2)]
)
def test_the_parts_of_k_minus_t_owners_make_the_noise_that_was_calibrated(noise: str, parties: int) -> None:
    tables = tables_of(NAMES[:parties], 20, width=8)
    plan = plan_for(tables, noise=noise, domain="box", gamma=16, epsilon=2.0)
    dealers = plan.noises[0].dealers(plan.group)
    honest = dealers[plan.group.threshold :]
    values = np.concatenate([drawn_noise(plan, honest, seed) for seed in range(40)])
    parameter = float(plan.noises[0].parameter)
    if noise == "laplace":
        law, worse = stats.dlaplace(1 / parameter), stats.dlaplace(1 / (1.15 * parameter))
    else:
        deviation = math.sqrt(parameter if noise == "gaussian" else 2 * parameter)
        law, worse = stats.norm(0, deviation), stats.norm(0, 1.15 * deviation)
    assert chi_square(values, law) > FALSE_ALARM
    assert chi_square(values, worse) < FALSE_ALARM, "this test would notice fifteen percent"


def test_what_the_opened_noise_deviates_by_is_what_the_plan_says() -> None:
    tables = tables_of(NAMES[:3], 20, width=8)
    for noise in ("laplace", "skellam"):
        plan = plan_for(tables, noise=noise, domain="box", gamma=16)
        values = np.concatenate([drawn_noise(plan, plan.group.owners, seed) for seed in range(20)])
        ratio = float(values.var()) / plan.noises[0].variance(plan.group)
        spread = math.sqrt(5.0 / len(values))  # of a sample variance, kurtosis at most 6
        assert abs(ratio - 1) < 6.1 * spread  # false alarm 1e-9
        assert 6.1 * spread < 0.33, "owners' parts left out, two of three, would be noticed"


def test_exact_cross_coefficients_would_give_the_last_record_away() -> None:
    """What parties decrypt in the paper: whoever knows all other records reads the last one; ours has noise in it."""
    tables = tables_of(("bank", "insurer"), 40, task="regression")
    plan = with_noise(plan_for(tables, task="regression", domain="box"), silent=False)
    outcome = run_plan(plan, tables)
    aligned = {name: outcome.results[name][1] for name in plan.group.owners}
    cross = slice(plan.dissection.coefficients - plan.dissection.blocks[-1].size, None)
    exact = ideal_objective(aligned, plan)[cross].astype(float)
    dealt = {}
    for name in plan.group.owners:
        (block,) = aligned[name].blocks(40)
        dealt[name] = integer_rows(plan, name, block).astype(float)
    mine, theirs = dealt["bank"], dealt["insurer"]
    features = plan.dissection.features_of["bank"]
    held = np.column_stack([mine[:, features], mine[:, -1]])  # its features and the label

    def last_record(coefficients: NDArray[np.float64]) -> Any:
        known = held[:-1].T @ theirs[:-1]
        return (coefficients.reshape(known.shape) - known)[0] / held[-1, 0]

    assert np.allclose(last_record(exact), theirs[-1]), "the attack works on exact coefficients"
    noisy = last_record(outcome.results["server"][0][cross].astype(float))
    assert np.abs(noisy - theirs[-1]).max() > plan.gamma, "and misses by more than the whole range with noise"


def test_rows_that_are_not_those_of_the_plan_or_no_numbers_are_refused() -> None:
    tables = tables_of(("bank", "insurer"), 30)
    plan = plan_for(tables, rows=31)
    with pytest.raises(LocalProtocolError, match="should bring 31 aligned rows, brought 30 rows"):
        run_plan(plan, tables)
    tables = tables_of(("bank", "insurer"), 5)
    plan = plan_for(tables, domain="box")
    (rows,) = tables[1].blocks(5)
    broken = replace(rows, columns={**rows.columns, "insurer0": np.full(5, np.nan)})
    with pytest.raises(DataError, match="not a finite number"):
        integer_rows(plan, "insurer", broken)
    (rows,) = tables[0].blocks(5)
    with pytest.raises(LocalProtocolError, match="should bring a label"):
        integer_rows(plan, "bank", replace(rows, label=None))


def test_every_owner_reads_the_same_objective_and_a_mere_keeper_none() -> None:
    tables = tables_of(("bank", "insurer"), 30)
    federation = Federation(tables, budget=(20.0, 1e-5), computing_parties=("one", "two", "three"))
    run = federation.run(functional_session, requested(FunctionalOptions, "classification", 1.0, delta=1e-5))
    read = [run.result(name).coefficients for name in ("server", "bank", "insurer")]
    assert (
        all(np.array_equal(each, read[0]) for each in read)
        and read[0].size == run.plan.dissection.coefficients
    )
    assert run.result("one").coefficients.size == 0 and run.result("one").aligned is None


def test_a_server_that_publishes_what_no_objective_is_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    request = requested(FunctionalOptions, "regression", 1.0, delta=1e-5)
    tables = tables_of(("bank", "insurer"), 30, task="regression")
    group = group_of(tables)
    real = module.functional_mechanism

    async def lying(party: Party, aligned: Any, plan: FunctionalPlan) -> Any:
        opened = await real(party, aligned, plan)
        return None if opened is None else np.full_like(opened, 2**62 + 2**61)

    monkeypatch.setattr(module, "functional_mechanism", lying)
    with pytest.raises(RemoteProtocolError, match="larger than any of this plan"):
        run_here(functional_session, group, inputs_for(group, tables), request)
