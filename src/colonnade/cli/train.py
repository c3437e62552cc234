"""`colonnade train`: from a job file to a model and a report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from colonnade.cli.folders import free_name, new_folder, uninterrupted
from colonnade.cli.screen import plain, progress, say, say_json, width

RUNS = Path("runs")
EXAMPLE = """
Each party's own file is NAME.toml beside the job, or given with --party. All parties run in this process, each with
its own table and ledger, and talk only through their channels.

Example (`colonnade demo` writes such files):

  colonnade train demo-run/job.toml --output runs/first
"""


def train(
    job: Path = typer.Argument(
        ..., metavar="JOB", help="The job file (TOML): parties, task, method, epsilon, delta."
    ),
    party: list[Path] = typer.Option(
        [], "--party", "-p", metavar="FILE", help="A party's own file (TOML); repeat for each party."
    ),
    output: Path | None = typer.Option(
        None,
        "--output",
        "-o",
        metavar="FOLDER",
        help="A new folder for release, report and facts; runs/NAME-OF-JOB if left out.",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object instead of text."),
) -> None:
    """Train one private model on the columns of all parties of a job."""
    facts = train_job(job, party, output, quiet=as_json)
    if as_json:
        say_json(facts)
        return
    from colonnade.report.text import run_text

    say(f"{run_text(facts, width=width())}\n\nReport: {facts['report']}")


train.__doc__ = f"{train.__doc__}\n{EXAMPLE}"


def train_job(job_path: Path, given: list[Path], output: Path | None, *, quiet: bool) -> dict[str, Any]:
    """Train as a job file says, write the run's folder, and return its facts."""
    from colonnade.learn.jobs import Job
    from colonnade.learn.party_files import federation_of, party_files
    from colonnade.learn.training import release_of, train_on
    from colonnade.report.facts import run_facts

    job = Job.load(job_path)
    files = party_files(job, given)
    with new_folder(output or free_name(RUNS / job.path.stem)) as folder:
        federation = federation_of(job, files)
        with progress(not quiet) as advance:
            federation.progress = advance
            release = release_of(job, federation)
        with uninterrupted():
            release.save(folder.draft / "release.npz")
            trained = train_on(release, job, federation, public=all(file.public for file in files.values()))
            failure = trained.failure
            facts = run_facts(
                federation.runs[-1],
                federation,
                name=job.name,
                learnt=trained.learnt,
                measured=trained.measured,
                notes=(*trained.notes, *([f"No model was learnt: {failure}"] if failure else [])),
            )
            write_report(folder.draft, facts)
            finished = folder.finish()
            facts["report"] = str(finished / "report.html")
    if failure is not None:
        raise type(failure)(f"{failure} The release was paid for and is good: {finished / 'release.npz'}.")
    return facts


def write_report(folder: Path, facts: dict[str, Any]) -> None:
    """The page, and the facts behind it."""
    from colonnade.report.html import run_page

    text = json.dumps(plain(facts), ensure_ascii=False, indent=1, allow_nan=False)
    (folder / "report.html").write_text(run_page(facts), encoding="utf-8")
    (folder / "facts.json").write_text(text, encoding="utf-8")
