"""`colonnade demo`: two organisations, one private model, one page; of many people and of few, in under a minute."""

from __future__ import annotations

import math
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from colonnade.cli.options import AS_JSON, VERBOSE
from colonnade.cli.screen import say, say_json, width
from colonnade.errors import InputError
from colonnade.runs.folders import new_folder

if TYPE_CHECKING:
    from colonnade.cli.demo.files import Demo

FOLDER = Path("demo-run")


class DemoSize(StrEnum):
    """Whose demonstration it is."""

    many = "many"
    few = "few"
    both = "both"


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
    people: DemoSize = typer.Option(
        DemoSize.both,
        "--people",
        help="Train on the many, on the few patients alone, or on one after the other.",
    ),
    verbose: bool = VERBOSE,
    as_json: bool = AS_JSON,
) -> None:
    """Train on 26,049 invented people of a bank and a registry, then on 455 patients, and show what each cost."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise InputError(f"--epsilon: found {epsilon:g}; it must be greater than 0. A common choice is 1.")
    from colonnade.cli.demo.census import FOLDER as CENSUS
    from colonnade.cli.demo.census import NEW_PEOPLE, write_census
    from colonnade.cli.demo.files import NEW_PATIENTS, VISITS, write_demo

    made: dict[DemoSize, dict[str, Any]] = {}
    with new_folder(output or FOLDER, numbered=output is None) as folder:
        if people is not DemoSize.few:
            made[DemoSize.many] = _facts(write_census(folder.draft / CENSUS, epsilon=epsilon), quiet=as_json)
        if people is not DemoSize.many:
            made[DemoSize.few] = _facts(write_demo(folder.draft, epsilon=epsilon), quiet=as_json)
        finished = folder.finish()
    places = {DemoSize.many: finished / CENSUS, DemoSize.few: finished}
    for which, facts in made.items():
        facts["report"] = str(places[which] / "run" / "report.html")
    if as_json:
        many = {CENSUS: made[DemoSize.many]} if DemoSize.many in made else {}
        say_json({**made.get(DemoSize.few, {}), **many})
        return
    from colonnade.report.plain import wrapped
    from colonnade.report.text import run_text
    from colonnade.report.verdict import verdict_line

    wide = width()
    first, *second = made.values()
    say(run_text(first, width=wide, verbose=verbose))
    for facts in second:
        say("\nThe same with few people, a public medical table, where noise costs more:\n")
        short = "\n".join(wrapped([verdict_line(facts)], wide, indent=""))
        say(run_text(facts, width=wide, verbose=True) if verbose else short)
    say(f"\nTables, schemas, jobs and ledgers are in {finished}. Go on with")
    if DemoSize.many in made:
        many_rows = f"{places[DemoSize.many] / NEW_PEOPLE} --id person"
        say(f"  colonnade predict {places[DemoSize.many] / 'run'} --rows {many_rows}")
    if DemoSize.few in made:
        say(
            f"  colonnade predict {finished / 'run'} --rows {finished / NEW_PATIENTS} --id patient\n"
            f"  colonnade predict {finished / 'run'} {finished / VISITS / 'job.toml'}\n"
            f"  colonnade ledger {finished / 'clinic.toml'}\n"
            f"  colonnade train {finished / 'job.toml'}"
        )
    say("\n" + "\n".join(f"Report: {facts['report']}" for facts in made.values()))


demo.__doc__ = f"{demo.__doc__}\n{EXAMPLE}"


def _facts(files: Demo, *, quiet: bool) -> dict[str, Any]:
    """Train as `colonnade train` would, and measure on the people held out."""
    from colonnade.cli.train import train_job
    from colonnade.models.logistic import LogisticRegression
    from colonnade.models.release import MomentRelease
    from colonnade.report.run_folder import write_report
    from colonnade.report.verdict import COMMONEST, NON_PRIVATE

    run = files.job.parent / "run"
    facts = train_job(files.job, [], run, quiet=quiet)
    release = MomentRelease.load(run / "release.npz")
    model = LogisticRegression().fit(release)
    facts["measured"] = {
        "private model, accuracy on people held out": float(model.score(files.test_rows, files.test_labels)),
        NON_PRIVATE: _non_private(release, files),
        COMMONEST: Counter(files.test_labels.tolist()).most_common(1)[0][1] / len(files.test_labels),
    }
    facts["measured_on"] = len(files.test_labels)
    write_report(run, facts)
    return facts


def _non_private(release: Any, files: Demo) -> float:
    from sklearn.linear_model import LogisticRegression as Central

    from colonnade.federation.job import Job
    from colonnade.federation.party_file import federation_of, party_files
    from colonnade.federation.train import joined_rows
    from colonnade.methods.method import frame_of

    job = Job.load(files.job)
    rows, labels = joined_rows(federation_of(job, party_files(job)).tables, frame_of(release))
    central = Central(max_iter=2000).fit(rows, labels)
    return float(central.score(release.features(files.test_rows), files.test_labels))
