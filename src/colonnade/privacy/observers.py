"""Observers and units: who looks, which noise that observer knows, and what two neighbouring data sets differ in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
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
    """Who looks: a stable name for ledgers, words for people.

    `knows_batches` says whether it may know who takes part in a step, so that sampling hides nothing from it.
    """

    @property
    def name(self) -> str: ...

    @property
    def sentence(self) -> str: ...

    @property
    def knows_batches(self) -> bool: ...


@dataclass(frozen=True)
class Server:
    """The server: coordinates, holds no data, adds no noise."""

    name = SERVER_NAME
    sentence = "The server"
    knows_batches = False


@dataclass(frozen=True)
class Reader:
    """Whoever reads the released model and took no part."""

    name = "reader"
    sentence = "A reader of the released model"
    knows_batches = False


@dataclass(frozen=True)
class PartyView:
    """One party, which knows its own columns, its own noise part and the batches."""

    party: str
    knows_batches = True

    def __post_init__(self) -> None:
        check_party_name(self.party)

    @property
    def name(self) -> str:
        return f"party:{self.party}"

    @property
    def sentence(self) -> str:
        return f"Party {self.party}"


@dataclass(frozen=True)
class Coalition:
    """Several nodes that pool what they see; the server may be one of them."""

    members: tuple[str, ...]
    knows_batches = True

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
        return f"The coalition of {joined(names)}"


@dataclass(frozen=True)
class Colluding:
    """Any coalition of so many owners that holds no more shares than the threshold, whoever they are.

    One statement for all of them: not their names but how many parts of the noise they know says what they learn.
    Ledgers keep accounts for coalitions by name.
    """

    owners: int
    knows_batches = True

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


class Unit(Protocol):
    """What a guarantee hides: a stable name for ledgers and words for people."""

    @property
    def name(self) -> str: ...

    @property
    def sentence(self) -> str: ...


@dataclass(frozen=True)
class ZeroOut:
    """One record is there, or its row is the zero row. The number of rows is public."""

    name = "record"
    sentence = "any one record (zeroed out or not)"


@dataclass(frozen=True)
class Replace:
    """One record is replaced by any other."""

    name = "record-replaced"
    sentence = "any one record (replaced by any other)"


@dataclass(frozen=True)
class OthersPart:
    """What the other parties hold about one record is replaced; the observing party knows its own part.

    The unit is relative to the observer, so `party` is a reminder for readers of code and no part of
    the name or of equality: a ledger line already names its observer.
    """

    party: str = field(default="", compare=False)
    name = "others-part"
    sentence = "the other parties' part of any one record (replaced by any other)"

    def __post_init__(self) -> None:
        if self.party:
            check_party_name(self.party)


@dataclass(frozen=True)
class PartOf:
    """What one named party holds about one record is replaced."""

    party: str

    def __post_init__(self) -> None:
        check_party_name(self.party)

    @property
    def name(self) -> str:
        return f"own-part:{self.party}"

    @property
    def sentence(self) -> str:
        return f"{self.party}'s part of any one record (replaced by any other)"


@dataclass(frozen=True)
class ColumnsOf:
    """All columns of one named party, in every record, are replaced."""

    party: str

    def __post_init__(self) -> None:
        check_party_name(self.party)

    @property
    def name(self) -> str:
        return f"columns:{self.party}"

    @property
    def sentence(self) -> str:
        return f"{self.party}'s whole set of columns (replaced by any other)"


ZERO_OUT = ZeroOut()
REPLACE = Replace()


def parse_unit(name: str) -> Unit:
    plain: dict[str, Unit] = {unit.name: unit for unit in (ZERO_OUT, REPLACE, OthersPart())}
    kind, colon, party = name.partition(":")
    if name in plain:
        return plain[name]
    if colon and kind == "own-part":
        return PartOf(party)
    if colon and kind == "columns":
        return ColumnsOf(party)
    raise ValueError(
        f"no unit is called {name!r}: use record, record-replaced, others-part, own-part:<party> or columns:<party>"
    )


_UNITS = {
    "record": "one person's record, there or blank",
    "record-replaced": "one person's record, this or any other",
    "others-part": "what the others hold about one person",
}


def observer_text(name: str) -> str:
    kind, colon, rest = name.partition(":")
    if not colon:
        return {"server": "the server", "reader": "a reader of the model"}.get(name, name)
    if kind == "coalition":
        return f"{joined(['the server' if member == SERVER_NAME else member for member in rest.split('+')])} together"
    return rest


def unit_text(name: str, *, owner: str = "") -> str:
    """About what; `owner` is whose ledger it stands in, which says whom the others' part belongs to."""
    kind, colon, party = name.partition(":")
    if colon and kind == "columns":
        return f"all of {party}'s columns"
    if colon and kind == "own-part":
        return f"what {party}'s columns say of one person"
    if name == "others-part" and owner:
        return f"what {owner}'s columns say of one person"
    return _UNITS.get(name, name)


def about_text(observer: str, unit: str, parties: Sequence[str]) -> str:
    """About what this observer could learn something, in a federation of these owners of columns."""
    others = [party for party in parties if f"party:{party}" != observer]
    return unit_text(unit, owner=others[0] if len(others) == 1 else "")


def observers_text(names: Iterable[str]) -> str:
    return ", ".join(map(observer_text, names))


def joined(names: Sequence[str]) -> str:
    """Names with "and" before the last."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
