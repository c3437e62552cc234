"""A party's declaration of its columns, from a TOML file or from plain data (docs/schema.md); `EXAMPLE` is one.

Columns stand in the order of declaration. A party without the label must declare at least one column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from colonnade.data.coding import Declared, Mode, code
from colonnade.data.declaring import AS_WRITTEN, Declaration, Spelling, nearest_name
from colonnade.data.documents import Document, Form, check
from colonnade.data.drafting import Draft, of_frame
from colonnade.data.encoder import Encoder
from colonnade.data.files import open_file
from colonnade.data.forms import ColumnForm, SpeltForm, by_name, columns_of, quantile_edges
from colonnade.data.kinds import Column, NumericColumn
from colonnade.data.labels import Label, LabelForm, label_named
from colonnade.data.maps import FeatureMap, MapForm
from colonnade.errors import LeftBlank, Misdeclared, SchemaError

_T = TypeVar("_T")
_ANY_NUMBER = NumericColumn("", low=-1e300, high=1e300, missing=0.0)
_BATCH = 1 << 16


def _by_column(value: object) -> object:
    if not isinstance(value, Mapping):
        return value
    named = dict(value)
    for name, form in value.items():
        if isinstance(form, Mapping):
            if "column" in form:
                raise ValueError(f"[labels.{name}] is named after its column already: leave out column")
            named[name] = {**form, "column": name}
    return named


class _Declared(Form):
    columns: dict[str, ColumnForm] = Field(default_factory=dict)
    label: LabelForm | None = None
    labels: Annotated[dict[str, LabelForm], BeforeValidator(_by_column)] = Field(default_factory=dict)
    map: MapForm | None = None

    def values(self) -> tuple[tuple[Column, ...], Label | None, FeatureMap | None, tuple[Label, ...]]:
        """The declared columns, first label, map and further labels; contradictions in them are `Misdeclared`."""
        columns = tuple(column for name, form in self.columns.items() for column in columns_of(name, form))
        if self.label is not None and self.labels:
            raise Misdeclared(
                ("labels",),
                "[label] declares one label and [labels.…] several. Keep one of them: each label in [labels.COLUMN].",
            )
        labels = [_label(name, form) for name, form in self.labels.items()]
        labels = labels if self.label is None else [self.label.label()]
        mapped = None if self.map is None else self.map.feature_map()
        return columns, labels[0] if labels else None, mapped, tuple(labels[1:])


def _label(name: str, form: LabelForm) -> Label:
    """One of several labels; what is wrong with it is told of where it stands."""
    try:
        return form.label()
    except Misdeclared as wrong:
        raise Misdeclared(("labels", name, *wrong.where[1:]), str(wrong)) from None


class _Id(SpeltForm):
    column: str | list[str]


def _named(value: object) -> object:
    return value if isinstance(value, Mapping) else {"column": value}


class PublicForm(_Declared):
    """What peers may see: columns, label, and the rule by which ids are compared."""

    ids: SpeltForm = SpeltForm()


class SchemaForm(_Declared):
    """A whole schema file; `id = "customer"` is short for `id = {column = "customer"}`."""

    id: Annotated[_Id, BeforeValidator(_named)]


def _listed(data: Mapping[str, Any]) -> dict[str, Any]:
    """A description with its lists of named columns and labels as mappings, the shape of a schema file."""
    described = {**data, "columns": by_name(data.get("columns"), "name", "columns")}
    labels = {"labels": by_name(data["labels"], "column", "labels")} if "labels" in data else {}
    return described | labels


class _Declarations:
    columns: tuple[Column, ...]
    label: Label | None
    map: FeatureMap | None
    more_labels: tuple[Label, ...]

    @property
    def labels(self) -> tuple[Label, ...]:
        return (*(() if self.label is None else (self.label,)), *self.more_labels)

    @property
    def declared(self) -> dict[str, Declared]:
        """Columns and labels by name."""
        columns: dict[str, Declared] = {column.name: column for column in self.columns}
        return columns | {label.column: label for label in self.labels}

    def encoder(self, mode: Mode) -> Encoder:
        return Encoder(self.columns, mode, self.map)

    def _check(self) -> None:
        names = [column.name for column in self.columns]
        if not names and not self.labels:
            raise Misdeclared(
                (),
                "no columns are declared. A party without the label needs at least one column to take part.",
            )
        for name, times in Counter(names).items():
            if not name.strip():
                raise Misdeclared(("columns", name), "a column has no name.")
            if times > 1:
                raise Misdeclared(("columns", name), f"column {name!r} is declared twice.")
        for place, label in enumerate(self.labels):
            if not label.column:
                raise Misdeclared(("label", "column"), "the label column has no name.")
            if label.column in names:
                where = ("columns", label.column)
                raise Misdeclared(where, f"{label.column!r} is the label and a feature. Declare it once.")
            if label.column in [other.column for other in self.labels[:place]]:
                raise Misdeclared(("labels", label.column), f"label {label.column!r} is declared twice.")

    def _described(self) -> dict[str, object]:
        described: dict[str, object] = {"columns": [column.to_data() for column in self.columns]}
        if len(self.labels) == 1:
            described["label"] = self.labels[0].to_data()
        elif self.labels:
            described["labels"] = [label.to_data() for label in self.labels]
        return described if self.map is None else {**described, "map": self.map.to_data()}


@dataclass(frozen=True)
class PublicSchema(_Declarations):
    """What peers may see of a party's schema: everything but the name of its id column."""

    party: str
    columns: tuple[Column, ...]
    label: Label | None = None
    id_spelling: Spelling = AS_WRITTEN
    map: FeatureMap | None = None
    more_labels: tuple[Label, ...] = ()

    def __post_init__(self) -> None:
        self._check()
        if self.map is not None:
            self.map.check(self.columns)

    def with_ids(self) -> Schema:
        """A schema with these declarations, and an id column of no meaning."""
        used = {column.name for column in self.columns} | {label.column for label in self.labels}
        name = "person"
        while name in used:
            name += "_"
        return Schema(name, self.columns, self.label, self.id_spelling, self.map, self.more_labels)

    def to_data(self) -> dict[str, object]:
        """Plain values for a plan or a message; columns are a list, so their order survives sorted keys."""
        rule = self.id_spelling.to_data()
        ids = {"ids": rule} if rule else {}
        return {"party": self.party, **ids, **self._described()}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> PublicSchema:
        """The schema that a peer described; anything else than a valid description is a `SchemaError`."""
        party = data.get("party")
        if not isinstance(party, str) or not party:
            raise SchemaError("a schema description names no party.")
        rest = {key: value for key, value in data.items() if key != "party"}
        form = check(PublicForm, _listed(rest), name=f"schema of party {party!r}")
        columns, label, mapped, more = form.values()
        return cls(party, columns, label, form.ids.spelling(), mapped, more)


@dataclass(frozen=True)
class Schema(_Declarations):
    """What one party declares: its id column, its columns in order, and the label if it holds it, or several.

    >>> schema = Schema.parse(EXAMPLE)
    >>> [column.name for column in schema.columns], schema.label.column
    (['age', 'sex'], 'income')
    """

    id: str | tuple[str, ...]
    columns: tuple[Column, ...]
    label: Label | None = None
    id_spelling: Spelling = AS_WRITTEN
    map: FeatureMap | None = None
    more_labels: tuple[Label, ...] = ()

    def __post_init__(self) -> None:
        _check_objects(self)
        if not self.id_columns or not all(self.id_columns):
            raise Misdeclared(("id",), "the id column has no name.")
        self._check()
        names = {column.name for column in self.columns}
        for key, times in Counter(self.id_columns).items():
            if times > 1:
                raise Misdeclared(("id",), f"column {key!r} is named twice in the id. Name it once.")
            if key in names:
                raise Misdeclared(
                    ("columns", key),
                    f"{key!r} is the id column and a feature. An id says who a row is and is never learnt from.",
                )
            if key in [label.column for label in self.labels]:
                where = ("labels", key) if self.more_labels else ("label", "column")
                raise Misdeclared(where, f"{key!r} is the id column and the label.")
        if self.map is not None:
            self.map.check(self.columns)

    def for_label(self, label: str) -> Schema:
        if [one.column for one in self.labels] == [label]:
            return self
        return replace(self, label=label_named(label, self.labels), more_labels=())

    @property
    def id_columns(self) -> tuple[str, ...]:
        return (self.id,) if isinstance(self.id, str) else self.id

    @property
    def id_name(self) -> str:
        return ", ".join(self.id_columns)

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """The schema in a TOML file, with edges from the public sets that it names."""
        document = Document.load(path)
        columns = document.data.get("columns")
        if isinstance(columns, Mapping):
            folder = Path(path).parent
            resolved = _located(
                lambda: {name: _resolved(name, column, folder) for name, column in columns.items()}, document
            )
            document = replace(document, data={**document.data, "columns": resolved})
        return cls._of(document)

    @classmethod
    def draft(cls, frame: Any) -> Draft:
        """A draft from the types of a table in memory, with blanks for bounds and categories; `str` is its TOML."""
        return of_frame(frame)

    @classmethod
    def parse(cls, text: str, *, name: str = "schema") -> Schema:
        """The schema in a TOML text; `name` is how messages call it."""
        if not isinstance(text, str):
            raise SchemaError(
                f"a schema's text is TOML, not {type(text).__name__}. `Schema.from_data` takes a mapping, and "
                "`Schema.load` a file."
            )
        return cls._of(Document.parse(text, name))

    @classmethod
    def _of(cls, document: Document) -> Schema:
        for path in blanks(document.data):
            raise LeftBlank(f"{document.where(path)}: {path[-1]} is left blank. {blank_advice(path[-1])}")
        form = document.check(SchemaForm)
        return _located(lambda: cls._of_form(form), document)

    @classmethod
    def _of_form(cls, form: SchemaForm) -> Schema:
        columns, label, mapped, more = form.values()
        named = form.id.column if isinstance(form.id.column, str) else tuple(form.id.column)
        return cls(named, columns, label, form.id.spelling(), mapped, more)

    def to_data(self) -> dict[str, object]:
        rule = self.id_spelling.to_data()
        named = self.id if isinstance(self.id, str) else list(self.id)
        return {"id": {"column": named, **rule} if rule else named, **self._described()}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Schema:
        """The schema that `to_data` described, or that a mapping laid out as the file declares."""
        if not isinstance(data, Mapping):
            raise SchemaError(
                f"a schema is described by a mapping of its keys, not by {type(data).__name__}."
            )
        named = data if isinstance(data.get("columns", {}), Mapping) else _listed(data)
        return cls._of_form(check(SchemaForm, named, name="schema"))

    def public(self, party: str) -> PublicSchema:
        return PublicSchema(party, self.columns, self.label, self.id_spelling, self.map, self.more_labels)


def _check_objects(schema: Schema) -> None:
    """Raise unless a schema is made of what schemas are made of; a list of columns becomes a tuple."""

    def listed(given: Any, kind: type, said: str) -> tuple[Any, ...]:
        many = isinstance(given, Iterable) and not isinstance(given, str | Mapping)
        for one in (items := tuple(given) if many else (given,)):
            if not isinstance(one, kind):
                raise SchemaError(
                    f"a schema's {said}; found {type(one).__name__}. `Schema.from_data` takes a mapping."
                )
        return items

    named = "id names a column, or several"
    listed(schema.id if isinstance(schema.id, str | tuple | list) else (schema.id,), str, named)
    columns = listed(schema.columns, Column, "columns are NumericColumn, CategoricalColumn and the like")
    labels = "labels are ClassLabel, RealLabel or CountLabel"
    more = listed(schema.more_labels, Label, labels)
    listed(() if schema.label is None else (schema.label,), Label, labels)
    object.__setattr__(schema, "columns", columns)
    object.__setattr__(schema, "more_labels", more)
    if schema.label is None and schema.more_labels:
        raise SchemaError("a schema has further labels and no first one. Give the first as label.")


def blanks(data: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    """The paths of all keys that a draft left for a person to fill in: an empty text or an empty list."""
    paths: list[tuple[str, ...]] = []
    for key, value in data.items():
        if isinstance(value, Mapping):
            paths += [(key, *path) for path in blanks(value)]
        elif value == "" or value == []:
            paths.append((key,))
    return tuple(paths)


def blank_advice(key: str) -> str:
    if key in ("id", "column"):
        return "Name the column that says who a row is." if key == "id" else "Name the column."
    words = {"low": "the least value", "high": "the greatest value"}
    what = words.get(key, f"the {key}")
    return f"Write {what} that the column can have, from what you know of it: read from the rows it would be a leak."


def _located(make: Callable[[], _T], document: Document) -> _T:
    try:
        return make()
    except Misdeclared as wrong:
        raise Misdeclared(wrong.where, f"{document.where(wrong.where)}: {wrong}") from None


def _resolved(name: str, column: Any, folder: Path) -> Any:
    """A declaration with the edges that it takes from a public set, which is found from this folder."""
    if not isinstance(column, Mapping) or column.get("kind") != "bins" or "quantiles" not in column:
        return column
    requested, declared = column["quantiles"], Declaration.of_column(name)
    named = {"file": requested} if isinstance(requested, str) else requested
    keys = set(named) if isinstance(named, Mapping) else set()
    if not {"file"} <= keys <= {"file", "column"} or not all(isinstance(named[key], str) for key in keys):
        said = 'quantiles names a public file, such as "census.csv" or {file = "census.csv", column = "AGE"}.'
        raise declared.wrong("quantiles", said)
    if "edges" in column:
        said = f"{declared.what} declares both edges and quantiles. Keep one of them."
        raise Misdeclared((*declared.where, "edges"), said)
    edges = quantile_edges(name, column.get("bins", 0), _public_values(name, named, folder))
    rest = {key: value for key, value in column.items() if key not in ("quantiles", "bins")}
    return {**rest, "edges": list(edges)}


def _public_values(name: str, named: Mapping[str, str], folder: Path) -> NDArray[np.float64]:
    source, declared = named.get("column", name), Declaration.of_column(name)
    rows = open_file(folder / named["file"], party="public set")
    if source not in rows.fields:
        close = nearest_name(source, rows.fields)
        said = f"the public set {named['file']} has no column {source!r}.{close}"
        raise declared.wrong("quantiles", said)
    read = []
    for batch in rows.batches((source,), size=_BATCH, floats={source}):
        coded = code(batch.columns[0], _ANY_NUMBER)
        if coded.problems or coded.raw is None:
            said = f"in the public set {named['file']}, column {source!r}, {coded.problems.sentence}."
            raise declared.wrong("quantiles", said)
        read.append(coded.raw)
    return np.concatenate(read) if read else np.empty(0)


EXAMPLE = """
id = "customer"

[columns.age]
kind = "numeric"
low = 17
high = 90

[columns.sex]
kind = "binary"
values = ["F", "M"]

[label]
column = "income"
kind = "classes"
classes = ["<=50K", ">50K"]
"""
