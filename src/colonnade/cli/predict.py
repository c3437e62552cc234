"""`colonnade predict`: scores of people by a model that a run left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from colonnade.cli.options import AS_JSON, LABEL, PARTY_FILES, VERBOSE
from colonnade.cli.screen import progress, say, say_json, width
from colonnade.errors import CannotWrite, ColumnMissing, InputError, NameTaken

if TYPE_CHECKING:
    from colonnade.evaluation.predict import Scores

SHOWN = 10


def predict(
    model: Path = typer.Argument(..., metavar="MODEL", help="The folder of a run, or its model.json."),
    job: Path | None = typer.Argument(
        None, metavar="JOB", help="A job (TOML) whose parties hold the people to score."
    ),
    rows: Path | None = typer.Option(
        None, "--rows", "-r", metavar="FILE", help="A CSV or Parquet file with every column of the model."
    ),
    id_columns: list[str] = typer.Option(
        ["id"],
        "--id",
        metavar="COLUMN",
        help="The column of --rows that names people; repeat where several do together.",
    ),
    label: str | None = LABEL,
    party: list[Path] = PARTY_FILES,
    epsilon: float | None = typer.Option(
        None, "--epsilon", "-e", metavar="ε", help="Noisy scores at this ε for each person, charged."
    ),
    output: Path | None = typer.Option(
        None,
        "--output",
        "-o",
        metavar="FILE",
        help="A new CSV file for all scores; some are shown without it.",
    ),
    strict: bool = typer.Option(
        False, "--strict", help="Refuse --rows with a value that is not as declared, and score nobody."
    ),
    verbose: bool = VERBOSE,
    as_json: bool = AS_JSON,
) -> None:
    """Score people by a model: anywhere where its weights were released, or between the parties of a job.

    With --rows, all columns lie in one file and the model's weights were released: nothing is disclosed to anybody.

    A row that is not as declared is left out and named, with the reason; --strict refuses the file instead.

    With JOB, the columns lie with the parties of a job, whose own files name the people to score. They add up their
    parts under masks, and only the active party sees scores. An exact score less the active party's own part is the
    others' part for that person: the run says so, and refuses people that any model of the same data set was trained
    on, and people whose ids are read by another column or other rules than in training; with --epsilon scores carry
    noise and are charged like any release.

    Examples (`colonnade demo` writes such files):

      colonnade predict demo-run/run --rows demo-run/new-patients.csv --id patient --output scores.csv

      colonnade predict demo-run/run demo-run/visits/job.toml
    """
    from colonnade.evaluation.predict import Stored, score_file

    if (job is None) == (rows is None):
        raise typer.BadParameter("give a JOB, or --rows FILE, and not both.")
    if rows is not None and (epsilon is not None or party):
        raise typer.BadParameter(
            "--epsilon and --party are for a JOB: scores by --rows are disclosed to nobody, and carry no noise."
        )
    if output is not None and output.exists():
        raise NameTaken(f"--output: {output} exists already. Name another file, or remove it first.")
    stored = Stored.load(model, label)
    if rows is not None:
        if stored.whole is None:
            raise InputError(
                f"{model}: the weights of this model stay with their parties, so it scores nobody in one place. Give "
                "a JOB in which the parties score together."
            )
        check_columns(rows, id_columns, stored.whole.frame.column_names)
        scores = score_file(stored.whole, rows, id_columns=tuple(id_columns), strict=strict)
    else:
        scores = _between_parties(stored, job or Path(), party, epsilon, quiet=as_json)
    if output is not None:
        _write(output, scores)
    if as_json:
        say_json(_facts(scores, output))
        return
    # Whoever scores a file discloses nothing: what training cost is asked for.
    _say(scores, output, training=verbose or rows is None)


def check_columns(rows: Path, id_columns: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuse a file without the id or with columns of the model missing, all of them at once."""
    from colonnade.data.declaring import nearest_name
    from colonnade.data.files import open_file

    fields = open_file(rows, party="", wanted=(*id_columns, *wanted)).fields
    for id_column in id_columns:
        if id_column in fields:
            continue
        advice = nearest_name(id_column, fields) or " Name the column that says who a row is."
        raise ColumnMissing(f"--id: {rows} has no column {id_column!r}.{advice}")
    missing = [name for name in wanted if name not in fields]
    if missing:
        near = "".join(nearest_name(name, fields) for name in missing[:1])
        raise ColumnMissing(
            f"--rows: {rows} lacks {len(missing)} of the {len(wanted)} columns that the model reads: "
            f"{', '.join(missing)}.{near}"
        )


def _between_parties(
    stored: Any, job: Path, given: list[Path], epsilon: float | None, *, quiet: bool
) -> Scores:
    from colonnade.evaluation.predict import score_job
    from colonnade.federation.job import Job
    from colonnade.federation.party_file import federation_of, party_files

    agreed = Job.load(job)
    federation = federation_of(agreed, party_files(agreed, given))
    with progress(not quiet) as advance:
        federation.progress = advance
        return score_job(
            stored, federation, epsilon=epsilon, delta=agreed.delta, accepted_delta=agreed.accepted_delta
        )


def _write(path: Path, scores: Scores) -> None:
    from colonnade.evaluation.predict import scores_csv
    from colonnade.federation.whole_files import write_whole

    try:
        write_whole(path, scores_csv(scores), own=True)
    except OSError as error:
        raise CannotWrite(f"--output: {path} cannot be written ({error.strerror}).") from None


def _facts(scores: Scores, output: Path | None) -> dict[str, Any]:
    from colonnade.evaluation.predict import score_rows

    facts: dict[str, Any] = {
        "people": len(scores.ids),
        "names": list(scores.names),
        "exact": scores.exact,
        "left_out": [{"id": one, "reason": reason} for one, reason in scores.left_out],
        "statement": scores.statement,
        "privacy": scores.privacy,
        "output": None if output is None else str(output),
    }
    if output is None:
        heads, *lines = score_rows(scores)
        facts["scores"] = [dict(zip(heads, line, strict=True)) for line in lines]
    return facts


def _say(scores: Scores, output: Path | None, *, training: bool) -> None:
    from colonnade.evaluation.predict import score_rows
    from colonnade.report.plain import table_lines, wrapped

    for line in table_lines(score_rows(scores)[: SHOWN + 1], width()):
        say(line)
    if len(scores.ids) > SHOWN:
        say(
            f"  and {len(scores.ids) - SHOWN} more"
            + ("" if output is not None else "; --output writes them all")
        )
    _say_left_out(scores)
    if scores.exact:
        say(f"\nEXACT scores of {scores.exact} people were disclosed, without noise.")
    cost = scores.privacy.splitlines() if training else ["What training cost is shown with --verbose."]
    for line in wrapped(["", scores.statement, *cost], width()):
        say(line)
    if output is not None:
        say(f"\nScores: {output}")


def _say_left_out(scores: Scores) -> None:
    from colonnade.report.plain import table_lines

    if not scores.left_out:
        return
    many = "1 person" if len(scores.left_out) == 1 else f"{len(scores.left_out)} people"
    say(f"\n{many} could not be scored")
    for line in table_lines([("id", "why"), *scores.left_out[:SHOWN]], width()):
        say(line)
    if len(scores.left_out) > SHOWN:
        say(f"  and {len(scores.left_out) - SHOWN} more; --json has them all")
