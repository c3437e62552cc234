"""Columns as Arrow arrays, whatever holds them, and rows in order, in batches, by named columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from colonnade.data.declaring import AS_WRITTEN
from colonnade.errors import DataError, DataUnreadable

Kind = Literal["nothing", "truth", "whole", "real", "date", "moment", "text", "binary", "nested", "unread"]
NOT_READ: tuple[Kind, ...] = ("binary", "nested", "unread")
"""Values of these kinds are only counted."""
Failed = (pa.ArrowException, OSError)
"""What an Arrow stream raises half way; its message may quote a row."""
_EPOCH = datetime(1970, 1, 1)
_DAY_ZERO = date(1970, 1, 1).toordinal()
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
# What data frames write for a value that is not there.
_ABSENT = ("NAType", "NaTType")
_KINDS: tuple[tuple[Any, str], ...] = (
    (str, "text"),
    ((bool, np.bool_), "truth"),
    ((int, np.integer), "whole"),
    ((float, np.floating), "real"),
    (datetime, "moment"),
    (date, "date"),
    (timedelta, "span"),
    ((bytes, bytearray, memoryview), "binary"),
    ((list, tuple, dict, set, frozenset, np.ndarray), "nested"),
)
_ARROW_KINDS: tuple[tuple[Callable[[pa.DataType], bool], Kind], ...] = (
    (pa.types.is_large_string, "text"),
    (pa.types.is_integer, "whole"),
    (pa.types.is_floating, "real"),
    (pa.types.is_boolean, "truth"),
    (pa.types.is_date, "date"),
    (pa.types.is_timestamp, "moment"),
    (pa.types.is_null, "nothing"),
    (lambda type: "binary" in str(type), "binary"),
    (lambda type: pa.types.is_nested(type) or pa.types.is_run_end_encoded(type), "nested"),
)


def kind_of(column: pa.Array) -> Kind:
    return next((kind for is_one, kind in _ARROW_KINDS if is_one(column.type)), "unread")


def values_of(given: ArrayLike | pa.Array | Iterable[object]) -> pa.Array:
    """Whatever a caller holds a column in: an array, a list, a column of a data frame or of an Arrow table."""
    if isinstance(given, pa.Array | pa.ChunkedArray):
        return _plain(given)
    if isinstance(given, list | tuple):
        # A list of texts stays one: numpy's fixed-width texts lose what they take for padding.
        return _of_objects(given)
    if not isinstance(given, np.ndarray) and hasattr(given, "__arrow_c_array__"):
        return _plain(pa.array(given))
    # Data frames' columns offer a stream too, and need a package of their own to keep their word.
    if hasattr(given, "__arrow_c_stream__") and not hasattr(given, "dtype"):
        return _plain(imported(given, pa.chunked_array))
    array = np.asarray(given)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    match array.dtype.kind:
        case "i" | "u" | "b":
            return pa.array(array)
        case "f":
            return pa.array(array.astype(np.float64, copy=False))
        case "M":
            days = np.datetime_data(array.dtype)[0] in ("Y", "M", "W", "D")
            return pa.array(array.astype("datetime64[D]" if days else "datetime64[us]"))
        case "m":
            return pa.array(array / np.timedelta64(1, "s"), mask=np.isnat(array))
        case _:
            return _of_objects(array.tolist())


def columns_by_name(frame: Any) -> Mapping[str, Any] | None:
    """The columns of a table in memory, by name; None for what has no names, such as an array."""
    if isinstance(frame, Mapping):
        return frame
    if hasattr(frame, "iloc") and hasattr(frame, "columns"):
        return {str(name): frame[name] for name in frame.columns}
    names = getattr(getattr(frame, "dtype", None), "names", None)
    if names is not None:
        return {name: frame[name] for name in names}
    if hasattr(frame, "__arrow_c_stream__") and not hasattr(frame, "dtype"):
        table = imported(frame, lambda stream: pa.RecordBatchReader.from_stream(stream).read_all())
        names = table.column_names
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise DataError(f"column {twice[0]!r} is there twice. Name each column once.")
        return dict(zip(names, table.columns, strict=True))
    if hasattr(frame, "collect") and hasattr(frame, "collect_schema"):
        raise DataError(f"a {type(frame).__name__} is not computed yet. Give what its collect() returns.")
    # What others call a table has names, and a column for each.
    names = getattr(frame, "columns", None)
    return {str(name): frame[name] for name in names} if isinstance(names, Iterable) else None


def imported(frame: Any, take: Callable[[Any], Any]) -> Any:
    try:
        return take(frame)
    except Failed:
        raise DataError(
            f"{type(frame).__name__} stopped half way while its rows were read. Compute it first, and give the result."
        ) from None


def microseconds(moment: date) -> int:
    """Microseconds since the start of 1970, exactly; a moment with a time zone counts in UTC."""
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    elif moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def of_texts(given: Sequence[str | None]) -> pa.Array:
    """Texts as a column; halves of characters, which Python has and UTF-8 has not, stay what they are."""
    try:
        return pa.array(given, pa.large_string())
    except UnicodeEncodeError:
        packed = [None if one is None else one.encode("utf-8", "surrogatepass") for one in given]
    return pa.array(packed, pa.large_binary()).view(pa.large_string())


def texts(column: pa.Array) -> list[str | None]:
    try:
        return cast(list[str | None], column.to_pylist())
    except UnicodeDecodeError:
        packed = column.view(pa.large_binary()).to_pylist()
    return [None if one is None else one.decode("utf-8", "surrogatepass") for one in packed]


def packed(column: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of all texts of a column, and where each begins and the last one ends."""
    _, ends, store = column.buffers()
    first = column.offset
    marks: NDArray[np.int64] = np.frombuffer(ends, dtype=np.int64)[first : first + len(column) + 1]
    content = np.frombuffer(store, dtype=np.uint8) if store is not None else np.zeros(0, dtype=np.uint8)
    return content, (marks if len(marks) else np.zeros(1, dtype=np.int64))


def text_bytes(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """How many bytes each text of a column has, and all of them one after another."""
    store, ends = packed(column)
    return np.diff(ends), store[int(ends[0]) : int(ends[-1])]


def numbers(column: pa.Array) -> NDArray[np.float64]:
    """A column of numbers, days or microseconds as float64, with NaN for what is missing."""
    if kind_of(column) == "nothing":
        return np.full(len(column), np.nan)
    if kind_of(column) in ("date", "moment"):
        column = column.view(pa.int32() if kind_of(column) == "date" else pa.int64())
    exact = column if pa.types.is_float64(column.type) else column.cast(pa.float64(), safe=False)
    return cast(NDArray[np.float64], exact.to_numpy(zero_copy_only=False))


def objects(column: pa.Array) -> list[object]:
    """A column as Python's own values, None for what is missing; what has no end in a calendar is text."""
    match kind_of(column):
        case "text":
            return cast(list[object], texts(column))
        case "date":
            days = column.view(pa.int32())
            return list(_in_calendar(days, lambda day: date.fromordinal(day + _DAY_ZERO)))
        case "moment":
            zone = None if column.type.tz is None else UTC
            ticks = column.view(pa.int64())
            return list(
                _in_calendar(ticks, lambda n: _EPOCH.replace(tzinfo=zone) + timedelta(microseconds=n))
            )
        case "truth" | "whole" | "real":
            return cast(list[object], column.to_pylist())
        case _:
            return [None] * len(column)


def distinct(column: pa.Array) -> tuple[list[object], NDArray[np.int64]]:
    """The different values, and which of them stands where; one more than there are stands for none."""
    if kind_of(column) == "nothing":
        return [], np.zeros(len(column), dtype=np.int64)
    coded = column.dictionary_encode()
    different = objects(coded.dictionary)
    places = coded.indices.cast(pa.int64()).fill_null(len(different))
    return different, places.to_numpy(zero_copy_only=False)


def _plain(given: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column of one piece and of a type that is read."""
    type = given.type
    if isinstance(given, pa.ChunkedArray):
        chunks = given.chunks or [pa.nulls(0, type)]
        return pa.concat_arrays([_plain(chunk) for chunk in chunks])
    if pa.types.is_dictionary(type):
        return _plain(given.dictionary).take(given.indices)
    if isinstance(type, pa.BaseExtensionType):
        return _plain(given.storage)
    if pa.types.is_string(type) or pa.types.is_string_view(type):
        return given.cast(pa.large_string())
    if pa.types.is_decimal(type):
        return of_texts([None if one is None else str(one) for one in given.to_pylist()])
    if pa.types.is_float16(type):
        return given.cast(pa.float64())
    if pa.types.is_duration(type):
        return pc.divide(given.view(pa.int64()).cast(pa.float64(), safe=False), _PER_SECOND[type.unit])
    if pa.types.is_date64(type):
        # Rounded down: a cast refuses what is not midnight, and shows the value.
        days = np.asarray(given.view(pa.int64()).fill_null(0)) // 86_400_000
        return pa.array(days.astype(np.int32), mask=np.asarray(given.is_null())).view(pa.date32())
    if pa.types.is_timestamp(type) and type.unit != "us":
        if type.unit != "ns":
            return given.cast(pa.timestamp("us", type.tz), safe=False)
        # A cast would round moments before 1970 up, and others down.
        ticks = np.asarray(given.view(pa.int64()).fill_null(0)) // 1_000
        return pa.array(ticks, mask=np.asarray(given.is_null())).view(pa.timestamp("us", type.tz))
    return given


_TEXT = pa.large_string()
_READ: Mapping[str, tuple[Callable[[Any], Any], pa.DataType]] = {
    "text": (str, _TEXT),
    "truth": (bool, pa.bool_()),
    "whole": (int, pa.int64()),
    "real": (float, pa.float64()),
    "moment": (microseconds, pa.int64()),
    "date": (lambda day: day, pa.date32()),
    "span": (timedelta.total_seconds, pa.float64()),
    "other": (AS_WRITTEN.spell, _TEXT),
}


def _of_objects(given: Sequence[Any]) -> pa.Array:
    """Python's own values; where they are of several kinds, the text that each is compared as."""
    absent = np.fromiter(map(_is_absent, given), dtype=bool, count=len(given))
    present = [value for value, gone in zip(given, absent, strict=True) if not gone]
    # Exact decimals are among the others: their text loses nothing.
    kinds = {next((kind for types, kind in _KINDS if isinstance(one, types)), "other") for one in present}
    if not present:
        return pa.nulls(len(given))
    if kinds == {"binary"} or "nested" in kinds:
        return pa.nulls(len(given), pa.list_(pa.null()) if "nested" in kinds else pa.binary())
    kind = next(iter(kinds)) if len(kinds) == 1 else "real" if kinds == {"whole", "real"} else "other"
    whole = (value for value in present if isinstance(value, int | np.integer))
    if kind in ("whole", "real") and not all(-(1 << 63) <= value < 1 << 63 for value in whole):
        kind = "other"
    read, type = _READ[kind]
    values = [None if gone else read(value) for value, gone in zip(given, absent, strict=True)]
    if type is _TEXT:
        return of_texts(values)
    zone = "UTC" if kind == "moment" and any(value.tzinfo is not None for value in present) else None
    return pa.array(values, type).view(pa.timestamp("us", zone) if kind == "moment" else type)


def _is_absent(value: object) -> bool:
    if value is None or type(value).__name__ in _ABSENT:
        return True
    return isinstance(value, float | np.floating) and bool(value != value)


def _in_calendar(counts: pa.Array, read: Callable[[int], object]) -> Iterator[object]:
    for count in counts.to_pylist():
        try:
            yield None if count is None else read(count)
        except (OverflowError, ValueError):
            # Beyond the calendar, as databases write that something never ends.
            yield "infinity" if count > 0 else "-infinity"


_NESTED = r".*\[\d*\]|(STRUCT|MAP|UNION|LIST).*"
# What a column holds, by DuckDB's word for its type.
_HOLDS = {
    "nested": _NESTED,
    "text": "VARCHAR",
    "number": r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*",
    "date": r"DATE|TIMESTAMP.*",
    "truth": "BOOLEAN",
    "binary": "BLOB",
    "nothing": '"NULL"',
}
# Types that are read as they are; exact decimals, times of day, enumerations and the like come as text.
_SIMPLE = re.compile(
    rf"BOOLEAN|U?(TINY|SMALL|BIG)?INT(EGER)?|FLOAT|DOUBLE|VARCHAR|DATE|TIMESTAMP.*|BLOB|{_NESTED}"
)
_Settings = dict[str, str | bool | int | float | list[str]]
_SETTINGS: _Settings = {"preserve_insertion_order": True, "autoinstall_known_extensions": False}
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
    def holds(self) -> str:
        """What its values are: a key of `_HOLDS`, or "other", which comes as text."""
        return next((what for what, types in _HOLDS.items() if re.fullmatch(types, self.kind)), "other")


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
        """All rows in order, `size` a batch but for the last; `floats` as float64, unless the source has text."""
        ...

    def count(self) -> int: ...

    def check_unchanged(self) -> None:
        """Raise a `DataError` if the next reading would not see the same rows."""
        ...


class Engine:
    """A DuckDB of a source's own, shared with none; with a database it is confined to that file, for reading."""

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
            except RuntimeError as error:
                # What DuckDB makes of Ctrl-C.
                if str(error) == "Query interrupted":
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
    except OSError as error:
        # What DuckDB makes of Ctrl-C on the way through Arrow.
        if "INTERRUPT" in str(error):
            raise KeyboardInterrupt from None
        raise


READ_FAILED = (duckdb.Error, *Failed)
"""What reading a query raises; its message may quote a row, so it is caught and nothing of it is raised again."""


def selected(fields: Mapping[str, SourceColumn], names: Sequence[str], floats: Container[str]) -> str:
    """What to ask DuckDB for: numbers in `floats` as float64, and what has no other form here as text."""
    requested = []
    for name in names:
        field = fields[name]
        number = name in floats and field.holds == "number"
        plain = not number and _SIMPLE.fullmatch(field.kind)
        cast = f"CAST({field.identifier} AS {'DOUBLE' if number else 'VARCHAR'})"
        requested.append(field.identifier if plain else cast)
    return ", ".join(requested)


def quoted(text: object) -> str:
    return "'" + str(text).replace("'", "''") + "'"


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def refusal(party: str, name: str, message: str, *, kind: type[DataError] = DataUnreadable) -> DataError:
    return kind(f"{owned(party, name)}: {message}")


def owned(party: str, name: str) -> str:
    return f"party {party!r}, {name}" if party else name


def first_line(error: Exception) -> str:
    """The first line of an error that speaks of a query or a server and of no row."""
    lines: list[Any] = str(error).strip().splitlines() or [type(error).__name__]
    return str(lines[0]).strip().rstrip(".!")
