"""Which people all owners have in common, in one order, without showing the others, on a curve.

The active party asks each other owner which of its own ids that owner has (`colonnade.protocols.curve_intersection`),
and tells each of them which of its rows are common to all. What each learns (docs/proofs/psi.md):

* every other owner: the active party's (padded) number of ids, and which of its own ids everybody has;
* the active party: each other owner's (padded) number of ids, and which of its own ids that owner has;
* nobody learns what two other owners share beyond what everybody shares, and the server learns nothing.

The common order is drawn by the active party and says nothing about any list, or about how the ids were compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import DataError, LocalProtocolError, PolicyRefused, RemoteProtocolError
from colonnade.protocols.curve_intersection import Matched, answer_over_curve, ask_over_curve
from colonnade.protocols.id_list import Ids
from colonnade.protocols.messages import exchange, hear, tell
from colonnade.randomness import KeyedRandomness, Randomness, shuffled
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

MOST_IDS = 1 << 27
"""Above, places would not be addressed by 32 bits together with what fills a list up."""
_PLACES = 1 << 16
_COINS = 32


@dataclass(frozen=True, eq=False)
class Intersection:
    """One owner's view of the common rows.

    `rows` are this owner's row numbers, in the order all owners share. `sizes` are the set sizes seen, padding
    included.
    """

    rows: NDArray[np.int64]
    sizes: Mapping[str, int]


async def intersect(party: Party, ids: Ids | None, *, padded: int | None = None) -> Intersection | None:
    """The rows of this owner that every owner has; None at nodes that own nothing.

    Ids must be distinct and not empty. `padded` is the size shown to peers instead of the number of ids.
    """
    if not party.owns_columns or ids is None:
        return None
    if not party.run:
        raise LocalProtocolError(f"{party.name}: parties must meet before they intersect their ids")
    size = shown_size(party, ids, padded)
    hub = party.group.active or party.group.owners[0]
    others = [name for name in party.group.owners if name != hub]
    if party.name == hub:
        return await _ask_everybody(party, ids, size, others)
    return await _answer(party, ids, size, hub)


def shown_size(party: Party, ids: Ids, padded: int | None) -> int:
    """The number of ids that peers are shown."""
    size = ids.count if padded is None else padded
    if not ids.count <= size <= MOST_IDS:
        raise DataError(
            f"party {party.name!r}: {ids.count} ids cannot be shown as {size}. Pad to no less than the number of "
            f"ids and no more than {MOST_IDS}."
        )
    return size


async def _ask_everybody(party: Party, ids: Ids, size: int, others: Sequence[str]) -> Intersection:
    # Each pair has randomness of its own, drawn before any of them begins: a run that goes on draws it alike.
    randomness = {peer: KeyedRandomness(party.randomness.bytes(_COINS)) for peer in others}
    # All at once: an owner that had to wait for the others' turns could time out.
    tasks = [asyncio.create_task(_ask(party, ids, size, peer, randomness[peer])) for peer in others]
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
    party: Party, ids: Ids, size: int, peer: str, randomness: Randomness
) -> tuple[int, Matched]:
    theirs = (await sizes_with(party, [peer], size))[peer]
    return theirs, await ask_over_curve(party, ids, size, theirs, peer=peer, randomness=randomness)


async def _answer(party: Party, ids: Ids, size: int, hub: str) -> Intersection:
    randomness = KeyedRandomness(party.randomness.bytes(_COINS))
    theirs = (await sizes_with(party, [hub], size))[hub]
    answered = await answer_over_curve(party, ids, size, theirs, peer=hub, randomness=randomness)
    places = await _hear_places(party, hub, min(size, theirs))
    try:
        rows = answered.rows(places)
    except ValueError as error:
        raise RemoteProtocolError(f"{party.name} at step 'common places', from {hub}: {error}") from None
    return Intersection(rows, {party.name: size, hub: theirs})


async def sizes_with(party: Party, peers: Iterable[str], size: int) -> dict[str, int]:
    """How many ids these peers show, who are told how many are shown here; more than are accepted are refused."""
    said = await exchange(party, "set sizes", Message({"size": size}), peers)
    sizes = {peer: message.integer("size") for peer, message in said.items()}
    for peer, theirs in sizes.items():
        check_announced(party, "set sizes", peer, theirs)
        if party.most_ids is not None and theirs > party.most_ids:
            raise PolicyRefused(
                f"most_ids: {peer} shows {theirs} ids, of which it would learn who is known here, and the most "
                f"accepted is {party.most_ids}. To accept it, write most_ids = {theirs} into the policy."
            )
    return sizes


def check_announced(party: Party, step: str, peer: str, size: int) -> None:
    """Return if a peer can have so many ids."""
    if not 0 <= size <= MOST_IDS:
        raise RemoteProtocolError(
            f"{party.name} at step {step!r}: {peer} announced {size} ids; {MOST_IDS} is the most"
        )


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
