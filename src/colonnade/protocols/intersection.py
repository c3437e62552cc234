"""Which people all owners have in common, in one order, without showing the others.

The active party asks each other owner which of its own ids that owner has, and tells each of them which of its rows are
common to all. Two owners find that out in one of two ways, by the sizes that they show each other:

* "curve", blinded points (`colonnade.protocols.curve_intersection`): for small lists, which need nothing compiled;
* "oprf", oblivious transfer extension (`colonnade.protocols.oprf_intersection`): for all others, and far
  quicker.

What each learns is the same (docs/proofs/psi.md, docs/proofs/psi-transfer.md):

* every other owner: the active party's (padded) number of ids, and which of its own ids everybody has;
* the active party: each other owner's (padded) number of ids, and which of its own ids that owner has;
* nobody learns what two other owners share beyond what everybody shares, and the server learns nothing.

The common order is drawn by the active party and says nothing about any list, or about how the ids were compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import DataError, LocalProtocolError, RemoteProtocolError
from colonnade.protocols import curve_intersection, oprf_intersection
from colonnade.protocols.id_list import Ids
from colonnade.protocols.messages import hear, tell
from colonnade.randomness import KeyedRandomness, Randomness, shuffled
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

Way = Literal["curve", "oprf"]

MOST_IDS = 1 << 27
"""Above, the tables of the quick way would not be addressed by 32 bits, and the slow way would take days."""
CURVE_UP_TO = 4096
"""Up to so many ids at two owners together, points are as quick as transfers, whose tables have a least size."""
_PLACES = 1 << 16
_COINS = 32


def way_for(mine: int, theirs: int) -> Way:
    """How two owners that show so many ids intersect them, if nobody says otherwise.

    >>> way_for(10, 20), way_for(10, 1_000_000)
    ('curve', 'oprf')
    """
    return "curve" if mine + theirs <= CURVE_UP_TO else "oprf"


@dataclass(frozen=True, eq=False)
class Intersection:
    """One owner's view of the common rows.

    `rows` are this owner's row numbers, in the order all owners share. `sizes` are the set sizes seen, padding
    included.
    """

    rows: NDArray[np.int64]
    sizes: Mapping[str, int]


class Matches(Protocol):
    """What the active party found with one owner."""

    @property
    def places(self) -> NDArray[Any]:
        """For each of its own ids the place in the other owner's secret order, or −1 where that owner lacks it."""
        ...


class Answered(Protocol):
    """What another owner keeps until it hears which of its places are common to all."""

    def rows(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Its rows at these places of its secret order; a place that names none, or one twice, is a `ValueError`."""
        ...


async def intersect(
    party: Party, ids: Ids | None, *, padded: int | None = None, way: Way | None = None
) -> Intersection | None:
    """The rows of this owner that every owner has; None at nodes that own nothing.

    Ids must be distinct and not empty. `padded` is the size shown to peers instead of the number of ids. `way` is for
    all pairs of owners; None: each pair takes the one that suits its sizes.
    """
    if not party.owns_columns or ids is None:
        return None
    if not party.run:
        raise LocalProtocolError(f"{party.name}: parties must meet before they intersect their ids")
    size = ids.count if padded is None else padded
    if not ids.count <= size <= MOST_IDS:
        raise DataError(
            f"party {party.name!r}: {ids.count} ids cannot be shown as {size}. Pad to no less than the number of "
            f"ids and no more than {MOST_IDS}."
        )
    hub = party.group.active or party.group.owners[0]
    others = [name for name in party.group.owners if name != hub]
    if party.name == hub:
        return await _ask_everybody(party, ids, size, others, way)
    return await _answer(party, ids, size, hub, way)


async def _ask_everybody(
    party: Party, ids: Ids, size: int, others: Sequence[str], way: Way | None
) -> Intersection:
    # Each pair has randomness of its own, drawn before any of them begins: a run that goes on draws it alike.
    randomness = {peer: KeyedRandomness(party.randomness.bytes(_COINS)) for peer in others}
    hashed = oprf_intersection.Hashed(party, ids)
    # All at once: an owner that had to wait for the others' turns could time out.
    tasks = [asyncio.create_task(_ask(party, hashed, size, peer, way, randomness[peer])) for peer in others]
    try:
        answers = dict(zip(others, await asyncio.gather(*tasks), strict=True))
    finally:
        for task in tasks:
            task.cancel()
    sizes = {party.name: size} | {peer: theirs for peer, (theirs, _) in answers.items()}
    common = np.flatnonzero(np.all([matching.places >= 0 for _, matching in answers.values()], axis=0))
    # A fresh order: that of the values compared would show how the active party's table was filled.
    common = common[shuffled(len(common), party.randomness)]
    for peer, (_, matching) in answers.items():
        await _tell_places(party, peer, matching.places[common])
    return Intersection(common, sizes)


async def _ask(
    party: Party, ids: oprf_intersection.Hashed, size: int, peer: str, way: Way | None, randomness: Randomness
) -> tuple[int, Matches]:
    theirs = await _sizes(party, peer, size)
    if (way or way_for(size, theirs)) == "curve":
        return theirs, await curve_intersection.ask(
            party, ids.ids, size, theirs, peer=peer, randomness=randomness
        )
    return theirs, await oprf_intersection.ask(party, ids, size, theirs, peer=peer, randomness=randomness)


async def _answer(party: Party, ids: Ids, size: int, hub: str, way: Way | None) -> Intersection:
    randomness = KeyedRandomness(party.randomness.bytes(_COINS))
    theirs = await _sizes(party, hub, size)
    answered: Answered
    if (way or way_for(size, theirs)) == "curve":
        answered = await curve_intersection.answer(party, ids, size, theirs, peer=hub, randomness=randomness)
    else:
        hashed = oprf_intersection.Hashed(party, ids)
        answered = await oprf_intersection.answer(
            party, hashed, size, theirs, peer=hub, randomness=randomness
        )
    places = await _hear_places(party, hub, min(size, theirs))
    try:
        rows = answered.rows(places)
    except ValueError as error:
        raise RemoteProtocolError(f"{party.name} at step 'common places', from {hub}: {error}") from None
    return Intersection(rows, {party.name: size, hub: theirs})


async def _sizes(party: Party, peer: str, size: int) -> int:
    await tell(party, peer, "set sizes", Message({"size": size}))
    theirs = (await hear(party, peer, "set sizes")).integer("size")
    if not 0 <= theirs <= MOST_IDS:
        raise RemoteProtocolError(
            f"{party.name} at step 'set sizes': {peer} announced {theirs} ids; {MOST_IDS} is the most"
        )
    return theirs


async def _tell_places(party: Party, peer: str, places: NDArray[Any]) -> None:
    await tell(party, peer, "common number", Message({"common": len(places)}))
    for start in range(0, len(places), _PLACES):
        some = places[start : start + _PLACES].astype(np.uint32)
        await tell(party, peer, "common places", Message(arrays={"places": some}))


async def _hear_places(party: Party, hub: str, most: int) -> NDArray[np.int64]:
    said = await hear(party, hub, "common number")
    common = said.integer("common")
    if not 0 <= common <= most:
        raise said.wrong(f"{common} people cannot be common to lists of which the shorter has {most}")
    places = np.empty(common, dtype=np.int64)
    for start in range(0, common, _PLACES):
        part = places[start : start + _PLACES]
        part[:] = (await hear(party, hub, "common places")).array("places", dtype="u4", shape=(len(part),))
    return places
