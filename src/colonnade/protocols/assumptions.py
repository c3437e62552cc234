"""What a guarantee of a moment release rests on, in words that follow "provided".

The noise of some dealers may be known, of t unless a group says otherwise, and t keepers' shares, whoever they are: an
owner need not keep shares, and a keeper need not own columns. A node that is both counts as both.
"""

from __future__ import annotations

from colonnade.runtime.group import Group


def server_assumption(group: Group, if_told: str = "") -> str:
    """For what the server learns: it may keep shares itself, and then it needs fewer confederates.

    Where it deals a part of the noise, that part is one of those that may be known. `if_told` says what one more known
    part would cost.

    >>> server_assumption(Group.of(("bank", "insurer")), "ε = 1.49")
    'it colludes with no other keeper (with one keeper it would recover every column) and no owner discloses its noise \
to it (if one does, ε = 1.49)'
    """
    t = group.threshold
    if not group.server_keeps:
        return f"{_disclosed(group, if_told)} to it"
    others = "no other keeper" if t == 1 else f"fewer than {t} other keepers"
    condition = f"it colludes with {others} (with {_count(t, 'keeper')} it would recover every column)"
    told = group.tolerated - group.server_deals
    if told == t and set(group.owners) <= set(group.keepers):
        return condition
    return f"{condition} and {_telling(told)} to it{_if_one(told, if_told)}"


def reader_assumption(group: Group, if_told: str = "") -> str:
    """For what a reader of the model learns.

    >>> reader_assumption(Group.of(("bank", "insurer", "shop")))
    'at most one owner discloses its noise and at most one keeper discloses its shares'
    >>> reader_assumption(Group.of(("bank", "insurer")))
    'at most one of the owners and the server discloses its noise and at most one keeper discloses its shares'
    """
    return _disclosed(group, if_told)


def _disclosed(group: Group, if_told: str) -> str:
    t, told = group.threshold, group.tolerated
    noise = _telling(told, "of the owners and the server" if group.server_deals else "")
    shares = f"at most {_count(t, 'keeper')} {'discloses its' if t == 1 else 'disclose their'} shares"
    return f"{noise}{_if_one(told, if_told)} and {shares}"


def _telling(told: int, whom: str = "") -> str:
    """At most so many owners, or others, disclose their noise."""
    if told == 0:
        return "no owner discloses its noise"
    who = f"{'one' if told == 1 else told} {whom}" if whom else _count(told, "owner")
    return f"at most {who} {'discloses its' if told == 1 else 'disclose their'} noise"


def _if_one(told: int, cost: str) -> str:
    return "" if told or not cost else f" (if one does, {cost})"


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
