"""Before anything else: who meets, in which run, and whether all planned the same.

Plans are compared field by field through digests, so that a difference is named without showing either
party's value to the other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from colonnade.errors import PlansDiffer
from colonnade.protocols.messages import exchange
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message


def canonical(data: Any) -> bytes:
    """The one JSON text of a value: sorted keys, no spaces."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(data: Any) -> str:
    """SHA-256 of the canonical JSON text.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(canonical(data)).hexdigest()


def flatten(data: Any, path: str = "") -> dict[str, Any]:
    """The leaves of nested mappings and lists, by dotted path.

    >>> flatten({"noise": {"mu": 3}, "owners": ["a", "b"]})
    {'noise.mu': 3, 'owners.0': 'a', 'owners.1': 'b'}
    """
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

    Everybody also says whether its coins come from a seed: one such party is enough to taint the run.
    """
    mine = Message(
        {"contribution": party.randomness.bytes(16).hex(), "reproducible": party.randomness.reproducible}
    )
    said = {party.name: mine, **await exchange(party, "hello", mine, party.group.members)}
    party.run = digest({name: message.text("contribution") for name, message in said.items()})[:32]
    party.tainted = any(message.fields.get("reproducible") is not False for message in said.values())


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
