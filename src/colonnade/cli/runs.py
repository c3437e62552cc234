"""Verbs over runs that have ended: `runs`, `show`, `report` and `recover`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import typer

from colonnade.cli.screen import LABEL, RUN, VERBOSE, Answer, argument, check_free, option
from colonnade.errors import InputError
from colonnade.report.plain import table_lines
from colonnade.runs import reading, recovery
from colonnade.runs.drafts import write_named


def recover(
    run: Path = argument("RUN", "The folder that the run was to write, or its name in runs."),
    verbose: bool = VERBOSE,
) -> Answer:
    """Finish a run that was stopped after its release was paid for.

    What a run opens is on the disk before anything is made of it. If the run is stopped or killed after that,
    `colonnade runs` lists it, and this makes model, facts and report of what it had kept. Nothing is run or charged.

    Example:
      colonnade recover runs/first
    """
    from colonnade.report.text import run_text
    from colonnade.runs.writing import REPORT

    killed = next(
        filter(None, (recovery.put_away(name) for name in (run, reading.RUNS / run) if name.name)), None
    )
    if killed is not None:
        where, failure = killed
        nothing = f"Nothing was kept that could be recovered. The record is in {where}."
        if not failure.charged:
            early = f"The run that was to be {where} was killed before any ledger was charged."
            return Answer(failure.to_data(), f"{early} Nothing is left of it.")
        return Answer(
            failure.to_data(), lambda wide: f"{recovery.failure_text(failure, width=wide)}\n\n{nothing}"
        )
    place, record = recovery.recovered(run)
    report = str(place / REPORT)
    return Answer(
        {**record.to_data(), "report": report},
        lambda wide: f"{run_text(record, width=wide, verbose=verbose)}\n\nReport: {report}",
    )


def runs(
    folder: Path = argument("[FOLDER]", "The folder that runs were written into.", reading.RUNS),
    kit: Path | None = option("--kit -k KIT", "A party's or the server's kit, whose runs to list."),
) -> Answer:
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

        if folder != reading.RUNS:
            raise typer.BadParameter("give a FOLDER, or --kit KIT, and not both.")
        folder = kit / Kit.load(kit).runs.name
    if kit is not None and not folder.exists():
        places: tuple[Path, ...] = ()
    elif not folder.is_dir():
        from colonnade.data.documents import nearest_file

        wrong = "is a file, not a folder" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {wrong}.{nearest_file(folder) if not folder.exists() else ''}")
    else:
        places = (folder,) if reading.is_run(folder) else reading.runs_in(folder)
    killed = (reading.RunFolder(name, facts) for name, facts in recovery.killed_in(folder).items())
    ended = (*map(reading.read_or_damaged, places), *reading.unfinished_in(folder), *killed)
    listed = [
        reading.run_line(run) for run in (*ended, *(() if kit is None else reading.not_ended_in(folder)))
    ]
    data = {"folder": str(folder), "runs": listed}
    if not listed:
        hint = "`colonnade train JOB` makes one" if kit is None else "its member took part in no job yet"
        return Answer(data, f"There are no runs in {folder}; {hint}.")

    rows = [tuple("" if value is None else str(value) for value in line.values()) for line in listed]
    return Answer(data, lambda wide: "\n".join(table_lines([tuple(listed[0]), *rows], wide)))


def show(run: Path = RUN, label: str | None = LABEL, verbose: bool = VERBOSE) -> Answer:
    """Show what a run learnt, what it cost, and what each observer could learn from it.

    Of a run that failed half way it says where it stopped and what each ledger had been charged by then. A run of a kit
    is shown as its member knows it: KIT/runs/JOB-ID.

    Example (`colonnade demo` makes such a run):
      colonnade show demo-run/run
    """
    folder = _of_label(reading.find_run(run), label)

    def text(wide: int | None) -> str:
        with reading.readable(folder):
            if folder.recorded:
                return reading.recorded_text(folder)
            if folder.failed:
                return recovery.failure_text(folder.failure, width=wide)
            from colonnade.report.text import run_text

            return run_text(folder.run, width=wide, verbose=verbose)

    return Answer(folder.facts, text)


def _of_label(run: reading.RunFolder, label: str | None) -> reading.RunFolder:
    """The run with the model of one of its labels in the first's place."""
    if label is None:
        return run
    from colonnade.report.text import record_of_label

    with reading.readable(run):
        return replace(run, facts=record_of_label(run.run, label).to_data())


def report(
    run: Path = RUN,
    output: Path | None = option("--output -o FILE", "A new file for the page; RUN/report.html if left out."),
    alongside: list[Path] = option(
        "--with FOLDER",
        "A folder that `colonnade attack` or `colonnade compare` made on the same data, to show as well; repeat.",
        [],
    ),
    label: str | None = LABEL,
) -> Answer:
    """Make the page of a run again from its facts.

    The page is made from facts.json, and from audit.json where `colonnade audit` was run since: no data is read,
    nothing is run and nothing is charged.

    Example (`colonnade demo` makes such a run):
      colonnade report demo-run/run --output page.html
    """
    folder = reading.with_facts(reading.find_run(run))
    if folder.failed:
        with reading.readable(folder):
            failed = f"{recovery.where_text(folder.failure)} {recovery.charged_text(folder.failure)}"
        raise InputError(
            f"{folder.path} has no report, because the run failed half way. {failed} `colonnade show {folder.path}` "
            "has the rest."
        )
    check_free(output)
    folder = _of_label(folder, label)
    with reading.readable(folder):
        page = reading.page_of(folder, alongside)
    target = output or folder.path / "report.html"
    write_named(target, page, option="" if output is None else "--output")
    return Answer({"run": str(folder.path), "report": str(target)}, f"Report: {target}")
