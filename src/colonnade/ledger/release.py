"""What is about to leave an organisation, about which part of the people, and the receipt its ledger gives for it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.pseudonyms import keyed_digests
from colonnade.privacy.events import Event, event_from_data, event_to_data
from colonnade.privacy.guarantee import check_claim
from colonnade.privacy.observers import ColumnsOf, Reader, named_observer, parse_unit

KEY_BYTES = 32
PartName = Literal["training", "held-out"]
PARTS: tuple[PartName, ...] = ("training", "held-out")
DIGEST = re.compile(r"[0-9a-f]{64}")
_READER = Reader().name
_TEXTS = ("id", "run", "plan", "what", "receiver")
_GROUPS = ("owners", "shown_to", "share_holders")


@dataclass(frozen=True)
class Part:
    """The part of its data set that a release is about; `cut` tells one way of cutting it from every other."""

    cut: str
    name: PartName

    def __post_init__(self) -> None:
        if not isinstance(self.cut, str) or not DIGEST.fullmatch(self.cut):
            raise ValueError("a cut is named by a SHA-256 digest in 64 hexadecimal digits")
        if self.name not in PARTS:
            raise ValueError(f"a part is one of {', '.join(PARTS)}; found {self.name!r}")

    def to_data(self) -> dict[str, str]:
        return {"cut": self.cut, "name": self.name}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Part:
        return cls(data["cut"], data["name"])


@dataclass(frozen=True)
class HoldoutSplit:
    """How a data set is cut: a key, the share held out, and by which rules its ids are read.

    Whoever has the key and an id can tell the part that somebody is in, and nothing else.
    """

    key: bytes = field(repr=False)
    share: float
    rules: str

    def __post_init__(self) -> None:
        if not isinstance(self.key, bytes) or len(self.key) != KEY_BYTES:
            raise ValueError(f"the key of a cut has {KEY_BYTES} bytes")
        if not 0 < self.share < 1:
            raise ValueError(f"the share held out is between 0 and 1; found {self.share!r}")

    @property
    def digest(self) -> str:
        """What tells this cut from every other; it shows nothing of the key."""
        said = json.dumps(["colonnade cut", self.key.hex(), self.share, self.rules])
        return hashlib.sha256(said.encode()).hexdigest()

    def part(self, name: PartName) -> Part:
        return Part(self.digest, name)

    def held_out(self, ids: Iterable[str]) -> NDArray[np.bool_]:
        """Who is held out: those whose keyed hash, as a fraction of 2⁶⁴, is below the share."""
        numbers = keyed_digests(self.key, ids, person=b"colonnade cut")
        return numbers < np.uint64(min(int(self.share * 2.0**64), 2**64 - 1))

    def to_data(self) -> dict[str, Any]:
        return {"key": self.key.hex(), "share": self.share, "rules": self.rules}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> HoldoutSplit:
        return cls(bytes.fromhex(data["key"]), data["share"], data["rules"])


def counted_part(part: Part | None, split: str, unit: str) -> str:
    """In which part of a data set cut so a release counts for a unit; empty where it counts in every part.

    It does if it was over the whole data set, if the data set was cut otherwise for it, and for whole columns, of which
    every part has some.
    """
    if part is None or part.cut != split or isinstance(parse_unit(unit), ColumnsOf):
        return ""
    return part.name


@dataclass(frozen=True)
class LedgerLine:
    """What one release is to one observer, for one unit of protection.

    The names are those of `colonnade.privacy.observers` in their one spelling: two spellings of one observer would be
    two totals, each of them too small.
    """

    observer: str
    unit: str
    event: Event

    def __post_init__(self) -> None:
        observer, unit = named_observer(self.observer), parse_unit(self.unit)
        if self.observer != observer.name:
            raise ValueError(f"the observer {self.observer!r} is written {observer.name!r}")
        if self.unit != unit.name:
            raise ValueError(f"the unit {self.unit!r} is written {unit.name!r}")
        if not isinstance(self.event, Event):
            raise TypeError(f"a line has an event, not {type(self.event).__name__}")
        # A sample that this observer knows hides nothing from it, and is not charged as if it did.
        check_claim(self.event, observer=observer, unit=unit)


@dataclass(frozen=True)
class CoalitionBound:
    """What a release is, at most, to any coalition of up to so many owners with no more shares than the threshold.

    It is about what the owners outside the coalition hold of one record, replaced. It is not an account of its own: a
    ledger keeps accounts for coalitions by name, and finds here what such an account lost.
    """

    owners: int
    event: Event

    def __post_init__(self) -> None:
        if type(self.owners) is not int or self.owners < 2:
            raise ValueError(f"a coalition has two owners or more; found {self.owners!r}")
        if not isinstance(self.event, Event):
            raise TypeError(f"a bound has an event, not {type(self.event).__name__}")


@dataclass(frozen=True)
class Release:
    """What is about to leave, to whom, and what that is to each observer.

    `id` names one opening of one draw of noise. A ledger charges an id once, so that the owner who deals
    columns and the computing party who opens shares may both ask; hence a run that starts again, and so draws
    again, must use a fresh id. `lines` are those that concern the charging party's own data; a computing party
    without columns has none. `reproducible` says that the noise came from a seed, which protects nobody. `exact` is of
    how many people something leaves as it is, without noise: no ε covers that, and totals say so beside it.

    `owners` are those whose columns it is about, and know their own noise; `noise_from` are those who know a part of
    the noise though no column is theirs. `shown_to` are those who receive what is not published, `share_holders` keep
    shares, of which `threshold` show nothing, and `coalitions` is what so many colluding dealers learn. `published`
    says whether everybody may read something of it. The server is "server" in all of these, and `server` is what it is
    called otherwise. A ledger needs these for accounts that no line names (docs/proofs/ledger.md). `part` is
    the part of its data set's people that it is about, None for all of them. Releases of format 1 do not say who took
    part: `owners` is None, and what they published has a line for the reader.
    """

    id: str
    run: str
    plan: str
    what: str
    receiver: str
    lines: tuple[LedgerLine, ...]
    reproducible: bool
    exact: int = 0
    owners: tuple[str, ...] | None = None
    shown_to: tuple[str, ...] = ()
    share_holders: tuple[str, ...] = ()
    threshold: int = 0
    coalitions: tuple[CoalitionBound, ...] = ()
    published: bool = True
    server: str = ""
    noise_from: tuple[str, ...] = ()
    part: Part | None = None

    def __post_init__(self) -> None:
        for name in _TEXTS:
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise ValueError(f"a release has a {name}: text that is not empty")
        if not isinstance(self.lines, tuple) or not all(isinstance(line, LedgerLine) for line in self.lines):
            raise ValueError("the lines of a release are a tuple of Line")
        if not isinstance(self.reproducible, bool):
            raise ValueError("a release says whether its noise is reproducible: True or False")
        if type(self.exact) is not int or self.exact < 0:
            raise ValueError("a release says of how many people something leaves exactly: 0 or more")
        named = self.shown_to or self.share_holders or self.threshold or self.coalitions or self.noise_from
        if self.owners is None and named:
            raise ValueError(
                "a release that names share holders, receivers, dealers or coalitions says whose columns it is about"
            )
        if type(self.threshold) is not int or self.threshold < 0:
            raise ValueError("the threshold of a release is a number of shares: 0 or more")
        if not isinstance(self.published, bool):
            raise ValueError("a release says whether it is published: True or False")
        if self.part is not None and not isinstance(self.part, Part):
            raise ValueError("the part of a release is a Part")

    @property
    def is_read(self) -> bool:
        """Whether those who took no part get to see anything."""
        if self.owners is None:
            return any(line.observer == _READER for line in self.lines)
        return self.published

    def to_data(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in _TEXTS},
            "lines": [
                {"observer": line.observer, "unit": line.unit, "event": event_to_data(line.event)}
                for line in self.lines
            ],
            "reproducible": self.reproducible,
            **({"exact": self.exact} if self.exact else {}),
            # As it was written, so that an entry of format 1 is the same text when it is read and written again.
            **({} if self.owners is None else self._roles()),
            **({} if self.part is None else {"part": self.part.to_data()}),
        }

    def _roles(self) -> dict[str, Any]:
        return {
            **{name: list(getattr(self, name) or ()) for name in _GROUPS},
            "threshold": self.threshold,
            "coalitions": [
                {"owners": bound.owners, "event": event_to_data(bound.event)} for bound in self.coalitions
            ],
            "published": self.published,
            "server": self.server,
            # As before format 3 where owners alone deal noise, so that its entries stay the same text.
            **({"noise_from": list(self.noise_from)} if self.noise_from else {}),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Release:
        lines = (
            LedgerLine(line["observer"], line["unit"], event_from_data(line["event"]))
            for line in data["lines"]
        )
        roles: dict[str, Any] = {}
        if "owners" in data:
            coalitions = (
                CoalitionBound(item["owners"], event_from_data(item["event"])) for item in data["coalitions"]
            )
            roles = {
                **{name: tuple(map(str, data[name])) for name in _GROUPS},
                "threshold": data["threshold"],
                "coalitions": tuple(coalitions),
                "published": data["published"],
                "server": str(data["server"]),
                "noise_from": tuple(map(str, data.get("noise_from", ()))),
            }
        return cls(
            **{name: data[name] for name in _TEXTS},
            lines=tuple(lines),
            reproducible=data["reproducible"],
            exact=data.get("exact", 0),
            part=Part.from_data(data["part"]) if "part" in data else None,
            **roles,
        )


@dataclass(frozen=True)
class Receipt:
    """A ledger's head after an entry: whoever keeps it can tell if that entry is later changed or gone.

    It shows the number of entries and a digest, and nothing of what they say. `origin` is the hash of the first entry:
    it tells a ledger that was cut off from one that was begun anew.
    """

    party: str
    entry: int
    head: str
    origin: str = ""

    def __post_init__(self) -> None:
        # A receipt comes from a peer's bytes, so its shape is checked here, once.
        if not isinstance(self.party, str) or not self.party:
            raise ValueError("a receipt names a party")
        if not isinstance(self.entry, int) or isinstance(self.entry, bool) or self.entry < 1:
            raise ValueError(f"a receipt names an entry, counted from 1; found {self.entry!r}")
        if not isinstance(self.head, str) or not DIGEST.fullmatch(self.head):
            raise ValueError("a receipt's head is a SHA-256 digest in 64 hexadecimal digits")
        if not isinstance(self.origin, str) or (self.origin and not DIGEST.fullmatch(self.origin)):
            raise ValueError("a receipt's origin is a SHA-256 digest in 64 hexadecimal digits, or empty")

    def contradicts(self, other: Receipt) -> bool:
        """Whether both are for one entry of one ledger and cannot both be true."""
        same = self.same_ledger(other) and self.entry == other.entry
        return same and self.origin != "" and self.head != other.head

    def same_ledger(self, other: Receipt) -> bool:
        """Whether both are of one ledger, as far as they say."""
        return (self.party, self.origin) == (other.party, other.origin)

    def to_data(self) -> dict[str, Any]:
        return {"party": self.party, "entry": self.entry, "head": self.head, "origin": self.origin}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Receipt:
        return cls(party=data["party"], entry=data["entry"], head=data["head"], origin=data["origin"])
