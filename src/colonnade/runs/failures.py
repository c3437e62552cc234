"""The record of a run that was charged for and did not reach its end: where it stopped, and what it cost.

Nothing in it comes from rows: of an error about a party's own data, files or ledger it has only the kind, as peers do.
Of ledgers it has what a report has of them, the totals of the data sets that took part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colonnade.errors import ColonnadeError
from colonnade.federation.records import sealed_text
from colonnade.report.plain import lines_text, now

if TYPE_CHECKING:
    from pathlib import Path

    from colonnade.federation.federation import Federation
    from colonnade.federation.job import Job
    from colonnade.runs.folders import Folder

FAILED = "failed.json"


def failure_facts(job: Job, federation: Federation, error: BaseException, *, run: str) -> dict[str, Any]:
    """Where a run stopped and what each ledger had been charged for it by then."""
    from colonnade import __version__
    from colonnade.federation.stopped import charges_of
    from colonnade.report.facts import entry_text, totals_facts
    from colonnade.runtime.run import reason_for_peers

    stopped = federation.stopped
    charges = charges_of(run, {owner: federation.ledgers[owner] for owner in federation.group.owners})
    interrupted = isinstance(error, KeyboardInterrupt)
    reason = stopped.error if stopped is not None and stopped.error is not None else error
    return {
        "state": "failed",
        "name": job.name,
        "version": __version__,
        "time": now(),
        "task": job.task,
        "epsilon": job.epsilon,
        "run": run,
        "stopped": {
            "party": None if stopped is None else stopped.party,
            "reached": {} if stopped is None else dict(stopped.reached),
            "kind": "Interrupted" if interrupted else _kind(reason),
            "reason": "it was interrupted" if interrupted else reason_for_peers(reason),
        },
        "charged": {
            party: {"time": entry.time, "what": entry_text(entry)} for party, entry in charges.items()
        },
        "ledgers": {
            party: totals_facts(federation.ledgers[party], federation.datasets[party]) for party in charges
        },
    }


def _kind(error: BaseException) -> str:
    if isinstance(error, ColonnadeError) and not error.for_peers:
        return error.family
    return type(error).__name__


def keep_failure(folder: Folder, facts: dict[str, Any]) -> Path | None:
    """Leave the record, and nothing else, under the folder's name; None where even that has no room."""
    from colonnade.federation.whole_files import write_whole

    text = sealed_text(facts)
    try:
        folder.clear()
        write_whole(folder.draft / FAILED, text)
        return folder.finish()
    except OSError:
        return None


def where_text(facts: dict[str, Any]) -> str:
    """Where a run stopped, in one sentence."""
    stopped = facts["stopped"]
    if stopped.get("kind") == "Killed":
        return "Its process was killed after it was charged, before anything that it opened was kept."
    party, reached = stopped["party"], stopped["reached"]
    reason = stopped["reason"].rstrip(".")
    if party is not None:
        step = reached.get(party)
        return f"{party} stopped it {f'after step {step!r}' if step else 'before its first step'}: {reason}."
    steps = ", ".join(f"{name} after step {step!r}" for name, step in reached.items() if step)
    return f"It stopped with {steps}: {reason}." if steps else f"It stopped after its last step: {reason}."


def charged_text(facts: dict[str, Any]) -> str:
    """What each ledger had been charged by then, in one sentence."""
    charged = ", ".join(facts["charged"])
    return f"Charged by then: {charged}, for run {facts['run'][:12]}." if charged else "Nothing was charged."


def failure_text(facts: dict[str, Any], *, width: int | None = None) -> str:
    from colonnade.report.text import budget_lines

    lines = [
        facts["name"],
        f"  {facts['task']} at ε = {facts['epsilon']:g}, run {facts['run'][:12]}, failed {facts['time'][:19]}Z",
        "",
        "Where it stopped",
        f"  {where_text(facts)}",
        "",
        "What was charged",
        *(f"  {party}: {item['what']}" for party, item in facts["charged"].items()),
        "  It stays charged, because it may have been seen. A new run is charged anew.",
        "",
        "Budgets when it stopped",
        *budget_lines(facts["ledgers"].values(), width),
    ]
    return lines_text(lines)
