"""Noisy messages: the ideal twin, what each member sees, what a record moves, and what HDP-VFL promises."""

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ideals import ideal_descent
from messages_samples import LABELS, against, request, tables
from numpy.typing import NDArray
from pydantic import ValidationError
from scipy import stats
from scipy.special import ndtr
from training_specs import planned_on
from training_specs import requested as spec_of
from typed import there, untyped

from colonnade import Federation, Ledger, Schema, Table
from colonnade.data.labels import ClassLabel, CountLabel, RealLabel
from colonnade.data.schema import PublicSchema
from colonnade.errors import BudgetExceeded, LocalProtocolError, PlanError, RemoteProtocolError, SchemaError
from colonnade.methods.glm.losses import Penalty
from colonnade.methods.messages.plan import GRID, GRID_BITS, MOST_STEPS, PrivateMessagesPlan
from colonnade.methods.messages.protocol import (
    MessagesDescent,
    batch_order,
    private_messages_session,
    step_weights,
)
from colonnade.methods.one_shot.protocol import OneShotOptions, noisy_columns_session
from colonnade.privacy import paper as hdp_vfl
from colonnade.privacy.events import Composed
from colonnade.privacy.guarantee import account
from colonnade.privacy.observers import OthersPart, PartOf
from colonnade.privacy.sensitivity.messages import Schedule
from colonnade.randomness import SeededRandomness, public_permutation
from colonnade.runtime.channel import Seen
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import PartyInputs, run_here
from colonnade.runtime.wire import decode

FALSE_ALARM = 1e-9


def federation(made: list[Table], **changes: Any) -> Federation:
    return Federation(made, **{"budget": (100.0, 1e-3), "noise_seed": 3, **changes})


def values(seen: list[Seen], step: str) -> list[NDArray[np.int64]]:
    """The arrays of one kind of step that a member saw, in order."""
    return [decode(frame.frame)[1].arrays["values"] for frame in seen if frame.step.split(" ")[0] == step]


@pytest.mark.parametrize("loss", LABELS)
@pytest.mark.parametrize("penalty", [Penalty(), Penalty(l1=0.02), Penalty(l1=0.01, l2=0.1)])
def test_without_noise_the_protocol_is_its_ideal_twin(loss: str, penalty: Penalty) -> None:
    made = tables(31, loss=loss, widths=(2, 3, 1))
    requested = request(loss, calibration="none", batch=8, epochs=3, learning_rate=0.3, penalty=penalty)
    run = federation(made).run(private_messages_session, requested)
    ideal = ideal_descent(run.aligned, run.plan)
    for owner in run.plan.group.owners:
        assert np.allclose(run.result(owner).weights, ideal[owner], rtol=1e-12, atol=1e-14)
    assert np.abs(run.result("bank").weights).max() > 0


def test_weights_stay_in_their_ball_and_pass_through_it_without_noise() -> None:
    requested = request(calibration="none", epochs=50, learning_rate=20.0, radius=0.25)
    run = federation(tables(40, widths=(2, 2))).run(private_messages_session, requested)
    lengths = [np.linalg.norm(run.result(owner).weights) for owner in run.plan.group.owners]
    assert max(lengths) == pytest.approx(0.25)
    assert np.allclose(run.result("bank").weights, ideal_descent(run.aligned, run.plan)["bank"])


def test_the_first_scores_are_noise_of_the_planned_deviation_and_nothing_else() -> None:
    run = federation(tables(6000)).run(private_messages_session, request(epochs=1), record=True)
    (scores,) = values(there(run.outcome.seen["clinic"]), "scores")
    square = float((scores.astype(float) ** 2).sum()) / float(run.plan.variances[1])
    tail = min(stats.chi2.cdf(square, 6000), stats.chi2.sf(square, 6000))
    assert tail > FALSE_ALARM
    assert min(stats.chi2.cdf(square / 1.25, 6000), stats.chi2.sf(square * 1.25, 6000)) < FALSE_ALARM


def test_all_passive_parties_receive_the_same_residuals_and_the_server_no_message_at_all() -> None:
    requested = request(epochs=2, batch=16)
    run = federation(tables(40, widths=(2, 3, 1))).run(private_messages_session, requested, record=True)
    seen = run.outcome.seen
    first, second = values(there(seen["bank"]), "residuals"), values(there(seen["shop"]), "residuals")
    assert len(first) == run.plan.schedule.steps == 6
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert len(values(there(seen["clinic"]), "scores")) == 12
    assert not values(there(seen["bank"]), "scores")
    assert not {frame.step.split(" ")[0] for frame in there(seen["server"])} & {"scores", "residuals"}


def test_a_passive_partys_weights_are_what_its_clipped_messages_make_of_its_rows() -> None:
    requested = request(epochs=3, batch=16, penalty=Penalty(l1=0.01))
    run = federation(tables(40)).run(private_messages_session, requested, record=True)
    plan = run.plan
    rows, _ = batch_order(run.aligned["bank"], plan)
    weights = np.zeros(rows.shape[1])
    received = values(there(run.outcome.seen["bank"]), "residuals")
    for (_, batch), message in zip(plan.batches(), received, strict=True):
        clipped = np.clip(message * 2.0**-GRID_BITS, -there(plan.clip), there(plan.clip))
        weights = weights - plan.rate("bank") / 16 * (clipped @ rows[batch])
        weights = plan.penalty.step(weights, plan.rate("bank"))
        weights = weights / max(1.0, float(np.linalg.norm(weights)) / plan.radius)
    assert np.allclose(run.result("bank").weights, weights, atol=1e-14)


def test_every_ledger_is_charged_first_and_a_refused_run_puts_no_message_on_the_wire() -> None:
    made = tables(30, widths=(2, 2))
    parties = federation(made, budget=(1.0, 1e-5))
    run = parties.run(private_messages_session, request(epsilon=0.9))
    for owner in run.plan.group.owners:
        (total,) = parties.ledgers[owner].totals()
        assert 0.7 < total.epsilon <= 0.9
    steps: list[Any] = []

    async def program(party: Party, table: Table | None) -> None:
        try:
            await private_messages_session(party, table, request(epsilon=0.9))
        finally:
            steps.extend(step for _, step in party.traffic.sent)

    with pytest.raises(BudgetExceeded, match="noisy messages of logistic regression"):
        parties._run(program)
    assert "plan" in steps and not {"scores", "residuals"} & set(steps)


@given(
    st.sampled_from(sorted(LABELS)),
    st.integers(1, 5),
    st.integers(1, 3),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=8)
def test_the_real_protocol_moves_no_messages_further_than_the_plan_says(
    loss: str, batch: int, epochs: int, extreme: bool, seed: int
) -> None:
    """Two runs on neighbouring data with one transcript and one draw of noise, for each side."""
    rows = 5
    generator = np.random.default_rng(seed)
    made = {table.party: table for table in tables(rows, loss=loss, seed=seed)}
    plan = planned_on(
        request(loss, batch=batch, epochs=epochs, penalty=Penalty(l1=0.01), epsilon=2.0), made.values()
    )
    extent = (1 << 62) if extreme else (1 << GRID_BITS)
    script = {step: generator.integers(-extent, extent, batch) for step in range(plan.schedule.steps)}
    record = int(generator.integers(rows))
    for owner in ("clinic", "bank"):
        near = neighbour(made[owner], record)
        others = {name: table for name, table in made.items() if name != owner}
        runs = [
            against(owner, table, others, plan, lambda _, step: script[step])[0]
            for table in (made[owner], near)
        ]
        allowed = plan.sensitivity(owner).per_step
        squares = [
            float(((a.astype(object) - b.astype(object)) ** 2).sum()) * 4.0**-GRID_BITS
            for a, b in zip(*runs, strict=True)
        ]
        # Per step for the worst record; for this one, the whole sequence.
        assert sum(squares) <= sum(step**2 for step in allowed)


def test_without_the_clip_one_record_moves_the_messages_further_than_any_plan_says() -> None:
    made = {table.party: table for table in tables(60, seed=4)}
    plan = planned_on(request(epochs=4, learning_rate=0.1, penalty=Penalty()), made.values())
    near = neighbour(made["bank"], 0)
    received = np.zeros(60, dtype=np.int64)
    # Noise has no bound: this is its one draw in a thousand runs, on the record's own residual.
    received[np.argsort(public_permutation(60, plan.options.seed))[0]] = 1 << 40
    assert 0 < plan.weight("clinic") < 1
    moved = {}
    for clip in (plan.clip, None):
        terms = ({"clinic": made["clinic"]}, replace(plan, clip=clip), lambda *_: received)
        first, second = (against("bank", table, *terms)[0] for table in (made["bank"], near))
        gaps = [(a - b) * 2.0**-GRID_BITS for a, b in zip(first, second, strict=True)]
        moved[clip] = np.sqrt(sum(float((gap**2).sum()) for gap in gaps))
    assert moved[plan.clip] <= plan.sensitivity("bank").total < moved[None]


def neighbour(table: Table, record: int) -> Table:
    """The same table with everything about one record as far away as it goes."""
    block = next(table.blocks())
    arrays = {name: values.copy() for name, values in block.columns.items()}
    for column in arrays.values():
        column[record] = -np.sign(column[record])
    label = table.schema.label
    if isinstance(label, ClassLabel):
        codes = there(block.label).copy()
        codes[record] = 1 - codes[record]
        arrays["y"] = np.array(["no", "yes"])[codes]
    elif label is not None:
        arrays["y"] = there(block.label).copy()
        middle = (untyped(label).low + untyped(label).high) / 2
        arrays["y"][record] = untyped(label).low if arrays["y"][record] > middle else untyped(label).high
    return Table.from_arrays(table.party, arrays, Schema("row", table.schema.columns, label))


def test_a_peer_that_sends_the_largest_integers_moves_weights_no_further_than_the_clip() -> None:
    made = {table.party: table for table in tables(6)}
    plan = planned_on(request(epochs=1, penalty=Penalty()), made.values())
    huge = np.full(6, np.iinfo(np.int64).max)
    _, state = against("bank", made["bank"], {"clinic": made["clinic"]}, plan, lambda *_: huge)
    moved = np.linalg.norm(state.weights)
    assert 0 < moved <= plan.rate("bank") * there(plan.clip) * plan.cap("bank")


@pytest.mark.parametrize(
    ("calibration", "wrong", "said"),
    [
        ("sound", np.zeros(5, dtype=np.int64), "expected an array"),
        ("sound", np.zeros(6), "expected an array"),
        ("sound", np.zeros((6, 1), dtype=np.int64), "expected an array"),
        ("none", np.full(6, np.nan), "it sent values that are not finite"),
    ],
)
def test_a_message_that_is_none_is_refused_by_name(calibration: Any, wrong: Any, said: str) -> None:
    made = {table.party: table for table in tables(6)}
    plan = planned_on(request(epochs=1, calibration=calibration), made.values())
    with pytest.raises(RemoteProtocolError, match=f"bank at step 'residuals 0', from clinic: {said}"):
        against("bank", made["bank"], {"clinic": made["clinic"]}, plan, lambda *_: wrong)


def test_descents_that_are_no_longer_finite_are_stopped_with_what_to_do() -> None:
    paper: dict[str, Any] = {"epsilon": 0.001, "radius": 1.0, "learning_rate": 0.1}
    none: dict[str, Any] = {"epochs": 400, "learning_rate": 1e5, "radius": 1e9}
    for calibration, chosen, said in (
        ("paper", paper, r"clinic: its (messages|weights) are no longer finite.*sound"),
        ("none", none, r"no longer finite\. Choose a smaller learning_rate"),
    ):
        requested = request("poisson", calibration=untyped(calibration), **chosen)
        with pytest.raises(LocalProtocolError, match=said):
            federation(tables(50, loss="poisson")).run(private_messages_session, requested)


def test_noisy_columns_are_the_rows_with_noise_and_reach_the_active_party_only() -> None:
    made = tables(500, widths=(2, 2, 1))
    run = federation(made).run(
        noisy_columns_session, spec_of(OneShotOptions, "classification", 20.0), record=True
    )
    plan = run.plan
    received = run.result("clinic").columns
    (block,) = run.aligned["bank"].blocks(500)
    noise = (received["bank"] - plan.clipped.of("bank", block)) / plan.sigma("bank")
    square = float((noise**2).sum())
    assert min(stats.chi2.cdf(square, 1000), stats.chi2.sf(square, 1000)) > FALSE_ALARM
    assert set(received) == {"bank", "shop"}
    for member in ("bank", "shop", "server"):
        assert not [frame for frame in there(run.outcome.seen[member]) if frame.step.startswith("columns")]
        assert not run.result(member).columns


def test_rows_are_within_their_cap_in_exact_arithmetic_and_most_of_the_norm_is_used() -> None:
    (_, bank) = tables(300, widths=(1, 5))
    plan = planned_on(request(), tables(4, widths=(1, 5)), 300)
    rows = plan.clipped.integers("bank", next(bank.blocks()))
    squares = (rows.astype(object) ** 2).sum(axis=1)
    assert max(squares) <= plan.clipped.norm_squared("bank")
    assert np.median(squares.astype(float)) > 0.8 * plan.clipped.norm_squared("bank")


def test_two_owners_need_no_server() -> None:
    made = {table.party: table for table in tables(30)}
    group = Group.pair("clinic", "bank", active="clinic")
    desks = {}
    for member, table in made.items():
        ledger = Ledger.in_memory(member)
        ledger.set_budget("data", "*", "*", epsilon=2.0, delta=1e-5)
        desks[member] = PartyInputs(ledger, table, dataset="data")
    outcome = run_here(private_messages_session, group, desks, request(epochs=2))
    assert {part.weights.shape for part in outcome.results.values()} == {(3,)}
    assert all(untyped(desk.ledger).totals() for desk in desks.values())


# Plans of noisy messages: what they refuse, whom they protect, what they charge.


def plan_of(rows: int = 200, *, loss: str = "logistic", widths: Any = (2, 3), **changes: Any) -> Any:
    made = tables(4, loss=loss, widths=widths)
    return planned_on(request(loss, **changes), made, rows)


@pytest.mark.parametrize("loss", LABELS)
def test_every_partys_part_of_a_record_costs_the_others_at_most_epsilon(loss: str) -> None:
    plan = plan_of(loss=loss, epsilon=0.7, batch=50)
    assert [guarantee.observer.name for guarantee in plan.guarantees] == ["party:clinic", "party:bank"]
    assert all(0.69 < guarantee.epsilon <= 0.7 for guarantee in plan.guarantees)
    assert all(guarantee.unit == OthersPart() for guarantee in plan.guarantees)


def test_with_three_owners_each_charges_what_the_others_together_learn() -> None:
    plan = plan_of(widths=(2, 3, 1), epsilon=1.0)
    together = [guarantee for guarantee in plan.guarantees if guarantee.observer.name.startswith("coalition")]
    assert {guarantee.unit.name for guarantee in together} == {
        PartOf(owner).name for owner in plan.group.owners
    }
    assert all(guarantee.epsilon <= 1.0 for guarantee in together)
    alone = plan.views[0]
    assert isinstance(alone.event, Composed)
    assert len(alone.event.events) == 2
    assert plan.guarantees[0].epsilon > 1.0  # it may compare the parts of two parties at once
    plan = plan_of(widths=(2, 3, 1))
    assert plan.release("server", run="r", reproducible=False).lines == ()
    lines = {line.observer: line for line in plan.release("bank", run="r", reproducible=False).lines}
    assert lines.keys() == {"party:clinic", "party:shop", "coalition:clinic+shop"}
    assert lines["party:clinic"].unit == lines["party:shop"].unit == "others-part"
    own = lines["coalition:clinic+shop"]
    assert (own.unit, own.event) == ("own-part:bank", plan.event("bank"))


def test_every_passive_party_has_noise_for_its_share_and_needs_a_column() -> None:
    plan = plan_of(widths=(1, 1, 6))
    assert plan.cap("shop") > plan.cap("bank")
    assert plan.sigma("shop") > plan.sigma("bank")
    caps = [plan.cap(owner) for owner in plan.group.owners]
    assert math.fsum(cap**2 for cap in caps) <= 1 + 1e-9
    made = tables(4)
    label_only = PublicSchema("clinic", (), untyped(LABELS["logistic"]))
    group = Group.of(("clinic", "bank"), active="clinic")
    assert request().plan(group, (label_only, made[1].public()), 50).cap("clinic") > 0
    with pytest.raises(SchemaError, match="A party without the label needs at least one column"):
        PublicSchema("bank", (), None)


@given(
    st.sampled_from(sorted(LABELS)),
    st.integers(2, 60),
    st.integers(1, 60),
    st.integers(1, 4),
    st.floats(0.05, 5),
)
@settings(deadline=None, max_examples=12)
def test_a_plan_costs_what_its_events_cost_and_more_epsilon_never_needs_more_noise(
    loss: str, rows: int, batch: int, epochs: int, epsilon: float
) -> None:
    settings: dict[str, Any] = {"loss": loss, "batch": min(batch, rows), "epochs": epochs}
    plan = plan_of(rows, epsilon=epsilon, **settings)
    looser = plan_of(rows, epsilon=2 * epsilon, **settings)
    for owner in plan.group.owners:
        assert account(plan.event(owner), plan.delta).epsilon <= epsilon
    # A passive step may become shorter as residuals become clearer, never the noise larger.
    assert looser.sigma(plan.active) <= plan.sigma(plan.active)


def test_a_record_is_used_once_an_epoch_and_steps_make_up_for_clipping_but_not_at_any_price() -> None:
    plan = plan_of(10, batch=4, epochs=3)
    slices = [rows for _, rows in plan.batches()]
    assert [(rows.start, rows.stop) for rows in slices[:3]] == [(0, 4), (4, 8), (8, 10)]
    assert slices[:3] * 3 == slices
    assert plan.schedule == Schedule(10, 4, 3)
    few, many = plan_of(50, epochs=5), plan_of(50_000, epochs=5)
    assert few.rate("bank") == few.rate("clinic") == few.learning_rate
    assert many.rate("bank") > many.rate("clinic")
    own_entries = (2 * many.radius * many.cap("bank")) ** 2 * many.options.epochs
    assert many.sensitivity("bank").total ** 2 < 1.12 * own_entries


@pytest.mark.parametrize("loss", LABELS)
def test_a_step_that_could_spread_weights_apart_is_refused_with_the_largest_allowed(loss: str) -> None:
    with pytest.raises(PlanError, match=r"learning_rate = 1e\+06 .* The largest allowed here is") as refused:
        plan_of(loss=loss, learning_rate=1e6)
    largest = float(str(refused.value).rstrip(".").rsplit(" ", 1)[1])
    assert plan_of(loss=loss, learning_rate=largest).learning_rate == largest
    with pytest.raises(PlanError):
        plan_of(loss=loss, learning_rate=largest * 1.01)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": 201}, "batch = 201 for 200 rows"),
        ({"batch": 0}, "batch = 0 for 200 rows"),
        ({"epochs": 0}, "epochs = 0"),
        ({"radius": -1.0}, "radius = -1"),
        ({"stretch": math.inf}, "stretch = inf"),
        ({"clip": 0.0}, "clip = 0"),
        ({"epsilon": 0.0}, "epsilon = 0"),
        ({"batch": 1, "epochs": MOST_STEPS}, "steps; 100000 is the most"),
        ({"loss": "poisson", "radius": 1e4}, "radius = 10000 lets scores grow so far"),
        ({"loss": "gamma", "calibration": "paper"}, "HDP-VFL has no noise for Gamma"),
        ({"epsilon": 0.01, "radius": 1e9}, r"outside 1e-9 to 2\^88"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        plan_of(**changes)
    with pytest.raises(PlanError, match="penalties are finite"):
        Penalty(l1=-1.0)


@pytest.mark.parametrize(
    ("loss", "label", "message"),
    [
        ("logistic", ClassLabel("y", ("a", "b", "c")), "two classes; 'y' has 3 classes"),
        ("svm", ClassLabel("y", ("a", "b", "c")), "two classes; 'y' has 3 classes"),
        ("poisson", RealLabel("y", low=-1, high=1), "from 0 up; 'y' is declared from -1"),
        ("gamma", CountLabel("y", low=0, high=9), "above 0; 'y' is declared from 0 to 9"),
        ("least_squares", ClassLabel("y", ("a", "b")), "kind 'classes'"),
        ("logistic", RealLabel("y", low=-1, high=1), "kind 'real'"),
    ],
)
def test_a_label_that_does_not_fit_its_loss_is_refused(loss: str, label: ClassLabel, message: str) -> None:
    made = tables(4)
    schemas = (PublicSchema("clinic", made[0].public().columns, label), made[1].public())
    with pytest.raises(PlanError, match=message):
        request(loss).plan(Group.of(("clinic", "bank"), active="clinic"), schemas, 100)


def test_paper_mode_has_the_papers_noise_its_figures_and_no_guarantee() -> None:
    chosen: dict[str, Any] = {"batch": 3200, "radius": 1.0, "learning_rate": 0.1}
    plan = plan_of(30_000, calibration="paper", delta=0.01, accepted_delta=0.01, **chosen)
    assert plan.guarantees == ()
    assert plan.release("bank", run="r", reproducible=False).lines == ()
    claimed = hdp_vfl.passive_sensitivity(
        batch=3200, epochs=10, steps=100, radius=1, step_size=0.1, lipschitz=1
    )
    assert plan.figures[0] == claimed
    sigma = hdp_vfl.classical_sigma(1.0, 0.01, sensitivity=claimed.value).value
    assert plan.sigma("bank") == pytest.approx(sigma)
    assert plan.sigma("bank") == pytest.approx(19.69, abs=0.005)
    assert plan.clip is None


@pytest.mark.parametrize("calibration", ["paper", "none"])
def test_what_protects_nobody_runs_only_where_every_owner_declared_its_data_public(calibration: str) -> None:
    with pytest.raises(PlanError, match="bank did not"):
        plan_of(calibration=calibration, public=("clinic",))


def test_every_field_of_a_plan_is_in_its_hash() -> None:
    plan = plan_of()
    options: list[dict[str, Any]] = [{"seed": 1}, {"stretch": 2.0}, {"penalty": "l1", "strength": 0.1}]
    doubled = tuple(2 * variance for variance in plan.variances)
    fields: list[Any] = [{"clip": 2.0}, {"variances": doubled}, {"batch": 7}]
    others = [replace(plan, spec=plan.spec.with_options(**each)) for each in options]
    others += [replace(plan, **each) for each in fields]
    assert len({plan.hash, *(other.hash for other in others)}) == 7


def test_noisy_columns_cost_the_same_however_often_they_are_used() -> None:
    made = tables(4, widths=(2, 3, 1))
    plan = planned_on(spec_of(OneShotOptions, "classification", 1.0), made, 100)
    observers = {guarantee.observer.name for guarantee in plan.guarantees}
    assert observers == {"party:clinic", "coalition:clinic+shop", "coalition:bank+clinic"}
    assert plan.release("clinic", run="r", reproducible=False).lines == ()
    lines = plan.release("bank", run="r", reproducible=False).lines
    assert {line.unit for line in lines} == {"others-part", "own-part:bank"}
    # μ = 2c/s, as the Gaussian would have it, and a little more for the Rényi route.
    assert plan.sigma("bank") == pytest.approx(2 * plan.clipped.cap("bank") * 3.73, rel=0.1)
    with pytest.raises(ValidationError, match="stretch"):
        OneShotOptions(stretch=-1.0)


def rounding_of_doubles(plan: PrivateMessagesPlan, owner: str) -> Fraction:
    """What two runs can lose of one entry, exactly, as docs/proofs/message-sensitivity.md adds it up."""
    unit, active = Fraction(1, 1 << 53), owner == plan.active
    cap, radius, rate = (Fraction(value) for value in (plan.cap(owner), plan.radius, plan.rate(owner)))
    residual = Fraction(plan.bounds.size)
    pull = residual if active or plan.clip is None else Fraction(plan.clip)
    operations = plan.clipped.encoders[owner].width + 1 + 16
    weights = plan.rows * plan.options.epochs * rate * pull * cap
    weights += plan.schedule.steps * operations * (radius + rate * pull * cap)
    scores = cap * weights + operations * (radius * (cap + Fraction(plan.passive_cap)) + residual + 1)
    made: Fraction = 2 * max(Fraction(1), Fraction(plan.bounds.slope)) * unit * scores
    return made


@pytest.mark.parametrize("loss", LABELS)
@pytest.mark.parametrize("changes", [{}, {"epochs": 1, "rows": 10}, {"radius": 0.01}], ids=str)
def test_all_that_doubles_can_lose_is_charged_beside_the_grid(loss: str, changes: dict[str, Any]) -> None:
    plan = plan_of(loss=loss, **changes)
    for owner in plan.group.owners:
        charged = Fraction(plan.charged_grid(owner)) - GRID
        lost = rounding_of_doubles(plan, owner)
        assert lost * (1 - Fraction(1, 10**6)) <= charged <= lost * (1 + Fraction(1, 10**6))


RUNS = 1500
ROWS, BATCH, EPOCHS = 4000, 200, 10
EPSILON, DELTA = 1.0, 1e-5


def study_plan(calibration: Any) -> Any:
    chosen: dict[str, Any] = {"epochs": EPOCHS, "batch": BATCH, "learning_rate": 0.1, "radius": 1.0}
    requested = request(epsilon=EPSILON, delta=DELTA, calibration=calibration, penalty=Penalty(), **chosen)
    return planned_on(requested, tables(4, widths=(1, 1)), ROWS)


def shifts(plan: Any, *, cap: Any, runs: Any, seed: int) -> Any:
    """√(Σ Δ_t²) of the passive party's messages in so many runs, by its own update, as its peer's noise falls.

    One record is +cap in one data set and −cap in the other, every other record is +cap, weights start at their bound
    and residuals are ±½. The messages of all records but one add up, so that one row stands for them.
    """
    randomness = SeededRandomness(seed)
    generator = np.random.default_rng(seed)
    bank = SimpleNamespace(name="bank")
    noise = plan.noise["clinic"]
    found = []
    for _ in range(runs):
        here, there = (MessagesDescent(np.array([plan.radius]), rate=plan.rate("bank")) for _ in range(2))
        square = 0.0
        drawn = noise.draw((EPOCHS * ROWS // BATCH, BATCH), randomness) * float(GRID)
        for step, numbers in enumerate(drawn):
            received = numbers + generator.choice([-0.5, 0.5], BATCH)
            if plan.clip is not None:
                received = np.clip(received, -plan.clip, plan.clip)
            used = step % (ROWS // BATCH) == 0
            gap, total = here.weights - there.weights, here.weights + there.weights
            square += float((BATCH - used) * (cap * gap[0]) ** 2 + used * (cap * total[0]) ** 2)
            others = received[1:].sum() if used else received.sum()
            rows = np.array([[cap], [cap]])
            for state, sign in ((here, 1.0), (there, -1.0)):
                rows[1] = sign * cap
                own = received[0] if used else 0.0
                step_weights(untyped(bank), plan, state, batch=rows, residuals=np.array([others, own]))
        found.append(math.sqrt(square))
    return np.array(found)


def deltas(shift: Any, sigma: Any) -> Any:
    """The δ at ε of a Gaussian whose centre moves so far."""
    mu = shift / sigma
    return ndtr(mu / 2 - EPSILON / mu) - math.exp(EPSILON) * ndtr(-mu / 2 - EPSILON / mu)


@pytest.mark.slow
def test_the_papers_protocol_exceeds_its_promise_and_ours_does_not() -> None:
    paper, sound = study_plan("paper"), study_plan("sound")
    moved = shifts(paper, cap=1.0, runs=RUNS, seed=7)
    reached = deltas(moved, paper.sigma("bank"))
    assert (moved > paper.figures[0].value).mean() > 0.3
    assert reached.mean() - 2 * reached.std() / math.sqrt(RUNS) > DELTA

    cap = sound.cap("bank")
    moved = shifts(sound, cap=cap, runs=RUNS // 5, seed=8)
    assert moved.max() <= sound.sensitivity("bank").total
    assert deltas(moved, sound.sigma("bank")).max() < DELTA
