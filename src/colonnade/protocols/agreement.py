"""Who meets, in which run, whether all planned the same, and whether all were told the same between two steps.

Plans are compared field by field through digests, so that a difference is named without showing either
party's value to the other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PlansDiffer, RemoteProtocolError
from colonnade.ledger import Opening
from colonnade.protocols.ledger_proofs import prove_ledgers
from colonnade.protocols.messages import exchange
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message


def canonical(data: Any) -> bytes:
    """The one JSON text of a value: sorted keys, no spaces."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(data: Any) -> str:
    """SHA-256 of the canonical JSON text."""
    return hashlib.sha256(canonical(data)).hexdigest()


def flatten(data: Any, path: str = "") -> dict[str, Any]:
    """The leaves of nested mappings and lists, by dotted path."""
    if isinstance(data, Mapping) and data:
        pairs = [(str(key), value) for key, value in data.items()]
    elif isinstance(data, list | tuple) and data:
        pairs = [(str(index), value) for index, value in enumerate(data)]
    else:
        return {path: data}
    leaves: dict[str, Any] = {}
    for key, value in pairs:
        leaves |= flatten(value, f"{path}.{key}" if path else key)
    return leaves


async def meet(party: Party) -> None:
    """Give the run a name to which everybody contributed, so that no message of another run fits it.

    Everybody also says whether it draws from a seed: one such party is enough to taint the run. An owner says
    which ledger it will charge, and proves that it goes on from what others hold receipts of, before a charge.
    """
    fields = {"contribution": party.randomness.bytes(16).hex(), "reproducible": party.randomness.reproducible}
    mine = Message(fields)
    if party.owns_columns:
        opening = party.ledger.opening()
        # As an array the answer has one length, and bytes are in every report.
        mine = Message(
            {**fields, "ledger": opening.origin}, {"anew": np.array([opening.anew], dtype=np.int64)}
        )
    said = {party.name: mine, **await exchange(party, "hello", mine, party.group.members)}
    openings = []
    for owner in party.group.owners:
        (anew,) = said[owner].array("anew", dtype="i8", shape=(1,)).tolist()
        openings.append(Opening(owner, said[owner].text("ledger"), anew=bool(anew)))
    party.run = digest({name: message.text("contribution") for name, message in said.items()})[:32]
    party.seeded = any(message.fields.get("reproducible") is not False for message in said.values())
    await prove_ledgers(party, openings)


async def agree(party: Party, what: str, data: Mapping[str, Any]) -> None:
    """Stop unless every member holds the same `data`; the error names the first field that differs.

    If anybody differs from anybody, every member sees at least one difference, so all take the second look.
    """
    whole = digest(data)
    members = party.group.members
    said = await exchange(party, what, Message({"digest": whole}), members)
    if all(message.text("digest") == whole for message in said.values()):
        return
    mine = {path: digest(value)[:32] for path, value in flatten(data).items()}
    details = await exchange(party, f"{what} fields", Message({"digests": mine}), members)
    for peer, message in details.items():
        theirs = message.fields.get("digests")
        known = theirs if isinstance(theirs, dict) else {}
        differing = [path for path in (*mine, *known) if mine.get(path) != known.get(path)]
        if not differing and said[peer].text("digest") == whole:
            continue
        first = differing[0] if differing else what
        how = "do not agree on" if first in mine and first in known else "do not both have"
        raise PlansDiffer(
            f"step {what!r}: {party.name} and {peer} {how} {first!r}. Nothing was released or charged. "
            f"Compare that field in both parties' files, then run again."
        )


async def agree_on_public(party: Party, step: str, told: Iterable[str], *public: NDArray[Any]) -> None:
    """Stop unless everybody in `told` was told the same at `step`; returns before anything that rests on it leaves.

    Guarantee: two members that follow the protocol and both return here hold the same bytes, whatever the others do
    (docs/proofs/public-state.md). They compare with each other, since whoever told them is whom they do not believe.
    Where fewer than two were told there is nothing to compare, and nothing is sent.
    """
    told = tuple(told)
    if party.name not in told or len(told) < 2:
        return
    whole = hashlib.sha256(f"colonnade public: {party.run} {step}".encode())
    for array in public:
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        whole.update(little.nbytes.to_bytes(8, "little") + little.tobytes())
    said = await exchange(party, f"comparison {step}", Message({"digest": whole.digest()}), told)
    for peer, message in said.items():
        if message.fields.get("digest") != whole.digest():
            raise RemoteProtocolError(
                f"{party.name} at step {step!r}: {peer} was told something else than {party.name}, or does not say "
                f"what it was told. {party.name} has sent nothing that rests on it. Ask both, and whoever told "
                "them, what they run."
            )
