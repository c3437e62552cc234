"""Columns as callers hold them: arrays, lists, parts of data frames or of Arrow tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colonnade.data.arrow import of_array, of_chunks
from colonnade.data.derived import microseconds
from colonnade.data.packed_text import Text
from colonnade.data.spelling import text_of
from colonnade.data.values import DAY_ZERO, Kind, Mask, Numerals, Plain, Values

# What data frames write for a value that is not there.
_ABSENT = ("NAType", "NaTType")


def values_of(given: ArrayLike | Values | Iterable[object]) -> Values:
    """Whatever a caller holds a column in: an array, a list, a column of a data frame or of an Arrow table."""
    if isinstance(given, Plain | Text | Numerals):
        return given
    if isinstance(given, list | tuple):
        # A list of texts stays one: numpy's fixed-width texts lose what they take for padding.
        return of_objects(given)
    if not isinstance(given, np.ndarray) and hasattr(given, "__arrow_c_array__"):
        return of_array(given)
    # Data frames' columns offer a stream too, and need a package of their own to keep their word.
    if hasattr(given, "__arrow_c_stream__") and not hasattr(given, "dtype"):
        return of_chunks(cast(Any, given))
    array = np.asarray(given)
    match array.dtype.kind:
        case "i" | "u":
            return Plain("whole", array)
        case "f":
            missing = np.isnan(array)
            return Plain("real", array, missing if missing.any() else None)
        case "b":
            return Plain("truth", array)
        case "U":
            return Text.of(array.tolist())
        case "M":
            return _moments(array)
        case "m":
            gone = np.isnat(array)
            return Plain("real", array / np.timedelta64(1, "s"), gone if gone.any() else None)
        case _:
            return of_objects(array.tolist())


def of_objects(given: Sequence[object]) -> Values:
    """Python's own values; where they are of several kinds, the text that each is compared as."""
    absent = [_is_absent(value) for value in given]
    present = [value for value, gone in zip(given, absent, strict=True) if not gone]
    missing = np.array(absent, dtype=bool) if any(absent) else None
    kinds = {_kind_of(value) for value in present}
    if not present:
        return Plain("nothing", np.zeros(len(given)), missing)
    if kinds == {"text"}:
        return Text.of([None if gone else str(value) for value, gone in zip(given, absent, strict=True)])
    if kinds == {"binary"} or "nested" in kinds:
        return Plain("nested" if "nested" in kinds else "binary", np.zeros(len(given)), missing)
    kind = next(iter(kinds)) if len(kinds) == 1 else "real" if kinds == {"whole", "real"} else "other"
    if kind in ("whole", "real") and not all(
        -(1 << 63) <= value < 1 << 63 for value in present if isinstance(value, int | np.integer)
    ):
        kind = "other"
    if kind == "span":
        read = [
            None if gone else cast(timedelta, value).total_seconds()
            for value, gone in zip(given, absent, strict=True)
        ]
        return _filled("real", read, missing)
    if kind == "other":
        return Text.of([None if gone else text_of(value) for value, gone in zip(given, absent, strict=True)])
    return _filled(cast(Kind, kind), given, missing)


def _filled(kind: Kind, given: Sequence[Any], missing: Mask | None) -> Plain:
    gone = np.zeros(len(given), dtype=bool) if missing is None else missing
    zoned = False
    read: Any = given
    if kind == "date":
        read = [0 if out else one.toordinal() - DAY_ZERO for one, out in zip(given, gone, strict=True)]
    elif kind == "moment":
        zoned = any(not out and one.tzinfo is not None for one, out in zip(given, gone, strict=True))
        read = [0 if out else microseconds(one) for one, out in zip(given, gone, strict=True)]
    else:
        read = [0 if out else one for one, out in zip(given, gone, strict=True)]
    dtype = {"whole": np.int64, "date": np.int64, "moment": np.int64, "truth": np.bool_}.get(kind, np.float64)
    return Plain(kind, np.array(read, dtype=dtype), missing, zoned)


def _is_absent(value: object) -> bool:
    if value is None or type(value).__name__ in _ABSENT:
        return True
    return isinstance(value, float | np.floating) and bool(value != value)


def _kind_of(value: object) -> str:
    match value:
        case str():
            return "text"
        case bool() | np.bool_():
            return "truth"
        case int() | np.integer():
            return "whole"
        case float() | np.floating():
            return "real"
        case datetime():
            return "moment"
        case date():
            return "date"
        case timedelta():
            return "span"
        case bytes() | bytearray() | memoryview():
            return "binary"
        case list() | tuple() | dict() | set() | frozenset() | np.ndarray():
            return "nested"
        case _:
            # Exact decimals among them: their text loses nothing.
            return "other"


def _moments(array: NDArray[Any]) -> Plain:
    missing = np.isnat(array)
    days = np.datetime_data(array.dtype)[0] in ("Y", "M", "W", "D")
    exact = array.astype("datetime64[D]" if days else "datetime64[us]").astype(np.int64)
    return Plain("date" if days else "moment", exact, missing if missing.any() else None)
