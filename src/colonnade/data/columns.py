"""What is declared about one column, and never measured.

A bound or a category read from the data would itself be a release, so each comes from a person who knows
the column. All of it is public: peers see it, plans hash it, saved models carry it.

`missing` is what a missing value counts as: a number within the bounds, one of the declared values, or a category of
its own. Without it missing values are refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from colonnade.data.bin_edges import MOST_BINS
from colonnade.data.declaring import (
    Transform,
    check_bounds,
    check_member,
    check_transform,
    check_values,
    check_whole,
    check_within,
    nearest,
)
from colonnade.data.derived import BinnedColumn, DateColumn
from colonnade.data.spelling import AS_WRITTEN, Spelling, text_of
from colonnade.errors import Misdeclared

__all__ = [
    "BinaryColumn",
    "BinnedColumn",
    "CategoricalColumn",
    "Column",
    "DateColumn",
    "Misdeclared",
    "NumericColumn",
    "Transform",
    "nearest",
    "text_of",
]


Encoding = Literal["circle", "linear", "hats"]
ENCODINGS: tuple[Encoding, ...] = ("circle", "linear", "hats")
DEFAULT_KNOTS = 8


@dataclass(frozen=True)
class NumericColumn:
    """Numbers between declared bounds; what lies outside is clipped and counted.

    `missing` is a number within the bounds, or "category", which gives missing numbers a feature of their own.
    `encoding` says how a number becomes features, whatever it is learnt for; without it the task does. `knots` is how
    many corners "hats" have.
    """

    name: str
    low: float
    high: float
    transform: Transform = "none"
    missing: float | Literal["category"] | None = None
    encoding: Encoding | None = None
    knots: int | None = None

    def __post_init__(self) -> None:
        where, what = ("columns", self.name), f"column {self.name!r}"
        check_bounds(where, what, self.low, self.high)
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))
        check_transform(where, what, self.transform, self.low)
        if self.transform == "log1p":
            check_bounds(where, f"{what} after log1p", *self.range)
        if self.missing is not None and self.missing != "category":
            check_within((*where, "missing"), what, self.missing, low=self.low, high=self.high)
            object.__setattr__(self, "missing", float(self.missing))
        self._check_encoding(where, what)

    def _check_encoding(self, where: tuple[str, ...], what: str) -> None:
        if self.encoding is not None and self.encoding not in ENCODINGS:
            raise Misdeclared(
                (*where, "encoding"),
                f"{what}: encoding = {self.encoding!r} is not one of {', '.join(ENCODINGS)}."
                + nearest(str(self.encoding), ENCODINGS),
            )
        if self.encoding == "hats":
            knots = DEFAULT_KNOTS if self.knots is None else self.knots
            check_whole((*where, "knots"), f"{what}: knots", knots, low=3, high=MOST_BINS)
            object.__setattr__(self, "knots", knots)
        elif self.knots is not None:
            raise Misdeclared(
                (*where, "knots"),
                f'{what}: knots are those of encoding = "hats". Write that, or leave them out.',
            )

    @property
    def fill(self) -> float | None:
        """The number that a missing one counts as, if that is what is declared."""
        return None if self.missing == "category" else self.missing

    @property
    def range(self) -> tuple[float, float]:
        """The bounds after the transform."""
        if self.transform == "log1p":
            return math.log1p(self.low), math.log1p(self.high)
        return self.low, self.high

    def to_data(self) -> dict[str, object]:
        data: dict[str, object] = {
            "name": self.name,
            "kind": "numeric",
            "low": self.low,
            "high": self.high,
            "transform": self.transform,
        }
        coded = {key: value for key in ("encoding", "knots") if (value := getattr(self, key)) is not None}
        missing = {"missing": "category"} if self.missing == "category" else {}
        return {**data, **coded, **missing, **_filled(self.fill)}


@dataclass(frozen=True)
class BinaryColumn:
    """One of two declared values; the second is the +1."""

    name: str
    values: tuple[str, str]
    missing: str | None = None
    spelling: Spelling = AS_WRITTEN

    def __post_init__(self) -> None:
        where, what = ("columns", self.name, "values"), f"column {self.name!r}"
        values = tuple(self.spelling.spell(value) for value in self.values)
        check_values(where, what, values, least=2)
        if len(values) != 2:
            raise Misdeclared(
                where, f"{what}: a binary column has two values, not {len(values)}. Declare it categorical."
            )
        object.__setattr__(self, "values", values)
        if self.missing is not None:
            missing = self.spelling.spell(self.missing)
            check_member((*where[:2], "missing"), what, missing, among=self.values)
            object.__setattr__(self, "missing", missing)

    @property
    def levels(self) -> tuple[str, ...]:
        """The declared values in order of their codes."""
        return self.values

    @property
    def other(self) -> str | None:
        """A binary column has no place for undeclared values."""
        return None

    def to_data(self) -> dict[str, object]:
        data: dict[str, object] = {"name": self.name, "kind": "binary", "values": list(self.values)}
        return {**data, **_filled(self.missing), **self.spelling.to_data()}


@dataclass(frozen=True)
class CategoricalColumn:
    """One of k declared categories; `other`, itself declared, takes in whatever is not."""

    name: str
    categories: tuple[str, ...]
    other: str | None = None
    missing: str | None = None
    spelling: Spelling = AS_WRITTEN

    def __post_init__(self) -> None:
        where, what = ("columns", self.name), f"column {self.name!r}"
        categories = tuple(self.spelling.spell(value) for value in self.categories)
        check_values((*where, "categories"), what, categories, least=2)
        object.__setattr__(self, "categories", categories)
        for key, value in (("other", self.other), ("missing", self.missing)):
            if value is not None:
                spelt = self.spelling.spell(value)
                check_member((*where, key), what, spelt, among=categories)
                object.__setattr__(self, key, spelt)

    @property
    def levels(self) -> tuple[str, ...]:
        """The declared categories in order of their codes."""
        return self.categories

    def to_data(self) -> dict[str, object]:
        data: dict[str, object] = {
            "name": self.name,
            "kind": "categorical",
            "categories": list(self.categories),
        }
        other = {} if self.other is None else {"other": self.other}
        return {**data, **other, **_filled(self.missing), **self.spelling.to_data()}


def _filled(missing: object) -> dict[str, object]:
    return {} if missing is None else {"missing": {"value": missing}}


Column = NumericColumn | BinaryColumn | CategoricalColumn | DateColumn | BinnedColumn
