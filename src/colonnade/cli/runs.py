"""Verbs over runs that have ended: `runs`, `show`, `report` and `recover`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from colonnade.cli.screen import AS_JSON, LABEL, VERBOSE, note, say, say_json, width
from colonnade.errors import CannotWrite, InputError, NameInUse
from colonnade.runs.folders import MODELS, charged_text, failure_text, where_text
from colonnade.runs.recovery import killed_in, put_away, recovered
from colonnade.runs.run_folders import (
    RUNS,
    RunFolder,
    find_run,
    is_run,
    not_ended_in,
    page_of,
    read_or_damaged,
    readable,
    recorded_text,
    run_line,
    runs_in,
    unfinished_in,
    with_facts,
)


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


def runs(
    folder: Path = typer.Argument(RUNS, metavar="[FOLDER]", help="The folder that runs were written into."),
    kit: Path | None = typer.Option(
        None, "--kit", "-k", metavar="KIT", help="A party's or the server's kit, whose runs to list."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """List the runs in a folder or of a kit: name, task, ε, rows, score, date and how they ended.

    A run that is unfinished was stopped after its release was paid for; `colonnade recover` finishes it. One that was
    killed when it was charged, before it had kept anything, is listed as failed; `recover` puts its record in its
    place.

    Example:

      colonnade runs runs

    Of a kit, the runs that its member took part in (`colonnade runs --kit bank/kit`); each one's folder can be given to
    `show`, `report`, `predict`, `export` and `audit`.
    """
    if kit is not None:
        from colonnade.sites.kit import Kit

        if folder != RUNS:
            raise typer.BadParameter("give a FOLDER, or --kit KIT, and not both.")
        folder = kit / Kit.load(kit).runs.name
    if kit is not None and not folder.exists():
        places: tuple[Path, ...] = ()
    elif not folder.is_dir():
        from colonnade.data.documents import nearest_file

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
        from colonnade.report.text import facts_of_label

        folder = replace(folder, facts=facts_of_label(folder.facts, label))
    if as_json:
        say_json(folder.facts)
        return
    with readable(folder):
        if folder.recorded:
            say(recorded_text(folder))
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


def report(
    run: Path = typer.Argument(..., metavar="RUN", help="The folder of a run, or its name within runs."),
    output: Path | None = typer.Option(
        None, "--output", "-o", metavar="FILE", help="A new file for the page; RUN/report.html if left out."
    ),
    alongside: list[Path] = typer.Option(
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
        raise NameInUse(f"--output: {output} exists already. Name another file.")
    if label is not None:
        from colonnade.report.text import facts_of_label

        folder = replace(folder, facts=facts_of_label(folder.facts, label))
    with readable(folder):
        page = page_of(folder, alongside)
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
    from colonnade.federation.files import write_whole

    try:
        write_whole(target, page)
    except OSError as error:
        raise CannotWrite(
            f"{target} cannot be written ({error.strerror}). Name another file with --output."
        ) from None
