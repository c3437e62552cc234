"""From values as they come to values as they are declared: floats within bounds, or numbers of levels.

Everything that can be wrong with a value is found here and counted. The counts depend on the data and go
into an error for the party that holds it; the values themselves go nowhere.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from colonnade.data.arrays import NOT_READ, distinct, held, numbers, values_of
from colonnade.data.clipping import Spreads
from colonnade.data.columns import (
    BinaryColumn,
    BinnedColumn,
    CategoricalColumn,
    Column,
    DateColumn,
    NumericColumn,
)
from colonnade.data.derived import DAY_MICROSECONDS, microseconds, moment_of
from colonnade.data.problems import MARKS, NO_VALUE, Problems
from colonnade.data.targets import ClassLabel, CountLabel, Label, RealLabel

_MISSING, _UNDECLARED, _MARKED, _MISSPELT, _TRUTH = -1, -2, -3, -4, -5
_TRUTHS = frozenset({"true", "false"})
_NO_PROBLEMS = Problems()
_NUMBER = re.compile(
    r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?(nan|inf|infinity)", re.ASCII | re.IGNORECASE
)
# Numbers that any reader reads alike, and none of which is too large or too small to be one.
_PLAIN = r"^-?[0-9]{1,99}(\.[0-9]{1,99})?([eE]-?[0-9]{1,2})?$"
# As data frames and databases write a duration: 2 days 03:04:05.5.
_DURATION = re.compile(r"(-?\d+) days?(?: \+?(\d{1,2}):(\d{2}):(\d{2}(?:\.\d+)?))?", re.ASCII)
POINTED = re.compile(r"-?\d+\.0+", re.ASCII)
# In groups of three digits, or with a comma where a point should be.
_GROUPED = re.compile(r"[-+]?\d{1,3}([ ,.'’\u00a0\u202f]\d{3})+([.,]\d+)?|[-+]?\d+,\d+", re.ASCII)


@dataclass(frozen=True)
class Coded:
    """One column as declared: float64 within bounds, or int32 numbers of levels.

    NaN is a missing number in a column that has a feature for them.
    """

    values: NDArray[Any]
    clipped: int = 0
    problems: Problems = _NO_PROBLEMS
    # Numbers as they came, with NaN for what was missing.
    raw: NDArray[np.float64] | None = None


def code(values: ArrayLike | pa.Array, declared: Column | Label) -> Coded:
    """A column's values as declared, with what was clipped and what is wrong."""
    if not (isinstance(values, np.ndarray) and values.dtype.kind in "iuf"):
        values = values_of(values)
        if (kind := held(values)) in NOT_READ:
            return Coded(np.zeros(len(values)), problems=Problems(**{kind: len(values)}))
    match declared:
        case NumericColumn():
            return _bounded(_floats(values), declared.low, declared.high, fill=_fill(declared))
        case RealLabel() | CountLabel():
            coded = _bounded(_floats(values), declared.low, declared.high)
            return _whole(coded) if isinstance(declared, CountLabel) else coded
        case DateColumn():
            return _bounded(_days(values, declared.format), *declared.range, fill=_fill(declared))
        case BinnedColumn():
            return _bins(_floats(values), declared)
        case BinaryColumn() | CategoricalColumn() | ClassLabel():
            return _levels(values, declared)


def holds_numbers(declared: Column | Label) -> bool:
    """Whether what is declared is read as numbers."""
    return isinstance(declared, NumericColumn | BinnedColumn | RealLabel | CountLabel)


def symmetric_numbers(declared: Mapping[str, Column | Label]) -> Spreads:
    """Where to gather the numbers of those columns that could have been standardised."""
    return Spreads(
        {
            name: (one.low, one.high)
            for name, one in declared.items()
            if isinstance(one, NumericColumn | RealLabel)
        }
    )


def _fill(declared: NumericColumn | DateColumn) -> float | None:
    """What a missing value counts as: NaN where it has a feature of its own."""
    return math.nan if declared.missing == "category" else declared.fill


def _bounded(read: _Read, low: float, high: float, *, fill: float | None = None) -> Coded:
    raw, problems = read
    within, clipped = raw, 0
    # One look at the extremes settles the usual case: a NaN makes both comparisons false.
    if raw.size and not (low <= raw.min() and raw.max() <= high):
        missing, infinite = np.isnan(raw), np.isinf(raw)
        problems += Problems(missing=int(missing.sum()) if fill is None else 0, infinite=int(infinite.sum()))
        clipped = int(np.count_nonzero(((raw < low) | (raw > high)) & ~infinite))
        within = np.clip(raw, low, high)
        if fill is not None:
            within[missing] = fill
    return Coded(within, clipped, problems, raw)


def _whole(coded: Coded) -> Coded:
    if coded.problems:
        return coded
    fractional = np.count_nonzero(coded.values != np.floor(coded.values))
    return Coded(coded.values, coded.clipped, Problems(fractional=int(fractional)))


def _bins(read: _Read, declared: BinnedColumn) -> Coded:
    raw, problems = read
    codes = np.searchsorted(declared.edges, raw, side="right").astype(np.int32)
    missing = np.isnan(raw)
    problems += Problems(
        missing=int(missing.sum()) if declared.missing is None else 0,
        infinite=int(np.count_nonzero(np.isinf(raw))),
    )
    if declared.missing == "category":
        codes[missing] = len(declared.edges) + 1
    elif declared.missing is not None:
        codes[missing] = np.searchsorted(declared.edges, declared.missing, side="right")
    return Coded(codes, problems=problems)


def _floats(values: ArrayLike | pa.Array) -> _Read:
    """float64 with NaN for what is missing and 0 for what is wrong, such as text, truth values or dates."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
        return np.ascontiguousarray(values, dtype=np.float64), _NO_PROBLEMS
    column = values_of(values)
    match held(column):
        case "text":
            # Arrow reads what is surely a number, and would quote what is none: the rest is looked at one by one.
            sure = pc.match_substring_regex(column, _PLAIN)
            read = numbers(pc.if_else(sure, column, None).cast(pa.float64()))
            rest = pc.if_else(sure, None, column)
            if rest.null_count == len(rest):
                return read, _NO_PROBLEMS
            others, problems = _from_distinct(rest, _number, _not_a_number)
            return np.where(np.isnan(read), others, read), problems
        case "nothing" | "whole" | "real":
            return numbers(column), _NO_PROBLEMS
        case _:
            return np.zeros(len(column)), Problems(text=len(column))


def _number(text: str) -> float | None:
    trimmed = text.strip()
    if not trimmed:
        return float("nan")
    if _NUMBER.fullmatch(trimmed):
        return float(trimmed)
    lasted = _DURATION.fullmatch(trimmed)
    if lasted is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in lasted.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _not_a_number(text: str) -> Problems:
    trimmed = text.strip()
    if trimmed.lower() in MARKS:
        return Problems(marked=1)
    return Problems(grouped=1) if _GROUPED.fullmatch(trimmed) else Problems(text=1)


def _days(values: ArrayLike | pa.Array, format: str | None) -> _Read:
    """Days since the start of 1970 with NaN for what is missing, from dates, moments or text."""
    column = values_of(values)
    match held(column):
        case "nothing" | "date":
            return numbers(column), _NO_PROBLEMS
        case "moment":
            return numbers(column) / DAY_MICROSECONDS, _NO_PROBLEMS
        case "text":
            return _from_distinct(column, lambda text: _day(text, format), lambda _text: Problems(undated=1))
        case _:
            return np.zeros(len(column)), Problems(undated=len(column))


def _day(text: str, format: str | None) -> float | None:
    trimmed = text.strip()
    if not trimmed:
        return float("nan")
    moment = moment_of(trimmed, format)
    return None if moment is None else microseconds(moment) / DAY_MICROSECONDS


def _from_distinct(
    column: pa.Array, read: Callable[[str], float | None], explain: Callable[[str], Problems]
) -> _Read:
    """Each distinct text read once; NaN for what is missing, and 0 for what `read` makes nothing of."""
    texts, codes = cast(tuple[list[str], NDArray[np.int64]], distinct(column))
    numbers_read = [read(text) for text in texts]
    problems = _NO_PROBLEMS
    if None in numbers_read:
        times = np.bincount(codes, minlength=len(texts) + 1)
        for text, number, count in zip(texts, numbers_read, times.tolist(), strict=False):
            if number is None and count:
                problems += explain(text).times(count)
    # One place more than there are texts, for those that are missing.
    table = np.array([0.0 if number is None else number for number in numbers_read] + [np.nan])
    return table[codes], problems


def _levels(values: ArrayLike | pa.Array, declared: BinaryColumn | CategoricalColumn | ClassLabel) -> Coded:
    different, places = distinct(values_of(values))
    number = {level: index for index, level in enumerate(declared.levels)}
    elsewhere = _UNDECLARED if declared.other is None else number[declared.other]
    absent = _MISSING if declared.missing is None else number[declared.missing]

    folded = {_folded(level) for level in declared.levels}
    truths = _TRUTHS - folded

    def find(value: object) -> int:
        if value is None or value != value:
            return absent
        text = declared.spelling.spell(value)
        if text not in number and POINTED.fullmatch(text):
            # What a data frame or a spreadsheet made of a whole number when a cell beside it was empty.
            text = text.split(".")[0]
        if elsewhere == _UNDECLARED and text not in number and _folded(text) in folded:
            return _MISSPELT
        if elsewhere == _UNDECLARED and text not in number and text.strip().lower() in truths:
            return _TRUTH
        if elsewhere == _UNDECLARED and text not in number and text.strip().lower() in NO_VALUE:
            return _MARKED
        return number.get(text, elsewhere) if text.strip() else absent

    # One place more than there are values, for those that are missing.
    table = np.array([*(find(value) for value in different), absent], dtype=np.int32)
    codes = table[places]
    if not codes.size or codes.min() >= 0:
        return Coded(codes)
    return Coded(
        codes,
        problems=Problems(
            missing=int(np.count_nonzero(codes == _MISSING)),
            marked=int(np.count_nonzero(codes == _MARKED)),
            undeclared=int(np.count_nonzero(codes == _UNDECLARED)),
            misspelt=int(np.count_nonzero(codes == _MISSPELT)),
            truth=int(np.count_nonzero(codes == _TRUTH)),
        ),
    )


def _folded(text: str) -> str:
    """A text without what two spellings of one word differ in: case, forms of letters, blanks, leading zeros."""
    plain = "".join(unicodedata.normalize("NFKC", text).casefold().split())
    return plain.lstrip("0") or plain


_Read = tuple[NDArray[np.float64], Problems]
