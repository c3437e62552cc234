"""What a guarantee of a moment release rests on, in words that follow "provided".

t owners' noise may be known, and t keepers' shares, whoever they are: an owner need not keep shares, and a keeper
need not own columns. A node that is both counts as both.
"""

from __future__ import annotations

from colonnade.runtime.group import Group


def server_assumption(group: Group) -> str:
    """For what the server learns: it may keep shares itself, and then it needs fewer confederates.

    >>> server_assumption(Group.of(("bank", "insurer")))
    'it colludes with no other keeper (with one keeper it would recover every column)'
    """
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


def reader_assumption(group: Group) -> str:
    """For what a reader of the model learns.

    >>> reader_assumption(Group.of(("bank", "insurer", "shop")))
    'at most one owner discloses its noise and at most one keeper discloses its shares'
    """
    return _disclosed(group)


def _disclosed(group: Group) -> str:
    t = group.threshold
    verb = "discloses its" if t == 1 else "disclose their"
    return f"at most {_count(t, 'owner')} {verb} noise and at most {_count(t, 'keeper')} {verb} shares"


def party_assumption(group: Group) -> str:
    """For what a party learns about the others' part of a record.

    >>> party_assumption(Group.of(("bank", "insurer")))
    'it colludes with no other keeper or owner (its own columns and its own noise it knows)'
    """
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
