"""`colonnade party requests`, `approve`, `decline` and `approver`: jobs that wait for somebody here to say yes."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from colonnade.cli.options import AS_JSON
from colonnade.cli.screen import say, say_json, width
from colonnade.errors import InputError

if TYPE_CHECKING:
    from colonnade.federation.approval import Request
    from colonnade.runtime.kit import Kit

KIT = typer.Argument(..., metavar="KIT", help="The party's kit.")
JOB = typer.Argument(..., metavar="JOB", help="The id of the job, as `party requests` shows it.")
PERSON = typer.Option(
    "", "--as", metavar="NAME", help="Who decides; the name of the account on this machine if left out."
)
KEY = typer.Option(
    None, "--key", metavar="FILE", help="The person's own key, where the policy names `approvers`."
)


def requests(
    kit: Path = KIT,
    ended: bool = typer.Option(False, "--ended", help="Show also what no longer waits."),
    as_json: bool = AS_JSON,
) -> None:
    """Show the jobs that wait for somebody here, with what each would cost and leave.

    Example:

      colonnade party requests bank/kit
    """
    from colonnade.federation.approval import list_requests

    waiting = list_requests(_party(kit), ended=ended)
    if as_json:
        say_json([_facts(request) for request in waiting])
        return
    if not waiting:
        say("No job waits for approval.")
    for number, request in enumerate(waiting):
        if number:
            say("")
        _say(request, kit)


def approve(
    kit: Path = KIT, job: str = JOB, person: str = PERSON, key: Path | None = KEY, as_json: bool = AS_JSON
) -> None:
    """Approve a job that waits; the ledger says who did, signed.

    Example:

      colonnade party approve bank/kit 596ca27d-8325-4ccd-bb80-460765e4591c --as "Ada Byron"
    """
    from colonnade.federation import approval

    request = approval.approve(_party(kit), job, by=person or getpass.getuser(), key=_key(key))
    if as_json:
        say_json(_facts(request))
        return
    missing = request.people - len(request.approvals)
    said = "It begins now." if missing <= 0 else f"{missing} more must approve it."
    say(f"Job {job} is approved by {' and '.join(request.approvals)}. {said}")


def decline(
    kit: Path = KIT,
    job: str = JOB,
    because: str = typer.Option(..., "--because", metavar="TEXT", help="Why, for the ledger."),
    person: str = PERSON,
    key: Path | None = KEY,
    as_json: bool = AS_JSON,
) -> None:
    """Decline a job that waits: one no ends it. Peers learn that it was declined, and not why.

    Example:

      colonnade party decline bank/kit 596ca27d-8325-4ccd-bb80-460765e4591c --because "after the audit in May"
    """
    from colonnade.federation import approval

    request = approval.decline(
        _party(kit), job, by=person or getpass.getuser(), because=because, key=_key(key)
    )
    say_json(_facts(request)) if as_json else say(f"Job {job} is declined. Nothing was charged.")


def approver(
    key: Path = typer.Argument(..., metavar="FILE", help="A person's key; made if it is not there."),
    as_json: bool = AS_JSON,
) -> None:
    """Make a person's key for approving jobs, and print what the policy names under `approvers`.

    Example:

      colonnade party approver ada.key
    """
    own = _key(key)
    public = own.public.hex() if own is not None else ""
    say_json({"key": str(key), "public": public}) if as_json else say(public)


def _party(path: Path) -> Kit:
    from colonnade.runtime.kit import Kit

    kit = Kit.load(path)
    if kit.kind != "party":
        raise InputError(f"{path} is the {kit.kind}'s kit. People approve jobs at a party: name its kit.")
    return kit


def _key(path: Path | None) -> Any:
    from colonnade.ledger.export import signing_key

    return None if path is None else signing_key(path)


def _facts(request: Request) -> dict[str, Any]:
    decided = [
        {
            "by": decision.by,
            "approved": decision.approved,
            "because": decision.because,
            "time": decision.time,
        }
        for decision in request.decisions
    ]
    return {**request.to_data(), "decisions": decided}


def _say(request: Request, kit: Path) -> None:
    from colonnade.report.numbers import left_text
    from colonnade.report.plain import table_lines

    times = f"asked {request.asked[:16].replace('T', ' ')} UTC"
    until = f", until {request.until[:16].replace('T', ' ')}" if request.state == "waiting" else ""
    say(f"{request.job}  {request.name}: {request.state}, {times}{until}")
    say(f"  {request.what}")
    rows = [("observer", "unit", "this job", "left now", "left after", "at δ")]
    for cost in request.costs:
        left_now, left_after = left_text(cost.before), left_text(cost.left)
        rows.append(
            (cost.observer, cost.unit, f"ε = {cost.epsilon:.3g}", left_now, left_after, f"{cost.delta:g}")
        )
    if request.costs:
        for line in table_lines(rows, width()):
            say(line)
    for decision in request.decisions:
        said = "approved" if decision.approved else f"declined: {decision.because}"
        say(f"  {decision.by} {said}, {decision.time[:16].replace('T', ' ')} UTC")
    if request.state == "waiting":
        who = "one person" if request.people == 1 else f"{request.people} people"
        say(f"  {who} must approve it: colonnade party approve {kit} {request.job} --as NAME")
