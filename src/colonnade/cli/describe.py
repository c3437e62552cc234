"""`colonnade describe`: what a run's release says of its columns."""

from __future__ import annotations

from pathlib import Path

import typer

from colonnade.cli.options import AS_JSON, LABEL
from colonnade.cli.runs.report import write_page
from colonnade.cli.screen import say, say_json, width
from colonnade.errors import NameTaken
from colonnade.runs.run_folders import release_of


def describe(
    run: Path = typer.Argument(..., metavar="RUN", help="The folder of a run, or its name within runs."),
    output: Path | None = typer.Option(
        None, "--output", "-o", metavar="FILE", help="A new file for a page with pictures."
    ),
    columns: list[str] = typer.Option(
        [], "--columns", "-c", metavar="NAME", help="Only this column and others so named; repeat."
    ),
    label: str | None = LABEL,
    as_json: bool = AS_JSON,
) -> None:
    """Say what a run's release says of its columns, one and two at a time, at no cost.

    Shares and means of every column, correlations and two-way tables of every pair, each with ± from the release's
    noise; variance inflation, and by class weight of evidence and information value. For columns in bins and
    categories: of other numbers a release does not know how many people are where, and they are named as left out.

    It is computed from the release alone: no data is read and nothing is charged.

    Example (RUN is of a job whose numbers are declared in ordered bins):

      colonnade describe runs/first --output columns.html
    """
    if output is not None and (output.exists() or output.is_symlink()):
        raise NameTaken(f"--output: {output} exists already. Name another file.")
    release = release_of(run).for_label(label)
    if columns:
        release = release.select(columns)
    from colonnade.report.describing import description_facts, description_page, description_text

    facts = description_facts(release, name=f"Columns of {run}")
    if output is not None:
        write_page(output, description_page(facts))
    if as_json:
        say_json({**facts, "output": None if output is None else str(output)})
        return
    say(description_text(facts, width=width()))
    if output is not None:
        say(f"\nPage: {output}")
