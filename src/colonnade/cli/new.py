"""`colonnade new`: a job, schemas and party files to fill in, with a word on every line that matters."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import typer

from colonnade.cli.completing import TASKS, complete_tasks
from colonnade.cli.options import AS_JSON
from colonnade.cli.screen import say, say_json
from colonnade.errors import ColumnMissing, InputError
from colonnade.runs.folders import new_folder


def new(
    folder: Path = typer.Argument(..., metavar="FOLDER", help="A new folder for the files."),
    party: list[str] = typer.Option(
        [],
        "--party",
        "-p",
        metavar="NAME=DATA",
        help="A party and its data (CSV or Parquet); repeat for each.",
    ),
    label: str | None = typer.Option(
        None, "--label", "-l", metavar="PARTY:COLUMN", help="Who holds the label, and in which column."
    ),
    identity: list[str] = typer.Option(
        [],
        "--id",
        metavar="[PARTY:]COLUMN",
        help="The column that says who a row is, of one party or of all; repeat.",
    ),
    task: str = typer.Option(
        "classification", "--task", "-t", help=f"One of {', '.join(TASKS)}.", autocompletion=complete_tasks
    ),
    epsilon: float = typer.Option(1.0, "--epsilon", "-e", help="What the server and readers may learn."),
    as_json: bool = AS_JSON,
) -> None:
    """Write a job, and for every party its own file and a schema to fill in, with comments.

    Names and types of columns are read from the data; bounds, categories and the label's classes are left blank for
    each party to fill in from what it knows. Nothing is run or charged.

    Examples:

      colonnade new risk --party bank=bank.csv --party insurer=insurer.parquet --id customer --label bank:repaid

      colonnade new survey --party north=north.csv --party south=south.csv --task pca
    """
    if task not in TASKS:
        from colonnade.data.declaring import nearest_name

        raise InputError(f"--task: {task!r} is not one of {', '.join(TASKS)}.{nearest(task, TASKS)}")
    if not epsilon > 0:
        raise InputError(f"--epsilon: found {epsilon:g}; it must be greater than 0. A common choice is 1.")
    data = _parties(party)
    holder, column = _label(label, data, task)
    ids = _ids(identity, data)
    from colonnade.federation.whole_files import write_whole

    with new_folder(folder) as made:
        for name, source in data.items():
            held = column if name == holder else None
            text = _schema(source, identity=ids.get(name), label=held, task=task)
            write_whole(made.draft / f"{name}.schema.toml", text)
            place = source if source.is_absolute() else Path(os.path.relpath(source, folder))
            write_whole(made.draft / f"{name}.toml", _party(name, place, epsilon))
        write_whole(made.draft / "job.toml", _job(folder.name, tuple(data), holder, task, epsilon))
        finished = made.finish()
    files = sorted(path.name for path in finished.iterdir())
    if as_json:
        say_json({"folder": str(finished), "files": files})
        return
    say(f"Wrote {finished}: {', '.join(files)}.\n")
    say("Each party fills in the blanks of its own schema, then:")
    for name in data:
        say(f"  colonnade schema --check {finished / name}.schema.toml")
    say(f"  colonnade plan {finished / 'job.toml'} --count")
    say(f"  colonnade train {finished / 'job.toml'} --output {finished / 'run'}")
    if task != "pca":
        say("and for people who were not in it, in a file with the columns of all parties:")
        say(f"  colonnade predict {finished / 'run'} --rows people.csv --id COLUMN")


def _parties(given: list[str]) -> dict[str, Path]:
    if len(given) < 2:
        raise InputError(
            f"--party: found {len(given)}; name at least two, each with its data: --party bank=bank.csv"
        )
    data: dict[str, Path] = {}
    for item in given:
        name, sign, place = item.partition("=")
        if not sign or not place or not name.isidentifier():
            raise InputError(
                f"--party: found {item!r}; write NAME=DATA with a name of letters, digits and _, such as bank=bank.csv"
            )
        if name in data:
            raise InputError(f"--party: {name!r} is named twice. Each party has one file.")
        data[name] = Path(place)
    return data


def _ids(given: list[str], data: dict[str, Path]) -> dict[str, str]:
    """The id column of each party for whom one was named; a name without a party is for all others."""
    named = dict(item.split(":", 1) for item in given if item.partition(":")[0] in data and ":" in item)
    others = [item for item in given if item.partition(":")[0] not in data or ":" not in item]
    if len(others) > 1:
        raise InputError(
            f"--id: found {' and '.join(others)} for all parties. Write PARTY:COLUMN for each of them."
        )
    return {**dict.fromkeys(data, others[0]), **named} if others else named


def _label(given: str | None, data: dict[str, Path], task: str) -> tuple[str | None, str | None]:
    from colonnade.data.declaring import nearest_name

    if task == "pca":
        if given is not None:
            raise InputError("--label: components need no label. Leave it out, or choose another --task.")
        return None, None
    if given is None:
        raise InputError(f"--label: {task} needs one. Write PARTY:COLUMN, such as {next(iter(data))}:repaid")
    party, sign, column = given.partition(":")
    if not sign or not column:
        raise InputError(f"--label: found {given!r}; write PARTY:COLUMN, such as {next(iter(data))}:repaid")
    if party not in data:
        raise InputError(f"--label: {party!r} is not among the parties.{nearest(party, data)}")
    return party, column


def _schema(source: Path, *, identity: str | None, label: str | None, task: str) -> str:
    from colonnade.data.drafting import draft
    from colonnade.data.sources import source_from_data

    drafted = draft(source_from_data(str(source), Path(), where="--party", error=InputError))
    if identity is not None and identity != drafted.id:
        known = {**drafted.kinds, **({drafted.id: "categorical"} if drafted.id else {})}
        _check_column("--id", identity, known, source)
        kinds = {name: kind for name, kind in known.items() if name != identity}
        drafted = replace(drafted, id=identity, kinds=kinds)
    if label is not None:
        _check_column("--label", label, drafted.kinds, source)
    asked = (
        'kind = "classes"\nclasses = []   # the names of the classes, as they stand in the data'
        if task == "classification"
        else 'kind = "real"\nlow = ""    # what no value is below\nhigh = ""   # what no value is above'
    )
    return replace(
        drafted,
        kinds={name: kind for name, kind in drafted.kinds.items() if name != label},
        id_note="who a row is; it is never learnt from" if identity is not None else drafted.id_note,
        ending="" if label is None else f"[label]\ncolumn = {_quoted(label)}\n{asked}\n",
    ).text


def _check_column(option: str, name: str, known: Mapping[str, str], source: Path) -> None:
    from colonnade.data.declaring import nearest_name

    if name not in known:
        raise ColumnMissing(f"{option}: {source} has no column {name!r}.{nearest(name, known)}")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _party(name: str, data: Path, epsilon: float) -> str:
    return f"""# {name}'s own file: it never leaves {name}.
party = "{name}"
data = {_quoted(str(data))}
schema = "{name}.schema.toml"
dataset = "{name} people"   # budgets are per data set: name it after the people in it
ledger = "{name}.ledger"    # made on first use; keep it on a local disk
# public = true           # only if anybody may have this data: then accuracy may be measured on it

[[budget]]                # the most that each observer may ever learn about one record of this data set
epsilon = {4 * epsilon:g}
delta = 1e-6
"""


def _job(name: str, parties: tuple[str, ...], active: str | None, task: str, epsilon: float) -> str:
    named = ", ".join(f'"{party}"' for party in parties)
    holder = (
        f'active = "{active}"{" " * max(1, 15 - len(active))}# who holds the label\n'
        if active is not None
        else ""
    )
    return f"""# What all parties agree on; everybody holds the same file.
name = {_quoted(name)}
task = "{task}"
method = "moments"        # `colonnade compare` shows how others do on public data
parties = [{named}]
{holder}epsilon = {epsilon:<10g}      # for the server and for readers; each party's own ε is printed beside it
delta = 1e-6              # well below one over the number of people
"""
