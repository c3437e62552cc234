"""How far a run is that goes on: its member's own log, read as it grows, and told to a page as it does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from colonnade.federation.own_files import LOG, waits_for
from colonnade.report.numbers import duration_text, size_text

GLANCE_SECONDS = 0.5
BEAT_SECONDS = 15.0
SHOWN_STEPS = 12


@dataclass
class Progress:
    """The log of a run as far as it was read.

    >>> Progress(Path("no such run")).take_in().words["steps"]
    '0'
    """

    folder: Path
    steps: int = 0
    sent: int = 0
    received: int = 0
    seconds: float = 0.0
    last: list[str] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)
    _offset: int = 0

    def take_in(self) -> Progress:
        """Read what was added; a last line that is being written is read the next time."""
        try:
            with (self.folder / LOG).open("rb") as log:
                log.seek(self._offset)
                whole, newline, _ = log.read().rpartition(b"\n")
        except OSError:
            return self
        self._offset += len(whole) + len(newline)
        for line in whole.splitlines():
            try:
                step = json.loads(line)
                self.steps += 1
                self.sent += int(step["sent"])
                self.received += int(step["received"])
                self.seconds += float(step["seconds"])
                self.last = [*self.last, str(step["step"])][-SHOWN_STEPS:]
            except (ValueError, KeyError, TypeError):
                continue
        try:
            self.waits = waits_for(self.folder)
        except (OSError, ValueError, KeyError, TypeError):
            self.waits = []
        return self

    @property
    def words(self) -> dict[str, str]:
        """For a page, by what each is called there."""
        return {
            "steps": str(self.steps),
            "step": self.last[-1] if self.last else "none yet",
            "sent": size_text(self.sent),
            "received": size_text(self.received),
            "time": duration_text(self.seconds),
            "waits": " and ".join(self.waits) or "nobody",
        }


def read_progress(folder: Path) -> Progress:
    """How far a run is now."""
    return Progress(folder).take_in()


async def told(look: Callable[[], dict[str, Any] | None]) -> AsyncIterator[str]:
    """What `look` finds, as server-sent events: whenever it has changed, until it finds nothing more.

    A comment now and then keeps the connection, and shows when nobody is at its other end any more.
    """
    before: dict[str, Any] | None = None
    silent = 0.0
    while True:
        found = await asyncio.to_thread(look)
        if found is None:
            yield "event: ended\ndata: {}\n\n"
            return
        if found != before:
            before, silent = found, 0.0
            yield f"data: {json.dumps(found, ensure_ascii=False)}\n\n"
        elif silent >= BEAT_SECONDS:
            silent = 0.0
            yield ": still here\n\n"
        await asyncio.sleep(GLANCE_SECONDS)
        silent += GLANCE_SECONDS
