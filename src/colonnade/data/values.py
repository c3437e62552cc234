"""Columns as a source gives them: numbers, truth values, dates, moments or text, some of them missing.

A column knows what it holds and nothing of what was declared about it; `coding.py` turns one into the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from colonnade.data.packed_text import Text

Kind = Literal["nothing", "truth", "whole", "real", "date", "moment", "binary", "nested", "unread"]
NOT_READ: tuple[Kind, ...] = ("binary", "nested", "unread")
"""Values of these kinds are only counted."""
Mask = NDArray[np.bool_]
DAY_ZERO = date(1970, 1, 1).toordinal()
"""The start of 1970 as Python counts days."""
_EPOCH = datetime(1970, 1, 1)
_PLAIN = b"0123456789.-eE"


@dataclass(frozen=True, eq=False)
class Plain:
    """Values of one kind: numbers, truth values, days or microseconds since the start of 1970.

    `missing` says which are not there; what stands in their places means nothing. Binary values, lists, records and
    values of types that are not known are only counted: nothing here reads them.
    """

    kind: Kind
    data: NDArray[Any]
    missing: Mask | None = None
    zoned: bool = False

    def __len__(self) -> int:
        return len(self.data)

    def part(self, start: int, stop: int) -> Plain:
        """Some of them in order, without copying."""
        missing = None if self.missing is None else self.missing[start:stop]
        return Plain(self.kind, self.data[start:stop], missing, self.zoned)

    def numbers(self) -> NDArray[np.float64]:
        """As float64, with NaN for what is missing."""
        if self.kind == "nothing":
            return np.full(len(self), np.nan)
        if self.missing is None:
            return self.data.astype(np.float64, copy=False)
        numbers = self.data.astype(np.float64)
        numbers[self.missing] = np.nan
        return numbers

    def objects(self) -> list[object]:
        """As Python's own values, None for what is missing."""
        objects = _objects(self, self.data)
        if self.missing is not None:
            for place in np.flatnonzero(self.missing):
                objects[place] = None
        return objects

    def distinct(self) -> tuple[list[object], NDArray[np.intp]]:
        """The different values, and which of them stands where; one more than there are stands for none."""
        if self.kind == "nothing":
            return [], np.zeros(len(self), dtype=np.intp)
        different, places = np.unique(self.data, return_inverse=True)
        if self.missing is not None:
            places = np.where(self.missing, len(different), places)
        return _objects(self, different), places


@dataclass(frozen=True, eq=False)
class Numerals:
    """Text that is read as numbers: those that were read, NaN elsewhere, and the text of the others."""

    read: NDArray[np.float64]
    rest: Text

    @classmethod
    def of(cls, read: NDArray[np.float64], text: Text) -> Numerals:
        """What DuckDB read, where the text has nothing but digits, points, signs of minus and exponents.

        Of such texts DuckDB reads those that are numbers, and nothing else; blanks, separators and words are looked
        at one by one by whoever codes the column.
        """
        odd = text.beyond(_PLAIN) | np.isnan(read)
        if text.missing is not None:
            odd &= ~text.missing
        return cls(np.where(odd, np.nan, read) if odd.any() else read, Text(text.ends, text.store, ~odd))

    def __len__(self) -> int:
        return len(self.read)

    def part(self, start: int, stop: int) -> Numerals:
        """Some of them in order, without copying."""
        return Numerals(self.read[start:stop], self.rest.part(start, stop))


Values = Plain | Text | Numerals


@dataclass(frozen=True)
class Batch:
    """Some rows of some columns."""

    columns: tuple[Values, ...]
    rows: int

    def part(self, start: int, stop: int) -> Batch:
        """Some of the rows in order, without copying."""
        return Batch(tuple(column.part(start, stop) for column in self.columns), stop - start)

    @staticmethod
    def joined(batches: Sequence[Batch]) -> Batch:
        """The rows of batches that have the same columns, one after another."""
        if len(batches) == 1:
            return batches[0]
        columns = zip(*(batch.columns for batch in batches), strict=True)
        return Batch(tuple(joined(column) for column in columns), sum(batch.rows for batch in batches))


def joined(parts: Sequence[Values]) -> Values:
    """The parts of one column, one after another."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], Text):
        return Text.joined(cast(Sequence[Text], parts))
    if isinstance(parts[0], Numerals):
        both = cast(Sequence[Numerals], parts)
        return Numerals(
            np.concatenate([part.read for part in both]), Text.joined([part.rest for part in both])
        )
    plain = cast(Sequence[Plain], parts)
    data = np.concatenate([part.data for part in plain])
    missing = None
    if any(part.missing is not None for part in plain):
        missing = np.concatenate(
            [np.zeros(len(part), dtype=bool) if part.missing is None else part.missing for part in plain]
        )
    return Plain(plain[0].kind, data, missing, plain[0].zoned)


def _objects(column: Plain, data: NDArray[Any]) -> list[object]:
    match column.kind:
        case "date":
            return [_date(int(day)) for day in data.tolist()]
        case "moment":
            zone = UTC if column.zoned else None
            return [_moment(int(micro), zone) for micro in data.tolist()]
        case "nothing" | "binary" | "nested" | "unread":
            return [None] * len(data)
        case _:
            return cast(list[object], data.tolist())


def _date(day: int) -> object:
    try:
        return date.fromordinal(day + DAY_ZERO)
    except (OverflowError, ValueError):
        # Beyond the calendar, as databases write that something never ends.
        return "infinity" if day > 0 else "-infinity"


def _moment(micro: int, zone: Any) -> object:
    try:
        return (_EPOCH + timedelta(microseconds=micro)).replace(tzinfo=zone)
    except OverflowError:
        return "infinity" if micro > 0 else "-infinity"
