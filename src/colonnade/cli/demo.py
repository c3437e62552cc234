"""`colonnade demo`: two organisations, one private model, one page, in under a minute."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import typer

from colonnade.cli.screen import say, say_json
from colonnade.errors import JobError

EXAMPLE = """
Example:

  colonnade demo --epsilon 2
"""


def demo(
    output: Path = typer.Option(
        Path("demo-run"), "--output", "-o", help="Folder for the demonstration's files."
    ),
    epsilon: float = typer.Option(1.0, "--epsilon", help="The ε of the release."),
    as_json: bool = typer.Option(False, "--json", help="Print the facts as JSON."),
) -> None:
    """Train on public breast cancer data split between a clinic and a laboratory, and show what it cost."""
    from colonnade.cli.demo_files import write_demo
    from colonnade.cli.train import train_job, write_report
    from colonnade.learn.logistic import LogisticRegression
    from colonnade.learn.release import MomentRelease
    from colonnade.report.text import run_text

    _clear(output)
    files = write_demo(output, epsilon=epsilon)
    facts = train_job(files.job, [], output / "run", quiet=as_json)
    release = MomentRelease.load(output / "run" / "release.npz")
    model = LogisticRegression().fit(release)
    facts["measured"] = {
        "private model, accuracy on held-out people": float(model.score(files.test_rows, files.test_labels)),
        "non-private model, accuracy on held-out people": _non_private(release, output, files),
    }
    write_report(output / "run", facts)
    if as_json:
        say_json(facts)
        return
    say(run_text(facts))
    say(f"\nEverything is in {output}: tables, schemas, job, ledgers.\nReport: {facts['report']}")


demo.__doc__ = f"{demo.__doc__}\n{EXAMPLE}"


def _non_private(release: Any, output: Path, files: Any) -> float:
    """scikit-learn's logistic regression with everybody's rows in one place: what privacy is compared with."""
    from sklearn.linear_model import LogisticRegression as Central

    from colonnade.learn.jobs import Job, federation_of, party_files
    from colonnade.learn.training import joined_rows

    job = Job.load(files.job)
    federation = federation_of(job, party_files(job, []))
    rows, labels = joined_rows(federation, release)
    central = Central(max_iter=2000).fit(rows, labels)
    return float(central.score(release.features(files.test_rows), files.test_labels))


def _clear(output: Path) -> None:
    """Make room for the demonstration, but only where an earlier one was."""
    if not output.exists():
        return
    if not (output / "job.toml").exists() or not (output / "clinic.csv").exists():
        raise JobError(
            f"{output} exists and is not an earlier demonstration. Name another folder with --output."
        )
    shutil.rmtree(output)
