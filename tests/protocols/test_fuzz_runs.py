"""Whole runs with one hostile party: everybody else ends, in time, with the right result or with an error.

The hostile party runs the real program behind a channel that damages, drops, repeats, delays, redirects or replaces
one of the frames it sends. Honest parties draw from seeds, so the right result is known. What one frame cannot show
is left to the threat model: a share, a word or a point that is another of its kind is taken, and the result is wrong.
"""

import asyncio
import random
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from hostile import BYTES, DAMAGES
from test_fuzz_frames import PAIR, TABLES, TRIO, table_of
from training_specs import requested
from typed import untyped

from colonnade.crypto.masks import SumRing
from colonnade.data.encoder import Encoder
from colonnade.data.kinds import NumericColumn
from colonnade.data.levels import CategoricalColumn
from colonnade.data.schema import PublicSchema
from colonnade.data.table import Table
from colonnade.errors import DataError, PlanError, RemoteProtocolError, TooMuchMemory
from colonnade.ledger import Ledger, Release
from colonnade.methods.moments.plan import MomentsOptions
from colonnade.methods.moments.protocol import moments_session
from colonnade.protocols.agreement import meet
from colonnade.protocols.messages import tell
from colonnade.protocols.secure_sum import secure_sum, share_mask_keys
from colonnade.randomness import SeededRandomness
from colonnade.runtime.channel import MemoryChannel, memory_network
from colonnade.runtime.party import Party
from colonnade.runtime.run import run_as
from colonnade.runtime.wire import Message, decode, encode

RUNS = 60
TIMEOUT = 0.4
# Far more than every party's every timeout together: only a hang takes this long.
HANG = 60.0

# Damage that leaves nothing to interpret: whoever reads the frame must refuse it.
CERTAIN = (
    "truncated",
    "extended",
    "arbitrary",
    "overlong",
    "drop",
    "swap",
    "replay",
    "redirect",
    "old",
    "silence",
)
ORDERS = ("drop", "repeat", "swap", "replay", "redirect", "old", "silence", "relabel")


@dataclass
class HostileChannel:
    """An honest channel until the frame numbered `at`; then one thing goes wrong."""

    inner: object
    at: int
    damage: Any
    rng: random.Random
    old: list[Any] = field(default_factory=list[Any])
    sent: list[Any] = field(default_factory=list[Any])
    held: tuple[Any, ...] | None = None
    done: str = ""

    async def send(self, to: str, step: str, frame: bytes) -> Any:
        number = len(self.sent)
        self.sent.append((to, step, frame))
        if self.held is not None and self.held[0] == to:
            held, self.held = self.held, None
            await untyped(self.inner).send(to, step, frame)
            return await untyped(self.inner).send(*held)
        if number < self.at or (self.done and self.damage != "silence"):
            return await untyped(self.inner).send(to, step, frame)
        self.done = str(getattr(self.damage, "__name__", self.damage))
        match self.damage:
            case "drop" | "silence":
                return None
            case "repeat":
                await untyped(self.inner).send(to, step, frame)
                return await untyped(self.inner).send(to, step, frame)
            case "swap":
                self.held = (to, step, frame)
                return None
            case "replay":
                earlier = self.rng.choice(self.sent[:number] or [(to, step, b"")])
                return await untyped(self.inner).send(to, step, earlier[2])
            case "redirect":
                others = [
                    peer for peer in untyped(self.inner)._boxes if peer not in (to, untyped(self.inner).name)
                ]
                await untyped(self.inner).send(self.rng.choice(others), step, frame)
                return None
            case "old":
                return await untyped(self.inner).send(to, step, self.rng.choice(self.old)[2])
            case "relabel":
                return await untyped(self.inner).send(to, "another step", frame)
            case _:
                return await untyped(self.inner).send(to, step, self.damage(frame, self.rng))

    async def receive(self, peer: str, step: str, timeout: float) -> bytes:
        result: bytes = await untyped(self.inner).receive(peer, step, timeout)
        return result

    def stop(self, reason: str | None) -> None:
        # A hostile party does not say that it stopped: the others must find out by waiting.
        if reason is None:
            untyped(self.inner).stop(reason)


async def sums(party: Party, values: Any) -> Any:
    await meet(party)
    streams = await share_mask_keys(party, party.group.owners)
    release = Release("r/s", "r", "plan", "a sum", "server", (), False)
    found = await secure_sum(
        party,
        values,
        (4,),
        streams=streams,
        among=party.group.owners,
        ring=SumRing(3, 2**40),
        receiver="server",
        release=release,
        step="sum 0",
    )
    return None if found is None else found.tolist()


async def moments(party: Party, table: Table | None) -> list[list[int]]:
    opened = await moments_session(party, table, requested(MomentsOptions, "classification", 1.0, delta=1e-5))
    result: list[list[int]] = opened.matrix.tolist()
    return result


async def matched_moments(party: Party, table: Any) -> Any:
    request = requested(MomentsOptions, "classification", 1.0, delta=1e-5, alignment="curve")
    return (await moments_session(party, table, request)).matrix.tolist()


MATCHED = {
    "bank": table_of("bank", ["a", "bb", "ccc"], label=True),
    "insurer": table_of("insurer", ["ccc", "dddd", "a"]),
}
WHOLE = {
    "moments": (moments, PAIR, TABLES),
    "matched moments": (matched_moments, PAIR, MATCHED),
    "secure sums": (sums, TRIO, {name: np.arange(4) for name in TRIO.owners}),
}


async def everybody(
    name: str,
    *,
    villain: str | None = None,
    wrap: Any = None,
    seed: int = 0,
    timeout: float = TIMEOUT,
) -> tuple[dict[str, Any], dict[str, Party]]:
    """Each party's result or exception, and whoever hangs fails the test."""
    program, group, tables = WHOLE[name]
    network = memory_network(group.members)
    parties = {}
    for member in group.members:
        ledger = Ledger.in_memory(member)
        ledger.set_budget(member, "*", "*", epsilon=10.0, delta=1e-5)
        channel = wrap(network[member]) if member == villain else network[member]
        randomness = SeededRandomness(f"{member}/{seed}")
        parties[member] = Party(member, group, channel, ledger, randomness, dataset=member, timeout=timeout)
    tasks = [run_as(party, program, untyped(tables).get(member)) for member, party in parties.items()]
    async with asyncio.timeout(HANG):
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    return dict(zip(parties, untyped(ends), strict=True)), parties


@cache
def honest(
    name: str,
) -> tuple[
    dict[str, list[list[int]]],
    dict[str, list[tuple[str, str, bytes]]],
    dict[str, list[tuple[str, str, bytes]]],
]:
    """What everybody ends with, and what each party sends, in an honest run."""
    # Nobody is silent here, so patience costs nothing, and a busy machine needs it.
    ends, _ = asyncio.run(everybody(name, timeout=HANG))
    sent: dict[Any, Any] = {}
    old: dict[Any, Any] = {}
    for villain in WHOLE[name][1].members:
        for seed, kept in ((0, sent), (1, old)):
            spy: list[Any] = []

            def wrap(inner: MemoryChannel, spy: list[Any] = spy) -> HostileChannel:
                channel = HostileChannel(inner, 10**9, None, random.Random(0))
                spy.append(channel)
                return channel

            asyncio.run(everybody(name, villain=villain, wrap=wrap, seed=seed, timeout=HANG))
            kept[villain] = spy[0].sent
    return ends, sent, old


def attack(name: str, seed: int) -> tuple[str, bool]:
    """One run with one hostile party: what it did, and whether anybody noticed."""
    expected, sent, old = honest(name)
    rng = random.Random(seed)
    villains = [member for member in sent if sent[member]]
    villain = villains[seed % len(villains)]
    at = rng.randrange(len(sent[villain]))
    damage = rng.choice((*DAMAGES, *ORDERS, *ORDERS))
    channels = []

    def wrap(inner: MemoryChannel) -> HostileChannel:
        channels.append(HostileChannel(inner, at, damage, rng, old=old[villain]))
        return channels[0]

    ends, _ = asyncio.run(everybody(name, villain=villain, wrap=wrap))
    to, step, _ = sent[villain][at]
    did = str(getattr(damage, "__name__", damage))
    what = f"{name}, {villain} to {to} at {step!r}, {did}, seed {seed}"
    others = {member: end for member, end in ends.items() if member != villain}
    for member, end in others.items():
        if isinstance(end, RemoteProtocolError):
            assert "step '" in str(end), f"{what}: {member} says {end}"
        elif isinstance(end, BaseException):
            # A peer that declares something else, well formed, is a plan or a table that does not fit.
            assert isinstance(end, PlanError | DataError), f"{what}: {member} ended with {end!r}"
            assert did not in CERTAIN, f"{what}: {member} took it and ended with {end!r}"
        elif did in CERTAIN or did == "repeat":
            assert end == expected[member], f"{what}: {member} has another result"
    return did, any(isinstance(end, BaseException) for end in others.values())


# Moments of people who had to be matched are the same protocol after another that is tried by itself.
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name == "matched moments" else []) for name in WHOLE],
)
def test_one_hostile_party_is_noticed_by_everybody_or_changes_nothing(name: str) -> None:
    noticed = {True: 0, False: 0}
    for seed in range(RUNS):
        did, found = attack(name, seed)
        noticed[found] += did in CERTAIN
    assert noticed[True] > 10 * noticed[False], f"{noticed}: certain damage that nobody noticed"


def ended(villain: str, at_step: str, damage: Any, to: str | None = None) -> tuple[dict[str, Any], str]:
    """How everybody ends where one member damages its first frame of a step, and to whom that was."""
    _, sent, _ = honest("moments")
    at, receiver = next(
        (place, peer)
        for place, (peer, step, _) in enumerate(sent[villain])
        if step == at_step and to in (None, peer)
    )
    ends, _ = asyncio.run(
        everybody(
            "moments",
            villain=villain,
            wrap=lambda inner: HostileChannel(inner, at, damage, random.Random(0)),
        )
    )
    return ends, receiver


def test_a_keeper_that_answers_twice_ends_the_run() -> None:
    ends, _ = ended("insurer", "moments", "repeat", to="server")
    assert isinstance(ends["server"], RemoteProtocolError)
    assert "insurer" in str(ends["server"]) and "step 'finished'" in str(ends["server"])
    assert isinstance(ends["bank"], RemoteProtocolError)


def test_a_server_that_publishes_two_matrices_is_noticed_by_both_owners() -> None:
    def another(frame: bytes, rng: Random) -> bytes:
        envelope, message = decode(frame)
        matrix = message.arrays["matrix"].copy()
        matrix[0, 0] += 1
        return encode(envelope, Message(arrays={"matrix": matrix}))

    ends, _ = ended("server", "release", another, to="insurer")
    for owner in ("bank", "insurer"):
        assert isinstance(ends[owner], RemoteProtocolError)
    assert "read something else" in str(ends["bank"]) + str(ends["insurer"])


def introduced(*columns: CategoricalColumn | NumericColumn) -> TooMuchMemory | RemoteProtocolError:
    """The session in which the insurer declares these columns instead of its own."""

    def declare(frame: bytes, rng: Random) -> bytes:
        envelope, _ = decode(frame)
        return encode(envelope, Message({"schema": PublicSchema("insurer", columns).to_data()}))

    ends, receiver = ended("insurer", "introduction", declare)
    ending: TooMuchMemory | RemoteProtocolError = ends[receiver]
    return ending


def test_a_peer_that_takes_nothing_is_given_up() -> None:
    async def program() -> None:
        network = memory_network(("bank", "insurer", "server"))
        bank = Party("bank", PAIR, network["bank"], Ledger.in_memory("bank"), timeout=0.05)
        for number in range(100):
            await tell(bank, "insurer", f"block {number}", Message())

    with pytest.raises(
        RemoteProtocolError, match=r"bank waited 0.05 s at step 'block \d' for insurer to take"
    ):
        asyncio.run(program())


def test_a_peer_that_declares_what_cannot_be_ends_the_run_by_name() -> None:
    end = introduced(CategoricalColumn("c", tuple(f"{number:x}" for number in range(100_000))))
    assert isinstance(end, PlanError) and "is the most" in str(end)
    end = introduced(
        CategoricalColumn("c", ("x", "y")),
        *(
            NumericColumn(name, 0, 1)
            for name in Encoder((CategoricalColumn("c", ("x", "y")),), "linear").feature_names
        ),
    )
    assert isinstance(end, RemoteProtocolError) and "step 'introduction', from insurer" in str(end)


def test_every_damage_to_bytes_is_among_those_tried() -> None:
    assert {damage.__name__ for damage in BYTES} > {"truncated", "extended", "arbitrary", "overlong"}
