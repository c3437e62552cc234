"""What a board looks at: a party's kit, or a folder of jobs and runs without a federation.

Everything here reads; nothing is charged by looking. A ledger is verified again whenever its file has changed.
"""

from __future__ import annotations

import threading
import time
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from colonnade.errors import ColonnadeError, FileMissing, InputError, KitError
from colonnade.federation.party_file import PartyFile
from colonnade.ledger.export import Exported, load_export
from colonnade.report.ledgers import opened, verified, witness_of
from colonnade.report.record import LedgerRecord
from colonnade.runs.run_index import GRAIN_NS, RunIndex
from colonnade.sites.approval import REQUESTS, Request, list_requests
from colonnade.sites.kit import Kit

if TYPE_CHECKING:
    from colonnade.ledger.entry_store import Entry

RUNS = "runs"
PEERS = "peers"
"""Where exports of peers' ledgers are put, to compare receipts with them."""
PATIENCE_SECONDS = 2.0
"""How long a page waits for a ledger that another process holds, before it says so."""


@dataclass(frozen=True)
class Witness:
    """A peer's ledger or export here: how many receipts it and we hold of each other, or why it cannot be asked."""

    party: str
    path: Path
    receipts: int = 0
    receipts_here: int = 0
    error: str = ""


_UNREAD = LedgerRecord(party="", head="", totals=[], exact=[], entries=[])


@dataclass(frozen=True)
class LedgerView:
    """A ledger as it was when its file was last read: its record, or what is wrong with it."""

    path: Path
    party: str
    ledger: LedgerRecord = _UNREAD
    entries: tuple[Entry, ...] = ()
    error: Exception | None = None
    witnesses: tuple[Witness, ...] = ()

    @property
    def key(self) -> str:
        return self.path.stem


@dataclass(frozen=True)
class OwnFile:
    path: Path
    file: PartyFile | None
    error: str = ""


class Workspace:
    """A kit or a folder, with what is kept in mind of it between pages."""

    def __init__(self, folder: Path, *, runs: Path | None = None) -> None:
        self.folder = folder.resolve()
        if not self.folder.is_dir():
            raise FileMissing(f"{folder} is not a folder. Name a party's kit, or a folder of jobs and runs.")
        self.kit = Kit.load(self.folder) if (self.folder / "startup").is_dir() else None
        if self.kit is not None and self.kit.kind != "party":
            raise KitError(
                f"{folder} is the {self.kit.kind}'s kit, and a board is a party's. Name a party's kit, or a folder of "
                "jobs and runs."
            )
        if runs is not None and not runs.is_dir():
            raise InputError(f"--runs: {runs} is not a folder. Name the one that runs were written into.")
        within = self.folder / RUNS
        usual = self.kit.runs if self.kit else within if within.is_dir() else self.folder
        self.runs = RunIndex((runs or usual).resolve())
        self.patience = PATIENCE_SECONDS
        self._lock = threading.Lock()
        self._ledgers: dict[Path, tuple[object, LedgerView]] = {}
        # When the folder of requests was last seen to change, and whether any waited then.
        self._waiting: tuple[int, bool] | None = None

    @property
    def name(self) -> str:
        return self.folder.name if self.kit is None else self.kit.identity().name

    def own_files(self) -> list[OwnFile]:
        if self.kit is not None:
            known = self.kit.site().get("party")
            return [] if known is None else [self._own(Path(known))]
        return [self._own(path) for path in sorted(self.folder.glob("*.toml")) if _is_party_file(path)]

    def ledgers(self) -> list[LedgerView]:
        paths = {one.file.ledger: one.file.party for one in self.own_files() if one.file is not None}
        return [self._ledger(path, party, list(paths)) for path, party in paths.items() if path.exists()]

    def requests(self, *, ended: bool = False) -> tuple[Request, ...]:
        """The jobs that wait for somebody here, or also those that no longer do; none without a kit."""
        if self.kit is None or "policy" not in self.kit.site():
            return ()
        if ended:
            return list_requests(self.kit, ended=True, patience=self.patience)
        try:
            changed = (self.kit.path / REQUESTS).stat().st_mtime_ns
        except OSError:
            return ()
        # Every request that is written or decided changes its folder: without a change nothing new waits.
        if self._waiting == (changed, False):
            return ()
        requests = list_requests(self.kit, patience=self.patience)
        self._waiting = (changed, bool(requests)) if changed < time.time_ns() - GRAIN_NS else None
        return requests

    def _own(self, path: Path) -> OwnFile:
        try:
            file = PartyFile.load(path)
            return OwnFile(path, replace(file, patience=min(file.patience, self.patience)))
        except (ColonnadeError, OSError) as error:
            return OwnFile(path, None, str(error))

    def _ledger(self, path: Path, party: str, all_paths: list[Path]) -> LedgerView:
        peers = [other for other in all_paths if other != path and other.exists()]
        peers += sorted((self.folder / PEERS).glob("*.json"))
        stamp = tuple(map(_stamp, (path, *peers)))
        with self._lock:
            kept = self._ledgers.get(path)
        if kept is not None and kept[0] == stamp:
            return kept[1]
        try:
            view = _read_ledger(path, party, peers, self.patience)
        except (ColonnadeError, OSError) as error:
            return LedgerView(path, party, error=error)
        with self._lock:
            self._ledgers[path] = (stamp, view)
        return view


def _is_party_file(path: Path) -> bool:
    try:
        return {"party", "ledger"} <= tomllib.loads(path.read_text(encoding="utf-8")).keys()
    except (OSError, ValueError, RecursionError):
        return False


def _read_ledger(path: Path, party: str, peers: list[Path], patience: float) -> LedgerView:
    kept = opened(path, patience=patience).receipts()
    summaries, witnesses = [], []
    for peer in peers:
        try:
            witness = witness_of(peer, patience=patience)
            receipts = [receipt for receipt in kept if receipt.party == witness.party]
            # Its history is to agree with the receipts of it that are kept here.
            if isinstance(witness, Exported):
                witness = load_export(peer, receipts=receipts)
            else:
                witness.verify(receipts)
        except (ColonnadeError, OSError) as error:
            summaries.append(Witness(peer.stem, peer, error=str(error)))
            continue
        if witness.party != party:
            witnesses.append(witness)
            summaries.append(Witness(witness.party, peer, len(witness.receipts(party)), len(receipts)))
    record, entries, _ = verified(path, witnesses, patience=patience)
    return LedgerView(path, party, record, entries, witnesses=tuple(summaries))


def _stamp(path: Path) -> tuple[int, ...]:
    """What changes with every change to a ledger; the time of the change itself cannot be set back."""
    stamp = []
    for part in (path, path.with_name(f"{path.name}-wal")):
        try:
            facts = part.stat()
        except OSError:
            continue
        if facts.st_size:
            stamp += [facts.st_ctime_ns, facts.st_size, facts.st_ino]
    return tuple(stamp)
