"""From declared columns to features: each attribute becomes a block of norm at most 1.

Two modes. "circle" serves classification: a number v in its bounds becomes (sin πu/2, cos πu/2), which lets
a linear rule bend once along each attribute at no cost in norm. "linear" serves regression and principal
components, where the features must stay the columns themselves. A numeric column may declare an encoding of its own
(`colonnade.data.number_codes`). In both, a binary column is ±1, a k-ary one a
vertex of the regular simplex in k − 1 dimensions, and ordered bins have ±1/√(k − 1) for each edge. Columns may go
through a public map instead, as one block (`colonnade.data.maps`). Proof of the norms:
docs/proofs/encoding-norm.md.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colonnade.data.block import Block, code_mapping
from colonnade.data.columns import (
    BinaryColumn,
    BinnedColumn,
    CategoricalColumn,
    Column,
    DateColumn,
    NumericColumn,
    nearest,
)
from colonnade.data.derived import DAY_MICROSECONDS
from colonnade.data.forms import columns_from_data, map_from_data
from colonnade.data.maps import FeatureMap
from colonnade.data.number_codes import Mode, NumberCode, code_of_number, simplex
from colonnade.errors import SchemaError

__all__ = ["MODES", "Encoder", "Mode", "codes_of", "simplex", "thermometer"]

MODES: tuple[Mode, ...] = ("circle", "linear")

# Rows are encoded in pieces whose features stay in the second-level cache.
_PIECE = 4096


def thermometer(levels: int, *, missing: bool = False) -> NDArray[np.float64]:
    """The codes of ordered levels, one row each, norm 1, in k − 1 dimensions: which edges a level has passed.

    Entry a is +1/√(k − 1) from level a + 1 up and −1/√(k − 1) before it. `missing` adds one level that is on neither
    side of any edge and has an axis of its own: 1 there, where the k ordered levels have −1/√k beside their ±1/√k.
    """
    if levels < 2:
        raise ValueError(f"ordered levels are two or more, not {levels}")
    passed = np.where(np.arange(1, levels) <= np.arange(levels)[:, None], 1.0, -1.0)
    if not missing:
        return np.asarray(passed / math.sqrt(levels - 1))
    known = np.column_stack([passed, np.full(levels, -1.0)]) / math.sqrt(levels)
    return np.vstack([known, np.eye(1, levels, levels - 1)])


def codes_of(column: BinaryColumn | CategoricalColumn | BinnedColumn) -> NDArray[np.float64]:
    """The features of each level of a column, one row a level, each of norm 1."""
    if isinstance(column, BinnedColumn) and column.ordered:
        return thermometer(len(column.edges) + 1, missing=column.missing == "category")
    return simplex(len(column.levels))


@dataclass(frozen=True)
class Encoder:
    """How one party's columns become features; public, and enough to encode raw rows anywhere.

    Guarantee: every attribute's block has norm at most 1 up to the rounding of floats, for any values. The
    quantizer, which makes the guarantee that privacy rests on, takes nothing on trust from here.
    """

    columns: tuple[Column, ...]
    mode: Mode
    map: FeatureMap | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode {self.mode!r} is not one of {', '.join(MODES)}")
        if self.map is not None:
            self.map.check(self.columns)
        names = self.feature_names
        twice = sorted(name for name, times in Counter(names).items() if times > 1)
        if twice:
            raise SchemaError(f"two features would be called {twice[0]!r}. Rename one of the columns.")

    @property
    def attributes(self) -> int:
        """m_q: the number of blocks of norm at most 1, one for each column; a map counts as many as it declares."""
        return len(self.plain) + (0 if self.map is None else self.map.attributes(len(self.mapped)))

    @cached_property
    def plain(self) -> tuple[Column, ...]:
        return self.columns if self.map is None else self.map.split(self.columns)[0]

    @cached_property
    def mapped(self) -> tuple[Column, ...]:
        return () if self.map is None else self.map.split(self.columns)[1]

    @property
    def width(self) -> int:
        return len(self.feature_names)

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """One readable name per feature; `job:clerk` weighs clerks against the categories before them."""
        plain = tuple(name for column in self.plain for name in self._names(column))
        if self.map is None:
            return plain
        return plain + self.map.rule.names(tuple(column.name for column in self.mapped))

    @cached_property
    def spans(self) -> Mapping[str, slice]:
        spans, start = {}, 0
        for column in self.plain:
            spans[column.name] = slice(start, start + self._width(column))
            start += self._width(column)
        return spans

    def encode(self, values: Block | Mapping[str, ArrayLike]) -> NDArray[np.float64]:
        """The features of a block of a table, or of raw values by column, one row each."""
        block = self.block(values)
        features = np.empty((block.rows, self.width))
        for rows, piece in self.pieces(block):
            features[rows] = piece.T
        return features

    def block(self, values: Block | Mapping[str, ArrayLike]) -> Block:
        """Raw values as declared; a block already is."""
        if not isinstance(values, Block):
            return code_mapping(values, self.columns)
        for column in self.columns:
            if column.name not in values.columns:
                raise SchemaError(
                    f"the encoder needs column {column.name!r}, which this table does not declare."
                    + nearest(column.name, values.columns)
                )
        return values

    def pieces(self, block: Block, *, scale: float = 1.0) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """The features times `scale`, feature-major, some rows at a time; each piece is overwritten by the next."""
        scratch = np.empty((self.width, min(_PIECE, block.rows)))
        writers = [
            (scratch[self.spans[column.name]], block.columns[column.name], self._writer(column, scale))
            for column in self.plain
        ]
        unmapped = sum(len(target) for target, _, _ in writers)
        mapped = self._mapped_pieces(block, scale)
        for start in range(0, block.rows, _PIECE):
            stop = min(start + _PIECE, block.rows)
            for target, values, write in writers:
                write(values[start:stop], target[:, : stop - start])
            piece = scratch[:, : stop - start]
            if self.mode == "linear":
                np.clip(piece[:unmapped], -scale, scale, out=piece[:unmapped])
            for features in itertools.islice(mapped, 1):
                piece[unmapped:] = features
            yield slice(start, stop), piece

    def _mapped_pieces(self, block: Block, scale: float) -> Iterator[NDArray[np.float64]]:
        """The block of the map, of norm at most √(its attributes) times `scale`, in the same pieces."""
        if self.map is None:
            return
        inner = Encoder(self.mapped, "linear" if self.map.rule.linear else self.mode)
        size = scale * math.sqrt(self.map.attributes(len(self.mapped)))
        for _, inputs in inner.pieces(block):
            yield self.map.rule.apply(inputs, len(self.mapped)) * size

    def decode(self, features: ArrayLike) -> dict[str, NDArray[Any]]:
        """The values whose encoding is nearest: numbers and moments within bounds, and names of levels."""
        if self.map is not None:
            raise SchemaError(
                f"what went through the map {self.map.rule.kind!r} cannot be turned back into columns."
            )
        given = np.asarray(features, dtype=np.float64)
        return {column.name: self._read(column, given[:, self.spans[column.name]]) for column in self.columns}

    def to_data(self) -> dict[str, object]:
        """A public description from which `from_data` makes an equal encoder."""
        mapped = {} if self.map is None else {"map": self.map.to_data()}
        return {"mode": self.mode, "columns": [column.to_data() for column in self.columns], **mapped}

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> Encoder:
        """The encoder that `to_data` described."""
        mode = data.get("mode")
        for known in MODES:
            if mode == known and {"mode", "columns"} <= set(data) <= {"mode", "columns", "map"}:
                columns = columns_from_data(data["columns"])
                return cls(columns, known, map_from_data(data["map"]) if "map" in data else None)
        raise SchemaError(f"an encoder description needs 'columns' and a 'mode' among {', '.join(MODES)}.")

    def _width(self, column: Column) -> int:
        return len(self._names(column))

    def _names(self, column: Column) -> tuple[str, ...]:
        match column:
            case NumericColumn() | DateColumn():
                return code_of_number(column, self.mode).names(column)
            case BinaryColumn():
                return (column.name,)
            case CategoricalColumn() | BinnedColumn():
                # Of ordered bins, an entry is whether this level is reached.
                return tuple(f"{column.name}:{level}" for level in column.levels[1:])

    def _writer(self, column: Column, scale: float) -> _Writer:
        match column:
            case NumericColumn() | DateColumn():
                code = code_of_number(column, self.mode)
                low, high = column.range
                plain = _NumberWriter(
                    low, high, _logarithmic(column), code.plain and code.shape == "circle", scale
                )
                return plain if code.plain else _CodeWriter(replace(plain, scale=1.0), code, scale)
            case BinaryColumn() | CategoricalColumn() | BinnedColumn():
                return _LevelWriter(np.ascontiguousarray(codes_of(column).T * scale))

    def _read(self, column: Column, features: NDArray[np.float64]) -> NDArray[Any]:
        match column:
            case NumericColumn() | DateColumn():
                low, high = column.range
                value = low + (code_of_number(column, self.mode).places(features) + 1.0) * (
                    (high - low) / 2.0
                )
                if isinstance(column, DateColumn):
                    absent = np.isnan(value)
                    days = np.rint(np.where(absent, low, value) * DAY_MICROSECONDS).astype(np.int64)
                    return np.where(absent, np.datetime64("NaT"), days.astype("datetime64[us]"))
                return np.clip(np.expm1(value) if _logarithmic(column) else value, column.low, column.high)
            case BinaryColumn() | CategoricalColumn() | BinnedColumn():
                # All codes have norm 1: the nearest one has the largest inner product.
                nearest_code = np.argmax(features @ codes_of(column).T, axis=1)
                return np.asarray(np.array(column.levels, dtype=object)[nearest_code])


def _logarithmic(column: NumericColumn | DateColumn) -> bool:
    return isinstance(column, NumericColumn) and column.transform == "log1p"


@dataclass(frozen=True)
class _NumberWriter:
    low: float
    high: float
    logarithm: bool
    circle: bool
    scale: float

    def __call__(self, values: NDArray[Any], target: NDArray[np.float64]) -> None:
        u = target[0]
        size = 1.0 if self.circle else self.scale
        if self.logarithm:
            values = np.log1p(values)
        np.subtract(values, self.low, out=u)
        np.multiply(u, 2.0 * size / (self.high - self.low), out=u)
        np.subtract(u, size, out=u)
        if self.circle:
            u *= math.pi / 2.0
            np.cos(u, out=target[1])
            np.sin(u, out=u)
            target *= self.scale


@dataclass(frozen=True)
class _CodeWriter:
    place: _NumberWriter
    code: NumberCode
    scale: float

    def __call__(self, values: NDArray[Any], target: NDArray[np.float64]) -> None:
        u = np.empty((1, len(values)))
        self.place(values, u)
        np.multiply(self.code.features(u[0]).T, self.scale, out=target)


@dataclass(frozen=True)
class _LevelWriter:
    corners: NDArray[np.float64]

    def __call__(self, values: NDArray[Any], target: NDArray[np.float64]) -> None:
        np.take(self.corners, values, axis=1, out=target, mode="clip")


_Writer = _NumberWriter | _CodeWriter | _LevelWriter
