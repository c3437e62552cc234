"""What is declared about one column, and never measured.

A bound or a category read from the data would itself be a release, so each comes from a person who knows
the column. All of it is public: peers see it, plans hash it, saved models carry it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from colonnade.errors import SchemaError

Transform = Literal["none", "log1p"]


class Misdeclared(SchemaError):
    """A declaration that contradicts itself; `where` is the path of its key in a schema file.

    >>> try:
    ...     NumericColumn("age", low=90, high=17)
    ... except Misdeclared as wrong:
    ...     print(wrong.where)
    ('columns', 'age', 'low')
    """

    def __init__(self, where: tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.where = where


def nearest(name: str, choices: Iterable[str]) -> str:
    """A sentence that names the choice closest to a misspelt one, or nothing.

    >>> nearest("categoric", ["numeric", "binary", "categorical"])
    " Did you mean 'categorical'?"
    >>> nearest("zebra", ["numeric"])
    ''
    """
    close = get_close_matches(name, list(choices), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""


def text_of(value: object) -> str:
    """The one spelling under which a category, a class or an id is compared.

    Text without the blanks around it; integers in decimal; true and false; floats as Python writes them.
    Nothing else is folded: "012" is not "12", "12.0" is not "12", and "F" is not "f".

    >>> [text_of(value) for value in (" <=50K", 3, True, 1.0)]
    ['<=50K', '3', 'true', '1.0']
    """
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(float(value)) if isinstance(value, float) else str(value)


def check_bounds(where: tuple[str, ...], what: str, low: float, high: float) -> None:
    """Raise unless low < high are finite and far enough apart to divide by.

    >>> check_bounds(("label",), "label 'price'", 0, 100)
    """
    for key, value in (("low", low), ("high", high)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise Misdeclared((*where, key), f"{what}: {key} = {value!r} is not a finite number.")
    if not low < high:
        raise Misdeclared(
            (*where, "low"),
            f"{what}: low = {low:g} is not below high = {high:g}. Declare the range its values can take.",
        )
    if not (math.isfinite(high - low) and math.isfinite(2.0 / (high - low))):
        raise Misdeclared(
            (*where, "low"), f"{what}: the range from {low:g} to {high:g} is too wide or too narrow to scale."
        )


def check_values(where: tuple[str, ...], what: str, values: tuple[str, ...], *, least: int) -> None:
    """Raise unless the declared values are at least `least`, not empty and all different.

    >>> check_values(("label", "classes"), "label 'income'", ("low", "high"), least=2)
    """
    key = where[-1]
    if len(values) < least:
        raise Misdeclared(where, f"{what}: {key} declares {len(values)} values; it needs at least {least}.")
    if "" in values:
        raise Misdeclared(
            where, f"{what}: {key} declares an empty text, which in a file means a missing value."
        )
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise Misdeclared(where, f"{what}: {key} declares {twice[0]!r} more than once.")


@dataclass(frozen=True)
class NumericColumn:
    """Numbers between declared bounds; what lies outside is clipped and counted.

    >>> NumericColumn("age", low=17, high=90).range
    (17.0, 90.0)
    >>> NumericColumn("capital gain", low=0, high=99999, transform="log1p").range[0]
    0.0
    """

    name: str
    low: float
    high: float
    transform: Transform = "none"

    def __post_init__(self) -> None:
        where, what = ("columns", self.name), f"column {self.name!r}"
        check_bounds(where, what, self.low, self.high)
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))
        if self.transform not in ("none", "log1p"):
            raise Misdeclared(
                (*where, "transform"),
                f"{what}: transform = {self.transform!r} is not one of 'none', 'log1p'."
                + nearest(str(self.transform), ("none", "log1p")),
            )
        if self.transform == "log1p":
            if self.low <= -1:
                raise Misdeclared(
                    (*where, "low"),
                    f"{what}: log1p needs low above -1, not {self.low:g}.",
                )
            check_bounds(where, f"{what} after log1p", *self.range)

    @property
    def range(self) -> tuple[float, float]:
        """The bounds after the transform."""
        if self.transform == "log1p":
            return math.log1p(self.low), math.log1p(self.high)
        return self.low, self.high

    def to_data(self) -> dict[str, object]:
        """The declaration as plain values."""
        return {
            "name": self.name,
            "kind": "numeric",
            "low": self.low,
            "high": self.high,
            "transform": self.transform,
        }


@dataclass(frozen=True)
class BinaryColumn:
    """One of two declared values; the second is the +1.

    >>> BinaryColumn("sex", values=("F", "M")).levels
    ('F', 'M')
    """

    name: str
    values: tuple[str, str]

    def __post_init__(self) -> None:
        where, what = ("columns", self.name, "values"), f"column {self.name!r}"
        values = tuple(text_of(value) for value in self.values)
        check_values(where, what, values, least=2)
        if len(values) != 2:
            raise Misdeclared(
                where, f"{what}: a binary column has two values, not {len(values)}. Declare it categorical."
            )
        object.__setattr__(self, "values", values)

    @property
    def levels(self) -> tuple[str, ...]:
        """The declared values in order of their codes."""
        return self.values

    @property
    def other(self) -> str | None:
        """A binary column has no place for undeclared values."""
        return None

    def to_data(self) -> dict[str, object]:
        """The declaration as plain values."""
        return {"name": self.name, "kind": "binary", "values": list(self.values)}


@dataclass(frozen=True)
class CategoricalColumn:
    """One of k declared categories; `other`, itself declared, takes in whatever is not.

    >>> CategoricalColumn("country", categories=("US", "elsewhere"), other="elsewhere").levels
    ('US', 'elsewhere')
    """

    name: str
    categories: tuple[str, ...]
    other: str | None = None

    def __post_init__(self) -> None:
        where, what = ("columns", self.name), f"column {self.name!r}"
        categories = tuple(text_of(value) for value in self.categories)
        check_values((*where, "categories"), what, categories, least=2)
        object.__setattr__(self, "categories", categories)
        if self.other is not None:
            other = text_of(self.other)
            if other not in categories:
                raise Misdeclared(
                    (*where, "other"),
                    f"{what}: other = {other!r} is not among its categories." + nearest(other, categories),
                )
            object.__setattr__(self, "other", other)

    @property
    def levels(self) -> tuple[str, ...]:
        """The declared categories in order of their codes."""
        return self.categories

    def to_data(self) -> dict[str, object]:
        """The declaration as plain values."""
        data: dict[str, object] = {
            "name": self.name,
            "kind": "categorical",
            "categories": list(self.categories),
        }
        return data if self.other is None else {**data, "other": self.other}


Column = NumericColumn | BinaryColumn | CategoricalColumn
