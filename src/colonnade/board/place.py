"""What a board looks at: a party's kit, or a folder of jobs and runs without a federation.

Everything here reads; nothing is charged by looking. A ledger is verified again whenever its file has changed.
"""

from __future__ import annotations

import threading
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colonnade.board.run_index import RunIndex
from colonnade.cli.ledger.commands import opened, verified
from colonnade.errors import ColonnadeError, FileMissing, InputError, KitError
from colonnade.federation.approval import REQUESTS, Request, list_requests
from colonnade.federation.party_file import PartyFile
from colonnade.runtime.kit import Kit

if TYPE_CHECKING:
    from colonnade.ledger.chain import Entry

RUNS = "runs"
_GRAIN_NS = 2_000_000_000


@dataclass(frozen=True)
class LedgerView:
    """A ledger as it was when its file was last read: its facts, or what is wrong with it."""

    path: Path
    party: str
    facts: dict[str, Any]
    entries: tuple[Entry, ...] = ()
    error: str = ""

    @property
    def key(self) -> str:
        """How pages name it in an address."""
        return self.path.stem


@dataclass(frozen=True)
class OwnFile:
    """A party's own file that lies here, or what is wrong with it."""

    path: Path
    file: PartyFile | None
    error: str = ""


class Place:
    """A kit or a folder, with what is kept in mind of it between pages."""

    def __init__(self, folder: Path, *, runs: Path | None = None) -> None:
        self.folder = folder.resolve()
        if not self.folder.is_dir():
            raise FileMissing(f"{folder} is no folder. Name a party's kit, or a folder of jobs and runs.")
        self.kit = Kit.load(self.folder) if (self.folder / "startup").is_dir() else None
        if self.kit is not None and self.kit.kind != "party":
            raise KitError(
                f"{folder} is the {self.kit.kind}'s kit, and a board is a party's. Name a party's kit, or a folder of "
                "jobs and runs."
            )
        if runs is not None and not runs.is_dir():
            raise InputError(f"--runs: {runs} is no folder. Name the one that runs were written into.")
        within = self.folder / RUNS
        place = self.kit.runs if self.kit else within if within.is_dir() else self.folder
        self.runs = RunIndex((runs or place).resolve())
        self._lock = threading.Lock()
        self._ledgers: dict[Path, tuple[object, LedgerView]] = {}
        self._asked: tuple[int, bool] | None = None

    @property
    def name(self) -> str:
        """Whose board it is: the organisation of the kit, or the folder."""
        return self.folder.name if self.kit is None else self.kit.identity().name

    def own_files(self) -> list[OwnFile]:
        """The party files: the one that the kit was told of, or all that lie in the folder."""
        if self.kit is not None:
            known = self.kit.site().get("party")
            return [] if known is None else [_own(Path(known))]
        return [_own(path) for path in self._tables("party", "ledger")]

    def job_files(self) -> list[Path]:
        """The job files in the folder."""
        return [] if self.kit is not None else self._tables("task", "parties")

    def ledgers(self) -> list[LedgerView]:
        """Every ledger here that there is, verified, each against the receipts that the others hold."""
        paths = {one.file.ledger: one.file.party for one in self.own_files() if one.file is not None}
        return [self._ledger(path, party, list(paths)) for path, party in paths.items() if path.exists()]

    def requests(self, *, ended: bool = False) -> tuple[Request, ...]:
        """The jobs that wait for somebody here, or also those that no longer do; none without a kit."""
        if self.kit is None or "policy" not in self.kit.site():
            return ()
        if ended:
            return list_requests(self.kit, ended=True)
        try:
            changed = (self.kit.path / REQUESTS).stat().st_mtime_ns
        except OSError:
            return ()
        # Every request that is written or decided changes its folder: without a change nothing new waits.
        if self._asked == (changed, False):
            return ()
        found = list_requests(self.kit)
        self._asked = (changed, bool(found)) if changed < time.time_ns() - _GRAIN_NS else None
        return found

    def _ledger(self, path: Path, party: str, all_paths: list[Path]) -> LedgerView:
        peers = [other for other in all_paths if other != path and other.exists()]
        stamp = tuple(map(_stamp, (path, *peers)))
        with self._lock:
            kept = self._ledgers.get(path)
        if kept is not None and kept[0] == stamp:
            return kept[1]
        view = _read_ledger(path, party, peers)
        if not view.error:
            with self._lock:
                self._ledgers[path] = (stamp, view)
        return view

    def _tables(self, *keys: str) -> list[Path]:
        found = []
        for path in sorted(self.folder.glob("*.toml")):
            try:
                data = tomllib.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError, RecursionError):
                continue
            if all(key in data for key in keys):
                found.append(path)
        return found


def _own(path: Path) -> OwnFile:
    try:
        return OwnFile(path, PartyFile.load(path))
    except (ColonnadeError, OSError) as error:
        return OwnFile(path, None, str(error))


def _read_ledger(path: Path, party: str, peers: list[Path]) -> LedgerView:
    witnesses = []
    for peer in peers:
        try:
            witnesses.append(opened(peer))
        except ColonnadeError:
            # What is wrong with it is told of it.
            continue
    try:
        facts, entries, _ = verified(path, [one for one in witnesses if one.party != party], None)
    except (ColonnadeError, OSError) as error:
        return LedgerView(path, party, {}, error=str(error))
    return LedgerView(path, party, facts, entries)


def _stamp(path: Path) -> tuple[int, ...]:
    """What changes with every change to a ledger; the time of the change itself cannot be set back."""
    found = []
    for part in (path, path.with_name(f"{path.name}-wal")):
        try:
            facts = part.stat()
        except OSError:
            continue
        if facts.st_size:
            found += [facts.st_ctime_ns, facts.st_size, facts.st_ino]
    return tuple(found)
