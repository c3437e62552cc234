"""A column of every kind that a schema file may declare, so that a kind that is added is tested like the others."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, get_args

import numpy as np
from hypothesis import strategies as st

from colonnade.data.forms import ColumnForm, columns_from_data
from colonnade.data.kinds import Column
from colonnade.errors import SchemaError

# What a kind takes of these it is given; a kind with other options that it cannot do without has them here.
OPTIONS = {"low": 0, "high": 9, "edges": [2, 5], "values": ["F", "M"], "categories": ["a", "b", "c"]}
DATES = {"low": "2000-01-31", "high": "2020-01-31"}


def declared(form: Any) -> Column:
    (kind,) = get_args(form.model_fields["kind"].annotation)
    for options in (OPTIONS, OPTIONS | DATES):
        taken = {key: value for key, value in options.items() if key in form.model_fields}
        with suppress(SchemaError):
            return columns_from_data([{"name": kind, "kind": kind, **taken}])[0]
    raise LookupError(f"OPTIONS has not what the kind {kind} needs")


KINDS = tuple(map(declared, get_args(get_args(ColumnForm)[0])))


def values_of(column: Column) -> st.SearchStrategy[Any]:
    """Days as numbers, as a graph takes them; see `as_given`."""
    return st.sampled_from(column.levels) if column.reads == "levels" else st.floats(-100, 30000)


def as_given(column: Column, values: Sequence[Any]) -> Any:
    """The same as a table has them: dates as moments, nothing as None."""
    if column.reads == "dates":
        moments = [round(day * 86_400_000_000) if day == day else "NaT" for day in values]
        return np.array([np.datetime64(moment, "us") for moment in moments])
    found = [value if value == value else None for value in values]
    return np.full(len(found), np.nan) if all(value is None for value in found) else found
