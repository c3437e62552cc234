"""What a guarantee of a moment release rests on, in words that follow "provided".

The noise of some dealers may be known, of t unless a group says otherwise, and t computing parties' shares. Where what
is dealt is checked, up to t members may also deviate; where nothing is, everybody is assumed to follow the protocol.
"""

from __future__ import annotations

from typing import Literal

from colonnade.crypto.row_proofs import PROJECTIONS
from colonnade.runtime.party import Group

Verify = Literal["all", "rows", "none"]
"""What is checked of what others deal: everything, the rows of owners, or nothing."""

_UNNOTICED = f"unnoticed with probability below 2^-{PROJECTIONS - 1}"
"""What checks leave: 2^-40 for rows that wrap around, far less for anything else (docs/proofs/verified-rows.md)."""
UNCHECKED = ", and everybody runs the protocol"
"""What a sentence rests on besides where nothing is checked of what others send."""


def known_to_party(group: Group, verify: Verify = "none") -> int:
    """How many parts of the noise a party's sentence does without: its own, t − 1 confederates', and a missing one."""
    if verify == "none" or len(group.owners) == 2:
        return group.threshold
    return group.threshold + 1


def server_assumption(
    group: Group, if_disclosed: str = "", verify: Verify = "none", *, deals: bool | None = None
) -> str:
    """For what the server learns; `if_disclosed` says what one more part that is known, or missing, would cost."""
    t = group.threshold
    if not group.server_keeps:
        if verify != "none" and group.tolerated == t:
            return _one_liar(group, " to it")
        return f"{_disclosed(group, if_disclosed)} to it{_deviating(group, verify, owner=if_disclosed)}"
    others = "no other computing party" if t == 1 else f"fewer than {t} other computing parties"
    condition = (
        f"it colludes with {others} (with {_count(t, 'computing party')} it would recover every column)"
    )
    disclosed = group.tolerated - (group.server_deals if deals is None else deals)
    if disclosed != t or not set(group.owners) <= set(group.computing_parties):
        condition = f"{condition} and {_telling(disclosed)} to it{_if_one(disclosed, if_disclosed)}"
    # Its own part it knows, so that a missing one of an owner is one more than was counted.
    return condition + _deviating(
        group, verify, "member, itself included,", owner=None if disclosed == t else if_disclosed
    )


def reader_assumption(group: Group, if_disclosed: str = "", verify: Verify = "none") -> str:
    """For what a reader of the model learns."""
    if verify != "none" and group.tolerated == group.threshold:
        return _one_liar(group)
    return _disclosed(group, if_disclosed) + _deviating(group, verify, owner=if_disclosed)


def party_assumption(group: Group, verify: Verify = "none", if_silent: str | None = None) -> str:
    """For what a party learns about the others' part of a record; `if_silent`: if the server deals no noise."""
    t = group.threshold
    others = (
        "no other computing party or owner" if t == 1 else f"fewer than {t} other computing parties or owners"
    )
    condition = f"it colludes with {others} (its own columns and its own noise it knows)"
    return condition + _deviating(group, verify, "member, itself included,", server=if_silent)


def coalition_assumption(group: Group) -> str:
    """For what owners learn that pool what they know. Nothing is stated where others deviate, whatever is checked."""
    t = group.threshold
    return (
        f"it holds at most {_count(t, 'computing party')}'{'s' if t == 1 else ''} shares (with "
        f"{_count(t + 1, 'computing party')} it would recover every column){UNCHECKED}"
    )


def _disclosed(group: Group, if_disclosed: str) -> str:
    t, disclosed = group.threshold, group.tolerated
    noise = _telling(disclosed, "of the owners and the server" if group.server_deals else "")
    shares = (
        f"at most {_count(t, 'computing party')} {'discloses its' if t == 1 else 'disclose their'} shares"
    )
    return f"{noise}{_if_one(disclosed, if_disclosed)} and {shares}"


def _one_liar(group: Group, to: str = "") -> str:
    who = _count(group.threshold, "member")
    return f"at most {who} discloses its noise and its shares{to} or deviates from the protocol, {_UNNOTICED}"


def _deviating(
    group: Group, verify: Verify, who: str = "member", *, owner: str | None = None, server: str | None = None
) -> str:
    """Who may deviate, where nothing is checked nobody; and what it costs if an owner or the server deals no noise."""
    if verify == "none":
        return UNCHECKED
    but = [
        f" (if {dealer} deals no noise, {cost or 'nothing is stated'})"
        for dealer, cost in (("an owner", owner), ("the server", server))
        if cost is not None
    ]
    return f"; up to {_count(group.threshold, who)} may deviate from the protocol, {_UNNOTICED}{''.join(but)}"


def _telling(disclosed: int, to: str = "") -> str:
    """At most so many owners, or others, disclose their noise."""
    if disclosed == 0:
        return "no owner discloses its noise"
    who = f"{'one' if disclosed == 1 else disclosed} {to}" if to else _count(disclosed, "owner")
    return f"at most {who} {'discloses its' if disclosed == 1 else 'disclose their'} noise"


def _if_one(disclosed: int, cost: str) -> str:
    return "" if disclosed or not cost else f" (if one does, {cost})"


def _count(number: int, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"one {noun}" if number == 1 else f"{number} {plural}"
