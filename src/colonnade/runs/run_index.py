"""The runs of a folder or a kit, kept in mind between looks, and how far one is that goes on.

A look costs what has changed: a folder's own time says whether something was put into it or taken out, so thousands
of runs that ended are not looked at again. A run's record is read when the run is shown.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from os import scandir, stat_result
from pathlib import Path
from typing import Any

from colonnade.errors import FileMissing
from colonnade.federation.files import LOG, progress_of, waits_for
from colonnade.report.plain import STEPS, duration_text, size_text
from colonnade.runs import reading
from colonnade.runs.drafts import FAILED, being_written, name_of
from colonnade.runs.reading import GOES_ON, UNFINISHED, RunFolder

GRAIN_NS = 2_000_000_000
"""A change within this time of the last look may have the same time as the look."""
RUNNING, WAITS = "running", "waits for approval"
_STILL_SECONDS = 120.0


@dataclass(frozen=True)
class Listed:
    """A run that was found: when it ended or was last seen to go on, and how, as far as its folder tells."""

    name: str
    seen: float
    state: str

    @property
    def open(self) -> bool:
        return self.state in (RUNNING, WAITS, GOES_ON, UNFINISHED)


class RunIndex:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._ended: dict[str, Listed] = {}
        self._sorted: tuple[Listed, ...] | None = None
        # Folders without a record, and drafts of folders, as of the last look at the whole.
        self._others: tuple[str, ...] = ()
        self._drafts: tuple[str, ...] = ()
        self._seen: tuple[int, int] | None = None
        self._lines: dict[str, tuple[tuple[int, int], dict[str, Any]]] = {}

    def listed(self) -> tuple[Listed, ...]:
        with self._lock:
            going = self._look()
            if self._sorted is None:
                self._sorted = tuple(sorted(self._ended.values(), key=lambda one: (-one.seen, one.name)))
            return (*sorted(going, key=lambda one: (-one.seen, one.name)), *self._sorted)

    def find(self, name: str) -> Listed:
        """The run of this name; one that is not listed is not a run, whatever the name leads to."""
        with self._lock:
            going = self._look()
            listed = self._ended.get(name) or next((one for one in going if one.name == name), None)
        if listed is None:
            raise FileMissing(
                f"there is no run {name!r} in {self.folder}. It may have been removed since the page was made."
            )
        return listed

    def read(self, name: str) -> RunFolder:
        """The run as its record has it, or what is known of one that has none."""
        listed = self.find(name)
        if listed.open:
            return RunFolder(self.folder / name, {"state": listed.state})
        try:
            return reading.read_or_damaged(self.folder / name)
        except StopIteration:
            with self._lock:
                self._ended.pop(name, None)
                self._sorted = None
            raise FileMissing(
                f"the run {name!r} was removed from {self.folder} since the page was made."
            ) from None

    def line(self, listed: Listed) -> dict[str, Any]:
        """A run as a line of a list, read again only where its record has changed."""
        record = None if listed.open else _record(self.folder / listed.name)
        stamp = None if record is None else (record[1].st_ctime_ns, record[1].st_size)
        kept = self._lines.get(listed.name)
        if kept is not None and kept[0] == stamp:
            return kept[1]
        try:
            line = reading.run_line(self.read(listed.name))
        except FileMissing:
            blank = dict.fromkeys(("name", "task", "epsilon", "rows"))
            line = {**blank, "score": "", "date": "", "state": "removed"}
        line |= {"folder": listed.name, "open": listed.open}
        if listed.open:
            line["state"] = listed.state
        elif stamp is not None:
            self._lines[listed.name] = (stamp, line)
        return line

    def _look(self) -> list[Listed]:
        try:
            changed = self.folder.stat().st_mtime_ns
        except OSError:
            self._ended, self._others, self._drafts, self._seen, self._sorted = {}, (), (), None, None
            return []
        if self._seen is None or self._seen[0] != changed or changed >= self._seen[1] - GRAIN_NS:
            self._seen = (changed, time.time_ns())
            self._list_all()
        return self._open()

    def _list_all(self) -> None:
        with scandir(self.folder) as entries:
            folders = sorted(entry.name for entry in entries if entry.is_dir())
        names = {name for name in folders if not name.startswith(".")}
        self._drafts = tuple(name for name in folders if name.startswith(".") and name.endswith(".draft"))
        if self._ended.keys() - names:
            self._ended = {name: one for name, one in self._ended.items() if name in names}
            self._lines = {name: kept for name, kept in self._lines.items() if name in names}
            self._sorted = None
        self._others = tuple(sorted(names - self._ended.keys()))

    def _open(self) -> list[Listed]:
        """The runs without a record; those that have got one since the last look have ended."""
        for name in self._others:
            record = _record(self.folder / name)
            if record is not None:
                state = "failed" if record[0] == FAILED else "ended"
                self._ended[name], self._sorted = Listed(name, record[1].st_mtime, state), None
        self._others = tuple(name for name in self._others if name not in self._ended)
        going = [
            _listed(run)
            for name in self._others
            if (run := reading.not_ended(self.folder / name)) is not None
        ]
        for draft in (self.folder / name for name in self._drafts):
            name = name_of(draft).name
            if being_written(draft):
                going.append(Listed(name, time.time(), RUNNING))
            elif reading.unfinished(draft) is not None:
                going.append(Listed(name, 0.0, UNFINISHED))
        return going


def _listed(run: RunFolder) -> Listed:
    try:
        seen = (run.path / LOG).stat().st_mtime
    except OSError:
        seen = 0.0
    # Also one that has opened its release runs: it may be evaluated now.
    running = RUNNING if time.time() - seen < _STILL_SECONDS else run.state
    return Listed(run.path.name, seen, WAITS if waits_for(run.path) else running)


def _record(folder: Path) -> tuple[str, stat_result] | None:
    for name in reading.RECORDS:
        try:
            return name, (folder / name).stat()
        except OSError:
            continue
    return None


@dataclass
class Progress:
    """How far a run is that goes on: its member's own log, as far as it was read."""

    folder: Path
    steps: int = 0
    sent: int = 0
    received: int = 0
    seconds: float = 0.0
    last: str = "none yet"
    facts: dict[str, Any] = field(default_factory=dict)
    _offset: int = 0

    def read(self) -> Progress:
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
            self.last = name
        self.facts = progress_of(self.folder)
        return self

    @property
    def run(self) -> str:
        """What the run is called in ledgers; empty while that is not agreed on."""
        return str(self.facts.get("run", ""))

    def words(self) -> dict[str, str]:
        return {
            "steps": str(self.steps),
            "step": self.last,
            "sent": size_text(self.sent),
            "received": size_text(self.received),
            "time": duration_text(self.seconds),
            "waits": " and ".join(map(str, self.facts.get("waits", ()))) or "nobody",
            "left": _left_text(self.facts, time.time()),
        }


def _left_text(facts: dict[str, Any], now: float) -> str:
    try:
        step, done, total = str(facts["step"]), int(facts["done"]), int(facts["total"])
        spent, since = float(facts["time"]) - float(facts["began"]), now - float(facts["time"])
    except (KeyError, ValueError, TypeError):
        return "not known yet"
    named = f"{STEPS.get(step, step)}, {done:,} of {total:,}"
    if not 0 < done < total:
        return named
    left = max(0.0, spent * (total - done) / done - max(0.0, since))
    return f"about {duration_text(left)} of {named}"
