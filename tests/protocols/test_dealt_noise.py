"""Who deals noise, how many parts make a whole, which law is taken, how near it is drawn, and what is said of it."""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from gradient_tables import plan_for, tables_of
from margin_runs import margin_plan
from messages_samples import request, tables
from training_specs import planned_on, requested
from training_specs import requested as spec_of
from typed import untyped

from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import ClassLabel
from colonnade.data.schema import PublicSchema
from colonnade.errors import FieldTooSmall, GroupMismatch, NoNoiseFits, PlanError, PrivacyError
from colonnade.ledger import Ledger
from colonnade.ledger.bounds import Account, bound, epsilon_of
from colonnade.methods.functional.plan import FunctionalOptions, FunctionalPlan
from colonnade.methods.local.protocol import LocalOptions
from colonnade.methods.messages.plan import PrivateMessagesPlan
from colonnade.methods.moments.plan import MomentsOptions, MomentsPlan
from colonnade.methods.one_shot.protocol import OneShotOptions
from colonnade.methods.slr.plan import GradientPlan
from colonnade.numbers.field import FIELD63
from colonnade.privacy.events import (
    COARSE_BITS,
    FINE_BITS,
    FINEST_BITS,
    Approximated,
    DiscreteGaussian,
    Gaussian,
    MatrixChange,
    itemise,
)
from colonnade.privacy.guarantee import account
from colonnade.privacy.renyi import gaussian_mu
from colonnade.privacy.sensitivity.matrix import VectorChange
from colonnade.protocols.dealt_noise import DealtNoise, least_noise, near_enough
from colonnade.protocols.evaluation import EvaluationSpec
from colonnade.protocols.plans import Plan
from colonnade.protocols.session import most_people
from colonnade.runtime.party import Group

NAMES = ("bank", "shop", "clinic", "tax")


def schemas(owners: tuple[str, ...]) -> tuple[PublicSchema, ...]:
    label = ClassLabel("label", classes=("no", "yes"))
    return tuple(
        PublicSchema(
            name,
            tuple(NumericColumn(f"{name}.{place}", low=-1, high=1) for place in range(4)),
            label if name == owners[0] else None,
        )
        for name in owners
    )


def moments(group: Group, epsilon: float = 1.0) -> MomentsPlan:
    made: MomentsPlan = requested(MomentsOptions, task="classification", epsilon=epsilon, delta=1e-5).plan(
        group, schemas(group.owners), 10_000
    )
    return made


def pair(**more: Any) -> Group:
    return Group.of(NAMES[:2], active="bank", **more)


def said(plan: MomentsPlan, observer: str) -> str:
    return next(str(item) for item in plan.guarantees if item.observer.name == observer)


@pytest.mark.parametrize(
    ("group", "dealers", "whole"),
    [
        (pair(), ("bank", "shop", "server"), 2),
        (pair(disclosed_noise=1), ("bank", "shop", "server"), 2),
        (pair(disclosed_noise=0), ("bank", "shop"), 2),
        (Group.of(NAMES[:3]), NAMES[:3], 2),
        (Group.of(NAMES[:3], disclosed_noise=0), NAMES[:3], 3),
        (Group.of(NAMES, computing_parties=("server", "bank", "shop")), (*NAMES, "server"), 4),
        (Group.of(NAMES, threshold=2), (*NAMES, "server"), 3),
        (Group.of(NAMES, threshold=2, disclosed_noise=1), (*NAMES, "server"), 4),
        (Group.pair("bank", "shop"), ("bank", "shop"), 1),
    ],
)
def test_who_deals_and_how_many_parts_are_a_whole(group: Group, dealers: tuple[str, ...], whole: int) -> None:
    assert (group.dealers, group.whole) == (dealers, whole)


@pytest.mark.parametrize("wrong", [-1, 2])
def test_more_disclosed_noise_than_may_collude_is_refused(wrong: int) -> None:
    with pytest.raises(GroupMismatch, match=f"disclosed_noise = {wrong}"):
        pair(disclosed_noise=wrong)


@pytest.mark.parametrize(("disclosed", "most"), [(None, 1.225), (0, 1.0001)])
def test_two_owners_and_a_server_add_a_quarter_to_central_noise_at_most(
    disclosed: int | None, most: float
) -> None:
    plan = moments(pair() if disclosed is None else pair(disclosed_noise=disclosed))
    central = float(plan.zeroed_change.frobenius) / gaussian_mu(1.0, 1e-5)
    assert most - 0.001 < math.sqrt(2 * plan.total_mu) / central <= most <= 1.25


def test_every_observer_is_told_what_its_epsilon_rests_on_also_where_nobody_tells() -> None:
    plan = moments(pair())
    announced = account(plan.zeroed(2), plan.delta).epsilon
    assert 1.4 < announced < 1.5
    assert (
        f"no owner discloses its noise to it (if one does, ε = {math.ceil(announced * 100) / 100:.2f})"
        in said(plan, "server")
    )
    assert "at most one member discloses its noise and its shares or deviates" in said(plan, "reader")
    assert "if one does" not in said(plan, "reader") + said(plan, "party:bank")
    usual, trusting = moments(pair()), moments(pair(disclosed_noise=0))
    assert trusting.total_mu < usual.total_mu * Fraction(67, 100)
    for observer in ("server", "reader"):
        assert "no owner discloses its noise" in said(trusting, observer)
        assert "if one does, ε = 1.4" in said(trusting, observer)
    spent = {item.observer.name: item.epsilon for item in trusting.guarantees}
    for item in usual.guarantees[2:]:
        assert spent[item.observer.name] > item.epsilon, "its own part is half of the noise"


def test_the_server_s_account_knows_its_own_part_and_is_charged_for_it(tmp_path: object) -> None:
    plan = moments(pair())
    release = plan.release("bank", run="r", reproducible=False)
    assert release.noise_from == ("server",)
    whole, replaced = plan.zeroed(1), plan.all_replaced(1)
    assert bound(release, Account("d", "record", "server"), 1e-5).events == (whole,)
    for unit in ("record-replaced", "own-part:bank", "others-part"):
        assert bound(release, Account("d", unit, "server"), 1e-5).events == (replaced,)
    # A stranger adds nothing to the server; an owner and the server hold two shares.
    assert bound(release, Account("d", "record", "coalition:server+tax"), 1e-5).events == (whole,)
    assert bound(release, Account("d", "record", "coalition:server+shop"), 1e-5).unbounded
    assert bound(release, Account("d", "own-part:bank", "party:shop"), 1e-5).events
    plan = moments(pair())
    ledger = Ledger.in_memory("bank")
    ledger.set_budget("people", "*", "*", epsilon=5.0, delta=1e-5)
    ledger.charge(plan.release("bank", run="r", reproducible=False), "people")
    totals = {(total.observer, total.unit): total.epsilon for total in ledger.totals()}
    assert totals["server", "record"] <= 1.0 < totals["server", "record-replaced"]


def test_the_server_counts_among_those_who_know_parts_together() -> None:
    """Four owners, two of whom keep no share: with the server they hold one share and three parts of five."""
    group = Group.of(NAMES, active="bank", computing_parties=("server", "bank", "shop"))
    plan = moments(group)
    release = plan.release("bank", run="r", reproducible=False)
    together = Account("d", "others-part", "coalition:clinic+server+tax")
    (event,) = bound(release, together, 1e-5).events
    assert event == plan.all_replaced(3)
    (fewer,) = bound(release, Account("d", "others-part", "coalition:clinic+tax"), 1e-5).events
    assert account(fewer, 1e-5).epsilon <= account(event, 1e-5).epsilon


def test_the_smaller_noise_is_taken() -> None:
    group = pair()

    def least(sensitivity: int, entries: int, **more: Any) -> DealtNoise:
        change = VectorChange(sensitivity, sensitivity)
        return least_noise(
            lambda noise: noise.vector_event(change, group, entries=entries),
            epsilon=more.get("epsilon", 1.0),
            delta=1e-5,
            drawn=lambda noise: noise.vector.part(group.whole),
        )

    assert least(1000, 10).law == "gaussian"
    assert least(1, 10).law == "gaussian"
    skellam = least(1, 10, epsilon=4.0)
    assert skellam.law == "skellam", "parts of so little variance do not sum"
    matrix = skellam.matrix_event(MatrixChange(2, 4, 6, 6), group, size=3, known=0)
    assert untyped(matrix).draws == 3 * 6, "three dealers, six different entries"
    with pytest.raises(PlanError, match="do not sum to a discrete Gaussian"):
        least_noise(
            lambda noise: noise.vector_event(VectorChange(1, 1), group, entries=4),
            epsilon=4.0,
            delta=1e-5,
            drawn=lambda noise: noise.vector.part(group.whole),
            distributions=("gaussian",),
        )
    with pytest.raises(NoNoiseFits):
        least_noise(
            lambda noise: noise.vector_event(VectorChange(1, 1), group, entries=10**30),
            epsilon=1.0,
            delta=1e-5,
            drawn=lambda noise: None,
        )
    with pytest.raises(PlanError, match="no law"):
        least_noise(lambda _: DiscreteGaussian(1, 1), epsilon=1.0, delta=0.1, drawn=bool, distributions=())


@pytest.mark.parametrize(("epsilon", "bits"), [(30.0, FINE_BITS), (100.0, FINE_BITS), (600.0, FINEST_BITS)])
def test_at_a_large_epsilon_every_observer_has_one(epsilon: float, bits: int) -> None:
    plan = moments(pair(), epsilon)
    assert untyped(plan.noise).bits == bits
    assert all(math.isfinite(item.epsilon) for item in plan.guarantees)
    assert plan.guarantees[0].epsilon <= epsilon < plan.guarantees[2].epsilon


def test_laplace_noise_stays_the_owners_and_past_fine_draws_a_true_sentence_says_so() -> None:
    for group in (pair(), pair(disclosed_noise=0)):
        plan = requested(
            FunctionalOptions, task="classification", epsilon=1.0, delta=1e-5, noise="laplace"
        ).plan(group, schemas(group.owners), 10_000)
        (noise,) = plan.noises
        assert noise.dealers(group) == group.owners and plan.delta == 0
        assert noise.variance(group) == 2 * noise.variance(Group.pair("bank", "shop")) / 2
        with pytest.raises(PlanError, match="a law of their own"):
            _ = noise.dealt
    with pytest.raises(PlanError, match="Ask for a smaller ε"):
        moments(pair(), 1300.0)


# How near their law noise is drawn: as near as the largest ε of any observer asks for, and paid by each of them.


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


def messages(epsilon: float, widths: tuple[int, ...] = (2, 3)) -> PrivateMessagesPlan:
    made = tables(4, loss="logistic", widths=widths)
    plan: PrivateMessagesPlan = planned_on(request("logistic", epsilon=epsilon, delta=1e-5), made, 200)
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
    # At the second ε what was asked for alone would be drawn coarsely.
    for epsilon in (0.5, 6.5):
        plan = DEALT[method](epsilon)
        server = next(item.epsilon for item in plan.guarantees if item.observer.name == "server")
        assert server <= epsilon <= 8 and largest(plan) > server
        assert bits_of(plan) == (COARSE_BITS if largest(plan) <= 8 else FINE_BITS)
        for view, item in zip(plan.views, plan.guarantees, strict=True):
            off = float(itemise(view.event).total_variation) * (1 + math.exp(item.epsilon))
            assert 0 < off <= plan.delta
    assert largest(plan) > 8


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


@pytest.mark.parametrize(
    ("epsilon", "epochs"),
    [
        pytest.param(0.5, 5, marks=pytest.mark.slow),
        pytest.param(1.0, 5, marks=pytest.mark.slow),
        pytest.param(4.0, 10, marks=pytest.mark.slow),
        pytest.param(2.0, 8, marks=pytest.mark.slow),
        (8.0, 20),
        pytest.param(16.0, 20, marks=pytest.mark.slow),
    ],
)
def test_the_schedule_of_the_paper_is_planned(epsilon: float, epochs: int) -> None:
    plan = slr(epsilon, epochs=epochs, rate=0.001, weight_cap=1.0)
    assert math.isfinite(largest(plan)) and largest(plan) > 20 * epsilon
    assert bits_of(plan) == (FINE_BITS if epsilon < 16 else FINEST_BITS)


def test_default_options_are_planned_at_eight() -> None:
    plan = slr(8.0, epochs=10, rate=0.1)
    assert bits_of(plan) == FINE_BITS and 50 < largest(plan) < 100


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
        # The first number of people whose moments could wrap around, by the largest entry after rounding and noise.
        many = (FIELD63.capacity // (local.gamma + 1 + local.noise.support) ** 2) + 1
        with pytest.raises(FieldTooSmall):
            replace(local, rows=many).check_drawable()
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
