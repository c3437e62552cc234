"""`colonnade align`: how many people the parties of a job have in common, before anything is spent."""

from __future__ import annotations

from pathlib import Path

import typer

from colonnade.cli.options import PARTY_FILES
from colonnade.cli.screen import progress, say, say_json


def align(
    job: Path = typer.Argument(..., metavar="JOB", help="The job file (TOML)."),
    party: list[Path] = PARTY_FILES,
    as_json: bool = typer.Option(False, "--json", help="Print the result as JSON."),
) -> None:
    """Find the people that all parties of a job have in common, by private set intersection.

    Example (`colonnade demo` writes such files):

      colonnade align demo-run/job.toml

    Nothing is charged, and the result is not kept: training aligns again, in a fresh order. That ids were compared and
    with whom is written into every party's ledger. Every party learns which of its people all have; the party that
    holds the label also learns which of its people each other party has. Set sizes are shown unless a party's file pads
    them with shown_ids. People are matched on a curve, or, if the job says alignment = "server", through the server,
    which then learns set sizes and the number of common people.
    """
    from colonnade.federation.job import Job
    from colonnade.federation.party_file import federation_of, party_files

    agreed = Job.load(job)
    federation = federation_of(agreed, party_files(agreed, party))
    with progress(not as_json) as advance:
        federation.progress = advance
        outcome = federation.align()
    owners = federation.group.owners
    rows = {owner: federation.tables[owner].rows for owner in owners}
    common = outcome.results[owners[0]].rows
    if as_json:
        say_json({"common": common, "rows": rows, "bytes": outcome.bytes_sent, "rounds": outcome.rounds})
        return
    say(f"{agreed.name}: the parties have {common} people in common.")
    for owner in owners:
        say(f"  {owner} holds {rows[owner]}, of which {common} take part")
    say("Nothing was charged; every ledger says that ids were compared.")
    say(f"Sent: {outcome.bytes_sent} bytes in {outcome.rounds} rounds.")
