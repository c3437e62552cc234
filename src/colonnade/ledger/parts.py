"""Parts of a data set's people: a keyed hash of the id says who is held out, and nothing about anybody's values.

Somebody is in one part only, so what is released about one part and what is released about the other do not add up for
anybody (docs/proofs/parts.md). A data set is cut once: under one key, at one share, by one set of rules for ids.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.keyed_digests import keyed_digests
from colonnade.privacy.neighbours import ColumnsOf, parse_unit

KEY_BYTES = 32
PartName = Literal["training", "held-out"]
PARTS: tuple[PartName, ...] = ("training", "held-out")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Part:
    """The part of its data set that a release is about; `cut` tells one way of cutting it from every other."""

    cut: str
    name: PartName

    def __post_init__(self) -> None:
        if not isinstance(self.cut, str) or not _DIGEST.fullmatch(self.cut):
            raise ValueError("a cut is named by a SHA-256 digest in 64 hexadecimal digits")
        if self.name not in PARTS:
            raise ValueError(f"a part is one of {', '.join(PARTS)}; found {self.name!r}")

    def to_data(self) -> dict[str, str]:
        return {"cut": self.cut, "name": self.name}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Part:
        """The part that `to_data` wrote."""
        return cls(data["cut"], data["name"])


@dataclass(frozen=True)
class Cut:
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
    def from_data(cls, data: Mapping[str, Any]) -> Cut:
        """The cut that `to_data` wrote."""
        return cls(bytes.fromhex(data["key"]), data["share"], data["rules"])


def counted_part(part: Part | None, cut: str, unit: str) -> str:
    """In which part of a data set cut so a release counts for a unit; empty where it counts in every part.

    It does if it was over the whole data set, if the data set was cut otherwise for it, and for whole columns, of which
    every part has some.
    """
    if part is None or part.cut != cut or isinstance(parse_unit(unit), ColumnsOf):
        return ""
    return part.name
