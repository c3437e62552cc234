"""Whether the server hears a party, and whether another process with the same kit does: what a kit notes of itself.

Two machines that hold one kit would be one member twice. Each says with every heartbeat which copy of the kit it is;
the server keeps the one that it knew first (`colonnade.runtime.doorkeeper`) and tells both. What a party is told lies
in its kit, for `party start`, `party health` and whoever looks.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PRESENCE = "presence.json"
#: Whoever was not heard for so long does not keep another process with its kit away.
GONE_SECONDS = 25.0
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_MACHINE = Path("/etc/machine-id")
_MOST_OTHERS = 20


def copy_of(kit: Path) -> str:
    """Which copy of a kit this is: the same after a restart, another in another folder or on another machine."""
    traits = [str(kit), socket.gethostname()]
    for path in (_BOOT, _MACHINE):
        with suppress(OSError):
            traits.append(path.read_text(encoding="ascii").strip())
    return hashlib.sha256("\0".join(traits).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Presence:
    """What a party's process was told: when the server last heard it, why it is refused, when another copy was."""

    copy: str
    since: str
    heard: str = ""
    refused: str = ""
    others: tuple[str, ...] = field(default=())

    def seconds_since_heard(self) -> float | None:
        """How long ago the server last said that it heard this party; None if it never did."""
        if not self.heard:
            return None
        now = datetime.datetime.now(datetime.UTC)
        return max(0.0, (now - datetime.datetime.fromisoformat(self.heard)).total_seconds())

    def told(self, notice: Mapping[str, Any]) -> Presence:
        """What is known after a notice of the server."""
        if notice.get("heard") == self.copy:
            return Presence(self.copy, self.since, now(), "", self.others)
        if notice.get("refused") == self.copy:
            return Presence(self.copy, self.since, self.heard, str(notice.get("why", "")), self.others)
        if "refused" in notice:
            others = tuple(dict.fromkeys((*self.others, str(notice.get("time", "")))))[-_MOST_OTHERS:]
            return Presence(self.copy, self.since, self.heard, self.refused, others)
        return self

    def save(self, kit: Path) -> None:
        """Write it into a kit, for its owner alone, in one step."""
        facts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        draft = kit / f".{PRESENCE}.{os.getpid()}.draft"
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(json.dumps(facts) + "\n")
        draft.replace(kit / PRESENCE)

    @classmethod
    def load(cls, kit: Path) -> Presence | None:
        """What a kit's process noted last; None if it noted nothing yet."""
        try:
            fields = json.loads((kit / PRESENCE).read_text(encoding="utf-8"))
            return cls(**{**fields, "others": tuple(fields["others"])})
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None


@dataclass
class Roll:
    """Who is there, at the server: by party the copy of its kit that was heard, since when and when last."""

    known: dict[str, tuple[str, float]] = field(default_factory=dict)

    def arrive(self, party: str, copy: str, *, at: float) -> str | None:
        """Take a party in; returns the copy of its kit that is there already, if another one is."""
        other = self.other(party, copy, at=at)
        if other is None:
            self.known[party] = (copy, at)
        return other

    def other(self, party: str, copy: str, *, at: float) -> str | None:
        """The other copy of a party's kit that is there, if one is."""
        known = self.known.get(party)
        there = known is not None and known[0] != copy and at - known[1] < GONE_SECONDS
        return known[0] if known is not None and there else None

    def hear(self, party: str, copy: str, *, at: float) -> bool:
        """Note a heartbeat; returns whether it is from the copy of the kit that is known."""
        known = self.known.setdefault(party, (copy, at))
        if known[0] != copy:
            return False
        self.known[party] = (copy, at)
        return True

    def leave(self, party: str, copy: str) -> None:
        if self.known.get(party, ("", 0.0))[0] == copy:
            del self.known[party]


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
