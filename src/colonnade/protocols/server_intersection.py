"""Owners find what they have in common through a server that is none of them, two hashes and a sort.

The owners share a key that the server never has, list a pseudonym of each id under it, and the server says which places
of each list are common to all. What an owner learns is the intersection, whether it follows the protocol or not; the
server learns how long lists are and how many people are common. The server and an owner together could try any id
against the other's list, so this is for a server that is trusted with as much already (docs/proofs/psi.md).

In every list are dummies, which all owners have, and padding up to the declared length, which is one owner's. An owner
whose padding is named or whose dummies are not notes it and goes on: what was bad shows at one step, the comparison of
ids that comes after this, whatever it was.

Source: Kamara, Mohassel, Raykova, Sadeghian, "Scaling private set intersection to billion-element sets" (2014).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.pseudonyms import (
    DUMMIES,
    PSEUDONYM_BYTES,
    PseudonymList,
    Strings,
    ascending,
    common,
    subkey,
)
from colonnade.errors import GroupMismatch, OnlyForPublicData, PolicyRefused, RemoteProtocolError
from colonnade.protocols.id_list import Ids, refuse
from colonnade.protocols.intersection import check_announced, shown_size, sizes_with
from colonnade.protocols.messages import exchange, hear, tell
from colonnade.runtime.group import Group
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Envelope, Message, frame_size

_COINS = 32
_STRINGS = 1 << 16
_SERVER_PLACES = 1 << 20


def by_default(group: Group, *, in_shares: bool) -> bool:
    """Whether owners that leave it open match ids through the server, if all of them accept that.

    With two owners whose server keeps shares, the server and one of them learn everything together anyway.
    """
    return in_shares and len(group.owners) == 2 and group.server_keeps and group.server not in group.owners


def refusal(party: Party) -> Exception | None:
    """Why this owner does not match ids through the server; None if it does."""
    server = party.group.server
    if server in party.group.owners:
        return GroupMismatch(
            f"alignment = 'server': the server {server!r} owns columns, and an owner that sees the lists of the others "
            "can try any id against them. Write alignment = 'curve', or have a server that owns none."
        )
    if not party.trusts_server:
        return PolicyRefused(
            f"alignment: {party.name} does not accept that ids are matched through {server}. Write 'curve' into the "
            "job, or name 'server' under alignment in the policy."
        )
    if party.seeded and not party.public:
        return OnlyForPublicData(
            f"alignment = 'server': somebody's coins come from a seed, from which {server} could find the key of all "
            "pseudonyms. Leave out the seed, declare the data public, or write alignment = 'curve'."
        )
    return None


@dataclass(frozen=True, eq=False)
class Named:
    """This owner's rows that the server named, in the order that all owners share.

    They are not `sound` where padding is named or a dummy is not.
    """

    rows: NDArray[np.int64]
    sound: bool


async def no_matching(party: Party) -> None:
    """Tell the server that there is nothing to match: the lists are equal, or are matched otherwise."""
    await tell(party, party.group.server, "matching", Message({"through": False}))


async def ask_through_server(party: Party, ids: Ids) -> Named:
    """Which of this owner's ids all owners have, as the server says."""
    owners, server = party.group.owners, party.group.server
    size = shown_size(party, ids, party.shown_ids)
    shown = {party.name: size} | await sizes_with(party, owners, size)
    told = np.array([shown[owner] for owner in owners], dtype=np.int64)
    await tell(party, server, "matching", Message({"through": True}, {"sizes": told}))
    key = await _common_key(party)
    padding = party.randomness.bytes(_COINS)
    count = size + DUMMIES
    listed = await asyncio.to_thread(_listed, party, ids, count, key, padding)
    for part in _parts(count, _STRINGS):
        await tell(party, server, "pseudonyms", Message(arrays={"strings": listed.strings[part]}))
        party.progress("align", part.stop, 2 * count)
    named = np.zeros(count, dtype=bool)
    for part in _parts(count, _SERVER_PLACES):
        wide = part.stop - part.start
        said = await hear(party, server, "common places")
        bits = said.array("places", dtype="u1", shape=(-(-wide // 8),))
        named[part] = np.unpackbits(bits, count=wide)
        party.progress("align", count + part.stop, 2 * count)
    return Named(*listed.rows(named))


def _listed(party: Party, ids: Ids, count: int, key: bytes, padding: bytes) -> PseudonymList:
    strings = np.empty((count, PSEUDONYM_BYTES), dtype=np.uint8)
    ids.pseudonyms(
        party.name,
        subkey(key, "ids"),
        strings[: ids.count],
        lambda done: party.progress("hash ids", done, ids.count),
    )
    listed = PseudonymList.of(strings, ids.count, key=key, padding=padding)
    refuse(party.name, 0, listed.repeated)
    return listed


async def _common_key(party: Party) -> bytes:
    """A key to which every owner contributed, that of this run alone; the server is told nothing of it."""
    owners = party.group.owners
    mine = Message({"contribution": party.randomness.bytes(_COINS)})
    said = {party.name: mine, **await exchange(party, "pseudonym key", mine, owners)}
    whole = hashlib.sha256(f"colonnade pseudonym key 1 {party.run} {' '.join(owners)}".encode())
    for owner in owners:
        contribution = said[owner].fields.get("contribution")
        if not isinstance(contribution, bytes) or len(contribution) != _COINS:
            raise said[owner].wrong(f"a contribution to the key has {_COINS} bytes")
        whole.update(contribution)
    key = whole.digest()
    checked = hashlib.sha256(b"colonnade pseudonym key, compared" + key).digest()
    for message in (
        await exchange(party, "pseudonym key compared", Message({"digest": checked}), owners)
    ).values():
        if message.fields.get("digest") != checked:
            raise message.wrong("it has another key: somebody told owners different contributions")
    return key


async def serve(party: Party) -> None:
    """The server's part: hear every owner's list, and tell each which of its places are common to all."""
    owners = party.group.owners
    told = {owner: await _hear_sizes(party, owner) for owner in owners}
    first = told[owners[0]]
    if any(sizes != first for sizes in told.values()):
        # An owner could else show its peers fewer ids than it lists.
        raise RemoteProtocolError(
            f"{party.name} at step 'matching': {', '.join(owners)} do not name the same numbers of ids"
        )
    if first is None:
        return
    lists = [
        await _hear_list(party, owner, size + DUMMIES) for owner, size in zip(owners, first, strict=True)
    ]
    found = await asyncio.to_thread(common, lists)
    for owner, named in zip(owners, found, strict=True):
        for part in _parts(len(named), _SERVER_PLACES):
            bits = np.packbits(named[part])
            await tell(party, owner, "common places", Message(arrays={"places": bits}))


async def _hear_sizes(party: Party, owner: str) -> tuple[int, ...] | None:
    said = await hear(party, owner, "matching")
    if said.fields.get("through") is not True:
        return None
    sizes = said.array("sizes", dtype="i8", shape=(len(party.group.owners),)).tolist()
    for size in sizes:
        check_announced(party, "matching", owner, size)
    return tuple(sizes)


async def _hear_list(party: Party, owner: str, count: int) -> Strings:
    strings = np.empty((count, PSEUDONYM_BYTES), dtype=np.uint8)
    for part in _parts(count, _STRINGS):
        said = await hear(party, owner, "pseudonyms")
        strings[part] = said.array("strings", dtype="u1", shape=(part.stop - part.start, PSEUDONYM_BYTES))
        if not ascending(strings[max(0, part.start - 1) : part.stop]):
            raise said.wrong("pseudonyms are not in order, or one is repeated")
        party.progress("align", part.stop, count)
    return strings


def _parts(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def list_bytes(
    group: Group, sizes: Mapping[str, int], run: str = "0" * 32
) -> dict[tuple[str, str, str], int]:
    """The bytes of lists, of their lengths and of answers, by sender, receiver and kind of step, from lengths alone."""
    server, sent = group.server, dict[tuple[str, str, str], int]()
    for owner, size in sizes.items():
        for peer in (other for other in sizes if other != owner):
            told = Message({"size": size})
            sent[owner, peer, "set"] = frame_size(Envelope(run, owner, peer, "set sizes", 0), told)
        count = size + DUMMIES
        shapes = [(part.stop - part.start, PSEUDONYM_BYTES) for part in _parts(count, _STRINGS)]
        answers = [(-(-(part.stop - part.start) // 8),) for part in _parts(count, _SERVER_PLACES)]
        for sender, to, step, name, frames, first in (
            (owner, server, "pseudonyms", "strings", shapes, 1),
            (server, owner, "common places", "places", answers, 0),
        ):
            sent[sender, to, step.split(" ")[0]] = sum(
                frame_size(
                    Envelope(run, sender, to, step, first + number),
                    Message(arrays={name: np.broadcast_to(np.uint8(0), shape)}),
                )
                for number, shape in enumerate(frames)
            )
    return sent
