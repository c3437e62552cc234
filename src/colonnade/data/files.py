"""One file as rows: CSV (plain or gzip) and Parquet, through DuckDB; and CSV that spreadsheets may open."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

import duckdb
import pyarrow as pa

from colonnade.data import arrays
from colonnade.data.documents import check_present
from colonnade.errors import DataError, DataUnreadable

# What begins a formula, or is skipped before one (OWASP, CSV injection).
FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def cell(value: object) -> object:
    """A value as a cell: a text that a spreadsheet would compute begins with an apostrophe; numbers stay numbers."""
    if not isinstance(value, str) or not value.startswith(FORMULAS):
        return value
    try:
        float(value)
    except ValueError:
        # Where it stands in the middle of a row, a carriage return would begin another one.
        return f"'{value}".replace("\r", " ")
    # Python reads more as a number than spreadsheets do, but none of it names a cell or a function.
    return value


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([cell(value) for value in row] for row in rows)
    return text.getvalue()


TEXT_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
SUFFIXES = (*TEXT_SUFFIXES, ".parquet")

_DELIMITERS = (",", ";", "\t", "|")
_NOT_PACKED = "it is not packed as its name says, or it is damaged or cut off. Pack the table anew."
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
_NOT_TEXT = "it is not UTF-8 text. Save it as UTF-8."
# What DuckDB says of a CSV that it cannot read, and what is said of it here: nothing of a row.
_READING_FAILED = {
    r"Maximum line size of (\d+) bytes exceeded": "the line is longer than {} bytes, the most that is read. See "
    "whether it is a line of this table; leave long texts out.",
    r"unicode|utf-?8": _NOT_TEXT,
    r"Number of Columns": "a row has not as many fields as the header.",
    r"invalid state": "lines end in different ways, with and without a carriage return, or a quotation mark stands "
    "inside a field. Save it anew.",
    r"quote": "a quotation mark is not closed or stands inside a field.",
}
MAX_LINE = 2_000_000
"""Letters of a header; DuckDB takes as many bytes of any line."""


def open_file(path: Path, *, party: str, columns: Sequence[str] = ()) -> arrays.Relation:
    """A file's rows. Opening looks at its header only; `columns` helps to tell the delimiter of a CSV."""
    start = arrays.owned(party, f"file {path}")
    check_present(path, start)
    if path.is_dir():
        raise DataUnreadable(f"{start} is a directory; a file was expected, ending in {', '.join(SUFFIXES)}.")
    if re.search(r"[*?\[\]]", str(path)):
        raise DataUnreadable(f"{start}: a path with any of * ? [ ] would be read as a pattern. Rename it.")
    name = path.name.lower()
    if not name.endswith(SUFFIXES):
        raise DataUnreadable(f"{start}: this kind of file is not read; known are {', '.join(SUFFIXES)}.")
    file = File(path, party)
    if name.endswith(".parquet"):
        return _parquet(file)
    names, delimiter = _header(file, columns)
    # Columns go by position: a header may hold anything, repeated or not.
    positions = ", ".join(f"'c{position}': 'VARCHAR'" for position in range(len(names)))
    reader = (
        f"read_csv({arrays.quoted(path)}, auto_detect = false, header = true, delim = {arrays.quoted(delimiter)}, "
        f"quote = '\"', escape = '\"', columns = {{{positions}}}, hive_partitioning = false)"
    )
    return FileRelation(file, reader, text_fields(names), typed=False)


class File:
    """A file that must stay as it is while it is read."""

    def __init__(self, path: Path, party: str, *, name: str | None = None) -> None:
        self.path, self.party = path, party
        self.name = f"file {path}" if name is None else name
        if not path.is_file():
            raise DataUnreadable(
                f"{arrays.owned(party, self.name)} is a pipe, a socket or a device. A table is read more than once: "
                "write it to a file first."
            )
        self._stamp = _stamp(path)
        if not self._stamp[0]:
            raise DataUnreadable(f"{arrays.owned(party, self.name)} is empty.")

    def check_unchanged(self) -> None:
        """Ids, count and rows are read one after another, and must be of the same table."""
        try:
            same = _stamp(self.path) == self._stamp
        except OSError:
            same = False
        if not same:
            raise self.wrong("it changed since it was opened. Start again with a file that stays as it is.")

    def wrong(self, message: str) -> DataError:
        return arrays.refusal(self.party, self.name, message)

    @property
    def packed(self) -> bool:
        return self.path.suffix.lower() == ".gz"

    def unpacked(self) -> IO[bytes]:
        return cast(IO[bytes], gzip.open(self.path) if self.packed else self.path.open("rb"))


def _header(file: File, columns: Sequence[str]) -> tuple[list[str], str]:
    """Names and delimiter of a CSV: the one that finds most of the wanted names, or most names if none are wanted."""
    best: tuple[int, list[str], str] = (-1, [], ",")
    line = _first_record(file)
    for delimiter in _DELIMITERS:
        split = None
        with suppress(csv.Error):
            split = next(csv.reader(io.StringIO(line, newline=""), delimiter=delimiter), [])
        if split is None:
            raise file.wrong("its header cannot be read.")
        names = [name.strip() for name in split]
        known = sum(name in names for name in columns) if columns else len(names)
        if known > best[0]:
            best = (known, names, delimiter)
    known, names, delimiter = best
    if known == 0:
        # The first line may be a row: none of it is quoted.
        raise file.wrong(
            "its first line names none of the declared columns. Is the header missing, or the delimiter not one of "
            "comma, semicolon, tab and bar?"
        )
    for name in columns or names:
        if names.count(name) > 1:
            raise file.wrong(f"its header names column {name!r} more than once.")
    return names, delimiter


class FileRelation:
    _order = ""
    _engine: arrays.Engine

    def __init__(
        self, file: File, reader: str, fields: Mapping[str, arrays.SourceColumn], *, typed: bool
    ) -> None:
        self.name, self.fields, self.typed = file.name, fields, typed
        self._file, self._reader, self._engine = file, reader, arrays.Engine()

    def batches(
        self, names: Sequence[str], *, size: int, floats: Container[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        return self._read(
            f"{arrays.selected(self.fields, names, floats)} FROM {self._reader}{self._order}", size
        )

    def count(self) -> int:
        (batch,) = self._read(f"count(*) FROM {self._reader}", 1)
        return int(batch.column(0)[0].as_py())

    def _read(self, requested: str, size: int) -> Iterator[pa.RecordBatch]:
        with self._engine.session() as session:
            wrong = None
            try:
                yield from arrays.streamed(session, f"SELECT {requested}", size)
            except arrays.READ_FAILED as error:
                wrong = self._explained(str(error))
        # Raised here and not above, so that DuckDB's message, which may quote a row, does not hang on it.
        if wrong:
            raise wrong
        self._file.check_unchanged()

    def check_unchanged(self) -> None:
        self._file.check_unchanged()

    def _explained(self, text: str) -> DataError:
        line = re.search(r"[Ll]ine:? (\d+)", text)
        where = f"line {line[1]}: " if line else ""
        for pattern, said in _READING_FAILED.items():
            if match := re.search(pattern, text, re.IGNORECASE):
                return self._file.wrong(where + said.format(*match.groups()))
        return self._file.wrong(_NOT_PACKED if self._file.packed else f"{where}the rows cannot be read.")


def _parquet(file: File) -> arrays.Relation:
    reader = f"read_parquet({arrays.quoted(file.path)}, hive_partitioning = false)"
    described: list[tuple[Any, ...]] | None = None
    with arrays.Engine().session() as session, suppress(duckdb.Error):
        described = session.execute(f"DESCRIBE SELECT * FROM {reader}").fetchall()
    if described is None:
        raise file.wrong("it is not a Parquet file, or it is damaged.")
    return FileRelation(file, reader, described_fields(described), typed=True)


def text_fields(names: Sequence[str]) -> dict[str, arrays.SourceColumn]:
    return {name: arrays.SourceColumn(f"c{position}", "VARCHAR") for position, name in enumerate(names)}


def described_fields(described: Iterable[Sequence[Any]]) -> dict[str, arrays.SourceColumn]:
    return {
        str(row[0]): arrays.SourceColumn(arrays.identifier(str(row[0])), str(row[1])) for row in described
    }


def _first_record(file: File) -> str:
    try:
        with file.unpacked() as content:
            if content.read(2) in _WIDE_MARKS:
                raise file.wrong("it is UTF-16 text, as some spreadsheets write it. Save it as UTF-8.")
            content.seek(0)
            record = ""
            text = io.TextIOWrapper(content, encoding="utf-8-sig", newline="")
            while line := text.readline(MAX_LINE):
                record += line
                if len(record) >= MAX_LINE:
                    raise file.wrong(
                        f"its header is longer than {MAX_LINE} letters, the most that is read. See whether the "
                        "file is the one that was meant."
                    )
                if record.count('"') % 2 == 0:
                    break
            return record
    except UnicodeDecodeError:
        wrong = file.wrong(_NOT_TEXT)
    except (OSError, EOFError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        wrong = file.wrong(f"it cannot be read ({why})." if why else _NOT_PACKED)
    # The error that was caught holds a piece of the file.
    raise wrong


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns
