"""The runs of a folder or a kit, kept in mind between pages: a look costs what has changed, not what is there.

A folder's own time changes when something is put into it or taken out, so thousands of runs that ended are not looked
at again. Those that go on are, each time. What a run's record says is read when the run is shown.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from os import scandir
from pathlib import Path
from typing import Any

from colonnade.runs.failures import FAILED
from colonnade.runs.folders import being_written
from colonnade.cli.runs.listing import read_or_damaged, run_line
from colonnade.runs.run_folders import (
    FACTS,
    GOES_ON,
    OUTCOME,
    UNFINISHED,
    RunFolder,
    not_ended,
    unfinished,
)
from colonnade.errors import FileMissing
from colonnade.federation.own_files import LOG, waits_for

_RECORDS = (FACTS, FAILED, OUTCOME)
# A change within this time of the last look may have the same time as the look.
_GRAIN_NS = 2_000_000_000
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
        """Whether it has not ended yet, as far as is known."""
        return self.state in (RUNNING, WAITS, GOES_ON, UNFINISHED)


class RunIndex:
    """What lies in one folder of runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._ended: dict[str, Listed] = {}
        self._going: tuple[str, ...] = ()
        self._drafts: tuple[str, ...] = ()
        self._seen: tuple[int, int] | None = None
        self._sorted: tuple[Listed, ...] | None = None
        self._lines: dict[str, tuple[tuple[int, int], dict[str, Any]]] = {}

    def listed(self) -> tuple[Listed, ...]:
        """All runs: those that go on, then those that ended, the latest first."""
        with self._lock:
            self._look()
            going = self._open()
            if self._sorted is None:
                self._sorted = tuple(sorted(self._ended.values(), key=lambda one: (-one.seen, one.name)))
            return (*sorted(going, key=lambda one: (-one.seen, one.name)), *self._sorted)

    def find(self, name: str) -> Listed:
        """The run of this name; one that is not listed is no run, whatever the name leads to."""
        with self._lock:
            self._look()
            going = self._open()
            listed = self._ended.get(name) or next((one for one in going if one.name == name), None)
        if listed is None:
            raise FileMissing(
                f"there is no run {name!r} in {self.folder}. It may have been removed since the page was made."
            )
        return listed

    def others(self) -> list[str]:
        """Folders that hold no run: comparisons and tables of invented people among them."""
        with self._lock:
            self._look()
            going = {one.name for one in self._open()}
            return [name for name in self._going if name not in going]

    def read(self, name: str) -> RunFolder:
        """The run as its record has it, or what is known of one that has none."""
        listed = self.find(name)
        if listed.open:
            return RunFolder(self.folder / name, {"state": listed.state})
        try:
            return read_or_damaged(self.folder / name)
        except StopIteration:
            with self._lock:
                self._ended.pop(name, None)
                self._sorted = None
            raise FileMissing(
                f"the run {name!r} was removed from {self.folder} since the page was made."
            ) from None

    def line(self, listed: Listed) -> dict[str, Any]:
        """A run as a line of a list, read again only where its record has changed."""
        stamp = _stamp(self.folder / listed.name)
        if not listed.open and stamp is not None:
            kept = self._lines.get(listed.name)
            if kept is not None and kept[0] == stamp:
                return kept[1]
        try:
            line = run_line(self.read(listed.name))
        except FileMissing:
            line = {"name": None, "task": None, "epsilon": None, "rows": None, "score": "", "date": ""}
            line["state"] = "removed"
        line = {**line, "folder": listed.name, "open": listed.open}
        if listed.open:
            line["state"] = listed.state
        elif stamp is not None:
            self._lines[listed.name] = (stamp, line)
        return line

    def _look(self) -> None:
        try:
            changed = self.folder.stat().st_mtime_ns
        except OSError:
            self._ended, self._going, self._drafts, self._seen, self._sorted = {}, (), (), None, None
            return
        if self._seen is not None and self._seen[0] == changed and changed < self._seen[1] - _GRAIN_NS:
            return
        looked = time.time_ns()
        with scandir(self.folder) as entries:
            folders = [entry.name for entry in entries if entry.is_dir()]
        names = {name for name in folders if not name.startswith(".")}
        self._drafts = tuple(
            sorted(name for name in folders if name.startswith(".") and name.endswith(".draft"))
        )
        if names ^ (self._ended.keys() | set(self._going)):
            self._ended = {name: one for name, one in self._ended.items() if name in names}
            self._sorted = None
        self._going = tuple(sorted(names - self._ended.keys()))
        self._lines = {name: kept for name, kept in self._lines.items() if name in names}
        self._seen = (changed, looked)

    def _open(self) -> list[Listed]:
        """The runs without a record; those that have got one since the last look have ended."""
        going = []
        for name in self._going:
            ended = self._ending(name)
            if ended is not None:
                self._ended[name], self._sorted = ended, None
        self._going = tuple(name for name in self._going if name not in self._ended)
        for run in filter(None, (not_ended(self.folder / name) for name in self._going)):
            going.append(Listed(run.path.name, _touched(run.path), self._standing(run)))
        for draft in (self.folder / name for name in self._drafts):
            name = draft.name.removeprefix(".").removesuffix(".draft")
            if being_written(draft):
                going.append(Listed(name, time.time(), RUNNING))
            elif unfinished(draft) is not None:
                going.append(Listed(name, 0.0, UNFINISHED))
        return going

    def _ending(self, name: str) -> Listed | None:
        for record in _RECORDS:
            try:
                seen = (self.folder / name / record).stat().st_mtime
            except OSError:
                continue
            return Listed(name, seen, "failed" if record == FAILED else "ended")
        return None

    def _standing(self, run: RunFolder) -> str:
        if waits_for(run.path):
            return WAITS
        # Also one that has opened its release: it may be judged now.
        return RUNNING if time.time() - _touched(run.path) < _STILL_SECONDS else run.state


def _touched(folder: Path) -> float:
    try:
        return (folder / LOG).stat().st_mtime
    except OSError:
        return 0.0


def _stamp(folder: Path) -> tuple[int, int] | None:
    for record in _RECORDS:
        try:
            status = (folder / record).stat()
        except OSError:
            continue
        return status.st_ctime_ns, status.st_size
    return None
