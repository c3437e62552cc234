"""`colonnade predict` and `colonnade evaluate`: scores by a released model, and how good they are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from colonnade.cli import screen
from colonnade.cli.screen import Answer, argument, check_free, flag, option, progress
from colonnade.errors import ColumnMissing, InputError, LabelMismatch, ModelError
from colonnade.report.plain import table_lines, wrapped
from colonnade.runs.drafts import write_named

if TYPE_CHECKING:
    from colonnade.evaluation.predict import Scores, Stored
    from colonnade.report.record import EvaluationRecord


SHOWN = 10


def predict(
    model: Path = screen.MODEL,
    job: Path | None = argument("JOB", "A job (TOML) whose parties hold the people to score.", None),
    rows: Path | None = screen.ROWS,
    id_columns: list[str] = screen.ID_COLUMNS,
    label: str | None = screen.LABEL,
    party: list[Path] = screen.PARTY_FILES,
    epsilon: float | None = option("--epsilon -e ε", "Noisy scores at this ε for each person, charged."),
    output: Path | None = option(
        "--output -o FILE", "A new CSV file for all scores; some are shown without it."
    ),
    strict: bool = flag("--strict", "Refuse --rows with a value that is not as declared, and score nobody."),
    verbose: bool = screen.VERBOSE,
) -> Answer:
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
    from colonnade.evaluation.predict import Stored, score_file, score_job, score_rows, scores_csv
    from colonnade.federation.federation import Hooks
    from colonnade.federation.job import Job
    from colonnade.federation.party_file import federation_of, party_files

    if (job is None) == (rows is None):
        raise typer.BadParameter("give a JOB, or --rows FILE, and not both.")
    if rows is not None and (epsilon is not None or party):
        raise typer.BadParameter(
            "--epsilon and --party are for a JOB: scores by --rows are disclosed to nobody, and carry no noise."
        )
    check_free(output, "--output", screen.FREE)
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
        agreed = Job.load(job or Path())
        federation = federation_of(agreed, party_files(agreed, party))
        with progress() as advance:
            scores = score_job(
                stored,
                federation.with_hooks(Hooks(advance)),
                epsilon=epsilon,
                delta=agreed.delta,
                accepted_delta=agreed.accepted_delta,
            )
    if output is not None:
        write_named(output, scores_csv(scores), option="--output", own=True)
    # Whoever scores a file discloses nothing: what training cost is asked for.
    training = verbose or rows is None
    left_out = [{"id": one, "reason": reason} for one, reason in scores.left_out]
    facts: dict[str, Any] = {"people": len(scores.ids), "names": list(scores.names), "exact": scores.exact}
    facts |= {"left_out": left_out, "statement": scores.statement, "privacy": scores.privacy}
    facts["output"] = None if output is None else str(output)
    if output is None:
        heads, *lines = score_rows(scores)
        facts["scores"] = [dict(zip(heads, line, strict=True)) for line in lines]
    return Answer(facts, lambda wide: _text(scores, output, wide, training=training))


def check_columns(rows: Path, id_columns: Sequence[str], columns: Sequence[str], label: str = "") -> None:
    """Refuse a file without the id or the label, or with columns of the model missing, all of them at once."""
    from colonnade.data.declaring import nearest_name
    from colonnade.data.files import open_file

    labels = [label] if label else []
    fields = open_file(rows, party="", columns=(*id_columns, *columns, *labels)).fields
    named = [("--id", name, "who a row is") for name in id_columns]
    named += [("--label", name, "what is to be predicted") for name in labels]
    for option_name, name, says in (each for each in named if each[1] not in fields):
        advice = nearest_name(name, fields) or f" Name the column that says {says}."
        raise ColumnMissing(f"{option_name}: {rows} has no column {name!r}.{advice}")
    missing = [name for name in columns if name not in fields]
    if missing:
        near = "".join(nearest_name(name, fields) for name in missing[:1])
        raise ColumnMissing(
            f"--rows: {rows} lacks {len(missing)} of the {len(columns)} columns that the model reads: "
            f"{', '.join(missing)}.{near}"
        )


def _text(scores: Scores, output: Path | None, wide: int | None, *, training: bool) -> str:
    from colonnade.evaluation.predict import score_rows

    lines = table_lines(score_rows(scores)[: SHOWN + 1], wide)
    if len(scores.ids) > SHOWN:
        more = "" if output is not None else "; --output writes them all"
        lines.append(f"  and {len(scores.ids) - SHOWN} more{more}")
    if scores.left_out:
        many = "1 person" if len(scores.left_out) == 1 else f"{len(scores.left_out)} people"
        lines += [f"\n{many} could not be scored"]
        lines += table_lines([("id", "why"), *scores.left_out[:SHOWN]], wide)
        if len(scores.left_out) > SHOWN:
            lines.append(f"  and {len(scores.left_out) - SHOWN} more; --json has them all")
    if scores.exact:
        lines.append(f"\nEXACT scores of {scores.exact} people were disclosed, without noise.")
    cost = scores.privacy.splitlines() if training else ["What training cost is shown with --verbose."]
    lines += wrapped(["", scores.statement, *cost], wide)
    return "\n".join([*lines, *([] if output is None else [f"\nScores: {output}"])])


EVALUATION = "evaluation-{number}.json"
NOT_OF_TWO = "--threshold is for two classes, and the model is not of two. Leave it out."


def evaluate(
    model: Path = argument("RUN", "The folder of a run, or its model.json."),
    job: Path | None = argument("JOB", "A job (TOML) whose parties hold people with labels.", None),
    rows: Path | None = screen.ROWS,
    label: str | None = option(
        "--label -l COLUMN",
        "The column of --rows with what is to be predicted; of a run with several labels, the one that is meant.",
    ),
    id_columns: list[str] = screen.ID_COLUMNS,
    party: list[Path] = screen.PARTY_FILES,
    epsilon: float | None = option(
        "--epsilon -e ε", "What an evaluation on private people may cost; the job's if left out."
    ),
    threshold: str | None = option(
        "--threshold -t RULE", "A probability, or a rule such as f1 or recall=0.8."
    ),
) -> Answer:
    """Evaluate a released model on people it was not trained on: AUC, accuracy and more, or RMSE and R², with errors.

    With --rows, all columns and the label lie in one file that may be looked at: figures are exact, and nothing is
    charged.

    With JOB, people and labels lie with the parties of a job, and nobody looks at them: what is opened carries noise
    for the job's ε (or --epsilon) and is charged like any release. A job with held_out takes the people it holds out.
    A network is evaluated by scores with noise, and the figures are its label holder's own.

    --threshold says above which probability the second class is predicted: a number, or a rule that is read from what
    was opened and costs nothing: balanced, f1, recall=0.8, share=0.1, or cost=5:1 (a miss costs five false alarms).

    Examples (`colonnade demo` writes such files):
      colonnade evaluate demo-run/run --rows labelled.csv --id patient --label readmitted
      colonnade evaluate demo-run/run others/job.toml --threshold recall=0.8
    """
    from colonnade.evaluation.predict import Stored, models_by_label
    from colonnade.report.evaluation import evaluation_lines, evaluation_note

    if (job is None) == (rows is None):
        raise typer.BadParameter("give a JOB, or --rows FILE with --label COLUMN, and not both.")
    if rows is not None and label is None:
        raise typer.BadParameter("--rows needs --label COLUMN, which says what is to be predicted.")
    if rows is not None and epsilon is not None:
        raise typer.BadParameter("--epsilon is for a JOB: figures of --rows are exact and cost nothing.")
    # A column of --rows may be called otherwise than the label that a model learnt.
    folder = model if model.is_dir() else model.parent
    stored = Stored.load(model, label if rows is None or label in models_by_label(folder) else None)
    if rows is not None:
        record, more = _of_rows(stored, model, rows, id_columns, str(label), threshold), {}
    else:
        record, kept = _of_job(stored, model, job or Path(), party, epsilon, threshold)
        more = {"kept": str(kept)}
    said = ["", evaluation_note(record), *record.guarantees]
    ending = "".join(f"\n\nKept: {kept}" for kept in more.values())
    return Answer(
        record.to_data() | more,
        lambda wide: "\n".join([*evaluation_lines(record, wide), *wrapped(said, wide)]) + ending,
    )


def _of_rows(
    stored: Stored, model: Path, rows: Path, id_columns: list[str], label: str, threshold: str | None
) -> EvaluationRecord:
    from colonnade.evaluation.evaluate import evaluate_file
    from colonnade.report.evaluation import estimate_facts

    if stored.whole is None:
        raise InputError(
            f"{model}: the weights of this model stay with their parties, so it scores nobody in one place."
        )
    check_columns(rows, id_columns, stored.whole.frame.column_names, label)
    estimate = evaluate_file(stored.whole, rows, id_columns=tuple(id_columns), label=label)
    return estimate_facts(estimate if threshold is None else _at(estimate, threshold))


def _at(estimate: Any, rule: str) -> Any:
    from colonnade.evaluation.estimates import TwoClassEstimate

    if not isinstance(estimate, TwoClassEstimate):
        raise LabelMismatch(NOT_OF_TWO)
    return estimate.at(rule)


def _of_job(
    stored: Stored, model: Path, job: Path, given: list[Path], epsilon: float | None, threshold: str | None
) -> tuple[EvaluationRecord, Path]:
    from dataclasses import replace

    from colonnade.evaluation.evaluate import Price, evaluate_jointly
    from colonnade.federation.federation import Hooks
    from colonnade.federation.files import json_text, write_whole
    from colonnade.federation.holdout import own_file
    from colonnade.federation.job import Job
    from colonnade.federation.party_file import federation_of, party_files
    from colonnade.report.evaluation import evaluation_facts

    _check_model(stored, model, threshold)
    agreed = Job.load(job)
    federation = federation_of(agreed, party_files(agreed, given))
    price = Price(agreed.epsilon if epsilon is None else epsilon, agreed.delta, agreed.accepted_delta)
    with progress() as advance:
        evaluation = evaluate_jointly(federation.with_hooks(Hooks(advance)), stored, price)
    if evaluation.estimate is None:
        raise ModelError(f"people were scored, which was charged, and not evaluated: {evaluation.reason}")
    if threshold is not None:
        evaluation = replace(evaluation, estimate=_at(evaluation.estimate, threshold))
    record = evaluation_facts(evaluation)
    # It was paid for, so it is kept.
    folder, receiver = model if model.is_dir() else model.parent, evaluation.receiver
    names = (EVALUATION.format(number=number) for number in count(1))
    places = (own_file(folder, receiver, name) if receiver else folder / name for name in names)
    place = next(place for place in places if not place.exists())
    write_whole(place, json_text(record.to_data()), own=receiver is not None)
    return record, place


def _check_model(stored: Stored, model: Path, threshold: str | None) -> None:
    """Refuse a model that is not evaluated on private people, or a threshold that it cannot have."""
    from colonnade.evaluation.estimates import check_rule
    from colonnade.evaluation.evaluate import check_model
    from colonnade.methods.network.network_file import NetworkFile

    if stored.whole is not None:
        label = check_model(stored.whole).frame.label
    elif all(isinstance(part, NetworkFile) for part in stored.parts.values()):
        label = next(iter(stored.parts.values())).frame.label
    else:
        raise InputError(
            f"{model}: the weights of this model stay with their parties, and no guarantee covers scores by them, so "
            "that it cannot be evaluated on private people."
        )
    if threshold is not None:
        check_rule(threshold)
        if len(label.classes) != 2:
            raise LabelMismatch(NOT_OF_TWO)
