"""`colonnade compare`: every method on the same people at the same ε, in one table and one picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colonnade.cli import screen
from colonnade.cli.screen import Answer, argument, check_least, complete_methods, flag, note, option, progress
from colonnade.errors import InputError, PrivacyError
from colonnade.federation.files import json_text
from colonnade.report.plain import now
from colonnade.runs.folders import MODELS, holds_paid, new_folder, uninterrupted
from colonnade.runs.run_folders import RUNS

if TYPE_CHECKING:
    from colonnade.federation.job import Job
    from colonnade.federation.party_file import PartyFile
    from colonnade.methods.method import TrainedModel
    from colonnade.models.release import MomentRelease


def compare(
    job: Path = argument("JOB", "The job file (TOML): parties, task, delta."),
    epsilons: str = option("--epsilons -e LIST", "The ε to compare at, rising, with commas.", "0.1,1,10"),
    seeds: int = option("--seeds -s N", "How many splits, and draws of noise.", 5),
    methods: str | None = option(
        "--methods -m LIST",
        "Only these methods, with commas; all if left out.",
        autocompletion=complete_methods,
    ),
    paper: bool = flag("--paper", "Add papers' own calibrations: paper formula, not a guarantee."),
    charge: bool = flag("--charge", "On private data: charge the ledgers for everything that is run."),
    party: list[Path] = screen.PARTY_FILES,
    output: Path | None = option(
        "--output -o FOLDER", "A new folder for table and picture; runs/NAME-OF-JOB-comparison if left out."
    ),
) -> Answer:
    """Compare every method that can do a job's task: score against ε, what each promises, and what it costs.

    Where every party's file says public = true, the people are split by a public seed, each method trains on four
    fifths through its real protocol, and its score on the others is exact; nothing is charged. On other data every run
    is charged to the parties' ledgers, so nothing starts without --charge, and no score is computed.

    The job's own epsilon and method do not matter here; its [options] are those of its method.

    Example (`colonnade demo` writes such files):

      colonnade compare demo-run/job.toml --epsilons 0.1,1,10 --seeds 3
    """
    from colonnade.federation.job import Job
    from colonnade.federation.party_file import federation_of, party_files
    from colonnade.federation.train import prefix_job_errors
    from colonnade.lab.comparison import checked_epsilons, compare_charged, comparison_facts, field_of
    from colonnade.lab.comparison import compare as compare_tables
    from colonnade.methods.table import METHODS
    from colonnade.report.comparison import comparison_page, comparison_picture, comparison_text

    wanted = checked_epsilons(_numbers(epsilons))
    check_least("--seeds", seeds, 1)
    agreed = Job.load(job)
    files = party_files(agreed, party)
    public = all(file.public for file in files.values())
    named = None if methods is None else [name.strip() for name in methods.split(",") if name.strip()]
    options = {agreed.method: agreed.options.model_dump(exclude_unset=True)}
    field = field_of(METHODS.values(), agreed.task, named=named, options=options, paper=paper, public=public)
    shared: dict[str, Any] = {"task": agreed.task, "field": field, "epsilons": wanted}
    shared |= {name: getattr(agreed, name) for name in ("delta", "accepted_delta", "gamma")}
    if not public:
        _confirm(agreed, files, shared, charge=charge)
    name = output or RUNS / f"{agreed.path.stem}-comparison"
    with new_folder(name, numbered=output is None) as folder:
        folder.reserve(1 << 21)
        try:
            with progress() as advance, prefix_job_errors(agreed):
                if public:
                    own = ("components", "server", "threshold", "computing_parties", "timeout")
                    shared |= {name: getattr(agreed, name) for name in own}
                    tables = [file.table() for file in files.values()]
                    comparison = compare_tables(tables, **shared, seeds=seeds, progress=advance)
                else:
                    # In one process one user is every party and may read it all; the table goes to others.
                    comparison = compare_charged(
                        federation_of(agreed, files),
                        **shared,
                        progress=advance,
                        keep=lambda name, result: _keep(folder.draft / MODELS, name, result),
                        tell=lambda name, error: note(f"{name} gave no model. {error}"),
                    )
        except BaseException:
            with uninterrupted():
                if holds_paid(folder.draft):
                    kept = sorted((folder.finish() / MODELS).iterdir())
                    note(f"What was charged for by then is kept: {', '.join(map(str, kept))}.")
            raise
        with uninterrupted():
            folder.free_reserve()
            record = comparison_facts(comparison, name=agreed.name).model_copy(update={"time": now()})
            texts = {
                "comparison.json": json_text(record.to_data()),
                "comparison.html": comparison_page(record),
            }
            if public:
                texts["comparison.svg"] = comparison_picture(record)
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


def _confirm(job: Job, files: Mapping[str, PartyFile], shared: Mapping[str, Any], *, charge: bool) -> None:
    """Say what a comparison on private data would charge, and refuse it unless that was asked for."""
    from colonnade.lab.comparison import planned_sums
    from colonnade.privacy.guarantee import epsilon_text

    private = [party for party, file in files.items() if not file.public]
    tables = {party: file.table() for party, file in files.items()}
    sums, unknown = planned_sums(job.group(), tables, **shared)
    field, epsilons = shared["field"], shared["epsilons"]
    sentence = ", ".join(f"{observer} {epsilon_text(total)}" for observer, total in sums.items())
    more = f", and on top what {' and '.join(unknown)} cost, planned only when run" if unknown else ""
    cost = (
        f"{' and '.join(private)} did not declare the data public, so all {len(field.contenders) * len(epsilons)} "
        f"trainings ({', '.join(entry.name for entry in field.contenders)}; ε = "
        f"{', '.join(f'{epsilon:g}' for epsilon in epsilons)}) are charged. If losses simply add up, that is ε for "
        f"{sentence or 'no observer'}{more}."
    )
    left = ", ".join(method for method, _ in field.left_out)
    if not charge:
        raise PrivacyError(
            f"{cost} No accuracy would be shown. Nothing was run or charged. Give --charge if you mean it, name fewer "
            "methods or ε, or compare on public data that is like yours."
        )
    note(f"{cost} Left out: {left or 'nothing'}.")


def _keep(folder: Path, name: str, result: TrainedModel | MomentRelease) -> None:
    """What was paid for: a release as it is, or weights by feature; those that stay with parties are not written."""
    from colonnade.methods.method import LinearModel
    from colonnade.models.release import MomentRelease

    folder.mkdir(exist_ok=True)
    if isinstance(result, MomentRelease):
        result.save(folder / f"{name}.npz")
    elif isinstance(result, LinearModel) and not result.split:
        weights = {
            "features": list(result.frame.feature_names),
            "coefficients": result.coefficients.tolist(),
            "intercepts": result.intercepts.tolist(),
            "guarantees": [str(item) for item in result.privacy],
        }
        (folder / f"{name}.json").write_text(json_text(weights), encoding="utf-8")
