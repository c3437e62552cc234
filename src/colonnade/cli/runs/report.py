"""`colonnade report`: the page of a run, made again from its facts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import typer

from colonnade.cli.options import AS_JSON, LABEL
from colonnade.cli.runs.show import tell_unsealed
from colonnade.cli.screen import say, say_json
from colonnade.errors import CannotWrite, InputError, NameTaken
from colonnade.runs.failures import charged_text, where_text
from colonnade.runs.run_folders import RunFolder, find_run, page_of, readable, with_facts


def report(
    run: Path = typer.Argument(..., metavar="RUN", help="The folder of a run, or its name within runs."),
    output: Path | None = typer.Option(
        None, "--output", "-o", metavar="FILE", help="A new file for the page; RUN/report.html if left out."
    ),
    beside: list[Path] = typer.Option(
        [],
        "--with",
        metavar="FOLDER",
        help="A folder that `colonnade attack` or `colonnade compare` made on the same data, to show as well; repeat.",
    ),
    label: str | None = LABEL,
    as_json: bool = AS_JSON,
) -> None:
    """Make the page of a run again from its facts.

    The page is made from facts.json, and from audit.json where `colonnade audit` was run since: no data is read,
    nothing is run and nothing is charged.

    Example (`colonnade demo` makes such a run):

      colonnade report demo-run/run --output page.html
    """
    folder = with_facts(find_run(run))
    if folder.failed:
        raise InputError(_failed(folder))
    tell_unsealed(folder)
    if output is not None and (output.exists() or output.is_symlink()):
        raise NameTaken(f"--output: {output} exists already. Name another file.")
    if label is not None:
        from colonnade.report.labels import facts_of_label

        folder = replace(folder, facts=facts_of_label(folder.facts, label))
    with readable(folder):
        page = page_of(folder, beside)
    target = output or folder.path / "report.html"
    write_page(target, page)
    if as_json:
        say_json({"run": str(folder.path), "report": str(target)})
        return
    say(f"Report: {target}")


def _failed(run: RunFolder) -> str:
    with readable(run):
        return (
            f"{run.path} has no report, because the run failed half way. {where_text(run.facts)} "
            f"{charged_text(run.facts)} `colonnade show {run.path}` has the rest."
        )


def write_page(target: Path, page: str) -> None:
    """A text under its name, whole or not at all."""
    from colonnade.federation.whole_files import write_whole

    try:
        write_whole(target, page)
    except OSError as error:
        raise CannotWrite(
            f"{target} cannot be written ({error.strerror}). Name another file with --output."
        ) from None
