"""From values as they come to values as they are declared: floats within bounds, or numbers of levels.

Everything that can be wrong with a value is found here and counted. The counts depend on the data and go
into an error for the party that holds it; the values themselves go nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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
from colonnade.data.problems import Problems
from colonnade.data.spelling import AS_WRITTEN, Spelling, text_of
from colonnade.data.targets import ClassLabel, CountLabel, Label, RealLabel
from colonnade.errors import BadIds

_MISSING, _UNDECLARED = -1, -2
_NO_PROBLEMS = Problems()
_NUMBER = re.compile(
    r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?(nan|inf|infinity)", re.ASCII | re.IGNORECASE
)
# In groups of three digits, or with a comma where a point should be.
_GROUPED = re.compile(r"[-+]?\d{1,3}([ ,.'’\u00a0\u202f]\d{3})+([.,]\d+)?|[-+]?\d+,\d+", re.ASCII)


@dataclass(frozen=True)
class Coded:
    """One column as declared: float64 within bounds, or int32 numbers of levels.

    >>> Coded(np.array([1.0])).clipped
    0
    """

    values: NDArray[Any]
    clipped: int = 0
    problems: Problems = _NO_PROBLEMS
    # Numbers as they came, with NaN for what was missing.
    raw: NDArray[np.float64] | None = None


def code(values: ArrayLike | pa.Array, declared: Column | Label) -> Coded:
    """A column's values as declared, with what was clipped and what is wrong.

    >>> coded = code([16, 40], NumericColumn("age", low=17, high=90))
    >>> coded.values.tolist(), coded.clipped
    ([17.0, 40.0], 1)
    >>> code(["M", " F"], BinaryColumn("sex", values=("F", "M"))).values.tolist()
    [1, 0]
    >>> code([None, 16, 18], BinnedColumn("age", edges=(18, 65), missing="category")).values.tolist()
    [3, 0, 1]
    """
    match declared:
        case NumericColumn():
            return _bounded(_floats(values), declared.low, declared.high, fill=declared.missing)
        case RealLabel() | CountLabel():
            coded = _bounded(_floats(values), declared.low, declared.high)
            return _whole(coded) if isinstance(declared, CountLabel) else coded
        case DateColumn():
            return _bounded(_days(values, declared.format), *declared.range, fill=declared.fill)
        case BinnedColumn():
            return _bins(_floats(values), declared)
        case BinaryColumn() | CategoricalColumn() | ClassLabel():
            return _levels(values, declared)


def holds_numbers(declared: Column | Label) -> bool:
    """Whether what is declared is read as numbers.

    >>> holds_numbers(NumericColumn("age", low=17, high=90))
    True
    """
    return isinstance(declared, NumericColumn | BinnedColumn | RealLabel | CountLabel)


def symmetric_numbers(declared: Mapping[str, Column | Label]) -> Spreads:
    """Where to gather the numbers of those columns that could have been standardised.

    >>> symmetric_numbers({"z": NumericColumn("z", low=-4, high=4)}).standardised()
    ()
    """
    return Spreads(
        {
            name: (one.low, one.high)
            for name, one in declared.items()
            if isinstance(one, NumericColumn | RealLabel)
        }
    )


def spell_ids(
    values: ArrayLike | pa.Array, *, party: str, source: str, column: str, spelling: Spelling = AS_WRITTEN
) -> list[str]:
    """Ids as declared; a missing one becomes ''. Floats are refused: 12.0 and 12 must not be two people.

    >>> spell_ids([12, 7], party="bank", source="arrays", column="customer")
    ['12', '7']
    """
    array = _arrow(values)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_floating(array.type) or pa.types.is_boolean(array.type) or pa.types.is_binary(array.type):
        raise BadIds(
            f"party {party!r}, {source}, id column {column!r}: ids are {array.type} values. "
            "Give them as integers or text, spelt the same at every party."
        )
    if pa.types.is_integer(array.type):
        array = array.cast(pa.string())
    spelt = ["" if value is None else spelling.spell(value) for value in array.to_pylist()]
    return spelt if spelling.trim else [one if one.strip() else "" for one in spelt]


def refuse_ids(missing: int, repeated: int, *, party: str, source: str, column: str) -> None:
    """Raise a `DataError` that counts missing and repeated ids, and shows none.

    >>> refuse_ids(0, 2, party="bank", source="arrays", column="customer")
    Traceback (most recent call last):
    colonnade.errors.BadIds: party 'bank', arrays, id column 'customer': 2 ids are repeated. A person has one \
row: merge or remove the others.
    """
    for count, what, advice in (
        (missing, "missing", "Every row needs one."),
        (repeated, "repeated", "A person has one row: merge or remove the others."),
    ):
        if count:
            ids = "id is" if count == 1 else "ids are"
            raise BadIds(f"party {party!r}, {source}, id column {column!r}: {count} {ids} {what}. {advice}")


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


def _floats(values: ArrayLike | pa.Array) -> _Read:
    """float64 with NaN for what is missing and 0 for what is wrong, such as text, truth values or dates."""
    if not isinstance(values, pa.Array):
        given = np.asarray(values)
        if given.dtype.kind in "iuf":
            return np.ascontiguousarray(given, dtype=np.float64), _NO_PROBLEMS
    array = _arrow(values)
    if pa.types.is_null(array.type):
        return np.full(len(array), np.nan), _NO_PROBLEMS
    if _is_text(array):
        return _from_text(array)
    if not (
        pa.types.is_integer(array.type) or pa.types.is_floating(array.type) or pa.types.is_decimal(array.type)
    ):
        return np.zeros(len(array)), Problems(text=len(array))
    return _numpy(array.cast(pa.float64(), safe=False)), _NO_PROBLEMS


def _from_text(array: pa.Array) -> _Read:
    trimmed = pc.utf8_trim_whitespace(array)
    present = pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, trimmed.type), trimmed)
    try:
        return _numpy(present.cast(pa.float64())), _NO_PROBLEMS
    except pa.ArrowInvalid:
        # Something is no number, or written as Arrow does not expect it: one by one, and none of it shown.
        pass
    return _from_distinct(
        present,
        lambda text: float(text) if _NUMBER.fullmatch(text) else None,
        lambda text: Problems(grouped=1) if _GROUPED.fullmatch(text) else Problems(text=1),
    )


def _days(values: ArrayLike | pa.Array, format: str | None) -> _Read:
    """Days since the start of 1970 with NaN for what is missing, from dates, moments or text."""
    array = _arrow(values)
    if pa.types.is_null(array.type):
        return np.full(len(array), np.nan), _NO_PROBLEMS
    if pa.types.is_date(array.type):
        # Through 32-bit days: the 64-bit kind counts milliseconds.
        return _numpy(array.cast(pa.date32(), safe=False).cast(pa.int32()).cast(pa.float64())), _NO_PROBLEMS
    if pa.types.is_timestamp(array.type):
        exact = array.cast(pa.timestamp("us", tz=array.type.tz), safe=False).cast(pa.int64())
        return _numpy(exact.cast(pa.float64(), safe=False)) / DAY_MICROSECONDS, _NO_PROBLEMS
    if not _is_text(array):
        return np.zeros(len(array)), Problems(undated=len(array))
    return _from_distinct(array, lambda text: _day(text, format), lambda text: Problems(undated=1))


def _day(text: str, format: str | None) -> float | None:
    trimmed = text.strip()
    if not trimmed:
        return float("nan")
    moment = moment_of(trimmed, format)
    return None if moment is None else microseconds(moment) / DAY_MICROSECONDS


def _from_distinct(
    array: pa.Array, read: Callable[[str], float | None], explain: Callable[[str], Problems]
) -> _Read:
    """Each distinct text read once; NaN for nulls, and 0 for what `read` makes nothing of."""
    encoded = array.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    found = [read(text) for text in texts]
    # One place more than the dictionary has, for nulls.
    codes = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    problems = _NO_PROBLEMS
    if None in found:
        times = np.bincount(codes, minlength=len(texts) + 1)
        for text, number, count in zip(texts, found, times.tolist(), strict=False):
            if number is None:
                problems += explain(text).times(count)
    numbers = np.array([0.0 if number is None else number for number in found] + [np.nan])
    return numbers[codes], problems


def _is_text(array: pa.Array) -> bool:
    return bool(pa.types.is_string(array.type) or pa.types.is_large_string(array.type))


def _numpy(array: pa.Array) -> NDArray[np.float64]:
    numbers: NDArray[np.float64] = array.to_numpy(zero_copy_only=False)
    return numbers


def _levels(values: ArrayLike | pa.Array, declared: BinaryColumn | CategoricalColumn | ClassLabel) -> Coded:
    array = _arrow(values)
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    number = {level: index for index, level in enumerate(declared.levels)}
    elsewhere = _UNDECLARED if declared.other is None else number[declared.other]
    absent = _MISSING if declared.missing is None else number[declared.missing]

    def find(value: object) -> int:
        if value is None or value != value:
            return absent
        text = declared.spelling.spell(value)
        return number.get(text, elsewhere) if text.strip() else absent

    # One place more than the dictionary has, for nulls.
    table = np.array([*(find(value) for value in array.dictionary.to_pylist()), absent], dtype=np.int32)
    indices = array.indices.fill_null(len(array.dictionary)) if array.null_count else array.indices
    codes = table[indices.to_numpy(zero_copy_only=False)]
    if not codes.size or codes.min() >= 0:
        return Coded(codes)
    return Coded(
        codes,
        problems=Problems(
            missing=int(np.count_nonzero(codes == _MISSING)),
            undeclared=int(np.count_nonzero(codes == _UNDECLARED)),
        ),
    )


def _arrow(values: ArrayLike | pa.Array | Iterable[object]) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    # A list of texts stays one: numpy's fixed-width texts lose what they take for padding.
    given = list(values) if isinstance(values, list | tuple) else np.asarray(values)
    try:
        return pa.array(given, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        # Mixed kinds in an object array: compared as text, one by one.
        return pa.array(
            [None if value is None or value != value else text_of(value) for value in given],
            type=pa.string(),
        )


_Read = tuple[NDArray[np.float64], Problems]
