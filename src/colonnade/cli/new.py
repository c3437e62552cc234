"""`colonnade new`: a job, schemas and party files to fill in, with a word on every line that matters."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from colonnade.cli.folders import new_folder
from colonnade.cli.screen import say, say_json
from colonnade.errors import InputError

EXAMPLE = """
Names and types of columns are read from the data; bounds, categories and the label's classes are left blank for each
party to fill in from what it knows. Nothing is run or charged.

Examples:

  colonnade new risk --party bank=bank.csv --party insurer=insurer.parquet --label bank:repaid

  colonnade new survey --party north=north.csv --party south=south.csv --task pca
"""
TASKS = ("classification", "regression", "pca")


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
    task: str = typer.Option("classification", "--task", "-t", help=f"One of {', '.join(TASKS)}."),
    epsilon: float = typer.Option(1.0, "--epsilon", "-e", help="What the server and readers may learn."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object instead of text."),
) -> None:
    """Write a job, and for every party its own file and a schema to fill in, with comments."""
    if task not in TASKS:
        from colonnade.data.declaring import nearest

        raise InputError(f"--task: {task!r} is not one of {', '.join(TASKS)}.{nearest(task, TASKS)}")
    if not epsilon > 0:
        raise InputError(f"--epsilon: found {epsilon:g}; it must be greater than 0. A common choice is 1.")
    data = _parties(party)
    holder, column = _label(label, data, task)
    with new_folder(folder) as made:
        for name, source in data.items():
            text = _schema(source, column if name == holder else None, task)
            (made.draft / f"{name}.schema.toml").write_text(text, encoding="utf-8")
            place = source if source.is_absolute() else Path(os.path.relpath(source, folder))
            (made.draft / f"{name}.toml").write_text(_party(name, place, epsilon), encoding="utf-8")
        (made.draft / "job.toml").write_text(
            _job(folder.name, tuple(data), holder, task, epsilon), encoding="utf-8"
        )
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
    say(f"  colonnade train {finished / 'job.toml'}")


new.__doc__ = f"{new.__doc__}\n{EXAMPLE}"


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


def _label(given: str | None, data: dict[str, Path], task: str) -> tuple[str | None, str | None]:
    from colonnade.data.declaring import nearest

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


def _schema(source: Path, label: str | None, task: str) -> str:
    """The draft of a schema, with the label taken out of the columns and declared apart."""
    from colonnade.data.declaring import nearest
    from colonnade.data.drafting import draft
    from colonnade.data.sources import source_from_data

    drafted = draft(source_from_data(str(source), Path(), where="--party", error=InputError))
    if label is None:
        return drafted.text
    if label not in drafted.kinds:
        raise InputError(f"--label: {source} has no column {label!r}.{nearest(label, drafted.kinds)}")
    blocks = drafted.text.split("\n\n")
    heads = (f"[columns.{label}]", f'[columns."{label}"]')
    # The draft's own word on labels is for a person who has not said yet where it is.
    kept = [block for block in blocks if not any(head in block for head in (*heads, "# [label]"))]
    asked = (
        'kind = "classes"\nclasses = []   # the names of the classes, as they stand in the data'
        if task == "classification"
        else 'kind = "real"\nlow = ""    # what no value is below\nhigh = ""   # what no value is above'
    )
    return "\n\n".join(block.rstrip("\n") for block in kept) + f'\n\n[label]\ncolumn = "{label}"\n{asked}\n'


def _party(name: str, data: Path, epsilon: float) -> str:
    return f"""# {name}'s own file: it never leaves {name}.
party = "{name}"
data = "{data}"
schema = "{name}.schema.toml"
dataset = "{name} people"   # budgets are per data set: name it after the people in it
ledger = "{name}.ledger"    # made on first use; keep it on a local disk
# public = true           # only if anybody may have this data: then accuracy may be measured on it

[[budget]]                # the most that each observer may ever learn from this data set
epsilon = {4 * epsilon:g}
delta = 1e-6
"""


def _job(name: str, parties: tuple[str, ...], active: str | None, task: str, epsilon: float) -> str:
    named = ", ".join(f'"{party}"' for party in parties)
    holder = f'active = "{active}"   # who holds the label\n' if active is not None else ""
    return f"""# What all parties agree on; everybody holds the same file.
name = "{name}"
task = "{task}"
method = "moments"        # `colonnade compare` shows how others do on public data
parties = [{named}]
{holder}epsilon = {epsilon:g}             # for the server and for readers; each party's own ε is printed beside it
delta = 1e-6              # well below one over the number of people
"""
