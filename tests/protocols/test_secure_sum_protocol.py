"""Secure sums between parties: exact, charged first, and a party that fails is named."""

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_runs import received

from colonnade.crypto.masks import SumRing, pack_words, packed_size, unpack_words
from colonnade.errors import BudgetExceeded, LocalProtocolError, PeerTimeout, RemoteProtocolError
from colonnade.ledger import Ledger, LedgerLine, Release
from colonnade.privacy.events import Gaussian
from colonnade.protocols.agreement import meet
from colonnade.protocols.messages import exchange, tell
from colonnade.protocols.secure_sum import secure_sum, share_mask_keys
from colonnade.randomness import SeededRandomness
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import Outcome, PartyInputs, run_here
from colonnade.runtime.wire import Message

GROUP = Group.of(("a", "b", "c"), active="a")

LINE = LedgerLine("server", "record", Gaussian(sensitivity=1.0, sigma=4.0))
RELEASE = Release("run/sum", "run", "5f0c", "a sum", "server", (LINE,), False)


async def summed(party: Party, values: Any, ring: Any, receiver: str, steps: list[str]) -> Any:
    await meet(party)
    how = {"ring": ring, "receiver": receiver, "release": RELEASE, "among": party.group.owners}
    how["streams"] = await share_mask_keys(party, party.group.owners)
    return [await secure_sum(party, values, SHAPE, step=step, **how) for step in steps]


async def program(party: Party, values: Any, ring: Any, receiver: str, steps: Any) -> Any:
    return await summed(party, values, ring, receiver, [f"sum {step}" for step in range(steps)])


SHAPE = (2, 3)


def ledger(name: str, epsilon: float = 10.0) -> Ledger:
    book = Ledger.in_memory(name)
    book.set_budget("data", "*", "*", epsilon=epsilon, delta=1e-5)
    return book


def run(
    tables: Any,
    ring: Any,
    receiver: str = "server",
    steps: int = 1,
    play: Any = program,
    ledgers: Any = None,
    timeout: Any = 20,
) -> Outcome:
    ledgers = ledgers or {name: ledger(name) for name in GROUP.members}
    desks = {name: PartyInputs(ledgers[name], tables.get(name), dataset="data") for name in GROUP.members}
    return run_here(play, GROUP, desks, ring, receiver, steps, record=True, timeout=timeout)


def unless_c(script: Any) -> Any:
    """Everybody runs the program but c, who meets the others and then follows a script of its own."""

    async def play(party: Party, values: Any, ring: Any, receiver: str, steps: Any) -> Any:
        if party.name != "c":
            return await program(party, values, ring, receiver, steps)
        await meet(party)
        return await script(party, ring)

    return play


def tables(seed: int, largest: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.integers(0, largest + 1, SHAPE) for name in GROUP.owners}


@pytest.mark.parametrize("largest", [1, 3000, 10**15])
@pytest.mark.parametrize("receiver", ["server", "b"])
def test_the_receiver_learns_the_exact_sum_and_nobody_else_anything(largest: int, receiver: str) -> None:
    values = tables(largest, largest)
    outcome = run(values, SumRing(3, largest), receiver, steps=2)
    for name, sums in outcome.results.items():
        for found in sums:
            assert (found is None) == (name != receiver)
            if found is not None:
                assert np.array_equal(found, sum(values.values()))


def test_a_value_costs_k_bits_on_the_wire_and_two_steps_look_unrelated() -> None:
    ring = SumRing(3, 40)
    outcome = run(tables(0, 40), ring)
    sent = [words for _, words in received(outcome, "server", "sum", "words")]
    assert {array.size for array in sent} == {packed_size(6, ring.bits)} == {6 * 7 // 8 + 1}
    outcome = run(tables(0, 2**40), SumRing(3, 2**40), steps=2)
    words = [words.tobytes() for _, words in received(outcome, "server", "sum", "words")]
    assert len(words) == len(set(words)) == 6


def test_a_ledger_that_refuses_keeps_its_words_at_home() -> None:
    ledgers = {name: ledger(name, epsilon=0.01 if name == "b" else 10.0) for name in GROUP.members}
    sent: dict[str, dict[Any, int]] = {}

    async def play(party: Party, values: Any, ring: Any, receiver: str, steps: Any) -> Any:
        try:
            return await program(party, values, ring, receiver, steps)
        finally:
            sent[party.name] = dict(party.traffic.sent)

    with pytest.raises(BudgetExceeded):
        run(tables(0, 5), SumRing(3, 5), play=play, ledgers=ledgers)
    assert ("server", "sum") in sent["a"]
    assert ("server", "sum") not in sent["b"]


def test_values_that_do_not_fit_and_steps_summed_twice_stay_at_home() -> None:
    with pytest.raises(LocalProtocolError, match=r"outside \[0, 5\]"):
        run(tables(0, 50), SumRing(3, 5))
    with pytest.raises(LocalProtocolError, match="should sum an array of shape"):
        run({name: np.zeros(3, dtype=int) for name in GROUP.owners}, SumRing(3, 5))

    async def play(party: Party, values: Any, ring: Any, receiver: str, steps: Any) -> None:
        await summed(party, values, ring, receiver, ["again", "again"])

    with pytest.raises(LocalProtocolError, match="already masked step 'again'"):
        run(tables(0, 5), SumRing(3, 5), play=play)


def test_a_party_that_does_not_answer_is_named() -> None:
    async def silent(party: Party, ring: Any) -> None:
        await share_mask_keys(party, party.group.owners)
        await asyncio.sleep(30)

    with pytest.raises(PeerTimeout, match="for c"):
        run(tables(0, 5), SumRing(3, 5), play=unless_c(silent), timeout=0.5)


@pytest.mark.parametrize("key", [b"", bytes(32), b"\x01" + bytes(31), "text", None, 7])
def test_a_public_key_that_is_none_is_refused_by_name(key: Any) -> None:
    async def script(party: Party, ring: Any) -> None:
        await exchange(party, "mask keys", Message({"key": key}), GROUP.owners)
        await asyncio.sleep(5)

    with pytest.raises(RemoteProtocolError, match=r"[ab] at step 'mask keys', from c"):
        run(tables(0, 5), SumRing(3, 5), play=unless_c(script))


@pytest.mark.parametrize(
    "bad",
    [
        Message(),
        Message(arrays={"words": np.zeros(2, dtype=np.uint8)}),
        Message(arrays={"words": np.zeros(4, dtype=np.uint8)}),
        Message(arrays={"words": np.full(3, 255, dtype=np.uint8)}),
        Message(arrays={"words": np.zeros(3, dtype=np.int64)}),
        Message({"words": [1, 2, 3]}),
    ],
)
def test_words_that_are_none_are_refused_by_name(bad: Message) -> None:
    async def script(party: Party, ring: Any) -> None:
        await share_mask_keys(party, GROUP.owners)
        await tell(party, "server", "sum 0", bad)

    with pytest.raises(RemoteProtocolError, match=r"server at step 'sum 0', from c"):
        run(tables(0, 1), SumRing(3, 2), play=unless_c(script))


def test_a_party_with_other_masks_is_noticed_when_the_sum_leaves_its_range() -> None:
    async def script(party: Party, ring: Any) -> None:
        await share_mask_keys(party, GROUP.owners)
        words = np.random.default_rng(1).integers(0, 1 << ring.bits, 6).astype(np.uint64)
        await tell(party, "server", "sum 0", Message(arrays={"words": pack_words(words, ring.bits)}))

    # 3 · 174763 is just above 2^19, so almost half of the ring is out of range.
    with pytest.raises(RemoteProtocolError, match="not as agreed"):
        for _ in range(20):
            run(tables(0, 174763), SumRing(3, 174763), play=unless_c(script))


def test_parties_meet_before_they_share_keys() -> None:
    async def play(party: Party, values: Any, ring: Any, receiver: str, steps: Any) -> Any:
        return await share_mask_keys(party, party.group.owners)

    with pytest.raises(LocalProtocolError, match="must meet"):
        run(tables(0, 5), SumRing(3, 5), play=play)


@given(st.integers(1, 64), st.data())
@settings(max_examples=60, deadline=None)
def test_unpacking_words_undoes_packing(bits: int, data: st.DataObject) -> None:
    words = data.draw(st.lists(st.integers(0, 2**bits - 1), max_size=20))
    packed = pack_words(np.array(words, dtype=np.uint64), bits)
    assert len(packed) == packed_size(len(words), bits)
    assert unpack_words(packed, len(words), bits=bits, dtype=np.dtype("u8")).tolist() == words


@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_word_too_large_is_refused_wherever_it_stands(place: int) -> None:
    """Its upper bits would fall on its neighbours."""
    words = np.array([0, 7, 3], dtype=np.uint64)
    assert pack_words(words, 3).tolist() == [0 | 7 << 3 | (3 & 3) << 6, 3 >> 2]
    words[place] = 8
    with pytest.raises(ValueError, match="does not fit in 3 bits"):
        pack_words(words, 3)
    with pytest.raises(ValueError, match="1 to 64 bits"):
        pack_words(words, 65)
    with pytest.raises(ValueError, match="more than the last word"):
        unpack_words(np.array([255], dtype=np.uint8), 1, bits=3, dtype=np.dtype("u1"))


def test_one_key_from_two_peers_is_refused() -> None:
    """Both would have one mask with everybody: their masks would not cancel, or one of them stands for two."""
    inputs = {
        name: PartyInputs(Ledger.in_memory(name), randomness=SeededRandomness("b" if name == "c" else name))
        for name in GROUP.members
    }

    async def keys(party: Party, _: Any) -> Any:
        await meet(party)
        return await share_mask_keys(party, party.group.owners)

    with pytest.raises(RemoteProtocolError, match="two peers sent the same public key"):
        run_here(keys, GROUP, inputs)
