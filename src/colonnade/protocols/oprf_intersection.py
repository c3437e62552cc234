"""Two owners find what they have in common by oblivious transfer extension, a few bytes and microseconds an id.

The asker is the receiver of a batched oblivious pseudorandom function: it places its ids in a cuckoo table, one a bin,
and learns one value a bin. The other owner computes its own ids' values in their three bins and sends them as one
shuffled list of records; an id of the asker whose value is in a record is common. docs/proofs/psi-transfer.md says who
learns what, and why records are as they are.

Four phases, each a stream in one direction with frames of one size: transfers, rows, records, places. Memory is a frame
beside what is kept for each id. Points, rows and records that are malformed, too many or too few, and records that
name an id twice, end the run with the sender's name.

Source: Kolesnikov, Kumaresan, Rosulek, Trieu (CCS 2016), section 5.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.curve import POINT_BYTES
from colonnade.errors import RemoteProtocolError
from colonnade.protocols.id_list import Ids
from colonnade.protocols.messages import hear, tell
from colonnade.randomness import Randomness
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

T = TypeVar("T")


class Hashed:
    """A party's ids, hashed once for all owners that it compares them with."""

    def __init__(self, party: Party, ids: Ids) -> None:
        self.ids = ids
        self._party = party
        self._turn = asyncio.Lock()
        self._digests: NDArray[np.uint64] | None = None

    async def digests(self) -> NDArray[np.uint64]:
        """One a row; bound to the run, so that those of two runs cannot be compared."""
        async with self._turn:
            if self._digests is None:
                domain = f"colonnade ids {self._party.run}".encode()
                self._digests = await asyncio.to_thread(
                    self.ids.digests, self._party.name, domain, self._progress
                )
        return self._digests

    def _progress(self, done: int) -> None:
        self._party.progress("hash ids", done, self.ids.count)


@dataclass(frozen=True, eq=False)
class Matched:
    """For each of the asker's ids the place of its record, or −1."""

    places: NDArray[Any]


async def ask(
    party: Party, ids: Hashed, size: int, theirs: int, *, peer: str, randomness: Randomness
) -> Matched:
    """Which of the asker's ids the peer has, and where in its records."""
    from colonnade.crypto.oprf.base_transfers import Dealer
    from colonnade.crypto.oprf.extension import Receiver
    from colonnade.crypto.oprf.matching import Matching
    from colonnade.crypto.oprf.parameters import FUNCTIONS, RECORDS, code_bits, value_bytes
    from colonnade.crypto.oprf.table import filled

    digests = await ids.digests()
    dealer = Dealer.draw(randomness, domain=_domain(party, party.name, peer))
    await tell(party, peer, "transfer key", Message(arrays={"point": _bytes(dealer.key)}))
    answers = (await hear(party, peer, "transfer choices")).array(
        "points", dtype="u1", shape=(code_bits(theirs), POINT_BYTES)
    )
    pairs = await _checked(party, peer, "transfer choices", dealer.seeds, answers.tobytes())
    seed, table = await asyncio.to_thread(filled, digests, size, randomness)
    await tell(party, peer, "table seed", Message(arrays={"seed": _bytes(seed)}))
    receiver = Receiver(digests, table, seed, pairs, randomness)
    for number in range(receiver.blocks):
        rows = await asyncio.to_thread(receiver.block, number)
        await tell(party, peer, "oblivious rows", Message(arrays={"rows": rows}))
        party.progress("align", number + 1, 2 * receiver.blocks)
    del table
    width = value_bytes(size, theirs)
    matching = await asyncio.to_thread(Matching, receiver.values, receiver.thirds, size=width)
    frames = -(-theirs // RECORDS)
    for number in range(frames):
        first, last = number * RECORDS, min((number + 1) * RECORDS, theirs)
        records = (await hear(party, peer, "record values")).array(
            "records", dtype="u1", shape=(last - first, FUNCTIONS, width)
        )
        await _checked(party, peer, "record values", matching.look_up, records, first=first)
        party.progress("align", frames + number + 1, 2 * frames)
    return Matched(matching.places)


@dataclass(frozen=True, eq=False)
class Shuffled:
    """The secret order of the records that an owner sent: which of its `count` rows stands where, or a random one."""

    order: NDArray[np.int64]
    count: int

    def rows(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Its rows at these places of its secret order."""
        if places.size and int(places.max()) >= len(self.order):
            raise ValueError(f"a place lies outside the list of {len(self.order)}")
        named = np.zeros(len(self.order), dtype=bool)
        named[places] = True
        if int(np.count_nonzero(named)) != len(places):
            raise ValueError("a place is named twice")
        rows = self.order[places]
        if np.any(rows >= self.count):
            raise ValueError("a place names a random record, which can be in no other set")
        return rows


async def answer(
    party: Party, ids: Hashed, size: int, theirs: int, *, peer: str, randomness: Randomness
) -> Shuffled:
    """Let the asker find which of its ids are here; what is kept says which row is at which place of the records."""
    from colonnade.crypto.oprf.base_transfers import Chooser
    from colonnade.crypto.oprf.extension import Sender
    from colonnade.crypto.oprf.parameters import RECORDS, code_bits, value_bytes
    from colonnade.crypto.oprf.table import SEED_BYTES

    digests = await ids.digests()
    width = code_bits(size)
    chooser = Chooser.draw(width, randomness, domain=_domain(party, peer, party.name))
    key = (await hear(party, peer, "transfer key")).array("point", dtype="u1", shape=(POINT_BYTES,))
    choices = await _checked(party, peer, "transfer key", chooser.answer, key.tobytes())
    await tell(
        party, peer, "transfer choices", Message(arrays={"points": _bytes(choices).reshape(-1, POINT_BYTES)})
    )
    seed = (await hear(party, peer, "table seed")).array("seed", dtype="u1", shape=(SEED_BYTES,)).tobytes()
    sender = await asyncio.to_thread(
        Sender,
        digests,
        shown=size,
        their_size=theirs,
        seed=seed,
        chosen_seeds=chooser.seeds,
        bits=chooser.bits,
        randomness=randomness,
    )
    for number in range(sender.blocks):
        shape = (sender.rows_in(number), width // 64)
        rows = (await hear(party, peer, "oblivious rows")).array("rows", dtype="u8", shape=shape)
        await asyncio.to_thread(sender.take, number, rows)
        party.progress("align", number + 1, 2 * sender.blocks)
    frames, cut = -(-size // RECORDS), value_bytes(theirs, size)
    for number in range(frames):
        first, last = number * RECORDS, min((number + 1) * RECORDS, size)
        records = sender.records(first, last, cut)
        await tell(party, peer, "record values", Message(arrays={"records": records}))
        party.progress("align", frames + number + 1, 2 * frames)
    return Shuffled(sender.order, ids.ids.count)


def _domain(party: Party, asker: str, other: str) -> bytes:
    """Bound to the run and the pair, so that the transfers of one exchange mean nothing in another."""
    return f"colonnade transfers 1 {party.run} {asker} {other}".encode()


def _bytes(content: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(content, dtype=np.uint8)


async def _checked(
    party: Party, peer: str, step: str, function: Callable[..., T], *arguments: Any, **named: Any
) -> T:
    """Run a pure function on what a peer sent, off the event loop; what it refuses is the peer's error."""
    try:
        return await asyncio.to_thread(function, *arguments, **named)
    except ValueError as error:
        raise RemoteProtocolError(f"{party.name} at step {step!r}, from {peer}: {error}") from None
