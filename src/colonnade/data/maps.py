"""Public maps that a party sends its own columns through before anything is shared: a class for each kind.

A linear model on mapped columns is a nonlinear model of the columns, at no further cost in rounds or in ε: a map is
declared, looks at one record at a time, and its block has norm at most 1 up to the rounding of floats, for any values
(docs/proofs/encoding-norm.md). Weights of random maps are sums of bits of a public stream: the same on every machine.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union, get_type_hints

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, create_model

from colonnade.data.declaring import Declaration, expand_name, nearest_name
from colonnade.data.documents import Form, check
from colonnade.data.kinds import Column, NumericColumn
from colonnade.errors import Misdeclared, SchemaError
from colonnade.randomness import KeyedRandomness

Array = NDArray[np.float64]
Origin = Literal["middle", "low"]

# More features than this make moment matrices that no party could hold.
MOST_FEATURES = 1 << 14
MOST_SEED = (1 << 63) - 1
MOST_ORIENTATIONS = 64
_BITS = 64
# Pixels run from −1 to 1: histograms shorter than this are those of no edge to speak of, and are not blown up.
_FAINT = 0.01
DECLARED = Declaration(("map",), "map")


class MapRule(ABC):
    __dataclass_fields__: ClassVar[dict[str, Any]]
    kind: ClassVar[str]
    name = ""
    """Which function made the vector, where one did."""
    random: ClassVar[bool] = False
    """Whether its features are drawn, so that they cost more than they bring where people are few."""

    @property
    def linear(self) -> bool:
        """Whether numbers go into it as they are, whatever the task."""
        return True

    def check(self, columns: tuple[Column, ...]) -> None:  # noqa: B027 # most take any
        """Raise `Misdeclared` unless the map can take these columns; any will do where nothing else is said."""

    def attributes(self, columns: int) -> int:
        """How many attributes the block counts as unless declared: as many as there are columns."""
        return columns

    @abstractmethod
    def names(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """A name for every feature."""

    @abstractmethod
    def apply(self, inputs: Array, columns: int) -> Array:
        """Features of encoded rows of so many columns; a row is a column of the array."""

    def to_data(self) -> dict[str, object]:
        return {"kind": self.kind, **{name: getattr(self, name) for name in self.__dataclass_fields__}}


@lru_cache(maxsize=16)
def public_normals(rows: int, columns: int, *, key: str) -> Array:
    """Independent entries of mean 0 and variance 1, nearly normal, from the key: (k − 32)/4 for k set bits among 64.

    They are exact in floating point, so that no library's logarithm or cosine decides their last bit.
    """
    stream = KeyedRandomness(hashlib.sha256(f"colonnade public map: {key}".encode()).digest())
    set_bits = np.bitwise_count(stream.words(rows * columns)).astype(np.float64)
    normals = np.asarray((set_bits - _BITS / 2) / math.sqrt(_BITS / 4)).reshape(rows, columns)
    normals.flags.writeable = False
    return normals


def within_unit_ball(features: Array) -> Array:
    """Vectors (columns) longer than 1 shortened to 1, in place."""
    norms = np.sqrt(np.einsum("ij,ij->j", features, features))
    features /= np.maximum(norms, 1.0)
    return features


class _Random(MapRule):
    """Features drawn from a public seed."""

    features: int
    seed: int
    origin: Origin
    random = True

    @property
    def linear(self) -> bool:
        return self.origin == "low"

    def _check(self, *, least: int) -> None:
        DECLARED.check_choice("origin", self.origin, "middle, low", ("middle", "low"))
        DECLARED.check_whole("features", self.features, low=least, high=MOST_FEATURES)
        DECLARED.check_whole("seed", self.seed, low=0, high=MOST_SEED)

    def _placed(self, inputs: Array, columns: int) -> Array:
        if self.origin == "middle":
            return np.asarray(inputs * (1.0 / math.sqrt(columns)))
        raised = (inputs + 1.0) / 2.0
        norms = np.sqrt(np.einsum("ij,ij->j", raised, raised))
        return np.asarray(raised / np.where(norms > 0, norms, 1.0))


@dataclass(frozen=True)
class RandomRelu(_Random):
    """Random rectified features: max(0, w·x), the first layer of a network whose weights are drawn, not learnt.

    x is the encoded row of the mapped columns, lifted to the unit sphere. A feature is max(0, w·x) − 1/√(2π): the mean
    over w, the same at every x, is taken off, since a constant would use up norm. The factor √(2π/(π − 1)/D) for D
    features makes the squared length 1 on average over w; what is longer is shortened to 1. `origin = "low"` is for
    pixels, spectra and counts: numbers run from 0 to 1, so that what rows have in common does not drown the rest.
    """

    features: int
    seed: int
    origin: Origin = "middle"
    kind = "random-relu"

    def __post_init__(self) -> None:
        self._check(least=1)

    def names(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(f"relu:{number}" for number in range(self.features))

    def apply(self, inputs: Array, columns: int) -> Array:
        lifted = np.empty((len(inputs) + 1, inputs.shape[1]))
        lifted[:-1] = self._placed(inputs, columns)
        short = 1.0 - np.einsum("ij,ij->j", lifted[:-1], lifted[:-1])
        np.sqrt(np.maximum(short, 0.0), out=lifted[-1])
        features = np.asarray(public_normals(self.features, len(lifted), key=f"relu {self.seed}") @ lifted)
        np.maximum(features, 0.0, out=features)
        features -= 1.0 / math.sqrt(2.0 * math.pi)
        features *= math.sqrt(2.0 * math.pi / (math.pi - 1.0) / self.features)
        return within_unit_ball(features)


@dataclass(frozen=True)
class RandomFourier(_Random):
    """Random Fourier features: a linear rule on them is nearly one of a Gaussian kernel (Rahimi and Recht 2007).

    Pairs (cos w·x/ℓ, sin w·x/ℓ) over √(D/2), of norm exactly 1; ℓ is the `scale`, and x is as in `RandomRelu`.
    """

    features: int
    seed: int
    scale: float = 1.0
    origin: Origin = "middle"
    kind = "random-fourier"

    def __post_init__(self) -> None:
        self._check(least=2)
        if self.features % 2:
            said = f"features = {self.features}, but Fourier features come in pairs. Use an even number."
            raise DECLARED.wrong("features", said)
        DECLARED.check_positive("scale", self.scale)
        object.__setattr__(self, "scale", float(self.scale))

    def names(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        half = range(self.features // 2)
        return (*(f"fourier:cos{number}" for number in half), *(f"fourier:sin{number}" for number in half))

    def apply(self, inputs: Array, columns: int) -> Array:
        half = self.features // 2
        weights = public_normals(half, len(inputs), key=f"fourier {self.seed}")
        angles = weights @ (self._placed(inputs, columns) / self.scale)
        features = np.concatenate([np.cos(angles), np.sin(angles)])
        features /= math.sqrt(half)
        return within_unit_ball(features)


@dataclass(frozen=True)
class GradientHistogram(MapRule):
    """How strongly an image changes in each direction, cell by cell (after Dalal and Triggs 2005).

    The mapped columns are pixels, row by row. The length of a pixel's gradient goes to the two nearest directions and
    to the nearest cells, in proportion to closeness; square roots of the sums, less their mean, are brought to norm 1.
    """

    rows: int
    cols: int
    cells: int = 4
    orientations: int = 8
    kind = "gradient-histogram"

    def __post_init__(self) -> None:
        for name in ("rows", "cols"):
            DECLARED.check_whole(name, getattr(self, name), low=2, high=MOST_FEATURES)
        DECLARED.check_whole("cells", self.cells, low=1, high=min(self.rows, self.cols))
        DECLARED.check_whole("orientations", self.orientations, low=2, high=MOST_ORIENTATIONS)
        if self._width > MOST_FEATURES:
            cells = f"{self.cells} × {self.cells} cells of {self.orientations} orientations"
            said = f"{cells} make {self._width} features; {MOST_FEATURES} is the most. Use fewer cells."
            raise DECLARED.wrong("cells", said)

    @property
    def _width(self) -> int:
        return self.cells**2 * self.orientations

    def check(self, columns: tuple[Column, ...]) -> None:
        if len(columns) != self.rows * self.cols:
            pixels = f"an image of {self.rows} × {self.cols} has {self.rows * self.cols} pixels"
            said = f"{pixels}, but {len(columns)} columns go through it."
            raise DECLARED.wrong("rows", f"{said} Declare one numeric column for each pixel, row by row.")
        _check_numeric(self.kind, columns)

    def attributes(self, columns: int) -> int:
        return self.cells**2

    def names(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """A name for every feature: cell, and direction in degrees."""
        return tuple(
            f"gradient:r{row}c{col}:{360 * turn / self.orientations:g}"
            for row in range(self.cells)
            for col in range(self.cells)
            for turn in range(self.orientations)
        )

    def apply(self, inputs: Array, columns: int) -> Array:
        people = inputs.shape[1]
        image = inputs.reshape(self.rows, self.cols, people)
        horizontal, down = _slope(image, axis=1), _slope(image, axis=0)
        length = np.hypot(horizontal, down)
        turn = np.arctan2(down, horizontal) * (self.orientations / (2.0 * math.pi))
        turn %= self.orientations
        tall, wide = _closeness(self.rows, self.cells), _closeness(self.cols, self.cells)
        histogram = np.empty((self.cells, self.cells, self.orientations, people))
        for place in range(self.orientations):
            apart = np.abs(turn - place)
            share = np.maximum(1.0 - np.minimum(apart, self.orientations - apart), 0.0) * length
            by_row = np.tensordot(tall, share, axes=(0, 0))
            histogram[:, :, place] = np.tensordot(by_row, wide, axes=(1, 0)).transpose(0, 2, 1)
        features = np.sqrt(histogram.reshape(self._width, people))
        features -= features.mean(axis=0)
        features /= np.maximum(np.sqrt(np.einsum("ij,ij->j", features, features)), _FAINT)
        return features


@dataclass(frozen=True)
class Ball(MapRule):
    """The mapped columns as one vector of norm at most `bound`, in their own units; longer ones are shortened.

    For embeddings and the like. `name` and `sha256` say which function of other columns made it, if any (`own_maps`).
    """

    bound: float
    name: str = ""
    sha256: str = ""
    kind = "ball"

    def __post_init__(self) -> None:
        DECLARED.check_positive("bound", self.bound)
        object.__setattr__(self, "bound", float(self.bound))
        if self.sha256 and (len(self.sha256) != 64 or set(self.sha256) - set("0123456789abcdef")):
            raise DECLARED.wrong("sha256", "sha256 is not 64 hexadecimal digits.")
        if bool(self.name) != bool(self.sha256):
            raise DECLARED.wrong("name", "a function has a name and a sha256. Write both, or neither.")

    def check(self, columns: tuple[Column, ...]) -> None:
        """Numbers from −bound to bound: no entry of the vector can be larger than the vector."""
        low, high = -self.bound, self.bound
        for column in _check_numeric(self.kind, columns):
            named, declared = f"column {column.name!r}", Declaration(("columns", column.name), "map")
            if column.transform != "none":
                said = f"{named} has a transform, and a ball has a norm in the columns' own units."
                raise declared.wrong("transform", f"{said} Leave the transform out.")
            if column.bounds != (low, high):
                said = f"{named} runs from {column.low:g} to {column.high:g}. In a ball of bound {high:g}"
                raise declared.wrong("low", f"{said} declare low = {low:g} and high = {high:g}.")

    def names(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        return columns

    def apply(self, inputs: Array, columns: int) -> Array:
        return within_unit_ball(np.array(inputs))

    def to_data(self) -> dict[str, object]:
        return {name: value for name, value in super().to_data().items() if value != ""}


@dataclass(frozen=True)
class FeatureMap:
    """A rule, the columns that go through it (none named: all), and as how many attributes of a row's m they count."""

    rule: MapRule
    columns: tuple[str, ...] = ()
    weight: int | None = None

    def __post_init__(self) -> None:
        if self.weight is not None:
            DECLARED.check_whole("weight", self.weight, low=1, high=MOST_FEATURES)
        if len(set(self.columns)) != len(self.columns):
            raise DECLARED.wrong("columns", "a column is named twice.")

    @property
    def name(self) -> str:
        return self.rule.name or self.rule.kind

    def check(self, declared: tuple[Column, ...]) -> None:
        names = [column.name for column in declared]
        for name in self.columns:
            if name not in names:
                raise DECLARED.wrong(
                    "columns", f"column {name!r} is not declared.{nearest_name(name, names)}"
                )
        mapped = self.split(declared)[1]
        if not mapped:
            raise Misdeclared(("map",), "map: no columns are declared that could go through it.")
        self.rule.check(mapped)

    def split(self, declared: tuple[Column, ...]) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
        """The columns that are encoded as usual, and those that go through the map, both in declared order."""
        if not self.columns:
            return (), declared
        chosen = set(self.columns)
        return (
            tuple(column for column in declared if column.name not in chosen),
            tuple(column for column in declared if column.name in chosen),
        )

    def attributes(self, columns: int) -> int:
        return self.weight if self.weight is not None else self.rule.attributes(columns)

    def to_data(self) -> dict[str, object]:
        columns = {"columns": list(self.columns)} if self.columns else {}
        weight = {} if self.weight is None else {"weight": self.weight}
        return {**self.rule.to_data(), **columns, **weight}


def _check_numeric(kind: str, columns: tuple[Column, ...]) -> tuple[NumericColumn, ...]:
    """The columns, each one number a person: not in pieces, and not missing. Any other is refused."""
    numeric = []
    for column in columns:
        if not isinstance(column, NumericColumn):
            raise Misdeclared(
                ("columns", column.name),
                f"map: {kind} needs numbers, and column {column.name!r} is declared otherwise. Declare it numeric, or "
                "name the columns that go through the map (columns = [...]).",
            )
        if column.encoding or column.missing == "category":
            key = "encoding" if column.encoding else "missing"
            said = f"{kind} takes column {column.name!r} as the number it is. Leave {key} out"
            instead = "or name the columns that go through the map (columns = [...])."
            raise Declaration(("columns", column.name), "map").wrong(key, f"{said}, {instead}")
        numeric.append(column)
    return tuple(numeric)


def _slope(image: Array, *, axis: int) -> Array:
    """What comes after each pixel less what comes before it, the edge repeated."""
    size = image.shape[axis]
    after = np.take(image, np.minimum(np.arange(size) + 1, size - 1), axis=axis)
    return np.asarray(after - np.take(image, np.maximum(np.arange(size) - 1, 0), axis=axis))


def _closeness(pixels: int, cells: int) -> Array:
    place = (np.arange(pixels) + 0.5) * cells / pixels - 0.5
    return np.maximum(1.0 - np.abs(place[:, None] - np.arange(cells)), 0.0)


class _MapForm(Form):
    rule: ClassVar[type[MapRule]]
    columns: list[str] = Field(default_factory=list)
    weight: int | None = None

    def feature_map(self) -> FeatureMap:
        rule = self.rule(**{name: getattr(self, name) for name in self.rule.__dataclass_fields__})
        columns = tuple(name for one in self.columns for name in expand_name(one, ("map", "columns")))
        return FeatureMap(rule, columns, self.weight)


def _form(rule: type[MapRule]) -> type[_MapForm]:
    hints, fields = get_type_hints(rule), dataclasses.fields(rule)
    given: dict[str, Any] = {
        one.name: (hints[one.name], ... if one.default is dataclasses.MISSING else one.default)
        for one in fields
    }
    kind: Any = Literal[rule.kind]
    form = create_model(f"_{rule.__name__}", __base__=_MapForm, kind=(kind, ...), **given)
    form.rule = rule
    return form


if TYPE_CHECKING:
    MapForm = _MapForm
else:
    _FORMS = tuple(map(_form, (RandomRelu, RandomFourier, GradientHistogram, Ball)))
    MapForm = Annotated[Union[_FORMS], Field(discriminator="kind")]  # noqa: UP007


class _OneMap(Form):
    map: MapForm


def map_from_data(data: object) -> FeatureMap:
    if data is None:
        raise SchemaError("a map description is empty.")
    return check(_OneMap, {"map": data}, name="map").map.feature_map()
