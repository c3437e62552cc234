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
from numpy.typing import ArrayLike, NDArray

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
from colonnade.data.intake import values_of
from colonnade.data.packed_text import Text
from colonnade.data.problems import MARKS, NO_VALUE, Problems
from colonnade.data.targets import ClassLabel, CountLabel, Label, RealLabel
from colonnade.data.values import NOT_READ, Numerals, Plain, Values

_MISSING, _UNDECLARED, _MARKED, _MISSPELT, _TRUTH = -1, -2, -3, -4, -5
_TRUTHS = frozenset({"true", "false"})
_NO_PROBLEMS = Problems()
_NUMBER = re.compile(
    r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?(nan|inf|infinity)", re.ASCII | re.IGNORECASE
)
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


def code(values: ArrayLike | Values, declared: Column | Label) -> Coded:
    """A column's values as declared, with what was clipped and what is wrong."""
    if not (isinstance(values, np.ndarray) and values.dtype.kind in "iuf"):
        values = values_of(values)
    if isinstance(values, Plain) and values.kind in NOT_READ:
        return Coded(np.zeros(len(values)), problems=Problems(**{values.kind: len(values)}))
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
    numbers, problems = read
    raw, clipped = numbers, 0
    # One look at the extremes settles the usual case: a NaN makes both comparisons false.
    if numbers.size and not (low <= numbers.min() and numbers.max() <= high):
        missing, infinite = np.isnan(numbers), np.isinf(numbers)
        problems += Problems(missing=int(missing.sum()) if fill is None else 0, infinite=int(infinite.sum()))
        clipped = int(np.count_nonzero(((numbers < low) | (numbers > high)) & ~infinite))
        numbers = np.clip(numbers, low, high)
        if fill is not None:
            numbers[missing] = fill
    return Coded(numbers, clipped, problems, raw)


def _whole(coded: Coded) -> Coded:
    if coded.problems:
        return coded
    numbers = coded.values
    return Coded(
        numbers,
        coded.clipped,
        Problems(fractional=int(np.count_nonzero(numbers != np.floor(numbers)))),
    )


def _bins(read: _Read, declared: BinnedColumn) -> Coded:
    numbers, problems = read
    codes = np.searchsorted(declared.edges, numbers, side="right").astype(np.int32)
    missing = np.isnan(numbers)
    problems += Problems(
        missing=int(missing.sum()) if declared.missing is None else 0,
        infinite=int(np.count_nonzero(np.isinf(numbers))),
    )
    if declared.missing == "category":
        codes[missing] = len(declared.edges) + 1
    elif declared.missing is not None:
        codes[missing] = np.searchsorted(declared.edges, declared.missing, side="right")
    return Coded(codes, problems=problems)


def _floats(values: ArrayLike | Values) -> _Read:
    """float64 with NaN for what is missing and 0 for what is wrong, such as text, truth values or dates."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
        return np.ascontiguousarray(values, dtype=np.float64), _NO_PROBLEMS
    match column := values_of(values):
        case Text():
            return _from_distinct(column, _number, _not_a_number)
        case Numerals():
            if column.rest.missing is not None and column.rest.missing.all():
                return column.read, _NO_PROBLEMS
            others, problems = _from_distinct(column.rest, _number, _not_a_number)
            return np.where(np.isnan(column.read), others, column.read), problems
        case Plain(kind="nothing" | "whole" | "real"):
            return column.numbers(), _NO_PROBLEMS
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


def _days(values: ArrayLike | Values, format: str | None) -> _Read:
    """Days since the start of 1970 with NaN for what is missing, from dates, moments or text."""
    match column := values_of(values):
        case Plain(kind="nothing" | "date"):
            return column.numbers(), _NO_PROBLEMS
        case Plain(kind="moment"):
            return column.numbers() / DAY_MICROSECONDS, _NO_PROBLEMS
        case Text():
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
    column: Text, read: Callable[[str], float | None], explain: Callable[[str], Problems]
) -> _Read:
    """Each distinct text read once; NaN for what is missing, and 0 for what `read` makes nothing of."""
    texts, codes = column.distinct()
    numbers_read = [read(text) for text in texts]
    problems = _NO_PROBLEMS
    if None in numbers_read:
        times = np.bincount(codes, minlength=len(texts) + 1)
        for text, number, count in zip(texts, numbers_read, times.tolist(), strict=False):
            if number is None and count:
                problems += explain(text).times(count)
    # One place more than there are texts, for those that are missing.
    numbers = np.array([0.0 if number is None else number for number in numbers_read] + [np.nan])
    return numbers[codes], problems


def _levels(values: ArrayLike | Values, declared: BinaryColumn | CategoricalColumn | ClassLabel) -> Coded:
    # Text is asked for as numbers only where numbers are declared.
    distinct, places = cast(Plain | Text, values_of(values)).distinct()
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
    table = np.array([*(find(value) for value in distinct), absent], dtype=np.int32)
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
