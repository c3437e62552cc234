"""Private set intersection between parties: what each ends up with, what each sees, and what is refused."""

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typed import there, untyped

from colonnade.crypto import curve as blinded_sets
from colonnade.errors import DataError, LocalProtocolError, RemoteProtocolError
from colonnade.ledger import Opening
from colonnade.protocols import intersection as protocol
from colonnade.protocols.agreement import meet
from colonnade.protocols.intersection import Ids, intersect
from colonnade.protocols.messages import hear, tell
from colonnade.runtime.journal import KNOWN, PROVED
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import Outcome, PartyInputs, run_here
from colonnade.runtime.wire import Message, decode

PAIR = Group.of(("bank", "insurer"), active="bank")
TRIO = Group.of(("bank", "insurer", "clinic"), active="insurer")


class NoLedger:
    def charge(self, release: Any, dataset: Any, *, fresh: bool = False) -> None:
        raise AssertionError("nothing is released here")

    def opening(self) -> Any:
        return Opening("me", "0" * 64, anew=True)

    def recognise(self, opening: Any) -> None:
        return None

    def keep_receipt(self, receipt: Any, *, after: int | None = None) -> None:
        raise AssertionError("nothing is released here")


async def program(party: Party, ids: Any, padding: Any) -> Any:
    await meet(party)
    return await intersect(party, None if ids is None else Ids.of(ids), padded=padding.get(party.name))


def run(
    group: Group, tables: dict[str, list[str]], padding: dict[str, int] | None = None, play: Any = program
) -> Outcome:
    desks = {name: PartyInputs(untyped(NoLedger()), tables.get(name)) for name in group.members}
    return run_here(play, group, desks, padding or {}, record=True, timeout=20)


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
    found = common(run(group, tables, {"bank": len(tables["bank"]) + pad}), tables)
    assert all(each == found["bank"] for each in found.values())
    assert set(found["bank"]) == set.intersection(*map(set, lists))


def test_sets_longer_than_a_block_and_than_the_channel_is_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blinded_sets, "BLOCK_POINTS", 2)
    ids = [f"person {i}" for i in range(40)]
    tables = {"bank": ids[:31], "insurer": ids[20:]}
    found = common(run(PAIR, tables, {"insurer": 27}), tables)
    assert found["bank"] == found["insurer"] and set(found["bank"]) == set(ids[20:31])


def test_an_owner_that_is_not_active_sees_points_sizes_and_its_own_places_only() -> None:
    """The clinic and the bank share an id that the active insurer lacks; neither hears anything of it."""
    tables = {"bank": ["shared", "secret"], "insurer": ["shared"], "clinic": ["shared", "secret"]}
    outcome = run(TRIO, tables)
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
    first, second = (run(PAIR, {"bank": ids, "insurer": ids}) for _ in range(2))
    points = []
    for outcome in (first, second):
        for name in PAIR.owners:
            for seen in there(outcome.seen[name]):
                assert not any(identifier.encode() in seen.frame for identifier in ids)
                if seen.step in ("blinded ids", "twice blinded ids"):
                    points += [row.tobytes() for row in decode(seen.frame)[1].arrays["points"]]
    assert len(points) == len(set(points)) == 300


def test_padding_is_what_peers_see_and_nodes_without_columns_take_no_part() -> None:
    outcome = run(PAIR, {"bank": ["a"], "insurer": ["a", "b"]}, {"bank": 8, "insurer": 16})
    assert shown_to(outcome, "bank") == [16]
    assert shown_to(outcome, "insurer") == [8]
    outcome = run(PAIR, {"bank": ["a"], "insurer": ["a"]})
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
    with pytest.raises(DataError, match=why):
        run(PAIR, {"bank": ids, "insurer": ["a"]}, padding)


def test_parties_meet_before_they_intersect() -> None:
    async def eager(party: Party, ids: Any, padding: Any) -> Any:
        return await intersect(party, None if ids is None else Ids.of(ids))

    with pytest.raises(LocalProtocolError, match="must meet"):
        run(PAIR, {"bank": ["a"], "insurer": ["a"]}, play=eager)


# A peer that does not follow: the insurer runs one altered step, the bank must name it and stop.


POINTS = [
    next(
        blinded_sets.BlindedSet.prepare(
            [name], domain=b"d", randomness=PartyInputs(untyped(NoLedger())).randomness
        ).blinded_blocks()
    )
    for name in (b"x", b"y", b"z")
]
POINT = POINTS[0]


def refused(cheat: str, script: Any, why: str, padding: dict[str, int] | None = None) -> None:
    """A run in which one owner follows a script of its own ends with these words."""

    async def play(party: Party, ids: Any, padding: Any) -> Any:
        if party.name != cheat:
            return await program(party, ids, padding)
        await meet(party)
        return await script(party)

    with pytest.raises(RemoteProtocolError, match=why):
        run(PAIR, {"bank": ["a"], "insurer": ["a", "b"] if cheat == "bank" else ["a"]}, padding, play=play)


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
