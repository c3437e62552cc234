"""A schema drafted from a source for a person to correct, and what a schema still lacks.

A draft has names and kinds. Bounds and categories stay blank, because values read from the rows would be a
release: the largest income in a table is one person's income.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from colonnade.data.coding import code
from colonnade.data.columns import Column, DateColumn, Misdeclared, NumericColumn, nearest
from colonnade.data.documents import Document
from colonnade.data.name_ranges import expand_name, fold_names
from colonnade.data.packed_text import Text
from colonnade.data.reading import SourceRows, open_source
from colonnade.data.relation import Field, Relation
from colonnade.data.schema import Schema, blanks
from colonnade.data.sources import Source
from colonnade.errors import InputError

PREFACE = """\
# A draft of a schema for {source}.
# Correct what was guessed, delete every column that is not to be learnt from, and fill in the blanks.
# Bounds and categories are blank on purpose: taken from the rows they would tell about single people, for the
# largest income in a table is one person's income. Write what a column can hold, from what you know of it.
# Numbers outside their bounds are clipped. `colonnade schema --check` says what is still missing.
"""
LABEL = """\
# If this party holds the label, delete its column above and take away the signs here.
# [label]
# column = ""
# kind = "classes"  # or "real" or "count", with low and high
# classes = []
"""
GUESSED = "guessed from its name"
NOT_GUESSED = "which column says who a row is?"

# How many rows are looked at to tell numbers and dates from other text, where a source has no types.
_LOOKED_AT = 1000
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_ID = re.compile(r"(.*[_ .-])?(id|uuid)", re.IGNORECASE)
_BLANK = {
    "numeric": 'low = ""\nhigh = ""\n',
    "date": 'low = ""  # a date, such as 2000-01-31\nhigh = ""\n',
    "binary": "values = [false, true]\n",
    "categorical": "categories = []\n",
}
_ANYTHING: Mapping[str, Column] = {
    "numeric": NumericColumn("", low=0, high=1),
    "date": DateColumn("", low=date(1, 1, 1), high=date(9999, 12, 31)),
}


@dataclass(frozen=True)
class Draft:
    """Names and guessed kinds of a source's columns; `text` is the schema file to correct, `ending` its last words.

    >>> draft = Draft("file bank.csv", id="customer", kinds={"age": "numeric"})
    >>> print(draft.text.split("[columns.age]")[1].split("#")[0].strip())
    kind = "numeric"
    low = ""
    high = ""
    """

    source: str
    id: str
    kinds: Mapping[str, str]
    id_note: str = GUESSED
    ending: str = LABEL

    @property
    def text(self) -> str:
        """The draft as TOML; every blank in it is refused until somebody fills it in."""
        note = self.id_note if self.id else NOT_GUESSED
        parts = [
            PREFACE.format(source=self.source),
            f"id = {json.dumps(self.id, ensure_ascii=False)}  # {note}\n",
        ]
        for kind, alike in itertools.groupby(self.kinds, key=lambda name: self.kinds[name]):
            for name in fold_names(alike):
                parts.append(f'[columns.{_key(name)}]\nkind = "{kind}"\n{_BLANK[kind]}')
        return "\n".join((*parts, *filter(None, (self.ending,))))


def draft(source: Source, *, party: str = "") -> Draft:
    """Names and kinds of a source's columns.

    Kinds come from the types of the columns; where a source has none (CSV, SQLite), from whether all of its first
    rows are written as numbers or as dates. No value gets into a draft.
    """
    relation = open_source(source, party=party)
    kinds = {name: _by_type(field) for name, field in relation.fields.items() if field.kind != "BLOB"}
    if not relation.typed:
        kinds = _by_text(relation)
    identity = next((name for name in kinds if _ID.fullmatch(name)), "")
    rest = {name: kind for name, kind in kinds.items() if name != identity and name.strip()}
    return Draft(relation.name, identity, rest)


@dataclass(frozen=True)
class Findings:
    """What a schema lacks: places left blank, columns that its data does not have, or one mistake.

    >>> Findings("bank.toml").complete
    True
    """

    name: str
    blank: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    mistake: str | None = None

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
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


def _by_type(field: Field) -> str:
    if field.is_number:
        return "numeric"
    if field.is_date:
        return "date"
    return "binary" if field.is_truth else "categorical"


def _by_text(relation: Relation) -> dict[str, str]:
    names = list(relation.fields)
    kinds = dict.fromkeys(names, "categorical")
    first = next(relation.batches(names, size=_LOOKED_AT), None)
    if first is None:
        return kinds
    for position, name in enumerate(names):
        column = first.columns[position]
        given = column.texts() if isinstance(column, Text) else ()
        text = Text.of([one for one in given if one and one.strip()])
        for kind, anything in _ANYTHING.items():
            if len(text) and not code(text, anything).problems:
                kinds[name] = kind
                break
    return kinds


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


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
