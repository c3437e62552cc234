"""Coins that matter where people are matched: who draws, and that other coins there are other bytes on the wire.

A key of pseudonyms that is the same in every run, or padding that others can make, leaves every result right.
"""

import functools
from typing import Any

import numpy as np
import pytest
from draws import CoinsFederation

from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.errors import RemoteProtocolError
from colonnade.protocols import alignment
from colonnade.protocols import intersection as server_intersection
from colonnade.protocols.alignment import Alignment
from colonnade.runtime.party import Party

IDS = {"a": [f"p{n}" for n in range(20)], "b": [f"p{n}" for n in range(25, 5, -1)]}
SPOILT = "protocols/alignment.py:_align_through_server"
MEETING = {"protocols/agreement.py:meet": (1, {("hello", "a"), ("hello", "b"), ("hello", "server")})}
# Of each way the places that draw, at how many lines, and which frames carry what is drawn there: step and sender.
Places = dict[str, tuple[int, set[tuple[str, str]]]]
PLACES: dict[Alignment, Places] = {
    "server": {
        **MEETING,
        "crypto/curve.py:Blinding.draw": (1, {("people", "a"), ("people", "b")}),
        "protocols/intersection.py:_common_key": (
            1,
            {(step, owner) for step in ("pseudonym key", "pseudonyms") for owner in IDS},
        ),
        "protocols/intersection.py:ask_through_server": (1, {("pseudonyms", "a"), ("pseudonyms", "b")}),
        SPOILT: (1, set()),
    },
    "curve": {
        **MEETING,
        "protocols/intersection.py:_ask_everybody": (2, {("blinded ids", "a"), ("common places", "a")}),
        "protocols/intersection.py:_answer": (1, {("blinded ids", "b")}),
    },
}


def matching(how: Alignment, other: str = "") -> CoinsFederation:
    """Tables that are to be matched, each of which shows more ids than it has."""
    schema = "id = 'n'\n[columns.{0}]\nkind = 'numeric'\nlow = 0\nhigh = 9\n"
    tables = [
        Table.from_arrays(party, {party: [1.0] * len(ids)}, Schema.parse(schema.format(party)), ids=ids)
        for party, ids in IDS.items()
    ]
    shown = dict.fromkeys(IDS, 24)
    return CoinsFederation(
        tables, budget=(1.0, 1e-5), alignment=how, shown_ids=shown, other=other, aligned=False
    )


@functools.cache
def matched(how: Alignment, other: str = "") -> CoinsFederation:
    federation = matching(how, other)
    federation.align()
    return federation


def first_frames(federation: CoinsFederation, step: str, sender: str) -> list[bytes]:
    """The first frame of a step to each receiver: what comes after compares what was found."""
    found = federation.frames
    return [found[key][0] for key in sorted(found) if key[:2] == (step, sender)]


@pytest.mark.parametrize("how", PLACES)
def test_it_is_known_who_draws_where_people_are_matched(how: Alignment) -> None:
    assert matched(how).lines == {place: lines for place, (lines, _) in PLACES[how].items()}


@pytest.mark.parametrize(
    ("how", "place"),
    [(how, place) for how in PLACES for place, (_, carried) in PLACES[how].items() if carried],
)
def test_other_coins_at_one_place_are_other_bytes_in_every_frame_that_carries_them(
    how: Alignment, place: str
) -> None:
    other = matched(how, place)
    for step, sender in PLACES[how][place][1]:
        before, after = (first_frames(one, step, sender) for one in (matched(how), other))
        assert len(before) == len(after) > 0
        assert all(one != another for one, another in zip(before, after, strict=True)), (step, sender)


def test_the_key_of_pseudonyms_has_a_fresh_contribution_of_every_owner() -> None:
    """From constant ones and the name of the run, which the server knows, it would make everybody's pseudonyms."""
    place = "protocols/intersection.py:_common_key"
    drawn = [matched("server", other).draws[owner].drawn[place] for owner in IDS for other in ("", place)]
    assert [[len(one) for one in some] for some in drawn] == [[32]] * 4
    assert len({one for (one,) in drawn}) == 4
    for owner in IDS:
        (said,) = first_frames(matched("server"), "pseudonym key", owner)
        assert matched("server").draws[owner].drawn[place][0] in said


def test_whoever_was_named_what_cannot_be_brings_bytes_that_nobody_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A constant could be brought by a peer as well, which then learned whose places were bad."""
    honest, brought = alignment._holds, dict[str, bytes]()

    async def noting(party: Party, peer: str, digest: bytes) -> bool:
        brought[party.name] = digest
        return await honest(party, peer, digest)

    def everything(lists: list[Any]) -> list[Any]:
        return [np.ones(len(one), dtype=bool) for one in lists]

    monkeypatch.setattr(alignment, "_holds", noting)
    monkeypatch.setattr(server_intersection, "common", everything)
    federation = matching("server")
    with pytest.raises(RemoteProtocolError, match="do not hold the same people"):
        federation.align()
    assert len(set(brought.values())) == 2
    assert {name: [digest] for name, digest in brought.items()} == {
        owner: federation.draws[owner].drawn[SPOILT] for owner in IDS
    }
