"""How near their law noise is drawn: as near as the largest ε of any observer asks for, and paid by each of them."""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from gradient_tables import plan_for, tables_of
from intermediate_samples import request, tables
from margin_runs import margin_plan
from test_dealt_noise import NAMES, moments, pair, schemas
from training_specs import planned_on
from training_specs import requested as spec_of
from typed import untyped

from colonnade.errors import PlanError, PrivacyError
from colonnade.ledger.bounds import epsilon_of
from colonnade.methods.functional.plan import FunctionalOptions, FunctionalPlan
from colonnade.methods.local.protocol import LocalOptions
from colonnade.methods.messages.plan import IntermediatePlan
from colonnade.methods.moments.plan import MomentsPlan
from colonnade.methods.one_shot.protocol import OneShotOptions
from colonnade.methods.slr.plan import GradientPlan
from colonnade.privacy.events import COARSE_BITS, FINE_BITS, FINEST_BITS, Approximated, Gaussian, itemise
from colonnade.privacy.guarantee import account
from colonnade.protocols.dealt_noise import near_enough
from colonnade.protocols.evaluation import EvaluationSpec
from colonnade.protocols.plans import Plan
from colonnade.protocols.session import most_people
from colonnade.runtime.party import Group

PAIR = ("bank", "insurer")


def functional(group: Group, epsilon: float) -> Any:
    return spec_of(
        FunctionalOptions, task="classification", epsilon=epsilon, delta=1e-5, noise="gaussian"
    ).plan(group, schemas(group.owners), 10_000)


def evaluated(group: Group, epsilon: float) -> Any:
    reaches = ((1.0,) * len(group.owners),)
    return EvaluationSpec("5f0c", reaches, epsilon=epsilon, delta=1e-5).plan(
        group, schemas(group.owners), 10_000
    )


def slr(epsilon: float, **shape: Any) -> GradientPlan:
    return plan_for(tables_of(PAIR, 2000), epsilon=epsilon, **shape)


def messages(epsilon: float, widths: tuple[int, ...] = (2, 3)) -> IntermediatePlan:
    made = tables(4, loss="logistic", widths=widths)
    plan: IntermediatePlan = planned_on(request("logistic", epsilon=epsilon, delta=1e-5), made, 200)
    return plan


def largest(plan: Plan) -> float:
    return max(item.epsilon for item in plan.guarantees)


DEALT: dict[str, Callable[[float], Any]] = {
    "moments": lambda epsilon: moments(pair(), epsilon),
    "functional": lambda epsilon: functional(pair(), epsilon),
    "judging": lambda epsilon: evaluated(pair(), epsilon),
    "margin": lambda epsilon: margin_plan(tables_of(PAIR, 500), epsilon=epsilon),
    "slr": slr,
}


def bits_of(plan: Any) -> int:
    noise = plan.noises[0] if isinstance(plan, FunctionalPlan) else plan.noise
    return int(noise.bits)


@pytest.mark.parametrize("method", DEALT)
def test_the_party_that_learns_most_decides_and_every_observer_pays_for_all_draws(method: str) -> None:
    for epsilon in (0.5, 6.5):
        plan = DEALT[method](epsilon)
        server = next(item.epsilon for item in plan.guarantees if item.observer.name == "server")
        assert server <= epsilon <= 8 and largest(plan) > server
        assert bits_of(plan) == (COARSE_BITS if largest(plan) <= 8 else FINE_BITS)
    assert largest(plan) > 8, "the second would be drawn coarsely by what was asked for"
    for epsilon in (1.0, 20.0):
        plan = DEALT[method](epsilon)
        for view, item in zip(plan.views, plan.guarantees, strict=True):
            off = float(itemise(view.event).total_variation) * (1 + math.exp(item.epsilon))
            assert 0 < off <= plan.delta


def test_training_by_gradients_is_planned_finely_and_costs_nobody_more() -> None:
    fine = slr(2.0)
    assert bits_of(fine) == FINE_BITS
    for finer, coarser in zip(fine.views, replace(fine, bits=COARSE_BITS).views, strict=True):
        assert account(finer.event, 1e-5).epsilon <= account(coarser.event, 1e-5).epsilon
    plan = messages(9.0)
    for view in plan.views:
        total = epsilon_of([(view.event, 100)], 1e-5)
        assert 200 < total < 650, "a budget of 1000 has some left, and the next run has a price"
    alone, both = messages(7.0), messages(7.0, widths=(2, 3, 2))
    assert largest(alone) < 8 < largest(both)
    assert {noise.bits for noise in alone.noise.values()} == {COARSE_BITS}
    assert {noise.bits for noise in both.noise.values()} == {FINE_BITS}


@pytest.mark.parametrize("epsilon", [7.9, 8.1])
def test_training_by_gradients_is_planned_on_either_side_of_eight(epsilon: float) -> None:
    plan = slr(epsilon, epochs=10, rate=0.1)
    assert bits_of(plan) == FINE_BITS and 50 < largest(plan) < 100


@pytest.mark.parametrize(
    ("epsilon", "epochs"),
    [
        pytest.param(0.5, 5, marks=pytest.mark.slow),
        pytest.param(1.0, 5, marks=pytest.mark.slow),
        pytest.param(2.0, 8, marks=pytest.mark.slow),
        pytest.param(4.0, 10, marks=pytest.mark.slow),
        (8.0, 20),
        pytest.param(16.0, 20, marks=pytest.mark.slow),
    ],
)
def test_the_schedule_of_the_paper_is_planned(epsilon: float, epochs: int) -> None:
    plan = slr(epsilon, epochs=epochs, rate=0.001, weight_cap=1.0)
    assert math.isfinite(largest(plan)) and largest(plan) > 20 * epsilon
    assert bits_of(plan) == (FINE_BITS if epsilon < 16 else FINEST_BITS)


def test_rows_that_are_sent_themselves_are_drawn_finely_too() -> None:
    group, columns = pair(), schemas(NAMES[:2])
    for epsilon, bits in ((1.0, COARSE_BITS), (60.0, FINE_BITS)):
        local = spec_of(LocalOptions, task="classification", epsilon=epsilon, delta=1e-5).plan(
            group, columns, 1000
        )
        once = spec_of(OneShotOptions, task="classification", epsilon=epsilon, delta=1e-5).plan(
            group, columns, 1000
        )
        assert local.noise.bits == once.noise("shop").bits == bits
        assert all(math.isfinite(item.epsilon) for item in (*local.guarantees, *once.guarantees))


def test_noise_that_cannot_be_drawn_finely_stays_where_everything_is_stated_and_else_says_why() -> None:
    plan = replace(moments(pair(), 7.0), bits=COARSE_BITS)
    assert 8 < largest(plan) < math.inf

    def finer(plan: MomentsPlan, bits: int) -> MomentsPlan:
        untyped(replace(plan, mu=Fraction(64), bits=bits).noise).part(2)
        raise AssertionError("parts of 64 sum to nothing that is known so finely")

    assert near_enough(plan, MomentsPlan.accounted, finer) is plan
    plan = moments(pair(), 30.0)
    coarse = replace(plan, bits=COARSE_BITS, mu=plan.mu / 10**4)

    def none(_: Any, bits: int) -> Any:
        raise PlanError("no table draws this")

    with pytest.raises(PlanError, match="no table draws this"):
        near_enough(coarse, MomentsPlan.accounted, none)
    assert near_enough(coarse, lambda _: (), none) is coarse


def test_a_distance_and_an_epsilon_that_are_no_doubles_have_a_product_that_is_one() -> None:
    def cost(bits: int, epsilon: float) -> Fraction:
        """ε of one draw on one number whose normal curve has about this ε."""
        event = Approximated(Gaussian(1, Fraction(1, round(math.sqrt(2 * epsilon)))), draws=1, bits=bits)
        return Fraction(account(event, 1e-5).epsilon)

    # e^ε·2^−bits against δ = 2^−16.6: 2^1000 is e^693.1, 2^2000 is e^1386.3.
    assert cost(FINE_BITS, 500) < 693 - 11
    with pytest.raises(PrivacyError, match="ε is too large"):
        cost(FINE_BITS, 600)
    assert 693 < cost(FINEST_BITS, 700) < cost(FINEST_BITS, 1000) < 1386 - 11
    with pytest.raises(PrivacyError, match="ε is too large"):
        cost(FINEST_BITS, 1300)


# How many people a plan can be for at its δ.


@pytest.mark.parametrize("rows", [1, 2, 10, 999, 1000, 1001, 5000])
@pytest.mark.parametrize("delta", [0.9, 0.5, 0.3, 1e-3, 3e-4, 1e-4, 1e-7])
def test_it_is_the_most_of_whom_delta_is_below_one_in_all(rows: int, delta: float) -> None:
    """δ below one over the number of people: one more of them, or another row, would have no plan."""
    exact = Fraction(str(delta))
    most = max((people for people in range(1, rows + 1) if people * exact < 1), default=1)
    assert most_people(rows, {"delta": delta, "accepted_delta": None}) == most


def test_a_delta_that_is_accepted_or_left_to_the_rule_bounds_nobody() -> None:
    assert most_people(5000, {"delta": 1e-3, "accepted_delta": 1e-3}) == 5000
    assert most_people(5000, {"delta": 1e-3, "accepted_delta": 1e-2}) == 999
    assert most_people(5000, {"delta": None, "accepted_delta": None}) == 5000
