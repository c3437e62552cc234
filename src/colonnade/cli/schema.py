"""Verbs before a job: `schema`, `new` and `align`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from colonnade.cli import screen
from colonnade.cli.screen import TASKS, Answer, argument, check_free, flag, option, progress
from colonnade.data.declaring import nearest_name
from colonnade.errors import ColumnMissing, InputError
from colonnade.federation.files import write_whole
from colonnade.runs.drafts import new_folder, write_named

if TYPE_CHECKING:
    from colonnade.data.sources import Source


FILL_IN = "Fill in the blanks from what you know: read from the rows, bounds and categories would be a leak."


def schema(
    data: str | None = argument("DATA", "Whose columns to draft a schema for.", None),
    output: Path | None = option("--output -o SCHEMA", "Write the draft here instead of on the screen."),
    check: Path | None = option(
        "--check SCHEMA", "Say what this schema still lacks; exit with 3 if anything."
    ),
    alongside: str | None = option("--data DATA", "With --check: compare with the columns of this data."),
    sql: str | None = option("--sql QUERY", "The query, if DATA is a database."),
    password_env: str | None = option(
        "--password-env NAME", "The environment variable with the database's password."
    ),
    public: bool = flag("--public", "Everybody may read the rows: suggest bounds and categories from them."),
) -> Answer:
    """Draft a schema from the names and types of columns, or say what a schema still lacks.

    DATA is a file (CSV, packed or not, or Parquet), a party's own file (TOML), or with --sql a database: a DuckDB file,
    sqlite:PATH or postgresql://user@host:port/database.

    Bounds and categories are left blank on purpose: taken from the rows they would tell about single people. Where the
    rows are public (--public, or public = true in the party's own file) they are suggested.

    Examples:
      colonnade schema bank.csv --output bank.schema.toml
      colonnade schema bank.duckdb --sql "select * from customers" --output bank.schema.toml
      colonnade schema --check bank.schema.toml --data bank.csv
    """
    if (data is None) == (check is None):
        raise typer.BadParameter("give DATA to draft from, or --check SCHEMA, and not both.")
    if check is not None:
        if output is not None:
            raise typer.BadParameter("--output is for drafts; --check writes nothing.")
        return _check(check, None if alongside is None else _source(alongside, sql, password_env))
    if alongside is not None:
        raise typer.BadParameter("--data goes with --check.")
    from colonnade.data.documents import Document
    from colonnade.data.drafting import draft

    named = str(data)
    if sql is None and named.endswith(".toml"):
        public = public or Document.load(named).data.get("public") is True
    drafted = draft(_source(named, sql, password_env), public=public)
    text = drafted.text.rstrip()
    if output is not None:
        # Never over something: a person may have corrected it already.
        check_free(output, "", "Name another file, or move it away.")
        write_named(output, drafted.text)
        columns = "1 column" if len(drafted.kinds) == 1 else f"{len(drafted.kinds)} columns"
        text = f"Wrote {output}: {columns}, with blanks for you to fill in.\nThen: colonnade schema --check {output}"
    facts = {"source": drafted.source, "id": drafted.id or None, "kinds": drafted.kinds}
    return Answer(facts | {"schema": drafted.text, "written": None if output is None else str(output)}, text)


def _check(path: Path, source: Source | None) -> Answer:
    from colonnade.data.table import check_schema

    state = check_schema(path, source)
    agrees = "" if source is None else f" and agrees with the columns of the {source}"
    lines = [f"{state.name} is complete{agrees}."]
    if not state.complete:
        lines = [*(f"{place}: left blank." for place in state.blank), *state.absent]
        lines += [] if state.mistake is None else [state.mistake]
        lines += [FILL_IN] if state.blank else []
    facts = {"schema": state.name, "complete": state.complete, "blank": state.blank}
    facts |= {"absent": state.absent, "mistake": state.mistake}
    return Answer(facts, "\n".join(lines), None if state.complete else typer.Exit(InputError.exit_code))


def _source(data: str, sql: str | None, password_env: str | None) -> Source:
    from colonnade.data.documents import Document
    from colonnade.data.sources import source_from_data

    if sql is not None:
        given = {"sql": sql, "database": data, "password_env": password_env}
        return source_from_data(given, Path(), where="DATA", error=InputError)
    if password_env is not None:
        raise typer.BadParameter("--password-env goes with --sql.")
    if data.startswith(("postgresql:", "postgres:", "sqlite:", "duckdb:")) or data.endswith(".duckdb"):
        raise typer.BadParameter("a database needs a query: add --sql 'select * from …'.")
    if not data.endswith(".toml"):
        return source_from_data(data, Path(), where="DATA", error=InputError)
    document = Document.load(data)
    where = document.where(("data",))
    return source_from_data(
        document.data.get("data"), Path(data).parent, where=where, document=document, error=InputError
    )


def new(
    folder: Path = argument("FOLDER", "A new folder for the files."),
    party: list[str] = option(
        "--party -p NAME=DATA", "A party and its data (CSV or Parquet); repeat for each.", []
    ),
    label: str | None = option("--label -l PARTY:COLUMN", "Who holds the label, and in which column."),
    identity: list[str] = option(
        "--id [PARTY:]COLUMN", "The column that says who a row is, of one party or of all; repeat.", []
    ),
    task: str = option("--task -t", f"One of {', '.join(TASKS)}.", "classification"),
    epsilon: float = option("--epsilon -e", "What the server and readers may learn.", 1.0),
) -> Answer:
    """Write a job, and for every party its own file and a schema to fill in, with comments.

    Names and types of columns are read from the data; bounds, categories and the label's classes are left blank for
    each party to fill in from what it knows. Nothing is run or charged.

    Examples:
      colonnade new risk --party bank=bank.csv --party insurer=insurer.parquet --id customer --label bank:repaid
      colonnade new survey --party north=north.csv --party south=south.csv --task pca
    """
    if task not in TASKS:
        raise InputError(f"--task: {task!r} is not one of {', '.join(TASKS)}.{nearest_name(task, TASKS)}")
    if not epsilon > 0:
        raise InputError(f"--epsilon: found {epsilon:g}; it must be greater than 0. A common choice is 1.")
    data = _parties(party)
    holder, column = _label(label, data, task)
    ids = _ids(identity, data)
    with new_folder(folder) as output:
        for name, source in data.items():
            own_label = column if name == holder else None
            text = _schema(source, identity=ids.get(name), label=own_label, task=task)
            write_whole(output.draft / f"{name}.schema.toml", text)
            place = source if source.is_absolute() else Path(os.path.relpath(source, folder))
            own = party_text(name, str(place), 4 * epsilon, f"{name} people", 1e-6)
            write_whole(output.draft / f"{name}.toml", own)
        agreed = job_text(folder.name, tuple(data), holder, task, epsilon, 1e-6)
        write_whole(output.draft / "job.toml", agreed)
        finished = output.finish()
    files = sorted(path.name for path in finished.iterdir())
    lines = [
        f"Wrote {finished}: {', '.join(files)}.\n",
        "Each party fills in the blanks of its own schema, then:",
        *(f"  colonnade schema --check {finished / name}.schema.toml" for name in data),
        f"  colonnade plan {finished / 'job.toml'} --count",
        f"  colonnade train {finished / 'job.toml'} --output {finished / 'run'}",
    ]
    if task != "pca":
        lines.append("and for people who were not in it, in a file with the columns of all parties:")
        lines.append(f"  colonnade predict {finished / 'run'} --rows people.csv --id COLUMN")
    return Answer({"folder": str(finished), "files": files}, "\n".join(lines))


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
        raise InputError(f"--label: {party!r} is not among the parties.{nearest_name(party, data)}")
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
    requested = (
        'kind = "classes"\nclasses = []   # the names of the classes, as they stand in the data'
        if task == "classification"
        else 'kind = "real"\nlow = ""    # what no value is below\nhigh = ""   # what no value is above'
    )
    return replace(
        drafted,
        kinds={name: kind for name, kind in drafted.kinds.items() if name != label},
        id_note="who a row is; it is never learnt from" if identity is not None else drafted.id_note,
        ending="" if label is None else f"[label]\ncolumn = {_quoted(label)}\n{requested}\n",
    ).text


def _check_column(named: str, name: str, known: Mapping[str, str], source: Path) -> None:
    if name not in known:
        raise ColumnMissing(f"{named}: {source} has no column {name!r}.{nearest_name(name, known)}")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def party_text(
    name: str, data: str, budget: float, dataset: str, delta: float, *, public: bool = False, above: str = ""
) -> str:
    """A party's own file; `above` leads to where its schema and its ledger lie."""
    return f"""# {name}'s own file: it never leaves {name}.
party = "{name}"
data = {_quoted(data)}
schema = "{above}{name}.schema.toml"
dataset = "{dataset}"   # budgets are per data set: name it after the people in it
ledger = "{above}{name}.ledger"    # made on first use; keep it on a local disk
{"" if public else "# "}public = true           # only if anybody may have this data: accuracy may be measured on it

[[budget]]                # the most that each observer may ever learn about one record of this data set
epsilon = {budget:g}
delta = {delta:g}
"""


def job_text(
    name: str, parties: Sequence[str], active: str | None, task: str, epsilon: float, delta: float
) -> str:
    pad = " " * max(1, 15 - len(active or ""))
    holder = "" if active is None else f'active = "{active}"{pad}# who holds the label\n'
    return f"""# What all parties agree on; everybody holds the same file.
name = {_quoted(name)}
task = "{task}"
method = "moments"        # `colonnade compare` shows how others do on public data
parties = {json.dumps(list(parties))}
{holder}epsilon = {epsilon:<10g}      # for the server and for readers; each party's own ε is printed beside it
delta = {delta:<10g}        # well below one over the number of people
"""


def align(job: Path = screen.JOB, party: list[Path] = screen.PARTY_FILES) -> Answer:
    """Find the people that all parties of a job have in common, by private set intersection.

    Example (`colonnade demo` writes such files):
      colonnade align demo-run/job.toml

    Nothing is charged, and the result is not kept: training aligns again, in a fresh order. That ids were compared and
    with whom is written into every party's ledger. Every party learns which of its people all have; the party that
    holds the label also learns which of its people each other party has. Set sizes are shown unless a party's file pads
    them with shown_ids. People are matched on a curve, or, if the job says alignment = "server", through the server,
    which then learns set sizes and the number of common people.
    """
    from colonnade.federation.federation import Hooks
    from colonnade.federation.job import Job
    from colonnade.federation.party_file import federation_of, party_files

    agreed = Job.load(job)
    federation = federation_of(agreed, party_files(agreed, party))
    with progress() as advance:
        outcome = federation.with_hooks(Hooks(advance)).align()
    owners = federation.group.owners
    rows = {owner: federation.tables[owner].rows for owner in owners}
    common = outcome.results[owners[0]].rows
    lines = [
        f"{agreed.name}: the parties have {common} people in common.",
        *(f"  {owner} holds {rows[owner]}, of which {common} take part" for owner in owners),
        "Nothing was charged; every ledger says that ids were compared.",
        f"Sent: {outcome.bytes_sent} bytes in {outcome.rounds} rounds.",
    ]
    facts = {"common": common, "rows": rows, "bytes": outcome.bytes_sent, "rounds": outcome.rounds}
    return Answer(facts, "\n".join(lines))
