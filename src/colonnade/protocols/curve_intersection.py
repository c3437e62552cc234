"""Two owners find what they have in common by one Diffie–Hellman intersection on a curve, block by block.

docs/proofs/psi.md says who learns what. Parties are taken to follow the protocol. Points that are malformed, off the
curve, of small order or repeated, and places that name no id or a dummy, end the run with the sender's name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto import blinded_sets
from colonnade.crypto.blinded_sets import BlindedSet, match
from colonnade.crypto.curve import POINT_BYTES
from colonnade.errors import RemoteProtocolError
from colonnade.protocols.id_list import Ids
from colonnade.protocols.messages import hear, tell
from colonnade.randomness import Randomness
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Matched:
    """For each of the asker's ids its place in the other owner's list, or −1."""

    places: NDArray[np.int64]


async def ask_over_curve(
    party: Party, ids: Ids, size: int, theirs: int, *, peer: str, randomness: Randomness
) -> Matched:
    """Which of the asker's ids the peer has, and where in its shuffled list."""
    mine = _blinded(ids.encoded(party.name), size, _domain(party, party.name, peer), randomness)
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
    rows = await _checked(party, peer, "twice blinded ids", mine.rows, matches.mine)
    places = np.full(ids.count, -1, dtype=np.int64)
    places[rows] = matches.theirs
    return Matched(places)


async def answer_over_curve(
    party: Party, ids: Ids, size: int, theirs: int, *, peer: str, randomness: Randomness
) -> BlindedSet:
    """Let the asker find which of its ids are here; what is kept says which row is at which place of the list."""
    mine = _blinded(ids.encoded(party.name), size, _domain(party, peer, party.name), randomness)
    blocks = mine.blinded_blocks()
    for block in range(_rounds(size, theirs)):
        own, their = _points_in(block, size), _points_in(block, theirs)
        if own:
            await _send(party, peer, "blinded ids", await asyncio.to_thread(next, blocks))
        if their:
            points = await _receive(party, peer, "blinded ids", their)
            answer_over_curve = await _checked(party, peer, "blinded ids", mine.blinding.multiply_received, points)
            await _send(party, peer, "twice blinded ids", answer_over_curve)
        party.progress("align", min((block + 1) * blinded_sets.BLOCK_POINTS, size), size)
    return mine


def _blinded(ids: list[bytes], size: int, domain: bytes, randomness: Randomness) -> BlindedSet:
    return BlindedSet.prepare(ids, domain=domain, randomness=randomness, padded=size)


def _domain(party: Party, hub: str, other: str) -> bytes:
    """Bound to the run and the pair, so that points of one exchange mean nothing in another."""
    return f"colonnade intersection 1 {party.run} {hub} {other}".encode()


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
    except ValueError as error:
        raise RemoteProtocolError(f"{party.name} at step {step!r}, from {peer}: {error}") from None
