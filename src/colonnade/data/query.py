"""One file as DuckDB sees it: its columns and its rows in order, in batches.

DuckDB's own messages about a bad file quote its rows, so none of them is passed on.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from colonnade.data.documents import nearest_file
from colonnade.errors import DataError

SUFFIXES = (".csv", ".csv.gz", ".parquet")
# In SQL: the blanks that a file may leave around a number.
BLANKS = "' ' || chr(9) || chr(10) || chr(13)"

_DELIMITERS = (",", ";", "\t", "|")
_NUMBER = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*")
_NESTED = re.compile(r".*\[\d*\]|(STRUCT|MAP|UNION|LIST).*")
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "preserve_insertion_order": True,
    "autoinstall_known_extensions": False,
}


@dataclass(frozen=True)
class FileColumn:
    """A column of a file: how SQL calls it, and its type.

    >>> FileColumn("age", "SMALLINT").is_number
    True
    """

    identifier: str
    kind: str

    @property
    def is_text(self) -> bool:
        """Whether numbers in it have to be read from text."""
        return self.kind == "VARCHAR"

    @property
    def is_number(self) -> bool:
        """Whether it holds numbers."""
        return _NUMBER.fullmatch(self.kind) is not None


@dataclass(frozen=True)
class File:
    """A file that exists and has a header.

    >>> File.open(Path("no such file.csv"), party="bank", wanted=("id",))
    Traceback (most recent call last):
    colonnade.errors.DataError: party 'bank', file no such file.csv does not exist.
    """

    path: Path
    party: str
    reader: str
    columns: Mapping[str, FileColumn]
    stamp: tuple[int, int] = (0, 0)

    @classmethod
    def open(cls, path: Path, *, party: str, wanted: Sequence[str]) -> File:
        """Look at a file's header; `wanted` helps to tell the delimiter of a CSV."""
        start = f"party {party!r}, file {path}"
        if path.is_dir():
            raise DataError(f"{start} is a directory; a file was expected, ending in {', '.join(SUFFIXES)}.")
        if not path.exists():
            raise DataError(f"{start} does not exist." + nearest_file(path))
        if re.search(r"[*?\[\]]", str(path)):
            raise DataError(f"{start}: a path with any of * ? [ ] would be read as a pattern. Rename it.")
        stamp = _stamp(path)
        if not stamp[0]:
            raise DataError(f"{start} is empty.")
        if path.suffix == ".parquet":
            return replace(cls._parquet(path, party), stamp=stamp)
        if path.name.endswith((".csv", ".csv.gz")):
            return replace(cls._csv(path, party, wanted), stamp=stamp)
        raise DataError(f"{start}: this kind of file is not read; known are {', '.join(SUFFIXES)}.")

    @classmethod
    def _parquet(cls, path: Path, party: str) -> File:
        file = cls(path, party, f"read_parquet({_quoted(path)}, hive_partitioning = false)", {})
        described: list[tuple[Any, ...]] | None = None
        with file._session() as session, suppress(duckdb.Error):
            described = session.execute(f"DESCRIBE SELECT * FROM {file.reader}").fetchall()
        if described is None:
            raise file._wrong("it is not a Parquet file, or it is damaged.")
        columns = {
            str(row[0]): FileColumn(_identifier(str(row[0])), str(row[1]))
            for row in described
            if not _NESTED.fullmatch(str(row[1]))
        }
        return replace(file, columns=columns)

    @classmethod
    def _csv(cls, path: Path, party: str, wanted: Sequence[str]) -> File:
        file = cls(path, party, "", {})
        best: tuple[int, list[str], str] = (-1, [], ",")
        for delimiter in _DELIMITERS:
            names = [name.strip() for name in file._header(delimiter)]
            if (found := sum(name in names for name in wanted)) > best[0]:
                best = (found, names, delimiter)
        _, names, delimiter = best
        if best[0] == 0:
            # The first line may be a row: none of it is quoted.
            raise file._wrong(
                "its first line names none of the declared columns. Is the header missing, or the delimiter "
                "not one of comma, semicolon, tab and bar?"
            )
        for name in wanted:
            if names.count(name) > 1:
                raise file._wrong(f"its header names column {name!r} more than once.")
        # Columns go by position: a header may hold anything, repeated or not.
        positions = ", ".join(f"'c{position}': 'VARCHAR'" for position in range(len(names)))
        reader = (
            f"read_csv({_quoted(path)}, auto_detect = false, header = true, delim = '{delimiter}', "
            f"quote = '\"', escape = '\"', columns = {{{positions}}}, hive_partitioning = false)"
        )
        columns = {name: FileColumn(f"c{position}", "VARCHAR") for position, name in enumerate(names)}
        return replace(file, reader=reader, columns=columns)

    def batches(self, expressions: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        """These expressions over all rows in order, exactly `size` rows a batch but for the last."""
        query = f"SELECT {', '.join(expressions)} FROM {self.reader}"
        with self._session() as session:
            wrong = None
            try:
                yield from _exactly(_stream(session.sql(query), size), size)
            except duckdb.Error as found:
                wrong = self._explained(str(found))
        # Raised here and not above, so that DuckDB's message does not hang on it as its context.
        if wrong:
            raise wrong
        self._check_unchanged()

    def count(self, condition: str = "true") -> int:
        """How many rows meet a condition."""
        (rows,) = self._first(f"SELECT count(*) FROM {self.reader} WHERE {condition}")
        self._check_unchanged()
        return int(rows)

    def _check_unchanged(self) -> None:
        """Ids, count and rows are read one after another, and must be of the same table."""
        try:
            same = _stamp(self.path) == self.stamp
        except OSError:
            same = False
        if not same:
            raise self._wrong("it changed since it was opened. Start again with a file that stays as it is.")

    def _first(self, query: str) -> tuple[Any, ...]:
        with self._session() as session:
            try:
                return session.execute(query).fetchall()[0]
            except duckdb.Error as found:
                wrong = self._explained(str(found))
        raise wrong

    @contextmanager
    def _session(self) -> Iterator[duckdb.DuckDBPyConnection]:
        with closing(self._database.cursor()) as session:
            # It would draw into the terminal of whoever calls; it can only be set per session.
            session.execute("SET enable_progress_bar = false")
            yield session

    @cached_property
    def _database(self) -> duckdb.DuckDBPyConnection:
        """An engine of this file's own: nothing it keeps in memory outlives the table or is shared."""
        return duckdb.connect(config=_SETTINGS)

    def _header(self, delimiter: str) -> list[str]:
        opened = gzip.open if self.path.suffix == ".gz" else open
        try:
            with opened(self.path, "rt", encoding="utf-8-sig", newline="") as lines:
                return next(csv.reader(lines, delimiter=delimiter), [])
        except UnicodeDecodeError:
            wrong = self._wrong("it is not UTF-8 text. Save it as UTF-8.")
        except (OSError, EOFError, csv.Error):
            wrong = self._wrong("its header cannot be read.")
        # As in `batches`: the error that was caught holds a piece of the file.
        raise wrong

    def _explained(self, text: str) -> DataError:
        line = re.search(r"[Ll]ine:? (\d+)", text)
        where = f"line {line[1]}: " if line else ""
        if re.search(r"unicode|utf-?8", text, re.IGNORECASE):
            return self._wrong(f"{where}it is not UTF-8 text. Save it as UTF-8.")
        if re.search(r"Number of Columns", text, re.IGNORECASE):
            return self._wrong(f"{where}a row has not as many fields as the header.")
        if re.search(r"quote", text, re.IGNORECASE):
            return self._wrong(f"{where}a quotation mark is not closed or stands inside a field.")
        return self._wrong(f"{where}the rows cannot be read.")

    def _wrong(self, message: str) -> DataError:
        return DataError(f"party {self.party!r}, file {self.path}: {message}")


def _stream(relation: duckdb.DuckDBPyRelation, size: int) -> Iterator[pa.RecordBatch]:
    # The older name is deprecated; the newer one is missing from older versions.
    open_reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
    reader: Iterator[pa.RecordBatch] = open_reader(size)
    return reader


def _exactly(batches: Iterator[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of exactly `size`; a batch that fits already is not copied."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        while rows >= size:
            joined = waiting[0] if len(waiting) == 1 else _joined(waiting)
            yield joined.slice(0, size)
            rows -= size
            waiting = [joined.slice(size)] if rows else []
    if rows:
        yield waiting[0] if len(waiting) == 1 else _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches).combine_chunks()
    return table.to_batches()[0]


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
