"""A query on a PostgreSQL server as a stream of rows, through psycopg (the extra `postgres`).

The session is for reading only, from its first moment to its last. One transaction serves all readings, so that each
sees the same state of the database; it ends with the table, and until then nobody can drop or alter what the query
reads. Every text goes as one statement, by the extended protocol, which knows no second one. A
cursor on the server hands rows out in batches, so that memory is one batch. Numbers and truth values come as
what they are; everything else, exact decimals and dates among it, as the server's own text.
"""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import pyarrow as pa

from colonnade.data.arrays import of_texts
from colonnade.data.databases import QUERY_FAILED, check_keys, fields_of
from colonnade.data.queries import Catalogue, aggregates, check_rows_apart, parsed, texts_by_name
from colonnade.data.relation import SourceColumn, first_line, identifier, refusal
from colonnade.data.sources import PostgreSQLSource
from colonnade.errors import DataError, DataUnreadable

if TYPE_CHECKING:
    import psycopg

_SECONDS_TO_CONNECT = 10
_Held = Literal["whole", "real", "truth", "text"]
_WHOLE, _REAL, _TRUTH, _TEXT = get_args(_Held)
# By the server's type: DuckDB's word for it, how it is asked for, and how it is held. A single-precision number is
# widened by the server, as DuckDB does it, and not read from its shortest text.
_TYPES: Mapping[str, tuple[str, str, _Held]] = {
    "int2": ("BIGINT", "{}::int8", _WHOLE),
    "int4": ("BIGINT", "{}::int8", _WHOLE),
    "int8": ("BIGINT", "{}", _WHOLE),
    "float4": ("DOUBLE", "{}::float8", _REAL),
    "float8": ("DOUBLE", "{}", _REAL),
    "bool": ("BOOLEAN", "{}", _TRUTH),
    "numeric": ("DECIMAL", "{}::text", _TEXT),
    "date": ("DATE", "{}::text", _TEXT),
    "timestamp": ("TIMESTAMP", "{}::text", _TEXT),
    "timestamptz": ("TIMESTAMP WITH TIME ZONE", "{}::text", _TEXT),
    "bytea": ("BLOB", "{}::text", _TEXT),
}
_ANY = ("VARCHAR", "{}::text", _TEXT)


class PostgreSQLRelation:
    """The rows of a query on a server; `keys` are the id columns that order them."""

    typed = True

    def __init__(self, source: PostgreSQLSource, *, party: str, keys: tuple[str, ...]) -> None:
        self.name = str(source)
        self._party = party
        tree = parsed(source, party=party)
        self._query = f"({source.sql}\n) AS source"
        self._connection = self._connect(source)
        # The server keeps the transaction open until somebody ends it.
        weakref.finalize(self, self._connection.close)
        self._types: dict[str, tuple[str, str, _Held]] = {}
        self._order = ""
        # A reading may begin while another is half way, and each needs a cursor of its own.
        self._readings = itertools.count()
        try:
            self.fields = self._described()
            if keys:
                check_keys(self.fields, keys, party=party, name=self.name)
                check_rows_apart(source, tree, self._catalogue(), party=party)
        except DataError:
            self._connection.close()
            raise
        if keys:
            # By bytes: under the database's own collation different ids may count as equal.
            texts = (f'{identifier(key)}::text COLLATE "C"' for key in keys)
            self._order = f" ORDER BY {', '.join(texts)}"

    def batches(
        self, names: Sequence[str], *, size: int, floats: Container[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """These columns of all rows in order, by a cursor on the server."""
        import psycopg

        asked = ", ".join(self._types[name][1].format(identifier(name)) for name in names)
        held = [self._types[name][2] for name in names]
        wrong = None
        try:
            with self._connection.cursor(name=f"colonnade_{next(self._readings)}") as cursor:
                cursor.execute(f"SELECT {asked} FROM {self._query}{self._order}")
                while rows := cursor.fetchmany(size):
                    columns = zip(*rows, strict=True)
                    read = (_read(values, kind) for values, kind in zip(columns, held, strict=True))
                    yield pa.RecordBatch.from_arrays(list(read), list(names))
        except psycopg.Error as found:
            wrong = self._failed(found)
        # Raised outside, so that the server's message, which may quote a row, does not hang on it.
        if wrong:
            raise wrong

    def count(self) -> int:
        import psycopg

        try:
            ((rows,),) = self._one(f"SELECT count(*) FROM {self._query}").fetchall()
            return int(rows)
        except psycopg.Error as found:
            wrong = self._failed(found)
        raise wrong

    def _connect(self, source: PostgreSQLSource) -> psycopg.Connection[tuple[Any, ...]]:
        try:
            import psycopg
        except ImportError:
            raise self._wrong(
                "PostgreSQL is read through psycopg, which is not installed. Install colonnade[postgres]."
            ) from None
        options: dict[str, Any] = {"autocommit": False}
        if (password := source.password()) is not None:
            options["password"] = password
        if "connect_timeout" not in source.address:
            options["connect_timeout"] = _SECONDS_TO_CONNECT
        try:
            options["options"] = _read_only(source.address)
            connection = psycopg.connect(source.address, **options)
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
        except psycopg.Error as found:
            # It names host, port and user, and never the password.
            wrong = f"the database cannot be reached: {first_line(found)}. Is it running, and are you let in?"
        raise self._wrong(wrong)

    def _described(self) -> Mapping[str, SourceColumn]:
        import psycopg

        try:
            cursor = self._one(f"SELECT * FROM {self._query} LIMIT 0")
            described = [
                (column.name, psycopg.adapters.types.get(column.type_code))
                for column in cursor.description or ()
            ]
            fields = fields_of([name for name, _ in described])
            self._types = {name: _TYPES.get(type.name, _ANY) if type else _ANY for name, type in described}
            return {
                name: SourceColumn(field.identifier, self._types[name][0]) for name, field in fields.items()
            }
        except psycopg.Error as found:
            # Nothing was read, so what it says is about the query.
            wrong = f"the query cannot be run: {first_line(found)}."
        except DataError as found:
            wrong = str(found)
        raise self._wrong(wrong)

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
        return self._wrong("the connection to the database was lost. Start again." if lost else QUERY_FAILED)

    def _wrong(self, message: str, kind: type[DataError] = DataUnreadable) -> DataError:
        return refusal(self._party, self.name, message, kind=kind)


def _read_only(address: str) -> str:
    """The options of a session that can only read, beside those that its address or the environment has."""
    from psycopg.conninfo import conninfo_to_dict

    given = conninfo_to_dict(address).get("options") or os.environ.get("PGOPTIONS", "")
    return f"{given} -c default_transaction_read_only=on".strip()


def _read(values: Sequence[Any], kind: _Held) -> pa.Array:
    if kind == "text":
        return of_texts(values)
    return pa.array(values, {"whole": pa.int64(), "truth": pa.bool_()}.get(kind, pa.float64()))
