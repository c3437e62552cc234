"""Where a party's rows come from, as its own file says it.

::

    data = "bank.csv"
    data = {sql = "select * from customers", database = "bank.duckdb"}
    data = {sql = "select * from customers", database = "sqlite:bank.db"}

    [data]
    sql = "select * from customers"
    database = "postgresql://reader@db.bank/core"
    password_env = "BANK_DB_PASSWORD"
    combines_rows = ["aggregate"]

`combines_rows` acknowledges what in a query takes several rows together (`colonnade.data.queries`): whoever writes it
has made sure that each row still depends on one person alone.

Passwords stand in no file: an address that holds one is refused. PostgreSQL also looks where it always does
(PGPASSWORD, PGPASSFILE, a service file).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from colonnade.data.declaring import nearest_name
from colonnade.data.documents import Document, Form, check, shown
from colonnade.errors import InputError, JobError, UnknownChoice, WrongType

if TYPE_CHECKING:
    from colonnade.data.arrays import Relation

_POSTGRESQL = ("postgresql", "postgres")
_SECRET = re.compile(r"pass(?:word|file)\s*=", re.IGNORECASE)


@dataclass(frozen=True)
class FileSource:
    """A file: CSV, packed or not, or Parquet."""

    path: Path
    is_query: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"file {self.path}"

    def open(self, *, party: str, keys: tuple[str, ...] = (), wanted: tuple[str, ...] = ()) -> Relation:
        """Its rows, none of them read yet; `keys` are the id columns that order a query's rows."""
        from colonnade.data.files import open_file

        return open_file(self.path, party=party, wanted=wanted)


@dataclass(frozen=True)
class DuckDBSource:
    """A query on a DuckDB file."""

    sql: str
    path: Path
    combines_rows: tuple[str, ...] = ()
    is_query: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"query on {self.path}"

    def open(self, *, party: str, keys: tuple[str, ...] = (), wanted: tuple[str, ...] = ()) -> Relation:
        """Its rows, none of them read yet; `keys` are the id columns that order a query's rows."""
        from colonnade.data.sql import DuckDBRelation

        return DuckDBRelation(self, party=party, keys=keys)


@dataclass(frozen=True)
class SQLiteSource:
    """A query on a SQLite file."""

    sql: str
    path: Path
    combines_rows: tuple[str, ...] = ()
    is_query: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"query on {self.path}"

    def open(self, *, party: str, keys: tuple[str, ...] = (), wanted: tuple[str, ...] = ()) -> Relation:
        """Its rows, none of them read yet; `keys` are the id columns that order a query's rows."""
        from colonnade.data.sql import SQLiteRelation

        return SQLiteRelation(self, party=party, keys=keys)


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

    def open(self, *, party: str, keys: tuple[str, ...] = (), wanted: tuple[str, ...] = ()) -> Relation:
        """Its rows, none of them read yet; `keys` are the id columns that order a query's rows."""
        from colonnade.data.sql import PostgreSQLRelation

        return PostgreSQLRelation(self, party=party, keys=keys)

    def password(self) -> str | None:
        if self.password_env is None:
            return None
        if self.password_env not in os.environ:
            raise JobError(
                f"password_env: the environment variable {self.password_env!r} is not set. Set it."
            )
        return os.environ[self.password_env]


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
    """The source that a party file's `data` names; paths are relative to `folder`, `where` begins messages.

    `document` is the file in which it stands, if it stands in one.
    """
    # An address or a connection string instead of a path would be quoted as the name of a missing
    # file, its password with it.
    if isinstance(value, str) and value and not _is_address(value):
        return FileSource(folder / value)
    if not isinstance(value, Mapping):
        raise WrongType(
            f'{where}: found {shown(value)}; name a file, or write {{sql = "select …", database = "bank.duckdb"}}.'
        )
    form = check(_SqlForm, dict(value), name=where, document=document, prefix=("data",))
    sql = form.sql.strip().rstrip(";").strip()
    if not sql:
        raise error(f"{_place('sql', where, document)}: the query is empty.")
    if form.combines_rows:
        _check_kinds(form.combines_rows, where, document)
    try:
        return _database(sql, form, folder)
    except JobError as wrong:
        raise error(f"{_place('database', where, document)}: {wrong}") from None


def _is_address(value: str) -> bool:
    return "://" in value or _SECRET.search(value) is not None


def _check_kinds(kinds: list[str], where: str, document: Document | None) -> None:
    from colonnade.data.queries import KINDS

    for number, kind in enumerate(kinds):
        if kind not in KINDS:
            place = _place("combines_rows", where, document)
            raise UnknownChoice(
                f"{place}: number {number + 1} is {shown(kind)}, not one of {', '.join(KINDS)}."
                + nearest_name(kind, KINDS)
            )


def _place(field: str, where: str, document: Document | None) -> str:
    return f"{where}, {field}" if document is None else document.where(("data", field))


def _database(sql: str, form: Any, folder: Path) -> Source:
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
