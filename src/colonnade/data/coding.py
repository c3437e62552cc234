"""From values as they come to values as they are declared: floats within bounds, or numbers of levels.

Everything that can be wrong with a value is found here and counted. The counts depend on the data and go
into an error for the party that holds it; the values themselves go nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from colonnade.data.columns import BinaryColumn, CategoricalColumn, Column, NumericColumn, text_of
from colonnade.data.targets import ClassLabel, CountLabel, Label, RealLabel
from colonnade.errors import DataError

_MISSING, _UNDECLARED = -1, -2


@dataclass(frozen=True)
class Problems:
    """How many values of a column cannot be used, by reason.

    >>> Problems(missing=2, infinite=1).sentence
    '2 values are missing (empty, NULL or NaN), 1 value is infinite'
    """

    missing: int = 0
    infinite: int = 0
    text: int = 0
    fractional: int = 0
    undeclared: int = 0

    def __add__(self, other: Problems) -> Problems:
        return Problems(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __bool__(self) -> bool:
        return any(getattr(self, f.name) for f in fields(self))

    @property
    def sentence(self) -> str:
        """What was found, as counts only."""
        said = (
            (self.missing, "missing (empty, NULL or NaN)"),
            (self.infinite, "infinite"),
            (self.text, "text where a number is declared"),
            (self.fractional, "not whole where a count is declared"),
            (self.undeclared, "not among the declared ones"),
        )
        return ", ".join(
            f"{count} value is {what}" if count == 1 else f"{count} values are {what}"
            for count, what in said
            if count
        )

    @property
    def advice(self) -> str:
        """What to do about it."""
        if self.undeclared:
            return "Declare every value that can occur, or a category that takes in the others."
        if self.text:
            return "Correct the file, or declare the column categorical."
        return "Fill them in or leave these rows out at every party."

    def refuse(self, *, party: str, source: str, column: str) -> None:
        """Raise a `DataError` if there is any problem."""
        if self:
            raise DataError(f"party {party!r}, {source}, column {column!r}: {self.sentence}. {self.advice}")


@dataclass(frozen=True)
class Coded:
    """One column as declared: float64 within bounds, or int32 numbers of levels.

    >>> Coded(np.array([1.0])).clipped
    0
    """

    values: NDArray[Any]
    clipped: int = 0
    problems: Problems = Problems()


def code(values: ArrayLike | pa.Array, declared: Column | Label) -> Coded:
    """A column's values as declared, with what was clipped and what is wrong.

    >>> coded = code([16, 40], NumericColumn("age", low=17, high=90))
    >>> coded.values.tolist(), coded.clipped
    ([17.0, 40.0], 1)
    >>> code(["M", " F"], BinaryColumn("sex", values=("F", "M"))).values.tolist()
    [1, 0]
    """
    match declared:
        case NumericColumn() | RealLabel() | CountLabel():
            return _numbers(values, declared.low, declared.high, whole=isinstance(declared, CountLabel))
        case BinaryColumn() | CategoricalColumn() | ClassLabel():
            return _levels(values, declared.levels, declared.other)


def spell_ids(values: ArrayLike | pa.Array, *, party: str, source: str, column: str) -> list[str]:
    """Ids as text; a missing one becomes ''. Floats are refused: 12.0 and 12 must not be two people.

    >>> spell_ids([12, 7], party="bank", source="arrays", column="customer")
    ['12', '7']
    """
    array = _arrow(values)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_floating(array.type) or pa.types.is_boolean(array.type):
        raise DataError(
            f"party {party!r}, {source}, id column {column!r}: ids are {array.type} values. "
            "Give them as integers or text, spelt the same at every party."
        )
    if pa.types.is_integer(array.type):
        array = array.cast(pa.string())
    return ["" if value is None else text_of(value) for value in array.to_pylist()]


def refuse_ids(missing: int, repeated: int, *, party: str, source: str, column: str) -> None:
    """Raise a `DataError` that counts missing and repeated ids, and shows none.

    >>> refuse_ids(0, 2, party="bank", source="arrays", column="customer")
    Traceback (most recent call last):
    colonnade.errors.DataError: party 'bank', arrays, id column 'customer': 2 ids are repeated. A person has one \
row: merge or remove the others.
    """
    for count, what, advice in (
        (missing, "missing", "Every row needs one."),
        (repeated, "repeated", "A person has one row: merge or remove the others."),
    ):
        if count:
            ids = "id is" if count == 1 else "ids are"
            raise DataError(
                f"party {party!r}, {source}, id column {column!r}: {count} {ids} {what}. {advice}"
            )


def _numbers(values: ArrayLike | pa.Array, low: float, high: float, *, whole: bool) -> Coded:
    numbers = _floats(values)
    if numbers is None:
        return Coded(np.zeros(0), problems=Problems(text=len(_arrow(values))))
    clipped, problems = 0, Problems()
    # One look at the extremes settles the usual case: a NaN makes both comparisons false.
    if numbers.size and not (low <= numbers.min() and numbers.max() <= high):
        missing, infinite = np.isnan(numbers), np.isinf(numbers)
        problems = Problems(missing=int(missing.sum()), infinite=int(infinite.sum()))
        clipped = int(np.count_nonzero(((numbers < low) | (numbers > high)) & ~infinite))
        numbers = np.clip(numbers, low, high)
    if whole and not problems:
        problems = Problems(fractional=int(np.count_nonzero(numbers != np.floor(numbers))))
    return Coded(numbers, clipped, problems)


def _floats(values: ArrayLike | pa.Array) -> NDArray[np.float64] | None:
    """float64 with NaN for what is missing, or None where there is text, truth values or dates."""
    if not isinstance(values, pa.Array):
        given = np.asarray(values)
        if given.dtype.kind in "iuf":
            return np.ascontiguousarray(given, dtype=np.float64)
    array = _arrow(values)
    if pa.types.is_null(array.type):
        return np.full(len(array), np.nan)
    if not (
        pa.types.is_integer(array.type) or pa.types.is_floating(array.type) or pa.types.is_decimal(array.type)
    ):
        return None
    floats: NDArray[np.float64] = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return floats


def _levels(values: ArrayLike | pa.Array, levels: tuple[str, ...], other: str | None) -> Coded:
    array = _arrow(values)
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    elsewhere = levels.index(other) if other is not None else _UNDECLARED
    number = {level: index for index, level in enumerate(levels)}
    # One place more than the dictionary has, for nulls.
    table = np.array(
        [*(_number(value, number, elsewhere) for value in array.dictionary.to_pylist()), _MISSING]
    )
    indices = array.indices.fill_null(len(array.dictionary)) if array.null_count else array.indices
    codes = table.astype(np.int32)[indices.to_numpy(zero_copy_only=False)]
    if not codes.size or codes.min() >= 0:
        return Coded(codes)
    return Coded(
        codes,
        problems=Problems(
            missing=int(np.count_nonzero(codes == _MISSING)),
            undeclared=int(np.count_nonzero(codes == _UNDECLARED)),
        ),
    )


def _number(value: object, number: dict[str, int], elsewhere: int) -> int:
    if value is None or value != value:
        return _MISSING
    text = text_of(value)
    return number.get(text, elsewhere) if text else _MISSING


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
