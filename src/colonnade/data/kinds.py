"""What is declared about one column, and never measured: a class for each kind of column.

A kind declares, codes, encodes, describes, exports and samples itself; `forms` has what a schema file says of it. A
bound or a category read from the data would itself be a release, so each comes from a person who knows the column. All
of it is public: peers see it, plans hash it, saved models carry it.

`missing` is what a missing value counts as: a number within the bounds, one of the declared values, or a category of
its own. Without it missing values are refused. Every block of features has norm at most 1
(docs/proofs/encoding-norm.md).
"""

from __future__ import annotations

import itertools
import math
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colonnade.data.arrays import microseconds
from colonnade.data.coding import DAY_MICROSECONDS, Coded, Read, bins, bounded, days, floats, levels
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
from colonnade.data.graph import Graph
from colonnade.data.number_codes import Array, Mode, NumberCode, simplex, thermometer
from colonnade.data.spelling import AS_WRITTEN, Spelling, UnicodeForm
from colonnade.errors import Misdeclared

MISSING = "missing"
DEFAULT_KNOTS = 8
MOST_BINS = 256
"""Each bin is a feature: more would put most of a release into one column."""
Encoding = Literal["circle", "linear", "hats"]
ENCODINGS: tuple[Encoding, ...] = ("circle", "linear", "hats")
Writer = Callable[[NDArray[Any], Array], None]
"""Writes the features of some coded values into an array, a row for each feature."""
# Where the effect of a number is shown, from its lower to its upper bound.
_PLACES = (-1.0, -0.5, 0.0, 0.5, 1.0)
_CASES: tuple[Callable[[str], str], ...] = (
    str,
    str.lower,
    str.upper,
    str.capitalize,
    str.title,
    str.casefold,
)


class Column:
    """What every kind of column says of itself."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    name: str
    kind: ClassVar[str]
    reads: ClassVar[Literal["numbers", "dates", "levels"]]
    """What its values are read as."""
    centred: ClassVar[bool] = False
    """Whether its numbers could have been standardised, which would show."""

    @property
    def ordered(self) -> bool:
        """Whether what is learnt of it is a line along its values, and not a bar for each."""
        return True

    @property
    def open_ended(self) -> bool:
        """Whether how far its values reach is a guess."""
        return False

    @property
    def middles(self) -> Array | None:
        """A number for each level, where there is one."""
        return None

    @property
    def levels(self) -> tuple[str, ...]:
        """Its values in order of their codes; none where it is a number."""
        return ()

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The least and the largest number, where its values are numbers."""
        return None

    @property
    def sentence(self) -> str:
        """What is declared, in words."""
        raise NotImplementedError

    def to_data(self) -> dict[str, object]:
        raise NotImplementedError

    def coded(self, column: Any) -> Coded:
        """Values as they come, as declared; see `code`."""
        raise NotImplementedError

    def features(self, mode: Mode) -> tuple[str, ...]:
        """A readable name for each feature; `job:clerk` weighs clerks against the categories before them."""
        raise NotImplementedError

    def writer(self, mode: Mode, scale: float) -> Writer:
        """What turns coded values into features times `scale`."""
        raise NotImplementedError

    def decoded(self, features: Array, mode: Mode) -> NDArray[Any]:
        """The values whose features are nearest."""
        raise NotImplementedError

    def shown(self, mode: Mode) -> tuple[list[str], Array]:
        """Some values in words, and the features of each."""
        raise NotImplementedError

    def score_range(self, weights: Array, mode: Mode) -> tuple[float, float]:
        """The least and the largest product of its block with these weights."""
        raise NotImplementedError

    def natural(self, coded: NDArray[Any]) -> NDArray[Any]:
        """Coded values as a party's own function takes them."""
        return coded

    def at(self, places: ArrayLike) -> NDArray[Any]:
        """Coded values at these places, from 0 to 1, of what it can have."""
        raise NotImplementedError

    def onnx(self, graph: Graph, name: str, mode: Mode) -> str:
        """Its block in a graph, from an input of that name.

        The graph computes in doubles what the writer does. A number that would be refused, and a category that is
        missing where none may be, becomes NaN. ONNX has no rules of spelling: the graph knows each level in its usual
        spellings under the declared rule, and any other text is the declared `other`, or stops the graph.
        """
        raise NotImplementedError


class NumberKind(Column):
    """A kind whose values are numbers between bounds."""

    missing: Any

    @property
    def range(self) -> tuple[float, float]:
        """The bounds after the transform."""
        raise NotImplementedError

    @property
    def bounds(self) -> tuple[float, float]:
        return self.range

    @property
    def fill(self) -> float | None:
        """The number that a missing one counts as, if that is what is declared."""
        raise NotImplementedError

    def shape(self, mode: Mode) -> NumberCode:
        """How its numbers become features."""
        return NumberCode(mode, missing=self.missing == "category")

    def coded(self, column: Any) -> Coded:
        fill = math.nan if self.missing == "category" else self.fill
        return bounded(self._read(column), *self.bounds, fill=fill)

    def features(self, mode: Mode) -> tuple[str, ...]:
        code = self.shape(mode)
        return code.names(self.name, self._back(np.linspace(*self.range, code.knots)))

    def writer(self, mode: Mode, scale: float) -> Writer:
        code, (low, high) = self.shape(mode), self.range
        circle = code.shape == "circle"
        size = scale if code.plain and not circle else 1.0

        def place(values: NDArray[Any], u: Array) -> None:
            np.subtract(self._scaled(values), low, out=u)
            np.multiply(u, 2.0 * size / (high - low), out=u)
            np.subtract(u, size, out=u)

        def plain(values: NDArray[Any], target: Array) -> None:
            u = target[0]
            place(values, u)
            if circle:
                u *= math.pi / 2.0
                np.cos(u, out=target[1])
                np.sin(u, out=u)
                target *= scale

        def shaped(values: NDArray[Any], target: Array) -> None:
            u = np.empty(len(values))
            place(values, u)
            np.multiply(code.features(u).T, scale, out=target)

        return plain if code.plain else shaped

    def decoded(self, features: Array, mode: Mode) -> NDArray[Any]:
        low, high = self.range
        return self._value(low + (self.shape(mode).places(features) + 1.0) * ((high - low) / 2.0))

    def shown(self, mode: Mode) -> tuple[list[str], Array]:
        code = self.shape(mode)
        at_knots = np.linspace(-1.0, 1.0, code.knots) if code.shape == "hats" else np.array(_PLACES)
        features = code.features(np.array([*at_knots, *([math.nan] if code.missing else [])]))
        return [self._words(value) for value in self.decoded(features, mode)], features

    def score_range(self, weights: Array, mode: Mode) -> tuple[float, float]:
        return self.shape(mode).score_range(weights)

    def onnx(self, graph: Graph, name: str, mode: Mode) -> str:
        code, raw = self.shape(mode), graph.input(name)
        # The block of a missing number is put in its place below, whatever number it is made of.
        value = graph.bounded(raw, *self.bounds, self.bounds[0] if code.missing else self.fill)
        low, high = self.range
        moved = graph.add("Sub", [self._graphed(graph, value), graph.constant(low)])
        scaled = graph.add("Mul", [moved, graph.constant(2.0 / (high - low))])
        return code.onnx(graph, graph.add("Sub", [scaled, graph.constant(1.0)]), raw)

    def _read(self, column: Any) -> Read:
        raise NotImplementedError

    def _scaled(self, values: NDArray[Any]) -> NDArray[Any]:
        return values

    def _back(self, values: Array) -> Array:
        return values

    def _graphed(self, graph: Graph, value: str) -> str:
        return value

    def _value(self, values: Array) -> NDArray[Any]:
        raise NotImplementedError

    def _words(self, value: Any) -> str:
        raise NotImplementedError

    @property
    def _absent(self) -> str:
        return ", or missing" if self.missing == "category" else ""


@dataclass(frozen=True)
class NumericColumn(NumberKind):
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
    kind = "numeric"
    reads = "numbers"
    centred = True

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
        return None if self.missing == "category" else self.missing

    @property
    def range(self) -> tuple[float, float]:
        if self.transform == "log1p":
            return math.log1p(self.low), math.log1p(self.high)
        return self.low, self.high

    @property
    def bounds(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def sentence(self) -> str:
        transform = ", log1p" if self.transform == "log1p" else ""
        coded = f", in {self.knots} hats" if self.encoding == "hats" else ""
        coded = f", {self.encoding}" if self.encoding in ("circle", "linear") else coded
        return f"number from {self.low:g} to {self.high:g}{self._absent}{transform}{coded}"

    def to_data(self) -> dict[str, object]:
        data: dict[str, object] = {"name": self.name, "kind": self.kind, "low": self.low, "high": self.high}
        coded = {key: value for key in ("encoding", "knots") if (value := getattr(self, key)) is not None}
        return {**data, "transform": self.transform, **coded, **_missing_data(self.missing)}

    def shape(self, mode: Mode) -> NumberCode:
        return NumberCode(self.encoding or mode, self.knots or 0, self.missing == "category")

    def at(self, places: ArrayLike) -> NDArray[Any]:
        low, high = self.range
        return np.clip(self._back(low + np.asarray(places) * (high - low)), self.low, self.high)

    def _read(self, column: Any) -> Read:
        return floats(column)

    def _scaled(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.log1p(values) if self.transform == "log1p" else values

    def _back(self, values: Array) -> Array:
        return np.expm1(values) if self.transform == "log1p" else values

    def _graphed(self, graph: Graph, value: str) -> str:
        return graph.log1p(value) if self.transform == "log1p" else value

    def _value(self, values: Array) -> NDArray[Any]:
        return np.clip(self._back(values), self.low, self.high)

    def _words(self, value: Any) -> str:
        return MISSING if math.isnan(value) else f"{float(value):.4g}"


@dataclass(frozen=True)
class DateColumn(NumberKind):
    """Dates or moments between declared bounds, counted in days; a moment is a day and its fraction.

    `high` is the start of its day: declare the day after it if hours matter. `missing` is a date within the bounds, or
    "category", which gives missing dates a feature of their own.
    """

    name: str
    low: date
    high: date
    format: str | None = None
    missing: date | Literal["category"] | None = None
    kind = "date"
    reads = "dates"

    def __post_init__(self) -> None:
        where, what = ("columns", self.name), f"column {self.name!r}"
        for key in ("low", "high", "missing"):
            value = getattr(self, key)
            if not isinstance(value, date) and not (key == "missing" and value in (None, "category")):
                raise Misdeclared((*where, key), f"{what}: {key} = {value!r} is not a date like 2000-01-31.")
            if isinstance(value, datetime) and value.tzinfo is not None:
                object.__setattr__(self, key, value.astimezone(UTC).replace(tzinfo=None))
        if not microseconds(self.low) < microseconds(self.high):
            raise Misdeclared(
                (*where, "low"),
                f"{what}: low = {self.low} is not before high = {self.high}. Declare the range its dates can take.",
            )
        check_bounds(where, what, *self.range)
        fill, (low, high) = self.fill, self.range
        if fill is not None and not low <= fill <= high:
            raise Misdeclared(
                (*where, "missing"),
                f"{what}: missing = {self.missing} is not from {self.low} to {self.high}, its declared bounds.",
            )
        if self.format is not None and "%" not in self.format:
            raise Misdeclared(
                (*where, "format"),
                f"{what}: format = {self.format!r} names no part of a date; '%d.%m.%Y' reads 31.12.2000.",
            )

    @property
    def range(self) -> tuple[float, float]:
        """The bounds in days since the start of 1970."""
        return microseconds(self.low) / DAY_MICROSECONDS, microseconds(self.high) / DAY_MICROSECONDS

    @property
    def fill(self) -> float | None:
        return microseconds(self.missing) / DAY_MICROSECONDS if isinstance(self.missing, date) else None

    @property
    def sentence(self) -> str:
        return f"date from {self.low.isoformat()} to {self.high.isoformat()}{self._absent}"

    def to_data(self) -> dict[str, object]:
        ends = {"low": self.low.isoformat(), "high": self.high.isoformat()}
        written = {} if self.format is None else {"format": self.format}
        missing = self.missing.isoformat() if isinstance(self.missing, date) else self.missing
        return {"name": self.name, "kind": self.kind, **ends, **written, **_missing_data(missing)}

    def at(self, places: ArrayLike) -> NDArray[Any]:
        low, high = self.range
        return np.asarray(low + np.asarray(places) * (high - low))

    def _read(self, column: Any) -> Read:
        return days(column, self.format)

    def _value(self, values: Array) -> NDArray[Any]:
        absent = np.isnan(values)
        exact = np.rint(np.where(absent, self.range[0], values) * DAY_MICROSECONDS).astype(np.int64)
        return np.where(absent, np.datetime64("NaT"), exact.astype("datetime64[us]"))

    def _words(self, value: Any) -> str:
        return MISSING if np.isnat(value) else str(value)[:10]


class LevelKind(Column):
    """A kind whose values are one of its levels."""

    missing: Any

    @property
    def ordered(self) -> bool:
        return False

    @property
    def codes(self) -> Array:
        """The features of each level, one row a level, each of norm 1."""
        return simplex(len(self.levels))

    @property
    def sentence(self) -> str:
        return f"one of {', '.join(self.levels)}"

    def features(self, mode: Mode) -> tuple[str, ...]:
        # Of ordered bins, an entry is whether this level is reached.
        return tuple(f"{self.name}:{level}" for level in self.levels[1:])

    def writer(self, mode: Mode, scale: float) -> Writer:
        corners = np.ascontiguousarray(self.codes.T * scale)

        def write(values: NDArray[Any], target: Array) -> None:
            np.take(corners, values, axis=1, out=target, mode="clip")

        return write

    def decoded(self, features: Array, mode: Mode) -> NDArray[Any]:
        # All codes have norm 1: the nearest one has the largest inner product.
        return self.natural(np.argmax(features @ self.codes.T, axis=1))

    def shown(self, mode: Mode) -> tuple[list[str], Array]:
        return [str(level) for level in self.levels], self.codes

    def score_range(self, weights: Array, mode: Mode) -> tuple[float, float]:
        values = self.codes @ weights
        return float(values.min()), float(values.max())

    def natural(self, coded: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.array(self.levels, dtype=object)[coded])

    def at(self, places: ArrayLike) -> NDArray[Any]:
        return level_at(places, len(self.levels))

    def written(self, codes: NDArray[np.int32], uniform: Callable[[int], Array]) -> NDArray[Any]:
        """Values as the party that holds the column would write them; `uniform` draws so many numbers from 0 to 1.

        A level that only takes in missing values is written as a missing value.
        """
        raise NotImplementedError

    def onnx(self, graph: Graph, name: str, mode: Mode) -> str:
        level, step = self._onnx_level(graph, name)
        # The features of the level past the last are NaN, and there are no more: a runtime stops there, by name.
        codes = np.vstack([self.codes, np.full((1, self.codes.shape[1]), np.nan)])
        flat = graph.add("Squeeze", [level, graph.constant([1])])
        return graph.add("Gather", [graph.constant(codes), flat], attributes={"axis": 0}, step=step)

    def _onnx_level(self, graph: Graph, name: str) -> tuple[str, str | None]:
        """The number of a value's level in a graph, the one past the last where it is refused; and a step's name."""
        raise NotImplementedError


class TextKind(LevelKind):
    """A kind whose levels are texts."""

    spelling: Spelling
    reads = "levels"

    @property
    def other(self) -> str | None:
        """The level that takes in what is not declared."""
        return None

    def coded(self, column: Any) -> Coded:
        return levels(column, self)

    def written(self, codes: NDArray[np.int32], uniform: Callable[[int], Array]) -> NDArray[Any]:
        spelt: list[str | None] = list(self.levels)
        if self.missing is not None and self.missing == self.spelling.spell(MISSING):
            spelt[self.levels.index(self.missing)] = None
        return np.asarray(np.array(spelt, dtype=object)[codes])

    def _onnx_level(self, graph: Graph, name: str) -> tuple[str, str | None]:
        codes = {level: code for code, level in enumerate(self.levels)}
        known = {spelt: code for level, code in codes.items() for spelt in self._spellings(level)} | codes
        known[""] = len(codes) if self.missing is None else codes[self.missing]
        attributes = {
            "keys_strings": list(known),
            "values_int64s": list(known.values()),
            "default_int64": len(codes) + 1 if self.other is None else codes[self.other],
        }
        value = graph.input(name, text=True)
        level = graph.add("LabelEncoder", [value], attributes=attributes, domain="ai.onnx.ml")
        return level, f"{name}: every category is one that is declared"

    def _spellings(self, level: str) -> Iterator[str]:
        # Whole numbers become such where a cell beside them was empty.
        texts = [level, f"{level}.0"] if level.removeprefix("-").isdecimal() else [level]
        forms = ["", *(form for form in get_args(UnicodeForm) if form != "exact")]
        for text, case, form, before, after in itertools.product(texts, _CASES, forms, ["", " "], ["", " "]):
            spelt = case(text)
            spelt = f"{before}{unicodedata.normalize(form, spelt) if form else spelt}{after}"
            if self.spelling.spell(spelt) in texts:
                yield spelt


@dataclass(frozen=True)
class BinaryColumn(TextKind):
    """One of two declared values; the second is the +1."""

    name: str
    values: tuple[str, str]
    missing: str | None = None
    spelling: Spelling = AS_WRITTEN
    kind = "binary"

    def __post_init__(self) -> None:
        where, what = ("columns", self.name, "values"), f"column {self.name!r}"
        values = tuple(self.spelling.spell(value) for value in self.values)
        check_values(where, what, values, least=2)
        if len(values) != 2:
            raise Misdeclared(
                where, f"{what}: a binary column has two values, not {len(values)}. Declare it categorical."
            )
        object.__setattr__(self, "values", values)
        _check_member(self, "missing")

    @property
    def levels(self) -> tuple[str, ...]:
        return self.values

    def to_data(self) -> dict[str, object]:
        data: dict[str, object] = {"name": self.name, "kind": self.kind, "values": list(self.values)}
        return {**data, **_missing_data(self.missing, own=False), **self.spelling.to_data()}

    def features(self, mode: Mode) -> tuple[str, ...]:
        return (self.name,)


@dataclass(frozen=True)
class CategoricalColumn(TextKind):
    """One of k declared categories; `other`, itself declared, takes in whatever is not."""

    name: str
    categories: tuple[str, ...]
    other: str | None = None
    missing: str | None = None
    spelling: Spelling = AS_WRITTEN
    kind = "categorical"

    def __post_init__(self) -> None:
        categories = tuple(self.spelling.spell(value) for value in self.categories)
        check_values(("columns", self.name, "categories"), f"column {self.name!r}", categories, least=2)
        object.__setattr__(self, "categories", categories)
        _check_member(self, "other")
        _check_member(self, "missing")

    @property
    def levels(self) -> tuple[str, ...]:
        return self.categories

    def to_data(self) -> dict[str, object]:
        data: dict[str, object] = {
            "name": self.name,
            "kind": self.kind,
            "categories": list(self.categories),
        }
        other = {} if self.other is None else {"other": self.other}
        return {**data, **other, **_missing_data(self.missing, own=False), **self.spelling.to_data()}


@dataclass(frozen=True)
class BinnedColumn(LevelKind):
    """Numbers sorted into bins between declared edges; each bin is a category and begins at its lower edge.

    Below the first edge and from the last one up are bins too, so nothing lies outside. `missing` is a number,
    whose bin then takes in missing values, or "category", which gives them a bin of their own.

    `ordered` bins are told apart by the edges that a number has passed, others by being different. `low` and `high`,
    the ends of the outer bins, `transform`, the scale on which bins are even, and `whole`, that only whole numbers
    occur, say nothing about where a number belongs: synthetic people are drawn by them.
    """

    name: str
    edges: tuple[float, ...]
    missing: float | Literal["category"] | None = None
    ordered: bool = False
    low: float | None = None
    high: float | None = None
    transform: Transform = "none"
    whole: bool = False
    kind = "bins"
    reads = "numbers"

    def __post_init__(self) -> None:
        where, what = ("columns", self.name), f"column {self.name!r}"
        object.__setattr__(self, "edges", _checked_edges((*where, "edges"), what, self.edges))
        check_transform(where, what, self.transform, self.edges[0] if self.low is None else self.low)
        for key, end, first in (("low", self.low, self.edges[0]), ("high", self.high, self.edges[-1])):
            if end is None:
                continue
            if not _is_number(end):
                raise Misdeclared((*where, key), f"{what}: {key} = {end!r} is not a finite number.")
            if not (end < first if key == "low" else end >= first):
                side = "below its first edge" if key == "low" else "at or above its last edge"
                raise Misdeclared((*where, key), f"{what}: {key} = {end:g} is not {side}, {first:g}.")
            object.__setattr__(self, key, float(end))
        for low, high in itertools.pairwise(self.edges) if self.whole else ():
            if math.ceil(low) >= high:
                raise Misdeclared(
                    (*where, "whole"),
                    f"{what}: no whole number lies from {low:g} to below {high:g}, so nobody can be in that bin. "
                    "Declare fewer bins.",
                )
        if self.missing is None or self.missing == "category":
            return
        if not _is_number(self.missing):
            raise Misdeclared(
                (*where, "missing"), f"{what}: missing = {self.missing!r} is not a finite number."
            )
        object.__setattr__(self, "missing", float(self.missing))

    @property
    def levels(self) -> tuple[str, ...]:
        spelt = [_short(edge) for edge in self.edges]
        between = [f"{low} to {high}" for low, high in itertools.pairwise(spelt)]
        own = (MISSING,) if self.missing == "category" else ()
        return (f"below {spelt[0]}", *between, f"from {spelt[-1]}", *own)

    @property
    def codes(self) -> Array:
        if self.ordered:
            return thermometer(len(self.edges) + 1, missing=self.missing == "category")
        return simplex(len(self.levels))

    @property
    def sentence(self) -> str:
        return f"number in {'ordered ' if self.ordered else ''}bins: {', '.join(self.levels)}"

    @property
    def open_ended(self) -> bool:
        return self.low is None or self.high is None

    @property
    def ends(self) -> tuple[float, ...]:
        """Where bins begin, and where the last one ends; an outer bin without an end is as wide as its neighbour."""
        scale, back = self._scales
        inner = [scale(edge) for edge in self.edges]
        width = inner[1] - inner[0] if len(inner) > 1 else 1.0
        last = inner[-1] - inner[-2] if len(inner) > 1 else 1.0
        low = back(inner[0] - width) if self.low is None else self.low
        high = back(inner[-1] + last) if self.high is None else self.high
        return (low, *self.edges, high)

    @property
    def middles(self) -> Array | None:
        """The middle of each bin on the declared scale, in the column's own units; none of the bin of no number."""
        if self.missing == "category":
            return None
        scale, back = self._scales
        pairs = itertools.pairwise(self.ends)
        return np.array([back((scale(low) + scale(high)) / 2.0) for low, high in pairs])

    def to_data(self) -> dict[str, object]:
        data: dict[str, object] = {"name": self.name, "kind": self.kind, "edges": list(self.edges)}
        ends = {key: end for key, end in (("low", self.low), ("high", self.high)) if end is not None}
        scale = {} if self.transform == "none" else {"transform": self.transform}
        marks = {key: True for key in ("ordered", "whole") if getattr(self, key)}
        return {**data, **ends, **scale, **marks, **_missing_data(self.missing)}

    def coded(self, column: Any) -> Coded:
        return bins(column, self.edges, self._missing_bin)

    def written(self, codes: NDArray[np.int32], uniform: Callable[[int], Array]) -> NDArray[Any]:
        ends, (scale, _) = np.array(self.ends), self._scales
        scaled = np.array([scale(end) for end in ends])
        known = np.minimum(codes, len(ends) - 2)
        raw = scaled[known] + uniform(len(codes)) * (scaled[known + 1] - scaled[known])
        values = np.expm1(raw) if self.transform == "log1p" else raw
        below = np.nextafter(ends[1:], -np.inf)
        below[-1] = ends[-1]
        values = np.clip(values, ends[:-1][known], below[known])
        missing = codes > len(self.edges)
        if self.whole:
            first = np.ceil(ends[:-1])
            last = np.maximum(np.ceil(ends[1:]) - 1, first)
            last[-1] = max(math.floor(ends[-1]), first[-1])
            values = np.clip(np.floor(values), first[known], last[known])
            if not missing.any():
                return np.asarray(values, dtype=np.int64)
        if missing.any():
            values[missing] = np.nan
        return np.asarray(values)

    @property
    def _missing_bin(self) -> int | None:
        if self.missing is None:
            return None
        if self.missing == "category":
            return len(self.edges) + 1
        return int(np.searchsorted(self.edges, self.missing, side="right"))

    @property
    def _scales(self) -> tuple[Callable[[float], float], Callable[[float], float]]:
        return (math.log1p, math.expm1) if self.transform == "log1p" else (float, float)

    def _onnx_level(self, graph: Graph, name: str) -> tuple[str, str | None]:
        value, bad = graph.input(name), len(self.levels)
        passed = graph.whole(graph.add("GreaterOrEqual", [value, graph.constant([self.edges])]))
        code = graph.add("ReduceSum", [passed, graph.constant([1])], attributes={"keepdims": 1})
        code = graph.either(graph.add("IsInf", [value]), bad, code)
        missing = bad if self._missing_bin is None else self._missing_bin
        return graph.either(graph.add("IsNaN", [value]), missing, code), None


def level_at(places: ArrayLike, count: int) -> NDArray[np.int32]:
    """Numbers of levels at these places, from 0 to 1, of so many."""
    return np.minimum((np.asarray(places) * count).astype(np.int32), np.int32(count - 1))


def _checked_edges(where: tuple[str, ...], what: str, edges: tuple[float, ...]) -> tuple[float, ...]:
    if not edges:
        raise Misdeclared(where, f"{what}: edges declares no edge; one makes two bins.")
    for edge in edges:
        if not _is_number(edge):
            raise Misdeclared(where, f"{what}: the edge {edge!r} is not a finite number.")
    numbers = tuple(float(edge) for edge in edges)
    if any(not left < right for left, right in itertools.pairwise(numbers)):
        raise Misdeclared(where, f"{what}: edges must rise, each above the one before it.")
    return numbers


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _check_member(column: BinaryColumn | CategoricalColumn, key: str) -> None:
    if (value := getattr(column, key)) is not None:
        spelt = column.spelling.spell(value)
        check_member(("columns", column.name, key), f"column {column.name!r}", spelt, among=column.levels)
        object.__setattr__(column, key, spelt)


def _missing_data(missing: object, *, own: bool = True) -> dict[str, object]:
    if missing is None:
        return {}
    return {"missing": "category"} if own and missing == "category" else {"missing": {"value": missing}}


def _short(number: float) -> str:
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
