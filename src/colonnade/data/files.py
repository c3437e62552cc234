"""One file as rows: CSV (plain, gzip or zip) and Parquet, through DuckDB.

DuckDB's own messages about a bad file quote its rows, so none of them is passed on.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zipfile
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

import duckdb
import pyarrow as pa
import pyarrow.csv as arrow_csv

from colonnade.data.documents import nearest_file
from colonnade.data.relation import (
    Engine,
    Field,
    Relation,
    arrow_batches,
    exactly,
    identifier,
    owned,
    quoted,
    refusal,
    selected,
)
from colonnade.errors import DataError, DataMissing, DataUnreadable

TEXT_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.zip", ".tsv.zip", ".zip")
SUFFIXES = (*TEXT_SUFFIXES, ".parquet")

_DELIMITERS = (",", ";", "\t", "|")
_NESTED = re.compile(r".*\[\d*\]|(STRUCT|MAP|UNION|LIST).*")
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
_NOT_TEXT = "it is not UTF-8 text. Save it as UTF-8."
_RAGGED = "a row has not as many fields as the header."


def open_file(path: Path, *, party: str, wanted: Sequence[str] = ()) -> Relation:
    """A file's rows. Opening looks at its header only; `wanted` helps to tell the delimiter of a CSV.

    >>> open_file(Path("no such file.csv"), party="bank")
    Traceback (most recent call last):
    colonnade.errors.DataMissing: party 'bank', file no such file.csv does not exist.
    """
    start = owned(party, f"file {path}")
    if path.is_dir():
        raise DataUnreadable(f"{start} is a directory; a file was expected, ending in {', '.join(SUFFIXES)}.")
    if not path.exists():
        raise DataMissing(f"{start} does not exist." + nearest_file(path))
    if re.search(r"[*?\[\]]", str(path)):
        raise DataUnreadable(f"{start}: a path with any of * ? [ ] would be read as a pattern. Rename it.")
    name = path.name.lower()
    if not name.endswith(SUFFIXES):
        raise DataUnreadable(f"{start}: this kind of file is not read; known are {', '.join(SUFFIXES)}.")
    file = File(path, party)
    if name.endswith(".parquet"):
        return _parquet(file)
    header = Header.read(file, wanted)
    if name.endswith(".zip"):
        return ZippedText(file, header)
    # Columns go by position: a header may hold anything, repeated or not.
    positions = ", ".join(f"'c{position}': 'VARCHAR'" for position in range(len(header.names)))
    reader = (
        f"read_csv({quoted(path)}, auto_detect = false, header = true, delim = {quoted(header.delimiter)}, "
        f"quote = '\"', escape = '\"', columns = {{{positions}}}, hive_partitioning = false)"
    )
    return FileRelation(file, reader, header.fields, typed=False)


class File:
    """A file that must stay as it is while it is read."""

    def __init__(self, path: Path, party: str, *, name: str | None = None) -> None:
        self.path, self.party = path, party
        self.name = f"file {path}" if name is None else name
        self._stamp = _stamp(path)
        if not self._stamp[0]:
            raise DataUnreadable(f"{owned(party, self.name)} is empty.")

    def check_unchanged(self) -> None:
        """Ids, count and rows are read one after another, and must be of the same table."""
        try:
            same = _stamp(self.path) == self._stamp
        except OSError:
            same = False
        if not same:
            raise self.wrong("it changed since it was opened. Start again with a file that stays as it is.")

    def wrong(self, message: str) -> DataError:
        """What is wrong with it."""
        return refusal(self.party, self.name, message)

    @contextmanager
    def unpacked(self) -> Iterator[IO[bytes]]:
        """Its bytes, without gzip or zip around them."""
        suffix = self.path.suffix.lower()
        if suffix != ".zip":
            with gzip.open(self.path) if suffix == ".gz" else self.path.open("rb") as content:
                yield cast(IO[bytes], content)
            return
        with zipfile.ZipFile(self.path) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            if len(members) != 1:
                raise self.wrong(f"it holds {len(members)} files; one CSV was expected. Pack each by itself.")
            if members[0].flag_bits & 1:
                raise self.wrong("it is encrypted. Unpack it first.")
            with archive.open(members[0]) as content:
                yield content


class Header:
    """The first line of a CSV: its names in order, and the delimiter that it was told by."""

    def __init__(self, names: list[str], delimiter: str) -> None:
        self.names, self.delimiter = names, delimiter
        self.fields = {name: Field(f"c{position}", "VARCHAR") for position, name in enumerate(names)}

    @classmethod
    def read(cls, file: File, wanted: Sequence[str]) -> Header:
        """The header under the delimiter that finds most of the wanted names, or most names if none are wanted."""
        best: tuple[int, list[str], str] = (-1, [], ",")
        line = _first_record(file)
        for delimiter in _DELIMITERS:
            names = [name.strip() for name in _split(file, line, delimiter)]
            found = sum(name in names for name in wanted) if wanted else len(names)
            if found > best[0]:
                best = (found, names, delimiter)
        found, names, delimiter = best
        if found == 0:
            # The first line may be a row: none of it is quoted.
            raise file.wrong(
                "its first line names none of the declared columns. Is the header missing, or the delimiter "
                "not one of comma, semicolon, tab and bar?"
            )
        for name in wanted or names:
            if names.count(name) > 1:
                raise file.wrong(f"its header names column {name!r} more than once.")
        return cls(names, delimiter)


class FileRelation:
    """A file that DuckDB reads by itself."""

    def __init__(self, file: File, reader: str, fields: Mapping[str, Field], *, typed: bool) -> None:
        self._file, self._reader = file, reader
        self.typed = typed
        self._engine = Engine()
        self.name = file.name
        self.fields = fields

    def batches(
        self, names: Sequence[str], *, size: int, floats: Container[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """These columns of all rows in order."""
        query = f"SELECT {selected(self.fields, names, floats)} FROM {self._reader}"
        with self._engine.session() as session:
            wrong = None
            try:
                yield from exactly(arrow_batches(session.sql(query), size), size)
            except duckdb.Error as found:
                wrong = self._explained(str(found))
        # Raised here and not above, so that DuckDB's message does not hang on it as its context.
        if wrong:
            raise wrong
        self._file.check_unchanged()

    def count(self) -> int:
        """The number of rows."""
        wrong = None
        with self._engine.session() as session:
            try:
                ((rows,),) = session.execute(f"SELECT count(*) FROM {self._reader}").fetchall()
            except duckdb.Error as found:
                wrong = self._explained(str(found))
        if wrong:
            raise wrong
        self._file.check_unchanged()
        return int(rows)

    def _explained(self, text: str) -> DataError:
        line = re.search(r"[Ll]ine:? (\d+)", text)
        where = f"line {line[1]}: " if line else ""
        if re.search(r"unicode|utf-?8", text, re.IGNORECASE):
            return self._file.wrong(f"{where}{_NOT_TEXT}")
        if re.search(r"Number of Columns", text, re.IGNORECASE):
            return self._file.wrong(f"{where}{_RAGGED}")
        if "invalid state" in text:
            return self._file.wrong(
                f"{where}lines end in different ways, with and without a carriage return, or a quotation mark stands "
                "inside a field. Save it anew."
            )
        if re.search(r"quote", text, re.IGNORECASE):
            return self._file.wrong(f"{where}a quotation mark is not closed or stands inside a field.")
        return self._file.wrong(f"{where}the rows cannot be read.")


class ZippedText:
    """A CSV inside a zip, unpacked as it is read; nothing is written to disk."""

    typed = False

    def __init__(self, file: File, header: Header) -> None:
        self._file, self._header = file, header
        self.name = file.name
        self.fields = header.fields

    def batches(
        self, names: Sequence[str], *, size: int, floats: Container[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """These columns of all rows in order, as text."""
        return exactly(self._read([self.fields[name].identifier for name in names]), size)

    def count(self) -> int:
        """The number of rows."""
        return sum(batch.num_rows for batch in self._read(["c0"]))

    def _read(self, wanted: list[str]) -> Iterator[pa.RecordBatch]:
        wrong = None
        try:
            with self._file.unpacked() as content:
                yield from self._parse(content, wanted)
        except pa.ArrowInvalid as found:
            wrong = self._explained(str(found))
        except (OSError, EOFError, zipfile.BadZipFile, ValueError):
            wrong = self._file.wrong("it is damaged: it cannot be unpacked.")
        if wrong:
            raise wrong
        self._file.check_unchanged()

    def _parse(self, content: IO[bytes], wanted: list[str]) -> Iterator[pa.RecordBatch]:
        positions = [f"c{position}" for position in range(len(self._header.names))]
        reader = arrow_csv.open_csv(
            pa.PythonFile(content, mode="r"),
            read_options=arrow_csv.ReadOptions(
                use_threads=False, column_names=positions, skip_rows_after_names=1
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=self._header.delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(positions, pa.string()), include_columns=wanted
            ),
        )
        with reader:
            yield from reader

    def _explained(self, text: str) -> DataError:
        row = re.search(r"Row #(\d+)", text)
        where = f"line {row[1]}: " if row else ""
        if re.search(r"utf-?8", text, re.IGNORECASE):
            return self._file.wrong(f"{where}{_NOT_TEXT}")
        if re.search(r"Expected \d+ columns", text):
            return self._file.wrong(f"{where}{_RAGGED}")
        return self._file.wrong(f"{where}the rows cannot be read.")


def _parquet(file: File) -> Relation:
    reader = f"read_parquet({quoted(file.path)}, hive_partitioning = false)"
    described: list[tuple[Any, ...]] | None = None
    with Engine().session() as session, suppress(duckdb.Error):
        described = session.execute(f"DESCRIBE SELECT * FROM {reader}").fetchall()
    if described is None:
        raise file.wrong("it is not a Parquet file, or it is damaged.")
    return FileRelation(file, reader, described_fields(described), typed=True)


def described_fields(described: Sequence[Sequence[Any]]) -> dict[str, Field]:
    """The columns that DuckDB describes; nested ones are not columns of a table here.

    >>> list(described_fields([("age", "BIGINT"), ("visits", "DATE[]")]))
    ['age']
    """
    return {
        str(row[0]): Field(identifier(str(row[0])), str(row[1]))
        for row in described
        if not _NESTED.fullmatch(str(row[1]))
    }


def _first_record(file: File) -> str:
    """The first line, or as many lines as its quotation marks hold together."""
    try:
        with file.unpacked() as content:
            wide = content.read(2) in _WIDE_MARKS
        if wide:
            raise file.wrong("it is UTF-16 text, as some spreadsheets write it. Save it as UTF-8.")
        with file.unpacked() as content:
            record = ""
            for line in io.TextIOWrapper(content, encoding="utf-8-sig", newline=""):
                record += line
                if record.count('"') % 2 == 0:
                    break
            return record
    except UnicodeDecodeError:
        wrong = file.wrong(_NOT_TEXT)
    except (OSError, EOFError, zipfile.BadZipFile):
        wrong = file.wrong("its header cannot be read.")
    # The error that was caught holds a piece of the file.
    raise wrong


def _split(file: File, record: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader(io.StringIO(record, newline=""), delimiter=delimiter), [])
    except csv.Error:
        wrong = file.wrong("its header cannot be read.")
    raise wrong


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns
