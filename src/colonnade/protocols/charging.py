"""Charge the own ledger, then tell the peers its head, before a single share leaves."""

from __future__ import annotations

import numpy as np

from colonnade.errors import LedgerAltered, RemoteProtocolError
from colonnade.ledger import Receipt, Release
from colonnade.protocols.messages import exchange
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message


async def charge_first(party: Party, release: Release) -> None:
    """Charge this party's ledger for the whole release and keep the peers' receipts.

    A refusal is raised here, before anything derived from data is on the wire. The charge must be a new one: the
    noise that follows is drawn for it alone. Peers keep the head of
    this ledger, so that cutting its end off is noticed when they meet again.
    """
    receipt: Receipt = party.ledger.charge(release, party.dataset, fresh=True)
    # As an array a number has one length: bytes are in every report, and the length of a ledger is its party's own.
    entry = np.array([receipt.entry], dtype=np.int64)
    mine = Message({"head": receipt.head, "origin": receipt.origin}, {"entry": entry})
    said = await exchange(party, "receipts", mine, party.group.members)
    for peer, message in said.items():
        try:
            (place,) = message.array("entry", dtype="i8", shape=(1,)).tolist()
            theirs = Receipt(peer, place, message.text("head"), message.text("origin"))
        except ValueError as error:
            raise RemoteProtocolError(f"{party.name} at step 'receipts', from {peer}: {error}") from None
        try:
            # Of whom nothing was known when they met, other runs may have brought receipts since.
            party.ledger.keep_receipt(theirs, after=party.proved.get(peer, 0))
        except LedgerAltered:
            # A ledger without columns counts no ε. Both receipts are kept, and the charge here is not to be in vain.
            if peer in party.group.owners:
                raise
