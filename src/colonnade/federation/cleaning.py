"""What a member keeps of runs that failed, and for how long: records to go on with are as private as the data."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from colonnade.errors import InputError
from colonnade.federation.approval import REQUESTS
from colonnade.federation.own_files import JOURNAL, OUTCOME
from colonnade.federation.party_file import RECORD_DAYS, PartyFile
from colonnade.runtime.journal import destroy
from colonnade.runtime.kit import JOBS, Kit
from colonnade.runtime.renewal import BEFORE, destroy_keys

_DAY = 24 * 3600.0
_JOB_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def clean(kit: Kit, *, days: float | None = None, only_say: bool = False) -> tuple[Path, ...]:
    """Destroy the records of runs that failed longer ago than the party's file says, and what else ended by then.

    Those are requests, what FLARE kept of jobs, at the server with its list of them, and the key of a certificate that
    was renewed by an earlier version. Returns what was destroyed or, with `only_say`, what would be. Outcomes, logs and
    ledgers stay. A run without its record cannot be resumed: its job is submitted anew, and charged anew.
    """
    kept = _days(kit) if days is None else days
    if not kept >= 0:
        raise InputError(f"found {kept!r} days; records are kept for 0 or more.")
    before = time.time() - kept * _DAY
    records = tuple(_old_records(kit, before))
    requests = tuple(
        path for path in sorted((kit.path / REQUESTS).glob("*.json")) if path.stat().st_mtime < before
    )
    jobs = tuple(_old_jobs(kit, before))
    keys = tuple(path for path in [kit.path / BEFORE] if path.is_dir())
    if not only_say:
        for folder in records:
            destroy(folder)
        for path in requests:
            path.unlink()
        for folder in jobs:
            shutil.rmtree(folder)
        for folder in keys:
            destroy_keys(folder)
    return (*records, *requests, *jobs, *keys)


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


def _old_jobs(kit: Kit, before: float) -> Iterator[Path]:
    for folder in sorted((*kit.path.iterdir(), *kit.path.glob(f"{JOBS}/*"))):
        if folder.is_dir() and _JOB_ID.fullmatch(folder.name) and folder.stat().st_mtime < before:
            outcome = kit.run_folder(folder.name) / OUTCOME
            # A job that runs has a folder of runs and no outcome; one that FLARE refused has neither.
            if outcome.exists() if outcome.parent.exists() else True:
                yield folder
