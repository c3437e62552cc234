"""Bounds and categories read from rows that everybody may read, for a person to correct."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.arrays import distinct, values_of
from colonnade.data.coding import POINTED, code
from colonnade.data.columns import Column, DateColumn, NumericColumn, text_of
from colonnade.data.relation import Relation

Array = NDArray[np.float64]
# With more, a column is hardly one of categories.
MOST_CATEGORIES = 50
_BATCH = 65_536
_ANY_NUMBER = NumericColumn("", low=-1e300, high=1e300, missing="category")
_ANY_DATE = DateColumn("", low=date(1, 1, 1), high=date(9999, 12, 31))
_EPOCH = date(1970, 1, 1)


def numbers_of(values: Any, declared: Column = _ANY_NUMBER) -> Array:
    """The finite numbers of a column, or the days of its dates."""
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
        if kind == "numeric" and name in ends and ends[name][0] < ends[name][1]:
            low, high = outward(*ends[name])
            made[name] = f"low = {low:.12g}\nhigh = {high:.12g}\n"
        elif kind == "date" and name in ends and ends[name][0] < ends[name][1]:
            low, high = math.floor(ends[name][0]), math.ceil(ends[name][1])
            days = [(_EPOCH + timedelta(days=day)).isoformat() for day in (low, high)]
            made[name] = f"low = {days[0]}\nhigh = {days[1]}\n"
        elif kind == "categorical" and 2 <= len(levels[name]) <= MOST_CATEGORIES:
            listed = ", ".join(
                json.dumps(one, ensure_ascii=False) for one in sorted(levels[name], key=_in_order)
            )
            made[name] = f"categories = [{listed}]\n"
    return made


def outward(low: float, high: float) -> tuple[float, float]:
    """Bounds a little wider, with about two digits of what lies between them."""
    step = 10.0 ** (math.floor(math.log10(high - low)) - 1)
    return math.floor(low / step) * step, math.ceil(high / step) * step


def _texts(values: Any) -> set[str]:
    spelt = (
        text_of(value) for value in distinct(values_of(values))[0] if value is not None and value == value
    )
    return {_spelt(text) for text in spelt if text}


def _spelt(text: str) -> str:
    """A whole number as it was before a data frame wrote it with a point."""
    return text.split(".")[0] if POINTED.fullmatch(text) else text


def _in_order(text: str) -> tuple[bool, int, str]:
    whole = text.isdecimal()
    return not whole, int(text) if whole else 0, text
