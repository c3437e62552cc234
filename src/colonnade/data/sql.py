"""Queries as rows: on DuckDB and SQLite files, and on PostgreSQL through psycopg (the extra `postgres`).

Rows come in the order of their ids' text, and all readings see one state: ids and values are read one after another.
What a database says of a row may quote it, so it is raised again by nobody.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
import weakref
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from colonnade.data.arrays import Engine, SourceColumn, first_line, identifier, of_texts, refusal
from colonnade.data.declaring import nearest_name, plain_text
from colonnade.data.documents import nearest_file
from colonnade.data.files import File, FileRelation, described_fields, text_fields
from colonnade.data.queries import Catalogue, Query, aggregates, check_rows_apart, parsed, texts_by_name
from colonnade.errors import BadIds, ColumnMissing, DataError, DataMissing, DataUnreadable

if TYPE_CHECKING:
    import psycopg

QUERY_FAILED = "the query failed while its rows were read. Run it in the database's own client to see why."
_SECONDS_TO_CONNECT = 10
_TEXT = pa.large_string()
_Type = tuple[str, str, pa.DataType]
# By the server's type: DuckDB's word for it, how it is asked for, and how it is held. A single-precision number is
# widened by the server, as DuckDB does it, and not read from its shortest text.
_TYPES: Mapping[str, _Type] = {
    "int2": ("BIGINT", "{}::int8", pa.int64()),
    "int4": ("BIGINT", "{}::int8", pa.int64()),
    "int8": ("BIGINT", "{}", pa.int64()),
    "float4": ("DOUBLE", "{}::float8", pa.float64()),
    "float8": ("DOUBLE", "{}", pa.float64()),
    "bool": ("BOOLEAN", "{}", pa.bool_()),
    "numeric": ("DECIMAL", "{}::text", _TEXT),
    "date": ("DATE", "{}::text", _TEXT),
    "timestamp": ("TIMESTAMP", "{}::text", _TEXT),
    "timestamptz": ("TIMESTAMP WITH TIME ZONE", "{}::text", _TEXT),
    "bytea": ("BLOB", "{}::text", _TEXT),
}
_ANY: _Type = ("VARCHAR", "{}::text", _TEXT)


class _Requested:
    """A party's query: what it is called, and what has to hold of it before its rows are read."""

    def __init__(self, source: Query, party: str, *, own_grammar: bool = False) -> None:
        self.name, self._source, self._party = str(source), source, party
        self._tree = parsed(source, party=party, own_grammar=own_grammar)
        self.sql = f"({source.sql}\n)"

    def order(
        self,
        keys: Sequence[str],
        fields: Mapping[str, SourceColumn],
        catalogue: Callable[[], Catalogue],
        text: str,
    ) -> str:
        """The words that order rows by their ids, each as `text` writes it; a query that combines rows is refused."""
        if not keys:
            return ""
        for key in keys:
            if key not in fields:
                raise self.wrong(
                    f"the id column {key!r} is not among the query's columns." + nearest_name(key, fields),
                    ColumnMissing,
                )
        check_rows_apart(self._source, self._tree, catalogue(), party=self._party)
        return f" ORDER BY {', '.join(text.format(identifier(key)) for key in keys)}"

    def fields(self, names: Sequence[str]) -> dict[str, SourceColumn]:
        for name in names:
            if names.count(name) > 1:
                raise self.wrong(
                    f"the query gives two columns the name {name!r}. Rename one of them with AS."
                )
        return text_fields(names)

    def wrong(self, message: str, kind: type[DataError] = DataUnreadable) -> DataError:
        return refusal(self._party, self.name, message, kind=kind)


class DuckDBRelation(FileRelation):
    """A query on a DuckDB file, opened for reading only; `keys` are the id columns that order its rows."""

    def __init__(self, source: Query, path: Path, *, party: str, keys: tuple[str, ...]) -> None:
        file, query = _database_file(source, path, party), _Requested(source, party, own_grammar=True)
        super().__init__(file, query.sql, {}, typed=True)
        self._engine = Engine(path)
        self.fields = self._described()
        self._order = query.order(keys, self.fields, self._catalogue, "CAST({} AS VARCHAR)")

    def _explained(self, text: str) -> DataError:
        return self._file.wrong(QUERY_FAILED)

    def _described(self) -> Mapping[str, SourceColumn]:
        try:
            with self._engine.session() as session:
                return described_fields(session.execute(f"DESCRIBE SELECT * FROM {self._reader}").fetchall())
        except duckdb.IOException as error:
            wrong = (
                "another process holds the database for writing. Close it there, or query a copy."
                if "lock" in str(error)
                else "it is not a DuckDB database, or it is damaged."
            )
        except duckdb.PermissionException:
            wrong = (
                "the query reaches for another file or a server. It reads the database that the party's file names and "
                "nothing else: bring what it needs into that database."
            )
        except duckdb.Error as error:
            # Planning a query reads no rows, so what it says is about the query.
            wrong = f"the query cannot be run: {first_line(error)}."
        raise self._file.wrong(wrong)

    def _catalogue(self) -> Catalogue:
        with self._engine.session() as session:
            ((database,),) = session.execute("SELECT lower(current_database())").fetchall()
            views = session.execute(
                "SELECT schema_name, view_name, sql FROM duckdb_views() WHERE NOT internal"
            ).fetchall()
            macros = session.execute(
                "SELECT function_name || '()', macro_definition FROM duckdb_functions() WHERE NOT internal"
            ).fetchall()
        named = [(f"{schema}.{name}", text) for schema, name, text in views]
        for schema, name, text in views:
            if schema == "main":
                named += [(name, text), (f"{database}.{name}", text)]
        return Catalogue(aggregates(), texts_by_name([*named, *macros]), also_main=str(database))


class SQLiteRelation:
    """A query on a SQLite file, for reading only, ordered by `keys`; types do not bind values there, so all is text."""

    typed = False

    def __init__(self, source: Query, path: Path, *, party: str, keys: tuple[str, ...]) -> None:
        _database_file(source, path, party)
        # Rows may be read from another thread than this, but never from two at once.
        address = f"{path.resolve().as_uri()}?mode=ro"
        self._database = sqlite3.connect(address, uri=True, check_same_thread=False, isolation_level=None)
        weakref.finalize(self, self._database.close)
        self._query = _Requested(source, party)
        self.name = self._query.name
        self._version: Any = None
        self.fields = self._described()
        self._order = self._query.order(keys, self.fields, self._catalogue, "CAST({} AS TEXT) COLLATE BINARY")
        for key in keys:
            if real := self._count(f"typeof({identifier(key)}) = 'real'"):
                raise self._query.wrong(
                    f"id column {key!r}: {real} ids are floating point numbers. Give ids as integers or text, spelt "
                    "the same at every party.",
                    BadIds,
                )

    def batches(
        self, names: Sequence[str], *, size: int, floats: Container[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        query = f"SELECT {', '.join(map(identifier, names))} FROM {self._query.sql}{self._order}"
        for rows in self._read(query, size):
            columns = [_texts(values) for values in zip(*rows, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, list(names))

    def count(self) -> int:
        return self._count("true")

    def _count(self, condition: str) -> int:
        ((row,),) = self._read(f"SELECT count(*) FROM {self._query.sql} WHERE {condition}", 1)
        return int(row[0])

    def _read(self, query: str, size: int) -> Iterator[list[tuple[Any, ...]]]:
        failed = False
        try:
            with closing(self._database.cursor()) as cursor:
                cursor.execute(query)
                while rows := cursor.fetchmany(size):
                    yield rows
        except sqlite3.Error:
            failed = True
        if failed:
            raise self._query.wrong(QUERY_FAILED)
        self.check_unchanged()

    def _described(self) -> Mapping[str, SourceColumn]:
        try:
            self._version = self._data_version()
            with closing(self._database.execute(f"SELECT * FROM {self._query.sql} LIMIT 0")) as cursor:
                names = [str(column[0]) for column in cursor.description]
        except sqlite3.DatabaseError as error:
            # Nothing was read, so what it says is about the query or the file.
            wrong = f"the query cannot be run: {first_line(error)}."
            if "not a database" in str(error) or "malformed" in str(error):
                wrong = "it is not a SQLite database, or it is damaged."
        else:
            return self._query.fields(names)
        raise self._query.wrong(wrong)

    def _catalogue(self) -> Catalogue:
        views = self._database.execute(
            "SELECT name, sql FROM sqlite_schema WHERE type = 'view'"
            " UNION ALL SELECT 'main.' || name, sql FROM sqlite_schema WHERE type = 'view'"
        ).fetchall()
        known = self._database.execute("SELECT name FROM pragma_function_list WHERE type <> 's'").fetchall()
        return Catalogue(
            aggregates() | {str(name).lower() for (name,) in known}, texts_by_name(views), largest_of_row=True
        )

    def _data_version(self) -> Any:
        return self._database.execute("PRAGMA data_version").fetchone()

    def check_unchanged(self) -> None:
        if self._data_version() != self._version:
            raise self._query.wrong("it changed since it was opened. Start again while nobody writes to it.")


class PostgreSQLRelation:
    """The rows of a query on a server, ordered by `keys`; numbers and truth values as they are, all else as text.

    The session only reads, in one transaction that ends with the table. Every text goes as one statement, by the
    extended protocol, which knows no second one. A cursor on the server hands out batches, so that memory is one batch.
    """

    typed = True

    def __init__(
        self,
        source: Query,
        address: str,
        password: Callable[[], str | None],
        *,
        party: str,
        keys: tuple[str, ...],
    ) -> None:
        self._query = _Requested(source, party)
        self.name = self._query.name
        self._from = f"{self._query.sql} AS source"
        self._connection = self._connect(address, password)
        # The server keeps the transaction open until somebody ends it.
        weakref.finalize(self, self._connection.close)
        self._types: dict[str, _Type] = {}
        # A reading may begin while another is half way, and each needs a cursor of its own.
        self._readings = itertools.count()
        try:
            self.fields = self._described()
            # By bytes: under the database's own collation different ids may count as equal.
            self._order = self._query.order(keys, self.fields, self._catalogue, '{}::text COLLATE "C"')
        except DataError:
            self._connection.close()
            raise

    def batches(
        self, names: Sequence[str], *, size: int, floats: Container[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        import psycopg

        columns = ", ".join(self._types[name][1].format(identifier(name)) for name in names)
        types = [self._types[name][2] for name in names]
        wrong = None
        try:
            with self._connection.cursor(name=f"colonnade_{next(self._readings)}") as cursor:
                cursor.execute(f"SELECT {columns} FROM {self._from}{self._order}")
                while rows := cursor.fetchmany(size):
                    read = map(_column, zip(*rows, strict=True), types)
                    yield pa.RecordBatch.from_arrays(list(read), list(names))
        except psycopg.Error as error:
            wrong = self._failed(error)
        # Raised outside, so that the server's message, which may quote a row, does not hang on it.
        if wrong:
            raise wrong

    def count(self) -> int:
        import psycopg

        try:
            ((rows,),) = self._one(f"SELECT count(*) FROM {self._from}").fetchall()
            return int(rows)
        except psycopg.Error as error:
            wrong = self._failed(error)
        raise wrong

    def check_unchanged(self) -> None:
        """Its one transaction sees one state of the database."""

    def _connect(
        self, address: str, password: Callable[[], str | None]
    ) -> psycopg.Connection[tuple[Any, ...]]:
        try:
            import psycopg
            from psycopg.conninfo import conninfo_to_dict
        except ImportError:
            raise self._query.wrong(
                "PostgreSQL is read through psycopg, which is not installed. Install colonnade[postgres]."
            ) from None
        options: dict[str, Any] = {"autocommit": False}
        if (secret := password()) is not None:
            options["password"] = secret
        if "connect_timeout" not in address:
            options["connect_timeout"] = _SECONDS_TO_CONNECT
        try:
            # Beside the options that the address or the environment has, those of a session that can only read.
            given = conninfo_to_dict(address).get("options") or os.environ.get("PGOPTIONS", "")
            options["options"] = f"{given} -c default_transaction_read_only=on".strip()
            connection = psycopg.connect(address, **options)
            connection.read_only = True
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.execute("SET LOCAL datestyle TO ISO")
            connection.execute("SET LOCAL timezone TO 'UTC'")
            ((reads_only,),) = connection.execute(
                "SELECT current_setting('default_transaction_read_only') = 'on'"
                " AND current_setting('transaction_read_only') = 'on'"
            ).fetchall()
            if reads_only:
                return connection
            connection.close()
            wrong = (
                "the server does not keep this session to reading. Connect to it without anything between."
            )
        except psycopg.Error as error:
            # It names host, port and user, and never the password.
            wrong = f"the database cannot be reached: {first_line(error)}. Is it running, and are you let in?"
        raise self._query.wrong(wrong)

    def _described(self) -> Mapping[str, SourceColumn]:
        import psycopg

        try:
            cursor = self._one(f"SELECT * FROM {self._from} LIMIT 0")
            described = cursor.description or ()
        except psycopg.Error as error:
            # Nothing was read, so what it says is about the query.
            wrong = f"the query cannot be run: {first_line(error)}."
        else:
            for column in described:
                known = psycopg.adapters.types.get(column.type_code)
                self._types[column.name] = _TYPES.get(known.name, _ANY) if known else _ANY
            fields = self._query.fields([column.name for column in described])
            return {
                name: SourceColumn(field.identifier, self._types[name][0]) for name, field in fields.items()
            }
        raise self._query.wrong(wrong)

    def _one(self, statement: str) -> psycopg.Cursor[tuple[Any, ...]]:
        return self._connection.execute(statement, prepare=True)

    def _catalogue(self) -> Catalogue:
        views = self._one(
            "SELECT n.nspname, c.relname, pg_catalog.pg_get_viewdef(c.oid), pg_catalog.pg_table_is_visible(c.oid)"
            " FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.relkind IN ('v', 'm')"
        ).fetchall()
        functions = self._one(
            "SELECT proname, prokind IN ('a', 'w') FROM pg_catalog.pg_proc WHERE prokind IN ('a', 'w')"
            " OR pronamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)"
        ).fetchall()
        takes_many = {str(name).lower() for name, aggregate in functions if aggregate}
        written = {str(name).lower() for name, aggregate in functions if not aggregate}
        named = [(f"{schema}.{name}", text) for schema, name, text, _ in views]
        named += [(name, text) for _, name, text, visible in views if visible]
        return Catalogue(aggregates() | takes_many, texts_by_name(named), written)

    def _failed(self, error: psycopg.Error) -> DataError:
        lost = self._connection.closed or error.sqlstate is None or error.sqlstate[:2] in ("08", "57")
        return self._query.wrong(
            "the connection to the database was lost. Start again." if lost else QUERY_FAILED
        )


def _database_file(source: Query, path: Path, party: str) -> File:
    if path.is_dir():
        raise refusal(party, str(source), "it is a directory; a database file was expected.")
    if not path.exists():
        missing = "the file does not exist." + nearest_file(path)
        raise refusal(party, str(source), missing, kind=DataMissing)
    return File(path, party, name=str(source))


def _texts(values: Sequence[object]) -> pa.Array:
    if any(isinstance(value, bytes) for value in values):
        return pa.nulls(len(values), pa.binary())
    return of_texts([None if value is None else plain_text(value) for value in values])


def _column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    return of_texts(values) if kind == _TEXT else pa.array(values, kind)
