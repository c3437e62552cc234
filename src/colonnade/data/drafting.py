"""A schema drafted from a source or a table for a person to correct: names, guessed kinds, blanks for the rest.

Bounds and categories stay blank, because read from the rows they would be a release; of public rows they are suggested.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data import arrays
from colonnade.data.arrays import NOT_READ, Relation
from colonnade.data.coding import POINTED, code
from colonnade.data.declaring import AS_WRITTEN, fold_names
from colonnade.data.kinds import Column, DateColumn, NumericColumn
from colonnade.data.sources import Source
from colonnade.errors import SchemaError

PREFACE = """\
# A draft of a schema for {source}.
# Correct what was guessed, delete every column that is not to be learnt from, and fill in the blanks.
# Bounds and categories are blank on purpose: taken from the rows they would tell about single people, for the
# largest income in a table is one person's income. Write what a column can hold, from what you know of it.
# Numbers outside their bounds are clipped. `colonnade schema --check` says what is still missing.
"""
SUGGESTED = """\
# A draft of a schema for {source}, which is public.
# Correct what was guessed, delete every column that is not to be learnt from, and fill in what is blank.
# Bounds and categories are suggested from the rows: of rows that are not public they would tell about single people.
# Numbers outside their bounds are clipped. `colonnade schema --check` says what is still missing.
"""
CODES = "whole numbers, few of them: codes, it seems. Amounts are numeric, with low and high"
LABEL = """\
# If this party holds the label, delete its column above and take away the signs here.
# [label]
# column = ""
# kind = "classes"  # or "real" or "count", with low and high
# classes = []
"""
GUESSED = "guessed from its name"
NOT_GUESSED = "which column says who a row is?"
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_ID = re.compile(r"(.*[_ .-])?(id|uuid)", re.IGNORECASE)
_BLANK = {
    "numeric": 'low = ""\nhigh = ""\n',
    "date": 'low = ""  # a date, such as 2000-01-31\nhigh = ""\n',
    "binary": "values = [false, true]\n",
    "categorical": "categories = []\n",
}
# So many different whole numbers at most look like codes, among so many of the first rows at least.
LOOKED_AT = 1000
_MOST_CODES, _FEWEST_ROWS = 12, 100
_BY_TYPE = {"whole": "numeric", "real": "numeric", "date": "date", "moment": "date", "truth": "binary"}
_BY_FIELD = {"number": "numeric", "date": "date", "truth": "binary"}
# With more, a column is hardly one of categories.
MOST_CATEGORIES = 50
_BATCH = 65_536
_ANY_NUMBER = NumericColumn("", low=-1e300, high=1e300, missing="category")
_ANY_DATE = DateColumn("", low=date(1, 1, 1), high=date(9999, 12, 31))
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class Draft:
    """Names and guessed kinds of a source's columns; `suggested` has, of public data, lines for what is blank else."""

    source: str
    id: str
    kinds: Mapping[str, str]
    id_note: str = GUESSED
    ending: str = LABEL
    codes: frozenset[str] = frozenset()
    suggested: Mapping[str, str] | None = None

    def __str__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        """The draft as TOML; every blank in it is refused until somebody fills it in."""
        note = self.id_note if self.id else NOT_GUESSED
        parts = [
            (PREFACE if self.suggested is None else SUGGESTED).format(source=self.source),
            f"id = {json.dumps(self.id, ensure_ascii=False)}  # {note}\n",
        ]
        known = self.suggested or {}
        lines = {
            name: f'kind = "{kind}"{f"  # {CODES}" if name in self.codes else ""}\n{known.get(name, _BLANK[kind])}'
            for name, kind in self.kinds.items()
        }
        for text, alike in itertools.groupby(lines, key=lambda name: lines[name]):
            parts += [f"[columns.{_key(name)}]\n{text}" for name in fold_names(alike)]
        return "\n".join((*parts, *filter(None, (self.ending,))))


def of_frame(frame: Any) -> Draft:
    """A draft from the types of a table in memory; few whole numbers are taken for codes, and no value gets in."""
    table = arrays.columns_by_name(frame)
    if table is None:
        raise SchemaError(
            f"a schema is drafted from a table with names, such as a data frame or {{'age': ages}}, not from "
            f"{type(frame).__name__}."
        )
    columns = {str(name): arrays.values_of(column) for name, column in table.items()}
    kinds = {
        name: _BY_TYPE.get(arrays.kind_of(column), "categorical")
        for name, column in columns.items()
        if arrays.kind_of(column) not in NOT_READ
    }
    first = {name: columns[name].slice(0, LOOKED_AT) for name, kind in kinds.items() if kind == "numeric"}
    return _of_kinds(f"a {type(frame).__name__}", kinds, first)


def draft(source: Source, *, party: str = "", public: bool = False) -> Draft:
    """Names and kinds of a source's columns, by their types or as its first rows are written; values if `public`."""
    relation = source.open(party=party)
    kinds = {
        name: _BY_FIELD.get(field.holds, "categorical")
        for name, field in relation.fields.items()
        if field.holds not in ("binary", "nested")
    }
    if not relation.typed:
        kinds = _by_text(relation)
    numeric = [name for name, kind in kinds.items() if kind == "numeric"]
    batch = next(relation.batches(numeric, size=LOOKED_AT), None) if numeric else None
    first = {} if batch is None else dict(zip(numeric, batch.columns, strict=True))
    drafted = _of_kinds(relation.name, kinds, first)
    return replace(drafted, suggested=_suggestions(relation, drafted.kinds)) if public else drafted


def _of_kinds(source: str, kinds: Mapping[str, str], numeric: Mapping[str, Any]) -> Draft:
    """A draft of these columns, the first named like an id taken for it; few whole ones of `numeric` are codes."""
    codes = frozenset(name for name, first in numeric.items() if _are_codes(_numbers(first)))
    identity = next((name for name in kinds if _ID.fullmatch(name)), "")
    rest = {
        name: "categorical" if name in codes else kind
        for name, kind in kinds.items()
        if name != identity and name.strip()
    }
    return Draft(source, identity, rest, codes=codes)


def _are_codes(numbers: NDArray[np.float64]) -> bool:
    few = len(numbers) >= _FEWEST_ROWS and len(np.unique(numbers)) <= _MOST_CODES
    return few and bool((numbers == np.rint(numbers)).all())


def _numbers(values: Any, declared: Column = _ANY_NUMBER) -> NDArray[np.float64]:
    coded = code(values, declared)
    numbers = np.asarray(coded.values if coded.raw is None else coded.raw, dtype=np.float64)
    return numbers[np.isfinite(numbers)]


def _by_text(relation: Relation) -> dict[str, str]:
    names = list(relation.fields)
    kinds = dict.fromkeys(names, "categorical")
    first = next(relation.batches(names, size=LOOKED_AT), None)
    if first is None:
        return kinds
    for position, name in enumerate(names):
        column = arrays.values_of(first.column(position))
        given = arrays.texts(column) if arrays.kind_of(column) == "text" else ()
        text = arrays.of_texts([one for one in given if one and one.strip()])
        for anything in (NumericColumn("", low=0, high=1), _ANY_DATE):
            if len(text) and not code(text, anything).problems:
                kinds[name] = anything.kind
                break
    return kinds


def _suggestions(relation: Relation, kinds: Mapping[str, str]) -> dict[str, str]:
    """For each column the lines of a schema that its rows suggest; none where they suggest nothing."""
    names = list(kinds)
    ends: dict[str, tuple[float, float]] = {}
    levels: dict[str, set[str]] = {name: set() for name in names}
    for batch in relation.batches(names, size=_BATCH) if names else ():
        for name, values in zip(names, batch.columns, strict=True):
            if kinds[name] in ("numeric", "date"):
                numbers = _numbers(values, _ANY_NUMBER if kinds[name] == "numeric" else _ANY_DATE)
                if len(numbers):
                    low, high = ends.get(name, (math.inf, -math.inf))
                    ends[name] = min(low, float(numbers.min())), max(high, float(numbers.max()))
            elif len(levels[name]) <= MOST_CATEGORIES:
                levels[name] |= _texts(values)
    lines = {}
    for name, kind in kinds.items():
        low, high = ends.get(name, (0.0, 0.0))
        if kind == "numeric" and low < high:
            # A little wider, with about two digits of what lies between them.
            step = 10.0 ** (math.floor(math.log10(high - low)) - 1)
            low, high = math.floor(low / step) * step, math.ceil(high / step) * step
            lines[name] = f"low = {low:.12g}\nhigh = {high:.12g}\n"
        elif kind == "date" and low < high:
            days = [_EPOCH + timedelta(days=day) for day in (math.floor(low), math.ceil(high))]
            lines[name] = f"low = {days[0].isoformat()}\nhigh = {days[1].isoformat()}\n"
        elif kind == "categorical" and 2 <= len(levels[name]) <= MOST_CATEGORIES:
            ordered = sorted(levels[name], key=_in_order)
            lines[name] = f"categories = {json.dumps(ordered, ensure_ascii=False)}\n"
    return lines


def _texts(values: Any) -> set[str]:
    given = (
        value
        for value in arrays.distinct(arrays.values_of(values))[0]
        if value is not None and value == value
    )
    # A whole number is as it was before a data frame wrote it with a point.
    return {
        text.split(".")[0] if POINTED.fullmatch(text) else text
        for text in map(AS_WRITTEN.spell, given)
        if text
    }


def _in_order(text: str) -> tuple[bool, int, str]:
    whole = text.isdecimal()
    return not whole, int(text) if whole else 0, text


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
