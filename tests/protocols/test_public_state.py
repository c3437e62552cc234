"""Those who are told something public compare what they were told: the attack without that, and that it stops."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from embeddings_parties import EVERYBODY_PUBLIC, brings, desks_for, group_of, tables_for
from encrypted_runs import request_of
from encrypted_runs import tables_of as encrypted_tables
from gradient_tables import plan_for, run_plan, tables_of
from hostile import opened, packed
from messages_samples import request as messages_request
from messages_samples import tables as messages_tables
from training_specs import requested as spec_of
from typed import untyped

from colonnade.errors import RemoteProtocolError
from colonnade.federation.federation import Federation
from colonnade.ledger import Ledger
from colonnade.methods.encrypted import protocol as encrypted_exchange
from colonnade.methods.encrypted.protocol import encrypted_session
from colonnade.methods.messages.protocol import private_messages_session
from colonnade.methods.network.protocol import embeddings_session
from colonnade.methods.slr import protocol as gradient
from colonnade.methods.slr.plan import SlrOptions
from colonnade.methods.slr.protocol import gradient_session
from colonnade.protocols import sharing, verified_rows
from colonnade.protocols.agreement import agree_on_public, meet
from colonnade.protocols.messages import tell
from colonnade.protocols.sharing import Shared, total, unpack
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import PartyInputs, run_here
from colonnade.runtime.wire import Message, decode

honest_weights, honest_share = gradient._published_weights, sharing.share


async def no_comparison(*_: object) -> None:
    """The step as it would be without the comparison."""


async def two_faced(party: Party, descent: Any, plan: Any, step: Any) -> Any:
    """A server that tells the bank w + e₀ and the insurer w − e₀; everybody else is honest."""
    if descent is None:
        return await honest_weights(party, descent, plan, step)
    weights = descent.on_grid(plan.gamma, plan.weight_squared)
    for member, lie in (("bank", 1), ("insurer", -1)):
        announced = weights.copy()
        announced[0] += lie
        await tell(party, member, f"weights {step}", Message(arrays={"weights": announced}))
    return weights


@pytest.fixture
def dealt(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What owners deal, by step and owner."""
    found = {}

    async def watched(party: Party, mine: Any, shapes: Any, **how: Any) -> Any:
        if mine is not None:
            found[how["step"], party.name] = mine
        return await honest_share(party, mine, shapes, **how)

    for module in (sharing, verified_rows):
        monkeypatch.setattr(module, "share", watched)
    return found


def small_gradient() -> Any:
    """Two people, both in the one batch: few enough to try all values that a column can have."""
    tables = tables_of(("bank", "insurer"), 2)
    plan = plan_for(tables, gamma=16, epochs=1, rate=1, weight_cap=1)
    # Without a part of the noise from the server, whose own share of it is in no frame.
    return replace(plan, group=replace(plan.group, disclosed_noise=0)), tables


def rows_read(plan: Any, seen: Any) -> Any:
    """What the server reads of the rows, from nothing but the frames that it was sent.

    It holds a share a of rows s, the bank a + s and the insurer a − s. With w + e₀ here and w − e₀ there the gradient
    opens with Σ a·s₀ + s·a₀ in it: known numbers of the size of the field times small unknown ones, beside which the
    noise is nothing.
    """
    frames = {(one.sender, one.step): decode(one.frame)[1] for one in seen}

    def share_from(owner: str, step: str, shape: Any, degree: Any) -> Any:
        return Shared(unpack(plan.scheme, frames[owner, step], shape, owner), shape, degree)

    owners = plan.group.owners
    batch = {owner: share_from(owner, "batch 0.0", (2, plan.dealt[owner]), 1) for owner in owners}
    honest = gradient.FusedSum(plan, np.zeros(plan.size, dtype=np.int64), keeps_shares=True)
    honest.add(batch)
    whole = (1, plan.size)
    mine = honest.value() + total([share_from(owner, "noise 0", whole, 2) for owner in owners])
    shares = {owner: share_from(owner, "gradient 0", whole, 2).share for owner in owners} | {
        "server": mine.share
    }
    opened = plan.scheme.reconstruct(
        [shares[computing_party] for computing_party in plan.group.computing_parties], 2
    ).decode()[0]
    a = np.concatenate([batch[owner].share.decode()[:, : plan.widths[owner]] for owner in owners], axis=1)
    a, opened, p = a.astype(object), opened.astype(object), plan.field.modulus
    grid = range(-plan.gamma, plan.gamma + 1)
    pairs = np.array(list(itertools.product(grid, grid)), dtype=object)

    def fitting(rest: Any) -> Any:
        """The one pair of values that leaves no more than a gradient with its noise."""
        left = (rest + p // 2) % p - p // 2
        (found,) = pairs[np.abs(left) < plan.field.capacity >> 20]
        return found

    first = fitting(opened[0] - 2 * (pairs @ a[:, 0]))
    others = [fitting(opened[j] - int(a[:, j] @ first) - pairs @ a[:, 0]) for j in range(1, plan.size)]
    return np.array([first, *others], dtype=np.int64).T


def test_told_different_weights_a_server_reads_rows_and_compared_ones_stop_the_run(
    monkeypatch: pytest.MonkeyPatch, dealt: Any
) -> None:
    plan, tables = small_gradient()
    monkeypatch.setattr(gradient, "_published_weights", two_faced)
    with pytest.raises(RemoteProtocolError, match=r"at step 'weights 0': \w+ was told something else than"):
        run_plan(plan, tables)
    assert not dealt
    plan, tables = small_gradient()
    monkeypatch.setattr(gradient, "_published_weights", two_faced)
    monkeypatch.setattr(gradient, "agree_on_public", no_comparison)
    read = rows_read(plan, run_plan(plan, tables, record=True).seen["server"])
    rows = [dealt["batch 0.0", owner][:, : plan.widths[owner]] for owner in plan.group.owners]
    assert read.tolist() == np.concatenate(rows, axis=1).tolist()
    assert np.abs(read).max() > 3


def two_things_told(session: Any, sent: Any, *, by: Any, to: str, at: Any) -> Any:
    """The session, in which one member tells another something else than the rest at one step.

    Everybody runs the real lines; what leaves is noted in `sent` as (sender, step).
    """

    async def program(party: Party, *arguments: Any) -> Any:
        honest = party.channel.send

        async def send(peer: str, step: str, frame: Any) -> None:
            sent.append((party.name, step))
            if (party.name, peer, step) == (by, to, at):
                frame = told_otherwise(frame)
            await honest(peer, step, frame)

        untyped(party.channel).send = send
        return await session(party, *arguments)

    return program


def told_otherwise(frame: Any) -> Any:
    """The frame with one bit of what it says turned, the lowest of a number, and otherwise as it should be."""
    header, content = opened(frame)
    if content:
        return packed(header, content[:-8] + bytes([content[-8] ^ 1]) + content[-7:])
    ((name, value),) = header["fields"].items()
    header["fields"][name] = value ^ 1 if isinstance(value, int) else bytes([value[0] ^ 1]) + value[1:]
    return packed(header, content)


NETWORKS = EVERYBODY_PUBLIC.with_options(beta=0.25, trials=4, embedding=3, batch=10, epochs=2)


def messages_run(program_of: Any) -> None:
    parties = Federation(messages_tables(8, widths=(1, 1, 1)), budget=(100.0, 1e-3))
    parties.run(program_of(private_messages_session), messages_request(epochs=2))


def network_run(program_of: Any) -> None:
    tables = tables_for()
    bring = brings(NETWORKS)

    async def session(party: Party, table: Any, requested: Any) -> Any:
        return await embeddings_session(party, table, requested, bring(party.name))

    run_here(program_of(session), group_of(tables), desks_for(tables), NETWORKS)


def gradient_run(program_of: Any) -> None:
    parties = Federation(tables_of(("bank", "insurer", "shop"), 20), budget=(200.0, 1e-3))
    requested = spec_of(SlrOptions, epsilon=1.0, epochs=1, rate=0.5, delta=1e-5)
    parties.run(program_of(gradient_session), requested)


@pytest.mark.parametrize(
    ("run", "by", "to", "at", "then"),
    [
        (messages_run, "clinic", "shop", "residuals 0", "scores 1"),
        (network_run, "h", "p1", "back 0", "sum 1"),
        (network_run, "h", "p1", "epoch 0", "sum 3"),
        (gradient_run, "insurer", "shop", "batch key", "batch 0.0"),
    ],
)
def test_whoever_tells_two_members_different_things_ends_the_run_at_that_step(
    run: Any, by: Any, to: str, at: Any, then: Any
) -> None:
    sent: list[Any] = []
    with pytest.raises(RemoteProtocolError, match=rf"at step '{at}': \w+ was told something else than"):
        run(lambda session: two_things_told(session, sent, by=by, to=to, at=at))
    announced = {sender for sender, step in sent if step == f"comparison {at}"}
    assert to in announced and len(announced) >= 2
    assert not [sender for sender, step in sent if step == then and sender != by]
    # The control: what would have left next does leave where everybody is told the same.
    honest: list[Any] = []
    run(lambda session: two_things_told(session, honest, by=by, to=to, at="nowhere"))
    assert [sender for sender, step in honest if step == then]


def test_a_key_holder_that_gives_two_owners_different_keys_ends_the_run_before_a_score_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    widths = {"a": 1, "b": 1, "c": 1}
    sent: list[Any] = []
    make_key = untyped(encrypted_exchange).make_key

    async def two_keys(party: Party, keys: Any, to: str) -> Any:
        first = await make_key(party, keys, to[:1])
        await make_key(party, keys, to[1:])
        return first

    monkeypatch.setattr(encrypted_exchange, "make_key", two_keys)
    parties = Federation(encrypted_tables(widths, 8), budget=(50.0, 1e-3), public=True)
    session = two_things_told(encrypted_session, sent, by="", to="", at="")
    with pytest.raises(RemoteProtocolError, match=r"at step 'keys': \w+ was told something else than"):
        parties.run(session, request_of(widths))
    assert not [step for _, step in sent if step.startswith("batch")]


def compared(owners: Any, announced: Any) -> Any:
    """Who among the members goes on after comparing what it was told, and everything that was sent."""

    async def program(party: Party, _: object) -> None:
        await meet(party)
        await agree_on_public(party, "weights 7", announced, np.array(announced.get(party.name, ())))

    group = Group.of(owners)
    desks = {name: PartyInputs(Ledger.in_memory(name)) for name in group.members}
    return run_here(program, group, desks, record=True)


def test_members_who_were_told_the_same_say_a_digest_and_one_alone_says_nothing() -> None:
    outcome = compared(("bank", "insurer", "shop"), {"bank": [3, 4], "insurer": [3, 4], "shop": [3, 4]})
    frames = [one for seen in outcome.seen.values() for one in seen if one.step == "comparison weights 7"]
    assert len(frames) == 6 and len({decode(one.frame)[1].fields["digest"] for one in frames}) == 1
    assert {one.sender for one in frames} == {"bank", "insurer", "shop"}
    assert len(decode(frames[0].frame)[1].fields["digest"]) == 32 and len(frames[0].frame) < 200
    outcome = compared(("bank", "insurer"), {"bank": [3]})
    assert not [one for seen in outcome.seen.values() for one in seen if one.step.startswith("comparison")]


@pytest.mark.parametrize("odd", ["bank", "insurer", "shop"])
def test_whoever_is_the_odd_one_out_everybody_stops(odd: Any) -> None:
    """All see the difference: nobody goes on with something that somebody who follows the protocol does not hold."""
    stopped: list[Any] = []

    async def program(party: Party, _: object) -> None:
        await meet(party)
        try:
            await agree_on_public(party, "weights 7", group.owners, np.array([party.name == odd]))
        except RemoteProtocolError as error:
            stopped.append(party.name)
            assert f"{party.name} at step 'weights 7'" in str(error)

    group = Group.of(("bank", "insurer", "shop"))
    run_here(program, group, {name: PartyInputs(Ledger.in_memory(name)) for name in group.members})
    assert sorted(stopped) == ["bank", "insurer", "shop"]
