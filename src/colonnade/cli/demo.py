"""`colonnade demo`: two organisations, one private model, one page; of many people and of few, in under a minute."""

from __future__ import annotations

import math
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from colonnade.cli.screen import VERBOSE, Answer, option, progress
from colonnade.errors import InputError
from colonnade.report.plain import wrapped
from colonnade.runs.drafts import new_folder

if TYPE_CHECKING:
    from colonnade.cli import demo_files
    from colonnade.report.record import RunRecord


DemoSize = StrEnum("DemoSize", ["many", "few", "both"])


def demo(
    output: Path | None = option(
        "--output -o FOLDER", "A new folder for the demonstration's files; demo-run if left out."
    ),
    epsilon: float = option("--epsilon ε", "The ε of the release.", 1.0),
    people: DemoSize = option(
        "--people", "Train on the many, on the few patients alone, or on one after the other.", DemoSize.both
    ),
    verbose: bool = VERBOSE,
) -> Answer:
    """Train on 26,049 synthetic people of a bank and a registry, then on 455 patients, and show what each cost.

    Example:
      colonnade demo --epsilon 2
    """
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise InputError(f"--epsilon: found {epsilon:g}; it must be greater than 0. A common choice is 1.")
    from colonnade.cli import demo_files
    from colonnade.report.text import run_text, verdict_line

    places = {DemoSize.many: demo_files.CENSUS, DemoSize.few: ""}
    records: dict[DemoSize, RunRecord] = {}
    with new_folder(output or demo_files.FOLDER, numbered=output is None) as folder:
        for size, place in places.items():
            if people in (size, DemoSize.both):
                sample = demo_files.census() if size is DemoSize.many else demo_files.patients()
                records[size] = _trained(folder.draft / place, sample, epsilon)
        finished = folder.finish()
    runs = {size: finished / place / "run" for size, place in places.items()}
    reports = {size: str(runs[size] / "report.html") for size in records}
    data = {size: {**record.to_data(), "report": reports[size]} for size, record in records.items()}
    many, few = (records.get(size) for size in places)

    def text(wide: int | None) -> str:
        lines = [run_text(next(iter(records.values())), width=wide, verbose=verbose)]
        if many and few:
            lines.append("\nThe same with few people, a public medical table, where noise costs more:\n")
            short = "\n".join(wrapped([verdict_line(few)], wide, indent=""))
            lines.append(run_text(few, width=wide, verbose=True) if verbose else short)
        lines.append(f"\nTables, schemas, jobs and ledgers are in {finished}. Go on with")
        if many:
            new = finished / demo_files.CENSUS / "new-people.csv"
            lines.append(f"  colonnade predict {runs[DemoSize.many]} --rows {new} --id person")
        if few:
            run = runs[DemoSize.few]
            lines += [
                f"  colonnade predict {run} --rows {finished / 'new-patients.csv'} --id patient",
                f"  colonnade predict {run} {finished / demo_files.VISITS / 'job.toml'}",
                f"  colonnade ledger {finished / 'clinic.toml'}",
                f"  colonnade train {finished / 'job.toml'}",
            ]
        return "\n".join([*lines, "", *(f"Report: {report}" for report in reports.values())])

    census = {demo_files.CENSUS: data[DemoSize.many]} if many else {}
    return Answer({**data.get(DemoSize.few, {}), **census}, text)


def _trained(folder: Path, people: demo_files.People, epsilon: float) -> RunRecord:
    """Train as `colonnade train` would, and measure on the people held out, beside a model of the pooled rows."""
    from sklearn.linear_model import LogisticRegression as Central

    from colonnade.cli import demo_files
    from colonnade.federation.job import Job
    from colonnade.federation.party_file import federation_of, party_files
    from colonnade.federation.train import joined_rows
    from colonnade.methods.method import frame_of
    from colonnade.models.logistic import LogisticRegression
    from colonnade.models.release import MomentRelease
    from colonnade.report.text import COMMONEST, NON_PRIVATE
    from colonnade.runs.train_job import train_job
    from colonnade.runs.writing import write_report

    folder.mkdir(exist_ok=True)
    held_out = demo_files.write_demo(folder, people, epsilon=epsilon)
    new, actual = people.columns(held_out), people.values[people.label][held_out]
    run = folder / "run"
    record, _ = train_job(folder / "job.toml", [], run, progress=progress)
    release = MomentRelease.load(run / "release.npz")
    model = LogisticRegression().fit(release)
    job = Job.load(folder / "job.toml")
    rows, labels = joined_rows(federation_of(job, party_files(job)).tables, frame_of(release))
    central = Central(max_iter=2000).fit(rows, labels)
    measured = {
        "private model, accuracy on people held out": float(model.score(new, actual)),
        NON_PRIVATE: float(central.score(release.features(new), actual)),
        COMMONEST: Counter(actual.tolist()).most_common(1)[0][1] / len(actual),
    }
    record = record.model_copy(update={"measured": measured, "measured_on": len(actual)})
    write_report(run, record)
    return record
