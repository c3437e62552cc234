"""Who deals noise, how many parts make a whole, what is said of it, and which law is taken."""

import math
from fractions import Fraction
from typing import Any

import pytest
from training_specs import requested
from typed import untyped

from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import ClassLabel
from colonnade.data.schema import PublicSchema
from colonnade.errors import GroupMismatch, NoNoiseFits, PlanError
from colonnade.ledger import Ledger
from colonnade.ledger.bounds import Account, bound
from colonnade.methods.functional.plan import FunctionalOptions
from colonnade.methods.moments.plan import MomentsOptions, MomentsPlan
from colonnade.noise.mechanism import VectorChange
from colonnade.privacy.events import FINE_BITS, FINEST_BITS, DiscreteGaussian
from colonnade.privacy.guarantee import account
from colonnade.privacy.renyi import gaussian_sigma
from colonnade.protocols.dealt_noise import DealtNoise, least_noise
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
    central = float(plan.zeroed_change.frobenius) * gaussian_sigma(1.0, 1e-5)
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
    assert least(1, 10, epsilon=4.0).law == "skellam", "parts of so little variance do not sum"
    with pytest.raises(PlanError, match="do not sum to a discrete Gaussian"):
        least_noise(
            lambda noise: noise.vector_event(VectorChange(1, 1), group, entries=4),
            epsilon=4.0,
            delta=1e-5,
            drawn=lambda noise: noise.vector.part(group.whole),
            laws=("gaussian",),
        )
    with pytest.raises(NoNoiseFits):
        least_noise(
            lambda noise: noise.vector_event(VectorChange(1, 1), group, entries=10**30),
            epsilon=1.0,
            delta=1e-5,
            drawn=lambda noise: None,
        )
    with pytest.raises(PlanError, match="no law"):
        least_noise(lambda noise: DiscreteGaussian(1, 1), epsilon=1.0, delta=0.1, drawn=bool, laws=())


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
