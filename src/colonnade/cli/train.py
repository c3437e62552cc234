"""`colonnade train`: from a job file to a model and a report."""

from __future__ import annotations

from pathlib import Path

from colonnade.cli.screen import PARTY_FILES, VERBOSE, Answer, argument, option, progress
from colonnade.report.plain import wrapped


def train(
    job: Path = argument("JOB", "The job file (TOML): parties, task, method, epsilon, delta."),
    party: list[Path] = PARTY_FILES,
    output: Path | None = option(
        "--output -o FOLDER", "A new folder for release, report and facts; runs/NAME-OF-JOB if left out."
    ),
    verbose: bool = VERBOSE,
) -> Answer:
    """Train one private model on the columns of all parties of a job.

    Each party's own file is NAME.toml beside the job, or given with --party. All parties run in this process, each with
    its own table and ledger, and talk only through their channels.

    Example (`colonnade demo` writes such files):
      colonnade train demo-run/job.toml --output runs/first
    """
    from colonnade.report.text import run_text
    from colonnade.runs.train_job import train_job

    record, more = train_job(job, party, output, progress=progress)
    # What the run brought comes first.
    method, because = more["taken"]["method"], more["taken"]["because"]
    further = [f"The job names no method, so it took {method}: {because}."] if because else []
    further += [
        f"{ledger} is new: what {name} spends is counted from this run on."
        for name, ledger in more["new_ledgers"].items()
    ]

    def text(wide: int | None) -> str:
        notify = "\n".join(["\n", *wrapped(further, wide, indent="")]) if further else ""
        return f"{run_text(record, width=wide, verbose=verbose)}{notify}\n\nReport: {more['report']}"

    return Answer(record.to_data() | more, text)
