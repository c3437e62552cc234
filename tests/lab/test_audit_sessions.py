"""Audits run the real protocols, each observer has what it really saw, and nothing is shown beyond what is proved."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from audit_jobs import wanted
from numpy.typing import NDArray
from training_specs import requested
from typed import there, untyped

from colonnade import Schema
from colonnade.errors import PlanError
from colonnade.lab import audited_descents
from colonnade.lab.attacks import Look
from colonnade.lab.audited_descents import expected_messages as expected
from colonnade.lab.audited_descents import margin_draws, messages_of
from colonnade.lab.audited_sums import local_experiments, local_row, noise_of, opened_vector, row_of
from colonnade.lab.experiments import (
    AuditSession,
    Experiment,
    RecordedRandomness,
    Sessions,
    Target,
    audit,
    carry_out,
)
from colonnade.lab.people import chosen, corner, together
from colonnade.lab.targets import AUDITED, target_of
from colonnade.methods.local.protocol import LocalOptions
from colonnade.methods.method import Method
from colonnade.methods.table import METHODS
from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise
from colonnade.randomness import SeededRandomness
from colonnade.runtime.party import Group
from colonnade.runtime.wire import Message

# Of a method whose audit takes seconds, one job in `make test`.
slow = partial(pytest.param, marks=pytest.mark.slow)
QUICK: list[Any] = [
    ("moments", {}),
    ("moments", {"conditional": True}),
    slow("moments", {"task": "regression", "parties": 3}),
    ("spca", {"task": "pca"}),
    ("functional", {}),
    ("functional", {"task": "regression", "noise": "laplace"}),
    ("local", {}),
    ("local", {"task": "pca"}),
    ("one-shot", {"parties": 3}),
    ("private-messages", {"epochs": 2, "batch": 30}),
    slow("private-messages", {"epochs": 2, "parties": 3, "task": "regression"}),
    ("slr", {"epochs": 1, "rate": 1.0}),
    slow("slr", {"epochs": 1, "rate": 0.5}),
    ("margin", {"steps": 2}),
    ("network", {"embedding": 4}),
    ("network", {"embedding": 4, "regime": "private-local", "epochs": 2, "held_out": 0.25}),
]


def sessions_of(target: Target, seed: int = 1) -> Sessions:
    return Sessions(target.program, target.group, target.schemas, seed=seed)


def session_of(target: Target, experiment: Experiment, *, record: bool = True) -> AuditSession:
    draws = np.array([record])
    return sessions_of(target).run(experiment.spec(draws), experiment.people(draws))


@pytest.mark.parametrize(("method", "options"), QUICK, ids=str)
def test_a_seeded_audit_shows_no_more_than_is_proved(method: str, options: dict[str, Any]) -> None:
    target = target_of(wanted(method, **options))
    found = audit(target, runs=8, seed=7)
    claimed = {claim.key for experiment in target.experiments for claim in experiment.claims}
    assert {(each.observer, each.unit) for each in found} == claimed
    for each in found:
        assert each.proved and not each.exceeded and 0 <= each.lower <= there(each.upper)


@pytest.mark.slow
@pytest.mark.parametrize("defence", ["sound", "paper"])
def test_encrypted_gradients_are_audited_through_the_encryption(defence: Any) -> None:
    found = audit(target_of(wanted("encrypted", defence=defence, epochs=2)), runs=8, seed=7)
    assert len(found) == 2
    assert all(each.proved is (defence == "sound") and not each.exceeded for each in found)


def test_every_method_with_a_protocol_is_audited() -> None:
    planned = {name for name, method in METHODS.items() if isinstance(method, Method)}
    assert planned == set(AUDITED)


@pytest.mark.parametrize(
    ("method", "options"),
    [("moments", {}), ("moments", {"conditional": True}), ("functional", {"task": "regression"})],
)
def test_what_was_opened_is_the_rows_and_the_noise_that_each_party_can_draw_again(
    method: str, options: dict[str, Any]
) -> None:
    """With everybody's own noise taken off nothing is left but the people's products, exactly."""
    target = target_of(wanted(method, **options))
    session = session_of(target, target.experiments[0])
    opened = opened_vector(session.plan, session.result("server"))
    noise = sum(noise_of(session.alone(dealer), session.plan) for dealer in session.plan.group.dealers)
    rows = row_of(session.plan, session.people)
    # Rows are rounded to the grid; a product of two entries then moves by less than the norm of the row.
    assert np.abs(opened - noise - rows).max() < 2 * session.plan.gamma
    assert np.abs(noise).max() > 10 * session.plan.gamma


def test_noise_does_not_depend_on_whether_a_record_is_there() -> None:
    for method in ("moments", "functional"):
        target = target_of(wanted(method))
        plans = [session_of(target, target.experiments[0], record=one).plan for one in (False, True)]
        assert [plan.rows for plan in plans] == [1, 2]
        assert plans[0].to_data()["views"] == plans[1].to_data()["views"]


def test_messages_are_the_expected_ones_and_noise() -> None:
    target = target_of(wanted("private-messages", epochs=10, epsilon=4.0))
    experiment = target.experiments[0]
    session = session_of(target, experiment)
    plan, others = session.plan, experiment.people(np.array([False]))
    for owner in plan.group.owners:
        here, elsewhere = (
            np.concatenate(expected(plan, session, owner, each)) for each in (session.people, others)
        )
        noise = np.concatenate(messages_of(plan, session, owner)) - here
        assert len(noise) == plan.rows * plan.options.epochs
        assert 0.6 < noise.std() / plan.sigma(owner) < 1.5
        assert owner == "bank" or not np.allclose(here, elsewhere)


def test_a_passive_party_makes_nothing_of_scores_that_it_never_saw() -> None:
    """Another passive party's messages may be anything: what this one shows stays the same."""
    target = target_of(wanted("private-messages", epochs=2, epsilon=4.0, parties=3))
    (experiment,) = (
        each
        for each in target.experiments
        if each.kind == "neighbours" and each.claims[0].observer == "party:shop"
    )
    session = session_of(target, experiment)

    class Elsewhere:
        """The same session, in which the store told the bank something else."""

        def __init__(self, unseen: str) -> None:
            self.unseen = unseen

        def __getattr__(self, name: str) -> Any:
            return getattr(session, name)

        def messages(self, member: str, step: str, *, sender: str | None = None) -> list[Message]:
            said = session.messages(member, step, sender=sender)
            if sender != self.unseen:
                return said
            return [replace(each, arrays={"values": each.arrays["values"] + (1 << 12)}) for each in said]

    seen = experiment.statistic(session, experiment.claims[0])
    assert experiment.statistic(untyped(Elsewhere("store")), experiment.claims[0]) == seen
    assert experiment.statistic(untyped(Elsewhere("shop")), experiment.claims[0]) != seen


@pytest.mark.parametrize("method", ["moments", "functional", "one-shot", "local"])
def test_an_audit_notices_noise_that_is_too_small_for_its_claim(method: str) -> None:
    """The power control: sessions with noise for ε = 16, held against a claim of 1/4."""
    target = target_of(wanted(method, epsilon=16.0))
    # Of sums a party sees most, which takes its own noise off; of perturbed rows the one that gets them all.
    experiment = target.experiments[-1 if method in ("moments", "functional") else 0]
    small = replace(experiment, claims=tuple(replace(claim, epsilon=0.25) for claim in experiment.claims))
    found = carry_out([small], sessions_of(target), runs=40)
    assert all(each.exceeded and each.lower > 0.25 for each in found)


def test_records_of_categories_alone_are_told_apart_as_far_as_a_row_is_from_zero() -> None:
    columns = "".join(f'columns.c{at} = {{kind = "binary", values = ["a", "b"]}}\n' for at in range(4))
    shop = 'id = "n"\n' + columns
    bank = shop.replace(".c", ".d") + 'label = {column = "y", kind = "classes", classes = ["no", "yes"]}'
    schemas = (Schema.parse(bank).public("bank"), Schema.parse(shop).public("shop"))
    spec = requested(LocalOptions, delta=1e-5)
    plan = spec.plan(Group.of(("bank", "shop"), active="bank"), schemas, 100)
    for experiment in local_experiments(plan, spec)[:2]:
        first, second = (local_row(plan, experiment.people(np.array([bit]))) for bit in (False, True))
        assert np.linalg.norm(second - first) > 0.5 * math.sqrt(plan.bound_of_all_but(None))


def test_noise_is_drawn_again_to_the_last_entry() -> None:
    recorded = RecordedRandomness(SeededRandomness("coins"))
    recorded.bytes(32)
    recorded.mark()
    noise = DiscreteGaussianNoise(Fraction(10**8))
    np.testing.assert_array_equal(noise.draw((400_000,), recorded), noise.draw((400_000,), recorded.again()))


def test_draws_of_the_noise_alone_show_more_and_not_too_much() -> None:
    target = target_of(wanted("moments", epsilon=8.0))
    target = replace(target, experiments=target.experiments[:1], drawn=target.drawn[:1])
    found = audit(target, runs=8, draws=400, seed=3)
    assert all(each.lower <= there(each.upper) for each in found)
    assert max(each.lower for each in found) > 0.1


def test_simulations_in_one_place_have_nobody_to_audit() -> None:
    with pytest.raises(PlanError, match="no observers to audit"):
        target_of(wanted("single-party"))
    with pytest.raises(PlanError, match="colonnade attack"):
        target_of(wanted("encrypted", defence="none"))


def test_people_are_at_the_ends_of_what_is_declared() -> None:
    schemas = wanted("moments").schemas
    low, high = corner(schemas, 0.0), corner(schemas, 1.0)
    assert low["bank"].columns["age"].tolist() == [18.0]
    assert high["shop"].columns["spent"][0] == pytest.approx(1000)
    assert high["bank"].columns["job"].tolist() == [2]
    both, apart = chosen(low, high, np.array([True, False])), together([high, low])
    assert (both["bank"].columns["age"] == apart["bank"].columns["age"]).all()


def test_draws_of_margins_noise_catch_half_of_its_scale() -> None:
    """The real noise stays below its claim; noise of half the scale shows more than is claimed."""
    wish = wanted("margin", epsilon=2.0, steps=1)
    plan = replace(wish.spec, alignment="equal").plan(wish.group, wish.schemas, 8)
    halved = replace(plan)
    halved.__dict__.update(guarantees=plan.guarantees, views=plan.views)
    halved.__dict__["noise"] = replace(plan.noise, sigma_squared=plan.noise.sigma_squared / 4)
    halved.__dict__["moments_noise"] = replace(
        plan.moments_noise, sigma_squared=plan.moments_noise.sigma_squared / 4
    )
    right, wrong = (margin_draws(each)[0].bound(60_000, SeededRandomness("draws")) for each in (plan, halved))
    assert 0.4 < right.epsilon < plan.guarantees[0].epsilon < wrong.epsilon


BATCHES, ROWS, DRAWS = 20, 5, 400


def scores(
    record: int, owner: str, monkeypatch: pytest.MonkeyPatch, drawn: np.random.Generator
) -> NDArray[np.float64]:
    """The statistic over runs in which the first record goes with the rest or against it, under noise as large."""
    agreed: Any = wanted("encrypted").plan(ROWS)
    holds = owner == agreed.active
    people = together([corner(agreed.schemas, place) for place in (0.0, 1.0, 0.0, 1.0, 1.0)])
    label = people["bank"].label
    assert label is not None and set(label.tolist()) == {0, 1}
    statistic = audited_descents._scores_statistic(agreed, owner)
    found = []
    for _ in range(DRAWS):
        looks = []
        for _ in range(BATCHES):
            # What the others' weights make of one and the same column, which differs from batch to batch.
            common = drawn.normal()
            if holds:
                others = np.full(ROWS, common)
                others[0] *= record
            else:
                others = np.full(ROWS, 0.2 * common)
                others[0] = -0.5 * record
            others = others + drawn.normal(size=ROWS)
            own = drawn.normal(size=ROWS)
            announced = others + own - (2.0 * (2.0 * label - 1.0) if holds else 0.0)
            looks.append(Look(0, np.arange(ROWS), announced, own, True))
        monkeypatch.setattr(
            audited_descents, "OwnerView", lambda *_, looks=looks: SimpleNamespace(looks=looks)
        )
        session: Any = SimpleNamespace(result=lambda _: SimpleNamespace(diary=None), people=people)
        claim: Any = None
        found.append(float(statistic(session, claim)[0]))
    return np.array(found)


@pytest.mark.parametrize("owner", ["bank", "shop"])
def test_scores_under_noise_as_large_as_what_is_looked_for_order_nearly_every_pair_of_runs(
    owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = np.random.default_rng(5)
    low, high = (scores(record, owner, monkeypatch, drawn) for record in (-1, 1))
    ordered = float(np.mean(low[:, None] > high[None, :]))
    assert max(ordered, 1 - ordered) > 0.99
