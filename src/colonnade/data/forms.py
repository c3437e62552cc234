"""The shapes that schema files and schema descriptions must have, and the values they turn into."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from colonnade.data.bin_edges import even_edges
from colonnade.data.columns import (
    DEFAULT_KNOTS,
    BinaryColumn,
    BinnedColumn,
    CategoricalColumn,
    Column,
    DateColumn,
    NumericColumn,
    Transform,
)
from colonnade.data.declaring import nearest
from colonnade.data.derived import MISSING, moment_of
from colonnade.data.documents import Form, check
from colonnade.data.maps import FeatureMap, MapForm
from colonnade.data.name_ranges import expand_name
from colonnade.data.spelling import Case, Spelling, UnicodeForm
from colonnade.data.targets import ClassLabel, CountLabel, Label, RealLabel
from colonnade.errors import Misdeclared, SchemaError

_Value = StrictStr | StrictBool | StrictInt | StrictFloat


def _dated(value: object) -> object:
    moment = moment_of(value) if isinstance(value, str) else value
    if not isinstance(moment, date):
        raise ValueError("should be a date such as 2000-01-31")
    return moment


_Date = Annotated[Any, BeforeValidator(_dated)]


class _Missing(Form):
    """What a missing value counts as."""

    value: Any = None
    own_category: bool = False


def _policy(value: object) -> object:
    if isinstance(value, Mapping) and set(value) == {"value"}:
        return value
    if value == "refuse":
        return None
    if value == "category":
        return {"own_category": True}
    raise ValueError(
        'write "refuse", "category" or {value = …}' + nearest(str(value), ("refuse", "category"))
    )


_Policy = Annotated[_Missing | None, BeforeValidator(_policy)]


class _Spelt(Form):
    trim: bool = True
    case: Case = "exact"
    unicode: UnicodeForm = "exact"

    def spelling(self) -> Spelling:
        return Spelling(self.trim, self.case, self.unicode)


class _Numeric(Form):
    kind: Literal["numeric"]
    low: float
    high: float
    transform: Transform = "none"
    missing: _Policy = None
    encoding: str | None = None
    knots: int | None = None
    bins: int | None = None

    def column(self, name: str) -> Column:
        missing = _counts_as(self.missing)
        if self.encoding == "bins":
            return self._binned(name, missing)
        if self.bins is not None:
            raise Misdeclared(
                ("columns", name, "bins"),
                f'column {name!r}: a number of bins belongs to encoding = "bins". Write that, or leave bins out.',
            )
        encoding: Any = self.encoding  # the column checks it
        return NumericColumn(name, self.low, self.high, self.transform, missing, encoding, self.knots)

    def _binned(self, name: str, missing: Any) -> Column:
        if self.knots is not None:
            raise Misdeclared(
                ("columns", name, "knots"),
                f'column {name!r}: knots are those of encoding = "hats". Write bins = {self.knots} for bins.',
            )
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
        missing = _counts_as(self.missing)
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
    transform: Transform = "none"
    whole: bool = False
    missing: _Policy = None

    def column(self, name: str) -> Column:
        return BinnedColumn(
            name,
            self._edges(name),
            _counts_as(self.missing),
            self.ordered,
            self.low,
            self.high,
            self.transform,
            self.whole,
        )

    def _edges(self, name: str) -> tuple[float, ...]:
        where, what = ("columns", name), f"column {name!r}"
        if self.quantiles is not None:
            raise Misdeclared(
                (*where, "quantiles"),
                f"{what}: edges are taken from a public set where a schema file is read. List them as edges here.",
            )
        if (self.edges is None) == (self.bins is None):
            found = "both" if self.edges is not None else "neither"
            raise Misdeclared(
                (*where, "edges"),
                f"{what} declares {found} of edges, a list, and bins, a number. Write one of them.",
            )
        if self.bins is not None:
            return even_edges(name, self.bins, low=self.low, high=self.high, transform=self.transform)
        return tuple(self.edges or ())


class _Binary(_Spelt):
    kind: Literal["binary"]
    values: list[_Value]
    missing: _Policy = None

    def column(self, name: str) -> Column:
        values: tuple[Any, ...] = tuple(self.values)  # the column checks and spells them itself
        if self.missing is not None and self.missing.own_category:
            # Three vertices instead of two: a missing value must not lie between the others on one axis.
            spelt = BinaryColumn(name, values, spelling=self.spelling())
            categories, missing = _with_category(spelt.values, spelt)
            return CategoricalColumn(name, categories, missing=missing, spelling=self.spelling())
        return BinaryColumn(name, values, _counts_as(self.missing), self.spelling())


class _Categorical(_Spelt):
    kind: Literal["categorical"]
    categories: list[_Value]
    other: _Value | None = None
    missing: _Policy = None

    def column(self, name: str) -> Column:
        categories: tuple[Any, ...] = tuple(self.categories)  # as above
        other: Any = self.other
        missing: Any = None if self.missing is None else self.missing.value
        if self.missing is not None and self.missing.own_category:
            spelt = CategoricalColumn(name, categories, other, spelling=self.spelling())
            categories, missing = _with_category(spelt.categories, spelt)
        return CategoricalColumn(name, categories, other, missing, self.spelling())


class _Classes(_Spelt):
    kind: Literal["classes"]
    column: str
    classes: list[_Value]
    other: _Value | None = None

    def label(self) -> Label:
        classes: Any = tuple(self.classes)  # as above
        other: Any = self.other
        return ClassLabel(self.column, classes, self.spelling(), other=other)


class _Real(Form):
    kind: Literal["real"]
    column: str
    low: float
    high: float

    def label(self) -> Label:
        return RealLabel(self.column, self.low, self.high)


class _Count(Form):
    kind: Literal["count"]
    column: str
    low: float
    high: float

    def label(self) -> Label:
        return CountLabel(self.column, self.low, self.high)


_ColumnForm = Annotated[_Numeric | _Dated | _Bins | _Binary | _Categorical, Field(discriminator="kind")]
_LabelForm = Annotated[_Classes | _Real | _Count, Field(discriminator="kind")]


def _by_column(value: object) -> object:
    if not isinstance(value, Mapping):
        return value
    for name, form in value.items():
        if isinstance(form, Mapping) and "column" in form:
            raise ValueError(f"[labels.{name}] is named after its column already: leave out column")
    return {
        name: {**form, "column": name} if isinstance(form, Mapping) else form for name, form in value.items()
    }


class DeclaredForm(Form):
    """Columns and label as a schema file declares them."""

    columns: dict[str, _ColumnForm] = Field(default_factory=dict)
    label: _LabelForm | None = None
    labels: Annotated[dict[str, _LabelForm], BeforeValidator(_by_column)] = Field(default_factory=dict)
    map: MapForm | None = None

    def values(self) -> tuple[tuple[Column, ...], tuple[Label, ...]]:
        """The declared columns and labels; contradictions in them are `Misdeclared`."""
        columns = tuple(column for name, form in self.columns.items() for column in _columns(name, form))
        if self.label is not None and self.labels:
            raise Misdeclared(
                ("labels",),
                "[label] declares one label and [labels.…] several. Keep one of them: each label in [labels.COLUMN].",
            )
        if self.label is not None:
            return columns, (self.label.label(),)
        return columns, tuple(_label(name, form) for name, form in self.labels.items())

    def feature_map(self) -> FeatureMap | None:
        """The map that columns go through, if one is declared."""
        return None if self.map is None else self.map.feature_map()


def _label(name: str, form: _LabelForm) -> Label:
    """One of several labels; what is wrong with it is told of where it stands."""
    try:
        return form.label()
    except Misdeclared as wrong:
        raise Misdeclared(("labels", name, *wrong.where[1:]), str(wrong)) from None


def _columns(name: str, form: _ColumnForm) -> tuple[Column, ...]:
    """The columns of one declaration, more than one where its name has a range in it."""
    # What is wrong with the declaration is told of the name as it is written.
    form.column(name)
    return tuple(form.column(one) for one in expand_name(name, ("columns", name)))


class _Id(_Spelt):
    column: str | list[str]

    def columns(self) -> str | tuple[str, ...]:
        """The column that says who a row is, or the columns that say it together."""
        return self.column if isinstance(self.column, str) else tuple(self.column)


def _named(value: object) -> object:
    return value if isinstance(value, Mapping) else {"column": value}


class PublicForm(DeclaredForm):
    """What peers may see: columns, label, and the rule by which ids are compared."""

    ids: _Spelt = _Spelt()


class SchemaForm(DeclaredForm):
    """A whole schema file; `id = "customer"` is short for `id = {column = "customer"}`."""

    id: Annotated[_Id, BeforeValidator(_named)]


def by_name(data: Mapping[str, Any]) -> dict[str, Any]:
    """A description with its lists of named columns and labels as mappings, the shape of a schema file."""
    described = {**data, "columns": _named_list(data.get("columns"), "name", "columns")}
    return described | (
        {"labels": _named_list(data["labels"], "column", "labels")} if "labels" in data else {}
    )


def _named_list(given: object, key: str, what: str) -> dict[str, Any]:
    if not isinstance(given, list) or not all(
        isinstance(item, dict) and isinstance(item.get(key), str) for item in given
    ):
        raise SchemaError(f"a schema description has no list of named {what}.")
    named = {item[key]: {one: item[one] for one in item if one != key} for item in given}
    if len(named) != len(given):
        raise SchemaError(f"a schema description declares a {what[:-1]} twice.")
    return named


def columns_from_data(data: object) -> tuple[Column, ...]:
    """The columns that their `to_data` described."""
    form = check(DeclaredForm, by_name({"columns": data}), name="columns")
    return form.values()[0]


def map_from_data(data: object) -> FeatureMap:
    """The map that its `to_data` described."""
    made = check(DeclaredForm, {"map": data}, name="map").feature_map()
    if made is None:
        raise SchemaError("a map description is empty.")
    return made


def label_from_data(data: Mapping[str, object]) -> Label:
    """The label that its `to_data` described."""
    return check(DeclaredForm, {"label": dict(data)}, name="label").values()[1][0]


def _counts_as(policy: _Missing | None) -> Any:
    if policy is None:
        return None
    return "category" if policy.own_category else policy.value


def _with_category(
    values: tuple[str, ...], column: BinaryColumn | CategoricalColumn
) -> tuple[tuple[str, ...], str]:
    own = column.spelling.spell(MISSING)
    if own in values:
        raise Misdeclared(
            ("columns", column.name, "missing"),
            f"column {column.name!r} declares {own!r} already. Write missing = {{value = {own!r}}} to put missing "
            "values there.",
        )
    return (*values, own), own
