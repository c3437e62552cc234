"""Plans of the encrypted gradient: what they refuse, what they promise, and that the promise covers every neighbour."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from encrypted_runs import WIDER, plan_of, tables_of
from hypothesis import given, settings
from hypothesis import strategies as st
from training_specs import planned_on
from typed import untyped

from colonnade.crypto.paillier_vectors import Fields
from colonnade.errors import PlanError
from colonnade.methods.encrypted.method import METHOD
from colonnade.methods.encrypted.plan import (
    HARMLESS_SCORES,
    SLOPES,
    Approximation,
    EncryptedPlan,
    coefficients,
)
from colonnade.methods.encrypted.protocol import OwnerState
from colonnade.methods.table import checked_options
from colonnade.privacy.guarantee import account
from colonnade.privacy.paper import LABEL
from colonnade.protocols.paillier import PaillierKeys, PaillierKeysForTests
from colonnade.protocols.plans import TrainingSpec
from colonnade.randomness import SystemRandomness

TWO = {"a": 2, "b": 3}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"batch": 21}, "between 1 and the 20 aligned rows"),
        ({"batch": 0}, "between 1 and the 20"),
        ({"epochs": 0}, "at least one"),
        ({"learning_rate": 0.0}, "above 0 and at most"),
        ({"learning_rate": 8.5}, r"at most 7\.9"),
        ({"learning_rate": float("nan")}, "above 0 and at most"),
        ({"approximation": "piecewise", "learning_rate": 2.5}, r"at most 1\.9"),
        ({"defence": "paper", "learning_rate": 1.5}, "at most 1"),
        ({"radius": 0.0}, "radius"),
        ({"radius": 600.0, "defence": "sound"}, "at most 512"),
        ({"public": ("a",)}, "b did not"),
        ({"public": (), "defence": "paper"}, "public data in one process"),
        ({"defence": "sound", "approximation": "minimax"}, "worked out for approximation = 'taylor'"),
        ({"defence": "paper", "approximation": "piecewise"}, "worked out for"),
        ({"epsilon": -1.0}, "positive"),
        ({"delta": 0.2}, "not below 1/n"),
        ({"keys": PaillierKeysForTests(128)}, "no room"),
        ({"defence": "sound", "epochs": 10**7, "batch": 1}, "floating point"),
        ({"defence": "sound", "epsilon": 1e-9, "delta": 1e-14}, "no noise up to"),
    ],
)
def test_what_a_plan_refuses(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plan_of(TWO, 20, **changes)


@pytest.mark.parametrize("encoding", ["linear", "circle"])
@pytest.mark.parametrize(
    ("defence", "approximation"),
    [("sound", "taylor"), ("paper", "taylor"), *(("none", approximation) for approximation in SLOPES)],
)
def test_every_approximation_can_be_planned_with_its_own_defaults(
    defence: str, approximation: str, encoding: str
) -> None:
    chosen = {"defence": defence, "approximation": approximation, "encoding": encoding}
    requested = TrainingSpec("classification", 1.0, options=checked_options(METHOD, chosen))
    tables = tables_of(TWO, 20)
    planned = planned_on(replace(requested, public=tuple(TWO)), tables)
    assert planned.options.approximation == approximation


def test_keys_below_2048_bits_and_three_classes_are_refused() -> None:
    with pytest.raises(PlanError, match="2048 or 3072 bits, not 1024"):
        PaillierKeys(1024)
    tables = tables_of(TWO, 20, classes=("no", "maybe"))
    schema = tables[0].public()
    three = replace(schema, label=replace(untyped(schema.label), classes=("no", "maybe", "yes")))
    plan = plan_of(TWO, 20)
    with pytest.raises(PlanError, match="two classes"):
        plan.spec.plan(plan.group, (three, tables[1].public()), 20)


@pytest.mark.parametrize("widths", [TWO, {"a": 0, "b": 2}, {"a": 1, "b": 1, "c": 2}])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 4.0])
def test_every_owner_has_at_most_epsilon_about_the_others(widths: dict[str, int], epsilon: float) -> None:
    plan = plan_of(widths, 50, defence="sound", epsilon=epsilon, epochs=4)
    assert [item.observer.name for item in plan.guarantees] == [f"party:{owner}" for owner in widths]
    assert all(item.epsilon <= epsilon for item in plan.guarantees)
    assert max(item.epsilon for item in plan.guarantees) > 0.98 * epsilon
    lines = plan.release("b", run="r", reproducible=False).lines
    assert "party:b" not in [line.observer for line in lines] and lines


def test_nothing_is_promised_without_a_sound_defence_and_more_epochs_need_more_noise() -> None:
    for defence in ("none", "paper"):
        plan = plan_of(TWO, 50, defence=defence)
        assert plan.guarantees == () and plan.release("a", run="r", reproducible=False).lines == ()
    assert all(LABEL in str(figure) for figure in plan_of(TWO, 50, defence="paper").figures)
    few, many = (plan_of(TWO, 50, defence="sound", epochs=epochs) for epochs in (2, 8))
    assert few.noise_of("a").sigma_squared < many.noise_of("a").sigma_squared
    assert abs(account(few.views[0].event, 1e-5).epsilon - account(many.views[0].event, 1e-5).epsilon) < 1e-3


def test_the_noise_is_that_of_the_papers_and_the_soundness_studys_figures() -> None:
    terms = {
        "epsilon": 0.5,
        "delta": 0.1,
        "accepted_delta": 0.1,
        "epochs": 30,
        "learning_rate": 0.01,
        "batch": 50,
    }
    plan = plan_of(TWO, 50, defence="paper", **terms)
    one = 1 << plan.fraction_bits
    sigmas = {owner: float(plan.noise_of(owner).sigma_squared) ** 0.5 / one for owner in TWO}
    assert abs(sigmas["a"] - plan.paper_sigmas["a"].value) < 1e-6
    # √(2 ln 12.5)·8√30/0.5 and half of it: what moves the weights adds next to nothing.
    assert abs(sigmas["a"] / 196.97 - 1) < 1e-3 and abs(sigmas["b"] / 98.49 - 1) < 1e-3
    # n = 12665, s = 256, e = 30, η = 0.01, k = 2: with caps of 1 the sensitivities are 43.84 and 21.95; these columns
    # have caps of 1/√2 each, so less.
    plan = plan_of({"a": 2, "b": 2}, 12665, defence="sound", batch=256, epochs=30, learning_rate=0.01)
    one = 1 << plan.fraction_bits
    assert plan.sensitivities("a").total / one < 43.84 and plan.sensitivities("b").total / one < 21.95
    assert float(plan.noise_of("a").sigma_squared) ** 0.5 / one < 308


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([TWO, {"a": 0, "b": 2}, {"a": 3, "b": 1, "c": 2}]),
    st.integers(0, 10**6),
    st.integers(1, 12),
    st.sampled_from([0.05, 1.0, 7.0]),
    st.sampled_from([0.2, 2.0]),
)
def test_no_neighbour_moves_the_messages_further_than_planned(
    widths: dict[str, int], seed: int, batch: int, rate: float, radius: float
) -> None:
    """Two runs that differ in an owner's part of one record and see the same messages from everybody else."""
    rng = np.random.default_rng(seed)
    plan = plan_of(widths, 12, defence="sound", batch=batch, learning_rate=rate, radius=radius, epochs=3)
    for owner in widths:
        first, second = pair_of_holdings(plan, owner, widths, rng)
        clip = sum(size for name, size in plan.clips.items() if name != owner)
        squares = 0.0
        for epoch in range(3):
            for rows in plan.batches(epoch):
                sent = [holding.on_grid(holding._terms(rows)) for holding in (first, second)]
                squares += float(np.sum((sent[0] - sent[1]).astype(float) ** 2))
                received = (
                    rng.choice([-clip, clip], len(rows))
                    if rng.random() < 0.7
                    else rng.integers(-clip, clip + 1, len(rows))
                )
                for holding in (first, second):
                    holding.descend_split(rows, [int(v) for v in holding.integers[rows].T @ received])
        assert squares <= plan.sensitivities(owner).total ** 2


def pair_of_holdings(plan: EncryptedPlan, owner: str, widths: dict[str, int], rng: Any) -> list[OwnerState]:
    """An owner's rows, and the same with one record turned around as far as columns and label allow."""
    (table,) = (item for item in tables_of(widths, 12, seed=int(rng.integers(1000))) if item.party == owner)
    pair = [OwnerState(owner, table, plan, SystemRandomness()) for _ in range(2)]
    record = int(rng.integers(12))
    edge = np.full(pair[0].integers.shape[1], np.abs(pair[0].integers).max(initial=0))
    for holding, sign in zip(pair, (1, -1), strict=True):
        holding.integers = holding.integers.copy()
        holding.integers[record] = sign * edge
        holding.features = holding.integers / plan.spec.gamma
        if holding.labels is not None:
            holding.labels = holding.labels.copy()
            holding.labels[record] = sign
    return pair


def test_the_worst_neighbour_comes_close_to_what_was_planned() -> None:
    """Power of the test above: with one record a batch the own entries are nearly all there is."""
    plan = plan_of(
        {"a": 1, "b": 1}, 12, defence="sound", batch=1, learning_rate=0.001, radius=0.001, epochs=3
    )
    first, second = pair_of_holdings(plan, "a", {"a": 1, "b": 1}, np.random.default_rng(1))
    squares = 0.0
    for epoch in range(3):
        for rows in plan.batches(epoch):
            sent = [holding.on_grid(holding._terms(rows)) for holding in (first, second)]
            squares += float(np.sum((sent[0] - sent[1]).astype(float) ** 2))
    assert squares > 0.95 * plan.sensitivities("a").total ** 2


@pytest.mark.parametrize("widths", [TWO, {"a": 40, "b": 100}, {"a": 1, "b": 1, "c": 2}])
@pytest.mark.parametrize("defence", ["none", "sound", "paper"])
def test_fields_hold_the_largest_sum_and_masks_have_room(widths: dict[str, int], defence: str) -> None:
    plan = plan_of(widths, 20, defence=defence, keys=PaillierKeys())
    for receiver in widths:
        fields = plan.packing(receiver)
        assert plan.largest_sum(receiver) < fields.limit
        assert plan.questions(receiver) * fields.count >= plan.width(receiver)
        if plan.bounded:
            assert 2 * plan.mask(receiver).bound < 1 << (plan.options.keys.bits - 1)
        else:
            assert fields.count == 1 and fields.bits < plan.options.keys.bits


def test_batches_hold_every_record_once_and_ciphertexts_room_for_more_answers() -> None:
    for defence in ("none", "sound"):
        plan = plan_of(TWO, 20, defence=defence, batch=6)
        epochs = [np.concatenate(plan.batches(epoch)).tolist() for epoch in range(3)]
        assert all(sorted(order) == list(range(20)) for order in epochs)
        assert (epochs[0] == epochs[1]) == (defence == "sound")
    plan = plan_of({"a": 13, "b": 10}, 256, batch=256, keys=PaillierKeys())
    number = sum(plan.extent(owner) for owner in plan.relay("b")).bit_length() + 2
    assert Fields.most(number, 2048) * plan.questions("b") >= 256
    assert plan_of(TWO, 20, defence="sound", keys=WIDER).questions("b") == 1


@given(st.floats(-20, 20), st.sampled_from([-1.0, 1.0]), st.sampled_from(sorted(SLOPES)))
def test_small_scores_leave_the_sign_of_a_coefficient_to_the_label(
    score: float, label: float, approximation: Approximation
) -> None:
    (found,) = coefficients(approximation, np.array([score]), np.array([label]))
    if abs(score) < HARMLESS_SCORES[approximation]:
        assert np.sign(found) == -label


@given(st.floats(-4, 4), st.floats(-4, 4), st.sampled_from(sorted(SLOPES)))
def test_no_coefficient_is_steeper_than_its_slope(
    first: float, second: float, approximation: Approximation
) -> None:
    found = coefficients(approximation, np.array([first, second]), np.ones(2))
    assert abs(found[0] - found[1]) <= SLOPES[approximation] * abs(first - second) + 1e-12


def test_the_piecewise_coefficient_is_that_of_the_paper() -> None:
    for label in (-1.0, 1.0):
        for score in np.linspace(-2, 2, 41):
            inside = (score - 0.5 * label) if abs(score) < 0.5 else 0.0
            outside = -label if label * score <= -0.5 else 0.0
            (found,) = coefficients("piecewise", np.array([score]), np.array([label]))
            assert abs(found - inside - outside) < 1e-12
