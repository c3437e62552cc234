"""What a guarantee of a moment release rests on, in words that follow "provided".

t owners' noise may be known, and t keepers' shares, whoever they are: an owner need not keep shares, and a keeper
need not own columns. A node that is both counts as both.
"""

from __future__ import annotations

from typing import Literal

from colonnade.crypto.row_claims import PROJECTIONS
from colonnade.runtime.group import Group

Verify = Literal["all", "rows", "none"]
"""What is checked of what others deal: everything, the rows of owners, or nothing."""

_ONE_LIAR = "discloses its noise and its shares{} or deviates from the protocol"
_UNNOTICED = f"unnoticed with probability below 2^-{PROJECTIONS - 1}"
"""What checks leave: 2^-40 for rows that wrap around, far less for anything else (docs/proofs/verified-rows.md)."""


def known_to_party(group: Group, verify: Verify = "none") -> int:
    """How many parts of the noise a party's sentence has to do without.

    Its own and those of t − 1 confederates; where the sentence also holds if a member deviates, that member's part as
    well, which may be missing. Of two owners the other one's own columns are what is protected.

    >>> known_to_party(Group.of(("a", "b", "c"))), known_to_party(Group.of(("a", "b", "c")), "rows")
    (1, 2)
    """
    if verify == "none" or len(group.owners) == 2:
        return group.threshold
    return group.threshold + 1


def server_assumption(group: Group, verify: Verify = "none") -> str:
    """For what the server learns: it may keep shares itself, and then it needs fewer confederates.

    >>> server_assumption(Group.of(("bank", "insurer")))
    'it colludes with no other keeper (with one keeper it would recover every column)'
    >>> server_assumption(Group.of(("bank", "insurer")), "rows")  # doctest: +ELLIPSIS
    'it colludes with no other keeper (...); up to one owner may deviate from the protocol, unnoticed with ...'
    """
    if verify != "none" and not group.server_keeps:
        return f"at most {_count(group.threshold, 'member')} {_ONE_LIAR.format(' to it')}, {_UNNOTICED}"
    return _may_deviate(_server_assumption(group), group, verify)


def _may_deviate(condition: str, group: Group, verify: Verify, who: str = "owner") -> str:
    if verify == "none":
        return condition
    return f"{condition}; up to {_count(group.threshold, who)} may deviate from the protocol, {_UNNOTICED}"


def _server_assumption(group: Group) -> str:
    t = group.threshold
    if not group.server_keeps:
        return f"{_disclosed(group)} to it"
    others = "no other keeper" if t == 1 else f"fewer than {t} other keepers"
    condition = f"it colludes with {others} (with {_count(t, 'keeper')} it would recover every column)"
    if set(group.owners) <= set(group.keepers):
        return condition
    return (
        f"{condition} and at most {_count(t, 'owner')} disclose{'s its' if t == 1 else ' their'} noise to it"
    )


def reader_assumption(group: Group, verify: Verify = "none") -> str:
    """For what a reader of the model learns.

    >>> reader_assumption(Group.of(("bank", "insurer", "shop")))
    'at most one owner discloses its noise and at most one keeper discloses its shares'
    >>> reader_assumption(Group.of(("bank", "insurer")), "rows")  # doctest: +ELLIPSIS
    'at most one member discloses its noise and its shares or deviates from the protocol, unnoticed with ...'
    """
    if verify == "none":
        return _disclosed(group)
    return f"at most {_count(group.threshold, 'member')} {_ONE_LIAR.format('')}, {_UNNOTICED}"


def _disclosed(group: Group) -> str:
    t = group.threshold
    verb = "discloses its" if t == 1 else "disclose their"
    return f"at most {_count(t, 'owner')} {verb} noise and at most {_count(t, 'keeper')} {verb} shares"


def party_assumption(group: Group, verify: Verify = "none") -> str:
    """For what a party learns about the others' part of a record.

    >>> party_assumption(Group.of(("bank", "insurer")))
    'it colludes with no other keeper or owner (its own columns and its own noise it knows)'
    >>> party_assumption(Group.of(("bank", "insurer")), "rows")  # doctest: +ELLIPSIS
    'it colludes with no other keeper or owner (...); up to one member, itself included, may deviate from ...'
    """
    return _may_deviate(_party_assumption(group), group, verify, "member, itself included,")


def _party_assumption(group: Group) -> str:
    t = group.threshold
    others = "no other keeper or owner" if t == 1 else f"fewer than {t} other keepers or owners"
    return f"it colludes with {others} (its own columns and its own noise it knows)"


def coalition_assumption(group: Group) -> str:
    """For what owners learn that pool what they know.

    >>> coalition_assumption(Group.of(("bank", "insurer", "shop", "clinic")))
    "it holds at most one keeper's shares (with 2 keepers it would recover every column)"
    """
    t = group.threshold
    return (
        f"it holds at most {_count(t, 'keeper')}'{'s' if t == 1 else ''} shares (with {_count(t + 1, 'keeper')} it "
        "would recover every column)"
    )


def _count(number: int, noun: str) -> str:
    return f"one {noun}" if number == 1 else f"{number} {noun}s"
