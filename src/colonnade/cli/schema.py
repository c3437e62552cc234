"""`colonnade schema`: draft a schema for a person to correct, and say what one still lacks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from colonnade.cli.options import AS_JSON
from colonnade.cli.screen import say, say_json
from colonnade.errors import CannotWrite, InputError, NameTaken

if TYPE_CHECKING:
    from colonnade.data.sources import Source

INCOMPLETE = InputError.exit_code
FILL_IN = "Fill in the blanks from what you know: read from the rows, bounds and categories would be a leak."


def schema(
    data: str | None = typer.Argument(None, metavar="DATA", help="Whose columns to draft a schema for."),
    output: Path | None = typer.Option(
        None, "--output", "-o", metavar="SCHEMA", help="Write the draft here instead of on the screen."
    ),
    check: Path | None = typer.Option(
        None, "--check", metavar="SCHEMA", help="Say what this schema still lacks; exit with 3 if anything."
    ),
    beside: str | None = typer.Option(
        None, "--data", metavar="DATA", help="With --check: compare with the columns of this data."
    ),
    sql: str | None = typer.Option(None, "--sql", metavar="QUERY", help="The query, if DATA is a database."),
    password_env: str | None = typer.Option(
        None, "--password-env", metavar="NAME", help="The environment variable with the database's password."
    ),
    public: bool = typer.Option(
        False, "--public", help="Everybody may read the rows: suggest bounds and categories from them."
    ),
    as_json: bool = AS_JSON,
) -> None:
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
        _check(check, None if beside is None else _source(beside, sql, password_env), as_json)
    elif beside is not None:
        raise typer.BadParameter("--data goes with --check.")
    elif data is not None:
        _draft(_source(data, sql, password_env), output, as_json, public=public or _says_public(data, sql))


def _says_public(data: str, sql: str | None) -> bool:
    from colonnade.data.documents import Document

    return sql is None and data.endswith(".toml") and Document.load(data).data.get("public") is True


def _draft(source: Source, output: Path | None, as_json: bool, *, public: bool) -> None:
    from colonnade.data.drafting import draft

    drafted = draft(source, public=public)
    if output is not None:
        _write(output, drafted.text)
    if as_json:
        facts: dict[str, Any] = {"source": drafted.source, "id": drafted.id or None, "kinds": drafted.kinds}
        say_json({**facts, "schema": drafted.text, "written": None if output is None else str(output)})
    elif output is None:
        say(drafted.text.rstrip())
    else:
        columns = "1 column" if len(drafted.kinds) == 1 else f"{len(drafted.kinds)} columns"
        say(f"Wrote {output}: {columns}, with blanks for you to fill in.")
        say(f"Then: colonnade schema --check {output}")


def _check(path: Path, source: Source | None, as_json: bool) -> None:
    from colonnade.data.drafting import check_schema

    state = check_schema(path, source)
    if as_json:
        facts = {"schema": state.name, "complete": state.complete, "blank": state.blank}
        say_json({**facts, "absent": state.absent, "mistake": state.mistake})
    elif state.complete:
        beside = "" if source is None else f" and agrees with the columns of the {source}"
        say(f"{state.name} is complete{beside}.")
    else:
        for place in state.blank:
            say(f"{place}: left blank.")
        for line in (*state.absent, *(() if state.mistake is None else (state.mistake,))):
            say(line)
        if state.blank:
            say(FILL_IN)
    if not state.complete:
        raise typer.Exit(INCOMPLETE)


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


def _write(output: Path, text: str) -> None:
    """Never over something: a person may have corrected it already."""
    from colonnade.federation.whole_files import write_whole

    if output.exists() or output.is_symlink():
        raise NameTaken(f"{output} exists already. Name another file, or move it away.")
    try:
        write_whole(output, text)
    except OSError as error:
        raise CannotWrite(f"{output} cannot be written ({error.strerror}). Name another file.") from None
