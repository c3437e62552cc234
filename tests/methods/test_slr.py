"""Training by noisy gradients: its ideal twin, its batches and what a server sees of them, plans, and models."""

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gradient_tables import NAMES, people, plan_for, run_plan, tables_of
from hypothesis import given, settings
from hypothesis import strategies as st
from ideals import ideal_gradient
from margin_runs import Silence
from numpy.typing import NDArray
from training_specs import planned_on
from training_specs import requested as spec_of
from typed import there, untyped

from colonnade import Federation, LogisticRegression, Table
from colonnade.crypto.product_proof import MOST_ROWS
from colonnade.crypto.row_proofs import RowClaims
from colonnade.errors import LocalProtocolError, PlanError, RemoteProtocolError
from colonnade.methods.slr import plan as slr_plan
from colonnade.methods.slr import protocol
from colonnade.methods.slr.method import as_log_odds, descend_in_three
from colonnade.methods.slr.plan import GradientPlan, Optimiser, OptimiserName, SlrDescent, SlrOptions
from colonnade.methods.slr.protocol import Batches, batch_rows, integer_rows
from colonnade.methods.table import METHODS, train_with
from colonnade.numbers.field import smallest_field
from colonnade.privacy.calibrate import as_draws
from colonnade.privacy.events import Approximated, DiscreteGaussian, Repeated, contains_sampling, itemise
from colonnade.privacy.guarantee import View, account
from colonnade.privacy.observers import REPLACE
from colonnade.privacy.sensitivity.gradient import fused_zero_out
from colonnade.protocols.dealt_noise import DealtNoise
from colonnade.protocols.plans import TrainingSpec
from colonnade.randomness import SeededRandomness
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import Outcome

KEY = bytes(range(32))
HALF: dict[str, Any] = {"gamma": 4096, "rounding": "nearest", "epochs": 1, "rate": 0.5, "weight_cap": 1}


class Watched(SlrDescent):
    """A server that remembers where it stood and what it was shown."""

    def __init__(self, size: int, optimiser: Optimiser, *, cap: float, steps: int) -> None:
        super().__init__(size, optimiser, cap=cap, steps=steps)
        self.path: list[Any] = []
        self.gradients: list[Any] = []
        untyped(Watched).last = self

    def on_grid(self, gamma: int, norm_squared: int) -> Any:
        self.path.append(super().on_grid(gamma, norm_squared))
        return self.path[-1]

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
    parts, label = [], None
    for owner in plan.group.owners:
        party = SimpleNamespace(name=owner, randomness=SeededRandomness(0))
        mine = integer_rows(untyped(party), outcome.results[owner][1], plan).astype(object)
        parts.append(mine[:, : plan.widths[owner]])
        if owner == plan.label_holder:
            label = (mine[:, -1:] + plan.gamma) // 2  # dealt as −γ or γ
    return np.concatenate([*parts, label], axis=1)


def rough_plan(tables: list[Table], group: Group | None = None, **shape: Any) -> GradientPlan:
    """With more noise than is needed: the search for the least takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slr_plan, "_least_noise", lambda _plan: DealtNoise("gaussian", Fraction(4**40)))
        return plan_for(tables, group, **shape)


@settings(max_examples=3, deadline=None)
@given(st.integers(2, 5), st.integers(20, 60), st.integers(0, 4), st.sampled_from([7, 10**6]))
def test_without_noise_every_step_is_the_ideal(count: int, rows: int, active: int, block: int) -> None:
    parties = NAMES[:count]
    holder = parties[active % count]
    tables = tables_of(parties, rows, active=holder, seed=rows)
    plan = rough_plan(tables, Group.of(parties, active=holder), **HALF | {"rate": 0.25})
    plan.__dict__["noise"] = Silence()
    with pytest.MonkeyPatch.context() as patch:
        watched(patch)
        patch.setattr(type(plan), "block", property(lambda self: min(self.capacity, block)))
        outcome = run_plan(plan, tables)
    assert plan.schedule.steps == 4
    compare_steps(outcome, plan, [])
    assert all(outcome.results[name][0] is None for name in parties), "only the server trains"
    assert np.abs(untyped(Watched).last.path[-1]).sum() > 0, "the weights moved"


def compare_steps(outcome: Outcome, plan: GradientPlan, drawn: list[Any]) -> None:
    """Every gradient that the server saw is the ideal one with the owners' noise, drawn in turn."""
    everybody, batches = joint_rows(outcome, plan), Batches(plan, KEY)
    scale, seen = 4.0 * plan.gamma**3 * float(plan.rows * plan.schedule.rate), untyped(Watched).last
    assert len(seen.gradients) == len(seen.path) == plan.schedule.steps
    for step, (weights, gradient) in enumerate(zip(seen.path, seen.gradients, strict=True)):
        members = batch_rows(untyped(everybody), batches.next()).astype(object)
        ideal = ideal_gradient(members, weights.astype(object), plan.gamma)
        whole = ideal + sum(part[0].astype(object) for part in drawn[3 * step : 3 * step + 3])
        assert gradient.tolist() == (whole.astype(np.float64) / scale).tolist()


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
    assert len(drawn) == 3 * plan.schedule.steps
    compare_steps(outcome, plan, drawn)


def test_keepers_may_own_nothing_and_the_key_of_batches_goes_to_owners_only() -> None:
    tables = tables_of(("bank", "insurer"), 50)
    group = Group.of(("bank", "insurer"), active="bank", computing_parties=("one", "two", "three"))
    plan = rough_plan(tables, group, rate=1.0)
    weights = run_plan(plan, tables).results["server"][0]
    assert weights.shape == (plan.size,)
    tables = tables_of(("bank", "insurer", "shop"), 60)
    outcome = run_plan(rough_plan(tables, **HALF), tables, record=True)
    heard = {
        member: {seen.sender for seen in there(seen_by) if seen.step == "batch key"}
        for member, seen_by in outcome.seen.items()
    }
    assert heard["server"] == set() and heard["bank"] == {"insurer", "shop"}


def shape_of(outcome: Any, member: str) -> Any:
    return [(seen.sender, seen.step, len(seen.frame)) for seen in outcome.seen[member]]


@pytest.mark.parametrize("computing_parties", [None, ("one", "two", "three")])
def test_a_server_or_keeper_sees_neither_members_nor_size_of_a_batch(computing_parties: Any) -> None:
    """Two runs on other people with other batches: every frame that comes in has the same step and length."""
    shapes, sizes = [], []
    group = Group.of(("bank", "insurer"), active="bank", computing_parties=computing_parties)
    for seed in (1, 2):
        tables = tables_of(("bank", "insurer"), 120, seed=seed)
        plan = rough_plan(tables, group, epochs=1.5, rate=0.25)
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


def limited(**shape: Any) -> Any:
    return rough_plan(tables_of(("bank", "insurer"), 400), epochs=20, rate=0.1, **shape)


def test_every_owner_with_the_key_makes_the_same_batches_with_members_in_random_places() -> None:
    plan = limited()
    first, second = Batches(plan, KEY), Batches(plan, KEY)
    for _ in range(5):
        assert first.next().tolist() == second.next().tolist()
    places = Batches(plan, KEY).next()
    assert Batches(plan, bytes(32)).next().tolist() != places.tolist()
    there = np.flatnonzero(places >= 0)
    assert not np.array_equal(there, np.arange(len(there)))
    assert places[there].tolist() != sorted(places[there].tolist())


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


def test_batches_keep_their_limits_and_full_ones_hold_everybody() -> None:
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
    plan = rough_plan(tables_of(("bank", "insurer"), 30), epochs=3, rate=1.0)
    batches = Batches(plan, KEY)
    for _ in range(3):
        assert sorted(batches.next().tolist()) == list(range(30))


def test_weights_longer_than_the_plan_allows_and_rows_that_were_not_aligned_are_refused() -> None:
    tables = tables_of(("bank", "insurer"), 40)
    plan = rough_plan(tables)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SlrDescent, "on_grid", lambda self, gamma, bound: np.full(plan.size, 10 * gamma))
        with pytest.raises(RemoteProtocolError, match="longer than the plan allows"):
            run_plan(plan, tables)
    owner = SimpleNamespace(name="bank", randomness=SeededRandomness(0))
    with pytest.raises(LocalProtocolError, match="should bring 40 aligned rows, brought none"):
        integer_rows(untyped(owner), None, plan)
    other = replace(plan, schedule=replace(plan.schedule, weight_cap=Fraction(5)))
    assert plan.hash != other.hash


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam"])
def test_every_optimiser_finds_the_minimum_of_a_bowl(name: OptimiserName) -> None:
    target = np.array([0.6, -0.3, 0.1])
    rate = 0.05 if name == "adam" else 0.5
    descent = SlrDescent(3, Optimiser(name, learning_rate=rate), cap=2.0, steps=400)
    for _ in range(400):
        descent.step(descent.weights - target)
    np.testing.assert_allclose(descent.model, target, atol=0.02)


def test_the_average_takes_noise_out_and_weights_stay_in_their_ball() -> None:
    rng = np.random.default_rng(5)
    last, mean = (
        SlrDescent(1, Optimiser("sgd", 0.2, average), cap=10.0, steps=2000) for average in (0.0, 0.5)
    )
    for noise in rng.normal(size=2000):
        for descent in (last, mean):
            descent.step(descent.weights - 1.0 + noise)
    assert abs(mean.model[0] - 1.0) < 0.15
    assert last.model.tolist() == last.weights.tolist()
    descent = SlrDescent(2, Optimiser("sgd", learning_rate=10.0, average=0.0), cap=1.0, steps=1)
    descent.step(np.array([-3.0, 4.0]))
    np.testing.assert_allclose(descent.model, [0.6, -0.8])
    assert (descent.on_grid(1000, 10**6) ** 2).sum() <= 10**6
    assert (descent.on_grid(1000, 10**6 - 5000) ** 2).sum() <= 10**6 - 5000


# Plans of training by gradients: what they promise, what they cost, what they refuse.


@pytest.fixture(scope="module")
def plan() -> GradientPlan:
    return plan_for(tables_of(("bank", "insurer"), 2000), epochs=4, rate=0.2)


def view(plan: GradientPlan, name: str) -> View:
    return next(view for view in plan.views if view.observer.name == name)


def test_the_server_and_readers_get_their_epsilon_and_less_noise_would_miss_it(plan: GradientPlan) -> None:
    for name in ("server", "reader"):
        cost = account(view(plan, name).event, plan.delta)
        assert 0.99 < cost.epsilon <= 1.0
    less = replace(plan.dealt_noise, variance=plan.dealt_noise.variance * Fraction(99, 100))
    assert account(plan.sampled(less), plan.delta).epsilon > 1.0


def test_parties_know_the_batches_and_pay_for_the_most_uses(plan: GradientPlan) -> None:
    mine = view(plan, "party:bank")
    assert not contains_sampling(mine.event) and contains_sampling(view(plan, "server").event)
    assert isinstance(mine.event, Repeated) and mine.event.times == plan.uses
    assert next(g for g in plan.guarantees if g.observer.name == "party:bank").epsilon > 1.0
    expected = plan.schedule.steps * plan.schedule.rate
    assert expected < plan.uses < plan.schedule.steps
    at_mean = replace(view(plan, "party:bank").event, times=untyped(int(expected)))
    assert account(at_mean, plan.delta).epsilon < account(view(plan, "party:bank").event, plan.delta).epsilon


def test_limits_cost_delta_and_rows_share_a_norm(plan: GradientPlan) -> None:
    event = plan.sampled(plan.dealt_noise)
    assert isinstance(event, Approximated)
    assert event.draws == as_draws(plan.limits_cost) > 0 and plan.limits_cost <= plan.overflow
    noise = plan.schedule.steps * plan.size * plan.group.whole
    assert itemise(event).draws == event.draws + noise
    bounds = sum(quantizer.norm_squared_bound for quantizer in plan.quantizers.values())
    features = sum(quantizer.width for quantizer in plan.quantizers.values())
    assert plan.shape.norm_squared == bounds + plan.constant**2 <= plan.gamma**2 + features
    assert plan.size == features + 1


def test_ledgers_hold_every_observer_but_the_party_itself(plan: GradientPlan) -> None:
    release = plan.release("bank", run="r", reproducible=False)
    named = [(line.observer, line.unit) for line in release.lines]
    assert ("server", "record") in named and ("party:insurer", "others-part") in named
    assert ("reader", REPLACE.name) in named and all(observer != "party:bank" for observer, _ in named)
    assert plan.release("server", run="r", reproducible=False).lines == ()
    replaced = next(line.event for line in release.lines if line.unit == REPLACE.name)
    assert not contains_sampling(replaced)


@pytest.mark.parametrize("count", [2, 5])
def test_noise_parts_of_the_honest_make_the_whole(count: int) -> None:
    plan = plan_for(tables_of(NAMES[:count], 100), rate=1.0)
    whole = plan.group.whole
    assert untyped(plan.noise.part(whole)).sigma_squared * whole == 2 * plan.mu == plan.dealt_noise.variance
    leaf = untyped(plan.all_replaced(plan.group.threshold)).event.event
    assert isinstance(leaf, DiscreteGaussian) and leaf.sigma_squared == 2 * plan.mu


def test_longer_training_and_longer_weights_need_more_noise() -> None:
    tables = tables_of(("bank", "insurer"), 2000)
    least = plan_for(tables, epochs=4, rate=1.0).mu
    assert plan_for(tables, epochs=8, rate=1.0).mu > least
    assert plan_for(tables, epochs=4, rate=1.0, weight_cap=16).mu > least


def test_labels_overflow_and_rates_that_cannot_be_planned_are_refused() -> None:
    tables = tables_of(("bank", "insurer"), 60, classes=("a", "b", "c"))
    with pytest.raises(PlanError, match="two classes; bank declares 3"):
        plan_for(tables)
    tables = tables_of(("bank", "insurer"), 60, active="nobody")
    with pytest.raises(PlanError, match="no party declares one"):
        plan_for(tables, Group.of(("bank", "insurer")))
    with pytest.raises(PlanError, match="Take a rate above"):
        plan_for(tables_of(("bank", "insurer"), 5000), epsilon=150.0, epochs=20, rate=0.002)
    with pytest.raises(PlanError):
        plan_for(tables_of(("bank", "insurer"), 2000), overflow=1e-4)


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
        _ = SlrOptions.model_construct(**wrong).schedule


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        (("newton", 1.0, 0.5), "'newton'"),
        (("sgd", 0.0, 0.5), "learning_rate"),
        (("sgd", 1.0, 1.5), "average"),
    ],
)
def test_optimisers_that_are_none_are_refused(wrong: Any, part: str) -> None:
    with pytest.raises(PlanError, match=part):
        Optimiser(*wrong)


def test_the_assumptions_of_a_plan_name_the_batches(plan: GradientPlan) -> None:
    assert plan.to_data()["capacity"] == plan.capacity
    for name in ("server", "reader"):
        assert "no owner tells it who is in a batch" in view(plan, name).assumption
    assert "batch" not in view(plan, "party:bank").assumption
    assert all("everybody runs the protocol" in str(one) for one in plan.guarantees), "nothing is checked"


@pytest.mark.parametrize("gamma", [64, 100, 1000])
def test_the_field_has_room_for_all_of_every_row(gamma: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan_for(tables_of(("bank", "insurer"), 60), gamma=gamma, rate=1.0)
    most = Fraction(fused_zero_out(made.shape).l2)
    assert most.denominator > 1, "what is rounded is no integer"
    requested: dict[str, Any] = {}

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
    rows = 2 * MOST_ROWS
    requested = spec_of(SlrOptions, epsilon=1.0, delta=1e-9, gamma=256, epochs=1, rate=1.0, verify="rows")
    made = planned_on(requested, tables, rows)
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


ROWS = 4000
PAIR = ("bank", "shop")


def federation(parties: tuple[str, ...] = PAIR, rows: int = ROWS, **more: Any) -> Federation:
    tables = tables_of(parties, rows, **({"slope": more.pop("slope")} if "slope" in more else {}))
    return Federation(tables, **{"budget": (200.0, 1e-5), "public": True, "noise_seed": 5, **more})


SHORT: dict[str, Any] = {"epochs": 4.0, "rate": 0.25, "weight_cap": 4.0}


@pytest.fixture(scope="module")
def slr_fitted() -> Any:
    source = federation()
    return source, LogisticRegression(epsilon=2.0, method="slr", options=SHORT).fit(source)


def test_it_learns_and_its_privacy_and_run_are_there_to_read(slr_fitted: Any) -> None:
    source, model = slr_fitted
    rows, labels = people(source)
    exact = LogisticRegression(method="non-private").fit(federation())
    assert model.score(rows, labels) > exact.score(rows, labels) - 0.03 > 0.7
    by_name = {one.observer.name: one for one in model.privacy_}
    assert by_name["server"].epsilon <= 2.0 < by_name["party:shop"].epsilon
    assert "who is in a batch" in str(by_name["server"])
    run = source.runs[-1]
    assert run.plan.schedule.steps == 16 and run.release is None
    assert {"batch", "weights", "gradient", "noise"} <= set(run.outcome.bytes_by_step)
    learnt = untyped(METHODS["slr"]).model(run.plan.spec, {"server": run.result()})
    assert f"more than {run.plan.uses} of them" in " ".join(learnt.notes)


def test_log_odds_are_those_of_the_weights_on_the_training_rows(slr_fitted: Any) -> None:
    source, model = slr_fitted
    run = source.runs[-1]
    weights, plan = run.result().weights, run.plan
    rows, _ = people(source)
    encoded = {
        party: encoder.encode({c.name: rows[c.name] for c in encoder.columns})
        for party, encoder in plan.encoders.items()
    }
    parts = [
        np.column_stack([encoded[party], np.ones(ROWS)]) if party == plan.label_holder else encoded[party]
        for party in plan.group.owners
    ]
    scores = np.concatenate(parts, axis=1) @ weights / np.sqrt(plan.attributes)
    # The constant on the grid is ⌊γ/√(m + 1)⌋, at most one unit short.
    np.testing.assert_allclose(model.decision_function(rows), scores, atol=4.0 / plan.gamma)
    assert as_log_odds(weights, plan)[0].shape == model.coef_[0].shape


@pytest.mark.parametrize("optimiser", [pytest.param("sgd", marks=pytest.mark.slow), "adam"])
def test_any_optimiser_may_move_the_weights(optimiser: Any) -> None:
    source = federation()
    rate = 0.5 if optimiser == "adam" else 8.0
    options = SHORT | {"optimiser": optimiser, "learning_rate": rate}
    model = LogisticRegression(epsilon=2.0, method="slr", options=options).fit(source)
    rows, labels = people(source)
    assert model.score(rows, labels) > 0.7


def test_three_releases_learn_too_and_promise_nothing() -> None:
    source = federation(rows=2000)
    options = SlrOptions(calibration="paper", gamma=64, **SHORT)
    learnt = train_with(source, "slr", TrainingSpec("classification", 4.0, delta=1e-5, options=options))
    assert tuple(learnt.privacy) == () and learnt.run is None
    assert all("paper formula, not a guarantee" in str(text) for text in (*learnt.figures, *learnt.notes))
    rows, labels = people(source)
    assert LogisticRegression().fit(learnt).score(rows, labels) > 0.7


def test_caps_of_all_parts_and_the_constant_fill_the_norm_of_a_row() -> None:
    plan = plan_for(tables_of(NAMES[:2], 100), rate=1.0)
    caps = sum(there(quantizer.cap_squared) for quantizer in plan.quantizers.values())
    assert plan.constants and caps + Fraction(plan.constants, plan.attributes) == 1


def test_three_releases_take_a_batch_of_the_rate_at_every_step() -> None:
    descent = SlrDescent(1, Optimiser("sgd", 1.0, 1.0), cap=2.0, steps=1)
    noise = [Fraction(1, 10**9)] * 3
    rows: dict[str, Any] = {"features": np.ones((1000, 1)), "labels": np.zeros(1000, dtype=np.int64)}
    descend_in_three(
        **rows, noise=noise, gamma=1, rate=0.25, descent=descent, steps=1, randomness=SeededRandomness(1)
    )
    # Without noise and from no weights a step of one column is the people of its batch, over all.
    assert 0.4 < -descent.weights[0] < 0.6


def test_three_releases_have_no_plan_and_are_refused_on_private_data_and_fine_grids() -> None:
    options = SHORT | {"calibration": "paper"}
    with pytest.raises(PlanError, match="public"):
        LogisticRegression(method="slr", options=options).fit(federation(rows=100, public=False))
    with pytest.raises(PlanError, match="there is no plan of it"):
        TrainingSpec("classification", 1.0, options=SlrOptions(calibration="paper")).check()
    options = SHORT | {"calibration": "paper", "gamma": 1 << 16, "epochs": 1.0, "rate": 1.0}
    with pytest.raises(PlanError, match="Take a smaller gamma"):
        LogisticRegression(epsilon=1.0, method="slr", options=options).fit(federation(rows=100))
