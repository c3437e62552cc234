"""That somebody said yes or no to a job before it began: who, to what, at what cost, signed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from colonnade.ledger.chain import canonical

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Decision:
    """What one person decided about one job: `request` is a digest of all that the person was shown.

    `costs` are the ε of the job alone, by observer and unit, as they were shown, rounded up. `signature` says who
    vouches for it, by a scheme, a key and a value; whoever reads the entry checks it against `statement`. Where the
    scheme is "proposal" or "confirmation" an administrator submitted the job, and signed `request`.
    """

    job: str
    request: str
    what: str
    costs: tuple[tuple[str, str, float], ...]
    by: str
    approved: bool
    party: str
    because: str = ""
    signature: tuple[tuple[str, str], ...] = ()
    time: str = ""

    def __post_init__(self) -> None:
        if not self.by or not self.job or not self.party:
            raise ValueError("a decision names a party, a job and a person")
        if not _DIGEST.fullmatch(self.request):
            raise ValueError("a decision names what was asked by a SHA-256 digest in 64 hexadecimal digits")
        if not isinstance(self.approved, bool):
            raise ValueError("a decision is yes or no")

    @property
    def statement(self) -> bytes:
        """What is signed: everything but the signature and the time, which is the entry's."""
        return canonical(self._said()).encode()

    def _said(self) -> dict[str, Any]:
        return {
            "party": self.party,
            "job": self.job,
            "request": self.request,
            "what": self.what,
            "costs": [list(cost) for cost in self.costs],
            "by": self.by,
            "approved": self.approved,
            "because": self.because,
        }

    def to_data(self) -> dict[str, Any]:
        """The body of its entry, whose time is the entry's."""
        return {**self._said(), "signature": dict(self.signature)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any], *, time: str = "") -> Decision:
        """The decision that `to_data` wrote into an entry of this time."""
        return cls(
            job=data["job"],
            request=data["request"],
            what=data["what"],
            costs=tuple((str(who), str(unit), float(epsilon)) for who, unit, epsilon in data["costs"]),
            by=data["by"],
            approved=data["approved"],
            party=data["party"],
            because=data["because"],
            signature=tuple(sorted((str(key), str(value)) for key, value in data["signature"].items())),
            time=time,
        )
