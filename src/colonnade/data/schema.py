"""A party's declaration of its columns, from a TOML file or from plain data.

::

    id = "customer"

    [columns.age]
    kind = "numeric"
    low = 17
    high = 90

    [columns.capital_gain]
    kind = "numeric"
    low = 0
    high = 99999
    transform = "log1p"

    [columns.sex]
    kind = "binary"
    values = ["F", "M"]

    [columns.job]
    kind = "categorical"
    categories = ["clerk", "farmer", "none of these"]
    other = "none of these"

    [label]
    column = "income"
    kind = "classes"
    classes = ["<=50K", ">50K"]

A party with several labels declares each under the name of its column, `[labels.income]` and so on, in place of
`[label]`; the first is the one that is learnt where none is named.

Also: `kind = "date"` with dates as bounds; `kind = "bins"` with `edges`, or a number of `bins` between `low` and `high`
or by `quantiles` of a public file, and `ordered = true`; `missing = {value = …}` or "category", and for text `trim`,
`case` and `unicode`, in columns and in ids (`id = {column = "customer", case = "lower"}`). Where no column says by
itself who a row is, several say it together: `id = ["name", "birth"]`. A name with a range in it, such as
`"pixel{0..195}"`, declares that many columns alike. `[map]` sends columns through a public map
(docs/feature-maps.md).

The order of the columns is the order of declaration. A party without the label must declare at least one
column; a party with the label may declare none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from colonnade.data.columns import Column
from colonnade.data.documents import Document, check
from colonnade.data.drafts import Draft, of_frame
from colonnade.data.encoding import Encoder, Mode
from colonnade.data.forms import PublicForm, SchemaForm, by_name
from colonnade.data.maps import FeatureMap
from colonnade.data.public_edges import with_public_edges
from colonnade.data.spelling import AS_WRITTEN, Spelling
from colonnade.data.targets import Label, label_named
from colonnade.errors import LeftBlank, Misdeclared, SchemaError

_T = TypeVar("_T")


@dataclass(frozen=True)
class PublicSchema:
    """What peers may see of a party's schema: everything but the name of its id column."""

    party: str
    columns: tuple[Column, ...]
    label: Label | None = None
    id_spelling: Spelling = AS_WRITTEN
    map: FeatureMap | None = None
    more_labels: tuple[Label, ...] = ()

    def __post_init__(self) -> None:
        _check_names(self.columns, self.labels)
        if self.map is not None:
            self.map.check(self.columns)

    @property
    def labels(self) -> tuple[Label, ...]:
        """All declared labels in order."""
        return _all_labels(self.label, self.more_labels)

    def encoder(self, mode: Mode) -> Encoder:
        return Encoder(self.columns, mode, self.map)

    def with_ids(self) -> Schema:
        """A schema with these declarations, and an id column of no meaning."""
        taken = {column.name for column in self.columns} | {label.column for label in self.labels}
        name = "person"
        while name in taken:
            name += "_"
        return Schema(name, self.columns, self.label, self.id_spelling, self.map, self.more_labels)

    def to_data(self) -> dict[str, object]:
        """Plain values for a plan or a message; columns are a list, so their order survives sorted keys."""
        rule = self.id_spelling.to_data()
        ids = {"ids": rule} if rule else {}
        return {"party": self.party, **ids, **_to_data(self.columns, self.labels, self.map)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> PublicSchema:
        """The schema that a peer described; anything else than a valid description is a `SchemaError`."""
        party = data.get("party")
        if not isinstance(party, str) or not party:
            raise SchemaError("a schema description names no party.")
        rest = {key: value for key, value in data.items() if key != "party"}
        form = check(PublicForm, by_name(rest), name=f"schema of party {party!r}")
        columns, labels = form.values()
        first = labels[0] if labels else None
        return cls(party, columns, first, form.ids.spelling(), form.feature_map(), labels[1:])


@dataclass(frozen=True)
class Schema:
    """What one party declares: its id column, its columns in order, and the label if it holds it, or several.

    `label` is the first one, and `more_labels` are those after it.

    >>> schema = Schema.parse(EXAMPLE)
    >>> [column.name for column in schema.columns], schema.label.column
    (['age', 'sex'], 'income')
    >>> Schema.from_data(schema.to_data()) == schema
    True
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
        _check_names(self.columns, self.labels)
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

    @property
    def labels(self) -> tuple[Label, ...]:
        """All declared labels in order."""
        return _all_labels(self.label, self.more_labels)

    def for_label(self, label: str) -> Schema:
        """The schema with one of its labels only."""
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
        declared = _located(lambda: with_public_edges(document.data, Path(path).parent), document)
        return cls._of(replace(document, data=declared))

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
        return _located(lambda: cls._made(form), document)

    @classmethod
    def _made(cls, form: SchemaForm) -> Schema:
        columns, labels = form.values()
        first = labels[0] if labels else None
        return cls(form.id.columns(), columns, first, form.id.spelling(), form.feature_map(), labels[1:])

    def to_data(self) -> dict[str, object]:
        """Plain values from which `from_data` makes an equal schema."""
        rule = self.id_spelling.to_data()
        described = _to_data(self.columns, self.labels, self.map)
        named = self.id if isinstance(self.id, str) else list(self.id)
        return {"id": {"column": named, **rule} if rule else named, **described}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Schema:
        """The schema that `to_data` described, or that a mapping laid out as the file declares."""
        if not isinstance(data, Mapping):
            raise SchemaError(
                f"a schema is described by a mapping of its keys, not by {type(data).__name__}."
            )
        named = data if isinstance(data.get("columns", {}), Mapping) else by_name(data)
        return cls._made(check(SchemaForm, named, name="schema"))

    def public(self, party: str) -> PublicSchema:
        return PublicSchema(party, self.columns, self.label, self.id_spelling, self.map, self.more_labels)

    def encoder(self, mode: Mode) -> Encoder:
        return Encoder(self.columns, mode, self.map)


def _check_objects(schema: Schema) -> None:
    """Raise unless a schema is made of what schemas are made of; a list of columns becomes a tuple."""
    if not isinstance(schema.id, str | tuple | list) or not all(
        isinstance(key, str) for key in schema.id_columns
    ):
        raise SchemaError(f"a schema's id names a column, or several; found {type(schema.id).__name__}.")
    if isinstance(schema.columns, str | Mapping) or not isinstance(schema.columns, Iterable):
        raise SchemaError(
            f"a schema's columns are NumericColumn, CategoricalColumn and the like, in order; found "
            f"{type(schema.columns).__name__}. `Schema.from_data` takes a mapping."
        )
    object.__setattr__(schema, "columns", tuple(schema.columns))
    for column in schema.columns:
        if not isinstance(column, Column):
            raise SchemaError(
                f"a schema's column is a NumericColumn or the like, not {type(column).__name__}."
            )
    if isinstance(schema.more_labels, str | Mapping) or not isinstance(schema.more_labels, Iterable):
        raise SchemaError(
            f"a schema's further labels are ClassLabel, RealLabel or CountLabel, in order; found "
            f"{type(schema.more_labels).__name__}."
        )
    object.__setattr__(schema, "more_labels", tuple(schema.more_labels))
    for label in schema.labels:
        if not isinstance(label, Label):
            raise SchemaError(
                f"a schema's label is a ClassLabel, RealLabel or CountLabel, not {type(label).__name__}."
            )
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
    """What to write where a draft left a blank."""
    if key in ("id", "column"):
        return "Name the column that says who a row is." if key == "id" else "Name the column."
    what = {"low": "the least value", "high": "the greatest value", "edges": "the edges"}.get(
        key, f"the {key}"
    )
    return f"Write {what} that the column can have, from what you know of it: read from the rows it would be a leak."


def _all_labels(label: Label | None, more: tuple[Label, ...]) -> tuple[Label, ...]:
    return (*(() if label is None else (label,)), *more)


def _check_names(columns: tuple[Column, ...], labels: tuple[Label, ...]) -> None:
    names = [column.name for column in columns]
    if not names and not labels:
        raise Misdeclared(
            (), "no columns are declared. A party without the label needs at least one column to take part."
        )
    for name, times in Counter(names).items():
        if not name.strip():
            raise Misdeclared(("columns", name), "a column has no name.")
        if times > 1:
            raise Misdeclared(("columns", name), f"column {name!r} is declared twice.")
    for place, label in enumerate(labels):
        if not label.column:
            raise Misdeclared(("label", "column"), "the label column has no name.")
        if label.column in names:
            raise Misdeclared(
                ("columns", label.column), f"{label.column!r} is the label and a feature. Declare it once."
            )
        if label.column in [other.column for other in labels[:place]]:
            raise Misdeclared(("labels", label.column), f"label {label.column!r} is declared twice.")


def _to_data(
    columns: tuple[Column, ...], labels: tuple[Label, ...], feature_map: FeatureMap | None
) -> dict[str, object]:
    described: dict[str, object] = {"columns": [column.to_data() for column in columns]}
    if len(labels) == 1:
        described["label"] = labels[0].to_data()
    elif labels:
        described["labels"] = [label.to_data() for label in labels]
    return described if feature_map is None else {**described, "map": feature_map.to_data()}


def _located(make: Callable[[], _T], document: Document) -> _T:
    try:
        return make()
    except Misdeclared as wrong:
        raise Misdeclared(wrong.where, f"{document.where(wrong.where)}: {wrong}") from None


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
