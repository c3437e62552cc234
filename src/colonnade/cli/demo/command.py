"""`colonnade demo`: two organisations, one private model, one page, in under a minute."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import typer

from colonnade.cli.options import AS_JSON, VERBOSE
from colonnade.cli.runs.folders import new_folder
from colonnade.cli.screen import say, say_json, width
from colonnade.errors import InputError

FOLDER = Path("demo-run")
EXAMPLE = """
Example:

  colonnade demo --epsilon 2
"""


def demo(
    output: Path | None = typer.Option(
        None,
        "--output",
        "-o",
        metavar="FOLDER",
        help="A new folder for the demonstration's files; demo-run if left out.",
    ),
    epsilon: float = typer.Option(1.0, "--epsilon", metavar="ε", help="The ε of the release."),
    verbose: bool = VERBOSE,
    as_json: bool = AS_JSON,
) -> None:
    """Train on public breast cancer data split between a clinic and a laboratory, and show what it cost."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise InputError(f"--epsilon: found {epsilon:g}; it must be greater than 0. A common choice is 1.")
    with new_folder(output or FOLDER, numbered=output is None) as folder:
        facts = _facts(folder.draft, epsilon, quiet=as_json)
        finished = folder.finish()
    facts["report"] = str(finished / "run" / "report.html")
    if as_json:
        say_json(facts)
        return
    from colonnade.cli.demo.files import NEW_PEOPLE, VISITS
    from colonnade.report.text import run_text

    say(run_text(facts, width=width(), verbose=verbose))
    say(
        f"\nTables, schemas, job and ledgers are in {finished}. Go on with\n"
        f"  colonnade predict {finished / 'run'} --rows {finished / NEW_PEOPLE} --id patient\n"
        f"  colonnade predict {finished / 'run'} {finished / VISITS / 'job.toml'}\n"
        f"  colonnade ledger {finished / 'clinic.toml'}\n"
        f"  colonnade train {finished / 'job.toml'}\n"
        f"\nReport: {facts['report']}"
    )


demo.__doc__ = f"{demo.__doc__}\n{EXAMPLE}"


def _facts(folder: Path, epsilon: float, *, quiet: bool) -> dict[str, Any]:
    """Write the files, train as `colonnade train` would, and measure on the people held out."""
    from colonnade.cli.demo.files import write_demo
    from colonnade.cli.train import train_job
    from colonnade.models.logistic import LogisticRegression
    from colonnade.models.release import MomentRelease
    from colonnade.report.run_folder import write_report
    from colonnade.report.verdict import COMMONEST, NON_PRIVATE

    files = write_demo(folder, epsilon=epsilon)
    facts = train_job(files.job, [], folder / "run", quiet=quiet)
    release = MomentRelease.load(folder / "run" / "release.npz")
    model = LogisticRegression().fit(release)
    facts["measured"] = {
        "private model, accuracy on people held out": float(model.score(files.test_rows, files.test_labels)),
        NON_PRIVATE: _non_private(release, files),
        COMMONEST: Counter(files.test_labels.tolist()).most_common(1)[0][1] / len(files.test_labels),
    }
    write_report(folder / "run", facts)
    return facts


def _non_private(release: Any, files: Any) -> float:
    """scikit-learn's logistic regression with everybody's rows in one place: what privacy is compared with."""
    from sklearn.linear_model import LogisticRegression as Central

    from colonnade.federation.job import Job
    from colonnade.federation.party_file import federation_of, party_files
    from colonnade.federation.train import joined_rows
    from colonnade.methods.method import frame_of

    job = Job.load(files.job)
    rows, labels = joined_rows(federation_of(job, party_files(job)).tables, frame_of(release))
    central = Central(max_iter=2000).fit(rows, labels)
    return float(central.score(release.features(files.test_rows), files.test_labels))
