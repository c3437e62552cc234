"""`colonnade show`: the facts of one run, as text or JSON."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import typer

from colonnade.cli.options import AS_JSON, LABEL, VERBOSE
from colonnade.cli.runs.failures import failure_text
from colonnade.cli.runs.run_folders import find_run, noted_text, readable, tell_unsealed
from colonnade.cli.screen import say, say_json, width

EXAMPLE = """
Of a run that failed half way it says where it stopped and what each ledger had been charged by then. A run of a kit is
shown as its member knows it: KIT/runs/JOB-ID.

Example (`colonnade demo` makes such a run):

  colonnade show demo-run/run
"""


def show(
    run: Path = typer.Argument(..., metavar="RUN", help="The folder of a run, or its name within runs."),
    label: str | None = LABEL,
    verbose: bool = VERBOSE,
    as_json: bool = AS_JSON,
) -> None:
    """Show what a run learnt, what it cost, and what each observer could learn from it."""
    found = find_run(run)
    tell_unsealed(found)
    if label is not None:
        from colonnade.report.labels import facts_of_label

        found = replace(found, facts=facts_of_label(found.facts, label))
    if as_json:
        say_json(found.facts)
        return
    with readable(found):
        if found.noted:
            say(noted_text(found))
            return
        if found.failed:
            say(failure_text(found.facts, width=width()))
            return
        from colonnade.report.text import run_text

        text = run_text(found.facts, width=width(), verbose=verbose)
    say(text)


show.__doc__ = f"{show.__doc__}\n{EXAMPLE}"
