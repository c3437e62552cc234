"""`colonnade recover`: finish the folder of a run that was stopped after its release was paid for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from colonnade.cli.options import AS_JSON, VERBOSE
from colonnade.cli.screen import say, say_json, width
from colonnade.runs.failures import failure_text
from colonnade.runs.folders import MODELS
from colonnade.runs.recovery import put_away, recovered
from colonnade.runs.run_folders import RUNS


def recover(
    run: Path = typer.Argument(
        ..., metavar="RUN", help="The folder that the run was to write, or its name in runs."
    ),
    verbose: bool = VERBOSE,
    as_json: bool = AS_JSON,
) -> None:
    """Finish a run that was stopped after its release was paid for.

    What a run opens is on the disk before anything is made of it. If the run is stopped or killed after that,
    `colonnade runs` lists it, and this makes model, facts and report of what it had kept. Nothing is run or charged.

    Example:

      colonnade recover runs/first
    """
    from colonnade.report.run_folder import REPORT

    for name in (run, RUNS / run):
        if name.name and (killed := put_away(name)) is not None:
            _say_killed(*killed, as_json=as_json)
            return
    place, facts = recovered(run)
    if facts is None:
        kept = sorted(str(path) for path in (place / MODELS).iterdir())
        if as_json:
            say_json({"models": kept})
        else:
            say(f"A comparison was stopped. What it was charged for by then: {', '.join(kept)}.")
        return
    facts["report"] = str(place / REPORT)
    if as_json:
        say_json(facts)
        return
    from colonnade.report.text import run_text

    say(f"{run_text(facts, width=width(), verbose=verbose)}\n\nReport: {facts['report']}")


def _say_killed(place: Path, facts: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        say_json(facts)
    elif facts["charged"]:
        say(
            f"{failure_text(facts, width=width())}\n\nNothing was kept that could be recovered. The record is in "
            f"{place}."
        )
    else:
        say(
            f"The run that was to be {place} was killed before any ledger was charged. Nothing is left of it."
        )
