"""Rows in order, in batches, by named columns: what every source of a table offers.

DuckDB's and the databases' own messages about bad rows quote them, so none of those is passed on.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from colonnade.data.arrays import Failed
from colonnade.errors import DataError, DataUnreadable

_NUMBER = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*")
_DATE = re.compile(r"DATE|TIMESTAMP.*")
# Types that are read as they are; exact decimals, times of day, enumerations and the like come as text.
_NESTED = re.compile(r".*\[\d*\]|(STRUCT|MAP|UNION|LIST).*")
_SIMPLE = re.compile(
    rf"BOOLEAN|U?(TINY|SMALL|BIG)?INT(EGER)?|FLOAT|DOUBLE|VARCHAR|DATE|TIMESTAMP.*|BLOB|{_NESTED.pattern}"
)
_Settings = dict[str, str | bool | int | float | list[str]]
_SETTINGS: _Settings = {
    "preserve_insertion_order": True,
    "autoinstall_known_extensions": False,
}
# A party's own text runs there. It reads the file that the party names: no other file, no network, no variable of
# this process, and nothing that it does can change that.
_CONFINED: _Settings = {
    **_SETTINGS,
    "autoload_known_extensions": False,
    "enable_external_access": False,
    "python_enable_replacements": False,
    "lock_configuration": True,
}


@dataclass(frozen=True)
class SourceColumn:
    """A column of a source: how SQL calls it, and its type in DuckDB's words."""

    identifier: str
    kind: str

    @property
    def is_text(self) -> bool:
        return self.kind == "VARCHAR"

    @property
    def is_nested(self) -> bool:
        return _NESTED.fullmatch(self.kind) is not None

    @property
    def is_empty(self) -> bool:
        """Whether its type says that every value is missing."""
        return self.kind == '"NULL"'

    @property
    def is_read(self) -> bool:
        return self.kind != "BLOB" and not self.is_nested

    @property
    def is_number(self) -> bool:
        return _NUMBER.fullmatch(self.kind) is not None

    @property
    def is_date(self) -> bool:
        return _DATE.fullmatch(self.kind) is not None

    @property
    def is_truth(self) -> bool:
        return self.kind == "BOOLEAN"


class Relation(Protocol):
    """Where rows come from. Opening one reads no rows; each reading sees the same rows in the same order."""

    @property
    def name(self) -> str: ...

    @property
    def typed(self) -> bool:
        """Whether the types of its columns are its own, and not the text they are written in."""
        ...

    @property
    def fields(self) -> Mapping[str, SourceColumn]: ...

    def batches(
        self, names: Sequence[str], *, size: int, floats: Container[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """These columns of all rows in order, exactly `size` rows a batch but for the last.

        Numbers in `floats` come as float64, or as text where the source has them as text.
        """
        ...

    def count(self) -> int: ...


class Engine:
    """A DuckDB of a source's own: nothing it keeps in memory outlives the source or is shared.

    With a database it is confined to that file, for reading.
    """

    def __init__(self, database: Path | None = None) -> None:
        self._path = database

    @contextmanager
    def session(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection that draws nothing into the terminal of whoever calls."""
        with closing(self._database.cursor()) as session:
            # It can only be set per session, and is off in a session whose settings are locked.
            if self._path is None:
                session.execute("SET enable_progress_bar = false")
            try:
                yield session
            except RuntimeError as found:
                # What DuckDB makes of Ctrl-C.
                if str(found) == "Query interrupted":
                    raise KeyboardInterrupt from None
                raise

    @cached_property
    def _database(self) -> duckdb.DuckDBPyConnection:
        if self._path is None:
            # A second thread reads ahead, which takes hundreds of megabytes and saves no time: rows leave in order.
            return duckdb.connect(config={**_SETTINGS, "threads": 1})
        return duckdb.connect(self._path, read_only=True, config=_CONFINED)


def streamed(session: duckdb.DuckDBPyConnection, query: str, size: int) -> Iterator[pa.RecordBatch]:
    """The rows of a query as they are computed, exactly `size` a batch but for the last; see `READ_FAILED`."""
    try:
        yield from session.sql(query).to_arrow_reader(size)
    except OSError as found:
        # What DuckDB makes of Ctrl-C on the way through Arrow.
        if "INTERRUPT" in str(found):
            raise KeyboardInterrupt from None
        raise


READ_FAILED = (duckdb.Error, *Failed)
"""What reading a query raises; its message may quote a row, so it is caught and nothing of it is raised again."""


def selected(fields: Mapping[str, SourceColumn], names: Sequence[str], floats: Container[str]) -> str:
    """What to ask DuckDB for: numbers in `floats` as float64, and what has no other form here as text."""
    asked = []
    for name in names:
        field = fields[name]
        if name in floats and field.is_number:
            asked.append(f"CAST({field.identifier} AS DOUBLE)")
        else:
            asked.append(
                field.identifier if _SIMPLE.fullmatch(field.kind) else f"CAST({field.identifier} AS VARCHAR)"
            )
    return ", ".join(asked)


def quoted(text: object) -> str:
    return "'" + str(text).replace("'", "''") + "'"


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def refusal(party: str, name: str, message: str, *, kind: type[DataError] = DataUnreadable) -> DataError:
    """What is wrong with a source, and whose it is."""
    return kind(f"{owned(party, name)}: {message}")


def owned(party: str, name: str) -> str:
    """A source and whose it is, if that is known."""
    return f"party {party!r}, {name}" if party else name


def first_line(error: Exception) -> str:
    """The first line of an error that speaks of a query or a server and of no row."""
    lines: list[Any] = str(error).strip().splitlines() or [type(error).__name__]
    return str(lines[0]).strip().rstrip(".!")
