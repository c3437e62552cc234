"""`colonnade runs`: what was run, and how it ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from colonnade.cli.options import AS_JSON
from colonnade.cli.runs.begun import killed_in
from colonnade.cli.runs.run_folders import (
    RUNS,
    RunFolder,
    is_run,
    not_ended_in,
    read_run,
    runs_in,
    unfinished_in,
)
from colonnade.cli.screen import say, say_json, width
from colonnade.errors import InputError

EXAMPLE = """
A run that is unfinished was stopped after its release was paid for; `colonnade recover` finishes it. One that was
killed when it was charged, before it had kept anything, is listed as failed; `recover` puts its record in its place.

Example:

  colonnade runs runs

Of a kit, the runs that its member took part in (`colonnade runs --kit bank/kit`); each one's folder can be given to
`show`, `report`, `predict`, `export` and `audit`.
"""


def runs(
    folder: Path = typer.Argument(RUNS, metavar="[FOLDER]", help="The folder that runs were written into."),
    kit: Path | None = typer.Option(
        None, "--kit", "-k", metavar="KIT", help="A party's or the server's kit, whose runs to list."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """List the runs in a folder or of a kit: name, task, ε, rows, score, date and how they ended."""
    if kit is not None:
        from colonnade.runtime.kit import Kit

        if folder != RUNS:
            raise typer.BadParameter("give a FOLDER, or --kit KIT, and not both.")
        folder = kit / Kit.load(kit).runs.name
    if kit is not None and not folder.exists():
        places: tuple[Path, ...] = ()
    elif not folder.is_dir():
        from colonnade.data.presence import nearest_file

        wrong = "is a file, not a folder" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {wrong}.{nearest_file(folder) if not folder.exists() else ''}")
    else:
        places = (folder,) if is_run(folder) else runs_in(folder)
    killed = (RunFolder(name, facts) for name, facts in killed_in(folder).items())
    ended = (*map(read_or_damaged, places), *unfinished_in(folder), *killed)
    listed = [run_line(run) for run in (*ended, *(() if kit is None else not_ended_in(folder)))]
    if as_json:
        say_json({"folder": str(folder), "runs": listed})
        return
    if not listed:
        made = "`colonnade train JOB` makes one" if kit is None else "its member took part in no job yet"
        say(f"There are no runs in {folder}; {made}.")
        return
    from colonnade.report.plain import table_lines

    rows = [tuple("" if value is None else str(value) for value in line.values()) for line in listed]
    for text in table_lines([tuple(listed[0]), *rows], width()):
        say(text)


runs.__doc__ = f"{runs.__doc__}\n{EXAMPLE}"


def read_or_damaged(place: Path) -> RunFolder:
    """The run in a folder; one that cannot be read is told as that."""
    try:
        return read_run(place)
    except InputError:
        # One damaged run must not hide the others; `show` says what is wrong with it.
        return RunFolder(place, {"state": "unreadable"})


def run_line(run: RunFolder) -> dict[str, Any]:
    """One run as a line of a list: what was asked, how good it is, when it was and how it ended."""
    facts = run.facts
    from colonnade.report.evaluation import score_text

    plan = facts.get("plan")
    epsilon = plan.get("epsilon") if isinstance(plan, dict) else facts.get("epsilon")
    return {
        "run": str(run.path),
        "name": facts.get("job") if run.noted else facts.get("name"),
        "task": facts.get("task"),
        "epsilon": epsilon,
        "rows": facts.get("rows"),
        "score": score_text(facts),
        "date": str(facts.get("time", facts.get("started", "")))[:19].replace("T", " "),
        "state": "unreadable" if facts.get("state") == "unreadable" else run.state,
    }
