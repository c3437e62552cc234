"""What stands on the page of a run: its verdict and files, how far it is, or where it stopped and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from colonnade import errors
from colonnade.board.place import Place
from colonnade.board.progress import Expected, read_progress
from colonnade.board.run_index import RUNNING, WAITS, Listed
from colonnade.cli.explain import sections
from colonnade.cli.export import released
from colonnade.cli.runs.failures import charged_text, where_text
from colonnade.cli.runs.run_folders import GOES_ON, UNFINISHED, RunFolder, noted_text
from colonnade.errors import ColonnadeError, LedgerError
from colonnade.federation.approval import Request
from colonnade.federation.own_files import JOURNAL
from colonnade.models.files.document import MODEL, PARTIES
from colonnade.privacy.words import about_text
from colonnade.report.accounts import merged
from colonnade.report.facts import entry_text
from colonnade.report.html import evaluation_section
from colonnade.report.verdict import verdict

Facts = dict[str, Any]
DOWNLOADS = ("facts.json", MODEL, "release.npz", "audit.json")


def run(place: Place, name: str, expected: Expected | None = None) -> Facts:
    """One run: its verdict, what it shows to whom, its files; or where it stopped; or how far it is."""
    listed = place.runs.find(name)
    folder = place.runs.read(name)
    facts: Facts = {
        "run": name,
        "state": listed.state,
        "path": str(folder.path),
        "command": "",
        "name": name,
        "resume": "",
        "explained": None,
    }
    if listed.open:
        return facts | _going(place, listed, folder, expected)
    if folder.facts.get("state") == "unreadable":
        return facts | {"kind": "unreadable", "command": f"colonnade show {folder.path}"}
    facts["name"] = str(folder.facts.get("job" if folder.noted else "name") or name)
    if folder.noted:
        return facts | {
            "kind": "noted",
            "state": str(folder.facts["state"]),
            "text": noted_text(folder),
            **(_failed(folder, charged=_may_be_charged(place, folder)) if folder.failed else {}),
        }
    if folder.failed:
        return facts | {
            "kind": "failed",
            "state": "failed",
            "where": where_text(folder.facts),
            "charged": charged_text(folder.facts),
            "spent": charged_for(place, str(folder.facts.get("run", ""))),
            **_failed(folder, charged=True),
        }
    owners = [party["name"] for party in folder.facts["parties"]]
    return facts | {
        "kind": "done",
        "state": folder.state,
        "verdict": verdict(folder.facts),
        "guarantees": [
            {**item, "about": about_text(item["observer"], item["unit"], owners)}
            for item in folder.facts["guarantees"]
        ],
        "judged": evaluation_section(folder.facts.get("judged")),
        "notes": folder.facts["notes"],
        "unsealed": folder.unsealed,
        "downloads": [file for file in DOWNLOADS if (folder.path / file).is_file()],
        "own_pages": sorted(path.stem for path in (folder.path / PARTIES).glob("*.html")),
        **exports(folder),
        "task": folder.facts["task"],
        "rows": folder.facts["rows"],
        "method": folder.facts.get("method", ""),
    }


def exports(folder: RunFolder) -> Facts:
    """Whether the run's model may leave as a graph and with a card: its weights were released, and it is linear."""
    if not (folder.path / MODEL).is_file():
        return {"released": False}
    try:
        released(folder.path)
    except ColonnadeError:
        return {"released": False}
    return {"released": True}


def _going(place: Place, listed: Listed, folder: RunFolder, expected: Expected | None) -> Facts:
    command = ""
    if listed.state == GOES_ON:
        command = f"colonnade job status {listed.name} --kit {place.folder}"
    progress = read_progress(folder.path)
    return {
        "kind": "going",
        "live": listed.state in (RUNNING, WAITS),
        "unfinished": listed.state == UNFINISHED,
        "progress": progress.words(expected),
        "spent": (spent := charged_for(place, progress.run)),
        "spent_text": spent_text(spent),
        "command": command,
        "asked": _asked(place, listed.name),
    }


def _asked(place: Place, job: str) -> Request | None:
    try:
        return next((one for one in place.requests(ended=True) if one.job == job), None)
    except LedgerError:
        # How far a run is can be said all the same; what is wrong with the ledger stands beside it.
        return None


def charged_for(place: Place, run: str) -> list[Facts]:
    """What the ledgers here were charged for a run so far, and where the accounts of that data stand.

    Of a ledger that cannot be read it says so.
    """
    charged: list[Facts] = []
    for view in place.ledgers() if run else ():
        if view.error:
            charged.append({"party": view.party, "error": str(view.error), "entries": [], "totals": []})
            continue
        charges = [one for one in view.entries if one.kind == "charge" and one.body["release"]["run"] == run]
        datasets = {one.body["dataset"] for one in charges}
        if charges:
            totals = [one for one in merged(view.facts["totals"]) if one["dataset"] in datasets]
            entries = [*map(entry_text, charges)]
            charged.append({"party": view.party, "error": "", "entries": entries, "totals": totals})
    return charged


def spent_text(spent: list[Facts]) -> str:
    """How often ledgers here were charged for a run, in words."""
    return ", ".join(map(_spent, spent)) or "nothing yet"


def _spent(one: Facts) -> str:
    if one["error"]:
        return f"not known of {one['party']}"
    count = len(one["entries"])
    return f"{count} {'charge' if count == 1 else 'charges'} to {one['party']}"


def _may_be_charged(place: Place, folder: RunFolder) -> bool:
    """Whether a ledger here was charged for a run, or cannot be asked: earlier versions noted no run."""
    return "run" not in folder.facts or bool(charged_for(place, str(folder.facts["run"])))


def _failed(folder: RunFolder, *, charged: bool) -> Facts:
    """What there is to do about a run that failed: what its error means, and the command that goes on with it.

    One that was not `charged` ended before anything began, as when somebody declined it: that would be so again.
    """
    kind = str(folder.facts.get("kind") or folder.facts.get("stopped", {}).get("kind", ""))
    known = getattr(errors, kind, None)
    number = known.number if isinstance(known, type) and issubclass(known, ColonnadeError) else ""
    facts = {"explained": sections().get(number), "number": number, "resume": ""}
    if not (folder.noted and folder.facts.get("id")):
        facts["resume"] = "Run the job again when that is put right; a new run is charged anew."
        return facts | {"command": f"colonnade show {folder.path}"}
    if not charged:
        facts["resume"] = (
            "Nothing was charged for it here. When its reason is put right, whoever has the administrator's kit "
            "submits it anew:"
        )
        return facts | {"command": "colonnade job submit JOB --kit ADMIN-KIT"}
    first = folder.facts.get("resumes") or folder.facts["id"]
    if (folder.path / JOURNAL).exists() or (folder.path.parent / str(first) / JOURNAL).exists():
        facts["resume"] = (
            "It can be gone on with where it stopped, and nothing is charged twice. Whoever has the administrator's "
            "kit says:"
        )
        return facts | {"command": f"colonnade job resume {folder.facts['id']} --kit ADMIN-KIT"}
    facts["resume"] = "It left no record to go on from. Whoever has the administrator's kit submits it anew:"
    return facts | {"command": "colonnade job submit JOB --kit ADMIN-KIT"}


def own_page(place: Place, name: str, party: str) -> Path:
    """Where a run keeps the page that is one party's own."""
    page = place.runs.read(name).path / PARTIES / f"{party}.html"
    known = sorted(path.stem for path in (place.runs.read(name).path / PARTIES).glob("*.html"))
    return page if party in known else Path()
