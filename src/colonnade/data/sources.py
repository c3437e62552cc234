"""Where a party's rows come from, as its own file says it: a file, or `sql` and a `database`.

`combines_rows` acknowledges what in a query takes several rows together (`colonnade.data.queries`). Passwords stand
in no file: `password_env` names a variable, and PostgreSQL looks where it always does (PGPASSWORD, PGPASSFILE).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from colonnade.data.arrays import Relation
from colonnade.data.declaring import nearest_name
from colonnade.data.documents import Document, Form, check, shown
from colonnade.data.files import open_file
from colonnade.data.queries import KINDS
from colonnade.data.sql import DuckDBRelation, PostgreSQLRelation, SQLiteRelation
from colonnade.errors import InputError, JobError, UnknownChoice, WrongType

_POSTGRESQL = ("postgresql", "postgres")
_SECRET = re.compile(r"pass(?:word|file)\s*=", re.IGNORECASE)


@dataclass(frozen=True)
class FileSource:
    """A file: CSV, packed or not, or Parquet."""

    path: Path
    is_query: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"file {self.path}"

    def open(self, *, party: str, keys: tuple[str, ...] = (), columns: tuple[str, ...] = ()) -> Relation:
        """Its rows, none of them read yet; `keys` are the id columns that order a query's rows."""
        return open_file(self.path, party=party, columns=columns)


@dataclass(frozen=True)
class _DatabaseFile:
    sql: str
    path: Path
    combines_rows: tuple[str, ...] = ()
    is_query: ClassVar[bool] = True
    relation: ClassVar[type[DuckDBRelation | SQLiteRelation]]

    def __str__(self) -> str:
        return f"query on {self.path}"

    def open(self, *, party: str, keys: tuple[str, ...] = (), columns: tuple[str, ...] = ()) -> Relation:
        return self.relation(self, self.path, party=party, keys=keys)


class DuckDBSource(_DatabaseFile):
    relation = DuckDBRelation


class SQLiteSource(_DatabaseFile):
    relation = SQLiteRelation


@dataclass(frozen=True)
class PostgreSQLSource:
    """A query on a PostgreSQL server; the password, if one is needed, is in an environment variable."""

    sql: str
    address: str
    password_env: str | None = None
    combines_rows: tuple[str, ...] = ()
    is_query: ClassVar[bool] = True

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.address)
            secret = parts.password is not None or _SECRET.search(self.address) is not None
        except ValueError:
            raise JobError(
                "the address of a PostgreSQL database cannot be read. Write postgresql://user@host:port/database."
            ) from None
        if secret:
            raise JobError(
                "the address of a PostgreSQL database holds a password. Take it out, put it into an environment "
                "variable, and name that variable in password_env."
            )

    def __str__(self) -> str:
        parts = urlsplit(self.address)
        return f"query on postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def open(self, *, party: str, keys: tuple[str, ...] = (), columns: tuple[str, ...] = ()) -> Relation:
        return PostgreSQLRelation(self, self.address, self.password, party=party, keys=keys)

    def password(self) -> str | None:
        variable = self.password_env
        if variable is not None and variable not in os.environ:
            raise JobError(f"password_env: the environment variable {variable!r} is not set. Set it.")
        return None if variable is None else os.environ[variable]


Source = FileSource | DuckDBSource | SQLiteSource | PostgreSQLSource


class _SqlForm(Form):
    sql: str
    database: str
    password_env: str | None = None
    combines_rows: list[str] | None = None


def source_from_data(
    value: object,
    folder: Path,
    *,
    where: str = "data",
    document: Document | None = None,
    error: type[InputError] = JobError,
) -> Source:
    """The source that `data` of a party's file names; paths are relative to `folder`, `where` begins messages."""
    # An address or a connection string instead of a path would be quoted as the name of a missing
    # file, its password with it.
    is_address = isinstance(value, str) and ("://" in value or _SECRET.search(value) is not None)
    if isinstance(value, str) and value and not is_address:
        return FileSource(folder / value)
    if not isinstance(value, Mapping):
        raise WrongType(
            f'{where}: found {shown(value)}; name a file, or write {{sql = "select …", database = "bank.duckdb"}}.'
        )
    form = check(_SqlForm, dict(value), name=where, document=document, prefix=("data",))

    def place(field: str) -> str:
        return f"{where}, {field}" if document is None else document.where(("data", field))

    sql = form.sql.strip().rstrip(";").strip()
    if not sql:
        raise error(f"{place('sql')}: the query is empty.")
    for number, kind in enumerate(form.combines_rows or (), start=1):
        if kind not in KINDS:
            raise UnknownChoice(
                f"{place('combines_rows')}: number {number} is {shown(kind)}, not one of {', '.join(KINDS)}."
                + nearest_name(kind, KINDS)
            )
    try:
        return _database(sql, form, folder)
    except JobError as wrong:
        raise error(f"{place('database')}: {wrong}") from None


def _database(sql: str, form: _SqlForm, folder: Path) -> Source:
    if "://" not in form.database and _SECRET.search(form.database):
        raise JobError(
            "a connection string of keys and values is not read. Write postgresql://user@host:port/database, put the "
            "password into an environment variable, and name that variable in password_env."
        )
    scheme, colon, rest = form.database.partition(":")
    together = tuple(form.combines_rows or ())
    if colon and scheme in _POSTGRESQL:
        return PostgreSQLSource(sql, form.database, form.password_env, together)
    if form.password_env is not None:
        raise JobError("password_env is for PostgreSQL only. Take it out.")
    if colon and scheme in ("sqlite", "duckdb"):
        # Both sqlite:bank.db and the longer sqlite:///bank.db that other tools write.
        path = folder / rest.removeprefix("//").removeprefix("/" if rest.startswith("///") else "")
        return (SQLiteSource if scheme == "sqlite" else DuckDBSource)(sql, path, together)
    if form.database.endswith((".duckdb", ".ddb")):
        return DuckDBSource(sql, folder / form.database, together)
    if form.database.endswith((".sqlite", ".sqlite3", ".db3")):
        return SQLiteSource(sql, folder / form.database, together)
    raise JobError(
        "this kind of database is not known. Write a path that ends in .duckdb or .sqlite, duckdb:PATH, sqlite:PATH, "
        "or postgresql://user@host:port/database."
    )
