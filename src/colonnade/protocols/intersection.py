"""Which people all owners have in common, in one order, and nobody else: by a curve, or through a server."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from colonnade import errors
from colonnade.crypto import curve as blinded_sets
from colonnade.crypto.curve import POINT_BYTES, BlindedSet, match
from colonnade.crypto.pseudonyms import (
    DUMMIES,
    PSEUDONYM_BYTES,
    PseudonymList,
    Strings,
    ascending,
    common,
    pseudonyms,
    subkey,
)
from colonnade.data.arrays import of_texts, packed, text_bytes, texts
from colonnade.data.table import Table
from colonnade.protocols.messages import exchange, hear, tell
from colonnade.randomness import KeyedRandomness, Randomness, shuffled
from colonnade.runtime.party import Group, Party
from colonnade.runtime.wire import Envelope, Message, frame_size


@dataclass(frozen=True, eq=False)
class Ids:
    """Ids in the order of a party's rows; each reading gives the same."""

    count: int
    read: Callable[[], Iterable[pa.Array]]

    @classmethod
    def of(cls, ids: Sequence[str]) -> Ids:
        column = of_texts(ids)
        return cls(len(ids), lambda: [column])

    @classmethod
    def of_table(cls, table: Table) -> Ids:
        return cls(table.rows, table.id_batches)

    def encoded(self, party: str) -> list[bytes]:
        """Every id by itself; repeated and empty ones are refused."""
        ids = [str(one).encode("utf-8", "surrogatepass") for batch in self.read() for one in texts(batch)]
        refuse(party, sum(not one for one in ids), len(ids) - len(set(ids)))
        return ids

    def pseudonyms(self, party: str, key: bytes, out: Strings, seen: Callable[[int], None]) -> None:
        """The pseudonym of every id under a key, into `out`; empty ids are refused. `seen` hears how many were read."""
        at = empty = 0
        for batch in self.read():
            store, ends = packed(batch)
            out[at : at + len(batch)] = pseudonyms(store, ends, key)
            empty += int(np.count_nonzero(np.diff(ends) == 0))
            at += len(batch)
            seen(at)
        refuse(party, empty, 0)

    def pieces(self) -> Iterator[tuple[bytes, bytes]]:
        """The lengths and the bytes of all ids, some at a time: together they say the list, however it is parted."""
        for batch in self.read():
            lengths, content = text_bytes(batch)
            yield lengths.astype("<i8").tobytes(), content.tobytes()


def refuse(party: str, empty: int, repeated: int) -> None:
    if empty or repeated:
        raise errors.BadIds(
            f"party {party!r}: {empty} ids are empty and {repeated} are repeated. Every row needs an id of its own; "
            "correct the table, or its id rules in the schema."
        )


T = TypeVar("T")


async def _ask(party: Party, ids: Ids, size: int, peer: str, randomness: Randomness) -> NDArray[np.int64]:
    """For each of the asker's ids its place in the peer's shuffled list, or −1."""
    theirs = (await sizes_with(party, [peer], size))[peer]
    domain = _domain(party, party.name, peer)
    encoded = ids.encoded(party.name)
    mine = BlindedSet.prepare(encoded, domain=domain, randomness=randomness, padded=size)
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
    common, there = await _checked(party, peer, "twice blinded ids", match, returned, multiplied)
    rows = await _checked(party, peer, "twice blinded ids", mine.rows, common)
    places = np.full(ids.count, -1, dtype=np.int64)
    places[rows] = there
    return places


async def _answer(party: Party, ids: Ids, size: int, peer: str) -> NDArray[np.int64]:
    """Let the asker find which of its ids are here, and hear from it which rows are common to all."""
    randomness = KeyedRandomness(party.randomness.bytes(_DRAWS))
    theirs = (await sizes_with(party, [peer], size))[peer]
    domain = _domain(party, peer, party.name)
    encoded = ids.encoded(party.name)
    mine = BlindedSet.prepare(encoded, domain=domain, randomness=randomness, padded=size)
    blocks = mine.blinded_blocks()
    for block in range(_rounds(size, theirs)):
        own, their = _points_in(block, size), _points_in(block, theirs)
        if own:
            await _send(party, peer, "blinded ids", await asyncio.to_thread(next, blocks))
        if their:
            points = await _receive(party, peer, "blinded ids", their)
            twice = await _checked(party, peer, "blinded ids", mine.blinding.multiply_received, points)
            await _send(party, peer, "twice blinded ids", twice)
        party.progress("align", min((block + 1) * blinded_sets.BLOCK_POINTS, size), size)
    places = await _hear_places(party, peer, min(size, theirs))
    return await _checked(party, peer, "common places", mine.rows, places)


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
        raise errors.RemoteProtocolError(f"{party.name} at step {step!r}, from {peer}: {error}") from None


MOST_IDS = 1 << 27
"""Above, places would not be addressed by 32 bits together with what fills a list up."""
_PLACES = 1 << 16
_DRAWS = 32


async def intersect(party: Party, ids: Ids | None, *, padded: int | None = None) -> NDArray[np.int64] | None:
    """The rows that every owner has, in one order; None at nodes that own nothing. Peers see `padded` as the size."""
    if not party.owns_columns or ids is None:
        return None
    if not party.run:
        raise errors.LocalProtocolError(f"{party.name}: parties must meet before they intersect their ids")
    size = shown_size(party, ids, padded)
    hub = party.group.active or party.group.owners[0]
    others = [name for name in party.group.owners if name != hub]
    if party.name == hub:
        return await _ask_everybody(party, ids, size, others)
    return await _answer(party, ids, size, hub)


def shown_size(party: Party, ids: Ids, padded: int | None) -> int:
    size = ids.count if padded is None else padded
    if not ids.count <= size <= MOST_IDS:
        raise errors.DataError(
            f"party {party.name!r}: {ids.count} ids cannot be shown as {size}. Pad to no less than the number of "
            f"ids and no more than {MOST_IDS}."
        )
    return size


async def _ask_everybody(party: Party, ids: Ids, size: int, others: Sequence[str]) -> NDArray[np.int64]:
    # Each pair has randomness of its own, drawn before any of them begins: a run that goes on draws it alike.
    randomness = {peer: KeyedRandomness(party.randomness.bytes(_DRAWS)) for peer in others}
    # All at once: an owner that had to wait for the others' turns could time out.
    tasks = [asyncio.create_task(_ask(party, ids, size, peer, randomness[peer])) for peer in others]
    try:
        answers = dict(zip(others, await asyncio.gather(*tasks), strict=True))
    finally:
        for task in tasks:
            task.cancel()
    common = np.flatnonzero(np.all([places >= 0 for places in answers.values()], axis=0))
    # A fresh order: that of the values compared would show how the active party's table was filled.
    common = common[shuffled(len(common), party.randomness)]
    for peer, places in answers.items():
        await _tell_places(party, peer, places[common])
    return common


async def sizes_with(party: Party, peers: Iterable[str], size: int) -> dict[str, int]:
    """How many ids these peers show, who are told how many are shown here; more than are accepted are refused."""
    said = await exchange(party, "set sizes", Message({"size": size}), peers)
    sizes = {peer: message.integer("size") for peer, message in said.items()}
    for peer, theirs in sizes.items():
        check_announced(party, "set sizes", peer, theirs)
        if party.most_ids is not None and theirs > party.most_ids:
            raise errors.PolicyRefused(
                f"most_ids: {peer} shows {theirs} ids, of which it would learn who is known here, and the most "
                f"accepted is {party.most_ids}. To accept it, write most_ids = {theirs} into the policy."
            )
    return sizes


def check_announced(party: Party, step: str, peer: str, size: int) -> None:
    if not 0 <= size <= MOST_IDS:
        raise errors.RemoteProtocolError(
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


_STRINGS = 1 << 16
_SERVER_PLACES = 1 << 20


def by_default(group: Group, *, in_shares: bool) -> bool:
    """Whether owners match through the server: with two, one that keeps shares learns all with one of them anyway."""
    return in_shares and len(group.owners) == 2 and group.server_keeps and group.server not in group.owners


def check_server(party: Party) -> None:
    """Refuse to match this owner's ids through the server."""
    server = party.group.server
    if server in party.group.owners:
        raise errors.GroupMismatch(
            f"alignment = 'server': the server {server!r} owns columns, and an owner that sees the lists of the others "
            "can try any id against them. Write alignment = 'curve', or have a server that owns none."
        )
    if not party.trusts_server:
        raise errors.PolicyRefused(
            f"alignment: {party.name} does not accept that ids are matched through {server}. Write 'curve' into the "
            "job, or name 'server' under alignment in the policy."
        )
    if party.seeded and not party.public:
        raise errors.OnlyForPublicData(
            f"alignment = 'server': somebody's coins come from a seed, from which {server} could find the key of all "
            "pseudonyms. Leave out the seed, declare the data public, or write alignment = 'curve'."
        )


async def no_matching(party: Party) -> None:
    """Tell the server that there is nothing to match: the lists are equal, or are matched otherwise."""
    await tell(party, party.group.server, "matching", Message({"through": False}))


async def ask_through_server(party: Party, ids: Ids) -> tuple[NDArray[np.int32], bool]:
    """The rows that the server named, in the common order; False where padding is named or a dummy is not."""
    owners, server = party.group.owners, party.group.server
    size = shown_size(party, ids, party.shown_ids)
    shown = {party.name: size} | await sizes_with(party, owners, size)
    announced = np.array([shown[owner] for owner in owners], dtype=np.int64)
    await tell(party, server, "matching", Message({"through": True}, {"sizes": announced}))
    key = await _common_key(party)
    padding = party.randomness.bytes(_DRAWS)
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
    return listed.rows(named)


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
    mine = Message({"contribution": party.randomness.bytes(_DRAWS)})
    said = {party.name: mine, **await exchange(party, "pseudonym key", mine, owners)}
    whole = hashlib.sha256(f"colonnade pseudonym key 1 {party.run} {' '.join(owners)}".encode())
    for owner in owners:
        contribution = said[owner].fields.get("contribution")
        if not isinstance(contribution, bytes) or len(contribution) != _DRAWS:
            raise said[owner].wrong(f"a contribution to the key has {_DRAWS} bytes")
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
    announced = {owner: await _hear_sizes(party, owner) for owner in owners}
    first = announced[owners[0]]
    if any(sizes != first for sizes in announced.values()):
        # An owner could else show its peers fewer ids than it lists.
        raise errors.RemoteProtocolError(
            f"{party.name} at step 'matching': {', '.join(owners)} do not name the same numbers of ids"
        )
    if first is None:
        return
    lists = [
        await _hear_list(party, owner, size + DUMMIES) for owner, size in zip(owners, first, strict=True)
    ]
    masks = await asyncio.to_thread(common, lists)
    for owner, named in zip(owners, masks, strict=True):
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
            announced = Message({"size": size})
            sent[owner, peer, "set"] = frame_size(Envelope(run, owner, peer, "set sizes", 0), announced)
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
