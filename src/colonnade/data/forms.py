"""The shapes in which schema files declare columns, and the kinds they turn into."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BeforeValidator, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from colonnade.data import declaring
from colonnade.data.coding import moment_of
from colonnade.data.declaring import Declaration
from colonnade.data.documents import Form, check
from colonnade.data.kinds import DEFAULT_KNOTS, MISSING, MOST_BINS, Column, DateColumn, NumericColumn
from colonnade.data.levels import BinaryColumn, BinnedColumn, CategoricalColumn
from colonnade.errors import Misdeclared, SchemaError

Value = StrictStr | StrictBool | StrictInt | StrictFloat
"""A category or class as a file writes it."""


class SpeltForm(Form):
    trim: bool = True
    case: declaring.Case = "exact"
    unicode: declaring.UnicodeForm = "exact"

    def spelling(self) -> declaring.Spelling:
        return declaring.Spelling(self.trim, self.case, self.unicode)


class _Missing(Form):
    value: Any = None
    own_category: bool = False

    @property
    def counts_as(self) -> Any:
        return "category" if self.own_category else self.value


def _policy(value: object) -> object:
    if isinstance(value, Mapping) and set(value) == {"value"}:
        return value
    if value not in ("refuse", "category"):
        close = declaring.nearest_name(str(value), ("refuse", "category"))
        raise ValueError('write "refuse", "category" or {value = …}' + close)
    return {"own_category": True} if value == "category" else None


def _dated(value: object) -> object:
    moment = moment_of(value) if isinstance(value, str) else value
    if not isinstance(moment, date):
        raise ValueError("should be a date such as 2000-01-31")
    return moment


_Policy = Annotated[_Missing | None, BeforeValidator(_policy)]
_Date = Annotated[Any, BeforeValidator(_dated)]


class _Numeric(Form):
    kind: Literal["numeric"]
    low: float
    high: float
    transform: declaring.Transform = "none"
    missing: _Policy = None
    encoding: str | None = None
    knots: int | None = None
    bins: int | None = None

    def column(self, name: str) -> Column:
        missing: Any = self.missing and self.missing.counts_as
        if self.encoding != "bins":
            if self.bins is not None:
                said = 'a number of bins belongs to encoding = "bins". Write that, or leave bins out.'
                raise Declaration.of_column(name).wrong("bins", said)
            encoding: Any = self.encoding  # the column checks it
            return NumericColumn(name, self.low, self.high, self.transform, missing, encoding, self.knots)
        if self.knots is not None:
            said = f'knots are those of encoding = "hats". Write bins = {self.knots} for bins.'
            raise Declaration.of_column(name).wrong("knots", said)
        bins = DEFAULT_KNOTS if self.bins is None else self.bins
        edges = even_edges(name, bins, low=self.low, high=self.high, transform=self.transform)
        return BinnedColumn(name, edges, missing, True, self.low, self.high, self.transform)


class _Dated(Form):
    kind: Literal["date"]
    low: _Date
    high: _Date
    format: str | None = None
    missing: _Policy = None

    def column(self, name: str) -> Column:
        missing: Any = self.missing and self.missing.counts_as
        if isinstance(missing, str):
            missing = moment_of(missing) or missing
        return DateColumn(name, self.low, self.high, self.format, missing)


class _Bins(Form):
    kind: Literal["bins"]
    edges: list[float] | None = None
    bins: int | None = None
    quantiles: Any = None
    ordered: bool = False
    low: float | None = None
    high: float | None = None
    transform: declaring.Transform = "none"
    whole: bool = False
    missing: _Policy = None

    def column(self, name: str) -> Column:
        if self.quantiles is not None:
            said = "edges are taken from a public set where a schema file is read. List them as edges here."
            raise Declaration.of_column(name).wrong("quantiles", said)
        if (self.edges is None) == (self.bins is None):
            which = "both" if self.edges is not None else "neither"
            said = f"declares {which} of edges, a list, and bins, a number. Write one of them."
            raise Misdeclared(("columns", name, "edges"), f"column {name!r} {said}")
        edges = tuple(self.edges or ())
        if self.bins is not None:
            edges = even_edges(name, self.bins, low=self.low, high=self.high, transform=self.transform)
        missing: Any = self.missing and self.missing.counts_as
        ends = self.low, self.high, self.transform, self.whole
        return BinnedColumn(name, edges, missing, self.ordered, *ends)


class _Binary(SpeltForm):
    kind: Literal["binary"]
    values: list[Value]
    missing: _Policy = None

    def column(self, name: str) -> Column:
        values: tuple[Any, ...] = tuple(self.values)  # the column checks and spells them itself
        if self.missing is not None and self.missing.own_category:
            # Three vertices instead of two: a missing value must not lie between the others on one axis.
            spelt = BinaryColumn(name, values, spelling=self.spelling())
            categories, own = _with_category(spelt)
            return CategoricalColumn(name, categories, missing=own, spelling=self.spelling())
        missing: Any = self.missing and self.missing.value
        return BinaryColumn(name, values, missing, self.spelling())


class _Categorical(SpeltForm):
    kind: Literal["categorical"]
    categories: list[Value]
    other: Value | None = None
    missing: _Policy = None

    def column(self, name: str) -> Column:
        categories: tuple[Any, ...] = tuple(self.categories)  # as above
        other: Any = self.other
        missing: Any = self.missing and self.missing.value
        if self.missing is not None and self.missing.own_category:
            spelt = CategoricalColumn(name, categories, other, spelling=self.spelling())
            categories, missing = _with_category(spelt)
        return CategoricalColumn(name, categories, other, missing, self.spelling())


ColumnForm = Annotated[_Numeric | _Dated | _Bins | _Binary | _Categorical, Field(discriminator="kind")]


def _with_category(column: BinaryColumn | CategoricalColumn) -> tuple[tuple[str, ...], str]:
    own = column.spelling.spell(MISSING)
    if own in column.levels:
        raise Misdeclared(
            ("columns", column.name, "missing"),
            f"column {column.name!r} declares {own!r} already. Write missing = {{value = {own!r}}} to put missing "
            "values there.",
        )
    return (*column.levels, own), own


def columns_of(name: str, form: ColumnForm) -> tuple[Column, ...]:
    """The columns of one declaration, more than one where its name has a range in it."""
    # What is wrong with the declaration is told of the name as it is written.
    form.column(name)
    return tuple(form.column(one) for one in declaring.expand_name(name, ("columns", name)))


class _ColumnsForm(Form):
    columns: dict[str, ColumnForm]


def columns_from_data(data: object) -> tuple[Column, ...]:
    form = check(_ColumnsForm, {"columns": by_name(data, "name", "columns")}, name="columns")
    return tuple(column for name, one in form.columns.items() for column in columns_of(name, one))


def by_name(given: object, key: str, what: str) -> dict[str, Any]:
    """A list of named descriptions as a mapping, the shape of a schema file."""
    if not isinstance(given, list) or not all(
        isinstance(item, dict) and isinstance(item.get(key), str) for item in given
    ):
        raise SchemaError(f"a schema description has no list of named {what}.")
    named = {item[key]: {one: item[one] for one in item if one != key} for item in given}
    if len(named) != len(given):
        raise SchemaError(f"a schema description declares a {what[:-1]} twice.")
    return named


def even_edges(
    name: str, bins: int, *, low: float | None, high: float | None, transform: declaring.Transform = "none"
) -> tuple[float, ...]:
    """The edges of so many bins of one width from low to high, on the scale of the transform."""
    declared = Declaration.of_column(name)
    declared.check_whole("bins", bins, low=2, high=MOST_BINS)
    if low is None or high is None:
        key = "low" if low is None else "high"
        said = f"bins = {bins} are of one width from low to high, and {key} is not declared."
        raise declared.wrong(key, f"{said} Declare it, or list the edges.")
    declared.check_bounds(low, high)
    if transform == "log1p":
        declared.check_transform(transform, low)
        return tuple(np.expm1(np.linspace(math.log1p(low), math.log1p(high), bins + 1))[1:-1].tolist())
    return tuple(np.linspace(low, high, bins + 1)[1:-1].tolist())


def quantile_edges(name: str, bins: int, values: ArrayLike) -> tuple[float, ...]:
    """Edges of bins with about as many public values each; fewer where one value takes up several quantiles."""
    declared = Declaration.of_column(name)
    declared.check_whole("bins", bins, low=2, high=MOST_BINS)
    given = np.asarray(values, dtype=np.float64)
    given = np.sort(given[np.isfinite(given)])
    if not given.size or given[0] == given[-1]:
        content = "one number only" if given.size else "no number"
        said = f"the public set has {content} in that column, which makes no bins."
        raise declared.wrong("quantiles", f"{said} Name another set, or list the edges.")
    edges = np.unique(np.quantile(given, np.arange(1, bins) / bins, method="inverted_cdf"))
    edges = edges[edges > given[0]]
    # Where one value fills every quantile, what lies above it begins the second bin.
    return tuple(edges.tolist()) if edges.size else (float(given[given > given[0]][0]),)
