"""How far a run is that goes on: its member's own log, read as it grows, and told to a page as it does."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from colonnade.cli.screen import STEPS
from colonnade.errors import ColonnadeError
from colonnade.federation.own_files import LOG, standing_of
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
    standing: dict[str, Any] = field(default_factory=dict)
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
        self.standing = standing_of(self.folder)
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
            "waits": " and ".join(map(str, self.standing.get("waits", ()))) or "nobody",
            "left": left_text(self.standing, time.time()),
        }

    @property
    def run(self) -> str:
        """What the run is called in ledgers; empty while that is not agreed on."""
        return str(self.standing.get("run", ""))


def left_text(standing: dict[str, Any], now: float) -> str:
    """How long the step at hand may still take, as what is done of it took, in words.

    >>> left_text({"step": "steps", "done": 25, "total": 100, "began": 100.0, "time": 110.0}, 112.0)
    'about 28 s of steps, 25 of 100'
    >>> left_text({}, 0.0)
    'not known yet'
    """
    try:
        step, done, total = str(standing["step"]), int(standing["done"]), int(standing["total"])
        spent, since = float(standing["time"]) - float(standing["began"]), now - float(standing["time"])
    except (KeyError, ValueError, TypeError):
        return "not known yet"
    named = f"{STEPS.get(step, step)}, {done:,} of {total:,}"
    if not 0 < done < total:
        return f"{named}"
    left = max(0.0, spent * (total - done) / done - max(0.0, since))
    return f"about {duration_text(left)} of {named}"


def read_progress(folder: Path) -> Progress:
    """How far a run is now."""
    return Progress(folder).take_in()


async def told(look: Callable[[], dict[str, Any] | None]) -> AsyncIterator[str]:
    """What `look` finds, as server-sent events: whenever it has changed, until it finds nothing more.

    A comment now and then keeps the connection, and shows when nobody is at its other end any more. A look that fails,
    because another process holds a file or is about to change it, is made again.
    """
    before: dict[str, Any] = {}
    silent = 0.0
    while True:
        try:
            found = await asyncio.to_thread(look)
        except (ColonnadeError, OSError):
            found = before or {}
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
