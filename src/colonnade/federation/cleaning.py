"""What a member keeps of runs that failed, and for how long: records to go on with are as private as the data."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

from colonnade.errors import InputError
from colonnade.federation.approval import REQUESTS
from colonnade.federation.own_files import JOURNAL, OUTCOME
from colonnade.federation.party_file import RECORD_DAYS, PartyFile
from colonnade.runtime.journal import destroy
from colonnade.runtime.kit import Kit

_DAY = 24 * 3600.0


def clean(kit: Kit, *, days: float | None = None, only_say: bool = False) -> tuple[Path, ...]:
    """Destroy the records of runs that failed longer ago than the party's file says, and requests that ended by then.

    Returns what was destroyed or, with `only_say`, what would be. Outcomes, logs and ledgers stay. A run without its
    record cannot be resumed: its job is submitted anew, and charged anew.
    """
    kept = _days(kit) if days is None else days
    if not kept >= 0:
        raise InputError(f"found {kept!r} days; records are kept for 0 or more.")
    before = time.time() - kept * _DAY
    records = tuple(_old_records(kit, before))
    requests = tuple(
        path for path in sorted((kit.path / REQUESTS).glob("*.json")) if path.stat().st_mtime < before
    )
    if not only_say:
        for folder in records:
            destroy(folder)
        for path in requests:
            path.unlink()
    return (*records, *requests)


def _days(kit: Kit) -> float:
    site = kit.site()
    return PartyFile.load(site["party"]).record_days if "party" in site else RECORD_DAYS


def _old_records(kit: Kit, before: float) -> Iterator[Path]:
    for folder in sorted(kit.runs.glob(f"*/{JOURNAL}")):
        outcome = folder.parent / OUTCOME
        # A run without an outcome may go on; `party start` gives one to those that cannot.
        if outcome.exists() and outcome.stat().st_mtime < before:
            state = json.loads(outcome.read_text(encoding="utf-8")).get("state")
            if state == "failed":
                yield folder
