"""From one party's table to rows that are the same people in the same order at every party.

The parties compare a digest of their ids under a key that only the owners know. Equal digests mean equal
ids in equal order; unequal ones say nothing else, except whether sorting would help.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

from colonnade.data.aligned import AlignedTable
from colonnade.data.table import Table
from colonnade.errors import DataError
from colonnade.protocols.messages import exchange
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message


async def align_equal_ids(party: Party, table: Table | None) -> AlignedTable | None:
    """The table as aligned rows, if all owners hold the same ids in the same order; None at other nodes.

    Each owner learns the others' number of rows, and one bit about their ids.
    """
    if not party.owns_columns or table is None:
        return None
    owners = party.group.owners
    key = await _common_key(party)
    ordered = _ordered_digest(key, table.ids())
    mine = Message({"rows": table.rows, "digest": ordered})
    said = await exchange(party, "ids", mine, owners)
    for peer, message in said.items():
        if message.integer("rows") != table.rows:
            raise DataError(
                f"the ids of {party.name} and {peer} do not match: {table.rows} rows against "
                f"{message.integer('rows')}. Both must hold the same people; align the tables first."
            )
    differing = [peer for peer, message in said.items() if message.text("digest") != ordered]
    # Everybody takes this second look or nobody does: one difference is seen by at least two owners.
    unordered = _unordered_digest(key, table.ids()) if differing else ""
    again = await exchange(party, "ids unordered", Message({"digest": unordered}), owners)
    for peer in differing:
        if again[peer].text("digest") == unordered:
            raise DataError(
                f"{party.name} and {peer} hold the same ids in different orders. Sort both tables by id."
            )
        raise DataError(
            f"the ids of {party.name} and {peer} do not match, although both have {table.rows} rows. "
            "Both must hold the same people; align the tables first."
        )
    if any(message.text("digest") for message in again.values()):
        raise DataError(f"step 'ids': two peers of {party.name} hold different ids; nothing was released.")
    return AlignedTable(table, table.rows, bytes.fromhex(ordered))


async def _common_key(party: Party) -> bytes:
    mine = party.randomness.bytes(32)
    said = await exchange(party, "id key", Message({"part": mine.hex()}), party.group.owners)
    parts = {party.name: mine.hex()} | {peer: message.text("part") for peer, message in said.items()}
    return hashlib.sha256("/".join(parts[name] for name in sorted(parts)).encode()).digest()


def _ordered_digest(key: bytes, ids: Iterable[str]) -> str:
    state = hmac.new(key, digestmod=hashlib.sha256)
    for text in ids:
        encoded = text.encode()
        state.update(len(encoded).to_bytes(4, "little") + encoded)
    return state.hexdigest()


def _unordered_digest(key: bytes, ids: Iterable[str]) -> str:
    """The sum of keyed digests of the single ids: the same for every order."""
    total = 0
    for text in ids:
        total += int.from_bytes(hmac.digest(key, text.encode(), "sha256"), "little")
    return f"{total % 2**256:064x}"
