"""`colonnade compare`: every method on the same people at the same ε, in one table and one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from colonnade.cli import screen
from colonnade.cli.screen import Answer, argument, check_least, flag, option, progress
from colonnade.errors import InputError, PrivacyError
from colonnade.federation.files import sealed_text
from colonnade.report.plain import now
from colonnade.runs.drafts import new_folder, uninterrupted
from colonnade.runs.reading import RUNS


def compare(
    job: Path = argument("JOB", "The job file (TOML): parties, task, delta."),
    epsilons: str = option("--epsilons -e LIST", "The ε to compare at, rising, with commas.", "0.1,1,10"),
    seeds: int = option("--seeds -s N", "How many splits, and draws of noise.", 5),
    methods: str | None = option("--methods -m LIST", "Only these methods, with commas; all if left out."),
    paper: bool = flag("--paper", "Add papers' own calibrations: paper formula, not a guarantee."),
    party: list[Path] = screen.PARTY_FILES,
    output: Path | None = option(
        "--output -o FOLDER", "A new folder for table and picture; runs/NAME-OF-JOB-comparison if left out."
    ),
) -> Answer:
    """Compare every method that can do a job's task: score against ε, what each promises, and what it costs.

    Every party's file must say public = true: the people are split by a public seed, each method trains on four fifths
    through its real protocol, and its score on the others is exact. Nothing is charged.

    The job's own epsilon and method do not matter here; its [options] are those of its method.

    Example (`colonnade demo` writes such files):
      colonnade compare demo-run/job.toml --epsilons 0.1,1,10 --seeds 3
    """
    from colonnade.federation.job import Job
    from colonnade.federation.party_file import party_files
    from colonnade.federation.train import prefix_job_errors
    from colonnade.lab.comparison import checked_epsilons, comparison_facts, field_of
    from colonnade.lab.comparison import compare as compare_tables
    from colonnade.methods.table import METHODS
    from colonnade.report.comparison import comparison_page, comparison_picture, comparison_text

    levels = checked_epsilons(_numbers(epsilons))
    check_least("--seeds", seeds, 1)
    agreed = Job.load(job)
    files = party_files(agreed, party)
    private = [name for name, file in files.items() if not file.public]
    if private:
        raise PrivacyError(
            f"{' and '.join(private)} did not declare the data public. Exact accuracy on it would be a release of its "
            "own. Nothing was run or charged. Compare on public data that is like yours."
        )
    named = None if methods is None else [name.strip() for name in methods.split(",") if name.strip()]
    options = {agreed.method: agreed.options.model_dump(exclude_unset=True)}
    field = field_of(METHODS.values(), agreed.task, named=named, options=options, paper=paper)
    terms = ("task", "delta", "accepted_delta", "gamma", "components", "server", "threshold")
    shared: dict[str, Any] = {
        name: getattr(agreed, name) for name in (*terms, "computing_parties", "timeout")
    }
    name = output or RUNS / f"{agreed.path.stem}-comparison"
    with new_folder(name, numbered=output is None) as folder:
        with progress() as advance, prefix_job_errors(agreed):
            tables = [file.table() for file in files.values()]
            comparison = compare_tables(
                tables, field=field, epsilons=levels, seeds=seeds, progress=advance, **shared
            )
        with uninterrupted():
            record = comparison_facts(comparison, name=agreed.name).model_copy(update={"time": now()})
            texts = {
                "comparison.json": sealed_text(record.to_data()),
                "comparison.html": comparison_page(record),
                "comparison.svg": comparison_picture(record),
            }
            for file, text in texts.items():
                (folder.draft / file).write_text(text, encoding="utf-8")
            report = str(folder.finish() / "comparison.html")
    return Answer(
        {**record.to_data(), "report": report},
        lambda wide: f"{comparison_text(record, width=wide)}\n\nPicture and tables: {report}",
    )


def _numbers(text: str) -> list[float]:
    numbers = []
    for piece in filter(None, map(str.strip, text.split(","))):
        try:
            numbers.append(float(piece))
        except ValueError:
            raise InputError(
                f"--epsilons: {piece!r} is not a number. Write numbers with commas, such as 0.1,1,10."
            ) from None
    return numbers
