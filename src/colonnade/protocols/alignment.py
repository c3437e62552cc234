"""From one party's table to rows that are the same people in the same order at every party.

The parties first compare a digest of their ids under a key that only the owners know: tables that hold the same
people in the same order need nothing else. Otherwise they find the people they have in common by private set
intersection.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Literal

from colonnade.data.aligned import AlignedTable
from colonnade.data.table import Table
from colonnade.errors import DataError, PlanError
from colonnade.protocols.agreement import agree, canonical, meet
from colonnade.protocols.intersection import intersect
from colonnade.protocols.messages import exchange
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

Alignment = Literal["auto", "equal", "intersection"]


async def align(party: Party, table: Table | None, how: Alignment = "auto") -> AlignedTable | None:
    """The table as aligned rows; None at nodes that own no columns.

    * "equal": all owners must hold the same ids in the same order. Each learns the others' number of rows, and one
      bit about their ids.
    * "intersection": the rows whose ids all owners have, in an order that says nothing. What each learns stands in
      docs/proofs/psi.md.
    * "auto": as "equal" if the ids are equal, else as "intersection"; the bit that is learnt in between follows
      from the result.
    """
    if not party.owns_columns or table is None:
        return None
    await _same_id_rules(party, table)
    if how != "intersection":
        aligned = await _align_equal(party, table, must=how == "equal")
        if aligned is not None:
            return aligned
    found = await intersect(party, list(table.ids()), padded=party.shown_ids)
    if found is None or not len(found.rows):
        raise DataError(
            f"{party.name} and its peers have no ids in common. See whether all use the same kind of id, and declare "
            "the same id rules in every schema."
        )
    common = table.take(found.rows)
    agreed = await _compare(party, common)
    if agreed is None:
        raise DataError(
            "step 'ids': after intersection the owners do not hold the same ids; nothing was released."
        )
    return AlignedTable(common, common.rows, agreed)


async def alignment_session(party: Party, table: Table | None, how: Alignment) -> AlignedTable | None:
    """Meet, and find the common people, and nothing else."""
    await meet(party)
    await agree(party, "job", {"program": "alignment", "how": how})
    if table is not None:
        table.check(party.progress)
    return await align(party, table, how)


async def _same_id_rules(party: Party, table: Table) -> None:
    """Ids are compared as each party spells them, so all must spell them by the same declared rules."""
    mine = canonical(table.schema.id_spelling.to_data()).decode()
    said = await exchange(party, "id rules", Message({"rules": mine}), party.group.owners)
    for peer, message in said.items():
        if message.text("rules") != mine:
            raise PlanError(
                f"step 'id rules': {party.name} and {peer} declare different rules for ids (trim, case, unicode). "
                "Write the same [id] rules into both schemas."
            )


async def _align_equal(party: Party, table: Table, *, must: bool) -> AlignedTable | None:
    digest = await _compare(party, table, explain=must)
    return None if digest is None else AlignedTable(table, table.rows, digest)


async def _compare(party: Party, table: Table, *, explain: bool = False) -> bytes | None:
    """The digest of the ids if all owners hold the same in the same order; otherwise None, or the reason."""
    owners = party.group.owners
    key = await _common_key(party)
    ordered = _ordered_digest(key, table.ids())
    # With the number of rows as part of the digest, a difference does not show by how much they differ.
    said = await exchange(party, "ids", Message({"digest": ordered}), owners)
    same = all(message.text("digest") == ordered for message in said.values())
    # If any two owners differ, every owner sees at least one difference, so all go on alike.
    if same:
        return bytes.fromhex(ordered)
    if not explain:
        return None
    unordered = _unordered_digest(key, table.ids())
    again = await exchange(party, "ids unordered", Message({"rows": table.rows, "digest": unordered}), owners)
    for peer, message in again.items():
        if message.integer("rows") != table.rows:
            raise DataError(
                f"the ids of {party.name} and {peer} do not match: {table.rows} rows against "
                f"{message.integer('rows')}. Align by intersection, or bring tables of the same people."
            )
        if message.text("digest") != unordered:
            raise DataError(
                f"the ids of {party.name} and {peer} do not match, although both have {table.rows} rows. "
                "Align by intersection, or bring tables of the same people."
            )
    raise DataError(
        f"{party.name} and its peers hold the same ids in different orders. Sort the tables by id, or align by "
        "intersection."
    )


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
