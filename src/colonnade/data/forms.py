"""The shapes that schema files and schema descriptions must have, and the values they turn into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr

from colonnade.data.columns import BinaryColumn, CategoricalColumn, Column, NumericColumn
from colonnade.data.documents import Form, check
from colonnade.data.targets import ClassLabel, CountLabel, Label, RealLabel
from colonnade.errors import SchemaError

_Value = StrictStr | StrictBool | StrictInt | StrictFloat


class _Numeric(Form):
    kind: Literal["numeric"]
    low: float
    high: float
    transform: Literal["none", "log1p"] = "none"

    def column(self, name: str) -> Column:
        return NumericColumn(name, self.low, self.high, self.transform)


class _Binary(Form):
    kind: Literal["binary"]
    values: list[_Value]

    def column(self, name: str) -> Column:
        return BinaryColumn(name, tuple(self.values))  # type: ignore[arg-type]  # it checks and spells them itself


class _Categorical(Form):
    kind: Literal["categorical"]
    categories: list[_Value]
    other: _Value | None = None

    def column(self, name: str) -> Column:
        return CategoricalColumn(name, tuple(self.categories), self.other)  # type: ignore[arg-type]  # as above


class _Classes(Form):
    kind: Literal["classes"]
    column: str
    classes: list[_Value]

    def label(self) -> Label:
        return ClassLabel(self.column, tuple(self.classes))  # type: ignore[arg-type]  # as above


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


_ColumnForm = Annotated[_Numeric | _Binary | _Categorical, Field(discriminator="kind")]
_LabelForm = Annotated[_Classes | _Real | _Count, Field(discriminator="kind")]


class DeclaredForm(Form):
    """Columns and label as a schema file declares them.

    >>> DeclaredForm().values()
    ((), None)
    """

    columns: dict[str, _ColumnForm] = Field(default_factory=dict)
    label: _LabelForm | None = None

    def values(self) -> tuple[tuple[Column, ...], Label | None]:
        """The declared values; contradictions in them are `Misdeclared`."""
        columns = tuple(form.column(name) for name, form in self.columns.items())
        return columns, self.label.label() if self.label else None


class SchemaForm(DeclaredForm):
    """A whole schema file.

    >>> SchemaForm(id="customer").id
    'customer'
    """

    id: str


def by_name(data: Mapping[str, Any]) -> dict[str, Any]:
    """A description with its list of named columns as a mapping, the shape of a schema file.

    >>> by_name({"columns": [{"name": "age", "kind": "numeric"}]})
    {'columns': {'age': {'kind': 'numeric'}}}
    """
    columns = data.get("columns")
    if not isinstance(columns, list) or not all(
        isinstance(item, dict) and isinstance(item.get("name"), str) for item in columns
    ):
        raise SchemaError("a schema description has no list of named columns.")
    named = {item["name"]: {key: item[key] for key in item if key != "name"} for item in columns}
    if len(named) != len(columns):
        raise SchemaError("a schema description declares a column twice.")
    return {**data, "columns": named}


def columns_from_data(data: object) -> tuple[Column, ...]:
    """The columns that their `to_data` described.

    >>> columns_from_data([NumericColumn("age", low=17, high=90).to_data()])
    (NumericColumn(name='age', low=17.0, high=90.0, transform='none'),)
    """
    form = check(DeclaredForm, by_name({"columns": data}), error=SchemaError, name="columns")
    return form.values()[0]


def label_from_data(data: Mapping[str, object]) -> Label:
    """The label that its `to_data` described.

    >>> label_from_data({"kind": "count", "column": "visits", "low": 0, "high": 9})
    CountLabel(column='visits', low=0.0, high=9.0)
    """
    label = check(DeclaredForm, {"label": dict(data)}, error=SchemaError, name="label").values()[1]
    if label is None:
        raise SchemaError("a label description is empty.")
    return label
