"""Units of privacy: what two neighbouring data sets may differ in.

The number of aligned rows is public, so "add or remove a record" is read as: the record's row becomes
the zero row and the length stays. The parties know who is in the intersection; against a party the unit
is therefore the others' part of one record, replaced, and no statement claims to hide membership.

Each unit has a stable `name`, which ledgers store, and a `sentence`, which guarantees print after
"learns at most ε … about".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from colonnade.privacy.observers import check_party_name


class Unit(Protocol):
    """What a guarantee hides: a stable name for ledgers and words for people."""

    @property
    def name(self) -> str: ...

    @property
    def sentence(self) -> str: ...


@dataclass(frozen=True)
class ZeroOut:
    """One record is there, or its row is the zero row. The number of rows is public."""

    @property
    def name(self) -> str:
        return "record"

    @property
    def sentence(self) -> str:
        return "any one record (zeroed out or not)"


@dataclass(frozen=True)
class Replace:
    """One record is replaced by any other."""

    @property
    def name(self) -> str:
        return "record-replaced"

    @property
    def sentence(self) -> str:
        return "any one record (replaced by any other)"


@dataclass(frozen=True)
class OthersPart:
    """What the other parties hold about one record is replaced; the observing party knows its own part.

    The unit is relative to the observer, so `party` is a reminder for readers of code and no part of
    the name or of equality: a ledger line already names its observer.
    """

    party: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if self.party:
            check_party_name(self.party)

    @property
    def name(self) -> str:
        return "others-part"

    @property
    def sentence(self) -> str:
        return "the other parties' part of any one record (replaced by any other)"


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
    kind, colon, party = name.partition(":")
    if not colon:
        plain: dict[str, Unit] = {"record": ZERO_OUT, "record-replaced": REPLACE, "others-part": OthersPart()}
        if kind in plain:
            return plain[kind]
    elif kind == "own-part":
        return PartOf(party)
    elif kind == "columns":
        return ColumnsOf(party)
    raise ValueError(
        f"no unit is called {name!r}: use record, record-replaced, others-part, own-part:<party> or columns:<party>"
    )
