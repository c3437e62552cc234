"""The process that rehearses a plan for the board: a question comes in as JSON, progress and an answer go out.

A rehearsal takes every core and measures memory, so it has a process of its own, which can also be ended. It reads
schemas, and of the parties whose files are named their ledgers. It writes nothing, and no row is read.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from colonnade.cli.plan.facts import plan_facts
from colonnade.data.documents import without_passwords
from colonnade.data.schema import PublicSchema
from colonnade.errors import ColonnadeError
from colonnade.federation.job import Job
from colonnade.federation.party_file import PartyFile
from colonnade.federation.records import plain

# Whoever waits for a run on this machine comes first.
_NICE = 10


def forecast_of(asked: dict[str, Any], advance: Any) -> dict[str, Any]:
    """The facts of the plan that is asked for."""
    job = Job.parse(asked["job"], name=asked["name"])
    schemas = {party: PublicSchema.from_data(data) for party, data in asked["schemas"].items()}
    files = {file.party: file for file in map(PartyFile.load, map(Path, asked["files"]))}
    return plan_facts(
        job,
        {party: schemas[party] for party in job.parties},
        files=files,
        rows=asked["rows"],
        held=dict.fromkeys(job.parties, asked["rows"]),
        named=None if asked["every"] else frozenset(),
        effort=asked["effort"],
        advance=advance,
    )


def main() -> None:
    """Read one question from standard input, and answer it on standard output, line by line."""
    answers = sys.stdout

    def say(line: dict[str, Any]) -> None:
        answers.write(json.dumps(plain(line)) + "\n")
        answers.flush()

    try:
        asked = json.loads(sys.stdin.read())
        facts = forecast_of(asked, lambda _step, done, total: say({"done": done, "total": total}))
        say({"facts": facts})
    except ColonnadeError as error:
        say({"error": without_passwords(str(error)), "number": error.number})


if __name__ == "__main__":
    os.nice(_NICE)
    main()
