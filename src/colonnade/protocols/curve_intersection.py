"""Which people all owners have in common, in one order, without showing the others.

The active party runs one Diffie–Hellman intersection with each other owner, block by block, and tells each of
them which of its own rows are common to all. What each learns (docs/proofs/psi.md):

* every other owner: the active party's (padded) number of ids, and which of its own ids everybody has;
* the active party: each other owner's (padded) number of ids, and which of its own ids that owner has;
* nobody learns what two other owners share beyond what everybody shares, and the server learns nothing.

Parties are taken to follow the protocol. Points that are malformed, off the curve, of small order or repeated, and
places that name no id or a dummy, end the run with the sender's name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto import blinded_sets
from colonnade.crypto.blinded_sets import BlindedSet, Matches, match
from colonnade.crypto.curve import POINT_BYTES, InvalidPoint
from colonnade.errors import BadIds, DataError, LocalProtocolError, RemoteProtocolError
from colonnade.protocols.messages import hear, tell
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

# 2^27 points are 4 GiB on the wire in each direction.
MOST_IDS = 1 << 27

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Intersection:
    """One owner's view of the common rows.

    `rows` are this owner's row numbers, in the order all owners share. `sizes` are the set sizes seen, padding
    included.
    """

    rows: NDArray[np.int64]
    sizes: Mapping[str, int]


async def intersect(
    party: Party, ids: Sequence[str] | None, *, padded: int | None = None
) -> Intersection | None:
    """The rows of this owner that every owner has; None at nodes that own nothing.

    Ids must be distinct and not empty. `padded` is the size shown to peers instead of the number of ids.
    """
    if not party.owns_columns or ids is None:
        return None
    if not party.run:
        raise LocalProtocolError(f"{party.name}: parties must meet before they intersect their ids")
    encoded = _encoded(party, ids)
    size = len(encoded) if padded is None else padded
    if not len(encoded) <= size <= MOST_IDS:
        raise DataError(
            f"party {party.name!r}: {len(encoded)} ids cannot be shown as {size}. Pad to no less than the number of "
            f"ids and no more than {MOST_IDS}."
        )
    hub = party.group.active or party.group.owners[0]
    others = [name for name in party.group.owners if name != hub]
    if party.name == hub:
        return await _ask_everybody(party, encoded, size, others)
    return await _answer(party, encoded, size, hub)


async def _ask_everybody(
    party: Party, ids: Sequence[bytes], size: int, others: Sequence[str]
) -> Intersection:
    # All at once: an owner that had to wait for the others' turns could time out.
    tasks = [asyncio.create_task(_ask(party, ids, size, peer)) for peer in others]
    try:
        answers = dict(zip(others, await asyncio.gather(*tasks), strict=True))
    finally:
        for task in tasks:
            task.cancel()
    sizes = {party.name: size} | {peer: theirs for peer, (theirs, _) in answers.items()}
    found = {peer: pair for peer, (_, pair) in answers.items()}
    # The order of the values shared with the first owner; to everybody else it is a random order.
    asked, first = found[others[0]]
    rows = asked.rows(first.mine)
    places = {}
    for peer in others:
        mine, matches = found[peer]
        at = np.full(len(ids), -1, dtype=np.int64)
        at[mine.rows(matches.mine)] = matches.theirs
        places[peer] = at
    common = rows[np.all([places[peer][rows] >= 0 for peer in others], axis=0)]
    for peer in others:
        await tell(party, peer, "common places", Message(arrays={"places": places[peer][common]}))
    return Intersection(common, sizes)


async def _ask(
    party: Party, ids: Sequence[bytes], size: int, peer: str
) -> tuple[int, tuple[BlindedSet, Matches]]:
    mine = _blinded(party, ids, size, _domain(party, party.name, peer))
    theirs = await _sizes(party, peer, size)
    blocks = mine.blinded_blocks()
    returned, multiplied = bytearray(), bytearray()
    for block in range(_rounds(size, theirs)):
        own, their = _points_in(block, size), _points_in(block, theirs)
        if own:
            await _send(party, peer, "blinded ids", await asyncio.to_thread(next, blocks))
        if their:
            points = await _receive(party, peer, "blinded ids", their)
            multiplied += await _checked(party, peer, "blinded ids", mine.blinding.multiply_received, points)
        if own:
            returned += await _receive(party, peer, "twice blinded ids", own)
        party.progress("align", min((block + 1) * blinded_sets.BLOCK_POINTS, size), size)
    matches = await _checked(party, peer, "twice blinded ids", match, returned, multiplied)
    try:
        mine.rows(matches.mine)
    except ValueError as error:
        raise RemoteProtocolError(f"{party.name} at step 'twice blinded ids', from {peer}: {error}") from None
    return theirs, (mine, matches)


async def _answer(party: Party, ids: Sequence[bytes], size: int, hub: str) -> Intersection:
    mine = _blinded(party, ids, size, _domain(party, hub, party.name))
    theirs = await _sizes(party, hub, size)
    blocks = mine.blinded_blocks()
    for block in range(_rounds(size, theirs)):
        own, their = _points_in(block, size), _points_in(block, theirs)
        if own:
            await _send(party, hub, "blinded ids", await asyncio.to_thread(next, blocks))
        if their:
            points = await _receive(party, hub, "blinded ids", their)
            answer = await _checked(party, hub, "blinded ids", mine.blinding.multiply_received, points)
            await _send(party, hub, "twice blinded ids", answer)
        party.progress("align", min((block + 1) * blinded_sets.BLOCK_POINTS, size), size)
    places = (await hear(party, hub, "common places")).arrays.get("places")
    if places is None or places.dtype != np.int64 or places.ndim != 1:
        raise RemoteProtocolError(f"{party.name} at step 'common places': {hub} sent no list of places")
    rows = await _checked(party, hub, "common places", mine.rows, places)
    return Intersection(rows, {party.name: size, hub: theirs})


def _encoded(party: Party, ids: Sequence[str]) -> list[bytes]:
    encoded = [identifier.encode() for identifier in ids]
    empty, repeated = sum(not identifier for identifier in encoded), len(encoded) - len(set(encoded))
    if empty or repeated:
        raise BadIds(
            f"party {party.name!r}: {empty} ids are empty and {repeated} are repeated. Every row needs an id of its "
            "own; correct the table, or its id rules in the schema."
        )
    return encoded


def _blinded(party: Party, ids: Sequence[bytes], size: int, domain: bytes) -> BlindedSet:
    return BlindedSet.prepare(ids, domain=domain, randomness=party.randomness, padded=size)


def _domain(party: Party, hub: str, other: str) -> bytes:
    """Bound to the run and the pair, so that points of one exchange mean nothing in another."""
    return f"colonnade intersection 1 {party.run} {hub} {other}".encode()


async def _sizes(party: Party, peer: str, size: int) -> int:
    await tell(party, peer, "set sizes", Message({"size": size}))
    theirs = (await hear(party, peer, "set sizes")).integer("size")
    if not 0 <= theirs <= MOST_IDS:
        raise RemoteProtocolError(
            f"{party.name} at step 'set sizes': {peer} announced {theirs} ids; {MOST_IDS} is the most"
        )
    return theirs


def _rounds(*sizes: int) -> int:
    return -(-max(sizes) // blinded_sets.BLOCK_POINTS)


def _points_in(block: int, size: int) -> int:
    return max(0, min(blinded_sets.BLOCK_POINTS, size - block * blinded_sets.BLOCK_POINTS))


async def _send(party: Party, peer: str, step: str, points: bytes) -> None:
    array = np.frombuffer(points, dtype=np.uint8).reshape(-1, POINT_BYTES)
    await tell(party, peer, step, Message(arrays={"points": array}))


async def _receive(party: Party, peer: str, step: str, count: int) -> bytes:
    message = await hear(party, peer, step)
    return message.array("points", dtype="u1", shape=(count, POINT_BYTES)).tobytes()


async def _checked(party: Party, peer: str, step: str, function: Callable[..., T], *arguments: object) -> T:
    """Run a pure function on what a peer sent, off the event loop; what it refuses is the peer's error."""
    try:
        return await asyncio.to_thread(function, *arguments)
    except (InvalidPoint, ValueError) as error:
        raise RemoteProtocolError(f"{party.name} at step {step!r}, from {peer}: {error}") from None
