"""Plans of noisy margin descent: what they charge whom, which grids they take, and what they refuse."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from gradient_tables import NAMES
from margin_runs import margin_plan, tables_of
from training_specs import requested

from colonnade.errors import DeltaTooLarge, GroupMismatch, LabelMismatch, PlanError, TooMuchMemory
from colonnade.methods.margin.plan import MarginOptions, MarginSchedule
from colonnade.noise.discrete_gaussian import LARGEST_VARIANCE
from colonnade.privacy.guarantee import account
from colonnade.protocols import plans
from colonnade.runtime.party import Group

PAIR = ("bank", "insurer")


def costs(plan: Any) -> Any:
    return {one.observer.name: one.epsilon for one in plan.guarantees}


def test_the_server_gets_what_was_asked_and_parties_at_most_about_twice_as_much() -> None:
    found = costs(margin_plan(tables_of(PAIR, 500), steps=20))
    assert 0.99 < found["server"] == found["reader"] <= 1.0
    assert found["server"] < found["party:bank"] < found["party:insurer"] < 2.2 * found["server"]


def test_a_record_replaced_costs_more_than_one_zeroed_out() -> None:
    plan = margin_plan(tables_of(PAIR, 500))
    zeroed, replaced = (account(event, 1e-5).epsilon for event in (plan.zeroed(1), plan.replaced))
    assert zeroed < replaced < 2.3 * zeroed


def test_colluding_owners_have_a_line_of_their_own() -> None:
    found = costs(margin_plan(tables_of(NAMES[:4], 500)))
    assert found["any 2 owners"] > found["party:insurer"]


@pytest.mark.parametrize("share", [Fraction(1, 100), Fraction(1, 2)])
def test_the_share_of_the_moments_is_theirs(share: Any) -> None:
    plan = margin_plan(tables_of(PAIR, 500), share=share, steps=10)
    of_moments = plan.row.norm_squared**2 / plan.moments_variance
    of_gradients = plan.schedule.steps * plan.gradient_zeroed.l2**2 / plan.variance
    assert float(of_moments / (of_moments + of_gradients)) == pytest.approx(float(share), rel=1e-6)


@pytest.mark.parametrize("owners", [2, 3, 4, 5])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
def test_grids_are_as_fine_as_noise_can_be_drawn(owners: Any, epsilon: float) -> None:
    plan = margin_plan(tables_of(NAMES[:owners], 500), epsilon=epsilon, steps=20)
    assert plan.variance <= LARGEST_VARIANCE and plan.moments_variance <= LARGEST_VARIANCE
    lost = plan.slopes.most / plan.scale - 0.5
    assert lost < {2: 0.005, 3: 0.02, 4: 0.06, 5: 0.15}[owners] * max(1, 0.3 / epsilon)
    assert plan.hash == replace(plan).hash


def test_more_noise_for_more_steps_and_less_for_a_larger_epsilon() -> None:
    few, many = (margin_plan(tables_of(PAIR, 500), steps=steps) for steps in (5, 20))
    loud, quiet = (margin_plan(tables_of(PAIR, 500), epsilon=epsilon) for epsilon in (0.5, 2.0))
    assert many.deviation == pytest.approx(2 * few.deviation, rel=0.02)
    assert loud.deviation > 3 * quiet.deviation


def test_plans_that_differ_in_any_choice_differ_in_their_hash() -> None:
    tables = tables_of(PAIR, 100)
    plans = [
        margin_plan(tables),
        margin_plan(tables, steps=4),
        margin_plan(tables, harmonics=5),
        margin_plan(tables, share=Fraction(1, 5)),
        margin_plan(tables, gamma=512),
    ]
    assert len({plan.hash for plan in plans}) == len(plans)


# --- bad input, refused before anything is charged


@pytest.mark.parametrize(
    ("choice", "part"),
    [
        ({"steps": 0}, "steps = 0: there are 1 to 1000"),
        ({"steps": 1001}, "steps = 1001"),
        ({"harmonics": 2}, "harmonics = 2"),
        ({"harmonics": 9}, "fitted with 3 to 8"),
        ({"share": Fraction(0)}, "moments_share = 0"),
        ({"share": Fraction(1)}, "between 0 and 1"),
        ({"gamma": 2}, "gamma = 2 is outside"),
        ({"gamma": 1 << 28}, "leaves no grid for the curve"),
        ({"epsilon": 0.0}, "epsilon = 0"),
    ],
)
def test_choices_that_no_plan_has_are_named(choice: Any, part: Any) -> None:
    with pytest.raises(PlanError, match=part):
        margin_plan(tables_of(PAIR, 100), **choice)


def test_too_many_owners_for_the_grids_are_told_to_use_moments() -> None:
    names = tuple(f"party{number}" for number in range(15))
    with pytest.raises(PlanError, match=r"15 owners multiply 15 rounded factors.*'moments'"):
        margin_plan(tables_of(names, 50))


def test_owners_without_keepers_are_refused() -> None:
    tables = tables_of(PAIR, 50)
    with pytest.raises(GroupMismatch, match="no computing parties"):
        margin_plan(tables, Group.pair("bank", "insurer", active="bank"))


def test_a_delta_that_would_publish_a_row_is_refused() -> None:
    tables = tables_of(PAIR, 50)
    with pytest.raises(DeltaTooLarge):
        requested(MarginOptions, epsilon=1.0, delta=0.1).plan(
            Group.of(PAIR, active="bank"), tuple(table.public() for table in tables), 50
        )


def test_rows_that_do_not_fit_the_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "physical_memory", lambda: 1 << 18)
    with pytest.raises(TooMuchMemory, match="5000 rows of"):
        margin_plan(tables_of(PAIR, 5000))


def test_a_label_that_is_a_number_is_refused() -> None:
    tables = tables_of(PAIR, 50)
    group = Group.of(PAIR, active="insurer")
    with pytest.raises(LabelMismatch):
        margin_plan(tables, group)


def test_schedules_say_what_they_are() -> None:
    assert MarginSchedule().to_data()["coefficients"][0] == 164082
    assert math.isclose(float(MarginSchedule().moments_share), 0.1)
