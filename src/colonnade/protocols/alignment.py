"""From one party's table to rows that are the same people in the same order at every party.

Whether lists of ids are equal is tested by intersecting one blinded digest of each; otherwise people in common are
found on a curve, or through the server where it is trusted with as much already and every owner accepts it. A digest
never travels in a form that could be compared with a guess.
"""

from __future__ import annotations

import hashlib
from typing import Literal, get_args

import numpy as np

from colonnade.crypto.curve import POINT_BYTES, Blinding, hash_to_curve
from colonnade.data.declaring import nearest_name
from colonnade.data.table import AlignedTable, Table
from colonnade.errors import (
    ColonnadeError,
    PeopleDiffer,
    PlanError,
    RemoteProtocolError,
    TooFewPeople,
    UnknownChoice,
)
from colonnade.ledger import HoldoutSplit
from colonnade.ledger.release import PartName
from colonnade.protocols import intersection as server_intersection
from colonnade.protocols.agreement import agree, canonical, meet
from colonnade.protocols.intersection import Ids, intersect
from colonnade.protocols.messages import exchange, hear, tell
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

Alignment = Literal["auto", "equal", "server", "curve"]
_DIGEST = 32
_INSTEAD = (
    'Write "curve", or "server" where every party accepts that the server matches pseudonyms of their ids; "auto", the '
    "default, takes one of them where lists differ."
)
_GONE = {
    "oprf": "oblivious transfers show an owner that leaves the protocol the whole list of the other, and are no more",
    "intersection": "it says no more how people are matched",
}


def check_alignment(how: object, place: str = "alignment") -> None:
    if isinstance(how, str) and how in _GONE:
        raise UnknownChoice(f"{place}: found {how!r}: {_GONE[how]}. {_INSTEAD}")
    choices = get_args(Alignment)
    if how not in choices:
        raise UnknownChoice(
            f"{place}: {how!r} is not one of {', '.join(choices)}.{nearest_name(str(how), choices)}"
        )


async def align(
    party: Party, table: Table | None, how: Alignment = "auto", *, in_shares: bool = False
) -> AlignedTable | None:
    """The table as aligned rows; None at nodes that own no columns. docs/proofs/psi.md has what each learns.

    * "equal": all owners must hold the same ids in the same order; each learns whether sorting would help.
    * "curve", "server": the rows whose ids all owners have, in an order that says nothing, matched in this way.
    * "auto": as "equal" if the ids are equal. Else as "server" with two owners in a run `in_shares` of which the server
      keeps one, if both accept it; else as "curve".
    """
    check_alignment(how)
    offered = how == "auto" and server_intersection.by_default(party.group, in_shares=in_shares)
    with party.aligning():
        if party.owns_columns and table is not None:
            return await _align(party, table, how, offered=offered)
        if party.is_server and not party.owns_columns and (offered or how == "server"):
            await server_intersection.serve(party)
    return None


async def _align(party: Party, table: Table, how: Alignment, *, offered: bool) -> AlignedTable:
    agrees = offered
    try:
        server_intersection.check_server(party)
    except ColonnadeError:
        if how == "server":
            raise
        agrees = False
    # Nothing made of ids leaves before every owner has said its rules, which it does once policy and budget said yes.
    accepted = await _same_id_rules(party, table, agrees if offered else None)
    through = how == "server" or (offered and accepted)
    partners = [owner for owner in party.group.owners if owner != party.name]
    party.ledger.note_comparison(
        party.dataset, partners, run=party.run, through=party.group.server if through else ""
    )
    if how in ("auto", "equal"):
        digest = await _compare(party, table, explain=how == "equal")
        if digest is not None:
            if offered:
                await server_intersection.no_matching(party)
            return AlignedTable(table, table.rows, digest)
    if through:
        return await _align_through_server(party, table)
    if offered:
        await server_intersection.no_matching(party)
    common_rows = await intersect(party, Ids.of_table(table), padded=party.shown_ids)
    if common_rows is None or not len(common_rows):
        raise _nobody(party)
    common = table.take(common_rows)
    agreed = await _compare(party, common)
    if agreed is None:
        raise PeopleDiffer(
            "step 'ids': after intersection the owners do not hold the same ids; nothing was released."
        )
    return AlignedTable(common, common.rows, agreed)


async def _align_through_server(party: Party, table: Table) -> AlignedTable:
    """The rows that the server named, if every two owners hold the same ids in that order.

    Whatever is wrong ends here, at one step and in the same words: where it shows would tell the server something.
    """
    rows, sound = await server_intersection.ask_through_server(party, Ids.of_table(table))
    # Drawn in any case, so that a run that goes on draws alike.
    spoilt = party.randomness.bytes(_DIGEST)
    common = table.take(rows) if len(rows) else None
    digest = _digest(party, "in order", Ids.of([]) if common is None else Ids.of_table(common))
    matches = [
        await _holds(party, peer, digest if sound else spoilt)
        for peer in party.group.owners
        if peer != party.name
    ]
    if not (sound and all(matches)):
        raise RemoteProtocolError(
            f"{party.name} at step 'people': the owners do not hold the same people after {party.group.server} matched "
            "them, so that it or one of the owners does not follow the protocol. Nothing was charged. Ask all what "
            'they run, or align by "curve".'
        )
    if common is None:
        raise _nobody(party)
    return AlignedTable(common, common.rows, digest)


def _nobody(party: Party) -> PeopleDiffer:
    return PeopleDiffer(
        f"{party.name} and its peers have no ids in common. See whether all use the same kind of id, and declare "
        "the same id rules in every schema."
    )


def keep_part(people: AlignedTable | None, split: HoldoutSplit | None, part: PartName) -> AlignedTable | None:
    """The aligned people of one part. How many there are is public."""
    if people is None or split is None:
        return None
    held_out = split.held_out(people.table.ids())
    rows = np.flatnonzero(held_out if part == "held-out" else ~held_out)
    if not len(rows):
        raise TooFewPeople(
            f"of {people.rows} people nobody is in the {part} part at held_out = {split.share:g}; nothing was charged. "
            "Bring more people."
        )
    return AlignedTable(people.table.take(rows), len(rows), people.digest)


async def compare_people(party: Party, aligned: AlignedTable | None) -> None:
    """Stop unless every two owners hold the same people in the same order; of two owners there is nothing to compare.

    Guarantee: two owners that follow the protocol and both return here hold the same ids in the same order, whatever a
    third one told them (docs/proofs/psi.md). Were one person in two rows, a bound on rows would not be one on people.
    """
    if aligned is None or len(party.group.owners) == 2:
        return
    mine = _digest(party, "in every row", Ids.of_table(aligned.table))
    with party.aligning():
        for peer in party.group.owners:
            if peer != party.name and not await _holds(party, peer, mine):
                raise RemoteProtocolError(
                    f"{party.name} at step 'people': {peer} does not hold the same people in the same order, so one of "
                    "the owners does not follow the protocol. Nothing was charged. Ask all owners what they run."
                )


async def _holds(party: Party, peer: str, digest: bytes) -> bool:
    pair = sorted((party.name, peer))
    blinding = Blinding.draw(party.randomness)
    mine = blinding.multiply(
        hash_to_curve([digest], domain=f"colonnade people {party.run} {pair[0]} {pair[1]}".encode())
    )
    try:
        twice = blinding.multiply_received(await _swapped(party, peer, "people", mine))
    except ValueError as error:
        raise RemoteProtocolError(f"{party.name} at step 'people', from {peer}: {error}") from None
    return await _swapped(party, peer, "people, twice blinded", twice) == twice


async def _swapped(party: Party, peer: str, step: str, point: bytes) -> bytes:
    await tell(party, peer, step, Message(arrays={"point": np.frombuffer(point, dtype=np.uint8)}))
    said = await hear(party, peer, step)
    return said.array("point", dtype="u1", shape=(POINT_BYTES,)).tobytes()


async def alignment_session(
    party: Party, table: Table | None, how: Alignment, in_shares: bool
) -> AlignedTable | None:
    await meet(party)
    await agree(party, "job", {"program": "alignment", "how": how})
    if table is not None:
        table.check(party.progress)
    return await align(party, table, how, in_shares=in_shares)


async def _same_id_rules(party: Party, table: Table, accepts: bool | None) -> bool:
    """All must spell ids by the same declared rules; returns whether all owners accept matching through the server."""
    parts = len(table.schema.id_columns)
    rules = table.schema.id_spelling.to_data() | ({"columns": parts} if parts > 1 else {})
    mine = canonical(rules).decode()
    fields = {"rules": mine} if accepts is None else {"rules": mine, "server": accepts}
    said = await exchange(party, "id rules", Message(fields), party.group.owners)
    for peer, message in said.items():
        if message.text("rules") != mine:
            raise PlanError(
                f"step 'id rules': {party.name} and {peer} declare different rules for ids (how many columns, trim, "
                "case, unicode). Write the same [id] rules into both schemas."
            )
    return bool(accepts) and all(message.fields.get("server") is True for message in said.values())


async def _compare(party: Party, table: Table, *, explain: bool = False) -> bytes | None:
    """A digest of the ids if all owners hold the same in the same order; otherwise None, or the reason."""
    ordered = _digest(party, "in order", Ids.of_table(table))
    if await _all_hold(party, ordered):
        return ordered
    if not explain:
        return None
    peers = " and ".join(owner for owner in party.group.owners if owner != party.name)
    if await _all_hold(party, _digest(party, "sorted", Ids.of(sorted(table.ids())))):
        raise PeopleDiffer(
            f"{party.name} and {peers} hold the same ids in different orders. Sort the tables by id, or write "
            'alignment = "auto".'
        )
    raise PeopleDiffer(
        f'the ids of {party.name} and {peers} do not match. Write alignment = "auto", or bring tables of the '
        "same people."
    )


async def _all_hold(party: Party, digest: bytes) -> bool:
    """Whether every owner holds the same digest: the intersection of sets of one element each."""
    common = await intersect(party, Ids.of([digest.hex()]))
    return common is not None and len(common) == 1


def _digest(party: Party, what: str, ids: Ids) -> bytes:
    """SHA-256 of a list of ids, bound to the run; it stays with the party."""
    lengths, texts = hashlib.sha256(), hashlib.sha256()
    for sizes, content in ids.pieces():
        lengths.update(sizes)
        texts.update(content)
    bound = f"colonnade ids {what} {party.run}".encode()
    return hashlib.sha256(bound + lengths.digest() + texts.digest()).digest()
