"""How far a run is that goes on: its member's own log, read as it grows, and told to a page as it does."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from colonnade.cli.screen import STEPS
from colonnade.errors import ColonnadeError
from colonnade.federation.own_files import LOG, standing_of
from colonnade.report.numbers import duration_text, size_text
from colonnade.runtime.transcript import step_kind

GLANCE_SECONDS = 0.5
BEAT_SECONDS = 15.0
SHOWN_STEPS = 12
# From so much of what is expected on, what was measured tells more than the forecast.
_TELLING, _NEARLY = 0.1, 0.98


@dataclass
class Progress:
    """The log of a run as far as it was read."""

    folder: Path
    steps: int = 0
    sent: int = 0
    received: int = 0
    seconds: float = 0.0
    last: list[str] = field(default_factory=list)
    standing: dict[str, Any] = field(default_factory=dict)
    kinds: dict[str, tuple[int, float]] = field(default_factory=dict)
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
                name, sent, received = str(step["step"]), int(step["sent"]), int(step["received"])
                seconds = float(step["seconds"])
            except (ValueError, KeyError, TypeError):
                continue
            self.steps += 1
            self.sent += sent
            self.received += received
            self.seconds += seconds
            self.last = [*self.last, name][-SHOWN_STEPS:]
            size, spent = self.kinds.get(step_kind(name), (0, 0.0))
            self.kinds[step_kind(name)] = (size + sent + received, spent + seconds)
        self.standing = standing_of(self.folder)
        return self

    def words(self, expected: Expected | None = None) -> dict[str, str]:
        """For a page, by what each is called there; `expected` is what the run's plan foretold."""
        left, because = whole_left(self.kinds, expected)
        return {
            "steps": str(self.steps),
            "step": self.last[-1] if self.last else "none yet",
            "sent": size_text(self.sent),
            "received": size_text(self.received),
            "time": duration_text(self.seconds),
            "waits": " and ".join(map(str, self.standing.get("waits", ()))) or "nobody",
            "left": left,
            "because": because,
            "at": left_text(self.standing, time.time()),
        }

    @property
    def run(self) -> str:
        """What the run is called in ledgers; empty while that is not agreed on."""
        return str(self.standing.get("run", ""))


@dataclass(frozen=True)
class Expected:
    """What a forecast foretold of a member's part of a run: bytes both ways, seconds, and the kinds of its steps."""

    size: float
    seconds: float
    kinds: frozenset[str]

    @classmethod
    def of(cls, facts: Mapping[str, Any] | None, member: str) -> Expected | None:
        """What the facts of a plan say of its method; None if they say nothing that helps."""
        for one in (facts or {}).get("methods", ()):
            made = one.get("forecast")
            if one["method"] == (facts or {})["method"] and made and made["through"].get(member):
                return cls(made["through"][member], made["seconds"], frozenset(made["steps"]))
        return None


def whole_left(kinds: Mapping[str, tuple[int, float]], expected: Expected | None) -> tuple[str, str]:
    """How long the whole training may still take, in words, and by what.

    As long as little of what the forecast expects has gone and come it is the forecast's own time; then what is left
    takes as long for each byte as what was measured. What comes after training, such as judging, is not counted.
    """
    if expected is None:
        return "unknown", "no forecast of it was made here"
    known = [left for kind, left in kinds.items() if kind in expected.kinds]
    share = min(1.0, sum(size for size, _ in known) / expected.size)
    if share > _NEARLY:
        return "nearly none", "then the model is written, and judged where people are held out"
    if share < _TELLING:
        return f"about {duration_text(expected.seconds * (1 - share))}", "by the forecast"
    spent = sum(seconds for _, seconds in known)
    return f"about {duration_text(spent * (1 - share) / share)}", "as it went so far"


def left_text(standing: dict[str, Any], now: float) -> str:
    """How long the step at hand may still take, as what is done of it took, in words."""
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
    return Progress(folder).take_in()


async def told(
    look: Callable[[], dict[str, Any] | None], ending: Callable[[], bool] = lambda: False
) -> AsyncIterator[str]:
    """What `look` finds, as server-sent events: whenever it has changed, until it finds nothing more.

    A comment now and then keeps the connection, and shows when nobody is at its other end any more. A look that fails,
    because another process holds a file or is about to change it, is made again. When the board is ending nothing more
    is said, and pages ask again by themselves.
    """
    before: dict[str, Any] = {}
    silent = 0.0
    while not ending():
        try:
            facts = await asyncio.to_thread(look)
        except (ColonnadeError, OSError):
            facts = before or {}
        if facts is None:
            yield "event: ended\ndata: {}\n\n"
            return
        if facts != before:
            before, silent = facts, 0.0
            yield f"data: {json.dumps(facts, ensure_ascii=False)}\n\n"
        elif silent >= BEAT_SECONDS:
            silent = 0.0
            yield ": still here\n\n"
        await asyncio.sleep(GLANCE_SECONDS)
        silent += GLANCE_SECONDS
