"""Who a row is: ids as they are compared, from one column or from several together.

Ids stay packed in one piece of memory: as texts of Python's own, ten million of them take more than a gigabyte.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, time
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colonnade.data.intake import values_of
from colonnade.data.packed_text import Text
from colonnade.data.spelling import AS_WRITTEN, Spelling
from colonnade.data.values import Plain, Values
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
_LONGEST_NUMBER = 21
SEPARATOR = "|"


def spell_ids(
    parts: Sequence[ArrayLike | Values],
    *,
    party: str,
    source: str,
    columns: Sequence[str],
    spelling: Spelling = AS_WRITTEN,
) -> Text:
    """Ids as declared; a missing one becomes ''. Floats are refused: 12.0 and 12 must not be two people.

    An id of several columns is their texts, each spelt by the rules, with a bar between them; a bar or a backslash in
    one is written with a backslash before it, so that different parts never make the same id. Where a part is missing
    the id is. A moment at midnight is written as its day, because that is how data frames have days.
    """
    spelt = [
        _spelt(
            cast(Plain | Text, values_of(part)), spelling, f"party {party!r}, {source}, id column {column!r}"
        )
        for part, column in zip(parts, columns, strict=True)
    ]
    for text, column in zip(spelt, columns, strict=True):
        if not text.store[text.ends[0] : text.ends[-1]].all():
            raise BadIds(
                f"party {party!r}, {source}, id column {column!r}: some ids hold the character NUL, at which other "
                "programs end a text, so that two people could become one. Take it out."
            )
    if len(spelt) == 1:
        return spelt[0]
    whole = zip(*(one.texts() for one in spelt), strict=True)
    return Text.of([SEPARATOR.join(map(_escaped, texts)) if all(texts) else "" for texts in whole])


def missing_ids(ids: Text) -> int:
    return int(np.count_nonzero(np.diff(ids.ends) == 0))


def hashes(ids: Text, *, compiled: bool) -> NDArray[np.int64]:
    """A number for each id, equal for equal ones; different ones hardly ever have the same.

    Machine code is worth its loading where there are many. The two kinds of numbers differ, so a list has one of them.
    """
    if not compiled:
        return np.fromiter(map(hash, ids.texts()), dtype=np.int64, count=len(ids))
    from colonnade.crypto.blake2s import digests

    return digests(ids.store, ids.ends, b"repeated ids")[:, 0].view(np.int64)


def refuse_ids(missing: int, repeated: int, *, party: str, source: str, columns: Sequence[str]) -> None:
    """Raise a `DataError` that counts missing and repeated ids, and shows none."""
    named = f"id column{'s' if len(columns) > 1 else ''} {' and '.join(map(repr, columns))}"
    other = ", or add a column that tells them apart" if len(columns) > 1 else ""
    for count, what, advice in (
        (missing, "missing", "Every row needs one."),
        (repeated, "repeated", f"A person has one row: merge or remove the others{other}."),
    ):
        if count:
            ids = "id is" if count == 1 else "ids are"
            raise BadIds(f"party {party!r}, {source}, {named}: {count} {ids} {what}. {advice}")


def _spelt(given: Plain | Text, spelling: Spelling, where: str) -> Text:
    if isinstance(given, Plain) and given.kind in _NO_IDS:
        raise BadIds(
            f"{where}: ids are {_NO_IDS[given.kind]}. Give them as integers or text, spelt the same at every "
            f"party.{_from_whole(given)}"
        )
    if isinstance(given, Plain) and given.kind == "whole" and given.missing is None:
        return _decimals(given.data)
    if isinstance(given, Text) and spelling == AS_WRITTEN and _stays(given):
        return given
    texts = given.texts() if isinstance(given, Text) else [_day(value) for value in given.objects()]
    spelt = ["" if value is None else spelling.spell(value) for value in texts]
    return Text.of(spelt if spelling.trim else [one if one.strip() else "" for one in spelt])


def _from_whole(given: Plain) -> str:
    """Where whole numbers became floats, what made them so."""
    if given.kind != "real" or given.missing is None:
        return ""
    there = given.data[~given.missing]
    if not len(there) or (there != np.rint(there)).any():
        return ""
    return f" A data frame makes floats of whole numbers where some are missing, as {int(given.missing.sum())} are."


def _day(value: object) -> object:
    whole = isinstance(value, datetime) and value.tzinfo is None and value.time() == time()
    return cast(datetime, value).date() if whole else value


def _stays(text: Text) -> bool:
    """Whether every text is there and begins and ends with a letter that no rule takes off."""
    if text.missing is not None:
        return False
    begins, ends = text.ends[:-1], text.ends[1:]
    there = ends > begins
    edges = text.store[begins[there]], text.store[ends[there] - 1]
    return not any(_BLANK[edge].any() for edge in edges)


def _decimals(numbers: Any) -> Text:
    wide = numbers.astype(f"S{_LONGEST_NUMBER}").view(np.uint8).reshape(len(numbers), _LONGEST_NUMBER)
    there = wide != 0
    ends = np.zeros(len(numbers) + 1, dtype=np.int64)
    np.cumsum(there.sum(axis=1), out=ends[1:])
    return Text(ends, wide[there])


def _escaped(part: str | None) -> str:
    return str(part).replace("\\", "\\\\").replace(SEPARATOR, f"\\{SEPARATOR}")
