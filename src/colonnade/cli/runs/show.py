"""`colonnade show`: the facts of one run, as text or JSON."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import typer

from colonnade.cli.options import AS_JSON, LABEL, VERBOSE
from colonnade.cli.screen import note, say, say_json, width
from colonnade.runs.failures import failure_text
from colonnade.runs.run_folders import RunFolder, find_run, noted_text, readable


def show(
    run: Path = typer.Argument(..., metavar="RUN", help="The folder of a run, or its name within runs."),
    label: str | None = LABEL,
    verbose: bool = VERBOSE,
    as_json: bool = AS_JSON,
) -> None:
    """Show what a run learnt, what it cost, and what each observer could learn from it.

    Of a run that failed half way it says where it stopped and what each ledger had been charged by then. A run of a kit
    is shown as its member knows it: KIT/runs/JOB-ID.

    Example (`colonnade demo` makes such a run):

      colonnade show demo-run/run
    """
    folder = find_run(run)
    tell_unsealed(folder)
    if label is not None:
        from colonnade.report.labels import facts_of_label

        folder = replace(folder, facts=facts_of_label(folder.facts, label))
    if as_json:
        say_json(folder.facts)
        return
    with readable(folder):
        if folder.noted:
            say(noted_text(folder))
            return
        if folder.failed:
            say(failure_text(folder.facts, width=width()))
            return
        from colonnade.report.text import run_text

        text = run_text(folder.facts, width=width(), verbose=verbose)
    say(text)


UNSEALED = (
    "{path} has no digest, so a change to it would not be seen: an earlier version wrote it, or the digest was taken "
    "out. What each party was charged is in its ledger."
)


def tell_unsealed(run: RunFolder) -> None:
    """Say of facts that nothing shows whether they were changed."""
    if run.unsealed:
        note(UNSEALED.format(path=run.record))
