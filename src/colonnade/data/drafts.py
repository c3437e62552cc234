"""A schema for a person to correct: names and guessed kinds, with blanks for what only a person may say."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.arrays import NOT_READ, columns_by_name, held, numbers, values_of
from colonnade.data.declaring import fold_names
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
_KINDS = {"whole": "numeric", "real": "numeric", "date": "date", "moment": "date", "truth": "binary"}


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


def of_kinds(
    source: str,
    kinds: Mapping[str, str],
    *,
    codes: frozenset[str] = frozenset(),
    suggested: Mapping[str, str] | None = None,
) -> Draft:
    """A draft of these columns; the first that is named like an id is taken for it."""
    identity = next((name for name in kinds if _ID.fullmatch(name)), "")
    rest = {name: kind for name, kind in kinds.items() if name != identity and name.strip()}
    return Draft(source, identity, rest, codes=codes, suggested=suggested)


def are_codes(numbers: NDArray[np.float64]) -> bool:
    few = len(numbers) >= _FEWEST_ROWS and len(np.unique(numbers)) <= _MOST_CODES
    return few and bool((numbers == np.rint(numbers)).all())


def of_frame(frame: Any) -> Draft:
    """A draft from the types of a table in memory; few whole numbers are taken for codes, and no value gets in."""
    table = columns_by_name(frame)
    if table is None:
        raise SchemaError(
            f"a schema is drafted from a table with names, such as a data frame or {{'age': ages}}, not from "
            f"{type(frame).__name__}."
        )
    kinds, codes = {}, set()
    for name, column in table.items():
        values = values_of(column)
        if held(values) not in NOT_READ:
            kinds[str(name)] = _KINDS.get(held(values), "categorical")
            if kinds[str(name)] == "numeric":
                first = numbers(values.slice(0, LOOKED_AT))
                codes |= {str(name)} if are_codes(first[np.isfinite(first)]) else set()
    kinds |= dict.fromkeys(codes, "categorical")
    return of_kinds(f"a {type(frame).__name__}", kinds, codes=frozenset(codes))


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
