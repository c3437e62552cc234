"""Plans of training by gradients: what they promise, what they cost, what they refuse."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from gradient_tables import NAMES, plan_for, tables_of
from training_specs import requested as spec_of
from typed import untyped

from colonnade.crypto.product_proof import MOST_ROWS
from colonnade.crypto.row_proofs import RowClaims
from colonnade.errors import PlanError
from colonnade.methods.slr import plan as slr_plan
from colonnade.methods.slr.plan import GradientPlan, Optimiser, OptimiserName, SlrOptions, schedule
from colonnade.numbers.field import smallest_field
from colonnade.privacy.calibrate import as_draws
from colonnade.privacy.events import Approximated, DiscreteGaussian, Repeated, contains_sampling, itemise
from colonnade.privacy.guarantee import View, account
from colonnade.privacy.observers import REPLACE
from colonnade.privacy.sensitivity.gradient import fused_zero_out
from colonnade.runtime.party import Group


@pytest.fixture(scope="module")
def plan() -> GradientPlan:
    return plan_for(tables_of(("bank", "insurer"), 2000), epochs=4, rate=0.2)


def view(plan: GradientPlan, name: str) -> View:
    return next(view for view in plan.views if view.observer.name == name)


def test_the_server_and_readers_get_the_epsilon_asked_for(plan: GradientPlan) -> None:
    for name in ("server", "reader"):
        cost = account(view(plan, name).event, plan.delta)
        assert 0.99 < cost.epsilon <= 1.0


def test_less_noise_would_miss_it(plan: GradientPlan) -> None:
    less = replace(plan.dealt_noise, variance=plan.dealt_noise.variance * Fraction(99, 100))
    assert account(plan.sampled(less), plan.delta).epsilon > 1.0


def test_parties_know_the_batches_and_get_no_credit_for_sampling(plan: GradientPlan) -> None:
    mine = view(plan, "party:bank")
    assert not contains_sampling(mine.event) and contains_sampling(view(plan, "server").event)
    assert isinstance(mine.event, Repeated) and mine.event.times == plan.uses
    assert next(g for g in plan.guarantees if g.observer.name == "party:bank").epsilon > 1.0


def test_a_party_pays_for_the_most_uses_and_not_for_the_expected_ones(plan: GradientPlan) -> None:
    expected = plan.schedule.steps * plan.schedule.rate
    assert expected < plan.uses < plan.schedule.steps
    at_mean = replace(view(plan, "party:bank").event, times=untyped(int(expected)))
    assert account(at_mean, plan.delta).epsilon < account(view(plan, "party:bank").event, plan.delta).epsilon


def test_what_the_limits_cost_is_taken_out_of_delta(plan: GradientPlan) -> None:
    event = plan.sampled(plan.dealt_noise)
    assert isinstance(event, Approximated)
    assert event.draws == as_draws(plan.limits_cost) > 0 and plan.limits_cost <= plan.overflow
    noise = plan.schedule.steps * plan.size * plan.group.whole
    assert itemise(event).draws == event.draws + noise


def test_an_overflow_that_delta_cannot_pay_for_is_refused() -> None:
    with pytest.raises(PlanError):
        plan_for(tables_of(("bank", "insurer"), 2000), overflow=1e-4)


def test_ledgers_hold_every_observer_but_the_party_itself(plan: GradientPlan) -> None:
    release = plan.release("bank", run="r", reproducible=False)
    named = [(line.observer, line.unit) for line in release.lines]
    assert ("server", "record") in named and ("party:insurer", "others-part") in named
    assert ("reader", REPLACE.name) in named and all(observer != "party:bank" for observer, _ in named)
    assert plan.release("server", run="r", reproducible=False).lines == ()
    replaced = next(line.event for line in release.lines if line.unit == REPLACE.name)
    assert not contains_sampling(replaced)


def test_the_assumption_names_the_batches(plan: GradientPlan) -> None:
    assert all(
        "no owner tells it who is in a batch" in view(plan, name).assumption for name in ("server", "reader")
    )
    assert "batch" not in view(plan, "party:bank").assumption
    assert all("everybody runs the protocol" in str(one) for one in plan.guarantees), "nothing is checked"


@pytest.mark.parametrize("count", [2, 5])
def test_noise_parts_of_the_honest_make_the_whole(count: int) -> None:
    plan = plan_for(tables_of(NAMES[:count], 100), rate=1.0)
    whole = plan.group.whole
    assert untyped(plan.noise.part(whole)).sigma_squared * whole == 2 * plan.mu == plan.dealt_noise.variance
    leaf = untyped(plan.all_replaced(plan.group.threshold)).event.event
    assert isinstance(leaf, DiscreteGaussian) and leaf.sigma_squared == 2 * plan.mu


def test_rows_and_constant_share_a_norm_of_gamma(plan: GradientPlan) -> None:
    bounds = sum(quantizer.norm_squared_bound for quantizer in plan.quantizers.values())
    features = sum(quantizer.width for quantizer in plan.quantizers.values())
    assert plan.shape.norm_squared == bounds + plan.constant**2 <= plan.gamma**2 + features
    assert plan.size == features + 1


def test_longer_training_and_longer_weights_need_more_noise() -> None:
    tables = tables_of(("bank", "insurer"), 2000)
    least = plan_for(tables, epochs=4, rate=1.0).mu
    assert plan_for(tables, epochs=8, rate=1.0).mu > least
    assert plan_for(tables, epochs=4, rate=1.0, weight_cap=16).mu > least


def test_three_classes_are_refused_by_name() -> None:
    tables = tables_of(("bank", "insurer"), 60, classes=("a", "b", "c"))
    with pytest.raises(PlanError, match="two classes; bank declares 3"):
        plan_for(tables)


def test_a_label_that_nobody_holds_is_refused() -> None:
    tables = tables_of(("bank", "insurer"), 60, active="nobody")
    with pytest.raises(PlanError, match="no party declares one"):
        plan_for(tables, Group.of(("bank", "insurer")))


def test_a_rate_at_which_parties_would_pay_without_limit_is_refused_with_a_way_out() -> None:
    with pytest.raises(PlanError, match="Take a rate above"):
        plan_for(tables_of(("bank", "insurer"), 5000), epsilon=150.0, epochs=20, rate=0.002)


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        ({"epochs": 0}, "epochs = 0"),
        ({"epochs": float("nan")}, "epochs"),
        ({"rate": 1.5}, "more than 1"),
        ({"rate": -0.1}, "rate = -0.1"),
        ({"weight_cap": 0}, "weight_cap"),
        ({"overflow": 0.0}, "overflow"),
        ({"epochs": 1e9}, "is the most"),
    ],
)
def test_schedules_that_are_none_are_refused(wrong: dict[str, Any], part: str) -> None:
    with pytest.raises(PlanError, match=part):
        schedule(**wrong)


@pytest.mark.parametrize(
    ("name", "rate", "average", "part"),
    [("newton", 1.0, 0.5, "'newton'"), ("sgd", 0.0, 0.5, "learning_rate"), ("sgd", 1.0, 1.5, "average")],
)
def test_optimisers_that_are_none_are_refused(
    name: OptimiserName, rate: float, average: float, part: str
) -> None:
    with pytest.raises(PlanError, match=part):
        Optimiser(name, rate, average)


def test_a_plan_says_what_reports_read_of_it(plan: GradientPlan) -> None:
    described = plan.to_data()
    assert described["spec"]["task"] == "classification" and described["protocol"] == "noisy gradient"
    assert (
        described["computing_parties"] == ["server", "bank", "insurer"]
        and described["capacity"] == plan.capacity
    )


@pytest.mark.parametrize("gamma", [64, 100, 1000])
def test_the_field_has_room_for_all_of_every_row(gamma: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan_for(tables_of(("bank", "insurer"), 60), gamma=gamma, rate=1.0)
    most = Fraction(fused_zero_out(made.shape).l2)
    assert most.denominator > 1, "what is rounded is no integer"
    requested = {}

    def noticed(**bounds: Any) -> Any:
        requested.update(bounds)
        return smallest_field(**bounds)

    monkeypatch.setattr(slr_plan, "smallest_field", noticed)
    _ = replace(made).field
    assert most <= requested["per_row"] < most + 1
    assert requested["rows"] == made.capacity
    assert requested["noise"] == len(made.group.dealers) * untyped(made.noise).part(made.group.whole).support


def test_rows_are_checked_a_block_at_a_time_however_many_there_are() -> None:
    tables = tables_of(("bank", "insurer"), 60)
    group = Group.of(("bank", "insurer"), active="bank")
    schemas = tuple(table.public() for table in tables)
    rows = 2 * MOST_ROWS
    requested = spec_of(SlrOptions, epsilon=1.0, delta=1e-9, gamma=256, epochs=1, rate=1.0, verify="rows")
    made = requested.plan(group, schemas, rows)
    assert made.verify == "rows" and made.block < MOST_ROWS < made.rows
    for claims in made.claims.values():
        RowClaims(rows=made.block, claims=claims, points=(0, -1))
        with pytest.raises(ValueError, match="rows"):
            RowClaims(rows=rows, claims=claims, points=(0, -1))


@pytest.mark.slow  # it searches; that a grid is refused with the largest that fits is quick in other methods
def test_a_grid_too_fine_for_the_noise_says_which_one_fits() -> None:
    tables = tables_of(("bank", "insurer"), 60)
    with pytest.raises(PlanError, match=r"The largest gamma that fits is \d+") as error:
        plan_for(tables, gamma=1 << 17)
    largest = int(str(error.value).split("fits is ")[1].rstrip("."))
    plan_for(tables, gamma=largest)
    with pytest.raises(PlanError, match="The largest gamma"):
        plan_for(tables, gamma=largest + 1)
