"""Runs that were stopped: what a run notes before it is charged, and how one that was paid for is finished.

Between the ledgers' entries and the first file that is kept there is nothing else to tell that a run was paid for, so a
run notes itself first: then a charge is listed whatever ends the process right after it.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colonnade.errors import ColonnadeError, ModelDamaged, ModelError
from colonnade.runs.folders import (
    BEGUN,
    FAILED,
    MODELS,
    RESERVE,
    draft_of,
    free_name,
    holds_paid,
    left_behind,
    only_one,
    uninterrupted,
)
from colonnade.runs.run_folders import RUNS

if TYPE_CHECKING:
    from colonnade.federation.federation import Federation
    from colonnade.federation.job import Job
    from colonnade.runs.folders import Folder

KILLED = "Killed"


def note_begun(folder: Folder, job: Job, federation: Federation, run: str) -> None:
    """Note a run whose charge comes next; that it cannot be written is no reason to end it."""
    from colonnade import __version__
    from colonnade.federation.files import write_whole
    from colonnade.report.plain import now

    stopped: dict[str, Any] = {
        "party": None,
        "reached": {},
        "kind": KILLED,
        "reason": "its process was killed",
    }
    facts = {
        "state": "failed",
        "name": job.name,
        "version": __version__,
        "time": now(),
        "task": job.task,
        "epsilon": job.epsilon,
        "run": run,
        "stopped": stopped,
        "ledgers": {
            owner: {"path": str(path.absolute()), "dataset": federation.datasets[owner]}
            for owner in federation.group.owners
            if (path := federation.ledgers[owner].path) is not None
        },
    }
    with suppress(OSError):
        write_whole(folder.draft / BEGUN, json.dumps(facts))


def killed_run(draft: Path) -> dict[str, Any] | None:
    """The record of a run that was killed when it was being charged, before it had kept anything.

    None for any other draft. Where no ledger has the charge, nobody was `charged`.
    """
    from colonnade.federation.federation import charges_of
    from colonnade.ledger import Ledger
    from colonnade.report.facts import entry_text, totals_facts

    if not (draft / BEGUN).is_file() or holds_paid(draft):
        return None
    with only_one(os.open(draft, os.O_RDONLY | os.O_DIRECTORY)) as free:
        if not free:
            return None
    try:
        facts = dict(json.loads((draft / BEGUN).read_text(encoding="utf-8")))
        recorded = {
            owner: (Path(one["path"]), str(one["dataset"])) for owner, one in facts["ledgers"].items()
        }
        run = str(facts["run"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ModelDamaged(
            f"{draft / BEGUN} was changed since the run wrote it. Ledgers have what was charged."
        ) from None
    ledgers = {owner: Ledger.open(path) for owner, (path, _) in recorded.items()}
    charges = charges_of(run, ledgers)
    charged = {owner: {"time": entry.time, "what": entry_text(entry)} for owner, entry in charges.items()}
    totals = {owner: totals_facts(ledgers[owner], recorded[owner][1]) for owner in charges}
    return facts | {"charged": charged, "ledgers": totals}


def killed_in(folder: Path) -> dict[Path, dict[str, Any]]:
    """The runs that were to be right below a folder and were charged and killed, by name; unreadable ones say so."""
    found = {}
    for draft in sorted(folder.glob(".*.draft")):
        name = draft.with_name(draft.name.removeprefix(".").removesuffix(".draft"))
        try:
            facts = killed_run(draft)
        except ColonnadeError:
            facts = {"state": "unreadable", "charged": True}
        if facts is not None and facts["charged"]:
            found[name] = facts
    return found


def put_away(name: Path) -> tuple[Path, dict[str, Any]] | None:
    """Give the record of a run that was killed after its charge the run's name; None if there is no such run.

    One that no ledger was charged for leaves nothing.
    """
    from colonnade.federation.files import sealed_text, write_whole

    draft = draft_of(name)
    facts = killed_run(draft)
    if facts is None:
        return None
    if not facts["charged"]:
        shutil.rmtree(draft)
        return name, facts
    write_whole(draft / FAILED, sealed_text(facts))
    for path in (draft / BEGUN, draft / RESERVE):
        path.unlink(missing_ok=True)
    return draft.rename(free_name(name)), facts


def recovered(run: Path) -> tuple[Path, dict[str, Any] | None]:
    """Make the rest of a run that was stopped; where it lies, and its facts: None for a comparison, which has none."""
    from colonnade.report.run_folder import recover_run

    place = _place(run)
    with left_behind(place) as free, uninterrupted():
        if not free:
            raise ModelError(f"{place} is being written by a run now. Wait for it to end.")
        compared = (place / MODELS).is_dir()
        facts = {} if compared else recover_run(place)
        for left in (FAILED, BEGUN):
            (place / left).unlink(missing_ok=True)
        if place.name.startswith("."):
            (place / RESERVE).unlink(missing_ok=True)
            name = free_name(place.with_name(place.name.removeprefix(".").removesuffix(".draft")))
            place = place.rename(name)
    return place, None if compared else facts


def _place(given: Path) -> Path:
    """Where the run left what it had kept: under its name, or in the draft that a kill left."""
    from colonnade.federation.holdout import PAID

    if not given.name:
        raise ModelError(f"{str(given)!r} names no run. `colonnade runs` lists those that were stopped.")
    for place in (given, draft_of(given), RUNS / given, draft_of(RUNS / given)):
        whole = (place / "facts.json").is_file()
        if holds_paid(place) and (not whole or (place / PAID).is_file()):
            return place
        if whole:
            raise ModelError(
                f"{place} is whole: there is nothing to recover. `colonnade show {place}` shows it."
            )
    raise ModelError(
        f"there is no run {given} that was stopped after its release was paid for. `colonnade runs` lists them."
    )
