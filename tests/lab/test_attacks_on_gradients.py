"""Attacks on recorded transcripts: they succeed on the undefended protocol and fail on the defended one."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from encrypted_runs import aligned_of, request_of, run_of, tables_of
from numpy.typing import NDArray
from typed import there

from colonnade.data.table import Table
from colonnade.federation.federation import Run
from colonnade.lab.attacks import (
    OwnerView,
    PackedQuestion,
    Success,
    average_signs,
    foreign_scores,
    label_success,
    labels_without_other_columns,
    predicted_success,
    recover_column,
    recover_inner_products,
    recover_labels,
    signs_that_sum_to,
    value_success,
)
from colonnade.lab.campaign import arbiters
from colonnade.methods.encrypted.protocol import (
    Descended,
    OwnerState,
    OwnerTranscript,
    encrypted_session,
    ideal_descent,
)
from colonnade.protocols.plans import TrainingSpec
from colonnade.randomness import SeededRandomness, SystemRandomness
from colonnade.runtime.party import Party

APPROXIMATIONS = ("taylor", "minimax", "piecewise")


def holdings_of(run: Run[Any]) -> dict[str, OwnerState]:
    aligned = aligned_of(run)
    return {owner: OwnerState(owner, aligned[owner], run.plan, SystemRandomness()) for owner in aligned}


def view_of(run: Run[Any], owner: str, diary: OwnerTranscript | None = None) -> OwnerView:
    holding = holdings_of(run)[owner]
    kept = diary or run.result(owner).diary
    return OwnerView(run.plan, owner, kept, holding.features, holding.labels)


def labels_of(run: Run[Any]) -> NDArray[np.float64]:
    return there(holdings_of(run)[run.plan.active].labels)


def signed_like(found: NDArray[np.float64], truth: NDArray[np.float64]) -> NDArray[np.float64]:
    result: NDArray[np.float64] = found * np.sign(np.nansum(found * truth))
    return result


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
@pytest.mark.parametrize("widths", [{"a": 3, "b": 8}, {"a": 2, "b": 8, "c": 3}])
def test_labels_are_read_from_the_transcript_with_as_many_columns_as_records(
    approximation: str, widths: dict[str, int]
) -> None:
    run = run_of(widths, 64, approximation=approximation)
    attack = recover_labels(view_of(run, "b"), labels_of(run))
    assert attack.determined == 1.0
    assert attack.by_epoch[0].rate == 1.0 and attack.first.rate == 1.0
    assert attack.first.interval[0] > attack.first.chance + 0.3
    assert (attack.safe_steps is None) == (approximation == "piecewise")


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_the_same_attack_reads_a_transcript_in_which_an_arbiter_tells_every_party_its_gradient(
    approximation: str,
) -> None:
    run = run_of({"a": 3, "b": 8}, 64, approximation=approximation)
    ideal = ideal_descent(run.plan, aligned_of(run), {owner: SystemRandomness() for owner in "ab"})
    assert recover_labels(view_of(run, "b", ideal.diaries["b"]), labels_of(run)).first.rate == 1.0


@pytest.mark.parametrize("initialisation", ["xavier", "kaiming"])
def test_small_random_starting_weights_do_not_save_the_labels(initialisation: str) -> None:
    tables = {table.party: table for table in tables_of({"a": 40, "b": 8}, 64)}
    transcript, _ = arbiters(tables, request_of(tables, initialisation=initialisation))
    score = transcript.largest_starting_score
    attack = recover_labels(transcript.view("b"), transcript.labels, largest_score=score)
    assert 0 < score < 2 and attack.by_epoch[0].rate == 1.0
    assert 0 < there(attack.safe_steps).value < 29, "fewer steps than from zero"


def test_starting_weights_that_are_large_leave_no_safe_step() -> None:
    run = run_of({"a": 3, "b": 8}, 16)
    assert recover_labels(view_of(run, "b"), labels_of(run), largest_score=2.5).safe_steps is None


def test_the_criterion_holds_for_as_many_steps_as_it_says() -> None:
    run = run_of({"a": 1, "b": 8}, 64, learning_rate=0.5, epochs=1)
    attack = recover_labels(view_of(run, "b"), labels_of(run))
    safe = int(there(attack.safe_steps).value)
    first = np.concatenate(run.plan.batches(0)[:safe])
    assert safe == 6 and label_success(attack.guesses[first], labels_of(run)[first]).rate == 1.0


def test_large_batches_leave_the_coefficients_undetermined() -> None:
    run = run_of({"a": 3, "b": 4}, 96, batch=48)
    view = view_of(run, "b")
    assert view.determined == 0.0
    assert recover_labels(view, labels_of(run)).by_epoch[0].rate < 0.95


@pytest.mark.parametrize(
    ("columns", "rows", "batch"), [(3, 60, 12), (6, 24, 6)], ids=["a sum", "enough columns"]
)
def test_labels_alone_at_their_owner_are_read(columns: int, rows: int, batch: int) -> None:
    run = run_of({"a": 0, "b": columns}, rows, batch=batch, epochs=1)
    guesses = labels_without_other_columns(view_of(run, "b"), holdings_of(run)["b"].integers)
    assert label_success(guesses, labels_of(run)).rate == 1.0


def test_signs_are_given_only_where_all_solutions_agree() -> None:
    assert signs_that_sum_to(np.array([[1], [1], [4]]), np.array([4])).tolist() == [0.0, 0.0, 1.0]
    assert signs_that_sum_to(np.array([[1], [2]]), np.array([9])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_the_only_column_of_another_owner_is_read_up_to_a_sign(approximation: str) -> None:
    run = run_of({"a": 8, "b": 1}, 48, approximation=approximation, epochs=6)
    scores = foreign_scores(view_of(run, "a"), labels_of(run))
    truth = holdings_of(run)["b"].features[:, 0]
    found = signed_like(recover_column(scores, rows=48, step=run.plan.step_size), truth)
    success = value_success(found, truth)
    assert success.rate == 1.0 and success.chance < 0.1
    assert np.max(np.abs(found - truth)) < 1e-6


def test_the_owner_without_the_label_reads_the_other_column_once_it_has_the_labels() -> None:
    run = run_of({"a": 1, "b": 8}, 48, epochs=6)
    view = view_of(run, "b")
    labels = recover_labels(view, labels_of(run)).guesses
    truth = holdings_of(run)["a"].features[:, 0]
    found = signed_like(recover_column(foreign_scores(view, labels), rows=48, step=run.plan.step_size), truth)
    assert value_success(found, truth).rate == 1.0


def test_a_single_look_gives_no_column() -> None:
    run = run_of({"a": 8, "b": 1}, 16, epochs=1)
    scores = foreign_scores(view_of(run, "a"), labels_of(run))
    assert np.isnan(recover_column(scores, rows=16, step=run.plan.step_size)).all()


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_inner_products_of_several_columns_are_read_although_the_columns_are_not(approximation: str) -> None:
    run = run_of({"a": 6, "b": 2}, 12, approximation=approximation, batch=6, epochs=12)
    scores = foreign_scores(view_of(run, "a"), labels_of(run))
    found = recover_inner_products(scores, rows=12, step=run.plan.step_size, starts_at_zero=True)
    rows = holdings_of(run)["b"].features
    truth = rows @ rows.T
    assert np.linalg.norm(found - truth) < 1e-3 * np.linalg.norm(truth)
    assert value_success(found, truth).rate == 1.0


def run_asking(
    question: type[PackedQuestion] | Callable[..., Any], **changes: Any
) -> tuple[Run[Any], PackedQuestion]:
    """A run in which b asks something else than was agreed; and what it asked with."""
    requested: list[Any] = []

    async def session(party: Party, table: Table | None, request: TrainingSpec) -> Descended:
        if party.name != "b":
            return await encrypted_session(party, table, request)
        plan = request.plan(party.group, (tables["a"], tables["b"]), 60)
        requested.append(question(plan, "b"))
        return await encrypted_session(party, table, request, requested[-1])

    tables = {table.party: table.public() for table in tables_of({"a": 3, "b": 4}, 60)}
    return run_of({"a": 3, "b": 4}, 60, session=session, batch=20, epochs=1, **changes), requested[-1]


def test_packed_questions_read_every_message_of_batches_five_times_the_columns() -> None:
    run, question = run_asking(PackedQuestion)
    assert question.reads >= 20 > run.plan.width("b")
    guesses = np.zeros(60)
    for rows, values in zip(run.plan.batches(0), question.captured, strict=True):
        guesses[rows] = -np.sign(values)
    assert label_success(guesses, labels_of(run)).rate == 1.0
    # The run went on as if nothing had happened.
    honest = run_of({"a": 3, "b": 4}, 60, batch=20, epochs=1)
    assert np.allclose(run.result("a").weights, honest.result("a").weights, atol=1e-9)


def test_labels_are_not_read_with_the_sound_defence() -> None:
    """At (0.5, 1e-5) the share of signs read right is Φ(2·√looks/σ), within 0.03 of a half; here 1,600 records."""
    run = run_of({"a": 3, "b": 8}, 1600, defence="sound", epochs=1, learning_rate=0.01)
    attack = recover_labels(view_of(run, "b"), labels_of(run))
    sigma = float(run.plan.noise_of("a").sigma_squared) ** 0.5 / (1 << run.plan.fraction_bits)
    assert attack.determined == 1.0
    assert predicted_success(2.0, sigma, 1) < 0.53
    # 1,600 coins: beyond 0.5 ± 0.08 once in 10^9 runs.
    assert abs(attack.first.rate - attack.first.chance) < 0.08 + 0.03


def ideal_messages(run: Run[Any], owner: str) -> Any:
    """An owner's messages by epoch, in the order of the records: what whoever breaks the encryption reads."""
    randomness = {name: SeededRandomness(name) for name in run.plan.group.owners}
    ideal = ideal_descent(run.plan, aligned_of(run), randomness)
    steps = run.plan.schedule.steps_per_epoch
    found = []
    for epoch in range(run.plan.schedule.epochs):
        message = np.zeros(run.plan.rows)
        for rows, sent in zip(run.plan.batches(epoch), ideal.messages[owner][epoch * steps :], strict=False):
            message[rows] = sent / (1 << run.plan.fraction_bits)
        found.append(message)
    return found


def test_averaging_reads_signs_as_often_as_the_normal_law_says() -> None:
    """Noise of the paper's formula at a generous ε, over 12 epochs of 1,500 records."""
    terms: dict[str, Any] = {"epsilon": 8.0, "epochs": 12, "batch": 1500, "learning_rate": 0.01}
    run = run_of({"a": 2, "b": 2}, 1500, defence="paper", **terms)
    sigma = run.plan.paper_sigmas["a"].value
    averaged = average_signs(ideal_messages(run, "a"), labels_of(run), sigma=sigma)
    for success, predicted in zip(averaged.by_looks, averaged.predicted, strict=True):
        # Six standard deviations of a share of 1,500, and what drifting weights add.
        assert abs(success.rate - predicted) < 6 * 0.5 / 1500**0.5 + 0.01
    assert averaged.predicted[-1] > averaged.predicted[0] + 0.1


def test_averaging_over_a_schedule_that_was_paid_for_stays_near_chance() -> None:
    run = run_of({"a": 2, "b": 2}, 1500, defence="sound", epochs=10, batch=1500, learning_rate=0.01)
    sigma = float(run.plan.noise_of("a").sigma_squared) ** 0.5 / (1 << run.plan.fraction_bits)
    assert all(
        p < 0.53 for p in average_signs(ideal_messages(run, "a"), labels_of(run), sigma=sigma).predicted
    )
    averaged = average_signs(ideal_messages(run, "a"), labels_of(run), sigma=sigma)
    assert abs(averaged.by_looks[-1].rate - 0.5) < 6 * 0.5 / 1500**0.5 + 0.03


def test_a_share_of_hits_comes_with_an_interval_that_holds_it() -> None:
    for hits in range(0, 41, 5):
        success = Success(hits, 40, 0.5)
        low, high = success.interval
        assert 0 <= low <= success.rate <= high <= 1
    with pytest.raises(ValueError, match="no share"):
        Success(3, 2, 0.5)
    assert Success(1, 2, 0.5).to_data()["rate"] == 0.5


def test_guesses_that_have_nothing_to_do_with_labels_are_right_by_chance() -> None:
    rng = np.random.default_rng(1)
    labels = np.where(rng.random(20_000) < 0.2, 1.0, -1.0)
    guesses = np.where(rng.random(20_000) < 0.3, 1.0, -1.0)
    success = label_success(guesses, labels)
    assert abs(success.rate - success.chance) < 6 * 0.5 / 20_000**0.5
