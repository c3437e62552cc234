"""The encrypted gradient against its ideal twin, what it shows to whom, and what it refuses."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from encrypted_runs import aligned_of, plan_of, request_of, run_of, tables_of
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from plan_runs import inputs_for
from typed import there, untyped

from colonnade.crypto.paillier import Ciphertexts, Encryptor, PrivateKey
from colonnade.data.table import Table
from colonnade.errors import BudgetExceeded, LocalProtocolError, RemoteProtocolError
from colonnade.federation.federation import Federation, Hooks, Run
from colonnade.ledger import Ledger
from colonnade.methods.encrypted import protocol as encrypted_exchange
from colonnade.methods.encrypted import protocol as encrypted_holding
from colonnade.methods.encrypted.protocol import (
    IdealDescent,
    OwnerState,
    encrypted_session,
    ideal_descent,
    initial_weights,
)
from colonnade.protocols import paillier
from colonnade.protocols.paillier import PaillierKeys
from colonnade.protocols.plans import TrainingSpec
from colonnade.randomness import SeededRandomness, SystemRandomness
from colonnade.runtime.party import Party
from colonnade.runtime.run import run_here
from colonnade.runtime.wire import Message

PARTIES = ({"a": 3, "b": 4}, {"a": 0, "b": 3}, {"a": 2, "b": 1, "c": 3}, {"a": 1, "b": 2, "c": 1, "d": 2})
APPROXIMATIONS = ("taylor", "minimax", "piecewise")


def ideal_of(run: Run[Any]) -> IdealDescent:
    randomness = {owner: SystemRandomness() for owner in run.plan.group.owners}
    return ideal_descent(run.plan, aligned_of(run), randomness)


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(PARTIES),
    st.sampled_from(APPROXIMATIONS),
    st.integers(9, 40),
    st.integers(1, 9),
    st.integers(0, 99),
)
def test_without_noise_the_encrypted_gradient_is_the_ideal(
    widths: dict[str, int], approximation: str, rows: int, batch: int, seed: int
) -> None:
    run = run_of(widths, rows, approximation=approximation, batch=batch, seed=seed, epochs=1)
    ideal = ideal_of(run)
    for owner in widths:
        assert run.result(owner).weights.tolist() == ideal.weights[owner].tolist()
        for mine, its in zip(run.result(owner).diary.sums, ideal.diaries[owner].sums, strict=True):
            assert mine.tolist() == its.tolist()


def test_the_ideal_is_gradient_descent_on_the_joint_rows() -> None:
    run = run_of({"a": 2, "b": 3}, 24, epochs=3, learning_rate=2.0)
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


@pytest.mark.parametrize("widths", PARTIES)
def test_with_noise_the_encrypted_gradient_is_the_ideal_on_the_same_messages(
    widths: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: dict[str, list[Any]] = {owner: [] for owner in widths}
    message = OwnerState.message

    def remembered(self: Any, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        sent[self.owner].append(message(self, rows))
        result: NDArray[np.int64] = sent[self.owner][-1]
        return result

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


@pytest.mark.parametrize("defence", ["none", "sound"])
def test_a_full_length_key_gives_the_same(defence: str) -> None:
    run = run_of({"a": 2, "b": 3}, 12, defence=defence, keys=PaillierKeys(), epochs=1, batch=12)
    if defence == "none":
        assert run.result("b").weights.tolist() == ideal_of(run).weights["b"].tolist()
    assert run.plan.questions("b") == (3 if defence == "none" else 1)


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
    monkeypatch.setattr(encrypted_holding, "LARGEST_SCORE", 1)
    with pytest.raises(LocalProtocolError, match="weights run away"):
        run_of({"a": 2, "b": 2}, 12)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_weights_that_are_not_finite_stop_the_run_by_name(
    wrong: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encrypted_holding, "initial_weights", lambda plan, owner, draws: np.full(2, wrong))
    with pytest.raises(LocalProtocolError, match="not a finite number"):
        run_of({"a": 2, "b": 2}, 12)


def test_a_ledger_that_says_no_stops_the_run_before_any_key_and_all_is_charged_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    federation = Federation(tables_of({"a": 2, "b": 2}, 24), budget=(0.6, 1e-5))
    federation.run(encrypted_session, request_of({"a": 2, "b": 2}, defence="sound"))
    spent = [total.epsilon for total in federation.ledgers["a"].totals()]
    assert len(spent) == 1 and 0.49 < spent[0] <= 0.5
    with pytest.raises(BudgetExceeded):
        federation.run(encrypted_session, request_of({"a": 2, "b": 2}, defence="sound"))
    monkeypatch.setattr(
        "colonnade.methods.encrypted.protocol.make_key", lambda *_: pytest.fail("a key was made")
    )
    tables = tables_of({"a": 2, "b": 2}, 12)
    group = Federation(tables, budget=(1.0, 1e-5)).group
    inputs = inputs_for(group, tables, {name: Ledger.in_memory(name) for name in group.members})
    with pytest.raises(BudgetExceeded):
        run_here(encrypted_session, group, inputs, request_of({"a": 2, "b": 2}, defence="sound"))


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


def test_owners_learn_of_each_batch_how_far_the_run_is() -> None:
    announced = []
    hooks = Hooks(lambda step, done, total: announced.append((step, done, total)))
    federation = Federation(tables_of({"a": 2, "b": 2}, 16), budget=(1.0, 1e-4), public=True, hooks=hooks)
    federation.run(encrypted_session, request_of({"a": 2, "b": 2}))
    assert [entry for entry in announced if entry[0] == "batches"][-1] == ("batches", 4, 4)


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


def hostile(
    monkeypatch: pytest.MonkeyPatch, owner: str, step: str, change: Callable[..., Any], **terms: Any
) -> Any:
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
    monkeypatch: pytest.MonkeyPatch, owner: str, step: str, change: Callable[..., Any], why: str, defence: str
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
