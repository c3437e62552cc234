"""Intersection by transfer extension between parties: who ends with what, who sees what, and what is refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_intersection_protocol import NoLedger, common
from typed import there, untyped

from colonnade.crypto.oprf import parameters
from colonnade.errors import BadIds, RemoteProtocolError
from colonnade.protocols import intersection as protocol
from colonnade.protocols.agreement import meet
from colonnade.protocols.id_list import Ids
from colonnade.protocols.intersection import intersect
from colonnade.protocols.messages import hear, tell
from colonnade.runtime.group import Group
from colonnade.runtime.party import Party
from colonnade.runtime.run import Outcome, PartyInputs, run_here
from colonnade.runtime.wire import Message, decode

PAIR = Group.of(("bank", "insurer"), active="bank")
TRIO = Group.of(("bank", "insurer", "clinic"), active="insurer")


async def program(party: Party, ids: Any, way: Any, padding: Any) -> Any:
    await meet(party)
    return await intersect(
        party, None if ids is None else Ids.of(ids), padded=padding.get(party.name), way=way
    )


def run(
    group: Group,
    tables: dict[str, list[str]],
    *,
    way: Any = "oprf",
    padding: Any = None,
    play: Any = program,
    **seen: Any,
) -> Outcome:
    desks = {name: PartyInputs(untyped(NoLedger()), tables.get(name)) for name in group.members}
    return run_here(play, group, desks, way, padding or {}, record=True, timeout=30, **seen)


def drawn(seed: int, *names: str) -> dict[str, list[str]]:
    rng = random.Random(seed)
    everybody = [f"id {rng.getrandbits(40)}" for _ in range(rng.randint(1, 60))]
    return {name: rng.sample(everybody, rng.randint(0, len(everybody))) for name in names}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("group", [PAIR, TRIO], ids=["two", "three"])
def test_transfers_find_the_people_that_blinded_points_find(group: Group, seed: int) -> None:
    tables = drawn(seed, *group.owners)
    by_way = {way: common(run(group, tables, way=way), tables) for way in ("oprf", "curve")}
    expected = set.intersection(*(set(ids) for ids in tables.values()))
    for found in by_way.values():
        assert all(order == found[group.owners[0]] for order in found.values())
        assert set(found[group.owners[0]]) == expected


@pytest.mark.parametrize(
    ("bank", "insurer"),
    [
        ([], []),
        ([], ["a"]),
        (["a"], []),
        (["a"], ["a"]),
        (["a"], ["b"]),
        ([f"p{n}" for n in range(40_000)], ["p3", "p70", "nobody"]),
        (["p3", "p70", "nobody"], [f"p{n}" for n in range(40_000)]),
        ([f"p{n}" for n in range(3000)], [f"p{2999 - n}" for n in range(3000)]),
        ([f"p{n}" for n in range(3000)], [f"q{n}" for n in range(3000)]),
    ],
    ids=["nobody", "none-one", "one-none", "one", "ones", "many-few", "few-many", "all", "no common"],
)
def test_lists_of_any_size_are_intersected(bank: list[str], insurer: list[str]) -> None:
    tables = {"bank": bank, "insurer": insurer}
    found = common(run(PAIR, tables), tables)
    assert found["bank"] == found["insurer"]
    assert set(found["bank"]) == set(bank) & set(insurer)


@pytest.mark.slow
@pytest.mark.parametrize("turned", [False, True], ids=["million-ten", "ten-million"])
def test_a_million_against_ten(turned: bool) -> None:
    million, ten = [f"p{n}" for n in range(10**6)], [f"p{10**5 * n + 7}" for n in range(9)] + ["nobody"]
    tables = {"bank": ten, "insurer": million} if turned else {"bank": million, "insurer": ten}
    found = common(run(PAIR, tables), tables)
    assert found["bank"] == found["insurer"]
    assert set(found["bank"]) == set(ten) - {"nobody"}


def test_large_lists_go_by_transfers_and_small_ones_by_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "CURVE_UP_TO", 6)
    kinds = {}
    for size in (3, 4):
        outcome = run(PAIR, {name: [f"p{n}" for n in range(size)] for name in PAIR.owners}, way=None)
        kinds[size] = set(outcome.bytes_by_step)
    assert "blinded" in kinds[3] and "oblivious" not in kinds[3]
    assert "oblivious" in kinds[4] and "blinded" not in kinds[4]


def test_ids_and_their_digests_do_not_travel_and_nothing_travels_twice() -> None:
    ids = [f"person {i}" for i in range(50)]
    bodies = []
    for _ in range(2):
        outcome = run(PAIR, {"bank": ids, "insurer": ids})
        for name in PAIR.owners:
            for seen in there(outcome.seen[name]):
                assert not any(one.encode() in seen.frame for one in ids)
                for array in decode(seen.frame)[1].arrays.values():
                    if array.ndim > 1:
                        bodies += [row.tobytes() for row in array]
    assert len(bodies) == len(set(bodies)) > 5000


def test_an_owner_that_is_not_active_sees_rows_sizes_and_its_own_places_only() -> None:
    """The clinic and the bank share an id that the active insurer lacks; neither hears anything of it."""
    tables = {"bank": ["shared", "secret"], "insurer": ["shared"], "clinic": ["shared", "secret"]}
    outcome = run(TRIO, tables)
    for name in ("bank", "clinic"):
        frames = [seen for seen in there(outcome.seen[name]) if seen.step != "hello"]
        assert {seen.sender for seen in frames} == {"insurer"}
        assert {seen.step for seen in frames} == {
            "set sizes",
            "transfer key",
            "table seed",
            "oblivious rows",
            "common number",
            "common places",
        }
        assert outcome.results[name].sizes == {name: 2, "insurer": 1}
    assert {seen.step for seen in there(outcome.seen["server"])} == {"hello"}


def lengths(outcome: Outcome) -> dict[str, list[tuple[str, int]]]:
    return {
        name: [(seen.step, len(seen.frame)) for seen in there(frames) if not seen.step.startswith("common")]
        for name, frames in outcome.seen.items()
    }


def test_padding_is_what_peers_see_and_frames_show_nothing_else() -> None:
    """Frames have the same lengths whatever the ids, their number and what is common, where sizes are shown alike."""
    padding = {"bank": 3000, "insurer": 40_000}
    few = run(PAIR, {"bank": ["a"], "insurer": ["a", "b"]}, padding=padding)
    other = run(
        PAIR,
        {"bank": [f"p{n}" for n in range(3000)], "insurer": [f"q{n}" for n in range(20_000)]},
        padding=padding,
    )
    assert few.results["bank"].sizes == few.results["insurer"].sizes == padding
    assert lengths(few) == lengths(other)
    sizes = [size for step, size in lengths(other)["bank"] if step == "record values"]
    assert len(sizes) == 2 and max(sizes) < 1 << 21


def test_the_common_order_is_fresh_and_the_same_for_everybody() -> None:
    tables = {name: [f"p{n}" for n in range(50)] for name in PAIR.owners}
    orders = [tuple(common(run(PAIR, tables), tables)["bank"]) for _ in range(3)]
    assert len(set(orders)) == 3


@pytest.mark.parametrize(("ids", "why"), [(["a", "a"], "1 are repeated"), (["", "b"], "1 ids are empty")])
def test_bad_ids_are_counted_and_not_named(ids: list[str], why: str) -> None:
    with pytest.raises(BadIds, match=why):
        run(PAIR, {"bank": ["a"], "insurer": ids})


# A peer that does not follow: one side of the pair alters one step, the other must name it and stop.


def altered(who: str, step: str, change: Any, times: int = 1) -> Any:
    """The protocol with some frames of one party at one step changed before they leave."""

    async def play(party: Party, ids: Any, way: Any, padding: Any) -> Any:
        if party.name == who:
            from colonnade.protocols import oprf_intersection as module

            honest, count = untyped(module).tell, iter(range(times))

            async def lying(party: Party, to: str, at: Any, message: Any) -> None:
                if party.name == who and at == step and next(count, None) is not None:
                    message = change(message)
                await honest(party, to, at, message)

            untyped(module).tell = lying
            try:
                return await program(party, ids, way, padding)
            finally:
                untyped(module).tell = honest
        return await program(party, ids, way, padding)

    return play


def changed(name: str, change: Callable[..., Any]) -> object:
    return lambda message: Message(arrays={name: change(message.arrays[name].copy())})


def zeroed(array: np.ndarray) -> np.ndarray:
    array[:] = 0
    return array


@pytest.mark.parametrize(
    ("who", "step", "change", "why"),
    [
        ("bank", "transfer key", changed("point", zeroed), "not on the curve|small order"),
        ("bank", "transfer key", changed("point", lambda a: a[:31]), "expected an array"),
        ("insurer", "transfer choices", changed("points", zeroed), "not on the curve|small order"),
        ("insurer", "transfer choices", changed("points", lambda a: a[:-1]), "expected an array"),
        ("insurer", "transfer choices", changed("points", lambda a: np.full_like(a, 255)), "canonically"),
        ("bank", "table seed", changed("seed", lambda a: a[:5]), "expected an array"),
        ("bank", "oblivious rows", changed("rows", lambda a: a[:-1]), "expected an array"),
        ("bank", "oblivious rows", changed("rows", lambda a: np.vstack([a, a[:1]])), "expected an array"),
        ("bank", "oblivious rows", lambda message: Message(), "expected an array"),
        ("insurer", "record values", changed("records", lambda a: a[:-1]), "expected an array"),
        ("insurer", "record values", changed("records", lambda a: a[:, :2]), "expected an array"),
    ],
)
def test_short_long_and_malformed_frames_end_the_run_by_name(
    who: Any, step: str, change: Any, why: Any
) -> None:
    tables = {"bank": ["a", "b"], "insurer": ["b", "c"]}
    other = {"bank": "insurer", "insurer": "bank"}[who]
    with pytest.raises(RemoteProtocolError, match=f"{other} at step '{step}', from {who}.*({why})"):
        run(PAIR, tables, play=altered(who, step, change))


def test_a_record_that_is_sent_twice_ends_the_run() -> None:
    def again(message: Message) -> Message:
        records = message.arrays["records"].copy()
        records[1] = records[0]
        return Message(arrays={"records": records})

    with pytest.raises(RemoteProtocolError, match="from insurer: an id is in two records"):
        run(
            PAIR, {"bank": ["a", "b"], "insurer": ["a", "b"]}, play=altered("insurer", "record values", again)
        )


def test_a_frame_that_comes_twice_ends_the_run() -> None:
    async def play(party: Party, ids: Any, way: Any, padding: Any) -> Any:
        if party.name == "insurer":
            honest = party.channel.send

            async def send(to: str, step: str, frame: Any) -> None:
                await honest(to, step, frame)
                if step == "record values":
                    await honest(to, step, frame)

            untyped(party.channel).send = send
        found = await program(party, ids, way, padding)
        if party.name in PAIR.owners:
            peer = "bank" if party.name == "insurer" else "insurer"
            await tell(party, peer, "finished", Message())
            await hear(party, peer, "finished")
        return found

    with pytest.raises(RemoteProtocolError, match="insurer sent 'record values'"):
        run(PAIR, {"bank": ["a", "b"], "insurer": ["a", "b"]}, play=play)


@pytest.mark.parametrize(
    ("places", "why"), [([0, 0], "twice"), ([9], "outside"), ([0, 1, 2, 3], "random record")]
)
def test_places_that_cannot_be_end_the_run_by_name(places: list[int], why: str) -> None:
    async def play(party: Party, ids: Any, way: Any, padding: Any) -> Any:
        if party.name == "bank":
            honest = protocol._tell_places

            async def lying(party: Party, peer: str, found: Any) -> None:
                await honest(party, peer, np.array(places))

            untyped(protocol)._tell_places = lying
            try:
                return await program(party, ids, way, padding)
            finally:
                protocol._tell_places = honest
        return await program(party, ids, way, padding)

    with pytest.raises(RemoteProtocolError, match=f"insurer at step 'common places'.*{why}"):
        run(
            PAIR,
            {"bank": ["a", "b", "c", "d"], "insurer": ["a", "b"]},
            padding={"insurer": 4},
            play=play,
        )


def test_frames_stay_small_however_long_the_lists_are() -> None:
    assert parameters.ROWS * max(parameters.WIDTHS) // 8 <= 1 << 21
    assert parameters.RECORDS * 3 * parameters.MOST_VALUE_BYTES <= 1 << 21


def test_everybody_is_asked_at_once_and_each_pair_has_coins_of_its_own() -> None:
    outcome = run(TRIO, {name: ["a", "b", name] for name in TRIO.owners})
    sent = {
        name: [
            decode(seen.frame)[1].arrays["point"].tobytes()
            for seen in there(outcome.seen[name])
            if seen.step == "transfer key"
        ]
        for name in ("bank", "clinic")
    }
    assert sent["bank"] != sent["clinic"]
