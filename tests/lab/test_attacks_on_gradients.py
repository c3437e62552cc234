"""Attacks on recorded transcripts: they succeed on the undefended protocol and fail on the defended one."""

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from encrypted_runs import request_of, tables_of
from numpy.typing import NDArray
from typed import there

from colonnade.lab import attacks
from colonnade.lab.campaign import Transcript, arbiters, messages_by_epoch, recorded

Array = NDArray[np.float64]
APPROXIMATIONS = ("taylor", "minimax", "piecewise")


@cache
def run_of(widths: str, rows: int, **changes: Any) -> Transcript:
    """Of as many parties as digits, each with so many columns; the first holds the label."""
    columns = {party: int(width) for party, width in zip("abc", widths, strict=False)}
    tables = {table.party: table for table in tables_of(columns, rows)}
    return recorded(tables, request_of(columns, **changes))[0]


def arbiter_of(columns: dict[str, int], rows: int, **changes: Any) -> Any:
    tables = {table.party: table for table in tables_of(columns, rows)}
    return arbiters(tables, request_of(columns, **changes))


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
@pytest.mark.parametrize("widths", ["38", "283"])
def test_labels_are_read_from_the_transcript_with_as_many_columns_as_records(
    approximation: str, widths: str
) -> None:
    run = run_of(widths, 64, approximation=approximation)
    attack = attacks.recover_labels(run.view("b"), run.labels)
    assert attack.determined == 1.0
    assert attack.by_epoch[0].rate == 1.0 and attack.first.rate == 1.0
    assert attack.first.interval[0] > attack.first.chance + 0.3
    assert (attack.safe_steps is None) == (approximation == "piecewise")


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_the_same_attack_reads_what_an_arbiter_tells_every_party(approximation: str) -> None:
    transcript, _ = arbiter_of({"a": 3, "b": 8}, 64, approximation=approximation)
    assert attacks.recover_labels(transcript.view("b"), transcript.labels).first.rate == 1.0


@pytest.mark.parametrize("initialisation", ["xavier", "kaiming"])
def test_small_random_starting_weights_do_not_save_the_labels(initialisation: str) -> None:
    transcript, _ = arbiter_of({"a": 40, "b": 8}, 64, initialisation=initialisation)
    score = transcript.largest_starting_score
    attack = attacks.recover_labels(transcript.view("b"), transcript.labels, largest_score=score)
    assert 0 < score < 2 and attack.by_epoch[0].rate == 1.0
    assert 0 < there(attack.safe_steps).value < 29, "fewer steps than from zero"
    assert (
        attacks.recover_labels(transcript.view("b"), transcript.labels, largest_score=2.5).safe_steps is None
    )


def test_the_criterion_holds_for_as_many_steps_as_it_says() -> None:
    run = run_of("18", 64, learning_rate=0.5, epochs=1)
    attack = attacks.recover_labels(run.view("b"), run.labels)
    safe = int(there(attack.safe_steps).value)
    first = np.concatenate(run.plan.batches(0)[:safe])
    assert safe == 6 and attacks.label_success(attack.guesses[first], run.labels[first]).rate == 1.0


def test_large_batches_leave_the_coefficients_undetermined() -> None:
    run = run_of("34", 96, batch=48)
    assert run.view("b").determined == 0.0
    assert attacks.recover_labels(run.view("b"), run.labels).by_epoch[0].rate < 0.95


@pytest.mark.parametrize(("widths", "rows", "batch"), [("03", 60, 12), ("06", 24, 6)])
def test_labels_alone_at_their_owner_are_read_from_a_sum_or_with_enough_columns(
    widths: str, rows: int, batch: int
) -> None:
    run = run_of(widths, rows, batch=batch, epochs=1)
    guesses = attacks.labels_without_other_columns(run.view("b"), run.holdings["b"].integers)
    assert attacks.label_success(guesses, run.labels).rate == 1.0


def test_signs_are_given_only_where_all_solutions_agree() -> None:
    assert attacks.signs_that_sum_to(np.array([[1], [1], [4]]), np.array([4])).tolist() == [0.0, 0.0, 1.0]
    assert attacks.signs_that_sum_to(np.array([[1], [2]]), np.array([9])).tolist() == [0.0, 0.0]


def column_of(run: Transcript, attacker: str, target: str, labels: Array) -> tuple[Array, Array]:
    """What the attacker makes of the other's only column, with the sign of the truth, and the truth."""
    scores = attacks.foreign_scores(run.view(attacker), labels)
    found = attacks.recover_column(scores, rows=run.plan.rows, step=run.plan.step_size)
    truth = run.holdings[target].features[:, 0]
    return found * np.sign(np.nansum(found * truth)), truth


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_the_only_column_of_another_owner_is_read_up_to_a_sign(approximation: str) -> None:
    run = run_of("81", 48, approximation=approximation, epochs=6)
    found, truth = column_of(run, "a", "b", run.labels)
    success = attacks.value_success(found, truth)
    assert success.rate == 1.0 and success.chance < 0.1
    assert np.max(np.abs(found - truth)) < 1e-6


def test_the_owner_without_the_label_reads_the_other_column_once_it_has_the_labels() -> None:
    run = run_of("18", 48, epochs=6)
    labels = attacks.recover_labels(run.view("b"), run.labels).guesses
    assert attacks.value_success(*column_of(run, "b", "a", labels)).rate == 1.0


def test_a_single_look_gives_no_column() -> None:
    run = run_of("81", 16, epochs=1)
    assert np.isnan(column_of(run, "a", "b", run.labels)[0]).all()


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_inner_products_of_several_columns_are_read_although_the_columns_are_not(approximation: str) -> None:
    run = run_of("62", 12, approximation=approximation, batch=6, epochs=12)
    scores = attacks.foreign_scores(run.view("a"), run.labels)
    found = attacks.recover_inner_products(scores, rows=12, step=run.plan.step_size, starts_at_zero=True)
    rows = run.holdings["b"].features
    truth = rows @ rows.T
    assert np.linalg.norm(found - truth) < 1e-3 * np.linalg.norm(truth)
    assert attacks.value_success(found, truth).rate == 1.0


def sigma_of(plan: Any) -> float:
    return math.sqrt(plan.noise_of("a").sigma_squared) / float(1 << plan.fraction_bits)


def test_labels_are_not_read_with_the_sound_defence() -> None:
    """At (0.5, 1e-5) the share of signs read right is Φ(2·√looks/σ), within 0.03 of a half; here 1,600 records."""
    run, _ = arbiter_of({"a": 3, "b": 8}, 1600, defence="sound", epochs=1, learning_rate=0.01)
    attack = attacks.recover_labels(run.view("b"), run.labels)
    assert attack.determined == 1.0
    assert attacks.predicted_success(2.0, sigma_of(run.plan), 1) < 0.53
    # 1,600 coins: beyond 0.5 ± 0.08 once in 10^9 runs.
    assert abs(attack.first.rate - attack.first.chance) < 0.08 + 0.03


# Six standard deviations of a share of 1,500 people.
CHANCE = 6 * 0.5 / 1500**0.5


def test_averaging_reads_signs_as_often_as_the_normal_law_says() -> None:
    """Noise of the paper's formula at a generous ε, over 12 epochs."""
    terms: dict[str, Any] = {"epsilon": 8.0, "epochs": 12, "batch": 1500, "learning_rate": 0.01}
    run, ideal = arbiter_of({"a": 2, "b": 2}, 1500, defence="paper", **terms)
    messages = messages_by_epoch(run.plan, ideal, "a")
    averaged = attacks.average_signs(messages, run.labels, sigma=run.plan.paper_sigmas["a"].value)
    for success, predicted in zip(averaged.by_looks, averaged.predicted, strict=True):
        assert abs(success.rate - predicted) < CHANCE + 0.01, "drifting weights add little"
    assert averaged.predicted[-1] > averaged.predicted[0] + 0.1


def test_averaging_over_a_schedule_that_was_paid_for_stays_near_chance() -> None:
    terms: dict[str, Any] = {"epochs": 10, "batch": 1500, "learning_rate": 0.01}
    run, ideal = arbiter_of({"a": 2, "b": 2}, 1500, defence="sound", **terms)
    messages = messages_by_epoch(run.plan, ideal, "a")
    averaged = attacks.average_signs(messages, run.labels, sigma=sigma_of(run.plan))
    assert max(averaged.predicted) < 0.53
    assert abs(averaged.by_looks[-1].rate - 0.5) < CHANCE + 0.03


def test_a_share_of_hits_comes_with_an_interval_that_holds_it() -> None:
    for hits in range(0, 41, 5):
        success = attacks.Success(hits, 40, 0.5)
        low, high = success.interval
        assert 0 <= low <= success.rate == success.record.rate <= high <= 1


def test_guesses_that_have_nothing_to_do_with_labels_are_right_by_chance() -> None:
    rng = np.random.default_rng(1)
    labels = np.where(rng.random(20_000) < 0.2, 1.0, -1.0)
    guesses = np.where(rng.random(20_000) < 0.3, 1.0, -1.0)
    success = attacks.label_success(guesses, labels)
    assert abs(success.rate - success.chance) < 6 * 0.5 / 20_000**0.5
