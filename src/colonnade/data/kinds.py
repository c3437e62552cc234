"""What is declared about one column, and never measured: a class for each kind of column; those of levels in `levels`.

A bound or a category read from the data would be a release, so each comes from a person. All of it is public.
`missing` is what a missing value counts as; without it missing values are refused. Every block of features has norm
at most 1 (docs/proofs/encoding-norm.md).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colonnade.data import coding, declaring
from colonnade.data.arrays import microseconds
from colonnade.data.graph import Graph

MISSING = "missing"
DEFAULT_KNOTS = 8
MOST_BINS = 256
"""Each bin is a feature: more would put most of a release into one column."""
Encoding = Literal["circle", "linear", "hats"]
ENCODINGS: tuple[Encoding, ...] = ("circle", "linear", "hats")
Writer = Callable[[NDArray[Any], coding.Array], None]
"""Writes the features of some coded values into an array, a row for each feature."""
# Where the effect of a number is shown, from its lower to its upper bound.
_PLACES = (-1.0, -0.5, 0.0, 0.5, 1.0)


class Column(coding.Declared):
    """What every kind of column says of itself."""

    name: str
    described: ClassVar[tuple[str, ...]] = ()
    """What a description says even where it is as usual."""

    def to_data(self) -> dict[str, object]:
        """A description from which `columns_from_data` makes the same column: what is not as usual."""
        data: dict[str, object] = {"name": self.name, "kind": self.kind}
        for field in fields(self):
            value = getattr(self, field.name)
            if value == field.default and field.name not in self.described:
                continue
            value = value.isoformat() if isinstance(value, date) else value
            if isinstance(value, declaring.Spelling):
                data |= value.to_data()
            elif field.name == "missing":
                own = value == "category" and self.reads != "levels"
                data["missing"] = value if own else {"value": value}
            else:
                data[field.name] = list(value) if isinstance(value, tuple) else value
        return data

    @property
    def ordered(self) -> bool:
        """Whether what is learnt of it is a line along its values, and not a bar for each."""
        return True

    @property
    def open_ended(self) -> bool:
        """Whether how far its values reach is a guess."""
        return False

    @property
    def middles(self) -> coding.Array | None:
        """A number for each level, where there is one."""
        return None

    @property
    def levels(self) -> tuple[str, ...]:
        """Its values in order of their codes; none where it is a number."""
        return ()

    @property
    @abstractmethod
    def sentence(self) -> str:
        """What is declared, in words."""

    @abstractmethod
    def features(self, mode: coding.Mode) -> tuple[str, ...]:
        """A readable name for each feature; `job:clerk` weighs clerks against the categories before them."""

    @abstractmethod
    def writer(self, mode: coding.Mode, scale: float) -> Writer:
        """What turns coded values into features times `scale`."""

    @abstractmethod
    def shown(self, mode: coding.Mode) -> tuple[list[str], coding.Array]:
        """Some values in words, and the features of each."""

    @abstractmethod
    def score_range(self, weights: coding.Array, mode: coding.Mode) -> tuple[float, float]: ...

    def natural(self, coded: NDArray[Any]) -> NDArray[Any]:
        """Coded values as a party's own function takes them."""
        return coded

    @abstractmethod
    def onnx(self, graph: Graph, name: str, mode: coding.Mode) -> str:
        """Its block in a graph, from an input of that name, in doubles; what would be refused becomes NaN.

        Text that is neither a usual spelling of a level nor surely the declared `other` stops the graph.
        """


class NumberKind(Column):
    missing: Any
    transform: declaring.Transform = "none"

    @property
    @abstractmethod
    def bounds(self) -> tuple[float, float]: ...

    @property
    def range(self) -> tuple[float, float]:
        low, high = self.bounds
        return (math.log1p(low), math.log1p(high)) if self.transform == "log1p" else (low, high)

    @property
    @abstractmethod
    def fill(self) -> float | None:
        """The number that a missing one counts as, if that is what is declared."""

    def shape(self, mode: coding.Mode) -> coding.NumberCode:
        return coding.NumberCode(mode, missing=self.missing == "category")

    def coded(self, column: Any) -> coding.Coded:
        fill = math.nan if self.missing == "category" else self.fill
        return coding.bounded(self._read(column), *self.bounds, fill=fill)

    def features(self, mode: coding.Mode) -> tuple[str, ...]:
        code = self.shape(mode)
        knots = self._back(np.linspace(*self.range, code.knots)) if code.knots else np.empty(0)
        return code.names(self.name, knots)

    def writer(self, mode: coding.Mode, scale: float) -> Writer:
        code, (low, high) = self.shape(mode), self.range
        circle = code.shape == "circle"
        size = scale if code.plain and not circle else 1.0

        def place(values: NDArray[Any], u: coding.Array) -> None:
            np.subtract(np.log1p(values) if self.transform == "log1p" else values, low, out=u)
            np.multiply(u, 2.0 * size / (high - low), out=u)
            np.subtract(u, size, out=u)

        def plain(values: NDArray[Any], target: coding.Array) -> None:
            u = target[0]
            place(values, u)
            if circle:
                u *= math.pi / 2.0
                np.cos(u, out=target[1])
                np.sin(u, out=u)
                target *= scale

        def shaped(values: NDArray[Any], target: coding.Array) -> None:
            u = np.empty(len(values))
            place(values, u)
            np.multiply(code.features(u).T, scale, out=target)

        return plain if code.plain else shaped

    def shown(self, mode: coding.Mode) -> tuple[list[str], coding.Array]:
        code, (low, high) = self.shape(mode), self.range
        places = np.linspace(-1.0, 1.0, code.knots) if code.shape == "hats" else np.array(_PLACES)
        words = [self._words(low + (place + 1.0) * ((high - low) / 2.0)) for place in places.tolist()]
        own = [MISSING] if code.missing else []
        return words + own, code.features(np.append(places, [math.nan] * len(own)))

    def score_range(self, weights: coding.Array, mode: coding.Mode) -> tuple[float, float]:
        return self.shape(mode).score_range(weights)

    def onnx(self, graph: Graph, name: str, mode: coding.Mode) -> str:
        code, raw = self.shape(mode), graph.input(name)
        # The block of a missing number is put in its place below, whatever number it is made of.
        value = graph.bounded(raw, *self.bounds, self.bounds[0] if code.missing else self.fill)
        low, high = self.range
        value = graph.log1p(value) if self.transform == "log1p" else value
        moved = graph.add("Sub", [value, graph.constant(low)])
        scaled = graph.add("Mul", [moved, graph.constant(2.0 / (high - low))])
        return code.onnx(graph, graph.add("Sub", [scaled, graph.constant(1.0)]), raw)

    def _back(self, values: coding.Array) -> coding.Array:
        return np.expm1(values) if self.transform == "log1p" else values

    @abstractmethod
    def _read(self, column: Any) -> coding.Read: ...

    @abstractmethod
    def _words(self, value: float) -> str:
        """A value on the scale of the transform, as its owner would write it."""

    @property
    def _absent(self) -> str:
        return ", or missing" if self.missing == "category" else ""


@dataclass(frozen=True)
class NumericColumn(NumberKind):
    """Numbers between declared bounds; what lies outside is clipped and counted. `knots` are the corners of "hats".

    `missing` is a number within the bounds, or "category", which gives missing numbers a feature of their own.
    """

    name: str
    low: float
    high: float
    transform: declaring.Transform = "none"
    missing: float | Literal["category"] | None = None
    encoding: Encoding | None = None
    knots: int | None = None
    kind = "numeric"
    reads = "numbers"
    centred = True
    described = ("transform",)

    def __post_init__(self) -> None:
        declared = declaring.Declaration.of_column(self.name)
        declared.check_bounds(self.low, self.high)
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))
        declared.check_transform(self.transform, self.low)
        if self.transform == "log1p":
            replace(declared, what=f"{declared.what} after log1p").check_bounds(*self.range)
        if self.missing is not None and self.missing != "category":
            declared.check_missing(self.missing, self.low, self.high)
            object.__setattr__(self, "missing", float(self.missing))
        if self.encoding is not None:
            declared.check_choice("encoding", self.encoding, ", ".join(ENCODINGS), ENCODINGS)
        if self.encoding == "hats":
            knots = DEFAULT_KNOTS if self.knots is None else self.knots
            declared.check_whole("knots", knots, low=3, high=MOST_BINS)
            object.__setattr__(self, "knots", knots)
        elif self.knots is not None:
            said = 'knots are those of encoding = "hats". Write that, or leave them out.'
            raise declared.wrong("knots", said)

    @property
    def fill(self) -> float | None:
        return None if self.missing == "category" else self.missing

    @property
    def bounds(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def sentence(self) -> str:
        transform = ", log1p" if self.transform == "log1p" else ""
        coded = f", in {self.knots} hats" if self.encoding == "hats" else ""
        coded = f", {self.encoding}" if self.encoding in ("circle", "linear") else coded
        return f"number from {self.low:g} to {self.high:g}{self._absent}{transform}{coded}"

    def shape(self, mode: coding.Mode) -> coding.NumberCode:
        return coding.NumberCode(self.encoding or mode, self.knots or 0, self.missing == "category")

    def at(self, places: ArrayLike) -> NDArray[Any]:
        low, high = self.range
        return np.clip(self._back(low + np.asarray(places) * (high - low)), self.low, self.high)

    def _read(self, column: Any) -> coding.Read:
        return coding.floats(column)

    def _words(self, value: float) -> str:
        return f"{float(np.clip(self._back(np.array(value)), self.low, self.high)):.4g}"


@dataclass(frozen=True)
class DateColumn(NumberKind):
    """Dates or moments, counted in days; `high` is the start of its day. `missing` is as in `NumericColumn`, a date."""

    name: str
    low: date
    high: date
    format: str | None = None
    missing: date | Literal["category"] | None = None
    kind = "date"
    reads = "dates"

    def __post_init__(self) -> None:
        declared = declaring.Declaration.of_column(self.name)
        for key in ("low", "high", "missing"):
            value = getattr(self, key)
            if not isinstance(value, date) and not (key == "missing" and value in (None, "category")):
                raise declared.wrong(key, f"{key} = {value!r} is not a date like 2000-01-31.")
            if isinstance(value, datetime) and value.tzinfo is not None:
                object.__setattr__(self, key, value.astimezone(UTC).replace(tzinfo=None))
        if not microseconds(self.low) < microseconds(self.high):
            said = f"low = {self.low} is not before high = {self.high}. Declare the range its dates can take."
            raise declared.wrong("low", said)
        declared.check_bounds(*self.range)
        fill, (low, high) = self.fill, self.range
        if fill is not None and not low <= fill <= high:
            said = f"missing = {self.missing} is not from {self.low} to {self.high}, its declared bounds."
            raise declared.wrong("missing", said)
        if self.format is not None and "%" not in self.format:
            said = f"format = {self.format!r} names no part of a date; '%d.%m.%Y' reads 31.12.2000."
            raise declared.wrong("format", said)

    @property
    def bounds(self) -> tuple[float, float]:
        """In days since the start of 1970."""
        return coding.day_of(self.low), coding.day_of(self.high)

    @property
    def fill(self) -> float | None:
        return coding.day_of(self.missing) if isinstance(self.missing, date) else None

    @property
    def sentence(self) -> str:
        return f"date from {self.low.isoformat()} to {self.high.isoformat()}{self._absent}"

    def at(self, places: ArrayLike) -> NDArray[Any]:
        low, high = self.range
        return np.asarray(low + np.asarray(places) * (high - low))

    def _read(self, column: Any) -> coding.Read:
        return coding.days(column, self.format)

    def _words(self, value: float) -> str:
        return str(np.datetime64(round(value * coding.DAY_MICROSECONDS), "us"))[:10]
