"""`colonnade synthesize`: a table of invented people that agrees with a run's release."""

from __future__ import annotations

from pathlib import Path

import typer

from colonnade.cli.options import AS_JSON, LABEL
from colonnade.cli.screen import progress, say, say_json
from colonnade.runs.run_folders import release_of


def synthesize(
    run: Path = typer.Argument(..., metavar="RUN", help="The folder of a run, or its name within runs."),
    output: Path = typer.Option(..., "--output", "-o", metavar="FILE", help="A new .parquet or .csv file."),
    rows: int = typer.Option(..., "--rows", "-n", metavar="N", help="How many invented people."),
    columns: list[str] = typer.Option(
        [], "--columns", "-c", metavar="NAME", help="Only this column and others so named; repeat."
    ),
    seed: int | None = typer.Option(None, "--seed", metavar="N", help="Draw the same people again."),
    label: str | None = LABEL,
    as_json: bool = AS_JSON,
) -> None:
    """Write a table of invented people that agrees with a run's release, at no cost.

    The table has the columns of all parties in their own units and spellings, and agrees with the release in every
    column and every pair of columns, up to the release's noise. It is computed from the release alone: no data is read,
    nothing is charged, and it may be shared as the release may. A manifest is written beside it.

    Every column must be binary, categorical or in bins; a number that is not in bins has no table. --columns leaves
    columns out.

    Example (RUN is of a job whose numbers are declared in ordered bins):

      colonnade synthesize runs/first --rows 50000 --output table.parquet
    """
    from colonnade.models.tables.synthetic import checked_rows, checked_target

    checked_rows(rows)
    checked_target(output)
    release = release_of(run).for_label(label)
    if columns:
        release = release.select(columns)
    with progress(not as_json) as advance:
        table = release.synthesize(rows, seed=seed, progress=advance)
    beside = table.save(output)
    if as_json:
        say_json({**table.manifest, "output": str(output), "manifest": str(beside)})
        return
    fit = table.manifest["fit"]
    say(f"Table: {output}, {rows} invented people, {len(table.columns)} columns")
    say(f"Manifest: {beside}")
    say(
        f"Distance to the release: {fit['residual_over_noise']:.2f} of what its noise would leave "
        f"({fit['residual_of_unrelated_columns']:.3g} if columns had nothing to do with each other)"
    )
    for heading, lines in (("", table.manifest["notes"]), ("\nNot to do", table.manifest["not_to_do"])):
        if heading:
            say(heading)
        for line in lines:
            say(f"- {line}")
    say("\nNothing was charged: it says no more than the release, of which this holds")
    for sentence in table.manifest["privacy"]:
        say(sentence)
