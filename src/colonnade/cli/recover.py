"""`colonnade recover`: finish the folder of a run that was stopped after its release was paid for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from colonnade.cli.options import AS_JSON, VERBOSE
from colonnade.runs.begun import put_away
from colonnade.runs.failures import FAILED, failure_text
from colonnade.runs.folders import (
    BEGUN,
    MODELS,
    RESERVE,
    draft_of,
    free_name,
    holds_paid,
    left_behind,
    uninterrupted,
)
from colonnade.runs.run_folders import RUNS
from colonnade.cli.screen import say, say_json, width
from colonnade.errors import ModelError

EXAMPLE = """
What a run opens is on the disk before anything is made of it. If the run is stopped or killed after that, `colonnade
runs` lists it, and this makes model, facts and report of what it had kept. Nothing is run or charged.

Example:

  colonnade recover runs/first
"""


def recover(
    run: Path = typer.Argument(
        ..., metavar="RUN", help="The folder that the run was to write, or its name in runs."
    ),
    verbose: bool = VERBOSE,
    as_json: bool = AS_JSON,
) -> None:
    """Finish a run that was stopped after its release was paid for."""
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


recover.__doc__ = f"{recover.__doc__}\n{EXAMPLE}"


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
    from colonnade.federation.own_files import PAID

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
