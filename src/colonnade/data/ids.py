"""Who a row is: ids as they are compared, of one column or several, packed in one piece of memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, time
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from colonnade.data.arrays import kind_of, numbers, objects, of_texts, packed, text_bytes, texts, values_of
from colonnade.data.declaring import AS_WRITTEN, Spelling
from colonnade.errors import BadIds

_NO_IDS = {
    "real": "double values",
    "truth": "bool values",
    "binary": "binary values",
    "nested": "lists or records",
    "unread": "values of a type that is not read",
}
# What Python takes off the ends of a text, of the letters that are one byte.
_BLANK = np.zeros(256, dtype=bool)
_BLANK[[*range(9, 14), *range(28, 33)]] = True
# Further letters may be blanks too: a text that begins or ends with one is looked at by itself.
_BLANK[128:] = True
SEPARATOR = "|"


def spell_ids(
    parts: Sequence[ArrayLike | pa.Array], columns: Sequence[str], spelling: Spelling, *, where: str
) -> pa.Array:
    """Ids as declared; a missing one becomes ''. Floats are refused: 12.0 and 12 must not be two people.

    An id of several columns is their texts with a bar between them, bars and backslashes in them escaped, so that
    different parts never make the same id. A moment at midnight is its day, because data frames have days so.
    """
    spelt = []
    for part, column in zip(parts, columns, strict=True):
        named = f"{where}, id column {column!r}"
        spelt.append(_spelt(values_of(part), spelling, named))
        if not text_bytes(spelt[-1])[1].all():
            raise BadIds(
                f"{named}: some ids hold the character NUL, at which other programs end a text, so that two people "
                "could become one. Take it out."
            )
    if len(spelt) == 1:
        return spelt[0]

    def escaped(part: str | None) -> str:
        return str(part).replace("\\", "\\\\").replace(SEPARATOR, f"\\{SEPARATOR}")

    whole = zip(*map(texts, spelt), strict=True)
    return of_texts([SEPARATOR.join(map(escaped, each)) if all(each) else "" for each in whole])


def missing_ids(ids: pa.Array) -> int:
    return int(np.count_nonzero(text_bytes(ids)[0] == 0))


def hashes(ids: pa.Array) -> NDArray[np.int64]:
    """A number for each id, equal for equal ones; different ones hardly ever have the same."""
    return np.fromiter(map(hash, texts(ids)), dtype=np.int64, count=len(ids))


def refuse_ids(missing: int, repeated: int, columns: Sequence[str], *, where: str) -> None:
    """Raise a `DataError` that counts missing and repeated ids, and shows none."""
    named = f"id column{'s' if len(columns) > 1 else ''} {' and '.join(map(repr, columns))}"
    other = ", or add a column that tells them apart" if len(columns) > 1 else ""
    for count, what, advice in (
        (missing, "missing", "Every row needs one."),
        (repeated, "repeated", f"A person has one row: merge or remove the others{other}."),
    ):
        if count:
            ids = "id is" if count == 1 else "ids are"
            raise BadIds(f"{where}, {named}: {count} {ids} {what}. {advice}")


def _spelt(given: pa.Array, spelling: Spelling, where: str) -> pa.Array:
    kind = kind_of(given)
    if kind in _NO_IDS:
        raise BadIds(
            f"{where}: ids are {_NO_IDS[kind]}. Give them as integers or text, spelt the same at every "
            f"party.{_from_whole(given) if kind == 'real' else ''}"
        )
    if kind == "whole" and not given.null_count:
        return given.cast(pa.large_string())
    if kind == "text" and spelling == AS_WRITTEN and _stays(given):
        return given
    spelt = ["" if value is None else spelling.spell(_day(value)) for value in objects(given)]
    return of_texts(spelt if spelling.trim else [one if one.strip() else "" for one in spelt])


def _from_whole(given: pa.Array) -> str:
    """Where whole numbers became floats, what made them so."""
    there = numbers(given)
    missing = np.isnan(there)
    there = there[~missing]
    if not missing.any() or not len(there) or (there != np.rint(there)).any():
        return ""
    return f" A data frame makes floats of whole numbers where some are missing, as {int(missing.sum())} are."


def _day(value: object) -> object:
    whole = isinstance(value, datetime) and value.tzinfo is None and value.time() == time()
    return cast(datetime, value).date() if whole else value


def _stays(ids: pa.Array) -> bool:
    """Whether every text is there and begins and ends with a letter that no rule takes off."""
    if ids.null_count:
        return False
    store, marks = packed(ids)
    begins, ends = marks[:-1], marks[1:]
    there = ends > begins
    return not any(_BLANK[edge].any() for edge in (store[begins[there]], store[ends[there] - 1]))
