"""`colonnade train`: from a job file to a model and a report."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from colonnade.cli.screen import progress, say, say_json
from colonnade.errors import JobError, PlanError

EXAMPLE = """
Example:

  colonnade train job.toml --output runs/first

Each party's file is NAME.toml beside the job, or given with --party. All parties run in this process, each with
its own table and ledger, and talk only through their channels.
"""


def train(
    job: Path = typer.Argument(..., help="The job file (TOML): parties, task, method, epsilon, delta."),
    party: list[Path] = typer.Option([], "--party", "-p", help="A party's own file; repeat for each party."),
    output: Path | None = typer.Option(None, "--output", "-o", help="Folder for model, report and facts."),
    as_json: bool = typer.Option(False, "--json", help="Print the facts as JSON."),
) -> None:
    """Train one private model on the columns of all parties of a job."""
    facts = train_job(job, party, output, quiet=as_json)
    if as_json:
        say_json(facts)
        return
    from colonnade.report.text import run_text

    say(run_text(facts))
    say(f"\nReport: {facts['report']}")


train.__doc__ = f"{train.__doc__}\n{EXAMPLE}"


def train_job(job_path: Path, given: list[Path], output: Path | None, *, quiet: bool) -> dict[str, Any]:
    """Train as a job file says, write the run's folder, and return its facts."""
    from colonnade.learn.jobs import Job, federation_of, party_files
    from colonnade.learn.training import fit_job
    from colonnade.report.facts import run_facts

    job = Job.load(job_path)
    files = party_files(job, given)
    folder = output or Path("runs") / f"{job.path.stem}"
    if folder.exists():
        raise JobError(f"{folder} exists already; a run never overwrites another. Name another --output.")
    federation = federation_of(job, files)
    if job.active != federation.group.active and job.task != "pca":
        raise PlanError(
            f"{job.path}, active: found {job.active!r}, but the schemas say that "
            f"{federation.group.active or 'nobody'} holds the label. Make them agree."
        )
    with progress(not quiet) as advance:
        federation.progress = advance
        trained = fit_job(job, federation, public=all(file.public for file in files.values()))
    facts = run_facts(
        federation.runs[-1],
        federation,
        name=job.name,
        learnt=trained.learnt,
        measured=trained.measured,
    )
    write_run(folder, facts, trained.release.save)
    return facts


def write_run(folder: Path, facts: dict[str, Any], save_release: Callable[[Path], None]) -> None:
    """Write a run's folder whole, or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        facts["report"] = str(folder / "report.html")
        save_release(partial / "release.npz")
        write_report(partial, facts)
        partial.chmod(0o755)
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def write_report(folder: Path, facts: dict[str, Any]) -> None:
    """The page and the facts behind it, each replaced in one step."""
    from colonnade.report.html import run_page

    texts = {
        "report.html": run_page(facts),
        "facts.json": json.dumps(facts, ensure_ascii=False, indent=1, default=float),
    }
    for name, text in texts.items():
        partial = folder / f".{name}.partial"
        partial.write_text(text, encoding="utf-8")
        partial.replace(folder / name)
