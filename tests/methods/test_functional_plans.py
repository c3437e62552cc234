"""Plans of the functional mechanism: what they claim, what they refuse, and what the bill says."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from functional_parties import LABELS, NAMES, group_of, plan_for, tables_of
from hypothesis import given, settings
from hypothesis import strategies as st
from training_specs import requested as spec_of
from typed import untyped

from colonnade.data.kinds import NumericColumn
from colonnade.data.maps import Ball, FeatureMap
from colonnade.data.schema import Schema
from colonnade.errors import FieldTooSmall, PlanError
from colonnade.methods.functional.blocks import BlockNoise, least_noise
from colonnade.methods.functional.plan import FunctionalOptions, FunctionalPlan
from colonnade.noise.discrete_laplace import DiscreteLaplaceNoise, PolyaNoise
from colonnade.privacy.events import itemise
from colonnade.privacy.guarantee import account
from colonnade.protocols.plans import Task
from colonnade.runtime.party import Group


def epsilon_to(plan: FunctionalPlan, observer: str) -> float:
    return next(each.epsilon for each in plan.guarantees if each.observer.name == observer)


@settings(max_examples=18, deadline=None)
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
def test_bottom_up_costs_at_most_the_sum_of_the_blocks(
    noise: str, parties: int, each: float, domain: str
) -> None:
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
    assert "bank+insurer (cross-party)" in str(plan.bill[3]) and "ε = " in str(plan.bill[3])
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
    more: dict[str, Any] = {
        "domain": "box",
        "rows": 10_000,
        "delta": delta,
        "task": "classification",
        "epsilon": 0.5,
    }
    variances = {}
    for law in ("laplace", "gaussian", "skellam"):
        plan = plan_for(tables, noise=law, **more)
        variances[law] = plan.noises[0].variance(plan.group)
    assert plan_for(tables, **more).noises[0].law == less == min(variances, key=lambda law: variances[law])


def test_noise_without_a_law_is_none_and_with_one_tells_what_it_is() -> None:
    plan = plan_for(tables_of(NAMES[:2], 10))
    with pytest.raises(PlanError, match="no law of noise"):
        least_noise((), plan.change(), plan.group, entries=1, epsilon=1.0, delta=1e-5)
    from fractions import Fraction

    assert str(BlockNoise("laplace", Fraction(20))) == "discrete Laplace of scale 20"
    assert str(BlockNoise("skellam", Fraction(50))) == "Skellam of μ = 50"
    assert BlockNoise("skellam", Fraction(50)).to_data() == {"law": "skellam", "parameter": "50"}


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
    observers = [(line.observer, line.unit) for line in release.lines]
    assert observers == [
        ("server", "record"),
        ("reader", "record"),
        ("party:insurer", "others-part"),
        ("party:shop", "others-part"),
        ("reader", "record-replaced"),
    ]
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


def test_the_request_makes_the_plan_and_knows_its_choices() -> None:
    tables = tables_of(NAMES[:2], 10)
    schemas = tuple(table.public() for table in tables)
    chosen = {"bank": 0.3, "insurer": 0.3, "insurer+bank": 0.4}
    given: dict[str, Any] = {"budget": "bottom-up", "epsilons": chosen, "domain": "box"}
    request = spec_of(FunctionalOptions, "classification", 1.0, delta=1e-5, **given)
    plan = request.plan(group_of(tables), schemas, 10)
    assert dict(plan.epsilons) == {"bank": 0.3, "insurer": 0.3, "bank+insurer": 0.4}
    assert request.to_data()["epsilons"] == chosen
    assert request.to_data()["method"] == "functional"


@pytest.mark.parametrize(
    ("parties", "more", "checked"),
    [
        (2, {}, "rows"),
        (2, {"domain": "box"}, "none"),
        (2, {"domain": "box", "verify": "rows"}, "rows"),
        (3, {}, "none"),
    ],
)
def test_two_owners_check_rows_in_the_ball_unless_they_say_otherwise(
    parties: int, more: dict[str, Any], checked: str
) -> None:
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


def plan_of_schemas(texts: list[str], *, active: str | None = "bank", **more: Any) -> Any:
    parties = ("bank", "insurer")[: len(texts)]
    schemas = tuple(schema_with(t).public(p) for p, t in zip(parties, texts, strict=True))
    group = Group.of(parties, active=active)
    task = more.pop("task", "classification")
    return spec_of(FunctionalOptions, task=task, epsilon=1.0, delta=1e-5, **more).plan(group, schemas, 100)


def test_labels_that_are_missing_double_misplaced_or_of_three_classes_are_refused() -> None:
    label = LABELS["classification"]
    with pytest.raises(PlanError, match="no party declares one"):
        plan_of_schemas(["", ""], active=None)
    with pytest.raises(PlanError, match="bank, insurer all declare one"):
        plan_of_schemas([label, label])
    with pytest.raises(PlanError, match="insurer declares one"):
        plan_of_schemas(["", label])
    three = label.replace("['no','yes']", "['no','maybe','yes']")
    with pytest.raises(PlanError, match="tells two classes apart; bank declares 3"):
        plan_of_schemas([three, ""])


def test_too_many_columns_are_refused_with_the_memory_they_would_take() -> None:
    names = ", ".join(f"'{i}'" for i in range(40_000))
    text = f"id='n'\n[columns.c]\nkind='categorical'\ncategories=[{names}]\n"
    bank = Schema.parse(text + LABELS["classification"]).public("bank")
    shop = schema_with("").public("shop")
    with pytest.raises(PlanError, match="an objective of 40003 columns, which takes"):
        spec_of(FunctionalOptions, task="classification", epsilon=1.0, delta=1e-5).plan(
            Group.of(("bank", "shop"), active="bank"), (bank, shop), 100
        )


@pytest.mark.parametrize(("domain", "gamma"), [("ball", 60_000), ("box", 15_000)])
def test_a_grid_that_overflows_the_field_is_refused_with_the_largest_that_fits(
    domain: str, gamma: int
) -> None:
    tables = tables_of(("bank", "insurer"), 30)
    more: dict[str, Any] = {"domain": domain, "rows": 2**32, "delta": 1e-11, "noise": "skellam"}
    with pytest.raises(FieldTooSmall, match="The largest gamma that fits is") as refused:
        plan_for(tables, gamma=gamma, **more)
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


def test_a_map_has_no_box() -> None:
    columns, label = (NumericColumn("x", low=-1, high=1),), schema_with(LABELS["classification"]).label
    bank = Schema("n", columns, label, map=FeatureMap(Ball(bound=1.0)))
    group = Group.of(("bank", "insurer"), active="bank")
    schemas = (bank.public("bank"), schema_with("").public("insurer"))
    requested: dict[str, Any] = {"task": "classification", "epsilon": 1.0, "delta": 1e-5}
    assert (
        spec_of(FunctionalOptions, domain="ball", **requested).plan(group, schemas, 100).options.domain
        == "ball"
    )
    with pytest.raises(PlanError, match=r"bank maps its columns.*domain = 'ball'"):
        spec_of(FunctionalOptions, domain="box", **requested).plan(group, schemas, 100)


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
