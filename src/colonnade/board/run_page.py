"""What stands on the page of a run: its verdict and files, how far it is, or where it stopped and what to do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from colonnade import errors
from colonnade.board.workspace import Workspace
from colonnade.errors import ColonnadeError, LedgerError, explanations
from colonnade.federation.files import FACTS, JOURNAL
from colonnade.models.files.document import MODEL, PARTIES
from colonnade.report.evaluation import evaluation_section
from colonnade.report.facts import entry_text
from colonnade.report.plain import merged
from colonnade.report.text import verdict
from colonnade.runs.reading import GOES_ON, UNFINISHED, RunFolder, recorded_text, released_model
from colonnade.runs.recovery import charged_text, where_text
from colonnade.runs.run_index import RUNNING, WAITS, Listed, Progress
from colonnade.sites.approval import Request

Facts = dict[str, Any]
DOWNLOADS = (FACTS, MODEL, "release.npz", "audit.json")
GLANCE_SECONDS, BEAT_SECONDS = 0.5, 15.0


def page_facts(workspace: Workspace, name: str) -> Facts:
    listed, folder = workspace.runs.find(name), workspace.runs.read(name)
    facts: Facts = {"run": name, "name": name, "state": listed.state, "path": str(folder.path)}
    facts |= {"command": "", "resume": "", "explained": None}
    if listed.open:
        return facts | _going(workspace, listed, folder)
    if folder.facts.get("state") == "unreadable":
        return facts | {"kind": "unreadable", "command": f"colonnade show {folder.path}"}
    facts["name"] = str(folder.facts.get("job" if folder.recorded else "name") or name)
    if folder.recorded:
        facts |= {"kind": "noted", "state": str(folder.facts["state"]), "text": recorded_text(folder)}
        return facts | (_failed(workspace, folder) if folder.failed else {})
    if folder.failed:
        return facts | {
            "kind": "failed",
            "state": "failed",
            "where": where_text(folder.failure),
            "charged": charged_text(folder.failure),
            "spent": charged_for(workspace, folder.failure.run),
            **_failed(workspace, folder),
        }
    return facts | _done(folder)


def _done(folder: RunFolder) -> Facts:
    return {
        "kind": "done",
        "state": folder.state,
        "record": folder.run,
        "verdict": verdict(folder.run),
        "evaluated": evaluation_section(folder.run.evaluated, drawn=False),
        "downloads": [file for file in DOWNLOADS if (folder.path / file).is_file()],
        "own_pages": own_pages(folder),
        "released": _is_released(folder),
    }


def own_pages(folder: RunFolder) -> list[str]:
    return sorted(path.stem for path in (folder.path / PARTIES).glob("*.html"))


def _is_released(folder: RunFolder) -> bool:
    """Whether the run's model may leave as a graph and with a card: its weights were released, and it is linear."""
    if not (folder.path / MODEL).is_file():
        return False
    try:
        released_model(folder.path)
    except ColonnadeError:
        return False
    return True


def _going(workspace: Workspace, listed: Listed, folder: RunFolder) -> Facts:
    progress = Progress(folder.path).read()
    status = f"colonnade job status {listed.name} --kit {workspace.folder}"
    return {
        "kind": "going",
        "live": listed.state in (RUNNING, WAITS),
        "unfinished": listed.state == UNFINISHED,
        "progress": progress.words(),
        "spent": (spent := charged_for(workspace, progress.run)),
        "spent_text": spent_text(spent),
        "command": status if listed.state == GOES_ON else "",
        "request": _request(workspace, listed.name),
    }


def _request(workspace: Workspace, job: str) -> Request | None:
    try:
        return next((one for one in workspace.requests(ended=True) if one.job == job), None)
    except LedgerError:
        # How far a run is can be said all the same; what is wrong with the ledger is shown too.
        return None


def charged_for(workspace: Workspace, run: str) -> list[Facts]:
    """What the ledgers here were charged for a run so far, or that one cannot be read, and where the accounts stand."""
    charged: list[Facts] = []
    for view in workspace.ledgers() if run else ():
        if view.error:
            charged.append({"party": view.party, "error": str(view.error), "entries": [], "totals": []})
            continue
        charges = [one for one in view.entries if one.kind == "charge" and one.body["release"]["run"] == run]
        datasets = {one.body["dataset"] for one in charges}
        if charges:
            totals = [one for one in merged(view.ledger.totals) if one.total.dataset in datasets]
            entries = [*map(entry_text, charges)]
            charged.append({"party": view.party, "error": "", "entries": entries, "totals": totals})
    return charged


def spent_text(spent: list[Facts]) -> str:
    words = []
    for one in spent:
        count = len(one["entries"])
        charges = f"{count} {'charge' if count == 1 else 'charges'} to {one['party']}"
        words.append(f"not known of {one['party']}" if one["error"] else charges)
    return ", ".join(words) or "nothing yet"


def _failed(workspace: Workspace, folder: RunFolder) -> Facts:
    """What there is to do about a run that failed: what its error means, and the command that goes on with it."""
    kind = str(folder.facts.get("kind") or folder.facts.get("stopped", {}).get("kind", ""))
    known = getattr(errors, kind, None)
    number = known.number if isinstance(known, type) and issubclass(known, ColonnadeError) else ""
    resume, command = _way_on(workspace, folder)
    return {"explained": explanations().get(number), "number": number, "resume": resume, "command": command}


def _way_on(workspace: Workspace, folder: RunFolder) -> tuple[str, str]:
    """What to do and the command for it; a job that was declined before any charge would be declined again."""
    facts, submit = folder.facts, "colonnade job submit JOB --kit ADMIN-KIT"
    if not (folder.recorded and facts.get("id")):
        again = "Run the job again when that is put right; a new run is charged anew."
        return again, f"colonnade show {folder.path}"
    # Of a process that ended without a word no run is known, so that no ledger can be asked.
    if "run" in facts and not charged_for(workspace, str(facts["run"])):
        nothing = (
            "Nothing was charged for it here. When its reason is put right, whoever has the administrator's kit "
            "submits it anew:"
        )
        return nothing, submit
    first = facts.get("resumes") or facts["id"]
    if (folder.path / JOURNAL).exists() or (folder.path.parent / str(first) / JOURNAL).exists():
        resume = "It can resume where it stopped, and nothing is charged twice. The administrator runs:"
        return resume, f"colonnade job resume {facts['id']} --kit ADMIN-KIT"
    return "It left no record to go on from. Whoever has the administrator's kit submits it anew:", submit


async def events(
    look: Callable[[], Facts | None], ending: Callable[[], bool] = lambda: False
) -> AsyncIterator[str]:
    """What `look` finds, as server-sent events: whenever it has changed, until it finds nothing more.

    A comment now and then keeps the connection, and shows when nobody is at its other end any more. A look that fails,
    because another process holds a file or is about to change it, is made again. When the board is ending nothing more
    is sent, and pages ask again by themselves.
    """
    before: Facts = {}
    silent = 0.0
    while not ending():
        try:
            facts = await asyncio.to_thread(look)
        except (ColonnadeError, OSError):
            facts = before
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
