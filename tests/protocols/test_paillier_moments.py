"""Two owners without a server: the encrypted path against its ideal twin, its views, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ideals import ideal_moments
from test_noisy_moments import Witnessed, ledgers_for, silence, table_of, tables_of

from colonnade.crypto.paillier import Encryptor
from colonnade.errors import BudgetExceeded, PlanError, PlansDiffer, RemoteProtocolError
from colonnade.learn.federation import released
from colonnade.learn.linear import LinearRegression
from colonnade.methods.moments.session import MomentsRequest, moments_session
from colonnade.privacy.events import MatrixSkellam
from colonnade.privacy.guarantee import account
from colonnade.protocols import paillier_messages
from colonnade.protocols import paillier_moments as protocol
from colonnade.protocols import paillier_plan as pair_plan
from colonnade.protocols.agreement import agree, meet
from colonnade.protocols.alignment import align
from colonnade.protocols.paillier_moments import paillier_moments, paillier_moments_session
from colonnade.protocols.paillier_plan import PaillierKeys, PaillierKeysForTests, plan_paillier_moments
from colonnade.protocols.plans import _planned as plan_of_request
from colonnade.randomness import SystemRandomness
from colonnade.runtime.group import Group
from colonnade.runtime.run import Desk, run_here
from colonnade.runtime.wire import Message, decode

SMALL = PaillierKeysForTests(256)
PAIR = Group.pair("bank", "insurer", active="bank")


def fresh_plan(tables, group, *, task="classification", keys=SMALL, epsilon=1.0, gamma=4096):
    """A plan of one's own: tests that replace its noise must not share it."""
    request = MomentsRequest(task, epsilon, 1e-5, gamma=gamma)
    schemas = tuple(table.public() for table in tables)
    return replace(plan_paillier_moments(request, group, schemas, tables[0].rows, keys))


def silent(plan):
    silence(plan)
    return plan


def desks_for(group, tables, ledgers=None):
    by_name = {table.party: table for table in tables}
    books = ledgers or ledgers_for(group)
    return {name: Desk(books[name], by_name[name], dataset=name) for name in group.members}


def run_plan(plan, tables, **options):
    async def program(party, table):
        await meet(party)
        aligned = await align(party, table, "equal")
        await agree(party, "plan", {"rows": plan.rows})
        return await paillier_moments(party, aligned, plan), aligned

    ledgers = options.pop("ledgers", None)
    return run_here(program, plan.group, desks_for(plan.group, tables, ledgers), **options)


def ideal(outcome, plan):
    return ideal_moments({name: outcome.results[name][1] for name in plan.group.owners}, plan).tolist()


@settings(max_examples=10, deadline=None)
@given(
    st.sampled_from(["classification", "regression", "pca"]),
    st.integers(1, 60),
    st.booleans(),
    st.integers(0, 1000),
    st.sampled_from([128, 256, 512]),
)
def test_without_noise_the_encrypted_path_is_the_ideal(task, rows, second_is_active, seed, bits):
    holder = "insurer" if second_is_active else "bank"
    tables = tables_of(("bank", "insurer"), rows, task=task, active=holder, seed=seed)
    group = Group.pair("bank", "insurer", active=None if task == "pca" else holder)
    plan = silent(fresh_plan(tables, group, task=task, keys=PaillierKeysForTests(bits)))
    outcome = run_plan(plan, tables)
    for owner in group.owners:
        assert outcome.results[owner][0].tolist() == ideal(outcome, plan)


def test_without_noise_a_full_length_key_and_several_blocks_give_the_ideal(monkeypatch):
    monkeypatch.setattr("colonnade.protocols.paillier_plan._BLOCK_ROWS", 16)
    tables = tables_of(("bank", "insurer"), 40)
    plan = silent(fresh_plan(tables, PAIR, keys=PaillierKeys()))
    outcome = run_plan(plan, tables)
    assert outcome.results["insurer"][0].tolist() == ideal(outcome, plan)


def test_own_blocks_carry_their_owners_noise_and_the_block_between_carries_both():
    tables = tables_of(("bank", "insurer"), 30, task="pca")
    plan = fresh_plan(tables, Group.pair("bank", "insurer"), task="pca")
    drawn = []
    plan.__dict__["noise"] = Witnessed(plan.noise, drawn)
    outcome = run_plan(plan, tables)
    matrix = outcome.results["bank"][0] - np.array(ideal(outcome, plan), dtype=np.int64)
    answerer, asker = (protocol.arranged(noise, plan) for noise in drawn)
    theirs = protocol._published_places("insurer", plan)
    mine = [place for place in range(plan.size) if place not in theirs]
    for rows, columns, noise in (
        (mine, mine, asker),
        (theirs, theirs, answerer),
        (mine, theirs, asker + answerer),
    ):
        assert np.array_equal(matrix[np.ix_(rows, columns)], noise[np.ix_(rows, columns)])


def test_the_session_ends_with_one_matrix_at_both_owners_from_which_a_model_is_fitted():
    rng = np.random.default_rng(5)
    tables = [
        table_of("bank", 60, task="regression", active="bank", ids=[f"p{i}" for i in range(60)]),
        table_of(
            "insurer", 50, task="regression", active="bank", ids=[f"p{i}" for i in rng.permutation(80)[:50]]
        ),
    ]
    request = MomentsRequest("regression", 5.0, 1e-5)
    outcome = run_here(paillier_moments_session, PAIR, desks_for(PAIR, tables), request, SMALL)
    one, two = outcome.results["bank"], outcome.results["insurer"]
    assert np.array_equal(one.matrix, two.matrix) and one.run == two.run
    assert "server" not in {guarantee.observer.name for guarantee in one.plan.guarantees}
    release = released(one)
    assert LinearRegression().fit(release).releases_[0] is release


def test_the_plan_has_the_noise_of_the_three_keeper_path_and_a_line_for_every_observer():
    tables = tables_of(("bank", "insurer"), 500)
    plan = fresh_plan(tables, PAIR, keys=PaillierKeys(), epsilon=0.7)
    schemas = tuple(table.public() for table in tables)
    kept = MomentsRequest("classification", 0.7, 1e-5).plan(
        Group.of(PAIR.owners, active="bank"), schemas, 500
    )
    assert plan.mu == kept.mu
    by_observer = {view.observer.name: view.event for view in kept.views}
    assert {view.observer.name for view in plan.views} == {"reader", "party:bank", "party:insurer"}
    for view in plan.views:
        assert view.event == by_observer[view.observer.name]
        assert isinstance(view.event.event, MatrixSkellam) and view.event.event.mu == plan.mu
    assert account(plan.views[0].event, 1e-5).epsilon <= 0.7
    lines = plan.release("bank", run="r", reproducible=False).lines
    assert [(line.observer, line.unit) for line in lines] == [
        ("reader", "record"),
        ("party:insurer", "others-part"),
        ("reader", "record-replaced"),
    ]
    assert "Paillier at 2048 bits" in plan.views[2].assumption and "Paillier" not in plan.views[1].assumption


@given(
    st.integers(1, 10**6), st.integers(4096, 2**20), st.sampled_from([128, 256, 2048]), st.integers(1, 10**9)
)
@settings(max_examples=40, deadline=None)
def test_no_sum_of_products_with_noise_reaches_the_next_field(rows, gamma, bits, mu):
    tables = tables_of(("bank", "insurer"), 5)
    plan = replace(
        fresh_plan(tables, PAIR),
        rows=rows,
        gamma=gamma,
        mu=Fraction(mu),
        keys=PaillierKeysForTests(bits),
    )
    a, b = (plan.shape_of(owner).bound for owner in (plan.asker, plan.answerer))
    assert (plan.largest - plan.noise.support) ** 2 >= rows**2 * a * b
    assert 2 * plan.largest < plan.packing.limit
    assert plan.packing.bits < bits
    assert b <= (1 << (plan.entry_bits - 1)) ** 2


def test_a_refused_release_leaves_no_ciphertext_on_the_wire():
    tables = tables_of(("bank", "insurer"), 10)
    ledgers = ledgers_for(PAIR) | {"insurer": ledgers_for(PAIR, epsilon=0.5)["insurer"]}
    steps = []

    async def program(party, table):
        try:
            return await paillier_moments_session(
                party, table, MomentsRequest("classification", 1.0, 1e-5), SMALL
            )
        finally:
            steps.extend(step for _, step in party.traffic.sent)

    with pytest.raises(BudgetExceeded, match="insurer"):
        run_here(program, PAIR, desks_for(PAIR, tables, ledgers))
    assert "plan" in steps and not {"key", "columns", "moments", "release"} & set(steps)


def test_different_key_lengths_stop_the_run_before_anything_is_charged():
    tables = tables_of(("bank", "insurer"), 10)

    async def program(party, table):
        keys = PaillierKeys(3072) if party.name == "bank" else PaillierKeys()
        return await paillier_moments_session(party, table, MomentsRequest("classification", 1.0, 1e-5), keys)

    with pytest.raises(PlansDiffer, match=r"keys\.bits"):
        run_here(program, PAIR, desks_for(PAIR, tables))


def test_groups_and_protocols_that_do_not_fit_each_other_are_refused_before_anything_is_charged():
    tables = tables_of(("bank", "insurer"), 10)
    request = MomentsRequest("classification", 1.0, 1e-5)
    ledgers = ledgers_for(PAIR)
    with pytest.raises(PlanError, match="have no keepers"):
        run_here(moments_session, PAIR, desks_for(PAIR, tables, ledgers), request)
    assert all(entry.kind != "charge" for ledger in ledgers.values() for entry in ledger.entries())
    with pytest.raises(PlanError, match=r"Group\.pair"):
        plan_paillier_moments(request, Group.of(PAIR.owners, active="bank"), (), 10, SMALL)
    with pytest.raises(PlanError, match="2048 or 3072"):
        PaillierKeys(1024)
    with pytest.raises(PlanError, match=r"cannot also own|not among the owners|exactly 2t"):
        Group(("bank", "insurer"), server="third", keepers=(), threshold=1, active="third")
    with pytest.raises(PlanError, match="no room"):
        tall = replace(fresh_plan(tables, PAIR), rows=2**22, keys=PaillierKeysForTests(32))
        _ = tall.packing


# One owner does not follow: the other must name it and stop.


def hostile(monkeypatch, owner, step, change):
    """Run the session with one message of one owner replaced by what `change` makes of it."""
    real = protocol.tell

    async def altered(party, to, at, message):
        if party.name == owner and at == step:
            message = change(message)
        return await real(party, to, at, message)

    monkeypatch.setattr(protocol, "tell", altered)
    monkeypatch.setattr(paillier_messages, "tell", altered)
    tables = tables_of(("bank", "insurer"), 12)
    request = MomentsRequest("classification", 1.0, 1e-5)
    return run_here(paillier_moments_session, PAIR, desks_for(PAIR, tables), request, SMALL, timeout=5)


def with_first(value):
    """The message with another first ciphertext."""

    def change(message):
        numbers = message.arrays["ciphertexts"].copy()
        numbers[0] = np.frombuffer(int(value).to_bytes(numbers.shape[1], "little"), dtype=np.uint8)
        return Message(message.fields, {**message.arrays, "ciphertexts": numbers})

    return change


@pytest.mark.parametrize("value", [0, 2**512 - 1])
@pytest.mark.parametrize(("owner", "step"), [("bank", "columns 0"), ("insurer", "moments")])
def test_a_ciphertext_out_of_range_ends_the_run_by_name(monkeypatch, owner, step, value):
    with pytest.raises(
        RemoteProtocolError, match=f"at step '{step}', from {owner}: ciphertext 0 of .* outside"
    ):
        hostile(monkeypatch, owner, step, with_first(value))


def test_a_ciphertext_that_shares_a_factor_with_the_modulus_ends_the_run_by_name(monkeypatch):
    keys = []
    real = PaillierKeysForTests.generate

    def generate(self, randomness):
        keys.append(real(self, randomness))
        return keys[-1]

    monkeypatch.setattr(PaillierKeysForTests, "generate", generate)
    with pytest.raises(
        RemoteProtocolError, match=r"'moments', from insurer: ciphertext 0 of .* shares a factor"
    ):
        hostile(monkeypatch, "insurer", "moments", lambda message: with_first(keys[-1].p)(message))


@pytest.mark.parametrize("shift", ["empty field", "above", "field too large"])
def test_a_plaintext_that_holds_more_than_was_agreed_is_not_published(monkeypatch, shift):
    """The answerer hides a further answer: in high bits, in a field that no column uses, or beyond any sum."""
    plans, keys = [], []
    plan_of_request.cache_clear()
    real_plan = pair_plan.plan_paillier_moments

    def planned(*arguments):
        plans.append(real_plan(*arguments))
        return plans[-1]

    real_received = PaillierKeysForTests.received

    def received(self, modulus):
        keys.append(real_received(self, modulus))
        return keys[-1]

    def change(message):
        plan = plans[-1]
        used = protocol.dealt_widths(plan)["bank"] - (protocol._groups(plan) - 1) * plan.packing.count
        plaintext = {
            "empty field": 1 << (plan.packing.width * used),
            "above": 1 << (plan.packing.bits + 1),
            "field too large": plan.largest + 1,
        }[shift]
        extra = Encryptor.for_key(keys[-1], SystemRandomness()).encrypt([plaintext])
        # The last group of a column has the empty fields.
        numbers = message.arrays["ciphertexts"].copy()
        at = protocol._groups(plan) - 1
        numbers[at] = np.frombuffer(extra.to_bytes(), dtype=np.uint8)
        return Message(message.fields, {**message.arrays, "ciphertexts": numbers})

    monkeypatch.setattr(pair_plan, "plan_paillier_moments", planned)
    monkeypatch.setattr(PaillierKeysForTests, "received", received)
    with pytest.raises(
        RemoteProtocolError, match=r"bank at step 'moments', from insurer: (plaintext|a field)"
    ):
        hostile(monkeypatch, "insurer", "moments", change)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda m: Message(), "neither a modulus nor a proof"),
        (lambda m: Message({**m.fields, "modulus": 7}), "neither a modulus nor a proof"),
        (
            lambda m: Message({**m.fields, "modulus": m.fields["modulus"][:-1]}),
            "256 bits was agreed|at least|product",
        ),
        (lambda m: Message({**m.fields, "modulus": b"\xff" * 5000}), "at most 3072"),
        (lambda m: Message({**m.fields, "proof": m.fields["proof"][::-1]}), "root"),
        (lambda m: Message({**m.fields, "proof": b""}), "proof"),
    ],
)
def test_a_key_that_is_none_ends_the_run_by_name(monkeypatch, change, why):
    with pytest.raises(RemoteProtocolError, match=f"insurer at step 'key', from bank: .*({why})"):
        hostile(monkeypatch, "bank", "key", change)


def test_a_key_proof_of_another_run_ends_the_run(monkeypatch):
    real = paillier_messages.prove_key
    monkeypatch.setattr(
        paillier_messages, "prove_key", lambda key, context: real(key, context=b"another run")
    )
    with pytest.raises(RemoteProtocolError, match="not an N-th root"):
        hostile(monkeypatch, "bank", "key", lambda message: message)


def other_matrix(name, place, value):
    def change(message):
        matrix = message.arrays[name].copy()
        matrix[place] = value
        return Message(message.fields, {**message.arrays, name: matrix})

    return change


@pytest.mark.parametrize(
    ("owner", "step", "change", "why"),
    [
        ("insurer", "moments", other_matrix("own", (0, 1), 5), "not symmetric"),
        ("insurer", "moments", other_matrix("own", (0, 0), 2**62), "larger than its rows"),
        ("bank", "release", other_matrix("matrix", (0, 1), 5), "not symmetric"),
        ("bank", "release", other_matrix("matrix", (0, 0), 2**63 - 1), "no moments of this plan"),
        ("bank", "release", other_matrix("matrix", (8, 8), 5), "another block of insurer's columns"),
    ],
)
def test_moments_that_cannot_be_end_the_run_by_name(monkeypatch, owner, step, change, why):
    with pytest.raises(RemoteProtocolError, match=f"at step '{step}', from {owner}: .*{why}"):
        hostile(monkeypatch, owner, step, change)


def test_a_published_matrix_that_the_asker_does_not_keep_is_noticed(monkeypatch):
    with pytest.raises(RemoteProtocolError, match="read something else"):
        hostile(monkeypatch, "bank", "release", other_matrix("matrix", (0, 0), 5))


def test_the_answer_shows_no_trace_of_how_it_was_made():
    """The same rows twice, under one key: no ciphertext on the wire comes twice, in either direction."""
    tables = tables_of(("bank", "insurer"), 12)
    numbers = []
    for _ in range(2):
        outcome = run_plan(silent(fresh_plan(tables, PAIR)), tables, record=True)
        for owner in PAIR.owners:
            for seen in outcome.seen[owner]:
                if seen.step.startswith(("columns", "moments")):
                    numbers += [row.tobytes() for row in decode(seen.frame)[1].arrays["ciphertexts"]]
    assert len(numbers) == len(set(numbers)) > 24
