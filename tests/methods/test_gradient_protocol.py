"""Training by gradients against its ideal twin, its batches, and what the server can see of them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from gradient_tables import NAMES, ledgers_for, plan_for, run_plan, tables_of
from hypothesis import given, settings
from hypothesis import strategies as st
from ideals import ideal_gradient
from numpy.typing import NDArray
from typed import there, untyped

from colonnade.errors import BudgetExceeded, LocalProtocolError, RemoteProtocolError
from colonnade.methods.slr import plan as slr_plan
from colonnade.methods.slr import protocol
from colonnade.methods.slr.plan import GradientPlan, Optimiser, OptimiserName, SlrDescent
from colonnade.methods.slr.protocol import Batches, batch_rows, integer_rows, noisy_gradient
from colonnade.protocols.dealt_noise import DealtNoise
from colonnade.randomness import SeededRandomness, SystemRandomness
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import Outcome

KEY = bytes(range(32))
HALF: dict[str, Any] = {"gamma": 4096, "rounding": "nearest", "epochs": 1, "rate": 0.5, "weight_cap": 1}


class Silence:
    support = 0

    def part(self, parts: int) -> Silence:
        return self

    def draw(self, shape: tuple[int, int], randomness: SystemRandomness) -> NDArray[np.int64]:
        return np.zeros(shape, dtype=np.int64)


class Watched(SlrDescent):
    """A server that remembers where it stood and what it was shown."""

    def __init__(self, size: int, optimiser: Optimiser, *, cap: float, steps: int) -> None:
        super().__init__(size, optimiser, cap=cap, steps=steps)
        self.path: list[Any] = []
        self.gradients: list[Any] = []
        untyped(Watched).last = self

    def on_grid(self, gamma: int, norm_squared: int) -> NDArray[np.int64]:
        self.path.append(super().on_grid(gamma, norm_squared))
        result: NDArray[np.int64] = self.path[-1]
        return result

    def step(self, gradient: NDArray[np.float64]) -> None:
        self.gradients.append(gradient)
        super().step(gradient)


async def fixed_key(party: Party) -> bytes:
    return KEY


def watched(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(protocol, "SlrDescent", Watched)
    patch.setattr(protocol, "share_batch_key", fixed_key)


def joint_rows(outcome: Outcome, plan: GradientPlan) -> NDArray[np.object_]:
    """Everybody's integers in one place, the label last, as 0 or γ."""

    class Owner:
        randomness = SeededRandomness(0)

        def __init__(self, name: str) -> None:
            self.name = name

    parts, label = [], None
    for owner in plan.group.owners:
        mine = integer_rows(untyped(Owner(owner)), outcome.results[owner][1], plan).astype(object)
        parts.append(mine[:, : plan.widths[owner]])
        if owner == plan.label_holder:
            label = (mine[:, -1:] + plan.gamma) // 2  # dealt as −γ or γ
    return np.concatenate([*parts, label], axis=1)


@settings(max_examples=3, deadline=None)
@given(
    st.integers(2, 5),
    st.integers(20, 60),
    st.integers(0, 4),
    st.integers(0, 99),
    st.sampled_from([7, 10**6]),
)
def test_without_noise_every_step_is_the_ideal(
    count: int, rows: int, active: int, seed: int, block: int
) -> None:
    parties = NAMES[:count]
    holder = parties[active % count]
    tables = tables_of(parties, rows, active=holder, seed=seed)
    with pytest.MonkeyPatch.context() as patch:
        # The search for the least noise takes seconds, and none is drawn.
        patch.setattr(slr_plan, "_least_noise", lambda _plan: DealtNoise("gaussian", Fraction(4**40)))
        plan = plan_for(
            tables,
            Group.of(parties, active=holder),
            gamma=4096,
            rounding="nearest",
            epochs=1,
            rate=0.25,
            weight_cap=1,
        )
        plan.__dict__["noise"] = Silence()
        watched(patch)
        patch.setattr(type(plan), "block", property(lambda self: min(self.capacity, block)))
        outcome = run_plan(plan, tables)
    everybody, batches = joint_rows(outcome, plan), Batches(plan, KEY)
    scale = 4.0 * plan.gamma**3 * float(plan.rows * plan.schedule.rate)
    assert len(untyped(Watched).last.gradients) == plan.schedule.steps == 4
    for weights, seen in zip(untyped(Watched).last.path, untyped(Watched).last.gradients, strict=True):
        members = batch_rows(untyped(everybody), batches.next()).astype(object)
        ideal = ideal_gradient(members, weights.astype(object), plan.gamma)
        assert seen.tolist() == (ideal.astype(np.float64) / scale).tolist()
    assert all(outcome.results[name][0] is None for name in parties), "only the server trains"
    assert np.abs(untyped(Watched).last.path[-1]).sum() > 0, "the weights moved"


def test_what_is_opened_is_the_ideal_plus_every_owners_noise() -> None:
    tables = tables_of(("bank", "insurer", "shop"), 60)
    plan = plan_for(tables, **HALF)
    drawn = []
    noise = plan.noise

    class Witnessed(Silence):
        support = noise.support

        def draw(self, shape: Any, randomness: Any) -> Any:
            drawn.append(noise.part(plan.group.whole).draw(shape, randomness))
            return drawn[-1]

    plan.__dict__["noise"] = Witnessed()
    with pytest.MonkeyPatch.context() as patch:
        watched(patch)
        outcome = run_plan(plan, tables)
    everybody, batches = joint_rows(outcome, plan), Batches(plan, KEY)
    assert len(drawn) == 3 * plan.schedule.steps
    scale = 4.0 * plan.gamma**3 * float(plan.rows * plan.schedule.rate)
    for step, (weights, seen) in enumerate(
        zip(untyped(Watched).last.path, untyped(Watched).last.gradients, strict=True)
    ):
        members = batch_rows(untyped(everybody), batches.next()).astype(object)
        ideal = ideal_gradient(members, weights.astype(object), plan.gamma)
        whole = ideal + sum(part[0].astype(object) for part in drawn[3 * step : 3 * step + 3])
        assert seen.tolist() == (whole.astype(np.float64) / scale).tolist()


def test_keepers_that_own_nothing_can_keep_the_shares() -> None:
    tables = tables_of(("bank", "insurer"), 50)
    group = Group.of(("bank", "insurer"), active="bank", computing_parties=("one", "two", "three"))
    plan = plan_for(tables, group, rate=1.0)
    weights = run_plan(plan, tables).results["server"][0]
    assert weights.shape == (plan.size,)


# --- batches


def shape_of(outcome: Any, member: str) -> Any:
    return [(seen.sender, seen.step, len(seen.frame)) for seen in outcome.seen[member]]


@pytest.mark.parametrize("computing_parties", [None, ("one", "two", "three")])
def test_a_server_or_keeper_sees_neither_members_nor_size_of_a_batch(
    computing_parties: tuple[str, str, str] | None,
) -> None:
    """Two runs on other people with other batches: every frame that comes in has the same step and length."""
    shapes, sizes = [], []
    group = Group.of(("bank", "insurer"), active="bank", computing_parties=computing_parties)
    for seed in (1, 2):
        tables = tables_of(("bank", "insurer"), 120, seed=seed)
        plan = plan_for(tables, group, epochs=1.5, rate=0.25)
        key = bytes([seed]) * 32
        with pytest.MonkeyPatch.context() as patch:

            async def keyed(party: Party, key: Any = key) -> Any:
                return key

            patch.setattr(protocol, "share_batch_key", keyed)
            outcome = run_plan(plan, tables, record=True)
        spectators = [member for member in group.members if member not in group.owners]
        shapes.append({member: shape_of(outcome, member) for member in spectators})
        batches = Batches(plan, key)
        sizes.append([int((batches.next() >= 0).sum()) for _ in range(plan.schedule.steps)])
    assert shapes[0] == shapes[1]
    assert sizes[0] != sizes[1], "unpadded batches would have shown"


def test_the_key_of_the_batches_goes_to_owners_only() -> None:
    tables = tables_of(("bank", "insurer", "shop"), 60)
    outcome = run_plan(plan_for(tables, **HALF), tables, record=True)
    heard = {
        member: {seen.sender for seen in there(seen_by) if seen.step == "batch key"}
        for member, seen_by in outcome.seen.items()
    }
    assert heard["server"] == set() and heard["bank"] == {"insurer", "shop"}


def limited(**shape: Any) -> Any:
    return plan_for(tables_of(("bank", "insurer"), 400), epochs=20, rate=0.1, **shape)


def test_every_owner_with_the_key_makes_the_same_batches() -> None:
    plan = limited()
    first, second = Batches(plan, KEY), Batches(plan, KEY)
    for _ in range(5):
        assert first.next().tolist() == second.next().tolist()
    assert Batches(plan, bytes(32)).next().tolist() != Batches(plan, KEY).next().tolist()


def test_batches_hold_the_rate_and_every_member_once() -> None:
    """8,000 coins at rate 1/10: the count is within 6.2 standard deviations (false alarm below 1e-9)."""
    plan = limited()
    batches, drawn = Batches(plan, KEY), 0
    for _ in range(20):
        places = batches.next()
        members = places[places >= 0]
        assert len(places) == plan.capacity and len(set(members.tolist())) == len(members)
        drawn += len(members)
    assert abs(drawn - 800) < 6.2 * np.sqrt(8000 * 0.1 * 0.9)
    assert abs(drawn - 1.5 * 800) > 6.2 * np.sqrt(8000 * 0.1 * 0.9), "a rate half as large again would show"


def test_members_stand_in_random_places() -> None:
    plan = limited()
    places = Batches(plan, KEY).next()
    there = np.flatnonzero(places >= 0)
    assert not np.array_equal(there, np.arange(len(there)))
    assert places[there].tolist() != sorted(places[there].tolist())


def test_limits_are_kept_even_where_they_bite() -> None:
    plan = limited()
    plan.__dict__.update(capacity=40, uses=25)
    batches, uses, full = Batches(plan, KEY), np.zeros(plan.rows, dtype=int), 0
    for _ in range(plan.schedule.steps):
        places = batches.next()
        assert len(places) == plan.capacity
        members = places[places >= 0]
        uses[members] += 1
        full += len(members) == plan.capacity
    assert uses.max() == 25 and full, "both limits were met in this run"


def test_full_batches_hold_everybody() -> None:
    plan = plan_for(tables_of(("bank", "insurer"), 30), epochs=3, rate=1.0)
    batches = Batches(plan, KEY)
    for _ in range(3):
        assert sorted(batches.next().tolist()) == list(range(30))


# --- refusals


def test_weights_longer_than_the_plan_allows_are_refused() -> None:
    tables = tables_of(("bank", "insurer"), 40)
    plan = plan_for(tables)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SlrDescent, "on_grid", lambda self, gamma, bound: np.full(plan.size, 10 * gamma))
        with pytest.raises(RemoteProtocolError, match="longer than the plan allows"):
            run_plan(plan, tables)


def test_a_refused_run_leaves_no_batch_on_the_wire() -> None:
    tables = tables_of(("bank", "insurer"), 40)
    plan = plan_for(tables)
    ledgers = ledgers_for(plan.group) | {"bank": ledgers_for(plan.group, epsilon=0.5)["bank"]}
    recorded = []
    original = noisy_gradient.__globals__["share_batch_key"]

    async def noting(party: Party) -> Any:
        recorded.append(party.name)
        return await original(party)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocol, "share_batch_key", noting)
        with pytest.raises(BudgetExceeded, match="bank"):
            run_plan(plan, tables, ledgers=ledgers)
    assert recorded == []
    assert [entry.kind for entry in ledgers["bank"].entries()] == ["opened", "budget", "compared"]


def test_all_steps_are_one_charge() -> None:
    tables = tables_of(("bank", "insurer"), 40)
    plan = plan_for(tables)
    ledgers = ledgers_for(plan.group)
    run_plan(plan, tables, ledgers=ledgers)
    assert [entry.kind for entry in ledgers["bank"].entries()].count("charge") == 1


def test_rows_that_were_not_aligned_are_refused() -> None:
    plan = plan_for(tables_of(("bank", "insurer"), 40))

    class Owner:
        name, randomness = "bank", SeededRandomness(0)

    with pytest.raises(LocalProtocolError, match="should bring 40 aligned rows, brought none"):
        integer_rows(untyped(Owner()), None, plan)


# --- the server's side


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam"])
def test_every_optimiser_finds_the_minimum_of_a_bowl(name: OptimiserName) -> None:
    target = np.array([0.6, -0.3, 0.1])
    rate = 0.05 if name == "adam" else 0.5
    descent = SlrDescent(3, Optimiser(name, learning_rate=rate), cap=2.0, steps=400)
    for _ in range(400):
        descent.step(descent.weights - target)
    np.testing.assert_allclose(descent.model, target, atol=0.02)


def test_weights_stay_in_their_ball_and_on_the_grid_inside_it() -> None:
    descent = SlrDescent(2, Optimiser("sgd", learning_rate=10.0, average=0.0), cap=1.0, steps=1)
    descent.step(np.array([-3.0, 4.0]))
    np.testing.assert_allclose(descent.model, [0.6, -0.8])
    assert (descent.on_grid(1000, 10**6) ** 2).sum() <= 10**6
    assert (descent.on_grid(1000, 10**6 - 5000) ** 2).sum() <= 10**6 - 5000


def test_the_average_takes_noise_out() -> None:
    rng = np.random.default_rng(5)
    last, mean = (
        SlrDescent(1, Optimiser("sgd", 0.2, average), cap=10.0, steps=2000) for average in (0.0, 0.5)
    )
    for noise in rng.normal(size=2000):
        for descent in (last, mean):
            descent.step(descent.weights - 1.0 + noise)
    assert abs(mean.model[0] - 1.0) < 0.15
    assert last.model.tolist() == last.weights.tolist()


def test_plans_that_differ_in_the_schedule_differ_in_their_hash() -> None:
    plan = plan_for(tables_of(("bank", "insurer"), 40))
    other = replace(plan, schedule=replace(plan.schedule, weight_cap=Fraction(5)))
    assert plan.hash != other.hash
