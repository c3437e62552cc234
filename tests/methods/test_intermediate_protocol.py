"""The protocol of noisy messages: its ideal twin, what each member sees, what a peer can do, what a record moves."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ideals import ideal_descent
from intermediate_samples import LABELS, against, labels, request, tables
from numpy.typing import NDArray
from scipy import stats
from training_specs import requested as spec_of
from typed import there, untyped

from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.errors import BudgetExceeded, LocalProtocolError, RemoteProtocolError
from colonnade.federation.federation import Federation
from colonnade.ledger import Ledger
from colonnade.methods.glm.losses import Penalty
from colonnade.methods.messages.plan import GRID_BITS
from colonnade.methods.messages.protocol import batch_order, intermediate_session
from colonnade.methods.one_shot.protocol import OneShotOptions, noisy_columns_session
from colonnade.randomness import public_permutation
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
    run = federation(made).run(intermediate_session, requested)
    ideal = ideal_descent(run.aligned, run.plan)
    for owner in run.plan.group.owners:
        assert np.allclose(run.result(owner).weights, ideal[owner], rtol=1e-12, atol=1e-14)
    assert np.abs(run.result("bank").weights).max() > 0


def test_weights_stay_in_their_ball_and_pass_through_it_without_noise() -> None:
    made = tables(40, widths=(2, 2))
    requested = request(calibration="none", epochs=50, learning_rate=20.0, radius=0.25)
    run = federation(made).run(intermediate_session, requested)
    lengths = [np.linalg.norm(run.result(owner).weights) for owner in run.plan.group.owners]
    assert max(lengths) == pytest.approx(0.25)
    assert np.allclose(run.result("bank").weights, ideal_descent(run.aligned, run.plan)["bank"])


def test_the_first_scores_are_noise_of_the_planned_deviation_and_nothing_else() -> None:
    run = federation(tables(6000)).run(intermediate_session, request(epochs=1), record=True)
    (scores,) = values(there(run.outcome.seen["clinic"]), "scores")
    square = float((scores.astype(float) ** 2).sum()) / float(run.plan.variances[1])
    tail = min(stats.chi2.cdf(square, 6000), stats.chi2.sf(square, 6000))
    assert tail > FALSE_ALARM
    assert min(stats.chi2.cdf(square / 1.25, 6000), stats.chi2.sf(square * 1.25, 6000)) < FALSE_ALARM


def test_all_passive_parties_receive_the_same_residuals_and_the_server_no_message_at_all() -> None:
    requested = request(epochs=2, batch=16)
    run = federation(tables(40, widths=(2, 3, 1))).run(intermediate_session, requested, record=True)
    seen = run.outcome.seen
    first, second = values(there(seen["bank"]), "residuals"), values(there(seen["shop"]), "residuals")
    assert len(first) == run.plan.schedule.steps == 6
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert len(values(there(seen["clinic"]), "scores")) == 12
    assert not values(there(seen["bank"]), "scores")
    assert not {frame.step.split(" ")[0] for frame in there(seen["server"])} & {"scores", "residuals"}


def test_a_passive_partys_weights_are_what_its_clipped_messages_make_of_its_rows() -> None:
    requested = request(epochs=3, batch=16, penalty=Penalty(l1=0.01))
    run = federation(tables(40)).run(intermediate_session, requested, record=True)
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


def test_noise_is_drawn_anew_and_a_seed_taints_the_run() -> None:
    made = tables(30)
    first = federation(made, noise_seed=None).run(intermediate_session, request(), record=True)
    second = federation(made, noise_seed=None).run(intermediate_session, request(), record=True)
    assert not first.reproducible
    assert not np.array_equal(
        values(there(first.outcome.seen["clinic"]), "scores")[0],
        values(there(second.outcome.seen["clinic"]), "scores")[0],
    )
    assert federation(made).run(intermediate_session, request()).reproducible


def test_every_ledger_is_charged_for_the_whole_run_before_the_first_message() -> None:
    made = tables(30, widths=(2, 2))
    parties = federation(made, budget=(1.0, 1e-5))
    run = parties.run(intermediate_session, request(epsilon=0.9))
    for owner in run.plan.group.owners:
        (total,) = parties.ledgers[owner].totals()
        assert 0.7 < total.epsilon <= 0.9
    with pytest.raises(BudgetExceeded, match="noisy messages of logistic regression"):
        parties.run(intermediate_session, request(epsilon=0.9))
    assert len(parties.runs) == 1


def test_a_refused_run_puts_no_message_on_the_wire() -> None:
    made = tables(20)
    parties = federation(made)
    requested = request()
    schemas = tuple(table.public() for table in made)
    plan = requested.plan(parties.group, schemas, 20)
    parties.ledgers["bank"].set_budget("bank", "*", "*", epsilon=0.1, delta=1e-5)
    steps: list[Any] = []

    async def program(party: Party, table: Table | None) -> None:
        try:
            await intermediate_session(party, table, requested)
        finally:
            steps.extend(step for _, step in party.traffic.sent)

    with pytest.raises(BudgetExceeded):
        parties._run(program)
    assert "plan" in steps
    assert not {"scores", "residuals"} & set(steps)
    assert plan.rows == 20


@given(
    st.sampled_from(sorted(LABELS)),
    st.integers(1, 5),
    st.integers(1, 3),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=15)
def test_the_real_protocol_moves_no_messages_further_than_the_plan_says(
    loss: str, batch: int, epochs: int, extreme: bool, seed: int
) -> None:
    """Two runs on neighbouring data with one transcript and one draw of noise, for each side."""
    rows = 5
    generator = np.random.default_rng(seed)
    made = {table.party: table for table in tables(rows, loss=loss, seed=seed)}
    group = Group.of(tuple(made), active="clinic")
    requested = request(loss, batch=batch, epochs=epochs, penalty=Penalty(l1=0.01), epsilon=2.0)
    plan = requested.plan(group, tuple(table.public() for table in made.values()), rows)
    extent = (1 << 62) if extreme else (1 << GRID_BITS)
    script = {step: generator.integers(-extent, extent, batch) for step in range(plan.schedule.steps)}
    record = int(generator.integers(rows))
    for owner in ("clinic", "bank"):
        near = neighbour(made[owner], record, loss, generator, seed=seed)
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
    group = Group.of(tuple(made), active="clinic")
    requested = request(epochs=4, learning_rate=0.1, penalty=Penalty())
    plan = requested.plan(group, tuple(table.public() for table in made.values()), 60)
    near = neighbour(made["bank"], 0, "logistic", np.random.default_rng(1), seed=4)
    received = np.zeros(60, dtype=np.int64)
    # Noise has no bound: this is its one draw in a thousand runs, on the record's own residual.
    received[np.argsort(public_permutation(60, plan.options.seed))[0]] = 1 << 40
    moved = {}
    for clip in (plan.clip, None):
        first, second = (
            against("bank", table, {"clinic": made["clinic"]}, replace(plan, clip=clip), lambda *_: received)[
                0
            ]
            for table in (made["bank"], near)
        )
        gaps = [(a - b) * 2.0**-GRID_BITS for a, b in zip(first, second, strict=True)]
        moved[clip] = np.sqrt(sum(float((gap**2).sum()) for gap in gaps))
    assert moved[plan.clip] <= plan.sensitivity("bank").total < moved[None]


def neighbour(table: Table, record: int, loss: str, generator: Any, *, seed: int) -> Table:
    """The same table with everything about one record as far away as it goes."""
    block = next(table.blocks())
    arrays = {name: values.copy() for name, values in block.columns.items()}
    for column in arrays.values():
        column[record] = -np.sign(column[record])
    label = table.schema.label
    if label is not None:
        given = labels(loss, block.rows, np.random.default_rng(seed + 1))
        coded = (
            there(block.label).copy()
            if loss not in ("logistic", "svm")
            else np.array(["no", "yes"])[block.label]
        )
        coded[record] = (
            given[record]
            if loss not in ("logistic", "svm")
            else ("no", "yes")[1 - there(block.label)[record]]
        )
        if loss in ("poisson", "least_squares", "gamma"):
            coded[record] = (
                untyped(label).low
                if coded[record] > (untyped(label).low + untyped(label).high) / 2
                else untyped(label).high
            )
        arrays["y"] = coded
    return Table.from_arrays(table.party, arrays, Schema("row", table.schema.columns, label))


def test_a_peer_that_sends_the_largest_integers_moves_weights_no_further_than_the_clip() -> None:
    made = {table.party: table for table in tables(6)}
    plan = request(epochs=1, penalty=Penalty()).plan(
        Group.of(tuple(made), active="clinic"), tuple(table.public() for table in made.values()), 6
    )
    huge = np.full(6, np.iinfo(np.int64).max)
    _, state = against("bank", made["bank"], {"clinic": made["clinic"]}, plan, lambda *_: huge)
    moved = np.linalg.norm(state.weights)
    assert 0 < moved <= plan.rate("bank") * there(plan.clip) * plan.cap("bank")


@pytest.mark.parametrize(
    "wrong", [np.zeros(5, dtype=np.int64), np.zeros(6), np.zeros((6, 1), dtype=np.int64)]
)
def test_a_message_of_another_shape_or_type_is_refused_by_name(wrong: Any) -> None:
    made = {table.party: table for table in tables(6)}
    plan = request(epochs=1).plan(
        Group.of(tuple(made), active="clinic"), tuple(table.public() for table in made.values()), 6
    )
    with pytest.raises(
        RemoteProtocolError, match=r"bank at step 'residuals 0', from clinic: expected an array"
    ):
        against("bank", made["bank"], {"clinic": made["clinic"]}, plan, lambda *_: wrong)


def test_papers_mode_without_clipping_stops_when_weights_or_messages_are_no_longer_finite() -> None:
    requested = request("poisson", calibration="paper", epsilon=0.001, radius=1.0, learning_rate=0.1)
    with pytest.raises(
        LocalProtocolError, match=r"clinic: its (messages|weights) are no longer finite.*sound"
    ):
        federation(tables(50, loss="poisson")).run(intermediate_session, requested)


def test_a_descent_without_noise_that_runs_away_is_stopped_too() -> None:
    requested = request("poisson", calibration="none", epochs=400, learning_rate=1e5, radius=1e9)
    with pytest.raises(LocalProtocolError, match=r"no longer finite\. Choose a smaller learning_rate"):
        federation(tables(50, loss="poisson")).run(intermediate_session, requested)


def test_a_peer_that_sends_what_is_not_finite_is_named() -> None:
    made = {table.party: table for table in tables(6)}
    plan = request(epochs=1, calibration="none").plan(
        Group.of(tuple(made), active="clinic"), tuple(table.public() for table in made.values()), 6
    )
    with pytest.raises(RemoteProtocolError, match="from clinic: it sent values that are not finite"):
        against("bank", made["bank"], {"clinic": made["clinic"]}, plan, lambda *_: np.full(6, np.nan))


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
    plan = request().plan(
        Group.of(("clinic", "bank"), active="clinic"),
        tuple(t.public() for t in tables(4, widths=(1, 5))),
        300,
    )
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
    outcome = run_here(intermediate_session, group, desks, request(epochs=2))
    assert {part.weights.shape for part in outcome.results.values()} == {(3,)}
    assert all(untyped(desk.ledger).totals() for desk in desks.values())
