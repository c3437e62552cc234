"""The encrypted gradient: plans and their promise, the ideal twin, what it shows to whom, and models of it."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from encrypted_runs import WIDER, aligned_of, plan_of, request_of, run_of, tables_of
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from training_specs import planned_on
from typed import there, untyped

from colonnade.crypto.paillier import Ciphertexts, Encryptor, PrivateKey
from colonnade.crypto.paillier_vectors import Fields
from colonnade.data.table import Table
from colonnade.errors import BudgetExceeded, LocalProtocolError, PlanError, RemoteProtocolError
from colonnade.federation.federation import Federation, Run
from colonnade.methods.encrypted import protocol as encrypted_exchange
from colonnade.methods.encrypted.method import METHOD
from colonnade.methods.encrypted.plan import (
    HARMLESS_SCORES,
    SLOPES,
    Approximation,
    EncryptedPlan,
    coefficients,
)
from colonnade.methods.encrypted.protocol import (
    IdealDescent,
    OwnerState,
    encrypted_session,
    ideal_descent,
    initial_weights,
)
from colonnade.methods.table import checked_options
from colonnade.privacy.guarantee import account
from colonnade.privacy.paper import LABEL
from colonnade.protocols import paillier
from colonnade.protocols.paillier import PaillierKeys, PaillierKeysForTests
from colonnade.protocols.plans import TrainingSpec
from colonnade.randomness import SeededRandomness, SystemRandomness
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

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
def test_every_approximation_has_defaults_that_can_be_planned(
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
    terms = {"epsilon": 0.5, "delta": 0.1, "accepted_delta": 0.1}
    plan = plan_of(TWO, 50, defence="paper", epochs=30, learning_rate=0.01, batch=50, **terms)
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


@settings(max_examples=15, deadline=None)
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
                received = rng.choice([-clip, clip], len(rows))
                if rng.random() < 0.3:
                    received = rng.integers(-clip, clip + 1, len(rows))
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
def test_no_coefficient_is_steeper_than_its_slope(first: float, second: float, approximation: Any) -> None:
    found = coefficients(approximation, np.array([first, second]), np.ones(2))
    assert abs(found[0] - found[1]) <= SLOPES[approximation] * abs(first - second) + 1e-12


def test_the_piecewise_coefficient_is_that_of_the_paper() -> None:
    for label in (-1.0, 1.0):
        for score in np.linspace(-2, 2, 41):
            inside = (score - 0.5 * label) if abs(score) < 0.5 else 0.0
            outside = -label if label * score <= -0.5 else 0.0
            (found,) = coefficients("piecewise", np.array([score]), np.array([label]))
            assert abs(found - inside - outside) < 1e-12


PARTIES = ({"a": 3, "b": 4}, {"a": 0, "b": 3}, {"a": 2, "b": 1, "c": 3}, {"a": 1, "b": 2, "c": 1, "d": 2})


def ideal_of(run: Run[Any]) -> IdealDescent:
    randomness = {owner: SystemRandomness() for owner in run.plan.group.owners}
    return ideal_descent(run.plan, aligned_of(run), randomness)


@settings(max_examples=6, deadline=None)
@given(st.sampled_from(PARTIES), st.sampled_from(sorted(SLOPES)), st.integers(9, 25), st.integers(3, 9))
def test_without_noise_the_encrypted_gradient_is_the_ideal(
    widths: dict[str, int], approximation: str, rows: int, batch: int
) -> None:
    run = run_of(widths, rows, approximation=approximation, batch=batch, seed=rows, epochs=1)
    ideal = ideal_of(run)
    for owner in widths:
        assert run.result(owner).weights.tolist() == ideal.weights[owner].tolist()
        for mine, its in zip(run.result(owner).diary.sums, ideal.diaries[owner].sums, strict=True):
            assert mine.tolist() == its.tolist()


def test_the_ideal_is_gradient_descent_on_the_joint_rows() -> None:
    run = run_of(TWO, 24, epochs=3, learning_rate=2.0)
    owners = run.plan.group.owners
    holdings = [OwnerState(o, aligned_of(run)[o], run.plan, SystemRandomness()) for o in owners]
    rows = np.concatenate([holding.features for holding in holdings], axis=1)
    weights = np.zeros(5)
    for epoch in range(3):
        for batch in run.plan.batches(epoch):
            x, y = rows[batch], there(holdings[0].labels)[batch]
            weights = weights - 2.0 / (4 * 8) * x.T @ (x @ weights - 2 * y)
    found = np.concatenate([run.result(owner).weights for owner in owners])
    assert np.allclose(found, weights, atol=1e-8)


@pytest.mark.parametrize("widths", PARTIES[1:3])
def test_with_noise_it_is_the_ideal_on_the_same_messages(widths: dict[str, int], monkeypatch: Any) -> None:
    sent: dict[str, list[Any]] = {owner: [] for owner in widths}
    message = OwnerState.message

    def remembered(self: Any, rows: NDArray[np.int64]) -> Any:
        sent[self.owner].append(message(self, rows))
        return sent[self.owner][-1]

    monkeypatch.setattr(OwnerState, "message", remembered)
    run = run_of(widths, 20, defence="sound")
    replayed = {owner: iter(list(kept)) for owner, kept in sent.items()}
    monkeypatch.setattr(OwnerState, "message", lambda self, rows: next(replayed[self.owner]))
    ideal = ideal_of(run)
    for owner in widths:
        assert run.result(owner).weights.tolist() == ideal.weights[owner].tolist()
        # One message a batch, however many receivers there are: fresh noise for each could be averaged.
        assert len(sent[owner]) == run.plan.schedule.steps
        assert all(np.all(np.abs(one) <= run.plan.clips[owner]) for one in sent[owner])


def test_noise_is_drawn_before_clipping_and_clipped_before_encryption() -> None:
    plan = plan_of({"a": 2, "b": 2}, 400, defence="sound", batch=400)
    table = {t.party: t for t in tables_of({"a": 2, "b": 2}, 400)}
    holding = OwnerState("a", table["a"], plan, SystemRandomness())
    message = holding.message(np.arange(400))
    sigma = float(plan.noise_of("a").sigma_squared) ** 0.5
    assert sigma > 10 * plan.clips["a"]
    # With noise much larger than the clip nearly all messages lie on its edges, about half on each.
    edges = np.mean(np.abs(message) == plan.clips["a"])
    assert edges > 0.8 and 0.3 < np.mean(message > 0) < 0.7


def test_a_full_length_key_gives_the_same() -> None:
    run = run_of(TWO, 12, defence="none", keys=PaillierKeys(), epochs=1, batch=12)
    assert run.result("b").weights.tolist() == ideal_of(run).weights["b"].tolist()
    assert run.plan.questions("b") == 3
    assert plan_of(TWO, 12, defence="sound", keys=PaillierKeys(), batch=12).questions("b") == 1


@pytest.mark.parametrize("initialisation", ["xavier", "kaiming", "large"])
def test_random_starting_weights_have_their_scale(initialisation: str) -> None:
    plan = plan_of({"a": 30, "b": 70}, 10, initialisation=initialisation, batch=10)
    drawn = np.concatenate([initial_weights(plan, "b", SeededRandomness(seed)) for seed in range(40)])
    variance = {"xavier": 2 / 101, "kaiming": 2 / 100, "large": 1.0}[initialisation]
    # 2,800 draws: the relative error of their mean square is below 0.03 in standard deviation.
    assert abs(np.mean(drawn**2) / variance - 1) < 0.2
    assert abs(np.mean(drawn)) < 0.2 * variance**0.5


def test_weights_stay_in_the_ball_and_nothing_is_written_down_unasked() -> None:
    run = run_of({"a": 2, "b": 2}, 30, defence="sound", radius=0.05, learning_rate=3.0)
    for owner in "ab":
        assert np.linalg.norm(run.result(owner).weights) <= 0.05 * (1 + 1e-12)
    assert run_of({"a": 2, "b": 2}, 12, record=False).result("a").diary is None


def test_weights_that_run_away_stop_the_run_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encrypted_exchange, "LARGEST_SCORE", 1)
    with pytest.raises(LocalProtocolError, match="weights run away"):
        run_of({"a": 2, "b": 2}, 12)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_weights_that_are_not_finite_stop_the_run_by_name(wrong: float, monkeypatch: Any) -> None:
    monkeypatch.setattr(encrypted_exchange, "initial_weights", lambda plan, owner, draws: np.full(2, wrong))
    with pytest.raises(LocalProtocolError, match="not a finite number"):
        run_of({"a": 2, "b": 2}, 12)


def test_all_is_charged_first_and_a_ledger_that_says_no_stops_a_run_before_any_key(monkeypatch: Any) -> None:
    federation, requested = (
        Federation(tables_of(TWO, 24), budget=(0.6, 1e-5)),
        request_of(TWO, defence="sound"),
    )
    federation.run(encrypted_session, requested)
    spent = [total.epsilon for total in federation.ledgers["a"].totals()]
    assert len(spent) == 1 and 0.49 < spent[0] <= 0.5
    monkeypatch.setattr(encrypted_exchange, "make_key", lambda *_: pytest.fail("a key was made"))
    with pytest.raises(BudgetExceeded):
        federation.run(encrypted_session, requested)


class UnderAnotherKey:
    """Asks with ciphertexts of a key that nobody else has."""

    def __init__(self, count: int) -> None:
        self.count = count

    def ask(self, numbers: Ciphertexts, integers: NDArray[np.int64]) -> Ciphertexts:
        stranger = PrivateKey.generate_for_tests(SystemRandomness(), numbers.key.bits)
        return Encryptor.for_owner(stranger, SystemRandomness()).encrypt([1] * self.count)

    def read(self, answers: Any, records: Any) -> Any:
        return ()


def test_ciphertexts_of_another_key_are_refused() -> None:
    plan = plan_of({"a": 2, "b": 2}, 12, defence="sound")

    async def session(party: Party, table: Table | None, request: TrainingSpec) -> Any:
        odd = UnderAnotherKey(plan.questions("b")) if party.name == "b" else None
        return await encrypted_session(party, table, request, odd)

    with pytest.raises(RemoteProtocolError, match=r"a at step 'batch 0 asked', from b"):
        run_of({"a": 2, "b": 2}, 12, defence="sound", session=session)


def test_the_owner_of_the_label_may_stand_anywhere_in_the_group() -> None:
    widths = {"a": 2, "b": 2, "c": 1}
    tables = tables_of(widths, 20)
    for order in ((1, 0, 2), (2, 1, 0)):
        federation = Federation([tables[i] for i in order], budget=(5.0, 1e-4), public=True)
        run = federation.run(encrypted_session, request_of(widths))
        assert run.plan.active == "a" and run.plan.group.owners[0] != "a"
        for owner in widths:
            assert run.result(owner).weights.tolist() == ideal_of(run).weights[owner].tolist()


def altered(array: str, change: Callable[..., Any]) -> Callable[..., Any]:
    """The message with one array changed."""

    def alter(message: Message) -> Message:
        values = message.arrays[array].copy()
        return Message(message.fields, {**message.arrays, array: change(values)})

    return alter


def first_is(value: int) -> Callable[..., Any]:
    def change(values: NDArray[np.uint8]) -> NDArray[np.uint8]:
        values[0] = np.frombuffer(int(value).to_bytes(values.shape[1], "little"), dtype=np.uint8)
        return values

    return change


def hostile(monkeypatch: Any, owner: str, step: str, change: Callable[..., Any], **terms: Any) -> Any:
    """A run in which one owner sends something else at one step."""
    real = untyped(encrypted_exchange).tell

    async def announced(party: Party, to: str, at: str, message: Message) -> Any:
        return await real(party, to, at, change(message) if (party.name, at) == (owner, step) else message)

    for module in (encrypted_exchange, paillier):
        monkeypatch.setattr(module, "tell", announced)
    return run_of({"a": 2, "b": 2}, 12, **terms)


@pytest.mark.parametrize(
    ("owner", "step", "change", "why"),
    [
        ("a", "batch 0 for b", altered("ciphertexts", first_is(0)), "outside"),
        ("a", "batch 0 for b", altered("ciphertexts", lambda values: values[1:]), "expected an array"),
        ("b", "batch 0 asked", altered("ciphertexts", first_is(0)), "outside"),
        ("b", "batch 1 asked", altered("ciphertexts", lambda values: values[:, 1:]), "expected an array"),
        ("a", "batch 0 answered", altered("answers", lambda values: values[:, 1:]), "expected an array"),
        ("a", "batch 0 answered", lambda message: Message(), "expected an array"),
        ("b", "key", lambda message: Message(), "neither a modulus nor a proof"),
        ("b", "key", lambda message: Message({**message.fields, "proof": b"none"}), "proof"),
    ],
)
@pytest.mark.parametrize("defence", ["none", "sound"])
def test_what_a_peer_gets_wrong_ends_the_run_by_name(
    monkeypatch: Any, owner: str, step: str, change: Callable[..., Any], why: str, defence: str
) -> None:
    with pytest.raises(RemoteProtocolError, match=f"at step '{step}', from {owner}: .*({why})"):
        hostile(monkeypatch, owner, step, change, defence=defence)


def test_an_answer_that_is_no_sum_ends_the_run_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a defence a wrong answer is a random number modulo N, which no sum is but once in 2^190."""
    change = altered("answers", lambda values: values ^ 1)
    with pytest.raises(RemoteProtocolError, match=r"at step 'batch 0 answered', from a: .*(packed|sum)"):
        hostile(monkeypatch, "a", "batch 0 answered", change)


def test_scores_that_are_too_large_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the owner of the label reads the others' scores, it reads none beyond what was agreed."""
    far = 1 << 80
    monkeypatch.setattr(OwnerState, "on_grid", lambda self, values: np.full(len(values), far, dtype=object))
    with pytest.raises(RemoteProtocolError, match=r"has more than the .* bits agreed"):
        run_of({"a": 2, "b": 2}, 12, approximation="minimax")


def requested(**options: Any) -> TrainingSpec:
    return request_of(TWO, **{"epsilon": 1.0, "batch": 20, "defence": "sound", "public": (), **options})


def federation(*, public: bool = True, rows: int = 60) -> Federation:
    return Federation(tables_of(TWO, rows), budget=(20.0, 1e-5), public=public)


def raw_rows(tables: Iterable[Table]) -> dict[str, NDArray[np.float64]]:
    return {
        name: np.concatenate([block.columns[name] for block in table.blocks()])
        for table in tables
        for name in (column.name for column in table.schema.columns)
    }


def test_each_defence_says_what_it_is() -> None:
    sound = untyped(METHOD.train(federation(public=False), requested(defence="sound")))
    assert [item.epsilon <= 1.0 for item in sound.privacy] == [True, True] and sound.figures == ()
    none = untyped(METHOD.train(federation(), requested(defence="none")))
    assert tuple(none.privacy) == () and "no ε" in none.notes[0]
    paper = untyped(METHOD.train(federation(), requested(epsilon=0.5, defence="paper", learning_rate=0.5)))
    assert tuple(paper.privacy) == () and LABEL in paper.notes[0]
    assert len(paper.figures) == 2 and all(LABEL in str(figure) for figure in paper.figures)


def test_scores_of_the_model_are_those_of_the_parties_together() -> None:
    parties = federation()
    learnt = untyped(METHOD.train(parties, requested(defence="none")))
    run = learnt.run
    owners = {o: OwnerState(o, run.aligned[o], run.plan, SystemRandomness()) for o in TWO}
    together = sum(owners[o].features @ run.result(o).weights for o in TWO)
    scores = learnt.frame.features(raw_rows(parties.tables.values())) @ learnt.coefficients[0]
    # Rows of the run are rounded to the grid 1/γ.
    assert np.allclose(scores, together, atol=1e-3 * np.abs(learnt.coefficients).sum())
    assert learnt.split and learnt.intercepts.tolist() == [0.0]


def test_without_a_defence_it_learns_as_well_as_least_squares() -> None:
    parties = federation(rows=200)
    options = {"epochs": 60, "batch": 200, "learning_rate": 7.0, "defence": "none"}
    learnt = untyped(METHOD.train(parties, requested(**options)))
    features = learnt.frame.features(raw_rows(parties.tables.values()))
    labels = OwnerState("a", learnt.run.aligned["a"], learnt.run.plan, SystemRandomness()).labels
    fitted, *_ = np.linalg.lstsq(features, 2 * there(labels), rcond=None)
    # The Taylor coefficient is the gradient of ‖Xθ − 2y‖²/8.
    assert np.allclose(learnt.coefficients[0], fitted, rtol=0.05, atol=0.05)


def test_between_machines_every_owner_keeps_its_own_weights() -> None:
    run = untyped(METHOD.train(federation(public=False), requested()).run)
    own = untyped(METHOD.model(requested(), {"b": run.result("b")}))
    assert own.frame.feature_names == ("b0", "b1", "b2")
    assert own.coefficients[0].tolist() == run.result("b").weights.tolist()
    nobody = untyped(METHOD.model(requested(), {"server": run.result("server")}))
    assert nobody.coefficients.size == 0 and nobody.split
