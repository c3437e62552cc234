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
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colonnade.data.block import Block, code_mapping
from colonnade.data.declaring import nearest_name
from colonnade.data.forms import columns_from_data
from colonnade.data.kinds import Column
from colonnade.data.maps import FeatureMap, map_from_data
from colonnade.data.number_codes import Mode
from colonnade.errors import SchemaError

MODES: tuple[Mode, ...] = ("circle", "linear")
# Rows are encoded in pieces whose features stay in the second-level cache.
_PIECE = 4096


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
        plain = tuple(name for column in self.plain for name in column.features(self.mode))
        if self.map is None:
            return plain
        return plain + self.map.rule.names(tuple(column.name for column in self.mapped))

    @cached_property
    def spans(self) -> Mapping[str, slice]:
        spans, start = {}, 0
        for column in self.plain:
            width = len(column.features(self.mode))
            spans[column.name] = slice(start, start + width)
            start += width
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
                    + nearest_name(column.name, values.columns)
                )
        return values

    def pieces(self, block: Block, *, scale: float = 1.0) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """The features times `scale`, feature-major, some rows at a time; each piece is overwritten by the next."""
        scratch = np.empty((self.width, min(_PIECE, block.rows)))
        writers = [
            (scratch[self.spans[column.name]], block.columns[column.name], column.writer(self.mode, scale))
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
        return {
            column.name: column.decoded(given[:, self.spans[column.name]], self.mode)
            for column in self.columns
        }

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
