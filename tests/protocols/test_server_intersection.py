"""Matching through the server: what each ends up with, what each sees, and every wrong version of it."""

import asyncio
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training_specs import requested
from typed import there, untyped

from colonnade.crypto.pseudonyms import DUMMIES, PSEUDONYM_BYTES, pseudonyms, subkey
from colonnade.data.arrays import of_texts, packed
from colonnade.data.schema import Schema
from colonnade.data.table import AlignedTable, Table
from colonnade.errors import (
    BadIds,
    ColonnadeError,
    DataError,
    GroupMismatch,
    LocalProtocolError,
    OnlyForPublicData,
    PolicyRefused,
    RemoteProtocolError,
)
from colonnade.federation.federation import Federation
from colonnade.ledger import Ledger
from colonnade.methods.moments.plan import MomentsOptions
from colonnade.methods.moments.protocol import moments_session
from colonnade.protocols import alignment, intersection, messages
from colonnade.protocols import intersection as server_intersection
from colonnade.protocols.agreement import canonical, meet
from colonnade.protocols.alignment import Alignment, _digest, align
from colonnade.protocols.intersection import Ids
from colonnade.protocols.messages import exchange, hear, tell
from colonnade.randomness import KeyedRandomness, Randomness, SystemRandomness
from colonnade.runtime.journal import PROVED, Journal
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import Outcome, PartyInputs, run_here
from colonnade.runtime.wire import Message, decode

IDS = {
    "bank": [f"p{n}" for n in range(0, 60)],
    "insurer": [f"p{n}" for n in range(90, 20, -1)],
    "shop": [f"p{n}" for n in range(0, 200, 2)],
}
TWO = {party: IDS[party] for party in ("bank", "insurer")}
BLINDED = {"blinded ids", "twice blinded ids"}


def table_of(party: str, ids: list[str]) -> Table:
    schema = Schema.parse(f"id='n'\n[columns.{party}]\nkind='numeric'\nlow=0\nhigh=1000\n")
    return Table.from_arrays(party, {party: [float(len(one)) for one in ids]}, schema, ids=ids)


def inputs_of(
    group: Group, ids: Mapping[str, list[str]], *, shown: dict[str, int] | None = None, **more: Any
) -> dict[str, PartyInputs]:
    """A ledger and a table of these ids for every member."""
    return {
        name: PartyInputs(
            Ledger.in_memory(name),
            table_of(name, ids[name]) if name in ids else None,
            shown_ids=(shown or {}).get(name),
            **more,
        )
        for name in group.members
    }


def aligned(
    ids: dict[str, list[str]],
    how: Alignment = "server",
    *,
    in_shares: bool = True,
    group: Group | None = None,
    changed: Callable[[Party], None] = lambda party: None,
    draws: Callable[[str], Randomness] = lambda name: SystemRandomness(),
    shown: dict[str, int] | None = None,
    public: bool = False,
    trusting: tuple[str, ...] | None = None,
) -> Outcome:
    group = group or Group.of(tuple(ids))

    async def program(party: Party, table: Table | None) -> AlignedTable | None:
        changed(party)
        await meet(party)
        return await align(party, table, how, in_shares=in_shares)

    inputs = {
        name: replace(desk, randomness=draws(name), trusts_server=trusting is None or name in trusting)
        for name, desk in inputs_of(group, ids, shown=shown, public=public).items()
    }
    return run_here(program, group, inputs, record=True)


def people(outcome: Outcome, party: str) -> list[str]:
    return list(outcome.results[party].table.ids())


def steps(outcome: Outcome) -> set[str]:
    return {seen.step for party in outcome.seen for seen in there(outcome.seen[party])}


def strings(outcome: Outcome, server: str = "server") -> dict[str, list[bytes]]:
    """What every owner listed, as the server saw it."""
    found: dict[str, list[bytes]] = {}
    for seen in there(outcome.seen[server]):
        if seen.step == "pseudonyms":
            listed = decode(seen.frame)[1].arrays["strings"]
            found.setdefault(seen.sender, []).extend(row.tobytes() for row in listed)
    return found


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.sets(st.integers(0, 30), min_size=1, max_size=20), min_size=2, max_size=4),
    st.integers(0, 3),
    st.sampled_from([1, 7, 1 << 16]),
)
def test_it_is_what_a_trusted_party_would_say(sets: list[set[int]], more: int, frames: int) -> None:
    ids = {f"house{place}": [f"p{number}" for number in one] for place, one in enumerate(sets)}
    common = set.intersection(*(set(names) for names in ids.values()))
    kept = server_intersection._STRINGS, server_intersection._PLACES
    server_intersection._STRINGS, server_intersection._PLACES = frames, 8 * frames
    try:
        outcome = aligned(ids, shown={party: len(names) + more for party, names in ids.items()})
    except DataError as error:
        assert "no ids in common" in str(error) and not common
    else:
        assert all(people(outcome, party) == people(outcome, "house0") for party in ids)
        assert set(people(outcome, "house0")) == common
    finally:
        server_intersection._STRINGS, server_intersection._PLACES = kept


@pytest.mark.parametrize(("ids", "why"), [(["a", "a"], "1 are repeated"), (["", "b"], "1 ids are empty")])
def test_ids_that_are_none_are_refused_before_a_list_leaves(ids: list[str], why: str) -> None:
    async def program(party: Party, listed: list[str] | None) -> Any:
        await meet(party)
        if listed is None:
            return await server_intersection.serve(party)
        return await server_intersection.ask_through_server(party, Ids.of(listed))

    group = Group.of(("bank", "insurer"))
    held = {"bank": ids, "insurer": ["a"], "server": None}
    desks = {name: PartyInputs(Ledger.in_memory(name), listed) for name, listed in held.items()}
    with pytest.raises(BadIds, match=why):
        run_here(program, group, desks)


SEED: dict[str, Any] = {"draws": lambda name: KeyedRandomness(hashlib.sha256(name.encode()).digest())}


LEFT_OPEN: dict[str, tuple[Any, dict[str, Any], bool]] = {
    "two owners, shares at the server": (TWO, {}, True),
    "no shares": (TWO, {"in_shares": False}, False),
    "three owners": (IDS, {}, False),
    "one policy says no": (TWO, {"trusting": ("bank",)}, False),
    "the other says no": (TWO, {"trusting": ("insurer",)}, False),
    "seeded coins": (TWO, SEED, False),
    "seeded coins, public data": (TWO, {**SEED, "public": True}, True),
    "equal lists": (dict.fromkeys(TWO, IDS["bank"]), {}, False),
}


@pytest.mark.parametrize(("ids", "options", "through"), LEFT_OPEN.values(), ids=LEFT_OPEN)
def test_left_open_it_is_through_the_server_only_where_it_is_trusted_with_as_much(
    ids: dict[str, list[str]], options: dict[str, Any], through: bool
) -> None:
    outcome = aligned(ids, "auto", **options)
    assert ("pseudonyms" in steps(outcome)) is through
    assert all(people(outcome, party) == people(outcome, "bank") for party in ids)


def test_it_may_be_chosen_and_refused_and_not_with_a_server_that_owns_columns() -> None:
    assert "pseudonyms" in steps(aligned(IDS, "server", in_shares=False))
    with pytest.raises(PolicyRefused, match="insurer does not accept"):
        aligned(TWO, trusting=("bank",))
    with pytest.raises(OnlyForPublicData, match="coins come from a seed"):
        aligned(TWO, **SEED)
    # It would have a list of its own, the key, and everybody else's list.
    with pytest.raises(GroupMismatch, match="the server 'bank' owns columns"):
        aligned(TWO, group=Group.pair("bank", "insurer"))
    assert "pseudonyms" not in steps(aligned(TWO, "auto", group=Group.pair("bank", "insurer")))


def test_ledgers_say_through_whom_and_two_owners_take_it_by_default() -> None:
    found = {}
    for how in ("server", "curve"):
        source = federation(TWO, alignment=untyped(how))
        source.align()
        (found[how],) = source.ledgers["bank"].comparisons()
    assert (found["server"].partners, found["server"].through) == (("insurer",), "server")
    assert found["curve"].through == ""
    run = federation(TWO).run(moments_session, requested(MomentsOptions, "pca", 1.0, delta=1e-5), record=True)
    assert "pseudonyms" in steps(run.outcome) and run.plan.rows == 39
    assert not {"pseudonyms", "pseudonym", "matching", "people", "common"} & set(
        run.outcome.shared.bytes_by_step
    ), "how long lists are is nobody else's to read"


# --- what each sees
def test_the_server_sees_lengths_and_how_many_are_common_and_nothing_of_the_key() -> None:
    """k relayed, or made by one: the server would compute everybody's pseudonyms."""
    keys: list[bytes] = []

    def noting(party: Party) -> None:
        class Noting(SystemRandomness):
            def bytes(self, count: int) -> bytes:
                keys.append(super().bytes(count))
                return keys[-1]

        if party.owns_columns:
            party.randomness = Noting()

    held = {owner: [f"person {one}" for one in ids] for owner, ids in TWO.items()}
    outcome = aligned(held, changed=noting)
    seen = there(outcome.seen["server"])
    assert {entry.step for entry in seen} == {"hello", PROVED, "matching", "pseudonyms"}
    frames = b"".join(entry.frame for entry in seen)
    assert len(keys) >= 6 and not [key for key in keys if len(key) == 32 and key in frames]
    listed = strings(outcome)
    assert {owner: len(one) - DUMMIES for owner, one in listed.items()} == {
        owner: len(ids) for owner, ids in TWO.items()
    }
    assert len(set(listed["bank"]) & set(listed["insurer"])) - DUMMIES == 39
    for owner, ids in held.items():
        assert not [one for one in ids if one.encode() in frames], owner


def test_a_key_needs_no_more_than_one_owner_with_good_coins() -> None:
    """k from one owner's coins: whoever knows those has it."""

    def known(name: str) -> Randomness:
        return KnownCoins() if name == "bank" else SystemRandomness()

    first, second = (strings(aligned(TWO, draws=known)) for _ in range(2))
    assert not set(first["insurer"]) & set(second["insurer"])


class KnownCoins:
    """Coins that somebody else knows, of an owner that does not know it."""

    reproducible = False

    def bytes(self, count: int) -> bytes:
        return bytes(count)

    def words(self, count: int) -> Any:
        return np.zeros(count, dtype=np.uint64)


def test_two_runs_share_no_string_and_no_order() -> None:
    """k kept between runs: the server would see who comes and goes."""
    outcomes = [aligned(TWO) for _ in range(3)]
    listed = [set(strings(outcome)["bank"]) for outcome in outcomes]
    assert not listed[0] & listed[1] and not listed[1] & listed[2]
    assert len({tuple(people(outcome, "bank")) for outcome in outcomes}) == 3


def test_frames_depend_on_lengths_alone() -> None:
    def frames(ids: dict[str, list[str]], shown: dict[str, int] | None = None) -> Any:
        outcome = aligned(ids, shown=shown)
        return [
            (party, seen.sender, seen.step, len(seen.frame))
            for party in sorted(outcome.seen)
            for seen in sorted(there(outcome.seen[party]), key=lambda seen: (seen.sender, seen.step))
        ]

    first = frames(TWO)
    other = {party: [f"{one} of somewhere else" for one in reversed(ids)] for party, ids in TWO.items()}
    assert frames(other) == first
    fewer = {party: ids[20:50] for party, ids in TWO.items()}
    assert frames(fewer, {party: len(ids) for party, ids in TWO.items()}) == first


# --- lists compared by a digest under the key
def findable(known: list[str], candidates: list[str], outcome: Any, key: bytes, run: str) -> list[str]:
    """The candidates that an owner finds, which knows the key and the others' ids but one, from what it saw."""
    party = SimpleNamespace(run=run)
    frames = b"".join(seen.frame for seen in outcome)
    found = []
    for one in candidates:
        for listed in ([*known, one], sorted([*known, one]), by_pseudonym([*known, one], key)):
            for what in ("in order", "sorted", "in every row"):
                digest = _digest(untyped(party), what, Ids.of(listed))
                keyed = hashlib.blake2b(digest, key=key, digest_size=32).digest()
                if digest in frames or digest.hex().encode() in frames or keyed in frames:
                    found.append(one)
    return found


def by_pseudonym(ids: list[str], key: bytes) -> list[str]:
    listed = of_texts(ids)
    made = pseudonyms(*packed(listed), subkey(key, "ids"))
    return [ids[place] for place in np.argsort([row.tobytes() for row in made])]


@pytest.mark.parametrize(("how", "wrong"), [("server", "_holds"), ("auto", "_all_hold")])
@pytest.mark.parametrize("blinded", [True, False], ids=["blinded", "by a digest under the key"])
def test_what_an_owner_saw_cannot_be_compared_with_guesses(
    how: Alignment, wrong: str, blinded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server names the one private place at the insurer, and the bank looks for that id among candidates."""
    common = [f"p{n}" for n in range(20)]
    ids = {"bank": common, "insurer": [*common, "q417"]}
    honest: Callable[[list[Any]], list[Any]] = untyped(server_intersection).common
    common_key, keys, parties = server_intersection._common_key, dict[str, bytes](), dict[str, Party]()

    async def noting_key(party: Party) -> bytes:
        return keys.setdefault(party.name, await common_key(party))

    def one_private_place(lists: list[Any]) -> list[Any]:
        named = honest(lists)
        named[1][:] = True
        return named

    async def by_digest(party: Party, peer: str, digest: bytes) -> bool:
        """The wrong version: ids in order are compared by a digest under the key that owners share."""
        mine = hashlib.blake2b(digest, key=keys[party.name], digest_size=32).digest()
        said = await exchange(party, "people", Message({"digest": mine}), (party.name, peer))
        return bool(said[peer].fields["digest"] == mine)

    async def all_by_digest(party: Party, digest: bytes) -> bool:
        await noting_key(party)
        return await by_digest(party, min({*party.group.owners} - {party.name}), digest)

    monkeypatch.setattr(server_intersection, "_common_key", noting_key)
    monkeypatch.setattr(server_intersection, "common", one_private_place)
    if not blinded:
        monkeypatch.setattr(alignment, wrong, by_digest if wrong == "_holds" else all_by_digest)
    with pytest.raises(RemoteProtocolError, match="do not hold the same people"):
        aligned(ids, how, changed=lambda party: parties.update({party.name: party}))
    bank = parties["bank"]
    assert keys["bank"] == keys["insurer"]
    candidates = [f"q{number}" for number in range(400, 430)]
    found = findable(common, candidates, there(bank.seen), keys["bank"], bank.run)
    assert found == ([] if blinded else ["q417"])


# --- a server that names other places
def one_owner_only(named: list[Any]) -> None:
    named[0][np.flatnonzero(named[0])[:3]] = False


def everything(named: list[Any]) -> None:
    named[-1][:] = True


def nothing(named: list[Any]) -> None:
    for one in named:
        one[:] = False


def padding_or_another(named: list[Any]) -> None:
    """A place that is not common: padding, or somebody whom only that owner has."""
    named[0][np.flatnonzero(~named[0])[0]] = True


def shifted(named: list[Any]) -> None:
    named[1][:] = np.roll(named[1], 1)


def a_tenth_left_out(named: list[Any]) -> None:
    """The same people at everybody, dummies among them but by chance, which 128 of them leave little of."""
    places = [np.flatnonzero(one) for one in named]
    for one, at in zip(named, places, strict=True):
        one[at[::3]] = False


def two_of_three(named: list[Any]) -> None:
    one_owner_only(named[-1:])


DEVIATIONS = [one_owner_only, everything, nothing, padding_or_another, shifted, a_tenth_left_out]


def deviating(deviation: Callable[[list[Any]], None], ids: dict[str, list[str]], **options: Any) -> Any:
    """The error of every owner, and the frames that everybody saw."""
    honest: Callable[[list[Any]], list[Any]] = untyped(server_intersection).common

    def named(lists: list[Any]) -> list[Any]:
        found = [one.copy() for one in honest(lists)]
        deviation(found)
        return found

    errors: dict[str, str] = {}
    parties: list[Party] = []
    group = Group.of(tuple(ids))

    async def program(party: Party, table: Table | None) -> Any:
        parties.append(party)
        await meet(party)
        try:
            return await align(party, table, "server")
        except ColonnadeError as error:
            errors[party.name] = f"{type(error).__name__}: {error}".replace(party.name, "…")
            return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server_intersection, "common", named)
        run_here(program, group, inputs_of(group, ids, **options), record=True)
    frames = {
        party.name: sorted((seen.sender, seen.step, len(seen.frame)) for seen in there(party.seen))
        for party in parties
    }
    return errors, frames


@pytest.mark.parametrize("ids", [TWO, IDS], ids=["two owners", "three owners"])
def test_whatever_the_server_names_wrongly_ends_at_one_step_in_the_same_words(
    ids: dict[str, list[str]],
) -> None:
    shown = {party: len(listed) + 5 for party, listed in ids.items()}
    sound, usual = deviating(lambda named: None, ids, shown=shown)
    assert not sound
    deviations = [*DEVIATIONS, two_of_three] if len(ids) == 3 else DEVIATIONS
    found = [deviating(deviation, ids, shown=shown) for deviation in deviations]
    for deviation, (errors, frames) in zip(deviations, found, strict=True):
        assert set(errors) == set(ids), deviation
        assert set(errors.values()) == set(found[0][0].values()) and len(set(errors.values())) == 1
        assert "at step 'people'" in errors["bank"]
        assert frames == usual, deviation


def test_single_people_can_be_left_out_and_a_tenth_of_them_hardly(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the page says of a server that deviates: what it leaves out passes while no dummy is among it."""
    honest: Callable[[list[Any]], list[Any]] = untyped(server_intersection).common
    (left_out,) = [40]

    def leaving(lists: list[Any]) -> list[Any]:
        named = honest(lists)
        row = np.flatnonzero(named[0])[left_out]
        string = lists[0][row].tobytes()
        for one, listed in zip(named, lists, strict=True):
            one[[row.tobytes() == string for row in listed]] = False
        return named

    monkeypatch.setattr(server_intersection, "common", leaving)
    passed = stopped = 0
    for _ in range(12):
        try:
            outcome = aligned(TWO)
        except RemoteProtocolError:
            stopped += 1
        else:
            passed += 1
            assert len(people(outcome, "bank")) == 38
    assert passed + stopped == 12 and stopped, "128 of 167 are dummies here"
    assert 1.3e-6 < 0.9**DUMMIES < 1.4e-6
    for people_in_all, chance in ((1000, 3.3e-6), (100, 2.1e-4)):
        tenth = people_in_all // 10
        found = math.comb(people_in_all, tenth) / math.comb(people_in_all + DUMMIES, tenth)
        assert 0.95 * chance < found < chance


# --- an owner that does not follow
def play(owner: Callable[[Party], Any], *, cheat: str = "insurer") -> Any:
    async def program(party: Party, table: Table | None) -> Any:
        await meet(party)
        if party.name != cheat:
            return await align(party, table, "server")
        with party.aligning():
            return await owner(party)

    group = Group.of(("bank", "insurer"))
    inputs = inputs_of(group, {"bank": ["a", "b"], "insurer": ["b", "c"]})
    return run_here(program, group, inputs, timeout=5)


RULES = canonical(table_of("bank", ["a"]).schema.id_spelling.to_data()).decode()


async def until_key(party: Party) -> None:
    await exchange(party, "id rules", Message({"rules": RULES}), party.group.owners)
    await exchange(party, "set sizes", Message({"size": 2}), party.group.owners)


async def until_lists(party: Party, sizes: tuple[int, int] = (2, 2)) -> bytes:
    await until_key(party)
    announced = Message({"through": True}, {"sizes": np.array(sizes, dtype=np.int64)})
    await tell(party, party.group.server, "matching", announced)
    return await server_intersection._common_key(party)


def listed(*rows: bytes, count: int = 2 + DUMMIES) -> Message:
    filled = [number.to_bytes(PSEUDONYM_BYTES, "big") for number in range(count - len(rows))]
    content = b"".join((*filled, *rows))
    return Message(arrays={"strings": np.frombuffer(content, dtype=np.uint8).reshape(-1, PSEUDONYM_BYTES)})


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (listed(count=1 + DUMMIES), "expected an array"),
        (listed(count=3 + DUMMIES), "expected an array"),
        (listed(bytes(PSEUDONYM_BYTES)), "not in order, or one is repeated"),
        (listed(b"\xff" * 16, b"\xff" * 16), "not in order, or one is repeated"),
        (Message({"strings": b"x"}), "expected an array"),
    ],
    ids=["short", "long", "disorder", "repetition", "none"],
)
def test_a_list_that_is_none_ends_the_run_by_name(bad: Message, why: str) -> None:
    async def owner(party: Party) -> None:
        await until_lists(party)
        await tell(party, "server", "pseudonyms", bad)
        await hear(party, "server", "common places")

    with pytest.raises(RemoteProtocolError, match=f"server at step 'pseudonyms', from insurer.*{why}"):
        play(owner)


def test_disorder_between_two_frames_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_intersection, "_STRINGS", 65)

    async def owner(party: Party) -> None:
        await until_lists(party)
        whole = listed().arrays["strings"]
        for part in (whole[65:], whole[:65]):
            await tell(party, "server", "pseudonyms", Message(arrays={"strings": part}))
        await hear(party, "server", "common places")

    with pytest.raises(RemoteProtocolError, match="not in order"):
        play(owner)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        # `most_ids` would hold nothing if the server took another length than peers were told.
        ((2, 2_000_000), "do not name the same numbers of ids"),
        ((-1, 2), r"insurer announced .* ids"),
        ((intersection.MOST_IDS + 1, 2), r"insurer announced .* ids"),
    ],
)
def test_an_owner_cannot_list_more_than_it_shows_its_peers_or_than_can_be(
    sizes: tuple[int, int], words: str
) -> None:
    async def owner(party: Party) -> None:
        await until_lists(party, sizes)
        await hear(party, "server", "common places")

    with pytest.raises(RemoteProtocolError, match=words):
        play(owner)


@pytest.mark.parametrize("how", ["server", "curve"])
def test_more_ids_than_a_policy_accepts_are_refused(how: Alignment) -> None:
    def limited(party: Party) -> None:
        party.most_ids = len(IDS["bank"]) - 1

    with pytest.raises(PolicyRefused, match="most_ids: bank shows 60 ids"):
        aligned(TWO, how, changed=lambda party: limited(party) if party.name == "insurer" else None)
    assert people(aligned(TWO, how, changed=lambda party: setattr(party, "most_ids", 70)), "bank")


@pytest.mark.parametrize("contribution", [b"", b"x" * 31, "x" * 32, None])
def test_a_contribution_that_is_none_ends_the_run(contribution: object) -> None:
    async def owner(party: Party) -> None:
        await until_key(party)
        await tell(party, "bank", "pseudonym key", Message({"contribution": contribution}))
        await hear(party, "bank", "pseudonym key compared")

    with pytest.raises(RemoteProtocolError, match=r"bank at step 'pseudonym key', from insurer.*32 bytes"):
        play(owner)


def test_owners_that_were_told_different_contributions_stop_before_they_list() -> None:
    honest = messages.tell
    sent = []

    async def lying(party: Party, to: str, step: str, message: Message) -> None:
        sent.append(step)
        if step == "pseudonym key" and (party.name, to) == ("bank", "shop"):
            message = Message({"contribution": bytes(32)})
        await honest(party, to, step, message)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(messages, "tell", lying)
        patch.setattr(server_intersection, "tell", lying)
        with pytest.raises(RemoteProtocolError, match="another key"):
            aligned(IDS)
    assert "pseudonyms" not in sent


@pytest.mark.parametrize(
    "bad",
    [
        Message(arrays={"places": np.zeros(16, dtype=np.uint8)}),
        Message(arrays={"places": np.zeros(18, dtype=np.uint8)}),
        Message(arrays={"places": np.zeros(17, dtype=np.uint64)}),
        Message(),
    ],
)
def test_an_answer_that_is_none_ends_the_run(bad: Message) -> None:
    async def server(party: Party) -> None:
        for owner in party.group.owners:
            await hear(party, owner, "matching")
            await hear(party, owner, "pseudonyms")
        for owner in party.group.owners:
            await tell(party, owner, "common places", bad)
        await asyncio.sleep(5)

    with pytest.raises(RemoteProtocolError, match="at step 'common places', from server: expected an array"):
        play(server, cheat="server")


def test_an_owner_that_brings_guesses_learns_of_these_alone_and_of_no_more_in_a_run_that_goes_on() -> None:
    """What any intersection shows: who of those it lists the others have.

    Dummies given up for guesses are answered as well, as SECURITY says, and end the run.
    """
    honest = server_intersection._listed

    def greedy(party: Party, ids: Ids, count: int, key: bytes, padding: bytes) -> Any:
        made = honest(party, ids, count, key, padding)
        if party.name == "insurer":
            listed = of_texts([f"p{number}" for number in range(len(made.strings))])
            guesses = pseudonyms(*packed(listed), subkey(key, "ids"))
            made.strings[:] = guesses[np.argsort([row.tobytes() for row in guesses])]
        return made

    answered: list[int] = []
    common = untyped(server_intersection).common

    def noting(lists: list[Any]) -> list[Any]:
        found: list[Any] = common(lists)
        answered.append(int(np.count_nonzero(found[1])))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server_intersection, "_listed", greedy)
        patch.setattr(server_intersection, "common", noting)
        with pytest.raises(RemoteProtocolError, match="do not hold the same people"):
            aligned(TWO)
    assert answered == [len(TWO["bank"])], "all of the bank's, though the insurer has fewer of them"


# --- parts, and runs that stopped
REQUEST = requested(MomentsOptions, "pca", 1.0, delta=1e-5, alignment="server")


def federation(ids: dict[str, list[str]], **options: Any) -> Federation:
    return Federation([table_of(*item) for item in ids.items()], budget=(99.0, 1e-5), **options)


class Crash(Exception):
    """A process that ended here."""


def frames_of_alignment() -> int:
    sent: list[str] = []
    with falling(10**6, sent):
        federation(TWO, held_out=0.3).run(moments_session, REQUEST)
    return max(place for place, step in enumerate(sent) if step == "people, twice blinded") + 2


@contextmanager
def falling(lives: int, sent: list[str] | None = None) -> Iterator[None]:
    """The process ends when it would send one more than so many frames."""
    steps = [] if sent is None else sent
    honest: Callable[..., bytes] = untyped(messages).encode

    def mortal(envelope: Any, message: Message, **how: Any) -> bytes:
        steps.append(envelope.step)
        if len(steps) > lives:
            raise Crash
        return honest(envelope, message, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(messages, "encode", mortal)
        yield


def listed_in(record: Path) -> list[bytes]:
    """The frames with pseudonyms that a member's record says were sent."""
    journal = Journal.resume(record)
    try:
        return [journal.frame(kept) for kept in journal.sent["server"] if kept.step == "pseudonyms"]
    finally:
        journal.close()


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_a_run_that_stops_at_any_frame_goes_on_with_the_same_bytes(tmp_path: Path, every: int) -> None:
    left = 0
    for lives in range(8, frames_of_alignment(), every):
        two, folder = federation(TWO, held_out=0.3), tmp_path / str(lives)
        with falling(lives), pytest.raises(Crash):
            two.run(moments_session, REQUEST, checkpoint=folder)
        before = listed_in(folder / "bank")
        run = two.run(moments_session, REQUEST, checkpoint=folder, record=True)
        again = [seen for seen in there(run.outcome.seen["server"]) if seen.step == "pseudonyms"]
        assert {seen.sender for seen in again} == {"bank", "insurer"}
        assert set(before) <= {seen.frame for seen in again}
        left += len(before)
        assert [len(two.ledgers[party].comparisons()) for party in TWO] == [1, 1]
        assert not folder.joinpath("bank").exists(), "key and lists go with the record"
        undisturbed = two.run(moments_session, REQUEST)
        parts = [{*one.aligned[party].table.ids()} for one in (run, undisturbed) for party in TWO]
        assert all(part == parts[0] for part in parts) and 10 < len(parts[0]) < 39, "cut by id"
    assert left > 5 // every, "some fell after their list had left"


def test_a_run_that_stops_goes_on_with_the_same_people_or_not_at_all(tmp_path: Path) -> None:
    stopped = 0
    for lives in range(8, frames_of_alignment(), 3):
        two, folder = federation(TWO), tmp_path / str(lives)
        with falling(lives), pytest.raises(Crash):
            two.run(moments_session, REQUEST, checkpoint=folder)
        listed_before = bool(listed_in(folder / "bank"))
        changed = federation({**TWO, "bank": [*TWO["bank"][:-1], "p89"]}, ledgers=two.ledgers)
        with suppress(LocalProtocolError):
            changed.run(moments_session, REQUEST, checkpoint=folder)
            assert not listed_before, "another list left under the same key"
            continue
        stopped += 1
        assert listed_before
    assert stopped
