"""Observers: who looks, and which parts of the noise that observer knows.

A guarantee without an observer is not a guarantee. Noise is dealt in parts, one by each owner of columns;
an owner knows its own part, a coalition knows the parts of its members, the server and a reader of the
released model know none. What an observer knows is no noise to it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

SERVER_NAME = "server"
_RESERVED = frozenset({SERVER_NAME, "reader", "*"})
_COLLUDING = re.compile(r"any ([2-9]|[1-9][0-9]{1,8}) owners", re.ASCII)


def check_party_name(name: str) -> str:
    """The name, if a party may have it: not empty, not reserved, without the separators ":" and "+"."""
    if not name or name != name.strip() or any(mark in name for mark in ":+\n") or name in _RESERVED:
        raise ValueError(
            f"a party cannot be called {name!r}: use a name that is not empty and not one of "
            f"{', '.join(sorted(_RESERVED))}, has no ':' or '+', and does not begin or end with a space"
        )
    return name


class Observer(Protocol):
    """Who looks: a stable name for ledgers, words for people, and the noise parts it knows."""

    @property
    def name(self) -> str: ...

    @property
    def sentence(self) -> str: ...

    @property
    def knows_batches(self) -> bool:
        """Whether this observer may know who takes part in a step, so that sampling hides nothing."""
        ...

    def parts_known(self, owners: Collection[str]) -> int:
        """How many of the parts dealt by these owners this observer knows."""
        ...


@dataclass(frozen=True)
class Server:
    """The server: coordinates, holds no data, adds no noise."""

    @property
    def name(self) -> str:
        return SERVER_NAME

    @property
    def sentence(self) -> str:
        return "The server"

    @property
    def knows_batches(self) -> bool:
        return False

    def parts_known(self, owners: Collection[str]) -> int:
        return 0


@dataclass(frozen=True)
class Reader:
    """Whoever reads the released model and took no part."""

    @property
    def name(self) -> str:
        return "reader"

    @property
    def sentence(self) -> str:
        return "A reader of the released model"

    @property
    def knows_batches(self) -> bool:
        return False

    def parts_known(self, owners: Collection[str]) -> int:
        return 0


@dataclass(frozen=True)
class PartyView:
    """One party, which knows its own columns, its own noise part and the batches."""

    party: str

    def __post_init__(self) -> None:
        check_party_name(self.party)

    @property
    def name(self) -> str:
        return f"party:{self.party}"

    @property
    def sentence(self) -> str:
        return f"Party {self.party}"

    @property
    def knows_batches(self) -> bool:
        return True

    def parts_known(self, owners: Collection[str]) -> int:
        return int(self.party in owners)


@dataclass(frozen=True)
class Coalition:
    """Several nodes that pool what they see; the server may be one of them."""

    members: tuple[str, ...]

    def __post_init__(self) -> None:
        for member in self.members:
            if member != SERVER_NAME:
                check_party_name(member)
        members = tuple(sorted(set(self.members)))
        if len(members) < 2:
            raise ValueError(
                f"a coalition needs two members or more, found {members}: use PartyView for one party"
            )
        object.__setattr__(self, "members", members)

    @property
    def name(self) -> str:
        return "coalition:" + "+".join(self.members)

    @property
    def sentence(self) -> str:
        names = ["the server" if member == SERVER_NAME else member for member in self.members]
        return "The coalition of " + ", ".join(names[:-1]) + " and " + names[-1]

    @property
    def knows_batches(self) -> bool:
        return True

    def parts_known(self, owners: Collection[str]) -> int:
        return len(set(self.members) & set(owners))


@dataclass(frozen=True)
class Colluding:
    """Any coalition of so many owners that holds no more shares than the threshold, whoever they are.

    One statement for all of them: not their names but how many parts of the noise they know says what they learn.
    Ledgers keep accounts for coalitions by name.
    """

    owners: int

    def __post_init__(self) -> None:
        if self.owners < 2:
            raise ValueError(
                f"a coalition needs two owners or more, found {self.owners}: use PartyView for one party"
            )

    @property
    def name(self) -> str:
        return f"any {self.owners} owners"

    @property
    def sentence(self) -> str:
        return f"Any coalition of {self.owners} owners"

    @property
    def knows_batches(self) -> bool:
        return True

    def parts_known(self, owners: Collection[str]) -> int:
        return min(self.owners, len(owners))


def members_of(observer: Observer) -> frozenset[str]:
    """Who looks, by name, the server as "server"; nobody for a reader, who only has what is published."""
    match observer:
        case Server():
            return frozenset({SERVER_NAME})
        case PartyView(party=party):
            return frozenset({party})
        case Coalition(members=members):
            return frozenset(members)
    return frozenset()


def parse_observer(name: str) -> Observer:
    """The observer with this stable name: of every observer that a guarantee states, itself."""
    if colluding := _COLLUDING.fullmatch(name):
        return Colluding(int(colluding[1]))
    return named_observer(name)


def named_observer(name: str) -> Observer:
    """The observer with this stable name, if a ledger can keep an account for it: one that says who looks."""
    kind, colon, rest = name.partition(":")
    if not colon:
        if kind == SERVER_NAME:
            return Server()
        if kind == "reader":
            return Reader()
    elif kind == "party":
        return PartyView(rest)
    elif kind == "coalition":
        return Coalition(tuple(rest.split("+")))
    raise ValueError(
        f"no observer is called {name!r}: use server, reader, party:<name> or coalition:<name>+<name>"
    )
