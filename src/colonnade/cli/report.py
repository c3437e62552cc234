"""`colonnade report`: the page of a run, made again from its facts."""

from __future__ import annotations

import tempfile
from pathlib import Path

import typer

from colonnade.cli.failures import charged_text, where_text
from colonnade.cli.run_folders import RunFolder, find_run, readable
from colonnade.cli.screen import say, say_json
from colonnade.errors import CannotWrite, InputError, NameTaken

EXAMPLE = """
The page is made from facts.json alone: no data is read, nothing is run and nothing is charged.

Example (`colonnade demo` makes such a run):

  colonnade report demo-run/run --output page.html
"""


def report(
    run: Path = typer.Argument(..., metavar="RUN", help="The folder of a run, or its name within runs."),
    output: Path | None = typer.Option(
        None, "--output", "-o", metavar="FILE", help="A new file for the page; RUN/report.html if left out."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object instead of text."),
) -> None:
    """Make the page of a run again from its facts."""
    found = find_run(run)
    if found.failed:
        raise InputError(_failed(found))
    if output is not None and (output.exists() or output.is_symlink()):
        raise NameTaken(f"--output: {output} exists already. Name another file.")
    with readable(found):
        from colonnade.report.html import run_page

        page = run_page(found.facts)
    target = output or found.path / "report.html"
    _write(target, page)
    if as_json:
        say_json({"run": str(found.path), "report": str(target)})
        return
    say(f"Report: {target}")


report.__doc__ = f"{report.__doc__}\n{EXAMPLE}"


def _failed(run: RunFolder) -> str:
    with readable(run):
        return (
            f"{run.path} has no report, because the run failed half way. {where_text(run.facts)} "
            f"{charged_text(run.facts)} `colonnade show {run.path}` has the rest."
        )


def _write(target: Path, page: str) -> None:
    """The page under its name, whole or not at all."""
    draft = None
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=target.parent, prefix=f".{target.name}.", delete=False
        ) as file:
            draft = Path(file.name)
            file.write(page)
        draft.chmod(0o644)
        draft.replace(target)
    except OSError as error:
        if draft is not None:
            draft.unlink(missing_ok=True)
        raise CannotWrite(
            f"{target} cannot be written ({error.strerror}). Name another file with --output."
        ) from None
