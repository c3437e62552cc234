"""Hostile frames against every receiving function: no crash, nothing accepted that could not have been sent.

An honest run of each protocol is recorded with coins from a seed. One party then runs again, alone, on what it
received, with one thing wrong in it. Whatever that is, the party must end with `RemoteProtocolError`, naming a
party and a step; or it may go on, if every frame that it took is one that an honest peer could have sent to it at
this position: the parties are taken to follow the protocol, and a share, a masked word or a blinded point that is
another one of its kind cannot be told from the right one.
"""

import asyncio
import contextlib
import copy
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hostile import DAMAGES, reshuffled, scripted
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule
from numpy.typing import NDArray
from training_specs import requested
from typed import there, untyped

from colonnade.crypto.masks import SumRing
from colonnade.crypto.paillier import Encryptor, PrivateKey
from colonnade.crypto.sharing import Shamir
from colonnade.data.encoder import Encoder
from colonnade.data.kinds import NumericColumn
from colonnade.data.levels import CategoricalColumn
from colonnade.data.schema import PublicSchema, Schema
from colonnade.data.table import AlignedTable, Table
from colonnade.errors import (
    DataError,
    InputError,
    LedgerAltered,
    PlanError,
    RemoteProtocolError,
    TooMuchMemory,
)
from colonnade.ledger import Ledger, Opening, Receipt, Release
from colonnade.ledger.admission import Claim
from colonnade.methods.moments.plan import MomentsOptions
from colonnade.methods.moments.protocol import checked_release, moments_session
from colonnade.numbers.field import FIELD63
from colonnade.protocols.agreement import agree, charge_first, meet
from colonnade.protocols.alignment import align
from colonnade.protocols.intersection import MOST_IDS, Ids, intersect
from colonnade.protocols.messages import hear, tell
from colonnade.protocols.paillier import (
    PaillierKeysForTests,
    ciphertext_message,
    hear_key,
    make_key,
    received_ciphertexts,
)
from colonnade.protocols.secure_sum import secure_sum, share_mask_keys
from colonnade.protocols.session import agreed_rows, introduce, publish
from colonnade.protocols.sharing import open_to, share, total
from colonnade.randomness import SeededRandomness
from colonnade.runtime.channel import MemoryChannel, Seen, memory_network
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import PartyInputs, run_as, run_here
from colonnade.runtime.wire import SPOKEN, Message, decode, encode

FRAMES = 700
# Where every frame costs encryptions; the full count is the same for all.
FRAMES_ENCRYPTED = 150
FRAMES_IN_FULL = 100_000

PAIR = Group.of(("bank", "insurer"), active="bank")
TRIO = Group.of(("bank", "insurer", "shop"), active="bank")
RELEASE = Release("r/x", "r", "plan", "a test", "server", (), False)
PRIME = 2**255 - 19


class OpenBook:
    """A ledger that says yes; the real one is fuzzed below, with fewer frames."""

    def charge(self, release: Release, dataset: str, *, fresh: bool = False) -> Receipt:
        return Receipt("me", 1, "0" * 64)

    def opening(self) -> Opening:
        return Opening("me", "0" * 64, anew=True)

    def recognise(self, opening: Opening) -> None:
        return None

    def prove(self, claim: Claim) -> bytes:
        # A claim may come from a mutated frame; the real ledger would refuse it.
        raise LedgerAltered("no such entry")

    def keep_receipt(self, receipt: Receipt, *, after: int | None = None) -> None:
        if not (receipt.entry >= 1 and re.fullmatch("[0-9a-f]{64}", receipt.head)):
            raise AssertionError("a receipt that no ledger wrote")

    def note_comparison(self, dataset: str, partners: list[str], *, run: str, through: str = "") -> None:
        return None


def table_of(party: str, ids: list[str], *, label: bool = False) -> Table:
    text = f"id='n'\n[columns.{party}]\nkind='numeric'\nlow=0\nhigh=10\n[columns.{party}_kind]\n"
    text += "kind='categorical'\ncategories=['a','b']\n"
    arrays = {party: [float(len(i)) for i in ids], f"{party}_kind": ["a" for _ in ids]}
    if label:
        text += "[label]\ncolumn='y'\nkind='classes'\nclasses=['no','yes']\n"
        arrays["y"] = ["yes" for _ in ids]
    return Table.from_arrays(party, arrays, Schema.parse(text), ids=ids)


TABLES = {
    "bank": table_of("bank", ["a", "bb", "ccc"], label=True),
    "insurer": table_of("insurer", ["a", "bb", "ccc"]),
}
IDS = {"bank": Ids.of(["a", "b", "c"]), "insurer": Ids.of(["b", "c", "d"])}


@cache
def moments_plan() -> Any:
    schemas = tuple(TABLES[owner].public() for owner in PAIR.owners)
    return requested(MomentsOptions, "classification", 1.0, delta=1e-5).plan(PAIR, schemas, 3)


async def agreement(party: Party, _: Any) -> None:
    await meet(party)
    await agree(party, "job", {"epsilon": 1, "columns": ["a", "b"]})


async def disagreement(party: Party, _: Any) -> None:
    await meet(party)
    await agree(party, "job", {"epsilon": 1, "mine": party.name})


async def introduction(party: Party, table: Table | None) -> int:
    await introduce(party, table)
    return await agreed_rows(party, untyped(table))


async def alignment(party: Party, table: Table | None) -> AlignedTable | None:
    return await align(party, table, "equal")


async def misalignment(party: Party, table: Any) -> Any:
    if table is not None and party.name == "insurer":
        table = table_of("insurer", ["x", "y"])
    return await align(party, table, "equal")


async def receipts(party: Party, _: Any) -> None:
    await charge_first(party, RELEASE)


async def sharing(party: Party, _: Any) -> NDArray[np.int64] | None:
    scheme = Shamir(3, FIELD63)
    mine = np.arange(4, dtype=np.int64).reshape(2, 2) if party.owns_columns else None
    shapes = dict.fromkeys(party.group.owners, (2, 2))
    columns = await share(party, mine, shapes, scheme=scheme, degree=1, step="columns 0")
    noise = await share(party, mine, shapes, scheme=scheme, degree=2, step="noise")
    assert all(there(value.share).shape == (2, 2) for value in columns.values())
    return await open_to(
        party, "server", total(noise.values()), scheme=scheme, release=RELEASE, step="moments"
    )


async def secure_sums(party: Party, _: object) -> Any:
    ring = SumRing(3, 9)
    streams = await share_mask_keys(party, party.group.owners)
    mine = np.arange(3) if party.owns_columns else None
    return await secure_sum(
        party,
        mine,
        (3,),
        streams=streams,
        among=party.group.owners,
        ring=ring,
        receiver="server",
        release=RELEASE,
        step="sum 0",
    )


async def intersection(party: Party, _: Any) -> Any:
    return await intersect(party, IDS.get(party.name))


async def publication(party: Party, _: object) -> Any:
    plan = moments_plan()
    matrix = np.diag(np.arange(plan.size)) if party.is_server else None
    return await publish(
        party, matrix, "release", "matrix", lambda said: checked_release(said, plan), np.zeros((0, 0))
    )


TWO = Group.pair("bank", "insurer", active="bank")
SMALL_KEYS = PaillierKeysForTests(128)


@cache
def small_key() -> Any:
    return PrivateKey.generate_for_tests(SeededRandomness("key"), SMALL_KEYS.bits)


@dataclass(frozen=True)
class OneKey(PaillierKeysForTests):
    """Keys for tests, made once: what is attacked here is not how they are made."""

    bits: int = SMALL_KEYS.bits

    def generate(self, randomness: Any) -> Any:
        return small_key()


async def encrypted_numbers(party: Party, table: Any) -> None:
    """One owner's key and some ciphertexts under it, as owners who meet under encryption send them."""
    asker, answerer = TWO.owners
    if party.name == asker:
        private = await make_key(party, OneKey(), (answerer,))
        numbers = Encryptor.for_owner(private, party.randomness).encrypt([1, 2, 3])
        await tell(party, answerer, "columns 0", ciphertext_message(numbers))
    else:
        key = await hear_key(party, asker, OneKey())
        await received_ciphertexts(await hear(party, asker, "columns 0"), key, 3)


@dataclass(frozen=True)
class Protocol:
    """A protocol to attack: who runs it, and which errors of their own its parties may end with."""

    program: Callable[..., Any]
    group: Group = PAIR
    tables: dict[str, Any] = field(default_factory=dict[str, Any])
    own_errors: tuple[Any, ...] = ()
    frames: int = FRAMES

    def party(self, name: str, channel: Any = None) -> Party:
        party = Party(name, self.group, channel, untyped(OpenBook()), SeededRandomness(name), timeout=5.0)
        party.run = "fixed"
        return party


PROTOCOLS = {
    # An entry that nobody has written is one that this ledger does not have.
    "agreement": Protocol(agreement, own_errors=(LedgerAltered,)),
    "disagreement": Protocol(disagreement, own_errors=(LedgerAltered,)),
    "introduction": Protocol(introduction, tables=TABLES),
    "alignment": Protocol(alignment, tables=TABLES, own_errors=(DataError, PlanError)),
    "misalignment": Protocol(misalignment, tables=TABLES, own_errors=(DataError, PlanError)),
    "receipts": Protocol(receipts),
    "sharing": Protocol(sharing),
    "secure sums": Protocol(secure_sums, TRIO),
    "intersection": Protocol(intersection),
    "publication": Protocol(publication),
    "encrypted numbers": Protocol(encrypted_numbers, TWO, frames=FRAMES_ENCRYPTED),
}


@cache
def recorded(name: str) -> dict[str, list[Seen]]:
    """What each party received in an honest run."""
    protocol = PROTOCOLS[name]
    seen: dict[str, list[Any]] = {}

    async def program(party: Party, table: Table | None) -> None:
        party.run = "fixed"
        try:
            await protocol.program(party, table)
        except (RemoteProtocolError, InputError):
            # Where parties differ the protocol ends in an error that is part of it.
            await asyncio.sleep(0.05)
        seen[party.name] = there(party.seen)

    desks = {
        member: PartyInputs(
            untyped(OpenBook()), protocol.tables.get(member), randomness=SeededRandomness(member)
        )
        for member in protocol.group.members
    }
    run_here(program, protocol.group, desks, record=True)
    return {member: frames for member, frames in seen.items() if frames}


def on_curve(point: bytes) -> bool:
    u = int.from_bytes(point, "little")
    right = u * (u * (u + 486662) + 1) % PRIME
    return u < PRIME and right != 0 and pow(right, (PRIME - 1) // 2, PRIME) == 1


def is_share(message: Message) -> bool:
    key, packed = message.fields.get("key"), message.arrays.get("share")
    if packed is None:
        return type(key) is bytes and len(key) == 32
    if key is not None or packed.dtype != np.uint8 or packed.shape != (32,):
        return False
    words = np.frombuffer(packed.tobytes(), dtype="<u8")
    residues = [(words >> np.uint64(21 * place)) & np.uint64(2**21 - 1) for place in range(3)]
    return all((part < prime).all() for part, prime in zip(residues, FIELD63.primes, strict=True))


def is_schema(message: Message, sender: str) -> bool:
    return PublicSchema.from_data(message.fields["schema"]).party == sender


def are_points(message: Message) -> bool:
    points = message.arrays["points"]
    return points.dtype == np.uint8 and points.ndim == 2 and all(on_curve(row.tobytes()) for row in points)


def are_places(message: Message) -> bool:
    places = message.arrays["places"]
    kept = places.tolist()
    return places.dtype == np.uint32 and len(set(kept)) == len(kept) and all(0 <= place < 3 for place in kept)


def are_ciphertexts(message: Message, honest: Message) -> bool:
    numbers, modulus = message.arrays["ciphertexts"], small_key().public.modulus
    values = [int.from_bytes(row.tobytes(), "little") for row in numbers]
    return numbers.shape == honest.arrays["ciphertexts"].shape and all(
        0 < value < modulus**2 and math.gcd(value, modulus) == 1 for value in values
    )


def could_be_sent(step: str, message: Message, honest: Message, sender: str) -> bool:
    """Whether an honest peer with other coins, or other rows, could have sent this message at this step."""
    fields, arrays = message.fields, message.arrays
    match step.split(" "):
        case ["hello"]:
            return type(fields["contribution"]) is str and fields["wire"][0] <= SPOKEN[1] <= fields["wire"][1]
        case ["job"] | ["plan"] | ["id", "rules"] | ["rows"]:
            return all(fields.get(key) == value for key, value in honest.fields.items())
        case ["job", "fields"]:
            return False
        case ["introduction"]:
            return is_schema(message, sender)
        case ["receipts"]:
            digests = (fields["head"], fields["origin"] or "0" * 64)
            (entry,) = message.arrays["entry"].tolist()
            return entry >= 1 and all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests)
        case ["key"]:
            return all(fields[key] == value for key, value in honest.fields.items())
        case ["columns", _] if "ciphertexts" in honest.arrays:
            return are_ciphertexts(message, honest)
        case ["columns", _] | ["noise"] | ["moments"]:
            return is_share(message)
        case ["mask", "keys"]:
            return len(fields["key"]) == 32
        case ["sum", _]:
            return arrays["words"].dtype == np.uint8 and arrays["words"].shape == honest.arrays["words"].shape
        case ["set", "sizes"]:
            return bool(0 <= fields["size"] <= MOST_IDS)
        case ["blinded", "ids"]:
            return are_points(message)
        case ["twice", "blinded", "ids"]:
            return arrays["points"].shape == honest.arrays["points"].shape
        case ["common", "number"]:
            return bool(0 <= fields["common"] <= 3)
        case ["common", "places"]:
            return are_places(message)
        case ["release"]:
            matrix = arrays["matrix"]
            return matrix.shape == honest.arrays["matrix"].shape and bool((matrix == matrix.T).all())
        case ["known", "entries"]:
            return arrays["entry"].tolist() == [0] and arrays["tag"].shape == (32,)
        case ["proved", "entries"]:
            return arrays["tag"].shape == (32,)
        case ["closing"]:
            return True
        case ["finished"]:
            return fields["read"] in ("", honest.fields["read"])
    raise AssertionError(f"no rule for step {step!r}")


async def attacked(protocol: Protocol, name: str, seen: list[Any], seed: int) -> str:
    """One run of one party with one thing wrong: "refused" or "taken"; anything else fails the test."""
    rng = Random(seed)
    at = rng.randrange(len(seen))
    damage, frames = reshuffled(seen, at, rng)
    party = scripted(protocol.party(name), frames)
    what = (
        f"{name}, frame {at} of {len(seen)} ({seen[at].step!r} from {seen[at].sender}), {damage}, seed {seed}"
    )
    try:
        await protocol.program(party, protocol.tables.get(name))
    except RemoteProtocolError as error:
        text = str(error)
        assert "step '" in text, f"{what}: no step in {text!r}"
        assert any(peer in text for peer in protocol.group.others(name)), f"{what}: no party in {text!r}"
        if damage in ("truncated", "arbitrary", "overlong"):
            assert seen[at].sender in text and f"{seen[at].step!r}" in text, f"{what}: {text!r}"
        return "refused"
    except protocol.own_errors:
        return "refused"
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    left = {peer: len(queue) for peer, queue in untyped(party.channel).frames.items()}
    for peer in {one.sender for one in seen}:
        sent = [frame for sender, _, frame in frames if sender == peer]
        honest = [one.frame for one in seen if one.sender == peer]
        for got, wanted in zip(sent[: len(sent) - left.get(peer, 0)], honest, strict=False):
            if got == wanted:
                continue
            (envelope, message), (expected, meant) = decode(got), decode(wanted)
            assert envelope == expected, f"{what}: a frame of {peer} for another place was taken"
            assert could_be_sent(envelope.step, message, meant, peer), f"{what}: {peer}'s {message} was taken"
    return "taken"


def fuzz(name: str, count: int) -> dict[str, int]:
    protocol, run = PROTOCOLS[name], recorded(name)
    members = sorted(run)

    async def attack() -> dict[str, int]:
        ends = {"refused": 0, "taken": 0}
        for seed in range(count):
            member = members[seed % len(members)]
            ends[await attacked(protocol, member, run[member], seed)] += 1
        return ends

    return asyncio.run(attack())


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("in_full", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_no_frame_crashes_a_protocol_and_none_is_taken_that_no_peer_could_send(
    name: str, in_full: bool
) -> None:
    count = FRAMES_IN_FULL if in_full else PROTOCOLS[name].frames
    ends = fuzz(name, count)
    assert ends["refused"] > count // 3, f"{ends}: these frames are too tame to show anything"


def test_this_harness_would_notice_a_receiver_that_trusts_its_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def trusting(party: Party, _: Any) -> int | None:
        if party.name == "bank":
            await tell(party, "insurer", "rows", Message({"rows": 3}))
        return (await hear(party, "bank", "rows")).fields["rows"] + 1 if party.name == "insurer" else None

    recorded.cache_clear()
    monkeypatch.setitem(PROTOCOLS, "trusting", Protocol(trusting))
    with pytest.raises(AssertionError, match=r"insurer, frame 0 of 1 .*(KeyError|TypeError|taken)"):
        fuzz("trusting", 200)


def test_this_harness_would_notice_a_share_that_is_no_share_and_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "colonnade.protocols.sharing.unpack", lambda scheme, message, shape, source: scheme.field.zeros(shape)
    )
    with pytest.raises(AssertionError, match="was taken"):
        fuzz("sharing", 500)


def test_a_real_ledger_keeps_whatever_receipt_could_be_one(tmp_path: Path) -> None:
    protocol, run = PROTOCOLS["receipts"], recorded("receipts")
    ledger = Ledger.create(tmp_path / "bank.ledger", "bank")

    async def attack() -> None:
        for seed in range(120):
            rng = Random(seed)
            _, frames = reshuffled(run["bank"], rng.randrange(len(run["bank"])), rng)
            party = scripted(protocol.party("bank"), frames)
            party.ledger, party.run = ledger, "fixed"
            # A receipt that contradicts an earlier one of the same ledger is kept too, and said to be altered.
            with contextlib.suppress(RemoteProtocolError, LedgerAltered):
                await charge_first(party, replace(RELEASE, id=f"fuzzed/{seed}"))

    asyncio.run(attack())
    kept = Ledger.open(tmp_path / "bank.ledger")
    kept.verify()
    assert len(kept.receipts()) > 2


# Whole runs with one hostile party: everybody else ends, in time, with the right result or with an error.
#
# It runs the real program behind a channel that damages, drops, repeats, delays, redirects or replaces one of its
# frames. Honest parties draw from seeds, so the right result is known. What one frame cannot show is left to the
# threat model: a share, a word or a point that is another of its kind is taken, and the result is wrong.


HOSTILE_RUNS = 40
TIMEOUT = 0.4
# Far more than every party's every timeout together: only a hang takes this long.
HANG = 60.0

# Damage that leaves nothing to interpret: whoever reads the frame must refuse it.
CERTAIN = {
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
}
ORDERS = ("drop", "repeat", "swap", "replay", "redirect", "old", "silence", "relabel")


@dataclass
class HostileChannel:
    """An honest channel until the frame numbered `at`; then one thing goes wrong."""

    inner: Any
    at: int
    damage: Any
    rng: Random
    old: list[Any] = field(default_factory=list[Any])
    sent: list[Any] = field(default_factory=list[Any])
    held: tuple[Any, ...] | None = None
    done: str = ""

    async def send(self, to: str, step: str, frame: bytes) -> Any:
        number = len(self.sent)
        self.sent.append((to, step, frame))
        if self.held is not None and self.held[0] == to:
            held, self.held = self.held, None
            await self.inner.send(to, step, frame)
            return await self.inner.send(*held)
        if number < self.at or (self.done and self.damage != "silence"):
            return await self.inner.send(to, step, frame)
        self.done = str(getattr(self.damage, "__name__", self.damage))
        match self.damage:
            case "drop" | "silence":
                return None
            case "repeat":
                await self.inner.send(to, step, frame)
                return await self.inner.send(to, step, frame)
            case "swap":
                self.held = (to, step, frame)
                return None
            case "replay":
                earlier = self.rng.choice(self.sent[:number] or [(to, step, b"")])
                return await self.inner.send(to, step, earlier[2])
            case "redirect":
                others = [peer for peer in self.inner._boxes if peer not in (to, self.inner.name)]
                await self.inner.send(self.rng.choice(others), step, frame)
                return None
            case "old":
                return await self.inner.send(to, step, self.rng.choice(self.old)[2])
            case "relabel":
                return await self.inner.send(to, "another step", frame)
            case _:
                return await self.inner.send(to, step, self.damage(frame, self.rng))

    async def receive(self, peer: str, step: str, timeout: float) -> bytes:
        result: bytes = await self.inner.receive(peer, step, timeout)
        return result

    def stop(self, reason: str | None) -> None:
        # A hostile party does not say that it stopped: the others must find out by waiting.
        if reason is None:
            self.inner.stop(reason)


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


async def moments(party: Party, table: Any) -> Any:
    request = requested(MomentsOptions, "classification", 1.0, delta=1e-5)
    return (await moments_session(party, table, request)).matrix.tolist()


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
    name: str, *, villain: str | None = None, wrap: Any = None, seed: int = 0, timeout: float = TIMEOUT
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
def honest(name: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """What everybody ends with, and what each party sends, in an honest run."""
    # Nobody is silent here, so patience costs nothing, and a busy machine needs it.
    ends, _ = asyncio.run(everybody(name, timeout=HANG))
    sent: dict[Any, Any] = {}
    old: dict[Any, Any] = {}
    for villain in WHOLE[name][1].members:
        for seed, kept in ((0, sent), (1, old)):
            spy: list[Any] = []

            def wrap(inner: MemoryChannel, spy: list[Any] = spy) -> HostileChannel:
                channel = HostileChannel(inner, 10**9, None, Random(0))
                spy.append(channel)
                return channel

            asyncio.run(everybody(name, villain=villain, wrap=wrap, seed=seed, timeout=HANG))
            kept[villain] = spy[0].sent
    return ends, sent, old


def attack(name: str, seed: int) -> tuple[str, bool]:
    """One run with one hostile party: what it did, and whether anybody noticed."""
    expected, sent, old = honest(name)
    rng = Random(seed)
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
    for seed in range(HOSTILE_RUNS):
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
        everybody("moments", villain=villain, wrap=lambda inner: HostileChannel(inner, at, damage, Random(0)))
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


# A frame is taken if and only if it is the next one, in this run, at this step, in this direction.


RUNS = ("first", "second")
STEPS = ("columns 0", "columns 1", "noise")
members, runs, steps = st.sampled_from(PAIR.members), st.sampled_from(RUNS), st.sampled_from(STEPS)


class Wire:
    """What was sent last, and what will be received next."""

    def __init__(self) -> None:
        self.sent, self.next = b"", b""

    async def send(self, to: str, step: str, frame: Any) -> None:
        self.sent = frame

    async def receive(self, peer: str, step: str, timeout: float) -> Any:
        return self.next

    def stop(self, reason: Any) -> None:
        return None


class Envelopes(RuleBasedStateMachine):
    """Three parties in two runs; whoever carries the frames may keep, repeat, reorder and redirect them."""

    frames = Bundle("frames")

    @initialize()
    def meet(self) -> None:
        self.parties = {
            (run, name): Party(name, PAIR, Wire(), untyped(None), run=run, timeout=5.0)
            for run in RUNS
            for name in PAIR.members
        }
        self.used: dict[Any, Any] = {}
        self.count = 0

    @rule(target=frames, run=runs, sender=members, receiver=members, step=steps)
    def send(self, run: Any, sender: str, receiver: str, step: str) -> Any:
        party = self.parties[run, sender]
        asyncio.run(tell(party, receiver, step, Message({"n": self.count})))
        self.count += 1
        return (run, sender, receiver, step, untyped(party.channel).sent)

    @rule(frame=frames, run=runs, receiver=members, peer=members, step=steps, faithful=st.booleans())
    def deliver(self, frame: Any, run: Any, receiver: str, peer: str, step: str, faithful: Any) -> None:
        """Hand a frame to somebody who waits for somebody's step; refusals end the run, so try on a copy."""
        if faithful:
            run, peer, receiver, step, _ = frame
        party = self.parties[run, receiver]
        trial = copy.copy(party)
        trial.numbers, trial.channel = dict(party.numbers), Wire()
        trial.channel.next = frame[-1]
        number = self.used.get((run, peer, receiver), 0)
        is_next = frame[:4] == (run, peer, receiver, step) and decode(frame[-1])[0].number == number
        try:
            asyncio.run(hear(trial, peer, step))
        except RemoteProtocolError as error:
            assert not is_next, f"the next frame was refused: {error}"
            assert receiver in str(error) and peer in str(error) and repr(step) in str(error)
            return
        assert is_next, "a frame was taken that is not the next one"
        party.numbers = trial.numbers
        self.used[run, peer, receiver] = number + 1

    @rule(frame=frames, cut=st.integers(1, 30), receiver=members, peer=members)
    def deliver_a_piece(self, frame: Any, cut: Any, receiver: str, peer: str) -> None:
        trial = copy.copy(self.parties[frame[0], receiver])
        trial.numbers, trial.channel = dict(trial.numbers), Wire()
        trial.channel.next = frame[-1][:-cut]
        try:
            asyncio.run(hear(trial, peer, frame[3]))
        except RemoteProtocolError:
            return
        raise AssertionError("a piece of a frame was taken")

    @invariant()
    def nobody_takes_more_than_was_sent(self) -> None:
        for (run, sender, receiver), used in getattr(self, "used", {}).items():
            assert used <= self.parties[run, sender].numbers.get(("to", receiver), 0)


Envelopes.TestCase.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
TestEnvelopes = Envelopes.TestCase
