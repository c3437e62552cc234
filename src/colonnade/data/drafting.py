"""A schema drafted from a source for a person to correct, and what a schema still lacks.

A draft has names and kinds. Bounds and categories stay blank, because values read from the rows would be a
release: the largest income in a table is one person's income. Of rows that are public they are suggested.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from colonnade.data.arrays import held, of_texts, texts, values_of
from colonnade.data.coding import code
from colonnade.data.columns import Column, DateColumn, Misdeclared, NumericColumn, nearest
from colonnade.data.documents import Document
from colonnade.data.drafts import LOOKED_AT, Draft, are_codes, of_kinds
from colonnade.data.name_ranges import expand_name
from colonnade.data.reading import SourceRows, open_source
from colonnade.data.relation import Relation, SourceColumn
from colonnade.data.schema import Schema, blanks
from colonnade.data.sources import Source
from colonnade.data.suggesting import numbers_of, suggestions
from colonnade.errors import InputError

_ANYTHING: Mapping[str, Column] = {
    "numeric": NumericColumn("", low=0, high=1),
    "date": DateColumn("", low=date(1, 1, 1), high=date(9999, 12, 31)),
}


def draft(source: Source, *, party: str = "", public: bool = False) -> Draft:
    """Names and kinds of a source's columns.

    Kinds come from the types of the columns; where a source has none (CSV, SQLite), from whether all of its first
    rows are written as numbers or as dates. Whole numbers of which the first rows have few are taken for codes. No
    value gets into a draft, unless the rows are `public`.
    """
    relation = open_source(source, party=party)
    kinds = {name: _by_type(field) for name, field in relation.fields.items() if field.is_read}
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
    """What a schema file lacks, by itself and, if its data is given, beside the columns of that data.

    No row is read.
    """
    document = Document.load(path)
    blank = tuple(document.where(path) for path in blanks(document.data))
    absent: tuple[str, ...] = ()
    if source is not None:
        fields = open_source(source, party=party, wanted=tuple(_declared(document.data))).fields
        absent = tuple(
            f"column {name!r} is declared but not in the {source}." + nearest(name, fields)
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


def _by_type(field: SourceColumn) -> str:
    if field.is_number:
        return "numeric"
    if field.is_date:
        return "date"
    return "binary" if field.is_truth else "categorical"


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
        for kind, anything in _ANYTHING.items():
            if len(text) and not code(text, anything).problems:
                kinds[name] = kind
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
    named += _expanded(columns) if isinstance(columns, Mapping) else []
    named += [label.get("column")] if isinstance(label, Mapping) else []
    return [name for name in named if isinstance(name, str) and name]


def _expanded(columns: Mapping[str, Any]) -> list[str]:
    try:
        return [name for written in columns for name in expand_name(written, ("columns", written))]
    except Misdeclared:
        # Reading the schema says what is wrong with it.
        return []
