"""Private alignment, and the intersection below it: the same people in the same order, and nothing about the rest."""

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_server_intersection import BLINDED, IDS, inputs_of, people, steps, table_of
from test_server_intersection import aligned as matched
from training_specs import requested
from typed import there, untyped

from colonnade import errors
from colonnade.crypto import curve as blinded_sets
from colonnade.data.schema import Schema
from colonnade.data.table import AlignedTable, Table
from colonnade.federation.federation import Federation
from colonnade.ledger import HoldoutSplit, Ledger
from colonnade.methods.moments.plan import MomentsOptions
from colonnade.methods.moments.protocol import moments_session
from colonnade.protocols import agreement as parts
from colonnade.protocols import alignment, intersection, messages, session
from colonnade.protocols import intersection as protocol
from colonnade.protocols.agreement import meet
from colonnade.protocols.alignment import Alignment, _digest, align
from colonnade.protocols.intersection import Ids, intersect
from colonnade.protocols.messages import hear, tell
from colonnade.randomness import SystemRandomness
from colonnade.runtime.journal import KNOWN, PROVED
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import Outcome, PartyInputs, run_here
from colonnade.runtime.wire import Message, decode


def test_rules_and_budgets_are_compared_before_ids_are() -> None:
    columns = "[columns.{0}]\nkind='numeric'\nlow=0\nhigh=1000\n"
    rules = {"bank": "[id]\ncolumn='n'\ncase='lower'\n", "shop": "id='n'\n"}
    tables = {
        party: Table.from_arrays(
            party, {party: [1.0]}, Schema.parse(rule + columns.format(party)), ids=["p1"]
        )
        for party, rule in rules.items()
    }
    with pytest.raises(errors.PlanError, match="different rules for ids"):
        Federation(tables.values(), budget=(1.0, 1e-5)).align()
    federation = Federation([table_of("bank", ["p1"]), table_of("shop", ["p1"])], budget=(0.1, 1e-5))
    with pytest.raises(errors.BudgetExceeded):
        federation.moments(task="pca", epsilon=1.0, delta=1e-5)
    assert not federation.ledgers["bank"].comparisons()


def aligned(how: Alignment, ids: dict[str, list[str]], **options: Any) -> Outcome:
    return matched(ids, how, in_shares=False, **options)


@pytest.mark.parametrize("how", ["auto", "curve", "server"])
@pytest.mark.parametrize("parties", [("bank", "insurer"), ("bank", "insurer", "shop")])
def test_everybody_gets_the_common_people_in_one_order(how: Alignment, parties: tuple[str, ...]) -> None:
    ids = {party: IDS[party] for party in parties}
    outcome = aligned(how, ids)
    orders = [people(outcome, party) for party in parties]
    assert set(orders[0]) == set.intersection(*(set(names) for names in ids.values()))
    assert all(order == orders[0] for order in orders)
    assert len({outcome.results[party].digest for party in parties}) == 1
    assert outcome.results["server"] is None
    assert bool(steps(outcome) & BLINDED) == (how != "server"), "through the server nobody's ids are points"


def test_equal_tables_are_left_as_they_are() -> None:
    ids = {"bank": IDS["bank"], "insurer": IDS["bank"]}
    outcome, plain = aligned("auto", ids), aligned("curve", ids)
    assert people(outcome, "bank") == IDS["bank"]
    assert outcome.bytes_by_step["blinded"] < plain.bytes_by_step["blinded"] / 10, (
        "one point each, not one per person"
    )
    equal = aligned("equal", ids)
    assert equal.results["bank"].digest == equal.results["insurer"].digest
    assert all(b"ids" not in seen.frame for seen in there(equal.seen["server"])), "the server sees no digest"


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        (["a", "b"], "do not match"),
        (["c", "b", "a"], "same ids in different orders"),
        (["a", "b", "d"], "do not match"),
    ],
)
def test_ids_that_do_not_match_are_an_error_that_shows_none_of_them(theirs: list[str], message: str) -> None:
    with pytest.raises(errors.DataError, match=message) as caught:
        aligned("equal", {"bank": ["a", "b", "c"], "insurer": theirs})
    assert "'d'" not in str(caught.value)


@pytest.mark.parametrize("how", ["auto", "equal"])
def test_nothing_that_a_peer_saw_can_be_compared_with_a_guess_of_the_list(how: Alignment) -> None:
    """A digest that peers could recompute would tell a guesser who the one more person is."""
    bank, insurer = IDS["bank"], [*IDS["bank"], "p777"]
    seen: list[Any] = []

    async def program(party: Party, table: Table | None) -> None:
        await meet(party)
        try:
            await align(party, table, how)
        finally:
            seen.extend((party.name, party.run, entry.frame) for entry in there(party.seen))

    group = Group.of(("bank", "insurer"))
    try:
        run_here(program, group, inputs_of(group, {"bank": bank, "insurer": insurer}), record=True)
    except errors.DataError:
        assert how == "equal"
    party = SimpleNamespace(run=seen[0][1])
    for what, guess in (("in order", insurer), ("sorted", sorted(insurer))):
        digest = _digest(untyped(party), what, Ids.of(guess))
        assert not any(digest in frame or digest.hex().encode() in frame for _, _, frame in seen)


@pytest.mark.parametrize("how", ["auto", "server"])
def test_no_common_people_is_an_error_without_ids_in_it(how: Alignment) -> None:
    with pytest.raises(errors.DataError, match="no ids in common") as caught:
        aligned(how, {"bank": ["p1", "p2"], "insurer": ["p3"]})
    assert "p1" not in str(caught.value)


def test_every_owner_writes_down_with_whom_it_compares_ids_also_if_nobody_is_common() -> None:
    tables = [table_of("bank", ["p1", "p2"]), table_of("insurer", ["p3"]), table_of("shop", ["p2"])]
    federation = Federation(tables, budget=(1.0, 1e-5), datasets={"bank": "customers"})
    with pytest.raises(errors.DataError, match="no ids in common"):
        federation.align()
    found = {name: federation.ledgers[name].comparisons() for name in federation.group.members}
    (bank,), (shop,) = found["bank"], found["shop"]
    assert (bank.dataset, bank.partners) == ("customers", ("insurer", "shop"))
    assert shop.partners == ("bank", "insurer") and bank.run == shop.run
    assert found["server"] == ()


def test_where_a_ledger_does_not_take_the_entry_nothing_made_of_ids_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = []

    def full(*_: Any, **__: Any) -> None:
        raise errors.LedgerError("the disk is full")

    async def program(party: Party, table: Table | None) -> Any:
        honest = party.channel.send

        async def send(to: str, step: str, frame: bytes) -> None:
            sent.append((party.name, step))
            await honest(to, step, frame)

        untyped(party.channel).send = send
        await meet(party)
        return await align(party, table, "auto")

    group = Group.of(("bank", "shop"))
    monkeypatch.setattr(Ledger, "note_comparison", full)
    with pytest.raises(errors.LedgerError, match="the disk is full"):
        run_here(program, group, inputs_of(group, {"bank": ["p1"], "shop": ["p1"]}))
    assert {step for _, step in sent} <= {"hello", KNOWN, PROVED, "id rules"}


# --- three owners, one of whom lies about who stands where

OWNERS = ("bank", "insurer", "shop")


def released(**options: Any) -> Any:
    """A release between three owners, and which people each of them had in which row."""
    schema = "id='n'\n[columns.{0}]\nkind='numeric'\nlow=0\nhigh=1000\n"
    ids = [f"p{number}" for number in range(80)]
    tables = [
        Table.from_arrays(
            party, {party: np.arange(80.0)}, Schema.parse(schema.format(party)), ids=ids[::step]
        )
        for party, step in zip(OWNERS, (1, -1, 1), strict=True)
    ]
    federation = Federation(tables, budget=(9.0, 1e-5), **options)
    request = requested(MomentsOptions, "pca", 1.0, delta=1e-5)
    try:
        run = federation.run(moments_session, request)
    except errors.RemoteProtocolError as error:
        spent = [total.epsilon for party in OWNERS for total in federation.ledgers[party].totals()]
        return str(error), max(spent, default=0.0)
    return [list(run.aligned[party].table.ids()) for party in OWNERS]


@pytest.fixture
def shifted_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner that asks tells the shop other places than the insurer, and everybody that all lists are equal."""
    tell_places, all_hold = intersection._tell_places, alignment._all_hold

    async def lying(party: Party, peer: str, places: Any) -> None:
        shift = 1 if peer == "shop" else 0
        await tell_places(party, peer, np.roll(places, shift) if len(places) > 1 else np.zeros(1, np.int64))

    async def yes(party: Party, digest: bytes) -> bool:
        return await all_hold(party, digest) or party.name == "bank"

    monkeypatch.setattr(alignment, "_all_hold", yes)
    monkeypatch.setattr(intersection, "_tell_places", lying)


@pytest.fixture
def two_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner that draws the key of the cut tells the shop another one, under which as many are held out."""
    honest = messages.tell

    async def lying(party: Party, peer: str, step: str, message: Message) -> None:
        if step == "cut" and peer == "shop":
            ids = [f"p{number}" for number in range(80)]
            splits = (HoldoutSplit(bytes([number]) * 32, 0.2, "") for number in range(1, 250))
            wanted = HoldoutSplit(message.fields["key"], 0.2, "").held_out(ids)
            key = next(c.key for c in splits if (c.held_out(ids).sum() == wanted.sum()))
            message = Message({"key": key})
        await honest(party, peer, step, message)

    monkeypatch.setattr(parts, "tell", lying)


@pytest.mark.parametrize(
    ("lie", "options"), [("shifted_places", {"alignment": "curve"}), ("two_keys", {"held_out": 0.2})]
)
def test_owners_that_were_told_different_people_stop_before_they_are_charged(
    lie: str, options: dict[str, Any], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    request.getfixturevalue(lie)
    found = released(**options)
    assert "does not hold the same people in the same order" in found[0] and found[1] == 0.0
    # The control: without the comparison a person is in two rows.
    monkeypatch.setattr(session, "compare_people", nothing_compared)
    _bank, insurer, shop = released(**options)
    assert len(shop) == len(insurer) and shop != insurer


async def nothing_compared(party: Party, aligned: AlignedTable | None) -> None:
    """The step as it would be without the comparison."""


# Private set intersection: what each ends up with, what each sees, and what is refused.


PAIR = Group.of(("bank", "insurer"), active="bank")
TRIO = Group.of(("bank", "insurer", "clinic"), active="insurer")


async def intersecting(party: Party, ids: Any, padding: Any) -> Any:
    await meet(party)
    return await intersect(party, None if ids is None else Ids.of(ids), padded=padding.get(party.name))


def intersected(
    group: Group, tables: dict[str, list[str]], padding: dict[str, int] | None = None, play: Any = None
) -> Outcome:
    desks = {name: PartyInputs(Ledger.in_memory(name), tables.get(name)) for name in group.members}
    return run_here(play or intersecting, group, desks, padding or {}, record=True, timeout=20)


def common(outcome: Outcome, tables: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: [ids[row] for row in outcome.results[name]] for name, ids in tables.items()}


def shown_to(outcome: Outcome, name: str) -> list[Any]:
    frames = [seen for seen in there(outcome.seen[name]) if seen.step == "set sizes"]
    return [decode(seen.frame)[1].fields["size"] for seen in frames]


def id_lists() -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from([f"id{i}" for i in range(9)]), unique=True, max_size=9)


@given(st.lists(id_lists(), min_size=2, max_size=3), st.integers(0, 3))
@settings(max_examples=50, deadline=None)
def test_owners_end_with_the_same_people_in_the_same_order(lists: list[list[str]], pad: int) -> None:
    group = PAIR if len(lists) == 2 else TRIO
    tables = dict(zip(group.owners, lists, strict=True))
    found = common(intersected(group, tables, {"bank": len(tables["bank"]) + pad}), tables)
    assert all(each == found["bank"] for each in found.values())
    assert set(found["bank"]) == set.intersection(*map(set, lists))


def test_sets_longer_than_a_block_and_than_the_channel_is_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blinded_sets, "BLOCK_POINTS", 2)
    ids = [f"person {i}" for i in range(40)]
    tables = {"bank": ids[:31], "insurer": ids[20:]}
    found = common(intersected(PAIR, tables, {"insurer": 27}), tables)
    assert found["bank"] == found["insurer"] and set(found["bank"]) == set(ids[20:31])


def test_an_owner_that_is_not_active_sees_points_sizes_and_its_own_places_only() -> None:
    """The clinic and the bank share an id that the active insurer lacks; neither hears anything of it."""
    tables = {"bank": ["shared", "secret"], "insurer": ["shared"], "clinic": ["shared", "secret"]}
    outcome = intersected(TRIO, tables)
    for name in ("bank", "clinic"):
        frames = [seen for seen in there(outcome.seen[name]) if seen.step not in ("hello", KNOWN, PROVED)]
        assert {(seen.sender, seen.step) for seen in frames} == {
            ("insurer", step) for step in ("set sizes", "blinded ids", "common number", "common places")
        }
        (places,) = [
            decode(seen.frame)[1].arrays["places"] for seen in frames if seen.step == "common places"
        ]
        assert len(places) == 1
        assert shown_to(outcome, name) == [1]


def test_ids_do_not_travel_and_no_point_travels_twice() -> None:
    ids = [f"person {i}" for i in range(50)]
    first, second = (intersected(PAIR, {"bank": ids, "insurer": ids}) for _ in range(2))
    points = []
    for outcome in (first, second):
        for name in PAIR.owners:
            for seen in there(outcome.seen[name]):
                assert not any(identifier.encode() in seen.frame for identifier in ids)
                if seen.step in ("blinded ids", "twice blinded ids"):
                    points += [row.tobytes() for row in decode(seen.frame)[1].arrays["points"]]
    assert len(points) == len(set(points)) == 300


def test_padding_is_what_peers_see_and_nodes_without_columns_take_no_part() -> None:
    outcome = intersected(PAIR, {"bank": ["a"], "insurer": ["a", "b"]}, {"bank": 8, "insurer": 16})
    assert shown_to(outcome, "bank") == [16]
    assert shown_to(outcome, "insurer") == [8]
    outcome = intersected(PAIR, {"bank": ["a"], "insurer": ["a"]})
    assert outcome.results["server"] is None
    assert {seen.step for seen in there(outcome.seen["server"])} == {"hello", PROVED}


@pytest.mark.parametrize(
    ("ids", "padding", "why"),
    [
        (["a", "a", "b"], {}, "0 ids are empty and 1 are repeated"),
        (["", "b"], {}, "1 ids are empty"),
        (["a", "b"], {"bank": 1}, "cannot be shown as 1"),
    ],
)
def test_bad_ids_are_counted_and_not_named(ids: list[str], padding: dict[str, int], why: str) -> None:
    with pytest.raises(errors.DataError, match=why):
        intersected(PAIR, {"bank": ids, "insurer": ["a"]}, padding)


def test_parties_meet_before_they_intersect() -> None:
    async def eager(party: Party, ids: Any, padding: Any) -> Any:
        return await intersect(party, None if ids is None else Ids.of(ids))

    with pytest.raises(errors.LocalProtocolError, match="must meet"):
        intersected(PAIR, {"bank": ["a"], "insurer": ["a"]}, play=eager)


# A peer that does not follow: the insurer runs one altered step, the bank must name it and stop.


POINTS = [
    next(blinded_sets.BlindedSet.prepare([name], domain=b"d", randomness=SystemRandomness()).blinded_blocks())
    for name in (b"x", b"y", b"z")
]
POINT = POINTS[0]


def refused(cheat: str, script: Any, why: str, padding: dict[str, int] | None = None) -> None:
    """A run in which one owner follows a script of its own ends with these words."""

    async def play(party: Party, ids: Any, padding: Any) -> Any:
        if party.name != cheat:
            return await intersecting(party, ids, padding)
        await meet(party)
        return await script(party)

    with pytest.raises(errors.RemoteProtocolError, match=why):
        intersected(
            PAIR, {"bank": ["a"], "insurer": ["a", "b"] if cheat == "bank" else ["a"]}, padding, play=play
        )


def points(*rows: bytes) -> Message:
    return Message(arrays={"points": np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), -1)})


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (points(bytes(32)), "not on the curve"),
        (points(b"\x01" + bytes(31)), "small order"),
        (points(b"\x02" + bytes(31)), "not on the curve"),
        (points(b"\xff" * 32), "canonically"),
        (points(POINT, POINT), "expected an array"),
        (points(POINT[:31]), "expected an array"),
        (Message(), "expected an array"),
        (Message({"points": POINT}), "expected an array"),
    ],
)
def test_points_that_are_none_end_the_run_by_name(bad: Message, why: str) -> None:
    async def script(party: Party) -> Any:
        await tell(party, "bank", "set sizes", Message({"size": 1}))
        await hear(party, "bank", "set sizes")
        await tell(party, "bank", "blinded ids", bad)
        await hear(party, "bank", "blinded ids")
        return await hear(party, "bank", "common places")

    refused("insurer", script, f"bank at step 'blinded ids', from insurer.*{why}")


@pytest.mark.parametrize("size", [-1, protocol.MOST_IDS + 1, 2**62])
def test_an_impossible_size_ends_the_run(size: int) -> None:
    async def script(party: Party) -> Any:
        await tell(party, "bank", "set sizes", Message({"size": size}))
        return await hear(party, "bank", "blinded ids")

    refused("insurer", script, r"insurer announced .* ids")


def test_an_answer_that_repeats_a_point_ends_the_run() -> None:
    async def script(party: Party) -> Any:
        await tell(party, "bank", "set sizes", Message({"size": 2}))
        await hear(party, "bank", "set sizes")
        await tell(party, "bank", "blinded ids", points(POINT, POINT))
        await hear(party, "bank", "blinded ids")
        await tell(party, "bank", "twice blinded ids", points(POINT))
        return await hear(party, "bank", "common places")

    refused("insurer", script, r"from insurer: a point is repeated in the peer's list")


def places(*named: int, dtype: str = "u4") -> Message:
    return Message(arrays={"places": np.array(named, dtype=dtype)})


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (places(0, 0), "twice"),
        (places(7), "outside"),
        (places(0, 1, 2), "dummy"),
        (places(0, dtype="f8"), "expected an array"),
        (Message(arrays={"places": np.array([[0]], dtype="u4")}), "expected an array"),
        (Message({"places": [0]}), "expected an array"),
    ],
)
def test_places_that_cannot_be_end_the_run_by_name(bad: Message, why: str) -> None:
    async def script(party: Party) -> Any:
        await tell(party, "insurer", "set sizes", Message({"size": 3}))
        await hear(party, "insurer", "set sizes")
        await hear(party, "insurer", "blinded ids")
        await tell(party, "insurer", "blinded ids", points(*POINTS))
        await hear(party, "insurer", "twice blinded ids")
        named = bad.arrays.get("places")
        await tell(party, "insurer", "common number", Message({"common": 1 if named is None else named.size}))
        await tell(party, "insurer", "common places", bad)
        return await asyncio.sleep(5)

    refused("bank", script, f"insurer at step 'common places'.*{why}", {"insurer": 3})


@pytest.mark.parametrize("common", [-1, 4])
def test_more_common_people_than_there_can_be_end_the_run(common: int) -> None:
    async def script(party: Party) -> Any:
        await tell(party, "insurer", "set sizes", Message({"size": 0}))
        await hear(party, "insurer", "set sizes")
        await hear(party, "insurer", "blinded ids")
        await tell(party, "insurer", "common number", Message({"common": common}))
        return await asyncio.sleep(5)

    refused("bank", script, "people cannot be common")
