"""A schema drafted from a source for a person to correct, and what a schema still lacks.

Bounds and categories stay blank, because read from the rows they would be a release; of public rows they are suggested.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.arrays import Relation, distinct, held, of_texts, texts, values_of
from colonnade.data.coding import POINTED, code
from colonnade.data.declaring import expand_name, nearest_name, text_of
from colonnade.data.documents import Document
from colonnade.data.drafts import LOOKED_AT, Draft, are_codes, of_kinds
from colonnade.data.kinds import Column, DateColumn, NumericColumn
from colonnade.data.schema import Schema, blanks
from colonnade.data.sources import Source
from colonnade.data.table import SourceRows
from colonnade.errors import InputError, Misdeclared

Array = NDArray[np.float64]
# With more, a column is hardly one of categories.
MOST_CATEGORIES = 50
_BATCH = 65_536
_ANY_NUMBER = NumericColumn("", low=-1e300, high=1e300, missing="category")
_ANY_DATE = DateColumn("", low=date(1, 1, 1), high=date(9999, 12, 31))
_EPOCH = date(1970, 1, 1)
_DRAFTED = {"number": "numeric", "date": "date", "truth": "binary"}


def numbers_of(values: Any, declared: Column = _ANY_NUMBER) -> Array:
    coded = code(values, declared)
    numbers = np.asarray(coded.values if coded.raw is None else coded.raw, dtype=np.float64)
    return numbers[np.isfinite(numbers)]


def suggestions(relation: Relation, kinds: Mapping[str, str]) -> dict[str, str]:
    """For each column the lines of a schema that its rows suggest; none where they suggest nothing."""
    names = list(kinds)
    ends: dict[str, tuple[float, float]] = {}
    levels: dict[str, set[str]] = {name: set() for name in names}
    for batch in relation.batches(names, size=_BATCH):
        for name, values in zip(names, batch.columns, strict=True):
            if kinds[name] in ("numeric", "date"):
                numbers = numbers_of(values, _ANY_NUMBER if kinds[name] == "numeric" else _ANY_DATE)
                if len(numbers):
                    low, high = ends.get(name, (math.inf, -math.inf))
                    ends[name] = min(low, float(numbers.min())), max(high, float(numbers.max()))
            elif len(levels[name]) <= MOST_CATEGORIES:
                levels[name] |= _texts(values)
    made = {}
    for name, kind in kinds.items():
        low, high = ends.get(name, (0.0, 0.0))
        if kind == "numeric" and low < high:
            # A little wider, with about two digits of what lies between them.
            step = 10.0 ** (math.floor(math.log10(high - low)) - 1)
            low, high = math.floor(low / step) * step, math.ceil(high / step) * step
            made[name] = f"low = {low:.12g}\nhigh = {high:.12g}\n"
        elif kind == "date" and low < high:
            days = [_EPOCH + timedelta(days=day) for day in (math.floor(low), math.ceil(high))]
            made[name] = f"low = {days[0].isoformat()}\nhigh = {days[1].isoformat()}\n"
        elif kind == "categorical" and 2 <= len(levels[name]) <= MOST_CATEGORIES:
            ordered = sorted(levels[name], key=_in_order)
            made[name] = f"categories = {json.dumps(ordered, ensure_ascii=False)}\n"
    return made


def _texts(values: Any) -> set[str]:
    given = (value for value in distinct(values_of(values))[0] if value is not None and value == value)
    # A whole number is as it was before a data frame wrote it with a point.
    return {text.split(".")[0] if POINTED.fullmatch(text) else text for text in map(text_of, given) if text}


def _in_order(text: str) -> tuple[bool, int, str]:
    whole = text.isdecimal()
    return not whole, int(text) if whole else 0, text


def draft(source: Source, *, party: str = "", public: bool = False) -> Draft:
    """Names and kinds of a source's columns, by their types or as its first rows are written; values if `public`."""
    relation = source.open(party=party)
    held = {name: field.holds for name, field in relation.fields.items()}
    kinds = {
        name: _DRAFTED.get(what, "categorical")
        for name, what in held.items()
        if what not in ("binary", "nested")
    }
    if not relation.typed:
        kinds = _by_text(relation)
    codes = _codes(relation, [name for name, kind in kinds.items() if kind == "numeric"])
    kinds |= dict.fromkeys(codes, "categorical")
    suggested = suggestions(relation, kinds) if public else None
    return of_kinds(relation.name, kinds, codes=codes, suggested=suggested)


@dataclass(frozen=True)
class Findings:
    """What a schema lacks: places left blank, columns that its data does not have, or one mistake."""

    name: str
    blank: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    mistake: str | None = None

    @property
    def complete(self) -> bool:
        return not (self.blank or self.absent or self.mistake)


def check_schema(path: Path, source: Source | None = None, *, party: str = "") -> Findings:
    """What a schema file lacks, by itself or beside the columns of its data; no row is read."""
    document = Document.load(path)
    blank = tuple(document.where(path) for path in blanks(document.data))
    absent: tuple[str, ...] = ()
    if source is not None:
        fields = source.open(party=party, wanted=tuple(_declared(document.data))).fields
        absent = tuple(
            f"column {name!r} is declared but not in the {source}." + nearest_name(name, fields)
            for name in _declared(document.data)
            if name not in fields
        )
    mistake = None
    try:
        if not blank:
            schema = Schema.load(path)
            if source is not None and not absent:
                SourceRows(party, source, schema)
    except InputError as wrong:
        mistake = str(wrong)
    return Findings(document.name, blank, absent, mistake)


def _by_text(relation: Relation) -> dict[str, str]:
    names = list(relation.fields)
    kinds = dict.fromkeys(names, "categorical")
    first = next(relation.batches(names, size=LOOKED_AT), None)
    if first is None:
        return kinds
    for position, name in enumerate(names):
        column = values_of(first.column(position))
        given = texts(column) if held(column) == "text" else ()
        text = of_texts([one for one in given if one and one.strip()])
        for anything in (NumericColumn("", low=0, high=1), _ANY_DATE):
            if len(text) and not code(text, anything).problems:
                kinds[name] = anything.kind
                break
    return kinds


def _codes(relation: Relation, numbers: list[str]) -> frozenset[str]:
    first = next(relation.batches(numbers, size=LOOKED_AT), None) if numbers else None
    columns = () if first is None else first.columns
    return frozenset(
        name for name, column in zip(numbers, columns, strict=False) if are_codes(numbers_of(column))
    )


def _declared(data: Mapping[str, Any]) -> list[str]:
    identity, columns, label = data.get("id"), data.get("columns"), data.get("label")
    named = [identity.get("column") if isinstance(identity, Mapping) else identity]
    # Where a name is wrong, reading the schema says so.
    with suppress(Misdeclared):
        names = columns if isinstance(columns, Mapping) else ()
        named += [name for written in names for name in expand_name(written, ("columns", written))]
    named += [label.get("column")] if isinstance(label, Mapping) else []
    return [name for name in named if isinstance(name, str) and name]
