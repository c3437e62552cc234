"""`colonnade evaluate`: how good a released model is, on people it was not trained on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from colonnade.cli.options import AS_JSON, PARTY_FILES
from colonnade.cli.screen import progress, say, say_json, width
from colonnade.errors import ColumnMissing, InputError, LabelMismatch, ModelError

if TYPE_CHECKING:
    from colonnade.federation.federation import Federation

EVALUATION = "evaluation-{number}.json"
NOT_OF_TWO = "--threshold is for two classes, and the model is not of two. Leave it out."
EXAMPLE = """
With --rows, all columns and the label lie in one file that may be looked at: figures are exact, and nothing is charged.

With JOB, people and labels lie with the parties of a job, and nobody looks at them: what is opened carries noise for
the job's ε (or --epsilon) and is charged like any release. A job with held_out judges the people it holds out.
A network is judged by scores with noise, and the figures are its label holder's own.

--threshold says above which probability the second class is predicted: a number, or a rule that is read from what was
opened and costs nothing: balanced, f1, recall=0.8, share=0.1, or cost=5:1 (a miss costs five false alarms).

Examples (`colonnade demo` writes such files):

  colonnade evaluate demo-run/run --rows labelled.csv --id patient --label readmitted

  colonnade evaluate demo-run/run others/job.toml --threshold recall=0.8
"""


def evaluate(
    model: Path = typer.Argument(..., metavar="RUN", help="The folder of a run, or its model.json."),
    job: Path | None = typer.Argument(
        None, metavar="JOB", help="A job (TOML) whose parties hold people with labels."
    ),
    rows: Path | None = typer.Option(
        None, "--rows", "-r", metavar="FILE", help="A CSV or Parquet file with every column of the model."
    ),
    label: str | None = typer.Option(
        None,
        "--label",
        "-l",
        metavar="COLUMN",
        help="The column of --rows with what is to be predicted; of a run with several labels, the one that is meant.",
    ),
    id_columns: list[str] = typer.Option(
        ["id"],
        "--id",
        metavar="COLUMN",
        help="The column of --rows that names people; repeat where several do together.",
    ),
    party: list[Path] = PARTY_FILES,
    epsilon: float | None = typer.Option(
        None,
        "--epsilon",
        "-e",
        metavar="ε",
        help="What a judgement on private people may cost; the job's if left out.",
    ),
    threshold: str | None = typer.Option(
        None, "--threshold", "-t", metavar="RULE", help="A probability, or a rule such as f1 or recall=0.8."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Judge a released model on people it was not trained on: AUC, accuracy and more, or RMSE and R², with errors."""
    from colonnade.evaluation.predict import Stored, models_by_label

    if (job is None) == (rows is None):
        raise typer.BadParameter("give a JOB, or --rows FILE with --label COLUMN, and not both.")
    if rows is not None and label is None:
        raise typer.BadParameter("--rows needs --label COLUMN, which says what is to be predicted.")
    if rows is not None and epsilon is not None:
        raise typer.BadParameter("--epsilon is for a JOB: figures of --rows are exact and cost nothing.")
    # A column of --rows may be called otherwise than the label that a model learnt.
    named = (
        label if rows is None or label in models_by_label(model if model.is_dir() else model.parent) else None
    )
    stored = Stored.load(model, named)
    if rows is not None:
        facts = _of_rows(stored, model, rows, id_columns, str(label), threshold)
    else:
        facts = _of_job(stored, model, job or Path(), party, epsilon, threshold, quiet=as_json)
    if as_json:
        say_json(facts)
        return
    from colonnade.report.evaluation import judged_note
    from colonnade.report.plain import wrapped
    from colonnade.report.text import judged_lines

    for line in judged_lines(facts, width()):
        say(line)
    told = [judged_note(facts), *facts.get("guarantees", [])]
    for line in wrapped(["", *told], width()):
        say(line)
    if "kept" in facts:
        say(f"\nKept: {facts['kept']}")


evaluate.__doc__ = f"{evaluate.__doc__}\n{EXAMPLE}"


def _of_rows(
    stored: Any, model: Path, rows: Path, id_columns: list[str], label: str, threshold: str | None
) -> dict[str, Any]:
    from colonnade.cli.predict import check_columns
    from colonnade.evaluation.evaluate import judge_file
    from colonnade.report.evaluation import judgement_facts

    if stored.whole is None:
        raise InputError(
            f"{model}: the weights of this model stay with their parties, so it scores nobody in one place."
        )
    columns = stored.whole.frame.column_names
    check_columns(rows, id_columns, columns)
    _check_label(rows, label, (*id_columns, *columns))
    judgement = judge_file(stored.whole, rows, id_columns=tuple(id_columns), label=label)
    return judgement_facts(judgement if threshold is None else _at(judgement, threshold))


def _check_label(rows: Path, label: str, columns: tuple[str, ...]) -> None:
    from colonnade.data.declaring import nearest
    from colonnade.data.files import open_file

    fields = open_file(rows, party="", wanted=(*columns, label)).fields
    if label not in fields:
        advice = nearest(label, fields) or " Name the column that says what is to be predicted."
        raise ColumnMissing(f"--label: {rows} has no column {label!r}.{advice}")


def _at(judgement: Any, rule: str) -> Any:
    from colonnade.evaluation.judgement import Judgement

    if not isinstance(judgement, Judgement):
        raise LabelMismatch(NOT_OF_TWO)
    return judgement.at(rule)


def _of_job(
    stored: Any,
    model: Path,
    job: Path,
    given: list[Path],
    epsilon: float | None,
    threshold: str | None,
    *,
    quiet: bool,
) -> dict[str, Any]:
    from dataclasses import replace

    from colonnade.evaluation.evaluate import check_model, judge_jointly
    from colonnade.evaluation.figures import check_rule
    from colonnade.federation.records import json_text
    from colonnade.federation.whole_files import write_whole
    from colonnade.methods.network.network_file import NetworkFile
    from colonnade.report.evaluation import judged_facts

    if all(isinstance(part, NetworkFile) for part in stored.parts.values()) and stored.whole is None:
        return _of_network(stored, model, job, given, epsilon, threshold, quiet=quiet)
    if stored.whole is None:
        raise InputError(
            f"{model}: the weights of this model stay with their parties, and no guarantee covers scores by them, so "
            "that it cannot be judged on private people."
        )
    whole = check_model(stored.whole)
    if threshold is not None:
        check_rule(threshold)
        if len(whole.weights) > 1 or not whole.reading.classifies:
            raise LabelMismatch(NOT_OF_TWO)
    with _federation(job, given, epsilon, quiet=quiet) as (federation, price):
        judged = judge_jointly(federation, stored.whole, **price, trained_on=stored.people)
    if threshold is not None:
        judged = replace(judged, judgement=_at(judged.judgement, threshold))
    facts = judged_facts(judged)
    # It was paid for, so it is kept.
    place = _free(model if model.is_dir() else model.parent)
    write_whole(place, json_text(facts))
    return {**facts, "kept": str(place)}


@contextlib.contextmanager
def _federation(
    job: Path, given: list[Path], epsilon: float | None, *, quiet: bool
) -> Iterator[tuple[Federation, dict[str, Any]]]:
    from colonnade.federation.job import Job
    from colonnade.federation.party_file import federation_of, party_files

    agreed = Job.load(job)
    federation = federation_of(agreed, party_files(agreed, given))
    price = {"delta": agreed.delta, "accepted_delta": agreed.accepted_delta}
    with progress(not quiet) as advance:
        federation.progress = advance
        yield federation, {"epsilon": agreed.epsilon if epsilon is None else epsilon, **price}


def _free(folder: Path, party: str = "") -> Path:
    from colonnade.federation.own_files import own_file

    number = 1
    while True:
        name = EVALUATION.format(number=number)
        place = own_file(folder, party, name) if party else folder / name
        if not place.exists():
            return place
        number += 1


def _of_network(
    stored: Any,
    model: Path,
    job: Path,
    given: list[Path],
    epsilon: float | None,
    threshold: str | None,
    *,
    quiet: bool,
) -> dict[str, Any]:
    from colonnade.evaluation.evaluate import evaluate_network
    from colonnade.evaluation.figures import check_rule
    from colonnade.federation.records import json_text
    from colonnade.federation.whole_files import write_whole
    from colonnade.report.evaluation import network_judged_facts

    label = next(iter(stored.parts.values())).frame.label
    if threshold is not None:
        check_rule(threshold)
        if len(label.classes) != 2:
            raise LabelMismatch(NOT_OF_TWO)
    with _federation(job, given, epsilon, quiet=quiet) as (federation, price):
        judged = evaluate_network(stored, federation, **price)
    if judged.judgement is None:
        raise ModelError(f"people were scored, which was charged, and not judged: {judged.told}")
    judgement = judged.judgement if threshold is None else _at(judged.judgement, threshold)
    facts = network_judged_facts(judged.run, judgement)
    place = _free(model, judged.run.plan.receiver)
    write_whole(place, json_text(facts), own=True)
    return {**facts, "kept": str(place)}
