"""Queries on database files as rows: DuckDB by itself, SQLite through Python.

The rows of a query come in the order of their ids' text, because without an order a database may give them
differently at each reading, and ids and values are read one after another. All readings must see the same
state: a file that changed since it was opened is refused.
"""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow as pa

from colonnade.data.arrays import of_texts
from colonnade.data.declaring import nearest
from colonnade.data.files import File, described_fields
from colonnade.data.presence import nearest_file
from colonnade.data.queries import Catalogue, aggregates, check_rows_apart, parsed, texts_by_name
from colonnade.data.relation import (
    READ_FAILED,
    Engine,
    SourceColumn,
    first_line,
    identifier,
    refusal,
    selected,
    streamed,
)
from colonnade.data.sources import DuckDBSource, SQLiteSource
from colonnade.data.spelling import plain_text
from colonnade.errors import BadIds, ColumnMissing, DataError, DataMissing, DataUnreadable

QUERY_FAILED = "the query failed while its rows were read. Run it in the database's own client to see why."


class DuckDBRelation:
    """A query on a DuckDB file, opened for reading only; `keys` are the id columns that order its rows."""

    typed = True

    def __init__(self, source: DuckDBSource, *, party: str, keys: tuple[str, ...]) -> None:
        self.name = str(source)
        self._party = party
        self._file = _database_file(source.path, self.name, party)
        self._engine = Engine(source.path)
        tree = parsed(source, party=party, own_grammar=True)
        self._query = f"({source.sql}\n)"
        self.fields = self._described()
        self._order = ""
        if keys:
            check_keys(self.fields, keys, party=party, name=self.name)
            check_rows_apart(source, tree, self._catalogue(), party=party)
            texts = (f"CAST({self.fields[key].identifier} AS VARCHAR)" for key in keys)
            self._order = f" ORDER BY {', '.join(texts)}"

    def batches(
        self, names: Sequence[str], *, size: int, floats: Container[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """These columns of all rows in order."""
        return self._read(
            f"SELECT {selected(self.fields, names, floats)} FROM {self._query}{self._order}", size
        )

    def count(self) -> int:
        (batch,) = self._read(f"SELECT count(*) FROM {self._query}", 1)
        return cast(int, batch.column(0)[0].as_py())

    def _read(self, query: str, size: int) -> Iterator[pa.RecordBatch]:
        wrong = None
        with self._engine.session() as session:
            try:
                yield from streamed(session, query, size)
            except READ_FAILED:
                wrong = self._wrong(QUERY_FAILED)
        # Raised outside, so that DuckDB's message, which may quote a row, does not hang on it.
        if wrong:
            raise wrong
        self._file.check_unchanged()

    def _described(self) -> Mapping[str, SourceColumn]:
        try:
            with self._engine.session() as session:
                return described_fields(session.execute(f"DESCRIBE SELECT * FROM {self._query}").fetchall())
        except duckdb.IOException as found:
            wrong = (
                "another process holds the database for writing. Close it there, or query a copy."
                if "lock" in str(found)
                else "it is not a DuckDB database, or it is damaged."
            )
        except duckdb.PermissionException:
            wrong = (
                "the query reaches for another file or a server. It reads the database that the party's file names and "
                "nothing else: bring what it needs into that database."
            )
        except duckdb.Error as found:
            # Planning a query reads no rows, so what it says is about the query.
            wrong = f"the query cannot be run: {first_line(found)}."
        raise self._wrong(wrong)

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

    def _wrong(self, message: str, kind: type[DataError] = DataUnreadable) -> DataError:
        return refusal(self._party, self.name, message, kind=kind)


class SQLiteRelation:
    """A query on a SQLite file, opened for reading only; `keys` are the id columns that order its rows.

    SQLite's columns have no types that bind their values, so everything is spelt as text and read like a CSV.
    """

    typed = False

    def __init__(self, source: SQLiteSource, *, party: str, keys: tuple[str, ...]) -> None:
        self.name = str(source)
        self._party = party
        _database_file(source.path, self.name, party)
        # Rows may be read from another thread than this, but never from two at once.
        self._database = sqlite3.connect(
            f"{source.path.resolve().as_uri()}?mode=ro",
            uri=True,
            check_same_thread=False,
            isolation_level=None,
        )
        weakref.finalize(self, self._database.close)
        tree = parsed(source, party=party)
        self._query = f"({source.sql}\n)"
        self._version: Any = None
        self.fields = self._described()
        self._order = ""
        if keys:
            check_keys(self.fields, keys, party=party, name=self.name)
            check_rows_apart(source, tree, self._catalogue(), party=party)
            texts = (f"CAST({identifier(key)} AS TEXT) COLLATE BINARY" for key in keys)
            self._order = f" ORDER BY {', '.join(texts)}"
            for key in keys:
                self._refuse_real_ids(key)

    def batches(
        self, names: Sequence[str], *, size: int, floats: Container[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """These columns of all rows in order, as text."""
        query = f"SELECT {', '.join(map(identifier, names))} FROM {self._query}{self._order}"
        wrong = None
        try:
            with closing(self._database.cursor()) as cursor:
                cursor.execute(query)
                while rows := cursor.fetchmany(size):
                    columns = [_values(values) for values in zip(*rows, strict=True)]
                    yield pa.RecordBatch.from_arrays(columns, list(names))
        except sqlite3.Error:
            wrong = self._wrong(QUERY_FAILED)
        if wrong:
            raise wrong
        self._check_unchanged()

    def count(self) -> int:
        return self._count("true")

    def _count(self, condition: str) -> int:
        try:
            query = f"SELECT count(*) FROM {self._query} WHERE {condition}"
            ((rows,),) = self._database.execute(query).fetchall()
        except sqlite3.Error:
            rows = None
        if rows is None:
            raise self._wrong(QUERY_FAILED)
        self._check_unchanged()
        return int(rows)

    def _described(self) -> Mapping[str, SourceColumn]:
        try:
            self._version = self._data_version()
            with closing(self._database.execute(f"SELECT * FROM {self._query} LIMIT 0")) as cursor:
                return fields_of([str(column[0]) for column in cursor.description])
        except sqlite3.DatabaseError as found:
            # Nothing was read, so what it says is about the query or the file.
            damaged = "not a database" in str(found) or "malformed" in str(found)
            wrong = (
                "it is not a SQLite database, or it is damaged."
                if damaged
                else f"the query cannot be run: {first_line(found)}."
            )
        except DataError as found:
            wrong = str(found)
        raise self._wrong(wrong)

    def _catalogue(self) -> Catalogue:
        views = self._database.execute(
            "SELECT name, sql FROM sqlite_schema WHERE type = 'view'"
            " UNION ALL SELECT 'main.' || name, sql FROM sqlite_schema WHERE type = 'view'"
        ).fetchall()
        known = self._database.execute("SELECT name FROM pragma_function_list WHERE type <> 's'").fetchall()
        return Catalogue(
            aggregates() | {str(name).lower() for (name,) in known}, texts_by_name(views), largest_of_row=True
        )

    def _refuse_real_ids(self, key: str) -> None:
        if real := self._count(f"typeof({identifier(key)}) = 'real'"):
            raise self._wrong(
                f"id column {key!r}: {real} ids are floating point numbers. Give ids as integers or text, spelt the "
                "same at every party.",
                BadIds,
            )

    def _data_version(self) -> Any:
        return self._database.execute("PRAGMA data_version").fetchone()

    def _check_unchanged(self) -> None:
        if self._data_version() != self._version:
            raise self._wrong("it changed since it was opened. Start again while nobody writes to it.")

    def _wrong(self, message: str, kind: type[DataError] = DataUnreadable) -> DataError:
        return refusal(self._party, self.name, message, kind=kind)


def fields_of(names: Sequence[str]) -> dict[str, SourceColumn]:
    for name in names:
        if names.count(name) > 1:
            raise DataUnreadable(
                f"the query gives two columns the name {name!r}. Rename one of them with AS."
            )
    return {name: SourceColumn(f"c{position}", "VARCHAR") for position, name in enumerate(names)}


def check_keys(fields: Mapping[str, SourceColumn], keys: Sequence[str], *, party: str, name: str) -> None:
    """Refuse a query without an id column."""
    for key in keys:
        if key in fields:
            continue
        raise refusal(
            party,
            name,
            f"the id column {key!r} is not among the query's columns." + nearest(key, fields),
            kind=ColumnMissing,
        )


def _database_file(path: Path, name: str, party: str) -> File:
    if path.is_dir():
        raise refusal(party, name, "it is a directory; a database file was expected.")
    if not path.exists():
        raise refusal(party, name, "the file does not exist." + nearest_file(path), kind=DataMissing)
    return File(path, party, name=name)


def _values(values: Sequence[object]) -> pa.Array:
    if any(isinstance(value, bytes) for value in values):
        return pa.nulls(len(values), pa.binary())
    return of_texts([None if value is None else plain_text(value) for value in values])
