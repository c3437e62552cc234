"""Every owner's ledger goes on from the entries that others know of it, or the run stops before anything is charged."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from colonnade.errors import LedgerAltered
from colonnade.ledger import Opening, Receipt
from colonnade.ledger.claim import NOTHING, TAG_BYTES, Claim
from colonnade.protocols.messages import hear, tell
from colonnade.runtime.journal import KNOWN, PROVED
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message


async def prove_ledgers(party: Party, openings: Iterable[Opening]) -> None:
    """Each member names the highest entry that it holds a receipt for of each owner's ledger; the owner proves it.

    Raises `LedgerReplaced` for a ledger that is not the one known here, and `LedgerAltered` where an owner does not
    prove the entry, at that owner as well. A member without receipts has nothing to compare, and says so. Frames have
    one length, whatever is known, and are said anew when a run goes on.
    """
    known: dict[str, Receipt | None] = {
        opening.party: party.ledger.recognise(opening) for opening in openings if opening.party != party.name
    }
    claims = {owner: Claim.of(kept, holder=party.name, run=party.run) for owner, kept in known.items()}
    for owner, claim in claims.items():
        entry = np.array([claim.entry], dtype=np.int64)
        await tell(party, owner, KNOWN, Message(arrays={"entry": entry, "tag": _array(claim.tag)}))
    if party.owns_columns:
        await _prove(party)
    for owner, receipt in known.items():
        answer = _bytes(await hear(party, owner, PROVED))
        if receipt is None:
            continue
        if not claims[owner].is_proved_by(answer, receipt):
            raise LedgerAltered(
                f"{owner} does not prove that its ledger still has entry {receipt.entry}, of which {party.name} holds "
                f"a receipt: an old copy was put back, or entries were cut off or written anew, and what {owner} has "
                f"spent would not be counted. Nothing was charged. Give {owner} an export of {party.name}'s ledger "
                "for `colonnade ledger PARTY --witness`, and ask it to restore the newest copy; where none has the "
                "entry, it counts what is missing as lost: `colonnade explain E601`."
            )
        party.proved[owner] = receipt.entry


async def _prove(party: Party) -> None:
    """Answer every other member, then stop if one of them knows an entry that is not in this ledger."""
    altered: list[LedgerAltered] = []
    for holder in party.group.others(party.name):
        said = await hear(party, holder, KNOWN)
        (entry,) = said.array("entry", dtype="i8", shape=(1,)).tolist()
        if entry < 0:
            raise said.wrong(f"entries are counted from 1; found {entry}")
        claim, answer = Claim(holder, party.run, entry, _bytes(said)), NOTHING
        if claim.entry != 0:
            try:
                answer = party.ledger.prove(claim)
            except LedgerAltered as error:
                altered.append(error)
        await tell(party, holder, PROVED, Message(arrays={"tag": _array(answer)}))
    if altered:
        raise altered[0]


def _array(tag: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(tag, dtype=np.uint8)


def _bytes(message: Message) -> bytes:
    return message.array("tag", dtype="u1", shape=(TAG_BYTES,)).tobytes()
